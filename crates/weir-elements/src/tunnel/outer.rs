//! What the elements of tunnels share: outer headers, flows of inner packets, identifiers.

use crate::fields::{ether, ipv4, ipv6, ports, udp};
use crate::ip::checks::{check_sum, refuse, whole_payload};
use crate::ip::encap::{Outer, fill_ip, fill_udp, next_id, push_headers};
use crate::prelude::*;
use weir_packet::Checksum;

/// A number that identifies a tunnel, or that of the packet's aggregate annotation.
#[derive(Debug, Clone, Copy)]
pub enum TunnelId {
    /// That of the annotation.
    Anno,
    /// This one.
    Number(u32),
}

/// What a cell has for [`TunnelId::Anno`] and [`OtherEnd::Anno`].
const FROM_ANNO: u64 = 1 << 32;

/// The other end of a tunnel.
#[derive(Debug, Clone, Copy)]
pub enum OtherEnd {
    /// That of the destination annotation.
    Anno,
    /// This one.
    Address(Ipv4Addr),
}

impl FromArg for OtherEnd {
    const SYNTAX: &'static str = "IP address, or ANNO";
    fn from_arg(text: &str) -> Result<OtherEnd, String> {
        if text.trim() == "ANNO" {
            return Ok(OtherEnd::Anno);
        }
        Ipv4Addr::from_arg(text).map(OtherEnd::Address).map_err(|e| format!("{e}; or write ANNO"))
    }
}

impl CellValue for OtherEnd {
    fn bits(self) -> u128 {
        match self {
            OtherEnd::Anno => FROM_ANNO.into(),
            OtherEnd::Address(address) => address.bits(),
        }
    }
    fn show(bits: u128) -> String {
        if bits == FROM_ANNO.into() { "ANNO".into() } else { Ipv4Addr::show(bits) }
    }
}

impl FromArg for TunnelId {
    const SYNTAX: &'static str = "number, or ANNO";
    fn from_arg(text: &str) -> Result<TunnelId, String> {
        if text.trim() == "ANNO" {
            return Ok(TunnelId::Anno);
        }
        u32::from_arg(text).map(TunnelId::Number).map_err(|e| format!("{e}: write a number or ANNO"))
    }
}

impl CellValue for TunnelId {
    fn bits(self) -> u128 {
        match self {
            TunnelId::Anno => FROM_ANNO.into(),
            TunnelId::Number(n) => n.into(),
        }
    }
    fn show(bits: u128) -> String {
        if bits == FROM_ANNO.into() { "ANNO".into() } else { bits.to_string() }
    }
}

impl TunnelId {
    /// Refuses numbers of more than 24 bits.
    pub(super) fn at_most_24_bits(self, name: &str) -> Result<(), String> {
        match self {
            TunnelId::Number(n @ 0x100_0000..) => Err(format!("{name}: {n} is too large; at most 16777215")),
            _ => Ok(()),
        }
    }
}

/// The number that a cell (64 bits) of a [`TunnelId`] says (32 bits).
pub(super) fn tunnel_id(b: &mut Builder, cell: TableId) -> V {
    cell_or_anno(b, cell, anno::AGGREGATE)
}

/// What a cell (64 bits) says, or the annotation at `at` if it says so (32 bits).
fn cell_or_anno(b: &mut Builder, cell: TableId, at: u32) -> V {
    let said = b.read_cell(cell);
    let from_anno = b.ge(said, FROM_ANNO);
    let said = b.resize(W32, said);
    let anno = b.load_anno(W32, at);
    b.select(from_anno, anno, said)
}

/// The address that the outer packet came from goes to the destination annotation: an answer goes there.
pub(super) fn take_other_end(b: &mut Builder) {
    let src = ipv4::SRC.load(b);
    b.store_anno(anno::DST_IP, src);
}

/// The number has to be the expected one, if there is one, and goes to the aggregate annotation.
pub(super) fn take_id(b: &mut Builder, drops: TableId, id: V, expected: Option<u32>, reason: Reason) {
    if let Some(expected) = expected {
        let other = b.ne(id, expected);
        b.when(other, refuse(drops, reason));
    }
    b.store_anno(anno::AGGREGATE, id);
}

/// Cells of an outer header: source (32 bits), destination (64 bits) and identification (16 bits).
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    src: TableId,
    dst: TableId,
    id: TableId,
}

impl Ends {
    pub(super) fn declare(b: &mut Builder, src: Ipv4Addr, dst: OtherEnd) -> Ends {
        Ends {
            src: b.live("src", W32, src.bits()),
            dst: b.live("dst", W64, dst.bits()),
            id: b.cell("id", W16, 0),
        }
    }

    /// Writes the IPv4 header at `net`; the destination annotation is set.
    pub(super) fn fill_ip(self, b: &mut Builder, protocol: u8, ttl: u8) {
        let src = b.read_cell(self.src);
        let dst = cell_or_anno(b, self.dst, anno::DST_IP);
        b.store_anno(anno::DST_IP, dst);
        let id = next_id(b, self.id);
        fill_ip(b, Outer { tos: 0, flags: 0, ttl, protocol }, id, src, dst);
    }
}

/// The sending side of a tunnel over UDP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sending {
    pub(super) ends: Ends,
    /// Source port; `None`: one for each flow.
    pub(super) sport: Option<u16>,
    pub(super) dport: u16,
    pub(super) ttl: u8,
    /// Whether there is a UDP checksum.
    pub(super) checksum: bool,
    /// Where the inner IP header would be: 14 in an Ethernet frame.
    pub(super) inner_at: u32,
}

impl Sending {
    /// Emits the packet behind headers of IPv4 and UDP and one of `len` bytes, which `fill` writes at `transport + 8`;
    /// it gets the length of the packet as it came.
    pub(super) fn encap(self, b: &mut Builder, len: u32, fill: impl FnOnce(&mut Builder, V)) {
        let hash = flow(b, self.inner_at);
        let inner = b.len();
        push_headers(b, 28 + len);
        fill(b, inner);
        self.ends.fill_ip(b, proto::UDP, self.ttl);
        let sport = match self.sport {
            Some(port) => b.constant(W16, port),
            None => {
                // Dynamic ports, as RFC 7348 section 5 recommends.
                let hash = b.resize(W16, hash);
                b.or(hash, 0xc000)
            }
        };
        let dport = b.constant(W16, self.dport);
        fill_udp(b, sport, dport, self.checksum);
        b.emit(0);
    }
}

/// A hash of the flow that the packet belongs to. Sets `net` and `transport` to the headers of IP at `at` and of what
/// it carries, or clears them.
pub(super) fn flow(b: &mut Builder, at: u32) -> V {
    b.clear_mark(Layer::Net);
    b.clear_mark(Layer::Transport);
    let other = move |b: &mut Builder| {
        let none = |b: &mut Builder| b.constant(W32, 0_u32);
        if at < ETHER_LEN {
            return none(b);
        }
        let addresses = |b: &mut Builder| {
            let [front, back] = [0, 6].map(|off| b.load(W64, Layer::Data, off));
            b.hash(&[front, back])
        };
        b.choose_has(Layer::Data, ETHER_LEN, addresses, none)
    };
    let first = b.choose_has(Layer::Data, at + 1, |b| b.load(W8, Layer::Data, at), |b| b.constant(W8, 0_u8));
    let version = b.shr(first, 4);
    let [mut is4, mut is6] = [4, 6].map(|n| b.eq(version, n));
    if at == ETHER_LEN {
        let kind = b.choose_has(Layer::Data, ETHER_LEN, |b| ether::TYPE.load(b), |b| b.constant(W16, 0_u16));
        let type4 = b.eq(kind, ethertype::IPV4);
        let type6 = b.eq(kind, ethertype::IPV6);
        is4 = b.and(is4, type4);
        is6 = b.and(is6, type6);
    }
    b.choose(
        is4,
        |b| b.choose_has(Layer::Data, at + 20, |b| flow4(b, at), other),
        |b| b.choose(is6, |b| b.choose_has(Layer::Data, at + 40, |b| flow6(b, at), other), other),
    )
}

fn flow4(b: &mut Builder, at: u32) -> V {
    b.set_mark(Layer::Net, Layer::Data, at);
    let header = ip_header_len(b);
    let addresses = b.load(W64, Layer::Net, 12);
    let protocol = ipv4::PROTOCOL.load(b);
    let fragment = ipv4::FRAGMENT.load(b);
    let fragment = b.and(fragment, 0x3fff);
    // All fragments of a packet take one path, so none has ports.
    let whole = b.eq(fragment, 0);
    let none = |b: &mut Builder| b.constant(W32, 0_u32);
    let ports = b.choose_has(
        Layer::Net,
        header,
        |b| {
            b.set_mark(Layer::Transport, Layer::Net, header);
            b.choose(whole, |b| ports(b, protocol), none)
        },
        none,
    );
    b.hash(&[addresses, protocol, ports])
}

fn flow6(b: &mut Builder, at: u32) -> V {
    b.set_mark(Layer::Net, Layer::Data, at);
    b.set_mark(Layer::Transport, Layer::Net, 40);
    let [src, dst] = [8, 24].map(|off| b.load(W128, Layer::Net, off));
    let next = ipv6::NEXT_HEADER.load(b);
    let ports = ports(b, next);
    b.hash(&[src, dst, next, ports])
}

/// Both ports (32 bits) of TCP, UDP or SCTP at `transport`, or 0.
fn ports(b: &mut Builder, protocol: V) -> V {
    let [tcp, udp, sctp] = [proto::TCP, proto::UDP, 132].map(|p| b.eq(protocol, p));
    let some = b.or(tcp, udp);
    let some = b.or(some, sctp);
    let none = |b: &mut Builder| b.constant(W32, 0_u32);
    b.choose(some, |b| b.choose_has(Layer::Transport, 4, |b| b.load(W32, Layer::Transport, 0), none), none)
}

/// Goes on with a whole UDP packet to a port, whose checksum is right if it has one, and cut to its length. `min` bytes
/// of its payload, from `transport + 8` on, are known to be there.
pub(super) fn receive_udp(b: &mut Builder, drops: TableId, dport: u16, min: u32, not: Reason) {
    let payload = whole_payload(b, drops, proto::UDP, Reason::new("NotUDP"), 8);
    let port = ports::DST.load(b);
    let other = b.ne(port, dport);
    b.when(other, refuse(drops, not));
    let len = udp::LENGTH.load(b);
    let len = b.resize(W32, len);
    let short = b.lt(len, 8 + min);
    let long = b.lt(payload, len);
    let wrong = b.or(short, long);
    b.when(wrong, refuse(drops, Reason::new("BadLength")));
    let field = udp::CHECKSUM.load(b);
    let summed = b.ne(field, 0);
    b.when(summed, |b| {
        b.require_or(Layer::Transport, len, refuse(drops, Reason::TRUNCATED));
        check_sum(b, drops, len, Some(proto::UDP));
    });
    let lead = b.distance(Layer::Data, Layer::Transport);
    let total = b.add(lead, len);
    b.trim(total);
    b.require_or(Layer::Transport, 8 + min, refuse(drops, Reason::TRUNCATED));
}

/// Removes what stands in front of the `cursor` mark, and the marks of outer headers; the packet leaves.
pub(super) fn strip_to_cursor(b: &mut Builder, drops: TableId) {
    let lead = b.distance(Layer::Data, Layer::Cursor);
    b.require_or(Layer::Data, lead, refuse(drops, Reason::TRUNCATED));
    b.pull(lead);
    for layer in [Layer::Mac, Layer::Net, Layer::Transport, Layer::Cursor] {
        b.clear_mark(layer);
    }
    // What is known of the outer checksum says nothing of the inner one. A checksum that a kernel left unfinished may be
    // the inner one; ports leave alone one that starts before the packet.
    let state = b.load_meta(MetaField::Checksum);
    let partial = b.eq(state, Checksum::Partial as u8);
    b.unless(partial, |b| {
        let unknown = b.constant(W8, Checksum::Unknown as u8);
        b.store_meta(MetaField::Checksum, unknown);
    });
    b.emit(0);
}

/// What the tests of the tunnels share.
#[cfg(test)]
pub(super) mod tests {
    use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};
    use weir_net::checksum::checksum;
    use weir_net::{Ipv4, build};
    use weir_packet::{Checksum, Packet};

    /// An inner packet: IPv4 and UDP.
    pub(crate) fn inner(port: u16) -> Vec<u8> {
        udp(([192, 168, 0, 1], port), ([192, 168, 0, 2], 9), b"inner")
    }

    /// An Ethernet frame of a packet.
    pub(crate) fn frame(ip: &[u8]) -> Vec<u8> {
        let kind = if ip.first().is_some_and(|first| first >> 4 == 6) { 0x86dd } else { 0x0800 };
        build::ethernet(build::DST_ETHER, build::SRC_ETHER, kind, ip)
    }

    /// What comes out of an element for a packet, whose header checksum has to be right.
    pub(crate) fn encapped(e: &mut Harness, p: Packet) -> Vec<u8> {
        let out = e.send_packet(0, p);
        let (_, bytes) = out[0].out();
        assert!(Ipv4::new(bytes).unwrap().checksum_ok());
        bytes.to_vec()
    }

    /// What goes in comes out of both, one after the other, and every prefix of the outer packet is refused.
    pub(crate) fn there_and_back(encap: &mut Harness, decap: (&str, &[&str]), packet: &[u8]) -> Vec<u8> {
        let outer = encapped(encap, Packet::from_bytes(packet).unwrap());
        let mut decap = Harness::new(decap.0, decap.1, 1, 2);
        assert_eq!(decap.send_ip(0, &outer)[0].out(), (0, packet));
        let padded = [&outer[..], &[0; 7]].concat();
        assert_eq!(decap.send_ip(0, &padded)[0].out(), (0, packet), "padding of the link is cut");
        for n in 0..outer.len() {
            assert_eq!(decap.send_ip(0, &outer[..n])[0].out(), (1, &outer[..n]), "cut after {n} bytes");
        }
        outer
    }

    /// Source ports of tunnels over UDP: one for each flow, in the dynamic range, and many of them.
    pub(crate) fn ports_follow_flows(e: &mut Harness, wrap: impl Fn(&[u8]) -> Vec<u8>) {
        let mut port = |p: &[u8]| {
            let outer = encapped(e, Packet::from_bytes(&wrap(p)).unwrap());
            u16::from_be_bytes([outer[20], outer[21]])
        };
        let ports: std::collections::BTreeSet<u16> = (0..100).map(|i| port(&inner(i))).collect();
        assert!(ports.len() > 80 && ports.iter().all(|&p| p >= 0xc000), "{ports:?}");
        assert_eq!(port(&inner(1)), port(&inner(1)));
        let mut six = vec![0x60, 0, 0, 0, 0, 4, 17, 64];
        six.extend([7; 36]);
        let one = port(&six);
        six[41] = 8;
        assert!(one >= 0xc000 && port(&six) != one);
        for n in 0..six.len() {
            assert!(port(&six[..n]) >= 0xc000, "any prefix has a port");
        }
    }

    /// The checksum that the sender's kernel left is completed in the inner packet.
    pub(crate) fn completes_checksums(e: &mut Harness, wrap: impl Fn(&[u8]) -> Vec<u8>) {
        let whole = tcp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), 2, 0, b"hello");
        let mut cut = whole.clone();
        let pseudo = !checksum(&[&whole[12..20], &[0, 6, 0, whole.len() as u8 - 20]].concat());
        cut[36..38].copy_from_slice(&pseudo.to_be_bytes());
        let mut p = ip_packet(&wrap(&cut));
        p.csum = Checksum::Partial as u8;
        let out = e.send_packet(0, p);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert!(p.bytes().ends_with(&wrap(&whole)));
        assert_eq!(p.csum, Checksum::Unknown as u8);
    }
}
