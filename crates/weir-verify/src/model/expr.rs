//! Expressions over what a run starts from: a graph in which equal expressions are one node.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashTable;
use rustc_hash::{FxHashMap as HashMap, FxHasher};

use weir_ir::program::{BinOp, Layer, MetaField, Width};

use crate::model::anchors::{Anchor, is_behind};
use crate::model::facts::Recent;
use crate::model::set::Set;

/// An expression, by number in its [`Exprs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expr(pub(crate) u32);

/// The number of a [`Source`] in its [`Exprs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u32);

/// The written bytes of a packet at some time, by number in its [`Exprs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemId(pub(crate) u32);

/// The origin of a packet's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// The packet of that number that comes in, from 0.
    Input(u32),
    /// Nothing: a packet that the program made.
    Empty,
    /// The packet of that number that an entry held before the run.
    Held(EntryAt, u32),
}

/// An entry that was there before the run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntryAt {
    /// Number of its table.
    pub table: u32,
    /// How it is found.
    pub at: At,
}

/// The key or row of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum At {
    /// By looking up this key.
    Key(Box<[Expr]>),
    /// It is this row of the table's first content (in the order of [`weir_table::Table::rows`]).
    Row(u32),
}

/// Bytes of a packet: those written, and where the others come from. Positions count from where the first byte of
/// the packet was when its source was made, or from an anchor (`anchors.rs`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mem {
    /// Where bytes that were not written come from.
    pub source: SourceId,
    /// Written bytes.
    pub writes: Rc<BTreeMap<i64, Expr>>,
}

impl Mem {
    /// Whether bytes behind an anchor were written.
    pub(crate) fn has_behind(&self) -> bool {
        self.writes.last_key_value().is_some_and(|(at, _)| is_behind(*at))
    }

    /// The byte at a position.
    pub fn byte(&self, x: &mut Exprs, at: i64) -> Expr {
        if let Some(&b) = self.writes.get(&at) {
            return b;
        }
        if *x.source(self.source) == Source::Empty {
            return x.constant(Width::W8, 0);
        }
        x.symbol(Width::W8, Symbol::Byte(self.source, at))
    }
}

/// Something that is fixed before the run, and unknown.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the text of each variant speaks of its fields")]
pub enum Symbol {
    /// A byte of a packet.
    Byte(SourceId, i64),
    /// Length of a packet (32 bits).
    Len(SourceId),
    /// Position of its first byte in the buffer (32 bits).
    Head(SourceId),
    /// Size of its buffer (32 bits).
    Capacity(SourceId),
    /// How many bytes in front can come back (32 bits).
    Pulled(SourceId),
    /// Whether a mark is set.
    MarkSet(SourceId, Layer),
    /// Position of a mark relative to the first byte (32 bits, wrapping).
    MarkAt(SourceId, Layer),
    /// A byte of the annotations.
    Anno(SourceId, u32),
    /// Metadata.
    Meta(SourceId, MetaField),
    /// Hop count (8 bits).
    Hops(SourceId),
    /// The time.
    Now,
    /// The seed of hashes. No expression has it: a hash is what it is made of.
    HashSeed,
    /// A random number, counted through the run.
    Random(u32),
    /// An argument of the entry.
    Arg(u32),
    /// A key field of the entry (of a table) that is the argument of an expire program.
    ArgKey(u32, u32),
    /// Whether an entry is there.
    Has(EntryAt),
    /// A value field of an entry.
    Field(EntryAt, u32),
    /// Number of packets that an entry holds (32 bits).
    HeldCount(EntryAt),
    /// Whether an entry is linked to one of a table.
    PartnerIn(EntryAt, u32),
    /// A key field of the entry, of a table, that an entry is linked to.
    PartnerKey(EntryAt, u32, u32),
    /// Whether two lookups in a table find the same entry.
    Same { table: u32, a: Box<[Expr]>, b: Box<[Expr]> },
    /// Whether some entry of a table expires.
    Expires(u32),
    /// A key field of the entry of a table that expires next.
    SoonestKey(u32, u32),
    /// Nanoseconds that this entry has left (64 bits).
    SoonestLeft(u32),
    /// Number of entries of a table (32 bits).
    Size(u32),
    /// Number of entries of a table with that value in the group field (32 bits).
    Group(u32, Expr),
}

/// The operands of [`weir_ir::program::End::Claim`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Number of the table.
    pub table: u32,
    /// The key.
    pub key: Vec<Expr>,
    /// Which key field is claimed.
    pub hole: u32,
    /// Lowest value.
    pub lo: Expr,
    /// Highest value.
    pub hi: Expr,
    /// Where the search starts.
    pub start: Expr,
    /// Number of entries of the table at that time (32 bits).
    pub size: Expr,
    /// What this run did to the table before: key, and whether its entry is there now; later ones win.
    pub changes: Vec<(Vec<Expr>, bool)>,
}

/// A node of the graph.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the text of each variant speaks of its fields")]
pub enum Node {
    /// A number.
    Const(u128),
    /// Something unknown.
    Symbol(Symbol),
    /// Arithmetic ([`weir_ir::interp::binary`]).
    Binary(BinOp, Expr, Expr),
    /// Whether both are equal.
    Equal(Expr, Expr),
    /// Whether the first is less.
    Less(Expr, Expr),
    /// Whether it is in a set.
    In(Expr, Arc<Set>),
    /// All bits inverted.
    Not(Expr),
    /// Zero-extended or cut.
    Resize(Expr),
    /// The second if the first is not 0, else the third.
    Select(Expr, Expr, Expr),
    /// Bytes put together, the highest first.
    Concat(Box<[Expr]>),
    /// A byte of a number, counted from the highest.
    Byte(Expr, u32),
    /// Ones' complement sum of two.
    Sum16(Expr, Expr),
    /// Ones' complement sum of the bytes `from .. from + (end - start)`.
    Checksum { mem: MemId, from: i64, start: u32, end: Expr },
    /// As [`weir_ir::program::Op::FindByte`]; `from` is the position of `start`.
    Find { mem: MemId, from: i64, start: u32, end: Expr, byte: Expr },
    /// A hash.
    Hash(Box<[Expr]>),
    /// Whether a bucket (state, now, cost, rate, burst) has enough.
    MeterOk(Box<[Expr; 5]>),
    /// The bucket afterwards.
    MeterState(Box<[Expr; 5]>),
    /// Whether a claim succeeds.
    ClaimOk(Box<Claim>),
    /// The value that it claims.
    Claimed(Box<Claim>),
}

/// Of all widths of a node the same, so that symbols are found without it.
fn hash_of(node: &Node) -> u64 {
    match node {
        Node::Symbol(s) => hash_of_symbol(s),
        _ => {
            let mut hasher = FxHasher::default();
            node.hash(&mut hasher);
            hasher.finish()
        }
    }
}

fn hash_of_symbol(s: &Symbol) -> u64 {
    let mut hasher = FxHasher::default();
    s.hash(&mut hasher);
    hasher.finish()
}

/// So many numbers of each width are found without a hash.
const SMALL: usize = 1 << 7;
/// No expression.
const NONE: Expr = Expr(u32::MAX);

/// All expressions of an exploration.
#[derive(Debug, Clone)]
pub struct Exprs {
    nodes: Vec<(Node, Width)>,
    /// Small numbers, [`SMALL`] for each width; [`NONE`] if one was not used yet.
    small: Vec<Expr>,
    /// By [`hash_of`] their node.
    index: HashTable<Expr>,
    bounds: HashMap<Expr, (u128, u128)>,
    sources: Vec<Source>,
    mems: Vec<Mem>,
    mem_index: HashMap<Mem, MemId>,
    pub(crate) anchors: Vec<Anchor>,
    /// Numbers in packets where nothing was written.
    pub(crate) originals: HashMap<(SourceId, i64, Width), Expr>,
    /// What was last found of expressions on paths.
    pub(crate) recent: Recent,
}

impl Default for Exprs {
    fn default() -> Exprs {
        Exprs {
            // As many as a small question makes: to grow by steps takes longer.
            nodes: Vec::with_capacity(1 << 10),
            small: vec![NONE; SMALL * Width::ALL.len()],
            index: HashTable::with_capacity(1 << 10),
            bounds: HashMap::default(),
            sources: Vec::new(),
            mems: Vec::new(),
            mem_index: HashMap::default(),
            anchors: Vec::new(),
            originals: HashMap::default(),
            recent: Recent::default(),
        }
    }
}

impl Exprs {
    /// A node.
    pub fn node(&self, e: Expr) -> &Node {
        &self.nodes[e.0 as usize].0
    }

    /// Size of an expression's value.
    pub fn width(&self, e: Expr) -> Width {
        self.nodes[e.0 as usize].1
    }

    /// The value, if it is a constant.
    pub fn constant_value(&self, e: Expr) -> Option<u128> {
        match self.node(e) {
            Node::Const(v) => Some(*v),
            _ => None,
        }
    }

    /// The lowest and highest value that an expression may have, from what it is.
    pub fn bounds(&self, e: Expr) -> (u128, u128) {
        let &(ref node, width) = &self.nodes[e.0 as usize];
        let known = match node {
            // Of bytes, which are asked for most, there are none.
            Node::Symbol(Symbol::Byte(..)) => None,
            Node::Symbol(_) => self.bounds.get(&e).copied(),
            _ => None,
        };
        known.unwrap_or((0, width.max()))
    }

    /// A source of packets.
    pub fn source(&self, s: SourceId) -> &Source {
        &self.sources[s.0 as usize]
    }

    /// The number of a source.
    pub fn source_id(&mut self, s: Source) -> SourceId {
        self.find_source(&s).unwrap_or_else(|| {
            self.sources.push(s);
            SourceId(self.sources.len() as u32 - 1)
        })
    }

    /// The number of a source, if it is used.
    pub(crate) fn find_source(&self, s: &Source) -> Option<SourceId> {
        self.sources.iter().position(|o| o == s).map(|i| SourceId(i as u32))
    }

    /// The bytes of a packet at some time.
    pub fn mem(&self, m: MemId) -> &Mem {
        &self.mems[m.0 as usize]
    }

    /// The number of these bytes.
    pub fn mem_id(&mut self, m: &Mem) -> MemId {
        if let Some(&id) = self.mem_index.get(m) {
            return id;
        }
        let id = MemId(self.mems.len() as u32);
        self.mems.push(m.clone());
        self.mem_index.insert(m.clone(), id);
        id
    }

    /// The expression that is just this node, without simplification.
    pub fn make(&mut self, width: Width, node: Node) -> Expr {
        let Exprs { nodes, index, .. } = self;
        let next = Expr(nodes.len() as u32);
        let same = |e: &Expr| {
            let (n, w) = &nodes[e.0 as usize];
            *w == width && *n == node
        };
        let found = index.entry(hash_of(&node), same, |e| hash_of(&nodes[e.0 as usize].0));
        let hashbrown::hash_table::Entry::Vacant(place) = found else { return *found.or_insert(next).get() };
        place.insert(next);
        let byte = match node {
            Node::Symbol(Symbol::Byte(source, at)) => Some((source, at)),
            _ => None,
        };
        let is_word = matches!(node, Node::Concat(_));
        nodes.push((node, width));
        if let Some((source, at)) = byte {
            self.note_byte(source, at);
        }
        if is_word && !self.anchors.is_empty() {
            self.note_word(next);
        }
        next
    }

    /// The expression of a node, if there is one.
    pub(crate) fn find(&self, width: Width, node: &Node) -> Option<Expr> {
        let same = |e: &Expr| self.width(*e) == width && self.node(*e) == node;
        self.index.find(hash_of(node), same).copied()
    }

    /// A number.
    pub fn constant(&mut self, width: Width, v: u128) -> Expr {
        let v = v & width.max();
        let place = Some(v as usize).filter(|_| v < SMALL as u128).map(|v| SMALL * width as usize + v);
        let known = place.and_then(|i| self.small.get(i).copied()).filter(|e| *e != NONE);
        known.unwrap_or_else(|| {
            let made = self.make(width, Node::Const(v));
            if let Some(e) = place.and_then(|i| self.small.get_mut(i)) {
                *e = made;
            }
            made
        })
    }

    /// An unknown.
    pub fn symbol(&mut self, width: Width, s: Symbol) -> Expr {
        self.make(width, Node::Symbol(s))
    }

    /// The expression of an unknown, if it was used.
    pub(crate) fn find_symbol(&self, s: &Symbol) -> Option<Expr> {
        let same = |e: &&Expr| matches!(self.node(**e), Node::Symbol(o) if o == s);
        let found = self.index.iter_hash(hash_of_symbol(s)).filter(same).copied();
        found.min_by_key(|e| self.width(*e).bits())
    }

    /// An unknown between two numbers, whatever happens.
    pub fn bounded(&mut self, width: Width, s: Symbol, lo: u128, hi: u128) -> Expr {
        let e = self.symbol(width, s);
        self.bounds.insert(e, (lo, hi));
        e
    }

    /// The expressions that one directly depends on.
    pub fn operands(&self, e: Expr) -> Vec<Expr> {
        match self.node(e) {
            Node::Const(_) => Vec::new(),
            Node::Symbol(s) => self.symbol_operands(s),
            Node::Binary(_, a, b) | Node::Equal(a, b) | Node::Less(a, b) | Node::Sum16(a, b) => vec![*a, *b],
            Node::Not(a) | Node::Resize(a) | Node::Byte(a, _) | Node::In(a, _) => vec![*a],
            Node::Select(c, a, b) => vec![*c, *a, *b],
            Node::Concat(list) | Node::Hash(list) => list.to_vec(),
            Node::Checksum { mem, from, end, .. } => {
                let anchors = self.joints_of(*mem, *from);
                self.mem(*mem).writes.values().copied().chain([*end]).chain(anchors).collect()
            }
            Node::Find { mem, from, end, byte, .. } => {
                let anchors = self.joints_of(*mem, *from);
                self.mem(*mem).writes.values().copied().chain([*end, *byte]).chain(anchors).collect()
            }
            Node::MeterOk(args) | Node::MeterState(args) => args.to_vec(),
            Node::ClaimOk(c) | Node::Claimed(c) => {
                let changed = c.changes.iter().flat_map(|(k, _)| k);
                c.key.iter().chain(changed).chain([&c.lo, &c.hi, &c.start, &c.size]).copied().collect()
            }
        }
    }

    /// Whether an expression depends on one of some others, whose numbers start at `from`, with what is `known` of that.
    pub(crate) fn mentions(
        &self,
        e: Expr,
        from: Expr,
        others: &dyn Fn(Expr) -> bool,
        known: &mut HashMap<Expr, bool>,
    ) -> bool {
        // Operands have lower numbers.
        if e < from {
            return false;
        }
        if let Some(&found) = known.get(&e) {
            return found;
        }
        let found = others(e) || self.operands(e).iter().any(|o| self.mentions(*o, from, others, known));
        known.insert(e, found);
        found
    }

    /// What says where the bytes of a range stand, and those written.
    fn joints_of(&self, mem: MemId, from: i64) -> impl Iterator<Item = Expr> {
        let last = self.mem(mem).writes.last_key_value().map(|(at, _)| *at);
        [Some(from), last].into_iter().flatten().filter_map(|at| Some(self.anchor_of(at)?.0.off))
    }

    fn symbol_operands(&self, s: &Symbol) -> Vec<Expr> {
        let entry = |at: &EntryAt| match &at.at {
            At::Key(k) => k.to_vec(),
            At::Row(_) => Vec::new(),
        };
        match s {
            Symbol::Byte(_, at) if is_behind(*at) => {
                self.anchor_of(*at).map(|(anchor, _)| anchor.off).into_iter().collect()
            }
            Symbol::Byte(s, _)
            | Symbol::Len(s)
            | Symbol::Head(s)
            | Symbol::Capacity(s)
            | Symbol::Pulled(s)
            | Symbol::MarkSet(s, _)
            | Symbol::MarkAt(s, _)
            | Symbol::Anno(s, _)
            | Symbol::Meta(s, _)
            | Symbol::Hops(s) => match self.source(*s) {
                Source::Held(at, _) => entry(at),
                Source::Input(_) | Source::Empty => Vec::new(),
            },
            Symbol::Has(at)
            | Symbol::Field(at, _)
            | Symbol::HeldCount(at)
            | Symbol::PartnerIn(at, _)
            | Symbol::PartnerKey(at, ..) => entry(at),
            Symbol::Same { a, b, .. } => [&a[..], &b[..]].concat(),
            Symbol::Group(_, v) => vec![*v],
            Symbol::Now
            | Symbol::HashSeed
            | Symbol::Random(_)
            | Symbol::Arg(_)
            | Symbol::ArgKey(..)
            | Symbol::Expires(_)
            | Symbol::SoonestKey(..)
            | Symbol::SoonestLeft(_)
            | Symbol::Size(_) => Vec::new(),
        }
    }
}
