//! The packet filter language: pcap filter expressions, as tcpdump reads them and as Click's `IPFilter` and `IPClassifier` do.
//!
//! One language serves requirements, the `filter` of flow rules, captures, traces and Click configurations. Examples:
//! `src net 10.0.0.0/8 and tcp dst port 80 or 443`, `icmp type echo`, `ip frag`, `tcp opt syn and not ack`, `vlan 25 and udp`,
//! `tcp[13] & 0x12 == 0x02`, `ether[0] & 1 = 1`, `port >= 1024`, `portrange 1-1024`, `ip6 host 2001:db8::1`, `len > 1000`.
//!
//! Words mean what libpcap means by them on Ethernet frames, or are an error that says so. Two things differ between
//! [`Expr::parse`], which reads as libpcap, and [`Expr::parse_click`], which reads as Click's elements:
//!
//! - the rank of `and` and `or`: libpcap reads both from the left, in Click `and` binds tighter;
//! - `port` without a protocol: TCP, UDP or SCTP in libpcap, TCP or UDP in Click.
//!
//! As in Click, a space between terms means `and`, and qualifiers need not be repeated: `src port 80 or 81`.
//!
//! # Meaning
//!
//! - A primitive over bytes that the packet does not have is false, and its negation true. (libpcap gives up the whole filter.)
//! - What lies behind the end of the IP packet, by the length in its header, is not part of it: padding of a frame holds no
//!   ports. The fixed header counts as there, and an IPv4 length of 0 stands for all of the packet, as big frames of local
//!   senders have it. (libpcap looks at all captured bytes.)
//! - A primitive over the transport header (`port`, `tcp opt`, `icmp type`, `transp[…]`, …) is false for all but first fragments.
//! - `port != 80` wants a protocol with ports, and neither port 80; `not port 80` takes all else too.
//! - A comparison with `!=`, `<` or `<=` over `src or dst` must hold for both, since Click negates the whole (`port < 1024`: both are).
//! - `host` and `net` with IPv4 addresses are true of ARP and RARP too, as in libpcap; `ip host` is not.
//! - `tcp[…]`, `udp[…]`, `icmp[…]` are of IPv4 only, `icmp6[…]` of IPv6; `tcp opt`, `tcp win` and `tcp transp[…]` of both.
//! - For IPv6, the protocol is the fixed header's next header or that of a fragment header behind it, and only behind the fixed
//!   header are ports looked for; `ip6 protochain` follows extension headers, up to [`CHAIN`].
//! - VLAN tags are looked through only behind `vlan`: `vlan and udp` asks for UDP behind one tag, and so does all that is
//!   written behind a `vlan`, whatever stands between. `tags N X` asks for X behind N tags, `tags all X` behind all that there are.
//! - A packet without an Ethernet header has neither tags nor ARP in it; `ip` and `ip6` are true by its version.

#![forbid(unsafe_code)]

mod arith;
mod build;
mod display;
mod lex;
mod link;
mod names;
mod parse;
mod part;
mod primitive;
mod relation;
pub mod text;
mod view;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use weir_net::EtherAddr;

pub use arith::{Arith, ArithOp, Compare};
pub use names::ICMP_TYPES;
pub use view::PacketView;

/// How many extension headers `protochain` follows.
pub const CHAIN: u32 = 8;
/// How many VLAN tags are looked through where all are meant; what stands behind more is not found.
pub const WALKED_TAGS: u32 = 7;
/// EtherTypes of VLAN tags: 802.1Q, 802.1ad, and what was used before it.
pub const TAG_TYPES: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// TCP flag names by bit, lowest first (RFC 9293 section 3.1).
pub const TCP_FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// A filter expression. [`Expr::and`], [`Expr::or`] and [`Expr::not`] build the canonical form, which `Display` writes and
/// [`Expr::parse`] reads back: no `And` directly inside `And`, no one-armed `And`, no constants below the root, no double `Not`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Expr {
    /// Every packet.
    True,
    /// No packet.
    False,
    /// Packets that all arms match.
    And(Vec<Expr>),
    /// Packets that some arm matches.
    Or(Vec<Expr>),
    /// Packets that the arm does not match.
    Not(Box<Expr>),
    /// A test of the packet.
    Prim(Prim),
    /// A comparison of computed numbers.
    Compare(Box<Compare>),
    /// A test ([`Expr::Prim`] or [`Expr::Compare`]) of what lies behind VLAN tags; see [`Expr::behind`].
    Behind(Tags, Box<Expr>),
}

/// VLAN tags that a test looks through: it takes the EtherType and the header behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tags {
    /// So many bytes of four, whatever they hold, as libpcap does behind `vlan`.
    Count(u8),
    /// All that the frame has, as OpenFlow does.
    All,
}

impl Tags {
    /// None.
    pub const NONE: Tags = Tags::Count(0);
}

/// A test of one property of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Prim {
    /// IPv4: the address under `mask` equals `addr` (which has no bits outside of `mask`).
    Net {
        /// The protocol whose addresses count.
        of: AddressOf,
        /// Which addresses.
        dir: Dir,
        /// The value under the mask.
        addr: Ipv4Addr,
        /// Bits that count; all ones for a host.
        mask: Ipv4Addr,
    },
    /// IPv6: the first `len` bits of the address equal those of `addr` (which has no other bits set).
    Net6 {
        /// Which addresses.
        dir: Dir,
        /// The network.
        addr: Ipv6Addr,
        /// Prefix length in bits, 0 to 128.
        len: u8,
    },
    /// Ethernet: the address equals `addr`. False for packets without an Ethernet header.
    EtherHost {
        /// Which addresses.
        dir: Dir,
        /// The address.
        addr: EtherAddr,
    },
    /// The frame's EtherType. For packets without an Ethernet header: 0x0800 or 0x86dd, by the IP version.
    EtherType(u16),
    /// The frame has a VLAN tag ([`TAG_TYPES`]); if given, with this identifier.
    Vlan(Option<u16>),
    /// The IPv4 protocol or IPv6 next header, or the next header of a fragment header right behind.
    Proto {
        /// The protocol.
        number: u8,
        /// The IP version; `None` for either.
        version: Option<IpVersion>,
    },
    /// One of the headers that follow each other is of this protocol: the IPv4 protocol or IPv6 next header, or that of an
    /// extension header (RFC 8200 section 4; of IPv4, RFC 4302 only).
    Chain {
        /// The protocol.
        number: u8,
        /// The IP version; `None` for either.
        version: Option<IpVersion>,
    },
    /// A port of a first fragment in `lo..=hi`.
    Port {
        /// Which ports.
        dir: Dir,
        /// First port.
        lo: u16,
        /// Last port.
        hi: u16,
        /// The protocol.
        proto: Ports,
    },
    /// A comparison of header bytes.
    Field(Field),
}

/// The protocol whose addresses a [`Prim::Net`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressOf {
    /// IPv4.
    Ip,
    /// ARP (RFC 826): the protocol addresses of sender and target.
    Arp,
    /// RARP (RFC 903).
    Rarp,
    /// Any of these.
    Any,
}

/// An IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The protocols whose ports a [`Prim::Port`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ports {
    /// TCP, UDP or SCTP.
    Any,
    /// TCP or UDP.
    TcpUdp,
    /// This one (TCP, UDP, DCCP, SCTP or UDP-Lite).
    Of(u8),
}

impl Ports {
    /// The protocols.
    pub fn protocols(&self) -> &[u8] {
        match self {
            Ports::Any => &[6, 17, 132],
            Ports::TcpUdp => &[6, 17],
            Ports::Of(p) => std::slice::from_ref(p),
        }
    }
}

/// Which of a packet's two addresses or ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dir {
    /// The source.
    Src,
    /// The destination.
    Dst,
    /// Either.
    SrcOrDst,
    /// Both.
    SrcAndDst,
}

/// Header bytes under a mask, compared with a value: `(bytes & mask) cmp value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field {
    /// The header.
    pub layer: Layer,
    /// First byte, counted from the header's start.
    pub offset: u16,
    /// Number of bytes, 1 to 4, read in network order.
    pub width: u8,
    /// Bits that count; not zero, within `width`.
    pub mask: u32,
    /// The comparison, of unsigned numbers.
    pub cmp: Cmp,
    /// What to compare with; within `width`.
    pub value: u32,
}

/// The header that a [`Field`] lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// The Ethernet frame, from its first byte.
    Ether,
    /// What follows this EtherType; IP has layers of its own.
    Type(u16),
    /// The IPv4 header.
    Ip,
    /// The IPv6 header.
    Ip6,
    /// The transport header of a first fragment, whatever the protocol.
    Transport,
    /// The transport header of a first fragment of TCP or UDP.
    TcpUdp,
    /// The transport header of a first fragment of this protocol.
    Proto(u8),
    /// The same in IPv4 packets only.
    Proto4(u8),
    /// The same in IPv6 packets only.
    Proto6(u8),
}

impl Layer {
    /// Of a transport header: the protocols that have it (`None` for any) and the IP version (`None` for either).
    pub fn transport(&self) -> Option<(Option<&[u8]>, Option<IpVersion>)> {
        Some(match self {
            Layer::Ether | Layer::Type(_) | Layer::Ip | Layer::Ip6 => return None,
            Layer::Transport => (None, None),
            Layer::TcpUdp => (Some(&[6, 17]), None),
            Layer::Proto(p) => (Some(std::slice::from_ref(p)), None),
            Layer::Proto4(p) => (Some(std::slice::from_ref(p)), Some(IpVersion::V4)),
            Layer::Proto6(p) => (Some(std::slice::from_ref(p)), Some(IpVersion::V6)),
        })
    }
}

/// A comparison of unsigned numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cmp {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Cmp {
    /// Whether `a cmp b`.
    pub fn holds(self, a: u32, b: u32) -> bool {
        match self {
            Cmp::Eq => a == b,
            Cmp::Ne => a != b,
            Cmp::Lt => a < b,
            Cmp::Le => a <= b,
            Cmp::Gt => a > b,
            Cmp::Ge => a >= b,
        }
    }
}

/// How a text is read where libpcap and Click differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Libpcap,
    Click,
}

/// A filter that could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// Where, in characters from 1; one past the end if something is missing there.
    pub column: usize,
    /// What was wrong.
    pub message: String,
    /// What would be right; may be empty.
    pub help: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, "; {}", self.help) }
    }
}

impl std::error::Error for FilterError {}

impl Expr {
    /// Parses a filter expression as libpcap reads it. Nesting, length and size of the result are bounded.
    pub fn parse(text: &str) -> Result<Expr, FilterError> {
        parse::parse(text, Dialect::Libpcap)
    }

    /// Parses a filter expression as Click's `IPFilter` reads it.
    pub fn parse_click(text: &str) -> Result<Expr, FilterError> {
        parse::parse(text, Dialect::Click)
    }

    /// The same of what lies behind VLAN tags. Tests of the frame itself (Ethernet addresses, `ether[…]`, `len`) and those
    /// that look through tags already stay as they are.
    #[must_use]
    pub fn behind(self, tags: Tags) -> Expr {
        match self {
            Expr::And(arms) => Expr::And(arms.into_iter().map(|a| a.behind(tags)).collect()),
            Expr::Or(arms) => Expr::Or(arms.into_iter().map(|a| a.behind(tags)).collect()),
            Expr::Not(arm) => Expr::Not(Box::new(arm.behind(tags))),
            leaf @ (Expr::Prim(_) | Expr::Compare(_)) if tags != Tags::NONE && leaf.looks_behind_type() => {
                Expr::Behind(tags, Box::new(leaf))
            }
            other => other,
        }
    }

    /// Whether some test is about the EtherType or what follows it.
    pub fn looks_behind_type(&self) -> bool {
        self.any_leaf(&mut |_, leaf| match leaf {
            Expr::Prim(Prim::EtherHost { .. } | Prim::Field(Field { layer: Layer::Ether, .. })) => false,
            Expr::Compare(c) => c.layers().iter().any(|l| *l != Layer::Ether),
            _ => true,
        })
    }

    /// The conjunction, in canonical form; true if `arms` is empty.
    pub fn and(arms: impl IntoIterator<Item = Expr>) -> Expr {
        let mut flat = Vec::new();
        for arm in arms {
            match arm {
                Expr::True => {}
                Expr::False => return Expr::False,
                Expr::And(inner) => flat.extend(inner),
                arm => flat.push(arm),
            }
        }
        match flat.len() {
            0 => Expr::True,
            1 => flat.remove(0),
            _ => Expr::And(flat),
        }
    }

    /// The disjunction, in canonical form; false if `arms` is empty.
    pub fn or(arms: impl IntoIterator<Item = Expr>) -> Expr {
        let mut flat = Vec::new();
        for arm in arms {
            match arm {
                Expr::False => {}
                Expr::True => return Expr::True,
                Expr::Or(inner) => flat.extend(inner),
                arm => flat.push(arm),
            }
        }
        match flat.len() {
            0 => Expr::False,
            1 => flat.remove(0),
            _ => Expr::Or(flat),
        }
    }

    /// The negation, in canonical form.
    #[expect(clippy::should_implement_trait, reason = "stands beside `and` and `or`")]
    pub fn not(self) -> Expr {
        match self {
            Expr::True => Expr::False,
            Expr::False => Expr::True,
            Expr::Not(inner) => *inner,
            other => Expr::Not(Box::new(other)),
        }
    }

    /// Whether `f` is true of some test, from left to right; it gets the tags that the test looks through, and the test
    /// ([`Expr::Prim`] or [`Expr::Compare`]).
    pub fn any_leaf(&self, f: &mut impl FnMut(Tags, &Expr) -> bool) -> bool {
        match self {
            Expr::True | Expr::False => false,
            Expr::And(arms) | Expr::Or(arms) => arms.iter().any(|a| a.any_leaf(f)),
            Expr::Not(arm) => arm.any_leaf(f),
            Expr::Prim(_) | Expr::Compare(_) => f(Tags::NONE, self),
            Expr::Behind(tags, leaf) => f(*tags, leaf),
        }
    }

    /// Whether some test looks at the Ethernet header, which an element behind `Strip(14)` no longer sees.
    /// `ip` and `ip6` do not: the IP version says as much.
    pub fn needs_ethernet(&self) -> bool {
        let ip = |t: u16| matches!(t, 0x0800 | 0x86dd);
        self.any_leaf(&mut |tags, leaf| {
            matches!(tags, Tags::Count(1..))
                || match leaf {
                    Expr::Prim(Prim::EtherHost { .. } | Prim::Vlan(_)) => true,
                    Expr::Prim(Prim::Net { of, .. }) => matches!(of, AddressOf::Arp | AddressOf::Rarp),
                    Expr::Prim(Prim::EtherType(t)) => !ip(*t),
                    Expr::Prim(Prim::Field(f)) => matches!(f.layer, Layer::Ether | Layer::Type(_)),
                    Expr::Compare(c) => c.layers().iter().any(|l| matches!(l, Layer::Ether | Layer::Type(_))),
                    _ => false,
                }
        })
    }

    /// Whether some test asks for bytes of an Ethernet header that only the header itself has: of a packet without one,
    /// `arp` and `vlan` are known to be false, but its addresses are not known.
    pub fn needs_ethernet_bytes(&self) -> bool {
        self.any_leaf(&mut |_, leaf| match leaf {
            Expr::Prim(Prim::EtherHost { .. }) => true,
            Expr::Prim(Prim::Field(f)) => f.layer == Layer::Ether,
            Expr::Compare(c) => c.layers().contains(&Layer::Ether),
            _ => false,
        })
    }

    /// Number of expressions in this one, itself included.
    fn size(&self) -> usize {
        1 + match self {
            Expr::And(arms) | Expr::Or(arms) => arms.iter().map(Expr::size).sum(),
            Expr::Not(arm) => arm.size(),
            Expr::Compare(c) => c.size(),
            Expr::Behind(_, leaf) => leaf.size(),
            Expr::True | Expr::False | Expr::Prim(_) => 0,
        }
    }
}

impl serde::Serialize for Expr {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Expr {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Filter".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "description": "A pcap filter expression.", "type": "string", "minLength": 1 })
    }
}

impl From<Prim> for Expr {
    fn from(p: Prim) -> Self {
        Expr::Prim(p)
    }
}

impl FromStr for Expr {
    type Err = FilterError;
    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

/// The port of a well-known service (`http`, `ssh`, `domain`, …); `None` for an unknown name.
pub fn service_port(name: &str) -> Option<u16> {
    names::find(names::PORTS, name)
}

/// The number of an IP protocol by its name (`tcp`, `icmp`, …); `None` for an unknown name.
pub fn protocol_number(name: &str) -> Option<u8> {
    names::find(names::PROTOCOLS, name)
}

/// The name of an IP protocol by its number, if it has one here.
pub fn protocol_name(number: u8) -> Option<&'static str> {
    names::PROTOCOLS.iter().find(|(_, n)| *n == number).map(|(name, _)| *name)
}

/// Whether a filter may begin with this word: how far a list of names before a filter goes.
pub fn begins_filter(word: &str) -> bool {
    let Ok(tokens) = lex::tokens(word) else { return false };
    tokens.first().is_some_and(|first| primitive::is_word(first.text))
}

/// The number of an ICMP type by its name (`echo`, `unreachable`, …).
pub fn icmp_type(name: &str) -> Option<u8> {
    names::find(names::ICMP_TYPES, name)
}
