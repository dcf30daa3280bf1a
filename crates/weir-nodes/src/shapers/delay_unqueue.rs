use std::time::Duration;

use crate::PACKET_BYTES;
use crate::common::delay::{Held, seconds};
use crate::prelude::*;

engine_node! {
    /// Pulls packets and pushes each out when so much time has passed since its timestamp.
    ///
    /// A packet without a timestamp gets that of its arrival. One packet at most waits here; with it, those behind it
    /// wait as well. The timestamp becomes the time at which the packet was to leave.
    DelayUnqueue: "1/1", "l/h", Delay, Graph;
    example "Idle -> Queue -> DelayUnqueue(50ms) -> Discard;";
    params {
        /// The delay.
        pos delay: Duration,
    }
    handlers {
        /// The delay.
        read delay = |u, _| Ok(seconds(u.delay)),
        /// Changes the delay of packets that come from now on.
        write delay = |u, value, _| {
            u.delay = <Duration as weir_elements::FromArg>::from_arg(value)?;
            Ok(())
        },
    }
    state Held;
}

/// Most packets that leave at a time.
const BURST: usize = 256;

impl Behavior for DelayUnqueue {
    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        for _ in 0..BURST {
            match self.state.pull(self.delay, cx) {
                Ok(packet) => cx.emit(0, packet),
                Err(due) => return due.map_or(Ran::Idle, Ran::Until),
            }
        }
        Ran::Busy
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<DelayUnqueue>() {
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
