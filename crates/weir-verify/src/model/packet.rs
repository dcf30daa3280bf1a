//! A packet on a path. All positions but its end are known numbers, or count from ones that are not (`anchors.rs`); what else
//! would make one unknown is split into a path for each value.

use std::rc::Rc;

use weir_ir::program::{BinOp, Layer, MetaField, Width};
use weir_packet::entry::Entry;
use weir_packet::{ANNO_LEN, HEADROOM, HUGE_CAPACITY, LARGE_CAPACITY, Provenance, SMALL_CAPACITY};

use crate::model::expr::{Expr, Exprs, Mem, Source, SourceId, Symbol};

/// More than any packet is long, and than any anchor is behind its base.
const LONG: i64 = 1 << 20;

/// A mark of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// As it was when the packet's source was made; not looked at yet.
    Original,
    /// Not set.
    Unset,
    /// At this position.
    At(i64),
    /// Behind this position by an expression (32 bits) whose value nobody asked for.
    Later(i64, Expr),
}

/// A packet on a path. Positions count from where its first byte was when its source was made.
#[derive(Debug, Clone, PartialEq)]
pub struct SymbolicPacket {
    /// Its bytes.
    pub mem: Mem,
    /// Position of its first byte.
    pub data: i64,
    /// Lowest position that was its first byte since its source was made.
    pub floor: i64,
    /// Position behind its last byte: the sum of a 32-bit expression and a number.
    pub end: (Expr, i64),
    /// Marks of `mac`, `net`, `transport` and `cursor`.
    pub marks: [Mark; 4],
    /// Annotations, byte by byte.
    pub anno: Rc<Vec<Expr>>,
    /// Metadata in the order of [`MetaField::ALL`].
    pub meta: [Expr; MetaField::ALL.len()],
    /// Hop count (8 bits).
    pub hops: Expr,
    /// Index of position 0 in the buffer (32 bits).
    pub head: Expr,
    /// Size of the buffer (32 bits).
    pub capacity: Expr,
    /// Where positions begin that count from anchors, if some were looked at: from the front to the back.
    pub(crate) anchors: Rc<[i64]>,
    /// What need not be asked of it again.
    pub(crate) bounds: Bounds,
}

/// Bounds of a packet that a path found out, so that it need not ask again. They follow from what is known on the path, so
/// packets that differ in nothing else are equal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// It reaches to this position, at least.
    pub(crate) reached: i64,
    /// It does not reach to this position, nor to any behind it.
    pub(crate) short_of: i64,
    /// None of its anchors stands in front of this position.
    pub(crate) anchor_from: i64,
    /// So many bytes of its buffer are free, at least.
    pub(crate) spare: i64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { reached: i64::MIN, short_of: i64::MAX, anchor_from: i64::MIN, spare: 0 }
    }
}

impl PartialEq for Bounds {
    fn eq(&self, _: &Bounds) -> bool {
        true
    }
}

impl SymbolicPacket {
    /// A packet of which nothing is known.
    pub(crate) fn unknown(x: &mut Exprs, source: Source) -> SymbolicPacket {
        let s = x.source_id(source);
        let len = x.bounded(Width::W32, Symbol::Len(s), 0, HUGE_CAPACITY.into());
        let small = u128::from(SMALL_CAPACITY);
        SymbolicPacket {
            mem: Mem { source: s, writes: Rc::default() },
            data: 0,
            floor: 0,
            end: (len, 0),
            marks: [Mark::Original; 4],
            anno: Rc::new((0..ANNO_LEN as u32).map(|i| x.symbol(Width::W8, Symbol::Anno(s, i))).collect()),
            meta: MetaField::ALL.map(|f| x.symbol(f.width(), Symbol::Meta(s, f))),
            hops: x.symbol(Width::W8, Symbol::Hops(s)),
            head: x.bounded(Width::W32, Symbol::Head(s), 0, HUGE_CAPACITY.into()),
            capacity: x.bounded(Width::W32, Symbol::Capacity(s), small, HUGE_CAPACITY.into()),
            anchors: Rc::default(),
            bounds: Bounds::default(),
        }
    }

    /// Makes it one as it comes in so, as far as that fixes values. The concrete packet of a solved path is made alike.
    pub(crate) fn enter(&mut self, x: &mut Exprs, entry: &Entry) {
        let new = SymbolicPacket::empty(x);
        if !entry.annotated {
            self.anno = new.anno;
        }
        if !entry.travelled {
            self.hops = new.hops;
        }
        for field in MetaField::ALL {
            let is_one = match field {
                MetaField::PacketType => entry.packet_type.start() == entry.packet_type.end(),
                MetaField::Checksum => entry.checksum.start() == entry.checksum.end(),
                MetaField::SegmentSize => !entry.segments,
                MetaField::FlowHash | MetaField::InPort | MetaField::Provenance => true,
                MetaField::Timestamp => false,
            };
            if is_one {
                *self.meta_mut(field) = x.constant(field.width(), 0);
            }
        }
        if entry.own_buffer {
            self.head = new.head;
            self.capacity = x.constant(Width::W32, HUGE_CAPACITY.into());
            for size in [LARGE_CAPACITY, SMALL_CAPACITY] {
                let most = x.constant(Width::W32, (size - HEADROOM).into());
                let size = x.constant(Width::W32, size.into());
                let fits = x.at_most(self.end.0, most);
                self.capacity = x.select(fits, size, self.capacity);
            }
        }
        self.bounds.spare = HEADROOM.into();
    }

    /// An empty packet with nothing.
    pub(crate) fn empty(x: &mut Exprs) -> SymbolicPacket {
        let s = x.source_id(Source::Empty);
        let zero = x.constant(Width::W32, 0);
        let byte = x.constant(Width::W8, 0);
        SymbolicPacket {
            mem: Mem { source: s, writes: Rc::default() },
            data: 0,
            floor: 0,
            end: (zero, 0),
            marks: [Mark::Unset; 4],
            anno: Rc::new(vec![byte; ANNO_LEN]),
            meta: MetaField::ALL.map(|f| x.constant(f.width(), 0)),
            hops: byte,
            head: x.constant(Width::W32, HEADROOM.into()),
            capacity: x.constant(Width::W32, SMALL_CAPACITY.into()),
            anchors: Rc::default(),
            bounds: Bounds::default(),
        }
    }

    /// As [`weir_packet::Packet::made`].
    pub(crate) fn made(x: &mut Exprs) -> SymbolicPacket {
        let mut p = SymbolicPacket::empty(x);
        *p.meta_mut(MetaField::Provenance) = x.constant(Width::W8, Provenance::Made as u128);
        p
    }

    /// As [`weir_packet::Packet::successor`].
    pub(crate) fn successor(&self, x: &mut Exprs) -> SymbolicPacket {
        let mut p = SymbolicPacket::made(x);
        p.anno.clone_from(&self.anno);
        p.hops = self.hops;
        for f in [MetaField::Timestamp, MetaField::InPort] {
            *p.meta_mut(f) = self.meta(f);
        }
        p
    }

    /// How many bytes more than [`LONG`] there are from an anchor to the end (32 bits): never less than 0, also where the
    /// end is in front.
    fn space(&self, x: &mut Exprs, base: i64, off: Expr) -> Expr {
        let end = x.plus(self.end.0, self.end.1 - base + LONG);
        x.binary(BinOp::Sub, end, off)
    }

    /// Whether the packet, where it is known to reach to an anchor, has space there; nothing if the position is behind none.
    pub(crate) fn reaches_anchor(&self, x: &mut Exprs, at: i64) -> Option<(Expr, Expr)> {
        let (base, off) = x.anchor_of(at).map(|(anchor, _)| (anchor.base, anchor.off))?;
        let rest = self.rest(x, base);
        let reaches = x.at_most(off, rest);
        let space = self.space(x, base, off);
        let least = x.constant(Width::W32, LONG as u128);
        Some((reaches, x.at_most(least, space)))
    }

    /// With numbers in place of its anchors: where they begin, and how far that is behind their bases.
    pub(crate) fn settle(&mut self, x: &Exprs, offs: &[(i64, u32)]) {
        if std::mem::take(&mut self.anchors).is_empty() {
            return;
        }
        let settled = |at: i64| {
            let start = x.anchor_of(at).map(|(_, k)| at - k);
            let off = offs.iter().find(|(anchor, _)| Some(*anchor) == start);
            off.map_or(at, |(_, off)| x.settled(at, *off))
        };
        if self.mem.has_behind() {
            self.mem.writes = Rc::new(self.mem.writes.iter().map(|(at, b)| (settled(*at), *b)).collect());
        }
        for mark in &mut self.marks {
            if let Mark::At(at) | Mark::Later(at, _) = mark {
                *at = settled(*at);
            }
        }
    }

    /// Where its unwritten bytes come from.
    pub fn source(&self) -> SourceId {
        self.mem.source
    }

    /// Whether it is of this provenance, if that is known.
    pub(crate) fn is(&self, x: &Exprs, what: Provenance) -> Option<bool> {
        x.constant_value(self.meta(MetaField::Provenance)).map(|known| known == what as u128)
    }

    /// Metadata.
    pub fn meta(&self, f: MetaField) -> Expr {
        self.meta[meta_number(f)]
    }

    pub(crate) fn meta_mut(&mut self, f: MetaField) -> &mut Expr {
        &mut self.meta[meta_number(f)]
    }

    /// The byte at a position.
    pub fn byte(&self, x: &mut Exprs, at: i64) -> Expr {
        self.mem.byte(x, at)
    }

    /// The number of this width at a position.
    pub fn load(&self, x: &mut Exprs, width: Width, at: i64) -> Expr {
        let places = at..at + i64::from(width.bytes());
        let is_written = self.mem.writes.range(places.clone()).next().is_some();
        let original = (self.mem.source, at, width);
        if let Some(&e) = x.originals.get(&original).filter(|_| !is_written) {
            return e;
        }
        let bytes: Vec<Expr> = places.map(|i| self.byte(x, i)).collect();
        let e = x.concat(&bytes);
        if !is_written {
            x.originals.insert(original, e);
        }
        e
    }

    pub(crate) fn store(&mut self, x: &mut Exprs, at: i64, bytes: &[Expr]) {
        for (i, &b) in (at..).zip(bytes) {
            let original = x.symbol(Width::W8, Symbol::Byte(self.mem.source, i));
            // A byte that is back to what it was counts as never written.
            if b == original {
                Rc::make_mut(&mut self.mem.writes).remove(&i);
            } else {
                Rc::make_mut(&mut self.mem.writes).insert(i, b);
            }
        }
    }

    /// Whether two packets are alike but for IPv4's time to live and checksum, or IPv6's hop limit.
    pub(crate) fn same_but_ttl(&self, other: &SymbolicPacket) -> bool {
        let Mark::At(net) = self.marks[1] else { return self == other };
        let differs = |at: &i64| ![7, 8, 10, 11].contains(&(at - net));
        let writes = |p: &SymbolicPacket| -> Vec<(i64, Expr)> {
            p.mem.writes.iter().filter(|(at, _)| differs(at)).map(|(&at, &b)| (at, b)).collect()
        };
        let rest = SymbolicPacket { mem: other.mem.clone(), hops: other.hops, ..self.clone() };
        rest == *other && self.mem.source == other.mem.source && writes(self) == writes(other)
    }

    /// Number of bytes from a position to the end, if it is not behind it (32 bits).
    pub fn rest(&self, x: &mut Exprs, from: i64) -> Expr {
        if let Some((base, off, k)) = x.anchor_of(from).map(|(anchor, k)| (anchor.base, anchor.off, k)) {
            let space = self.space(x, base, off);
            return x.plus(space, -LONG - k);
        }
        x.plus(self.end.0, self.end.1 - from)
    }

    /// Whether a position is not behind the end.
    pub(crate) fn reaches(&self, x: &mut Exprs, at: i64) -> Expr {
        if let Some((base, off, k)) = x.anchor_of(at).map(|(anchor, k)| (anchor.base, anchor.off, k)) {
            let space = self.space(x, base, off);
            let need = x.constant(Width::W32, (LONG + k) as u128);
            return x.at_most(need, space);
        }
        match u32::try_from(at - self.end.1) {
            Err(_) => x.constant(Width::W1, u128::from(at <= self.end.1)),
            Ok(n) => {
                let n = x.constant(Width::W32, n.into());
                x.at_most(n, self.end.0)
            }
        }
    }

    /// Length (32 bits).
    pub fn len(&self, x: &mut Exprs) -> Expr {
        self.rest(x, self.data)
    }

    /// Index in the buffer of the end (32 bits).
    pub(crate) fn end_index(&self, x: &mut Exprs) -> Expr {
        let end = x.plus(self.end.0, self.end.1);
        x.binary(BinOp::Add, end, self.head)
    }

    /// Puts zeros in front; the buffer's content moves if the space in front is too small.
    pub(crate) fn push(&mut self, x: &mut Exprs, n: u32) {
        let data = x.plus(self.head, self.data);
        let want = x.constant(Width::W32, n.into());
        let short = x.less(data, want);
        let missing = x.binary(BinOp::Sub, want, data);
        let moved = x.binary(BinOp::Add, self.head, missing);
        self.head = x.select(short, moved, self.head);
        self.data -= i64::from(n);
        self.floor = self.floor.min(self.data);
        let zero = x.constant(Width::W8, 0);
        self.store(x, self.data, &vec![zero; n as usize]);
    }
}

/// Number of a field in [`MetaField::ALL`].
pub(crate) fn meta_number(f: MetaField) -> usize {
    MetaField::ALL.iter().position(|&o| o == f).unwrap_or(0)
}

/// Number of a mark in [`SymbolicPacket::marks`]; `None` for `data`.
pub(crate) fn mark_number(l: Layer) -> Option<usize> {
    (l as usize).checked_sub(1)
}
