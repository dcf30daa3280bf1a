use std::collections::VecDeque;

use crate::PACKET_BYTES;
use crate::prelude::*;

engine_node! {
    /// Keeps the packets that come for a function while it is stopped, first in, first out; more than `CAPACITY` are dropped (`Stopped`).
    ///
    /// While it is `STOPPED`, nothing that the function does by itself happens: its timers and tasks wait, and entries of its tables do
    /// not expire. A swap for one that is not stopped sends what waits on in order, before what comes then. It stands before an
    /// input of a function whose document says a `state`.
    ///
    /// One that is `MOVING` is as the one was that it takes the place of, and is stopped and goes on while it runs: so a function that moves
    /// to another node stands still for a moment only. It begins stopped: the data plane may have been lost on the way.
    FunctionGate: "1/1", "h/h", Delay, Graph;
    example "Idle -> FunctionGate(nat, STOPPED true) -> nat :: Null -> Discard;";
    params {
        /// The name of the function among the elements; that of its own elements begin with it.
        pos function: String,
        /// Whether the function is stopped.
        key stopped: bool = false,
        /// Whether it is stopped and goes on while it runs.
        key moving: bool = false,
        /// How many packets it keeps.
        key capacity: u32 = 1000,
    }
    handlers {
        /// Number of packets that wait.
        read length = |g, _| Ok(g.state.packets.len().to_string()),
        /// How many packets it keeps.
        read capacity = |g, _| Ok(g.capacity.to_string()),
        /// Number of packets for which there was no space.
        read drops = |g, _| Ok(g.state.drops.to_string()),
        /// Whether the function is stopped.
        read stopped = |g, _| Ok(g.stopped.to_string()),
    }
    state Fifo;
}

/// Packets that are sent on at a time: fewer than a device sends, so that no queue on the way is filled.
const BATCH: usize = 16;

#[derive(Default)]
struct Fifo {
    packets: VecDeque<Packet>,
    drops: u64,
}

impl FunctionGate {
    /// How many packets may wait. While those go on that waited, others come behind them.
    fn space(&self) -> usize {
        let capacity = self.capacity as usize;
        if self.stopped { capacity } else { 2 * capacity }
    }
}

impl Behavior for FunctionGate {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        for packet in packets.drain(..) {
            if !self.stopped && self.state.packets.is_empty() {
                cx.emit(0, packet);
            } else if self.state.packets.len() < self.space() {
                cx.waits(&packet);
                self.state.packets.push_back(packet);
            } else {
                self.state.drops += 1;
                cx.drop(&Reason::STOPPED, packet);
            }
        }
    }

    fn has_task(&self) -> bool {
        !self.stopped || self.moving
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        if self.stopped {
            return Ran::Idle;
        }
        let n = self.state.packets.len().min(BATCH);
        for packet in self.state.packets.drain(..n) {
            cx.emit(0, packet);
        }
        if self.state.packets.is_empty() { Ran::Idle } else { Ran::Busy }
    }

    fn stops(&self) -> Option<&str> {
        self.stopped.then_some(&*self.function)
    }

    fn stop(&mut self, stopped: bool) -> bool {
        if self.moving {
            self.stopped = stopped;
        }
        self.stopped == stopped
    }

    fn waiting(&mut self) -> Option<Vec<Packet>> {
        Some(std::mem::take(&mut self.state.packets).into())
    }

    /// What came to the function elsewhere, before it moved here, goes before what came here.
    fn restore(&mut self, packets: Vec<Packet>) {
        let came_here = std::mem::replace(&mut self.state.packets, packets.into());
        self.state.packets.extend(came_here);
    }

    fn memory(&self, _inputs: usize) -> u64 {
        2 * u64::from(self.capacity) * PACKET_BYTES
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<FunctionGate>() {
            self.state = std::mem::take(&mut old.state);
            if self.moving {
                self.stopped = old.stopped;
            }
        }
    }
}
