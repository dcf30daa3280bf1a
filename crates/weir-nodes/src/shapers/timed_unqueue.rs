use std::collections::VecDeque;
use std::time::Duration;

use crate::PACKET_BYTES;
use crate::common::delay::nanos;
use crate::prelude::*;

engine_node! {
    /// Pulls up to so many packets in each interval and pushes them out.
    ///
    /// If packets are pushed into it, it keeps up to 1,000 that wait; more are dropped (`Full`).
    TimedUnqueue: "1/1", "a/h", Delay, Graph;
    example "Idle -> Queue -> TimedUnqueue(0.1, 8) -> Discard;";
    example "FromNetfront() -> TimedUnqueue(120, 100) -> ToNetfront();";
    params {
        /// The interval.
        pos interval: Duration,
        /// Most packets in an interval.
        pos burst: u32 = 1,
    }
    check |u| match (u.interval.is_zero(), u.burst) {
        (true, _) => Err("INTERVAL: write a time above 0".into()),
        (_, 0) => Err("BURST: write a number above 0".into()),
        _ => Ok(()),
    };
    handlers {
        /// Number of packets pulled so far.
        read count = |u, _| Ok(u.state.count.to_string()),
    }
    state Intervals;
}

#[derive(Default)]
struct Intervals {
    count: u64,
    /// The end of the interval in which packets were pulled.
    end: u64,
    /// Packets that were pushed in.
    waiting: VecDeque<Packet>,
}

/// Most packets that wait where they are pushed in.
const ROOM: usize = 1000;

impl Behavior for TimedUnqueue {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        for packet in packets.drain(..) {
            if self.state.waiting.len() >= ROOM {
                cx.drop(&Reason::FULL, packet);
                continue;
            }
            cx.waits(&packet);
            self.state.waiting.push_back(packet);
        }
        cx.again();
    }

    fn waiting(&mut self) -> Option<Vec<Packet>> {
        Some(std::mem::take(&mut self.state.waiting).into())
    }

    fn restore(&mut self, packets: Vec<Packet>) {
        self.state.waiting = packets.into();
    }

    fn memory(&self, _inputs: usize) -> u64 {
        ROOM as u64 * PACKET_BYTES
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        let now = cx.now();
        if now < self.state.end {
            return Ran::Until(self.state.end);
        }
        let mut pulled = 0;
        while pulled < self.burst
            && let Some(packet) =
                if cx.input_is_push(0) { self.state.waiting.pop_front() } else { cx.pull(0) }
        {
            cx.emit(0, packet);
            pulled += 1;
        }
        if pulled == 0 {
            return Ran::Idle;
        }
        self.state.count += u64::from(pulled);
        // Intervals follow each other as long as there are packets.
        let (end, interval) = (self.state.end, nanos(self.interval));
        let begin = if now - end < interval { end } else { now };
        self.state.end = begin.saturating_add(interval);
        Ran::Until(self.state.end)
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<TimedUnqueue>() {
            self.state = std::mem::take(&mut old.state);
        }
    }
}
