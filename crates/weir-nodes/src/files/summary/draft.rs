use std::net::Ipv4Addr;

use weir_net::checksum::{checksum, pseudo4};
use weir_packet::{Layer, MAX_LEN, Packet};

use super::view::{self, EXTRA_LENGTH, byte, first_fragment, long, word};

const ETHER_LEN: usize = 14;
const IP_LEN: usize = 20;
pub(super) const TCP_LEN: usize = 20;

/// Addresses and ports of packets whose dump does not give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    pub src: Ipv4Addr,
    pub sport: u16,
    pub dst: Ipv4Addr,
    pub dport: u16,
}

/// The values of fields that the dump does not have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Preset {
    pub protocol: u8,
    pub flow: Option<Flow>,
    pub aggregate: Option<u32>,
    /// Minor version of the dump.
    pub minor: u32,
}

/// A packet that is being made from fields. Headers come into being as fields ask for them; bytes that no field
/// sets are zero.
pub(crate) struct Draft {
    pub(super) bytes: Vec<u8>,
    mac: Option<usize>,
    pub(super) net: Option<usize>,
    pub(super) transport: Option<usize>,
    pub(super) is_ip: bool,
    pub(super) icmp_type: Option<u8>,
    pub(super) icmp_code: Option<u8>,
    pub(super) has_ip_options: bool,
    pub(super) has_tcp_options: bool,
    /// Length of the packet that was captured, from its first byte; 0 if the dump does not give it.
    pub(super) want_len: u32,
    pub(super) anno: [u8; 48],
    pub(super) timestamp: u64,
    pub(super) preset: Preset,
    /// The packet would be too long.
    too_long: bool,
}

impl Draft {
    pub fn new(preset: Preset) -> Draft {
        let mut draft = Draft {
            bytes: Vec::with_capacity(128),
            mac: None,
            net: None,
            transport: None,
            is_ip: true,
            icmp_type: None,
            icmp_code: None,
            has_ip_options: false,
            has_tcp_options: false,
            want_len: 0,
            anno: [0; 48],
            timestamp: 0,
            preset,
            too_long: false,
        };
        if let Some(aggregate) = preset.aggregate {
            draft.set_anno(view::AGGREGATE, &aggregate.to_be_bytes());
        }
        draft
    }

    pub(super) fn set_anno(&mut self, at: usize, value: &[u8]) {
        put(&mut self.anno, at, value);
    }

    /// Adds zeros behind the packet.
    pub(super) fn grow(&mut self, n: usize) {
        if self.bytes.len() + n > MAX_LEN {
            self.too_long = true;
        } else {
            self.bytes.resize(self.bytes.len() + n, 0);
        }
    }

    /// Makes the Ethernet header, in front of everything.
    pub(super) fn make_ether(&mut self) {
        if self.mac.is_none() {
            self.mac = Some(0);
            self.bytes.splice(0..0, [0; ETHER_LEN - 2].into_iter().chain([8, 0]));
            self.net = self.net.map(|n| n + ETHER_LEN);
            self.transport = self.transport.map(|t| t + ETHER_LEN);
        }
    }

    /// Writes into the Ethernet header.
    pub(super) fn put_ether(&mut self, at: usize, value: &[u8]) {
        put(&mut self.bytes, at, value);
    }

    /// Where the IP header is or would be.
    pub(super) fn net_at(&self) -> usize {
        self.net.unwrap_or(if self.mac.is_some() { ETHER_LEN } else { 0 })
    }

    /// The IP packet as far as there are bytes.
    pub(super) fn ip(&self) -> &[u8] {
        self.bytes.get(self.net_at()..).unwrap_or(&[])
    }

    /// From the transport header on.
    pub(super) fn segment(&self) -> &[u8] {
        self.transport.and_then(|t| self.bytes.get(t..)).unwrap_or(&[])
    }

    pub(super) fn put_ip(&mut self, at: usize, value: &[u8]) {
        let at = self.net_at() + at;
        put(&mut self.bytes, at, value);
    }

    pub(super) fn put_transport(&mut self, at: usize, value: &[u8]) {
        if let Some(t) = self.transport {
            put(&mut self.bytes, t + at, value);
        }
    }

    /// Length of the IP header in bytes.
    pub(super) fn ip_header_len(&self) -> usize {
        usize::from(byte(self.ip(), 0) & 15) * 4
    }

    pub(super) fn set_ip_header_len(&mut self, len: usize) {
        self.put_ip(0, &[0x40 | (len / 4) as u8 & 15]);
        self.transport = Some(self.net_at() + len.max(IP_LEN));
    }

    /// Makes the IP header, unless the packet is of another kind; false if it is, or is not of that protocol.
    pub(super) fn make_ip(&mut self, protocol: u8) -> bool {
        if !self.is_ip {
            return false;
        }
        if self.net.is_none() {
            self.net = Some(self.net_at());
            self.grow(IP_LEN);
            self.set_ip_header_len(IP_LEN);
            self.put_ip(8, &[100, self.preset.protocol]);
            if let Some(flow) = self.preset.flow {
                self.put_ip(12, &flow.src.octets());
                self.put_ip(16, &flow.dst.octets());
            }
        }
        let is = byte(self.ip(), 9);
        protocol == 0 || is == 0 || is == protocol
    }

    /// Makes the transport header, as long as the length of the packet allows; false for later fragments.
    pub(super) fn make_transport(&mut self) -> bool {
        if !first_fragment(self.ip()) {
            return false;
        }
        let there = self.segment().len();
        let full = match byte(self.ip(), 9) {
            6 => TCP_LEN,
            17 | 136 | 1 => 8,
            33 => 12,
            _ => return true,
        };
        let at = self.transport.unwrap_or(0);
        let len = match self.want_len as usize {
            0 => full,
            want => full.min(want.saturating_sub(at)),
        };
        if there >= 8 || there >= len {
            return true;
        }
        self.grow(len - there);
        if byte(self.ip(), 9) == 6 {
            self.put_transport(12, &[0x50]);
        }
        if let Some(flow) = self.preset.flow
            && byte(self.ip(), 9) != 1
        {
            self.put_transport(0, &flow.sport.to_be_bytes());
            self.put_transport(2, &flow.dport.to_be_bytes());
        }
        true
    }

    /// The packet; `None` if it would be too long. With `checksum`, it has all bytes of the IP length, and right
    /// checksums.
    pub fn finish(mut self, checksum: bool) -> Option<Packet> {
        if self.preset.flow.is_some() {
            self.make_ip(0);
        }
        if self.is_ip && self.net.is_some() {
            self.make_transport();
            self.set_lengths(checksum);
        }
        if self.too_long {
            return None;
        }
        if let Some(extra) = self.want_len.checked_sub(self.bytes.len() as u32) {
            self.set_anno(EXTRA_LENGTH, &extra.to_be_bytes());
        }
        let mut packet = Packet::from_bytes(&self.bytes).ok()?;
        let (data, end) = (packet.data(), packet.end());
        let mark = |at: Option<usize>| at.map(|at| data + at as u32).filter(|&at| at <= end);
        let (mac, net, transport) = (mark(self.mac), mark(self.net), mark(self.transport));
        packet.set_layer(Layer::Mac, mac);
        packet.set_layer(Layer::Net, net);
        packet.set_layer(Layer::Transport, transport);
        packet.anno = self.anno;
        packet.timestamp = self.timestamp;
        Some(packet)
    }

    fn set_lengths(&mut self, checksum: bool) {
        let mut ip_len = usize::from(word(self.ip(), 2));
        if ip_len == 0 {
            ip_len = (self.want_len as usize).saturating_sub(self.net_at()).min(0xffff);
            if ip_len == 0 {
                ip_len = self.ip().len().min(0xffff);
            }
            self.put_ip(2, &(ip_len as u16).to_be_bytes());
        }
        let header = self.ip_header_len();
        if byte(self.ip(), 9) == 17 && first_fragment(self.ip()) && word(self.segment(), 4) == 0 {
            self.put_transport(4, &(ip_len.saturating_sub(header) as u16).to_be_bytes());
        }
        let dst = long(self.ip(), 16);
        self.set_anno(0, &dst.to_be_bytes());
        if checksum {
            self.grow(ip_len.saturating_sub(self.ip().len()));
            self.set_checksums();
        }
    }

    fn set_checksums(&mut self) {
        let header = self.ip_header_len();
        self.put_ip(10, &[0, 0]);
        let sum = checksum(self.ip().get(..header).unwrap_or(&[]));
        self.put_ip(10, &sum.to_be_bytes());
        if word(self.ip(), 6) & 0x3fff != 0 {
            return;
        }
        let protocol = byte(self.ip(), 9);
        let at = match protocol {
            6 => 16,
            17 => 6,
            1 => 2,
            _ => return,
        };
        self.put_transport(at, &[0, 0]);
        let ip = self.ip();
        let (src, dst) = (Ipv4Addr::from(long(ip, 12)), Ipv4Addr::from(last_hop(ip)));
        let pseudo = pseudo4(src, dst, protocol, self.segment().len() as u16);
        let sum = match protocol {
            1 => checksum(self.segment()),
            _ => pseudo.add_bytes(self.segment()).finish(),
        };
        self.put_transport(at, &sum.to_be_bytes());
    }
}

/// The final destination: the last address of a source route, if there is one (RFC 1122 3.2.1.8).
fn last_hop(ip: &[u8]) -> u32 {
    let mut options = ip.get(IP_LEN..usize::from(byte(ip, 0) & 15) * 4).unwrap_or(&[]);
    while let [kind, rest @ ..] = options {
        match kind {
            0 => break,
            1 => options = rest,
            _ => {
                let len = usize::from(byte(rest, 0));
                let Some(option) = options.get(..len).filter(|_| len >= 2) else { break };
                if matches!(kind, 131 | 137) && len >= 7 {
                    return long(option, len - 4);
                }
                options = options.get(len..).unwrap_or(&[]);
            }
        }
    }
    long(ip, 16)
}

/// Writes where there is space.
fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(value) {
        *to = *from;
    }
}
