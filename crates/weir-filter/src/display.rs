//! The canonical text of a filter, which the parser reads back to the same expression.

use std::fmt;
use std::net::Ipv4Addr;

use super::link::{MPLS, PPPOES};
use super::part::Proto;
use super::{AddressOf, Arith, Cmp, Dir, Expr, Field, IpVersion, Layer, Ports, Prim, Tags, protocol_name};
use crate::TCP_FLAGS;

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
        Writer { f, at: Some(Tags::NONE) }.expr(self)
    }
}

/// Writes an expression as the parser reads it: which tags it looks through at each place.
struct Writer<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    /// `None` behind what nothing may follow that is about the EtherType.
    at: Option<Tags>,
}

impl Writer<'_, '_> {
    fn expr(&mut self, expr: &Expr) -> fmt::Result {
        match expr {
            Expr::True => self.f.write_str("true"),
            Expr::False => self.f.write_str("false"),
            Expr::And(arms) => self.joined(arms, " and "),
            Expr::Or(arms) => self.joined(arms, " or "),
            Expr::Not(arm) => {
                self.f.write_str("not ")?;
                match **arm {
                    Expr::And(_) | Expr::Or(_) => self.in_parentheses(arm),
                    _ => self.expr(arm),
                }
            }
            Expr::Prim(_) | Expr::Compare(_) => self.leaf(Tags::NONE, expr),
            Expr::Behind(tags, leaf) => self.leaf(*tags, leaf),
        }
    }

    /// Both words stand in parentheses where they are mixed, so that libpcap's rank and Click's read the same. Arms that look
    /// through the same tags stand together.
    fn joined(&mut self, arms: &[Expr], word: &str) -> fmt::Result {
        let mut left = arms;
        while let Some((first, rest)) = left.split_first() {
            if left.len() < arms.len() {
                self.f.write_str(word)?;
            }
            let tags = same_tags(first).filter(|t| self.at != Some(*t));
            let run = left.iter().take_while(|a| tags.is_some() && same_tags(a) == tags).count();
            if let (Some(tags), 2..) = (tags, run) {
                let before = self.at.replace(tags);
                write!(self.f, "{} (", Prefix(tags))?;
                let (same, rest) = left.split_at(run);
                self.joined(same, word)?;
                self.f.write_str(")")?;
                self.at = before;
                left = rest;
                continue;
            }
            match first {
                Expr::And(_) | Expr::Or(_) => self.in_parentheses(first)?,
                arm => self.expr(arm)?,
            }
            left = rest;
        }
        Ok(())
    }

    fn in_parentheses(&mut self, expr: &Expr) -> fmt::Result {
        self.f.write_str("(")?;
        self.expr(expr)?;
        self.f.write_str(")")
    }

    fn leaf(&mut self, tags: Tags, leaf: &Expr) -> fmt::Result {
        let mut here = self.at == Some(tags) || !leaf.looks_behind_type();
        if let Expr::Prim(Prim::Field(Field { layer: Layer::Type(MPLS | PPPOES), .. })) = leaf {
            here = false;
        }
        if !here {
            write!(self.f, "{} ", Prefix(tags))?;
        }
        match leaf {
            Expr::Prim(p) => write!(self.f, "{p}")?,
            Expr::Compare(c) => write!(self.f, "{} {} {}", c.left, c.cmp, c.right)?,
            _ => {}
        }
        if let (true, Expr::Prim(Prim::Vlan(_)), Tags::Count(n)) = (here, leaf, tags) {
            self.at = Some(Tags::Count(n + 1));
        }
        Ok(())
    }
}

/// `tags 1`, `tags all`.
struct Prefix(Tags);

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Tags::Count(n) => write!(f, "tags {n}"),
            Tags::All => f.write_str("tags all"),
        }
    }
}

/// The tags that all tests of an expression look through, if they look through the same, and none changes what is looked
/// through behind it.
fn same_tags(expr: &Expr) -> Option<Tags> {
    let mut found = None;
    let other = expr.any_leaf(&mut |tags, leaf| {
        let vlan = matches!(leaf, Expr::Prim(Prim::Vlan(_)));
        let same = !leaf.looks_behind_type() || *found.get_or_insert(tags) == tags;
        vlan || !same
    });
    found.filter(|_| !other)
}

impl fmt::Display for Arith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arith::Number(n) => write!(f, "{n}"),
            Arith::Len => f.write_str("len"),
            Arith::Load { layer, offset, width: 1 } => write!(f, "{layer}[{offset}]"),
            Arith::Load { layer, offset, width } => write!(f, "{layer}[{offset}:{width}]"),
            Arith::Op(op, a, b) => write!(f, "({a} {} {b})", op.text()),
        }
    }
}

/// As bytes of it are written.
impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (proto, end) = match *self {
            Layer::Ether => return f.write_str("ether"),
            Layer::Type(0x0806) => return f.write_str("arp"),
            Layer::Type(0x8035) => return f.write_str("rarp"),
            // The language has no such word; the parser never makes one.
            Layer::Type(t) => return write!(f, "type-{t:#06x}"),
            Layer::Ip => return f.write_str("ip"),
            Layer::Ip6 => return f.write_str("ip6"),
            Layer::Transport => return f.write_str("transp"),
            Layer::TcpUdp => return f.write_str("tcpudp"),
            Layer::Proto(p) => (p, " transp"),
            Layer::Proto4(p) | Layer::Proto6(p) => (p, ""),
        };
        match protocol_name(proto) {
            Some(name) => write!(f, "{name}{end}"),
            // As above.
            None => write!(f, "proto-{proto}{end}"),
        }
    }
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
            Prim::Net { of, dir, addr, mask } => {
                f.write_str(match of {
                    AddressOf::Any => "",
                    AddressOf::Ip => "ip ",
                    AddressOf::Arp => "arp ",
                    AddressOf::Rarp => "rarp ",
                })?;
                let bits = u32::from(mask);
                let len = bits.leading_ones();
                if mask == Ipv4Addr::BROADCAST {
                    write!(f, "{dir}host {addr}")
                } else if bits.count_ones() == len {
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
            Prim::EtherType(0x8035) => f.write_str("rarp"),
            Prim::EtherType(t) => write!(f, "ether proto {t:#06x}"),
            Prim::Vlan(None) => f.write_str("vlan"),
            Prim::Vlan(Some(id)) => write!(f, "vlan {id}"),
            Prim::Proto { number, version } => match (version, protocol_name(number)) {
                (_, Some(name)) if version == Proto::version(number) => f.write_str(name),
                (version, _) => write!(f, "{}proto {number}", prefix(version)),
            },
            Prim::Chain { number, version } => write!(f, "{}protochain {number}", prefix(version)),
            Prim::Port { dir, lo, hi, proto } => {
                match proto {
                    Ports::Any => {}
                    Ports::TcpUdp => f.write_str("tcpudp ")?,
                    Ports::Of(p) => write!(f, "{} ", protocol_name(p).unwrap_or("tcp"))?,
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
            Layer::Type(MPLS) => return write!(f, "mpls {}", value >> 12),
            Layer::Type(PPPOES) => return write!(f, "pppoes {value}"),
            _ => {}
        }
        write!(f, "{}", self.layer)?;
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

fn prefix(version: Option<IpVersion>) -> &'static str {
    match version {
        None => "",
        Some(IpVersion::V4) => "ip ",
        Some(IpVersion::V6) => "ip6 ",
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
