//! The reference evaluator: what a filter means, over plain bytes. Compiled forms are tested against it.

use std::net::Ipv6Addr;

use super::{Dir, Expr, Field, Layer, Prim};
use crate::value::MacAddr;

/// A packet's bytes, decoded as far as filters look.
#[derive(Debug, Clone, Copy)]
pub struct PacketView<'a> {
    link: Option<Link>,
    net: Option<(Version, &'a [u8])>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    dst: MacAddr,
    src: MacAddr,
    vlan: Option<u16>,
    ether_type: u16,
}

impl<'a> PacketView<'a> {
    /// A packet whose network header is IPv4 and begins at `bytes[net_offset]`, whatever its version field says: what a Click
    /// element sees behind `MarkIPHeader`. There is no Ethernet header.
    pub fn ipv4(bytes: &'a [u8], net_offset: usize) -> Self {
        Self { link: None, net: bytes.get(net_offset..).map(|b| (Version::V4, b)) }
    }

    /// A packet that begins with an IPv4 or IPv6 header, by its version field.
    pub fn ip(bytes: &'a [u8]) -> Self {
        let version = match bytes.first().map(|b| b >> 4) {
            Some(4) => Some(Version::V4),
            Some(6) => Some(Version::V6),
            _ => None,
        };
        Self { link: None, net: version.map(|v| (v, bytes)) }
    }

    /// An Ethernet frame, with any number of VLAN tags.
    pub fn ethernet(frame: &'a [u8]) -> Self {
        Self::parse_ethernet(frame).unwrap_or(Self { link: None, net: None })
    }

    fn parse_ethernet(frame: &'a [u8]) -> Option<Self> {
        let dst = MacAddr(*frame.first_chunk()?);
        let src = MacAddr(*frame.get(6..)?.first_chunk()?);
        let mut vlan = None;
        let mut at = 12;
        let ether_type = loop {
            let ether_type = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
            at += 2;
            // 802.1Q and 802.1ad tags
            if !matches!(ether_type, 0x8100 | 0x88a8) {
                break ether_type;
            }
            let tag = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
            vlan = vlan.or(Some(tag & 0x0fff));
            at += 2;
        };
        let version = match ether_type {
            0x0800 => Some(Version::V4),
            0x86dd => Some(Version::V6),
            _ => None,
        };
        let net = version.zip(frame.get(at..));
        Some(Self { link: Some(Link { dst, src, vlan, ether_type }), net })
    }

    fn v4(&self) -> Option<&'a [u8]> {
        self.net.filter(|(v, _)| *v == Version::V4).map(|(_, b)| b)
    }

    fn ether_type(&self) -> Option<u16> {
        match (self.link, self.net) {
            (Some(link), _) => Some(link.ether_type),
            (None, Some((Version::V4, _))) => Some(0x0800),
            (None, Some((Version::V6, _))) => Some(0x86dd),
            (None, None) => None,
        }
    }

    fn proto(&self) -> Option<u8> {
        let (version, bytes) = self.net?;
        bytes.get(if version == Version::V4 { 9 } else { 6 }).copied()
    }

    /// The transport header and what follows; `None` behind a later fragment's IP header.
    fn transport(&self) -> Option<&'a [u8]> {
        let (version, bytes) = self.net?;
        match version {
            Version::V4 => {
                let fragment_offset = number(bytes, 6, 2)? & 0x1fff;
                let header = usize::from(bytes.first()? & 0x0f) * 4;
                (fragment_offset == 0).then(|| bytes.get(header..)).flatten()
            }
            Version::V6 => bytes.get(40..),
        }
    }

    /// The transport header, if a field of `layer` may be looked for there.
    fn layer(&self, layer: Layer) -> Option<&'a [u8]> {
        let proto_fits = match layer {
            Layer::Ip => return self.v4(),
            Layer::Transport => true,
            Layer::TcpUdp => matches!(self.proto(), Some(6 | 17)),
            Layer::Proto(p) => self.proto() == Some(p),
        };
        if proto_fits { self.transport() } else { None }
    }
}

/// `width` bytes from `offset` as a number, if they are there.
fn number(bytes: &[u8], offset: usize, width: usize) -> Option<u32> {
    let field = bytes.get(offset..offset.checked_add(width)?)?;
    Some(field.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
}

impl Expr {
    /// Whether the packet matches.
    pub fn matches(&self, packet: &PacketView<'_>) -> bool {
        match self {
            Expr::True => true,
            Expr::False => false,
            Expr::And(arms) => arms.iter().all(|a| a.matches(packet)),
            Expr::Or(arms) => arms.iter().any(|a| a.matches(packet)),
            Expr::Not(arm) => !arm.matches(packet),
            Expr::Prim(p) => p.matches(packet),
        }
    }
}

impl Prim {
    /// Whether the packet passes this test.
    pub fn matches(&self, packet: &PacketView<'_>) -> bool {
        match *self {
            Prim::Net { dir, addr, mask } => packet.v4().is_some_and(|b| {
                let (addr, mask) = (u32::from(addr), u32::from(mask));
                both(dir, |dst| number(b, if dst { 16 } else { 12 }, 4).is_some_and(|a| a & mask == addr))
            }),
            Prim::Net6 { dir, addr, len } => match packet.net {
                Some((Version::V6, b)) => both(dir, |dst| {
                    let field = b.get(if dst { 24 } else { 8 }..).and_then(|b| b.first_chunk::<16>());
                    let host_bits = 128u32.saturating_sub(u32::from(len));
                    let top = |a: Ipv6Addr| u128::from(a).checked_shr(host_bits).unwrap_or(0);
                    field.is_some_and(|a| top(Ipv6Addr::from(*a)) == top(addr))
                }),
                _ => false,
            },
            Prim::EtherHost { dir, addr } => {
                packet.link.is_some_and(|l| both(dir, |dst| if dst { l.dst == addr } else { l.src == addr }))
            }
            Prim::EtherType(t) => packet.ether_type() == Some(t),
            Prim::Vlan(id) => packet.link.and_then(|l| l.vlan).is_some_and(|v| id.is_none_or(|id| id == v)),
            Prim::Proto(p) => packet.proto() == Some(p),
            Prim::Port { dir, lo, hi, proto } => {
                packet.layer(proto.map_or(Layer::TcpUdp, Layer::Proto)).is_some_and(|b| {
                    let range = u32::from(lo)..=u32::from(hi);
                    both(dir, |dst| number(b, if dst { 2 } else { 0 }, 2).is_some_and(|p| range.contains(&p)))
                })
            }
            Prim::Field(Field { layer, offset, width, mask, cmp, value }) => packet
                .layer(layer)
                .and_then(|b| number(b, usize::from(offset), usize::from(width)))
                .is_some_and(|n| cmp.holds(n & mask, value)),
        }
    }
}

/// `test(false)` looks at the source, `test(true)` at the destination.
fn both(dir: Dir, test: impl Fn(bool) -> bool) -> bool {
    match dir {
        Dir::Src => test(false),
        Dir::Dst => test(true),
        Dir::SrcOrDst => test(false) || test(true),
        Dir::SrcAndDst => test(false) && test(true),
    }
}
