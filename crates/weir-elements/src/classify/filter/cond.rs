//! Filters as conditions over values that are read once from each packet: what programs and rows are made of.

use weir_filter::{
    AddressOf, Cmp, Dir, Expr, Field as FieldPrim, IpVersion, Layer as FieldLayer, Ports, Prim, TAG_TYPES,
    Tags,
};
use weir_ir::Width;

use super::View;

/// Bytes of an IPv4 header that are read at once; fields that end behind them are looked for one by one.
const V4_LEN: u32 = 20;
/// The same of a transport header: that of TCP without options.
const TRANSPORT_LEN: u32 = 20;
/// Marks an Ethernet address that is there, in the value of its field.
pub(super) const ETHER_THERE: u64 = 1 << 48;
/// Marks a VLAN tag that is there, in the value of its field.
pub(super) const VLAN_THERE: u16 = 1 << 12;
/// Marks that the identifier of the tag is there, too.
pub(super) const VLAN_WHOLE: u16 = 1 << 13;
/// The next header of IPv6 in front of a fragment header.
pub(super) const FRAGMENT: u8 = 44;

/// A number that is read from a packet. It is 0 if the packet does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::classify) enum Field {
    /// Offset in the IPv4 header, number of bytes (1 to 4).
    V4(u32, u32),
    /// Offset of 16 bytes in the IPv6 header.
    V6(u32),
    /// Offset in the transport header of a first fragment, number of bytes (1 to 4).
    Transport(u32, u32),
    /// IPv4 protocol or IPv6 next header, or what stands behind it (see [`View`]).
    Proto,
    /// Offset of an address of four bytes in ARP or RARP.
    Arp(u32),
    /// `EtherType`, behind VLAN tags if they are looked through.
    EtherType,
    /// Identifier of the outermost VLAN tag, [`VLAN_THERE`] and [`VLAN_WHOLE`].
    Vlan,
    /// Ethernet source, and [`ETHER_THERE`].
    EtherSrc,
    /// Ethernet destination, and [`ETHER_THERE`].
    EtherDst,
    /// Offset in the packet, number of bytes (1, 2, 4 or 8).
    Data(u32, u32),
}

impl Field {
    /// Size of its value.
    pub fn width(self) -> Width {
        match self {
            Field::V4(_, n) | Field::Transport(_, n) | Field::Data(_, n) => width_of_bytes(n),
            Field::V6(_) => Width::W128,
            Field::Arp(_) => Width::W32,
            Field::Proto => Width::W8,
            Field::EtherType | Field::Vlan => Width::W16,
            Field::EtherSrc | Field::EtherDst => Width::W64,
        }
    }
}

impl Field {
    /// Name as a key field.
    pub fn name(self) -> String {
        match self {
            Field::V4(12, 4) => "src".into(),
            Field::V4(16, 4) => "dst".into(),
            Field::V4(off, n) => format!("ip_{off}_{n}"),
            Field::V6(8) => "src6".into(),
            Field::V6(24) => "dst6".into(),
            Field::V6(off) => format!("ip6_{off}"),
            Field::Transport(0, 2) => "sport".into(),
            Field::Transport(2, 2) => "dport".into(),
            Field::Transport(off, n) => format!("transp_{off}_{n}"),
            Field::Proto => "proto".into(),
            Field::Arp(14) => "arp_src".into(),
            Field::Arp(24) => "arp_dst".into(),
            Field::Arp(off) => format!("arp_{off}"),
            Field::EtherType => "ether_type".into(),
            Field::Vlan => "vlan".into(),
            Field::EtherSrc => "ether_src".into(),
            Field::EtherDst => "ether_dst".into(),
            Field::Data(off, n) => format!("data_{off}_{n}"),
        }
    }
}

/// The smallest width with so many bytes.
fn width_of_bytes(n: u32) -> Width {
    let wide = |w: &Width| w.bits() > 1 && w.bytes() >= n;
    Width::ALL.into_iter().find(wide).unwrap_or(Width::W128)
}

/// Something that a packet has or has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::classify) enum Bit {
    /// So many bytes from an IPv4 header on.
    V4(u32),
    /// So many bytes from an IPv6 header on.
    V6(u32),
    /// So many bytes from the transport header of a first fragment on, within the IP packet.
    Transport(u32),
    /// TCP or UDP as its protocol.
    TcpUdp,
    /// TCP, UDP or SCTP as its protocol.
    WithPorts,
    /// So many bytes of ARP or RARP.
    Arp(u32),
    /// An Ethernet header that is not cut short.
    Frame,
    /// A protocol.
    Proto,
    /// So many bytes.
    Data(u32),
}

/// The operand that a number is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::classify) enum Test {
    /// It has this value under a mask (value, mask).
    Mask(u128, u128),
    /// It is in a range, both ends included.
    Range(u128, u128),
    /// Another comparison of it under a mask (mask, comparison, value).
    Other(u128, Cmp, u128),
}

/// A condition on a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::classify) enum Cond {
    /// All hold; true if there are none.
    All(Vec<Cond>),
    /// Some hold; false if there are none.
    Any(Vec<Cond>),
    /// It does not hold.
    Not(Box<Cond>),
    /// A number's value.
    Test(Field, Test),
    /// What the packet has.
    Has(Bit),
    /// A test of an expression behind these tags, which is made in its place before all else is read.
    Deep(Tags, Box<Expr>),
    /// Bytes at an offset have these values under masks, looked for in their place: offset, values, masks.
    Bytes(u32, Vec<u8>, Vec<u8>),
}

impl Cond {
    /// Always holds.
    pub const TRUE: Cond = Cond::All(Vec::new());
    /// Never holds.
    pub const FALSE: Cond = Cond::Any(Vec::new());

    /// A number has this value.
    pub fn is(field: Field, value: impl Into<u128>) -> Cond {
        Cond::Test(field, Test::Mask(value.into(), field.width().max()))
    }

    /// Both hold.
    pub fn and(self, other: Cond) -> Cond {
        Cond::all([self, other])
    }

    /// All hold.
    pub fn all(conds: impl IntoIterator<Item = Cond>) -> Cond {
        let mut list = Vec::new();
        for c in conds {
            match c {
                Cond::All(inner) => list.extend(inner),
                Cond::Any(inner) if inner.is_empty() => return Cond::FALSE,
                c => list.push(c),
            }
        }
        if list.len() == 1 { list.remove(0) } else { Cond::All(list) }
    }

    /// Some hold.
    pub fn any(conds: impl IntoIterator<Item = Cond>) -> Cond {
        let mut list = Vec::new();
        for c in conds {
            match c {
                Cond::Any(inner) => list.extend(inner),
                Cond::All(inner) if inner.is_empty() => return Cond::TRUE,
                c => list.push(c),
            }
        }
        if list.len() == 1 { list.remove(0) } else { Cond::Any(list) }
    }

    /// It does not hold.
    pub fn negate(self) -> Cond {
        match self {
            Cond::Not(inner) => *inner,
            Cond::All(c) if c.is_empty() => Cond::FALSE,
            Cond::Any(c) if c.is_empty() => Cond::TRUE,
            c => Cond::Not(Box::new(c)),
        }
    }

    /// Calls `f` for this condition and all in it.
    pub fn visit(&self, f: &mut impl FnMut(&Cond)) {
        f(self);
        match self {
            Cond::All(arms) | Cond::Any(arms) => arms.iter().for_each(|a| a.visit(f)),
            Cond::Not(arm) => arm.visit(f),
            _ => {}
        }
    }

    /// What an expression says about a packet. `walks`: whether tags are looked through, see [`walks`].
    pub fn of(expr: &Expr, view: View, walks: bool) -> Cond {
        match expr {
            Expr::True => Cond::TRUE,
            Expr::False => Cond::FALSE,
            Expr::And(arms) => Cond::all(arms.iter().map(|a| Cond::of(a, view, walks))),
            Expr::Or(arms) => Cond::any(arms.iter().map(|a| Cond::of(a, view, walks))),
            Expr::Not(arm) => Cond::of(arm, view, walks).negate(),
            Expr::Prim(_) | Expr::Compare(_) => leaf(Tags::NONE, expr, view, walks),
            Expr::Behind(tags, expr) => leaf(*tags, expr, view, walks),
        }
    }
}

/// Whether tests of frames look through all tags, so that headers behind them are found for all; else headers are those right
/// behind the first `EtherType`.
pub(super) fn walks<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> bool {
    exprs.into_iter().any(|e| e.any_leaf(&mut |tags, _| tags == Tags::All))
}

/// What a test behind tags says. Most are about numbers that are read once.
fn leaf(tags: Tags, expr: &Expr, view: View, walks: bool) -> Cond {
    if view != View::Ethernet {
        return match (tags, expr) {
            // There are no tags to look behind.
            (Tags::Count(1..), _) => Cond::FALSE,
            (_, Expr::Prim(p)) => {
                prim(p, view).unwrap_or_else(|| Cond::Deep(Tags::NONE, Box::new(expr.clone())))
            }
            _ => Cond::Deep(Tags::NONE, Box::new(expr.clone())),
        };
    }
    let in_place = || Cond::Deep(tags, Box::new(expr.clone()));
    let Expr::Prim(p) = expr else { return in_place() };
    match p {
        Prim::EtherHost { .. } => return prim(p, view).unwrap_or_else(in_place),
        // The outermost tag.
        Prim::Vlan(id) if tags == Tags::NONE => {
            let there = u128::from(VLAN_THERE);
            return match id {
                None => Cond::Test(Field::Vlan, Test::Mask(there, there)),
                Some(id) => Cond::is(Field::Vlan, VLAN_THERE | VLAN_WHOLE | id & 0x0fff),
            };
        }
        Prim::Vlan(_) => return in_place(),
        // Which tag it is, is not read.
        Prim::EtherType(t) if TAG_TYPES.contains(t) && walks => return in_place(),
        _ => {}
    }
    match (tags, prim(p, view)) {
        (Tags::Count(1..), _) | (_, None) => in_place(),
        (Tags::Count(0), Some(cond)) if walks => {
            // Behind no tag is behind all where there is none.
            let untagged = Cond::Test(Field::Vlan, Test::Mask(0, VLAN_THERE.into()));
            untagged.and(cond)
        }
        (_, Some(cond)) => cond,
    }
}

/// What a primitive says of numbers that are read once, if it can be said of them. In the views of IP packets, the fixed
/// header is always there, and there is no Ethernet header.
fn prim(prim: &Prim, view: View) -> Option<Cond> {
    let ethernet = view == View::Ethernet;
    let typed = |version: Option<IpVersion>| of_version(version, view);
    Some(match *prim {
        Prim::Net { of, dir, addr, mask } => {
            let (addr, mask) = (u128::from(u32::from(addr)), u128::from(u32::from(mask)));
            let ip = directions(dir, |dst| {
                let off = if dst { 16 } else { 12 };
                let there = match view {
                    View::Ethernet => Cond::Has(Bit::V4(off + 4)),
                    View::Ip => Cond::TRUE,
                    _ => return Cond::FALSE,
                };
                there.and(masked(Field::V4(off, 4), addr, mask))
            });
            let arp = directions(dir, |dst| {
                let off = if dst { 24 } else { 14 };
                let there = if ethernet { Cond::Has(Bit::Arp(off + 4)) } else { Cond::FALSE };
                there.and(masked(Field::Arp(off), addr, mask))
            });
            match of {
                AddressOf::Ip => ip,
                AddressOf::Any => Cond::any([ip, arp]),
                AddressOf::Arp => ether_type(0x0806, view).and(arp),
                AddressOf::Rarp => ether_type(0x8035, view).and(arp),
            }
        }
        Prim::Net6 { dir, addr, len } => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            directions(dir, |dst| {
                let off = if dst { 24 } else { 8 };
                let there = if view == View::Ip { Cond::FALSE } else { Cond::Has(Bit::V6(off + 16)) };
                there.and(masked(Field::V6(off), u128::from(addr) & mask, mask))
            })
        }
        Prim::EtherHost { .. } | Prim::Vlan(_) if !ethernet => Cond::FALSE,
        Prim::EtherHost { dir, addr } => {
            let bits = addr.0.iter().fold(0, |v: u64, &o| v << 8 | u64::from(o));
            directions(dir, |dst| {
                Cond::is(if dst { Field::EtherDst } else { Field::EtherSrc }, ETHER_THERE | bits)
            })
        }
        Prim::Vlan(_) => return None,
        Prim::EtherType(t) => ether_type(t, view),
        // Of fragments, the number that is read is another one.
        Prim::Proto { number: FRAGMENT, version } if version != Some(IpVersion::V4) && view != View::Ip => {
            return None;
        }
        Prim::Proto { number, version } => {
            let is = Cond::is(Field::Proto, number);
            // 0 is also what packets without a protocol show.
            let there = number == 0 && view != View::Ip;
            typed(version).and(if there { is.and(Cond::Has(Bit::Proto)) } else { is })
        }
        Prim::Chain { .. } => return None,
        Prim::Port { dir, lo, hi, proto } => ports(proto).and(directions(dir, |dst| {
            let off = if dst { 2 } else { 0 };
            Cond::Has(Bit::Transport(off + 2)).and(range(
                Field::Transport(off, 2),
                lo.into(),
                hi.into(),
                0xffff,
            ))
        })),
        Prim::Field(f) => {
            let end = u32::from(f.offset) + u32::from(f.width);
            if let Some((protos, version)) = f.layer.transport() {
                if end > TRANSPORT_LEN {
                    return None;
                }
                let right = match (f.layer, protos) {
                    (FieldLayer::TcpUdp, _) => Cond::Has(Bit::TcpUdp),
                    (_, Some([p])) => Cond::is(Field::Proto, *p),
                    _ => Cond::TRUE,
                };
                let there = Cond::Has(Bit::Transport(end));
                return Some(typed(version).and(right).and(there).and(field(&f)));
            }
            match (f.layer, view) {
                (FieldLayer::Ip, View::Ip | View::Ethernet) if end > V4_LEN => return None,
                (FieldLayer::Ip, View::Ip) => field(&f),
                (FieldLayer::Ip, View::Ethernet) => Cond::Has(Bit::V4(end)).and(field(&f)),
                (FieldLayer::Ip, _) | (FieldLayer::Ip6, View::Ip) => Cond::FALSE,
                (FieldLayer::Ether | FieldLayer::Type(_), View::Ip | View::Ip6 | View::Ip6Followed) => {
                    Cond::FALSE
                }
                _ => return None,
            }
        }
    })
}

fn ether_type(t: u16, view: View) -> Cond {
    let known = match view {
        View::Ip => 0x0800,
        View::Ip6 | View::Ip6Followed => 0x86dd,
        View::Ethernet | View::Bytes => {
            let is = Cond::is(Field::EtherType, t);
            // 0 is also what frames show that are cut short.
            return if t == 0 { is.and(Cond::Has(Bit::Frame)) } else { is };
        }
    };
    if t == known { Cond::TRUE } else { Cond::FALSE }
}

fn of_version(version: Option<IpVersion>, view: View) -> Cond {
    match version {
        None => Cond::TRUE,
        Some(IpVersion::V4) => ether_type(0x0800, view),
        Some(IpVersion::V6) => ether_type(0x86dd, view),
    }
}

/// The protocol is one of these.
fn ports(proto: Ports) -> Cond {
    match proto {
        Ports::Of(p) => Cond::is(Field::Proto, p),
        Ports::TcpUdp => Cond::Has(Bit::TcpUdp),
        Ports::Any => Cond::Has(Bit::WithPorts),
    }
}

fn masked(field: Field, value: u128, mask: u128) -> Cond {
    match (mask, value & !mask) {
        (_, 1..) => Cond::FALSE,
        (0, 0) => Cond::TRUE,
        _ => Cond::Test(field, Test::Mask(value, mask)),
    }
}

/// `lo..=hi`, of numbers up to `max`.
fn range(field: Field, lo: u128, hi: u128, max: u128) -> Cond {
    if lo > hi {
        Cond::FALSE
    } else if lo == hi {
        Cond::is(field, lo)
    } else if (lo, hi) == (0, max) {
        Cond::TRUE
    } else {
        Cond::Test(field, Test::Range(lo, hi))
    }
}

/// The comparison of a field of the IPv4 or transport header, whose presence is tested elsewhere.
fn field(f: &FieldPrim) -> Cond {
    let (off, n) = (u32::from(f.offset), u32::from(f.width));
    let at = if f.layer == FieldLayer::Ip { Field::V4(off, n) } else { Field::Transport(off, n) };
    let max = (1_u128 << (8 * n)) - 1;
    let (mask, value) = (u128::from(f.mask) & max, u128::from(f.value));
    match f.cmp {
        Cmp::Eq => masked(at, value, mask),
        Cmp::Ne if value & !mask != 0 => Cond::TRUE,
        // Of a single bit, what it is not says what it is.
        Cmp::Ne if mask.is_power_of_two() => masked(at, value ^ mask, mask),
        _ if mask != max || f.cmp == Cmp::Ne => Cond::Test(at, Test::Other(mask, f.cmp, value)),
        Cmp::Lt if value == 0 => Cond::FALSE,
        Cmp::Lt => range(at, 0, (value - 1).min(max), max),
        Cmp::Le => range(at, 0, value.min(max), max),
        Cmp::Gt => range(at, value + 1, max, max),
        Cmp::Ge | Cmp::Ne => range(at, value, max, max),
    }
}

/// `test(false)` is about the source, `test(true)` about the destination.
fn directions(dir: Dir, test: impl Fn(bool) -> Cond) -> Cond {
    match dir {
        Dir::Src => test(false),
        Dir::Dst => test(true),
        Dir::SrcOrDst => Cond::any([test(false), test(true)]),
        Dir::SrcAndDst => Cond::all([test(false), test(true)]),
    }
}
