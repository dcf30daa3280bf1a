use weir_elements::{Bandwidth, FromArg};

use crate::common::gap::Gap;
use crate::prelude::*;

engine_node! {
    /// Gives packets up to a bandwidth to those who pull.
    ///
    /// After each packet comes a pause that its length fills.
    BandwidthShaper: "1/1", "l/l", Delay, Graph;
    example "Idle -> Queue -> BandwidthShaper(384kbps) -> Discard;";
    params {
        /// Bandwidth.
        pos rate: Bandwidth,
    }
    handlers {
        /// Bandwidth.
        read rate = |s, _| Ok(s.rate.to_string()),
        /// Changes the bandwidth.
        write rate = |s, value, _| {
            s.rate = Bandwidth::from_arg(value)?;
            s.state.reset();
            Ok(())
        },
        /// Forgets the past: the next packet is due at once.
        write reset = |s, _, _| { s.state.reset(); Ok(()) },
    }
    state Gap;
}

impl Behavior for BandwidthShaper {
    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = cx.now();
        if self.rate.0 == 0 {
            return None;
        }
        if !self.state.is_due(now) {
            self.state.due().into_iter().for_each(|due| cx.try_at(due));
            return None;
        }
        let packet = cx.pull(0)?;
        self.state.happened(now, packet.len() as u64, self.rate.0);
        Some(packet)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<BandwidthShaper>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
