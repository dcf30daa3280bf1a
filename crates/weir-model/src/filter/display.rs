//! The canonical text of a filter, which the parser reads back to the same expression.

use std::fmt;
use std::net::Ipv4Addr;

use super::{Cmp, Dir, Expr, Field, Layer, Prim, protocol_name};
use crate::value::TCP_FLAGS;

/// A field with a name of its own.
pub(super) struct NamedField {
    pub layer: Layer,
    pub offset: u16,
    pub width: u8,
    /// The field's bits within `width` bytes.
    pub mask: u32,
    /// Position of the field's lowest bit.
    pub shift: u32,
    /// As written in full.
    pub name: &'static str,
}

const fn named(
    layer: Layer,
    offset: u16,
    width: u8,
    mask: u32,
    shift: u32,
    name: &'static str,
) -> NamedField {
    NamedField { layer, offset, width, mask, shift, name }
}

/// Fields with a name: `ip` ones and the transport ones that imply their protocol.
pub(super) const NAMED: &[NamedField] = &[
    named(Layer::Ip, 0, 1, 0xf0, 4, "ip vers"),
    named(Layer::Ip, 0, 1, 0x0f, 0, "ip hl"),
    named(Layer::Ip, 1, 1, 0xff, 0, "ip tos"),
    named(Layer::Ip, 1, 1, 0xfc, 2, "ip dscp"),
    named(Layer::Ip, 2, 2, 0xffff, 0, "ip len"),
    named(Layer::Ip, 4, 2, 0xffff, 0, "ip id"),
    named(Layer::Ip, 8, 1, 0xff, 0, "ip ttl"),
    named(Layer::Proto(6), 14, 2, 0xffff, 0, "tcp win"),
    named(Layer::Proto(1), 0, 1, 0xff, 0, "icmp type"),
    named(Layer::Proto(1), 1, 1, 0xff, 0, "icmp code"),
];

impl Field {
    /// `ip frag`: more fragments follow or the offset is not zero.
    pub(super) const FRAG: Field =
        Field { layer: Layer::Ip, offset: 6, width: 2, mask: 0x3fff, cmp: Cmp::Ne, value: 0 };
    /// `ip ect`: the ECN field is not zero (RFC 3168 section 5).
    pub(super) const ECT: Field =
        Field { layer: Layer::Ip, offset: 1, width: 1, mask: 3, cmp: Cmp::Ne, value: 0 };
    /// `ip ce`: the ECN field says "congestion experienced".
    pub(super) const CE: Field =
        Field { layer: Layer::Ip, offset: 1, width: 1, mask: 3, cmp: Cmp::Eq, value: 3 };

    /// `tcp opt …`: all of these flags are set.
    pub(super) const fn tcp_flags(flags: u8) -> Field {
        Field {
            layer: Layer::Proto(6),
            offset: 13,
            width: 1,
            mask: flags as u32,
            cmp: Cmp::Eq,
            value: flags as u32,
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::True => f.write_str("true"),
            Expr::False => f.write_str("false"),
            Expr::And(arms) => joined(f, arms, " and ", |a| matches!(a, Expr::Or(_) | Expr::And(_))),
            Expr::Or(arms) => joined(f, arms, " or ", |a| matches!(a, Expr::Or(_))),
            Expr::Not(arm) => match **arm {
                Expr::And(_) | Expr::Or(_) => write!(f, "not ({arm})"),
                _ => write!(f, "not {arm}"),
            },
            Expr::Prim(p) => p.fmt(f),
        }
    }
}

fn joined(
    f: &mut fmt::Formatter<'_>,
    arms: &[Expr],
    word: &str,
    parens: impl Fn(&Expr) -> bool,
) -> fmt::Result {
    for (i, arm) in arms.iter().enumerate() {
        if i > 0 {
            f.write_str(word)?;
        }
        if parens(arm) { write!(f, "({arm})")? } else { write!(f, "{arm}")? }
    }
    Ok(())
}

impl fmt::Display for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dir::Src => "src ",
            Dir::Dst => "dst ",
            Dir::SrcOrDst => "",
            Dir::SrcAndDst => "src and dst ",
        })
    }
}

impl fmt::Display for Prim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Prim::Net { dir, addr, mask: Ipv4Addr::BROADCAST } => write!(f, "{dir}host {addr}"),
            Prim::Net { dir, addr, mask } => {
                let bits = u32::from(mask);
                let len = bits.leading_ones();
                if bits.count_ones() == len {
                    write!(f, "{dir}net {addr}/{len}")
                } else {
                    write!(f, "{dir}net {addr} mask {mask}")
                }
            }
            Prim::Net6 { dir, addr, len: 128 } => write!(f, "{dir}host {addr}"),
            Prim::Net6 { dir, addr, len } => write!(f, "{dir}net {addr}/{len}"),
            Prim::EtherHost { dir, addr } => write!(f, "ether {dir}host {addr}"),
            Prim::EtherType(0x0800) => f.write_str("ip"),
            Prim::EtherType(0x86dd) => f.write_str("ip6"),
            Prim::EtherType(0x0806) => f.write_str("arp"),
            Prim::EtherType(t) => write!(f, "ether proto {t:#06x}"),
            Prim::Vlan(None) => f.write_str("vlan"),
            Prim::Vlan(Some(id)) => write!(f, "vlan {id}"),
            Prim::Proto(p) => match protocol_name(p) {
                Some(name) => f.write_str(name),
                None => write!(f, "ip proto {p}"),
            },
            Prim::Port { dir, lo, hi, proto } => {
                if let Some(name) = proto.and_then(protocol_name) {
                    write!(f, "{name} ")?;
                }
                if lo == hi { write!(f, "{dir}port {lo}") } else { write!(f, "{dir}port {lo}-{hi}") }
            }
            Prim::Field(field) => field.fmt(f),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Field::FRAG => return f.write_str("ip frag"),
            Field::ECT => return f.write_str("ip ect"),
            Field::CE => return f.write_str("ip ce"),
            _ => {}
        }
        for (bit, name) in TCP_FLAGS.iter().enumerate() {
            if *self == Field::tcp_flags(1 << bit) {
                return write!(f, "tcp opt {name}");
            }
        }
        let (cmp, value) = (self.cmp, self.value);
        for n in NAMED {
            let same =
                (n.layer, n.offset, n.width, n.mask) == (self.layer, self.offset, self.width, self.mask);
            if same && value & !n.mask == 0 {
                let op = if cmp == Cmp::Eq { String::new() } else { format!("{cmp} ") };
                return write!(f, "{} {op}{}", n.name, value >> n.shift);
            }
        }
        match self.layer {
            Layer::Ip => f.write_str("ip")?,
            Layer::Transport => f.write_str("transp")?,
            Layer::TcpUdp => f.write_str("tcpudp")?,
            Layer::Proto(p) => match protocol_name(p) {
                Some(name) => f.write_str(name)?,
                // The language has no such word; the parser never makes one.
                None => write!(f, "proto-{p}")?,
            },
        }
        if self.width == 1 {
            write!(f, "[{}]", self.offset)?;
        } else {
            write!(f, "[{}:{}]", self.offset, self.width)?;
        }
        if self.mask != full_mask(self.width) {
            write!(f, " & {:#x}", self.mask)?;
        }
        write!(f, " {cmp} {value}")
    }
}

/// All bits of `width` bytes.
pub(super) fn full_mask(width: u8) -> u32 {
    u32::MAX >> (32 - 8 * u32::from(width.clamp(1, 4)))
}

impl fmt::Display for Cmp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cmp::Eq => "==",
            Cmp::Ne => "!=",
            Cmp::Lt => "<",
            Cmp::Le => "<=",
            Cmp::Gt => ">",
            Cmp::Ge => ">=",
        })
    }
}
