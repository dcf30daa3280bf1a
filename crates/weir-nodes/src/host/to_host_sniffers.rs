use crate::prelude::*;

engine_node! {
    /// Drops packets (`Discarded`), where Click's Linux kernel driver shows them to programs such as tcpdump.
    ///
    /// There is no need for it here: such programs see the packets of an interface by themselves, and `weir capture` those
    /// of any link. It is there so that configurations for that driver run unchanged.
    ToHostSniffers: "1/0", "h/h", Sink, Graph;
    example "Idle -> ToHostSniffers(eth0);";
    params {
        /// Accepted for Click's sake: the interface that packets seem to come from.
        pos devname: String = String::new(),
        /// Accepted for Click's sake: ETHER or IP.
        key r#type: String = String::from("ETHER"),
        /// Accepted for Click's sake.
        key sniffers: bool = true,
        /// Accepted for Click's sake.
        key quiet: bool = false,
        /// Accepted for Click's sake.
        key allow_nonexistent: bool = false,
    }
    handlers {
        /// Number of packets that were dropped.
        read drops = |s, _| Ok(s.state.to_string()),
    }
    state u64;
}

impl Behavior for ToHostSniffers {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        self.state += packets.len() as u64;
        packets.drain(..).for_each(|p| cx.drop(&Reason::DISCARDED, p));
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<ToHostSniffers>() {
            self.state = old.state;
        }
    }
}
