use crate::common::limit::flag;
use crate::prelude::*;

engine_node! {
    /// Pulls all packets and drops them (`Discarded`): what `Discard` is where packets are pulled.
    Discard: "1/0", "l/l", Sink, Graph;
    example "Idle -> Queue -> Discard;";
    params {
        /// Whether it pulls now.
        key active: bool = true,
        /// Most packets that are pulled at a time.
        key burst: u32 = 32,
    }
    handlers {
        /// Number of packets that were dropped.
        read count = |d, _| Ok(d.state.to_string()),
        /// Sets `count` to 0.
        write reset_counts = |d, _, _| { d.state = 0; Ok(()) },
        /// Whether it pulls.
        read active = |d, _| Ok(d.active.to_string()),
        /// Lets it pull, or not.
        write active = |d, value, _| { d.active = flag(value)?; Ok(()) },
    }
    state u64;
}

impl Behavior for Discard {
    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        for _ in 0..self.burst.max(1) {
            if !self.active {
                return Ran::Idle;
            }
            let Some(packet) = cx.pull(0) else { return Ran::Idle };
            self.state += 1;
            cx.drop(&Reason::DISCARDED, packet);
        }
        Ran::Busy
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<Discard>() {
            self.state = old.state;
        }
    }
}
