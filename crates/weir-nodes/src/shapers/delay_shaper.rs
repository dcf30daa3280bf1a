use std::time::Duration;

use crate::PACKET_BYTES;
use crate::common::delay::{Held, seconds};
use crate::prelude::*;

engine_node! {
    /// Gives each packet to those who pull when so much time has passed since its timestamp.
    ///
    /// A packet without a timestamp gets that of its arrival. One packet at most waits here; with it, those behind it
    /// wait as well. The timestamp becomes the time at which the packet leaves.
    DelayShaper: "1/1", "l/l", Delay, Graph;
    example "Idle -> Queue -> DelayShaper(50ms) -> Discard;";
    params {
        /// The delay.
        pos delay: Duration,
    }
    handlers {
        /// The delay.
        read delay = |s, _| Ok(seconds(s.delay)),
        /// Changes the delay of packets that come from now on.
        write delay = |s, value, _| {
            s.delay = <Duration as weir_elements::FromArg>::from_arg(value)?;
            Ok(())
        },
    }
    state Held;
}

impl Behavior for DelayShaper {
    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        match self.state.pull(self.delay, cx) {
            Ok(mut packet) => {
                packet.timestamp = cx.now();
                Some(packet)
            }
            Err(due) => {
                due.into_iter().for_each(|due| cx.try_at(due));
                None
            }
        }
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<DelayShaper>() {
            self.state = std::mem::take(&mut old.state);
        }
    }

    fn memory(&self, _inputs: usize) -> u64 {
        PACKET_BYTES
    }

    fn waiting(&mut self) -> Option<Vec<Packet>> {
        Some(self.state.0.take().into_iter().collect())
    }

    fn restore(&mut self, packets: Vec<Packet>) {
        self.state.0 = packets.into_iter().next();
    }
}
