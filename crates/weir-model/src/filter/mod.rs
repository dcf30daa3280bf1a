//! The packet filter language: pcap filter expressions as Click's `IPFilter` and `IPClassifier` read them.
//!
//! One parser serves requirements, the `filter` shorthand of flow rules and Click configurations. Examples:
//! `src net 10.0.0.0/8 and tcp dst port 80 or 443`, `icmp type echo`, `ip frag`, `tcp opt syn and not ack`, `vlan 25`,
//! `tcp[13] & 0x12 == 0x02`, `port >= 1024`, `portrange 1-1024`, `ip6 host 2001:db8::1`, `tcp ? dst port 80 : udp`.
//!
//! As in Click, `and` binds tighter than `or` (tcpdump gives them equal rank), a space between terms means `and`, and qualifiers
//! need not be repeated: `src port 80 or 81`.
//!
//! # Meaning
//!
//! - A primitive over bytes that the packet does not have is false.
//! - A primitive over the transport header (`port`, `tcp opt`, `icmp type`, `transp[…]`, …) is false for all but first fragments.
//! - `port` without a protocol means TCP or UDP. `port != 80` wants TCP or UDP with neither port 80; `not port 80` takes all else too.
//! - A comparison with `!=`, `<` or `<=` over `src or dst` must hold for both, since Click negates the whole (`port < 1024`: both are).
//! - `host` and `net` with IPv4 addresses and `ip …` fields are false for IPv6 packets, and the other way round.
//!   For IPv6, the protocol is the fixed header's next-header field; extension headers are not followed.

mod build;
mod display;
mod lex;
mod names;
mod parse;
mod part;
mod primitive;
mod view;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

pub use view::PacketView;

use crate::value::MacAddr;

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
}

/// A test of one property of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Prim {
    /// IPv4: the address under `mask` equals `addr` (which has no bits outside of `mask`).
    Net {
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
        addr: MacAddr,
    },
    /// The frame's EtherType after VLAN tags. For packets without an Ethernet header: 0x0800 or 0x86dd, by the IP version.
    EtherType(u16),
    /// The frame has a VLAN tag (802.1Q or 802.1ad); if given, the outermost has this identifier.
    Vlan(Option<u16>),
    /// The IPv4 protocol or IPv6 next header.
    Proto(u8),
    /// A port of a first fragment in `lo..=hi`.
    Port {
        /// Which ports.
        dir: Dir,
        /// First port.
        lo: u16,
        /// Last port.
        hi: u16,
        /// The protocol (TCP, UDP, DCCP, SCTP or UDP-Lite); `None` for TCP or UDP.
        proto: Option<u8>,
    },
    /// A comparison of header bytes.
    Field(Field),
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
    /// The IPv4 header.
    Ip,
    /// The transport header of a first fragment, whatever the protocol.
    Transport,
    /// The transport header of a first fragment of TCP or UDP.
    TcpUdp,
    /// The transport header of a first fragment of this protocol.
    Proto(u8),
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
    /// Parses a filter expression. Nesting, length and size of the result are bounded.
    pub fn parse(text: &str) -> Result<Expr, FilterError> {
        parse::parse(text)
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

    /// Calls `f` for every primitive, from left to right.
    pub fn for_each_prim(&self, f: &mut impl FnMut(&Prim)) {
        match self {
            Expr::True | Expr::False => {}
            Expr::And(arms) | Expr::Or(arms) => arms.iter().for_each(|a| a.for_each_prim(f)),
            Expr::Not(arm) => arm.for_each_prim(f),
            Expr::Prim(p) => f(p),
        }
    }

    /// Whether some primitive looks at the Ethernet header, which an element behind `Strip(14)` no longer sees.
    /// `ip` and `ip6` do not: the IP version says as much.
    pub fn needs_ethernet(&self) -> bool {
        let mut needs = false;
        self.for_each_prim(&mut |p| {
            needs |= match p {
                Prim::EtherHost { .. } | Prim::Vlan(_) => true,
                Prim::EtherType(t) => !matches!(t, 0x0800 | 0x86dd),
                _ => false,
            };
        });
        needs
    }

    /// Number of expressions in this one, itself included.
    fn size(&self) -> usize {
        1 + match self {
            Expr::And(arms) | Expr::Or(arms) => arms.iter().map(Expr::size).sum(),
            Expr::Not(arm) => arm.size(),
            _ => 0,
        }
    }
}

impl serde::Serialize for Expr {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
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
pub(crate) fn begins_filter(word: &str) -> bool {
    let Ok(tokens) = lex::tokens(word) else { return false };
    tokens.first().is_some_and(|first| primitive::is_word(first.text))
}

/// The number of an ICMP type by its name (`echo`, `unreachable`, …).
pub(crate) fn icmp_type(name: &str) -> Option<u8> {
    names::find(names::ICMP_TYPES, name)
}
