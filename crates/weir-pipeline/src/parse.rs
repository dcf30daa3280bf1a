//! From a frame's bytes to its fields, and where its headers are.

use weir_net::ethertype::{ARP, IPV4, IPV6, QINQ, VLAN};
use weir_openflow::oxm::Field;

use crate::key::Key;

/// EtherTypes of labels and of provider backbones.
pub const MPLS: u16 = 0x8847;
pub const MPLS_MULTICAST: u16 = 0x8848;
pub const PBB: u16 = 0x88e7;

/// Bytes of an Ethernet header, of a tag, of a label, and of the tag of a provider backbone with its EtherType.
pub const ETHERNET: usize = 14;
pub const TAG: usize = 4;
pub const LABEL: usize = 4;
/// I-TAG (4), and the addresses inside (12).
pub const BACKBONE: usize = 18;

/// Which network header there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    V4,
    V6,
    Arp,
}

/// Where the headers of a frame are. Positions count from its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    /// Where the EtherType behind all VLAN tags stands.
    pub kind_at: usize,
    /// Whether there is a tag.
    pub tagged: bool,
    /// The outermost label.
    pub mpls: Option<usize>,
    /// The network header, if it is not behind labels, and what it is.
    pub network: Option<(Network, usize)>,
    /// The transport header, and its protocol; not of later fragments.
    pub transport: Option<(u8, usize)>,
    /// The option of neighbor discovery that has an address of the link layer: that address.
    pub nd_address: Option<usize>,
    /// Where the number of the transport protocol stands.
    pub protocol_at: Option<usize>,
    /// Behind the last byte of the datagram, where its length is right.
    pub end: usize,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A number of up to 16 bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u128> {
    Some(bytes.get(at..at + len)?.iter().fold(0, |n, &b| n << 8 | u128::from(b)))
}

/// The fields of a frame. Headers that are cut off, or that have a length which cannot be, leave their fields 0.
pub fn parse(bytes: &[u8]) -> (Key, Layout) {
    let (mut key, mut layout) = (Key::default(), Layout::default());
    layout.end = bytes.len();
    // What is missing ends the walk; what was found before stays.
    _ = walk(bytes, &mut key, &mut layout);
    (key, layout)
}

fn walk(b: &[u8], key: &mut Key, layout: &mut Layout) -> Option<()> {
    key.set(Field::EthDst, number(b, 0, 6)?);
    key.set(Field::EthSrc, number(b, 6, 6)?);
    let mut at = 12;
    let mut kind = u16_at(b, at)?;
    while kind == VLAN || kind == QINQ {
        let tag = u16_at(b, at + 2)?;
        let next = u16_at(b, at + 4)?;
        if !layout.tagged {
            key.set(Field::VlanVid, u128::from(tag & 0xfff | 0x1000));
            key.set(Field::VlanPcp, u128::from(tag >> 13));
            layout.tagged = true;
        }
        at += TAG;
        kind = next;
    }
    layout.kind_at = at;
    key.set(Field::EthType, kind.into());
    let body = at + 2;
    match kind {
        IPV4 => ipv4(b, body, key, layout),
        IPV6 => ipv6(b, body, key, layout),
        ARP => arp(b, body, key, layout),
        MPLS | MPLS_MULTICAST => {
            let label = number(b, body, 4)?;
            key.set(Field::MplsLabel, label >> 12);
            key.set(Field::MplsTc, label >> 9 & 7);
            key.set(Field::MplsBos, label >> 8 & 1);
            layout.mpls = Some(body);
            Some(())
        }
        PBB => {
            key.set(Field::PbbIsid, number(b, body + 1, 3)?);
            Some(())
        }
        _ => Some(()),
    }
}

fn ipv4(b: &[u8], at: usize, key: &mut Key, layout: &mut Layout) -> Option<()> {
    let h = b.get(at..at + 20)?;
    let length = usize::from(h[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    if h[0] >> 4 != 4 || length < 20 || b.len() < at + length || total < length {
        return None;
    }
    layout.network = Some((Network::V4, at));
    layout.protocol_at = Some(at + 9);
    layout.end = layout.end.min(at + total);
    key.set(Field::IpDscp, (h[1] >> 2).into());
    key.set(Field::IpEcn, (h[1] & 3).into());
    key.set(Field::IpProto, h[9].into());
    key.set(Field::Ipv4Src, number(h, 12, 4)?);
    key.set(Field::Ipv4Dst, number(h, 16, 4)?);
    let later = (u16::from_be_bytes([h[6], h[7]]) & 0x1fff) != 0;
    if !later {
        transport(b, at + length, h[9], false, key, layout);
    }
    Some(())
}

/// Bits of `OFPXMT_OFB_IPV6_EXTHDR` (section 7.2.3.8).
mod exthdr {
    pub const NONEXT: u16 = 1;
    pub const ESP: u16 = 2;
    pub const AUTH: u16 = 4;
    pub const DEST: u16 = 8;
    pub const FRAG: u16 = 16;
    pub const ROUTER: u16 = 32;
    pub const HOP: u16 = 64;
    pub const UNREP: u16 = 128;
    pub const UNSEQ: u16 = 256;
}

fn ipv6(b: &[u8], at: usize, key: &mut Key, layout: &mut Layout) -> Option<()> {
    let h = b.get(at..at + 40)?;
    if h[0] >> 4 != 6 {
        return None;
    }
    layout.network = Some((Network::V6, at));
    let length = usize::from(u16::from_be_bytes([h[4], h[5]]));
    layout.end = layout.end.min(at + 40 + length);
    let class = h[0] << 4 | h[1] >> 4;
    key.set(Field::IpDscp, (class >> 2).into());
    key.set(Field::IpEcn, (class & 3).into());
    key.set(Field::Ipv6Flabel, number(h, 0, 4)? & 0xf_ffff);
    key.set(Field::Ipv6Src, number(h, 8, 16)?);
    key.set(Field::Ipv6Dst, number(h, 24, 16)?);
    layout.protocol_at = Some(at + 6);
    let (mut next, mut at) = (h[6], at + 40);
    let (mut seen, mut rank, mut later) = (0, 0, false);
    loop {
        // The order that RFC 8200, 4.1 recommends.
        let (bit, order) = match next {
            0 => (exthdr::HOP, 1),
            60 => (exthdr::DEST, if rank < 3 { 2 } else { 6 }),
            43 => (exthdr::ROUTER, 3),
            44 => (exthdr::FRAG, 4),
            51 => (exthdr::AUTH, 5),
            50 => (exthdr::ESP, 7),
            59 => (exthdr::NONEXT, 8),
            _ => break,
        };
        if seen & bit != 0 && !(bit == exthdr::DEST && order == 6 && rank < 6) {
            seen |= exthdr::UNREP;
        }
        if order < rank {
            seen |= exthdr::UNSEQ;
        }
        (seen, rank) = (seen | bit, order);
        // What is behind these two has no header that could be read.
        if matches!(next, 50 | 59) {
            break;
        }
        let Some(&[following, units]) = b.get(at..).and_then(|rest| rest.first_chunk()) else { break };
        layout.protocol_at = Some(at);
        if next == 44 {
            later |= u16_at(b, at + 2).is_none_or(|offset| offset & 0xfff8 != 0);
        }
        at += match next {
            44 => 8,
            51 => 4 * (usize::from(units) + 2),
            _ => 8 * (usize::from(units) + 1),
        };
        next = following;
        if at > b.len() || later {
            break;
        }
    }
    key.set(Field::Ipv6Exthdr, seen.into());
    key.set(Field::IpProto, next.into());
    if !later && at <= b.len() {
        transport(b, at, next, true, key, layout);
    }
    Some(())
}

fn transport(b: &[u8], at: usize, protocol: u8, v6: bool, key: &mut Key, layout: &mut Layout) {
    let (source, target) = match protocol {
        6 => (Field::TcpSrc, Field::TcpDst),
        17 => (Field::UdpSrc, Field::UdpDst),
        132 => (Field::SctpSrc, Field::SctpDst),
        1 if !v6 => return icmp(b, at, Field::Icmpv4Type, Field::Icmpv4Code, key, layout),
        58 if v6 => {
            icmp(b, at, Field::Icmpv6Type, Field::Icmpv6Code, key, layout);
            _ = discovery(b, at, key, layout);
            return;
        }
        _ => return,
    };
    if let (Some(from), Some(to)) = (u16_at(b, at), u16_at(b, at + 2)) {
        key.set(source, from.into());
        key.set(target, to.into());
        layout.transport = Some((protocol, at));
    }
}

fn icmp(b: &[u8], at: usize, kind: Field, code: Field, key: &mut Key, layout: &mut Layout) {
    if let Some(h) = b.get(at..at + 4) {
        key.set(kind, h[0].into());
        key.set(code, h[1].into());
        layout.transport = Some((if kind == Field::Icmpv4Type { 1 } else { 58 }, at));
    }
}

/// Target and address of the link layer of neighbor discovery (RFC 4861, 4.3 and 4.4).
fn discovery(b: &[u8], at: usize, key: &mut Key, layout: &mut Layout) -> Option<()> {
    let (option, field) = match b.get(at)? {
        135 => (1, Field::Ipv6NdSll),
        136 => (2, Field::Ipv6NdTll),
        _ => return None,
    };
    key.set(Field::Ipv6NdTarget, number(b, at + 8, 16)?);
    let mut at = at + 24;
    while at + 8 <= layout.end {
        let length = usize::from(*b.get(at + 1)?) * 8;
        if length == 0 {
            return None;
        }
        if b[at] == option {
            key.set(field, number(b, at + 2, 6)?);
            layout.nd_address = Some(at + 2);
            return Some(());
        }
        at += length;
    }
    None
}

fn arp(b: &[u8], at: usize, key: &mut Key, layout: &mut Layout) -> Option<()> {
    let h = b.get(at..at + 28)?;
    // Of Ethernet and IPv4 only: other addresses stand elsewhere.
    if h[..6] != [0, 1, 8, 0, 6, 4] {
        return None;
    }
    layout.network = Some((Network::Arp, at));
    key.set(Field::ArpOp, number(h, 6, 2)?);
    key.set(Field::ArpSha, number(h, 8, 6)?);
    key.set(Field::ArpSpa, number(h, 14, 4)?);
    key.set(Field::ArpTha, number(h, 18, 6)?);
    key.set(Field::ArpTpa, number(h, 24, 4)?);
    Some(())
}
