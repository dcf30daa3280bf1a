use std::collections::{HashMap, VecDeque};

use crate::PACKET_BYTES;
use crate::files::summary::{set_aggregate, set_paint};
use crate::flows::table::{Flows, Label, Number, Packet4, Timeouts};
use crate::prelude::*;

/// A packet is not of TCP or UDP over IPv4, or has no ports that are known.
const NOT_FLOW: Reason = Reason::new("NotFlow");
/// Most fragments that wait for the ports of their packet.
const MOST_WAITING: usize = 4096;

/// Most fragmented packets whose ports are remembered.
const MOST_KNOWN: usize = 1 << 16;

engine_node! {
    /// Numbers the TCP and UDP flows, from 1 on: the number is the packet's aggregate annotation, its paint is 0 in the
    /// direction of the flow's first packet and 1 in the other.
    ///
    /// A flow ends when no packet came for a while, by the packets' times; later packets begin another. Other packets
    /// leave on output 1, or are dropped (`NotFlow`).
    ///
    /// Fragments wait until the ports of their packet are known from its first fragment, and with them the packets behind
    /// them between the same two addresses, so that these stay in order. Those whose first fragment does not come in time
    /// leave on output 1. At most 4,096 packets wait, and 1,048,576 flows are known; what is more counts as no flow.
    AggregateIPFlows: "1/1-2", "a/ah", Delay, Graph;
    example "Idle -> AggregateIPFlows -> AggregateCounter -> Discard;";
    params {
        /// When an open TCP flow ends, in seconds.
        key tcp_timeout: u32 = 86400,
        /// When a TCP flow ends after FIN in both directions.
        key tcp_done_timeout: u32 = 30,
        /// When a UDP flow ends.
        key udp_timeout: u32 = 60,
        /// How long fragments wait.
        key fragment_timeout: u32 = 30,
        /// How often flows that have ended are forgotten.
        key reap: u32 = 1200,
        /// Whether ICMP errors get the number of the flow that they are about, and paint 2 or 3.
        key icmp: bool = false,
        /// Whether fragments wait. Default: if packets are pushed.
        key fragments: Option<bool> = None,
    }
    handlers {
        /// Number of flows that are known.
        read flows = |a, _| Ok(a.state.flows.len().to_string()),
        /// Number of packets that wait.
        read length = |a, _| Ok(a.state.waiting.to_string()),
        /// Forgets all flows; packets that wait leave by the next packet.
        write clear = |a, _, _| { a.state.flows.clear(); a.state.release = true; Ok(()) },
    }
    state Aggregating;
}

#[derive(Default)]
struct Aggregating {
    flows: Flows,
    /// Packets that wait, by the two addresses.
    pairs: HashMap<[u32; 2], VecDeque<Waiting>>,
    waiting: usize,
    /// Numbers of packets whose first fragment came, and when.
    known: HashMap<FragmentKey, (Number, u64)>,
    /// When was looked for what is over.
    reaped: u64,
    /// Whether to give up all that wait.
    release: bool,
    /// What leaves with the next packet, and whether it has a number.
    ready: Vec<(Packet, bool)>,
}

/// The key that the fragments of a packet have in common (RFC 791 3.2).
type FragmentKey = (u32, u32, u16, u8);

struct Waiting {
    packet: Packet,
    key: FragmentKey,
    number: Option<Number>,
}

impl AggregateIPFlows {
    fn timeouts(&self) -> Timeouts {
        let ns = |seconds: u32| u64::from(seconds) * 1_000_000_000;
        Timeouts { tcp: ns(self.tcp_timeout), done: ns(self.tcp_done_timeout), udp: ns(self.udp_timeout) }
    }

    /// Takes a packet, and lets all go that need not wait.
    fn take(&mut self, packet: Packet, holds: bool, out: &mut Vec<(Packet, bool)>) {
        let now = packet.timestamp;
        self.reap(now, out);
        let timeouts = self.timeouts();
        let Some(ip) = Packet4::of(&packet) else { return out.push((packet, false)) };
        if ip.protocol == 1 && self.icmp {
            return match ip.quoted().and_then(|inner| self.state.flows.find(&inner, now, &timeouts)) {
                Some(number) => {
                    let paint = number.paint + 2;
                    out.push((marked(packet, Number { paint, ..number }), true));
                }
                None => out.push((packet, false)),
            };
        }
        if !matches!(ip.protocol, 6 | 17) {
            return out.push((packet, false));
        }
        let key = (ip.src, ip.dst, ip.id, ip.protocol);
        let pair = [ip.src.min(ip.dst), ip.src.max(ip.dst)];
        let number = match ip.label {
            Label::Ports(ports) => self.state.flows.number(&ip, ports, now, &timeouts),
            Label::Later if holds => self.state.known.get(&key).map(|(number, _)| *number),
            Label::Later | Label::None => return out.push((packet, false)),
        };
        if let (Some(number), Label::Ports(_), true) = (number, &ip.label, ip.fragment && holds) {
            if self.state.known.len() < MOST_KNOWN || self.state.known.contains_key(&key) {
                self.state.known.insert(key, (number, now));
            }
            let all = self.state.pairs.get_mut(&pair).into_iter().flatten();
            all.filter(|w| w.key == key).for_each(|w| w.number = Some(number));
        }
        let queue = self.state.pairs.get_mut(&pair);
        match (number, queue) {
            (Some(number), None) => out.push((marked(packet, number), true)),
            (None, _) if !matches!(ip.label, Label::Later) || self.state.waiting >= MOST_WAITING => {
                out.push((packet, false));
            }
            (Some(number), Some(_)) if self.state.waiting >= MOST_WAITING => {
                out.push((marked(packet, number), true));
            }
            (number, _) => {
                self.state.waiting += 1;
                self.state.pairs.entry(pair).or_default().push_back(Waiting { packet, key, number });
                self.advance(pair, out);
            }
        }
    }

    /// Lets packets go from the front of a queue while their numbers are known.
    fn advance(&mut self, pair: [u32; 2], out: &mut Vec<(Packet, bool)>) {
        let Some(queue) = self.state.pairs.get_mut(&pair) else { return };
        while let Some(waiting) = queue.pop_front_if(|w| w.number.is_some()) {
            self.state.waiting -= 1;
            if let Some(number) = waiting.number {
                out.push((marked(waiting.packet, number), true));
            }
        }
        if queue.is_empty() {
            self.state.pairs.remove(&pair);
        }
    }

    /// Gives up fragments that waited too long, and forgets flows that are over.
    fn reap(&mut self, now: u64, out: &mut Vec<(Packet, bool)>) {
        let timeout = u64::from(self.fragment_timeout) * 1_000_000_000;
        let all = std::mem::take(&mut self.state.release);
        let due = now.saturating_sub(self.state.reaped) >= timeout.min(1_000_000_000);
        if !all && !due {
            return;
        }
        self.state.reaped = now;
        self.state.known.retain(|_, (_, since)| !all && now.saturating_sub(*since) < timeout);
        let over = |w: &Waiting| all || now.saturating_sub(w.packet.timestamp) >= timeout;
        let pairs: Vec<_> = self.state.pairs.keys().copied().collect();
        for pair in pairs {
            while let Some(queue) = self.state.pairs.get_mut(&pair)
                && let Some(mut front) = queue.pop_front_if(|w| over(w))
            {
                self.state.waiting -= 1;
                match front.number.take() {
                    Some(number) => out.push((marked(front.packet, number), true)),
                    None => out.push((front.packet, false)),
                }
            }
            self.advance(pair, out);
        }
        self.state.flows.reap(now, u64::from(self.reap) * 1_000_000_000, &self.timeouts());
    }
}

fn marked(mut packet: Packet, number: Number) -> Packet {
    set_aggregate(&mut packet, number.flow);
    set_paint(&mut packet, number.paint);
    packet
}

impl Behavior for AggregateIPFlows {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let holds = self.fragments.unwrap_or(true);
        let mut out = std::mem::take(&mut self.state.ready);
        for packet in packets.drain(..) {
            self.take(packet, holds, &mut out);
        }
        let (_, outputs) = cx.ports();
        for (packet, known) in out {
            if known {
                cx.emit(0, packet);
            } else if outputs > 1 {
                cx.emit(1, packet);
            } else {
                cx.drop(&NOT_FLOW, packet);
            }
        }
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let (_, outputs) = cx.ports();
        loop {
            let mut out = std::mem::take(&mut self.state.ready);
            if out.is_empty() {
                self.take(cx.pull(0)?, false, &mut out);
            }
            let mut out = out.into_iter();
            while let Some((packet, known)) = out.next() {
                if known {
                    self.state.ready = out.collect();
                    return Some(packet);
                } else if outputs > 1 {
                    cx.emit(1, packet);
                } else {
                    cx.drop(&NOT_FLOW, packet);
                }
            }
        }
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<AggregateIPFlows>() {
            self.state = std::mem::take(&mut old.state);
        }
    }

    fn memory(&self, _inputs: usize) -> u64 {
        let known = 2 * MOST_KNOWN * size_of::<(FragmentKey, (Number, u64))>();
        MOST_WAITING as u64 * (PACKET_BYTES + size_of::<Waiting>() as u64) + known as u64 + Flows::MEMORY
    }

    fn waiting(&mut self) -> Option<Vec<Packet>> {
        self.state.waiting = 0;
        let pairs = std::mem::take(&mut self.state.pairs);
        let ready = std::mem::take(&mut self.state.ready).into_iter().map(|(packet, _)| packet);
        Some(ready.chain(pairs.into_values().flatten().map(|w| w.packet)).collect())
    }

    fn restore(&mut self, packets: Vec<Packet>) {
        let mut out = Vec::new();
        packets.into_iter().for_each(|p| self.take(p, true, &mut out));
        self.state.ready = out;
    }
}
