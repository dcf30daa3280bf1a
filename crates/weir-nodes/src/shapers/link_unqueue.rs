use std::collections::VecDeque;
use std::time::Duration;

use weir_elements::Bandwidth;

use crate::PACKET_BYTES;
use crate::common::delay::{nanos, seconds};
use crate::prelude::*;

engine_node! {
    /// A serial link: pulls packets, and pushes each out after the latency and the time that its bytes take.
    ///
    /// Packets are pulled when the link can take them, and are on it one behind the other. Bytes that a packet had on the
    /// wire and lost in a capture count (the annotation of the extra length). The timestamp becomes the time at which the
    /// packet leaves the link.
    LinkUnqueue: "1/1", "l/h", Delay, Graph;
    example "Idle -> Queue -> LinkUnqueue(5ms, 100kb/s) -> Discard;";
    params {
        /// How long a bit is in flight.
        pos latency: Duration,
        /// Bandwidth.
        pos bandwidth: Bandwidth,
    }
    check |u| if u.bandwidth.0 == 0 { Err("BANDWIDTH: write a bandwidth above 0".into()) } else { Ok(()) };
    handlers {
        /// How long a bit is in flight.
        read latency = |u, _| Ok(seconds(u.latency)),
        /// Bandwidth.
        read bandwidth = |u, _| Ok(u.bandwidth.to_string()),
        /// Number of packets on the link.
        read size = |u, _| Ok(u.state.packets.len().to_string()),
        /// Drops all packets on the link.
        write reset = |u, _, _| { u.state.packets.clear(); Ok(()) },
    }
    state Link;
}

/// Most packets that are pulled or leave at a time.
const BURST: usize = 256;
/// Where the extra length stands in the annotations (4 bytes; Click's layout).
const EXTRA_LENGTH: usize = 28;

#[derive(Default)]
struct Link {
    /// By the time at which they leave.
    packets: VecDeque<Packet>,
    /// Whether the next packet comes right behind the last.
    back_to_back: bool,
}

impl LinkUnqueue {
    /// How long the packet's bytes take, in nanoseconds.
    fn duration(&self, packet: &Packet) -> u64 {
        let extra = packet.anno.get(EXTRA_LENGTH..EXTRA_LENGTH + 4).and_then(|a| a.try_into().ok());
        let extra = extra.map_or(0, u32::from_be_bytes);
        let bytes = packet.len() as u64 + u64::from(extra);
        bytes * 1_000_000_000 / u64::from(self.bandwidth.0.max(1))
    }

    /// Most packets on the link: as many of 64 bytes as it holds, and some.
    fn most(&self) -> u64 {
        let bytes = u128::from(self.bandwidth.0) * self.latency.as_nanos() / 1_000_000_000;
        u64::try_from(bytes / 64).unwrap_or(u64::MAX).saturating_add(BURST as u64)
    }

    /// Pulls packets while there is space on the link. Returns whether there was one to the last.
    fn fill(&mut self, cx: &mut Cx<'_>) -> bool {
        let arrival = cx.now().saturating_add(nanos(self.latency));
        for _ in 0..BURST {
            let last = self.state.packets.back().map(|p| p.timestamp);
            if last.is_some_and(|t| t > arrival) || self.state.packets.len() as u64 >= self.most() {
                break;
            }
            let Some(mut packet) = cx.pull(0) else {
                self.state.back_to_back = false;
                return false;
            };
            let begin = last.filter(|_| self.state.back_to_back).unwrap_or(arrival);
            packet.timestamp = begin.saturating_add(self.duration(&packet));
            cx.waits(&packet);
            self.state.packets.push_back(packet);
            self.state.back_to_back = true;
        }
        true
    }
}

impl Behavior for LinkUnqueue {
    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        let more = self.fill(cx);
        let now = cx.now();
        for _ in 0..BURST {
            let Some(packet) = self.state.packets.pop_front_if(|p| p.timestamp <= now) else { break };
            cx.emit(0, packet);
        }
        let Some(first) = self.state.packets.front().map(|p| p.timestamp) else {
            return if more { Ran::Busy } else { Ran::Idle };
        };
        let last = self.state.packets.back().map_or(first, |p| p.timestamp);
        let space = last.saturating_sub(nanos(self.latency));
        Ran::Until(if more { first.min(space) } else { first })
    }

    fn memory(&self, _inputs: usize) -> u64 {
        self.most().saturating_mul(PACKET_BYTES)
    }

    fn length(&self) -> Option<usize> {
        Some(self.state.packets.len())
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<LinkUnqueue>() {
            self.state = std::mem::take(&mut old.state);
        }
    }

    fn waiting(&mut self) -> Option<Vec<Packet>> {
        Some(std::mem::take(&mut self.state.packets).into())
    }

    fn restore(&mut self, packets: Vec<Packet>) {
        self.state.packets = packets.into();
    }
}
