//! The reference evaluator: what a filter means, over plain bytes. Compiled forms are tested against it.

use std::net::Ipv6Addr;

use super::{
    AddressOf, Arith, CHAIN, Compare, Dir, Expr, Field, IpVersion, Layer, Prim, TAG_TYPES, Tags, WALKED_TAGS,
};
use weir_net::EtherAddr;

/// IPv6 extension headers that are followed (RFC 8200 section 4, RFC 4302): hop-by-hop options, routing, fragment,
/// authentication, destination options.
const EXTENSIONS: &[u8] = &[0, 43, 44, 51, 60];
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

/// A packet, as far as filters look.
#[derive(Debug, Clone, Copy)]
pub struct PacketView<'a> {
    bytes: &'a [u8],
    start: Start,
}

#[derive(Debug, Clone, Copy)]
enum Start {
    Ethernet,
    /// The IP header stands at this offset. With `follow`, the transport header stands behind IPv6 extension headers.
    Ip {
        at: usize,
        version: Option<IpVersion>,
        follow: bool,
    },
}

impl<'a> PacketView<'a> {
    /// A packet whose network header is IPv4 and begins at `bytes[net_offset]`, whatever its version field says: what a Click
    /// element sees behind `MarkIPHeader`. There is no Ethernet header.
    pub fn ipv4(bytes: &'a [u8], net_offset: usize) -> Self {
        Self { bytes, start: Start::Ip { at: net_offset, version: Some(IpVersion::V4), follow: false } }
    }

    /// A packet whose network header is IPv6 and begins at `bytes[net_offset]`, as `IP6Filter` sees it: the protocol and the
    /// transport header are those behind extension headers (RFC 8200 section 4), as Linux takes them.
    pub fn ipv6_followed(bytes: &'a [u8], net_offset: usize) -> Self {
        Self { bytes, start: Start::Ip { at: net_offset, version: Some(IpVersion::V6), follow: true } }
    }

    /// A packet that begins with an IPv4 or IPv6 header, by its version field.
    pub fn ip(bytes: &'a [u8]) -> Self {
        Self::ip_at(bytes, 0)
    }

    /// A packet with an IPv4 or IPv6 header, by its version field, at `bytes[net_offset]`.
    pub fn ip_at(bytes: &'a [u8], net_offset: usize) -> Self {
        let version = match bytes.get(net_offset).map(|b| b >> 4) {
            Some(4) => Some(IpVersion::V4),
            Some(6) => Some(IpVersion::V6),
            _ => None,
        };
        Self { bytes, start: Start::Ip { at: net_offset, version, follow: false } }
    }

    /// An Ethernet frame.
    pub fn ethernet(frame: &'a [u8]) -> Self {
        Self { bytes: frame, start: Start::Ethernet }
    }

    /// The EtherType behind tags, and what follows it.
    fn link(&self, tags: Tags) -> Option<(u16, &'a [u8])> {
        match (self.start, tags) {
            (Start::Ethernet, Tags::Count(n)) => self.typed(12 + 4 * usize::from(n)),
            (Start::Ethernet, Tags::All) => {
                let at = (0..=WALKED_TAGS as usize).map(|n| 12 + 4 * n);
                let found = at.map_while(|at| self.typed(at)).find(|(t, _)| !TAG_TYPES.contains(t))?;
                Some(found)
            }
            (Start::Ip { .. }, Tags::Count(1..)) => None,
            (Start::Ip { at, version, .. }, _) => {
                let ether_type = match version? {
                    IpVersion::V4 => 0x0800,
                    IpVersion::V6 => 0x86dd,
                };
                Some((ether_type, self.bytes.get(at..)?))
            }
        }
    }

    fn typed(&self, at: usize) -> Option<(u16, &'a [u8])> {
        let ether_type = u16::from_be_bytes(*self.bytes.get(at..)?.first_chunk()?);
        Some((ether_type, self.bytes.get(at + 2..)?))
    }

    /// What follows this EtherType.
    fn behind_type(&self, tags: Tags, ether_type: u16) -> Option<&'a [u8]> {
        self.link(tags).filter(|(t, _)| *t == ether_type).map(|(_, b)| b)
    }

    fn ip_header(&self, tags: Tags) -> Option<(IpVersion, &'a [u8])> {
        let (ether_type, bytes) = self.link(tags)?;
        match ether_type {
            0x0800 => Some((IpVersion::V4, bytes)),
            0x86dd => Some((IpVersion::V6, bytes)),
            _ => None,
        }
    }

    /// The packet's protocol; of a fragment of IPv6, that of the fragment header right behind the IPv6 header.
    fn is_proto(&self, tags: Tags, number: u8, version: Option<IpVersion>) -> bool {
        let Some((v, bytes)) = self.ip_header(tags).filter(|(v, _)| version.is_none_or(|w| w == *v)) else {
            return false;
        };
        match v {
            IpVersion::V4 => bytes.get(9) == Some(&number),
            IpVersion::V6 if self.follows() => followed(bytes).is_some_and(|(p, _)| p == number),
            IpVersion::V6 => {
                let next = bytes.get(6).copied();
                let behind = next == Some(FRAGMENT) && inside(v, bytes).get(40) == Some(&number);
                next == Some(number) || behind
            }
        }
    }

    fn follows(&self) -> bool {
        matches!(self.start, Start::Ip { follow: true, .. })
    }

    /// The protocol, the transport header and what follows; `None` for all but first fragments.
    fn transport(&self, tags: Tags) -> Option<(IpVersion, u8, &'a [u8])> {
        let (version, bytes) = self.ip_header(tags)?;
        match version {
            IpVersion::V4 => {
                let fragment_offset = number(bytes, 6, 2)? & 0x1fff;
                let header = usize::from(bytes.first()? & 0x0f) * 4;
                let transport = inside(version, bytes).get(header..)?;
                (fragment_offset == 0).then_some((version, *bytes.get(9)?, transport))
            }
            IpVersion::V6 if self.follows() => {
                let (proto, transport) = followed(bytes)?;
                Some((version, proto, transport?))
            }
            IpVersion::V6 => {
                let proto = *bytes.get(6)?;
                let transport = inside(version, bytes).get(40..)?;
                (proto != FRAGMENT).then_some((version, proto, transport))
            }
        }
    }

    /// The header that a field lies in.
    fn layer(&self, tags: Tags, layer: Layer) -> Option<&'a [u8]> {
        match layer {
            Layer::Ether => matches!(self.start, Start::Ethernet).then_some(self.bytes),
            Layer::Type(t) => self.behind_type(tags, t),
            Layer::Ip | Layer::Ip6 => {
                let (version, bytes) = self.ip_header(tags)?;
                let (wanted, fixed) = match layer {
                    Layer::Ip => (IpVersion::V4, 20),
                    _ => (IpVersion::V6, 40),
                };
                let len = inside(version, bytes).len().max(fixed);
                (version == wanted).then(|| bytes.get(..len).unwrap_or(bytes))
            }
            _ => {
                let (protos, wanted) = layer.transport()?;
                let (version, proto, bytes) = self.transport(tags)?;
                let fits = protos.is_none_or(|list| list.contains(&proto))
                    && wanted.is_none_or(|wanted| wanted == version);
                fits.then_some(bytes)
            }
        }
    }

    fn number(&self, tags: Tags, a: &Arith) -> Option<u32> {
        match a {
            Arith::Number(n) => Some(*n),
            Arith::Len => u32::try_from(self.bytes.len()).ok(),
            Arith::Load { layer, offset, width } => {
                let offset = usize::try_from(self.number(tags, offset)?).ok()?;
                number(self.layer(tags, *layer)?, offset, usize::from(*width))
            }
            Arith::Op(op, a, b) => Some(op.of(self.number(tags, a)?, self.number(tags, b)?)),
        }
    }

    /// Whether one of the headers that follow each other is of a protocol.
    fn chain(&self, tags: Tags, number: u8, wanted: Option<IpVersion>) -> bool {
        let found = self.ip_header(tags).filter(|(v, _)| wanted.is_none_or(|w| w == *v));
        let Some((version, bytes)) = found else { return false };
        let ip = inside(version, bytes);
        let (first, header, extensions) = match version {
            IpVersion::V4 => {
                let header = bytes.first().map(|b| usize::from(b & 0x0f) * 4);
                (bytes.get(9), header.and_then(|h| ip.get(h..)), &[AUTHENTICATION][..])
            }
            IpVersion::V6 => (bytes.get(6), ip.get(40..), EXTENSIONS),
        };
        let Some(mut proto) = first.copied() else { return false };
        let mut rest = header.unwrap_or(&[]);
        for _ in 0..CHAIN {
            let (true, [next, len, ..]) = (extensions.contains(&proto) && proto != number, rest) else {
                break;
            };
            rest = rest.get(extension_len(proto, *len)..).unwrap_or(&[]);
            proto = *next;
        }
        proto == number
    }
}

/// What belongs to the IP packet by the length in its header.
fn inside(version: IpVersion, bytes: &[u8]) -> &[u8] {
    let len = match version {
        IpVersion::V4 => number(bytes, 2, 2).map(|n| if n == 0 { u32::MAX } else { n }),
        IpVersion::V6 => number(bytes, 4, 2).map(|n| n + 40),
    };
    let len = len.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    bytes.get(..len).unwrap_or(bytes)
}

/// The length of an extension header in bytes.
fn extension_len(proto: u8, len: u8) -> usize {
    match proto {
        AUTHENTICATION => (usize::from(len) + 2) * 4,
        _ => (usize::from(len) + 1) * 8,
    }
}

/// The protocol behind the extension headers of an IPv6 packet, and its header in first fragments. Of a chain that is cut
/// short or longer than [`CHAIN`], the first extension header that is not followed.
fn followed(bytes: &[u8]) -> Option<(u8, Option<&[u8]>)> {
    let mut proto = *bytes.get(6)?;
    let Some(mut rest) = inside(IpVersion::V6, bytes).get(40..) else { return Some((proto, None)) };
    for _ in 0..CHAIN {
        if !EXTENSIONS.contains(&proto) {
            break;
        }
        let [next, len, ..] = *rest else { return Some((proto, None)) };
        let Some(behind) = rest.get(if proto == FRAGMENT { 8 } else { extension_len(proto, len) }..) else {
            return Some((proto, None));
        };
        let later = proto == FRAGMENT && number(rest, 2, 2).is_none_or(|n| n & 0xfff8 != 0);
        (proto, rest) = (next, behind);
        if later {
            return Some((proto, None));
        }
    }
    Some((proto, (!EXTENSIONS.contains(&proto)).then_some(rest)))
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
            Expr::Prim(p) => p.matches(packet, Tags::NONE),
            Expr::Compare(c) => c.matches(packet, Tags::NONE),
            Expr::Behind(tags, leaf) => match &**leaf {
                Expr::Prim(p) => p.matches(packet, *tags),
                Expr::Compare(c) => c.matches(packet, *tags),
                other => other.matches(packet),
            },
        }
    }
}

impl Compare {
    fn matches(&self, packet: &PacketView<'_>, tags: Tags) -> bool {
        let numbers = packet.number(tags, &self.left).zip(packet.number(tags, &self.right));
        numbers.is_some_and(|(a, b)| self.cmp.holds(a, b))
    }
}

impl Prim {
    /// Whether the packet passes this test behind these tags.
    fn matches(&self, packet: &PacketView<'_>, tags: Tags) -> bool {
        match *self {
            Prim::Net { of, dir, addr, mask } => {
                let (addr, mask) = (u32::from(addr), u32::from(mask));
                let is = |ether_type, src, dst| {
                    packet.behind_type(tags, ether_type).is_some_and(|b| {
                        both(dir, |to_dst| {
                            number(b, if to_dst { dst } else { src }, 4).is_some_and(|a| a & mask == addr)
                        })
                    })
                };
                let any = of == AddressOf::Any;
                (any || of == AddressOf::Ip) && is(0x0800, 12, 16)
                    || (any || of == AddressOf::Arp) && is(0x0806, 14, 24)
                    || (any || of == AddressOf::Rarp) && is(0x8035, 14, 24)
            }
            Prim::Net6 { dir, addr, len } => packet.behind_type(tags, 0x86dd).is_some_and(|b| {
                both(dir, |dst| {
                    let field = b.get(if dst { 24 } else { 8 }..).and_then(|b| b.first_chunk::<16>());
                    let host_bits = 128u32.saturating_sub(u32::from(len));
                    let top = |a: Ipv6Addr| u128::from(a).checked_shr(host_bits).unwrap_or(0);
                    field.is_some_and(|a| top(Ipv6Addr::from(*a)) == top(addr))
                })
            }),
            Prim::EtherHost { dir, addr } => {
                let at = |at: usize| packet.bytes.get(at..).and_then(|b| b.first_chunk());
                matches!(packet.start, Start::Ethernet)
                    && both(dir, |dst| at(if dst { 0 } else { 6 }).is_some_and(|a| EtherAddr(*a) == addr))
            }
            Prim::EtherType(t) => packet.link(tags).is_some_and(|(found, _)| found == t),
            Prim::Vlan(id) => packet.link(tags).is_some_and(|(t, tag)| {
                TAG_TYPES.contains(&t)
                    && id.is_none_or(|id| number(tag, 0, 2).is_some_and(|n| n & 0x0fff == u32::from(id)))
            }),
            Prim::Proto { number, version } => packet.is_proto(tags, number, version),
            Prim::Chain { number, version } => packet.chain(tags, number, version),
            Prim::Port { dir, lo, hi, proto } => {
                let header = packet.transport(tags).filter(|(_, p, _)| proto.protocols().contains(p));
                header.is_some_and(|(_, _, b)| {
                    let range = u32::from(lo)..=u32::from(hi);
                    both(dir, |dst| number(b, if dst { 2 } else { 0 }, 2).is_some_and(|p| range.contains(&p)))
                })
            }
            Prim::Field(Field { layer, offset, width, mask, cmp, value }) => packet
                .layer(tags, layer)
                .and_then(|h| number(h, usize::from(offset), usize::from(width)))
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
