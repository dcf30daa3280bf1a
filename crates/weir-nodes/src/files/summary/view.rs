use weir_packet::{Layer, Packet};

use super::{Absent, Proto};

/// Lowest length of an IPv4 header.
const IP_LEN: usize = 20;
/// Where annotations stand, as in Click (`packet_anno.hh`).
pub(super) const PAINT: usize = 16;
pub(super) const AGGREGATE: usize = 20;
pub(super) const EXTRA_PACKETS: usize = 24;
pub(super) const EXTRA_LENGTH: usize = 28;
pub(super) const FIRST_TIMESTAMP: usize = 32;

/// A packet as fields see it: headers that are there and are sane, without padding behind the IP packet.
pub(crate) struct View<'a> {
    pub packet: &'a Packet,
    /// The IP header and all that follows it, up to the IP length.
    pub net: Option<&'a [u8]>,
    /// From the transport header on.
    pub transport: &'a [u8],
    /// The same, if it is that protocol's and not a later fragment's.
    pub tcp: Option<&'a [u8]>,
    pub udp: Option<&'a [u8]>,
    pub icmp: Option<&'a [u8]>,
    /// Position of the transport header in the buffer.
    pub transport_at: usize,
    /// Position of the IP header in the buffer.
    pub net_at: usize,
    /// Position of the end of the IP packet in the buffer.
    pub end: usize,
    /// Bytes that the packet had and that are not in the buffer; as the annotation says.
    pub extra_length: u32,
    /// What is wrong with the headers.
    pub problem: Option<String>,
    /// When it came, nanoseconds since the epoch.
    pub timestamp: u64,
}

impl<'a> View<'a> {
    /// Looks at a packet. With `careful`, a packet that is shorter than its IP length says is a problem.
    pub fn new(packet: &'a Packet, careful: bool) -> View<'a> {
        let end = packet.end() as usize;
        let mut view = View {
            packet,
            net: None,
            transport: &[],
            tcp: None,
            udp: None,
            icmp: None,
            transport_at: end,
            net_at: end,
            end,
            extra_length: anno_u32(packet, EXTRA_LENGTH),
            problem: None,
            timestamp: packet.timestamp,
        };
        match packet.layer(Layer::Net).map(|at| at as usize).filter(|&at| at <= end) {
            Some(at) => view.look(at, careful),
            None => view.end = end,
        }
        view
    }

    /// Looks at number `i` of the `count` packets that the packet stands for: their times lie between the first
    /// timestamp and the packet's.
    pub fn share(&mut self, i: u32, count: u32) {
        let first = anno_u64(self.packet, FIRST_TIMESTAMP);
        if first != 0 && i + 1 < count {
            let step = self.packet.timestamp.saturating_sub(first) / u64::from(count - 1);
            self.timestamp = first + step * u64::from(i);
        }
    }

    fn look(&mut self, at: usize, careful: bool) {
        let bytes = self.packet.from_layer(Layer::Net);
        self.net_at = at;
        let first = byte(bytes, 0);
        let (version, words) = (first >> 4, first & 15);
        let (header, ip_len) = (usize::from(words) * 4, usize::from(word(bytes, 2)));
        if bytes.len() < 4 {
            return self.bad("truncated IP header".to_owned());
        } else if version != 4 {
            return self.bad(format!("IP version {version}"));
        } else if header < IP_LEN {
            return self.bad(format!("IP header length {words}"));
        } else if ip_len < header {
            return self.bad(format!("IP length {ip_len}"));
        }
        let there = bytes.len() + self.extra_length as usize;
        if bytes.len() > ip_len {
            self.end = at + ip_len;
        } else if careful && there < ip_len {
            self.bad(format!("truncated IP missing {}", ip_len - there));
        }
        let net = bytes.get(..ip_len).unwrap_or(bytes);
        self.net = Some(net);
        // The IP length gives more than 65,535 bytes only with the annotation.
        let longer = net.len() + self.extra_length as usize + (bytes.len() - net.len());
        self.extra_length = if ip_len == 0xffff { longer.saturating_sub(0xffff) as u32 } else { 0 };
        self.transport_at = self.packet.layer(Layer::Transport).map_or(at + header, |t| t as usize);
        self.transport = self.packet.buffer().get(self.transport_at..self.end).unwrap_or(&[]);
        if net.len() <= header || !first_fragment(net) {
            return;
        }
        let t = Some(self.transport);
        match byte(net, 9) {
            1 => self.icmp = t,
            17 => self.udp = t,
            6 => {
                let offset = byte(self.transport, 12) >> 4;
                if self.transport.len() > 12 && offset < 5 {
                    self.bad(format!("TCP header length {offset}"));
                } else {
                    self.tcp = t;
                }
            }
            _ => {}
        }
    }

    fn bad(&mut self, message: String) {
        self.problem.get_or_insert(message);
    }

    /// All bytes of the packet, without padding.
    pub fn data(&self) -> &'a [u8] {
        self.packet.buffer().get(self.packet.data() as usize..self.end).unwrap_or(&[])
    }

    /// The IP packet, if there are `n` bytes of it.
    pub fn ip(&self, n: usize) -> Result<&'a [u8], Absent> {
        self.net.filter(|b| b.len() >= n).ok_or(Absent::Ip)
    }

    /// What to say about a packet in which a field is missing, if it is not just another kind of packet.
    pub fn complaint(&self, absent: Absent) -> Option<String> {
        let (proto, len) = match absent {
            Absent::Silent => return None,
            Absent::Ethernet => return Some("Ethernet header".to_owned()),
            Absent::Ip | Absent::Transport(..) if self.net.is_none() => {
                return Some("no IP header".to_owned());
            }
            Absent::Ip => return Some("truncated IP header capture".to_owned()),
            Absent::Transport(proto, len) => (proto, len),
        };
        let net = self.net.unwrap_or(&[]);
        let (name, right) = match proto {
            Proto::Tcp => ("TCP", byte(net, 9) == 6),
            Proto::Udp => ("UDP", byte(net, 9) == 17),
            Proto::Icmp => ("ICMP", byte(net, 9) == 1),
            Proto::TcpOrUdp => ("TCP/UDP", matches!(byte(net, 9), 6 | 17)),
        };
        if net.len() > 9 && !right {
            None
        } else if !first_fragment(net) {
            Some(format!("fragmented {name} header"))
        } else if self.transport.len() + self.extra_length as usize >= len {
            Some(format!("truncated {name} header capture"))
        } else {
            Some(format!("truncated {name} header"))
        }
    }
}

/// Whether an IPv4 packet is whole, or a first fragment.
pub(super) fn first_fragment(net: &[u8]) -> bool {
    word(net, 6) & 0x1fff == 0
}

pub(super) fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

pub(super) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([byte(bytes, at), byte(bytes, at + 1)])
}

pub(super) fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

/// An annotation of 32 bits.
pub(super) fn anno_u32(packet: &Packet, at: usize) -> u32 {
    long(&packet.anno, at)
}

/// An annotation of 64 bits.
pub(super) fn anno_u64(packet: &Packet, at: usize) -> u64 {
    u64::from(anno_u32(packet, at)) << 32 | u64::from(anno_u32(packet, at + 4))
}

/// The aggregate that a packet belongs to.
pub(crate) fn aggregate(packet: &Packet) -> u32 {
    anno_u32(packet, AGGREGATE)
}

/// How many packets more a packet stands for.
pub(crate) fn extra_packets(packet: &Packet) -> u32 {
    anno_u32(packet, EXTRA_PACKETS)
}

/// How many bytes of the packet were not captured.
pub(crate) fn extra_length(packet: &Packet) -> u32 {
    anno_u32(packet, EXTRA_LENGTH)
}

/// Sets the aggregate that a packet belongs to.
pub(crate) fn set_aggregate(packet: &mut Packet, aggregate: u32) {
    if let Some(place) = packet.anno.get_mut(AGGREGATE..AGGREGATE + 4) {
        place.copy_from_slice(&aggregate.to_be_bytes());
    }
}

/// Sets the paint of a packet.
pub(crate) fn set_paint(packet: &mut Packet, paint: u8) {
    if let Some(place) = packet.anno.get_mut(PAINT) {
        *place = paint;
    }
}
