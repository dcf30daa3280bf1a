//! Numbers of TCP and UDP flows.

use std::collections::HashMap;

use weir_packet::{Layer, Packet};

/// Most flows that are known.
const MOST: usize = 1 << 20;
const FIN: u8 = 1;

/// After how many nanoseconds without a packet a flow is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub tcp: u64,
    pub done: u64,
    pub udp: u64,
}

/// The number of a flow, and a paint that gives the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    pub flow: u32,
    pub paint: u8,
}

/// The label of a packet's flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    /// Its source and destination port.
    Ports([u16; 2]),
    /// Nothing: it is a later fragment.
    Later,
    /// Nothing: it is too short.
    None,
}

/// An IPv4 packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet4<'a> {
    pub src: u32,
    pub dst: u32,
    pub id: u16,
    pub protocol: u8,
    pub label: Label,
    /// Whether it is a fragment.
    pub fragment: bool,
    segment: &'a [u8],
}

impl<'a> Packet4<'a> {
    /// The packet behind the network mark; `None` if it is no IPv4 packet.
    pub fn of(packet: &'a Packet) -> Option<Packet4<'a>> {
        packet.layer(Layer::Net)?;
        Packet4::of_bytes(packet.from_layer(Layer::Net))
    }

    fn of_bytes(ip: &'a [u8]) -> Option<Packet4<'a>> {
        let header = usize::from(ip.first()? & 15) * 4;
        if ip.first()? >> 4 != 4 || header < 20 || ip.len() < header {
            return None;
        }
        let field = word(ip, 6)?;
        let segment = ip.get(header..)?;
        let ports = || Some([word(segment, 0)?, word(segment, 2)?]);
        let label =
            if field & 0x1fff != 0 { Label::Later } else { ports().map_or(Label::None, Label::Ports) };
        Some(Packet4 {
            src: long(ip, 12)?,
            dst: long(ip, 16)?,
            id: word(ip, 4)?,
            protocol: *ip.get(9)?,
            label,
            fragment: field & 0x3fff != 0,
            segment,
        })
    }

    /// The packet that an ICMP error is about (RFC 792).
    pub fn quoted(&self) -> Option<Packet4<'a>> {
        let error = matches!(self.segment.first()?, 3 | 4 | 5 | 11 | 12);
        if !error || self.label == Label::Later {
            return None;
        }
        Packet4::of_bytes(self.segment.get(8..)?)
    }

    fn fin(&self) -> bool {
        self.protocol == 6 && self.segment.get(13).is_some_and(|flags| flags & FIN != 0)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The ends of a flow, the lower one first, and the protocol.
type Key = ([(u32, u16); 2], u8);

/// The flows that are known.
#[derive(Default)]
pub(crate) struct Flows {
    flows: HashMap<Key, Flow>,
    last: u32,
    reaped: u64,
}

struct Flow {
    number: u32,
    /// Whether its first packet came from the higher end.
    from_higher: bool,
    /// The directions in which FIN was seen.
    fins: [bool; 2],
    seen: u64,
}

impl Flows {
    /// Most bytes that they take: the table is twice as large as what is in it, at most.
    pub const MEMORY: u64 = 2 * MOST as u64 * size_of::<(Key, Flow)>() as u64;
}

impl Flow {
    fn is_over(&self, protocol: u8, now: u64, timeouts: &Timeouts) -> bool {
        let timeout = match protocol {
            6 if self.fins == [true, true] => timeouts.done,
            6 => timeouts.tcp,
            _ => timeouts.udp,
        };
        now.saturating_sub(self.seen) > timeout
    }
}

impl Flows {
    /// Number of flows.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Forgets all flows; numbers go on.
    pub fn clear(&mut self) {
        self.flows.clear();
    }

    /// The number of a packet's flow, which it may begin; `None` if there are too many.
    pub fn number(
        &mut self,
        ip: &Packet4<'_>,
        ports: [u16; 2],
        now: u64,
        timeouts: &Timeouts,
    ) -> Option<Number> {
        let (key, higher) = key(ip, ports);
        if self.flows.len() >= MOST && !self.flows.contains_key(&key) {
            return None;
        }
        let last = &mut self.last;
        let mut next = || {
            *last = last.wrapping_add(1);
            Flow { number: *last, from_higher: higher, fins: [false; 2], seen: now }
        };
        let flow = self.flows.entry(key).or_insert_with(&mut next);
        if flow.is_over(ip.protocol, now, timeouts) {
            *flow = next();
        }
        flow.seen = now;
        let back = flow.from_higher != higher;
        if ip.fin()
            && let Some(fin) = flow.fins.get_mut(usize::from(back))
        {
            *fin = true;
        }
        Some(Number { flow: flow.number, paint: u8::from(back) })
    }

    /// The number of a packet's flow, if it is known.
    pub fn find(&self, ip: &Packet4<'_>, now: u64, timeouts: &Timeouts) -> Option<Number> {
        let Label::Ports(ports) = ip.label else { return None };
        let (key, higher) = key(ip, ports);
        let flow = self.flows.get(&key).filter(|f| !f.is_over(ip.protocol, now, timeouts))?;
        Some(Number { flow: flow.number, paint: u8::from(flow.from_higher != higher) })
    }

    /// Forgets flows that are over, if that was done `every` nanoseconds ago.
    pub fn reap(&mut self, now: u64, every: u64, timeouts: &Timeouts) {
        if now.saturating_sub(self.reaped) >= every || self.flows.len() >= MOST {
            self.reaped = now;
            self.flows.retain(|(_, protocol), flow| !flow.is_over(*protocol, now, timeouts));
        }
    }
}

fn key(ip: &Packet4<'_>, [sport, dport]: [u16; 2]) -> (Key, bool) {
    let (a, b) = ((ip.src, sport), (ip.dst, dport));
    if a <= b { (([a, b], ip.protocol), false) } else { (([b, a], ip.protocol), true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { tcp: 1000, done: 10, udp: 100 };

    fn number(flows: &mut Flows, packet: &[u8], now: u64) -> (u32, u8) {
        let ip = Packet4::of_bytes(packet).unwrap();
        let Label::Ports(ports) = ip.label else { panic!() };
        let n = flows.number(&ip, ports, now, &TIMEOUTS).unwrap();
        (n.flow, n.paint)
    }

    fn udp(src: (u8, u16), dst: (u8, u16)) -> Vec<u8> {
        let end = |(host, port): (u8, u16)| ([10, 0, 0, host].into(), port);
        weir_net::build::udp4(end(src), end(dst), b"x").split_off(14)
    }

    #[test]
    fn flows_are_numbered_and_replies_are_known() {
        let mut flows = Flows::default();
        assert_eq!(number(&mut flows, &udp((2, 5), (1, 7)), 0), (1, 0));
        assert_eq!(number(&mut flows, &udp((1, 7), (2, 5)), 1), (1, 1));
        assert_eq!(number(&mut flows, &udp((1, 8), (2, 5)), 2), (2, 0));
        assert_eq!(number(&mut flows, &udp((1, 5), (1, 7)), 3), (3, 0));
        assert_eq!(number(&mut flows, &udp((1, 7), (1, 5)), 4), (3, 1));
        // After the timeout, the same ends are another flow.
        assert_eq!(number(&mut flows, &udp((1, 7), (2, 5)), 200), (4, 0));
        flows.reap(500, 0, &TIMEOUTS);
        assert_eq!(flows.len(), 0);
    }

    #[test]
    fn no_prefix_faults() {
        let packet = udp((1, 2), (3, 4));
        for n in 0..packet.len() {
            if let Some(ip) = Packet4::of_bytes(&packet[..n]) {
                assert!(n >= 20);
                assert_eq!(ip.label == Label::None, n < 24);
                assert!(ip.quoted().is_none());
            }
        }
    }
}
