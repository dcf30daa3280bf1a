//! Filters as conditions over values that are read once from each packet: what programs and rows are made of.

use weir_ir::Width;
use weir_model::filter::{Cmp, Dir, Expr, Field as FieldPrim, Layer as FieldLayer, Prim};

use super::View;

/// Bytes of an IPv4 header that are read at once; fields that end behind them are looked for one by one.
const V4_LEN: u32 = 20;
/// The same of a transport header: that of TCP without options.
const TRANSPORT_LEN: u32 = 20;
/// Marks an Ethernet address that is there, in the value of its field.
pub(super) const ETHER_THERE: u64 = 1 << 48;
/// Marks a VLAN tag that is there, in the value of its field.
pub(super) const VLAN_THERE: u16 = 1 << 12;

/// A number that is read from a packet. It is 0 if the packet does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::classify) enum Field {
    /// Offset in the IPv4 header, number of bytes (1 to 4).
    V4(u32, u32),
    /// Offset of 16 bytes in the IPv6 header.
    V6(u32),
    /// Offset in the transport header of a first fragment, number of bytes (1 to 4).
    Transport(u32, u32),
    /// IPv4 protocol or IPv6 next header.
    Proto,
    /// `EtherType` behind VLAN tags.
    EtherType,
    /// Identifier of the outermost VLAN tag, and [`VLAN_THERE`].
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
    /// So many bytes from the transport header of a first fragment on.
    Transport(u32),
    /// TCP or UDP as its protocol.
    TcpUdp,
    /// An Ethernet header that is not cut short.
    Frame,
    /// A protocol.
    Proto,
    /// So many bytes.
    Data(u32),
}

/// What a number is compared with.
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
    /// A field of the IPv4 header (if the packet has one at `net`) or of the transport header, looked for in its place.
    Deep(FieldPrim),
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

    /// What an expression says about a packet.
    pub fn of(expr: &Expr, view: View) -> Cond {
        match expr {
            Expr::True => Cond::TRUE,
            Expr::False => Cond::FALSE,
            Expr::And(arms) => Cond::all(arms.iter().map(|a| Cond::of(a, view))),
            Expr::Or(arms) => Cond::any(arms.iter().map(|a| Cond::of(a, view))),
            Expr::Not(arm) => Cond::of(arm, view).negate(),
            Expr::Prim(p) => prim(p, matches!(view, View::Ethernet | View::Ip6)),
        }
    }
}

/// What a primitive says. Without `ethernet`, in the view of IPv4 packets, the first 20 bytes of the header are always there, and there
/// is no Ethernet header.
fn prim(prim: &Prim, ethernet: bool) -> Cond {
    match *prim {
        Prim::Net { dir, addr, mask } => {
            let (addr, mask) = (u32::from(addr), u32::from(mask));
            directions(dir, |dst| {
                let off = if dst { 16 } else { 12 };
                let there = if ethernet { Cond::Has(Bit::V4(off + 4)) } else { Cond::TRUE };
                there.and(masked(Field::V4(off, 4), addr.into(), mask.into()))
            })
        }
        Prim::Net6 { .. } | Prim::EtherHost { .. } | Prim::Vlan(_) if !ethernet => Cond::FALSE,
        Prim::Net6 { dir, addr, len } => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            directions(dir, |dst| {
                let off = if dst { 24 } else { 8 };
                Cond::Has(Bit::V6(off + 16)).and(masked(Field::V6(off), u128::from(addr) & mask, mask))
            })
        }
        Prim::EtherHost { dir, addr } => {
            let bits = addr.0.iter().fold(0, |v: u64, &o| v << 8 | u64::from(o));
            directions(dir, |dst| {
                Cond::is(if dst { Field::EtherDst } else { Field::EtherSrc }, ETHER_THERE | bits)
            })
        }
        Prim::EtherType(t) if !ethernet => {
            if t == 0x0800 {
                Cond::TRUE
            } else {
                Cond::FALSE
            }
        }
        Prim::EtherType(t) => {
            let is = Cond::is(Field::EtherType, t);
            // 0 is also what frames show that are cut short.
            if t == 0 { is.and(Cond::Has(Bit::Frame)) } else { is }
        }
        Prim::Vlan(None) => Cond::Test(Field::Vlan, Test::Mask(VLAN_THERE.into(), VLAN_THERE.into())),
        Prim::Vlan(Some(id)) => Cond::is(Field::Vlan, VLAN_THERE | id & 0x0fff),
        Prim::Proto(p) => {
            let is = Cond::is(Field::Proto, p);
            // 0 is also what packets without a protocol show.
            if p == 0 && ethernet { is.and(Cond::Has(Bit::Proto)) } else { is }
        }
        Prim::Port { dir, lo, hi, proto } => protocol(proto).and(directions(dir, |dst| {
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
            match f.layer {
                FieldLayer::Ip => {
                    let there = match (ethernet, end <= V4_LEN) {
                        (true, true) => Cond::Has(Bit::V4(end)),
                        (true, false) => Cond::is(Field::EtherType, 0x0800_u16),
                        (false, _) => Cond::TRUE,
                    };
                    there.and(field(&f, end <= V4_LEN))
                }
                layer => {
                    let right = match layer {
                        FieldLayer::TcpUdp => protocol(None),
                        FieldLayer::Proto(p) => protocol(Some(p)),
                        FieldLayer::Ip | FieldLayer::Transport => Cond::TRUE,
                    };
                    let short = end <= TRANSPORT_LEN;
                    let there = if short { Cond::Has(Bit::Transport(end)) } else { Cond::TRUE };
                    right.and(there).and(field(&f, short))
                }
            }
        }
    }
}

/// The protocol is this, or (without one) TCP or UDP.
fn protocol(proto: Option<u8>) -> Cond {
    match proto {
        Some(p) => Cond::is(Field::Proto, p),
        None => Cond::Has(Bit::TcpUdp),
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

/// The comparison of a header field whose presence is tested elsewhere if it is `short`.
fn field(f: &FieldPrim, short: bool) -> Cond {
    if !short {
        return Cond::Deep(*f);
    }
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
