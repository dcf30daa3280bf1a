//! The types of the packet IR.
//!
//! A [`Program`] is what one element does, or (after linking) what a whole graph does. It consists of basic blocks
//! in static single assignment form: a [`Value`] is written once, a block takes parameters, a jump passes
//! arguments. At any time a program has at most one packet, the *current packet*, which is linear: it is emitted,
//! dropped or held, exactly once.

use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

pub use weir_packet::Layer;
pub use weir_table::{Row, TableDecl, Width};

/// A value, by number. Its [`Type`] stands in [`Program::types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// A block, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// A table, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// An unsigned number.
    Int(Width),
    /// An entry of a table, found or made by this run of the program.
    Entry(TableId),
}

/// Why a packet was dropped. Every drop has one, and each is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason(Cow<'static, str>);

impl Reason {
    /// An element decided to discard the packet.
    pub const DISCARDED: Reason = Reason::new("Discarded");
    /// The output is not connected.
    pub const UNCONNECTED: Reason = Reason::new("Unconnected");
    /// No mark says where the header is that an element needs: what checks or marks headers is missing before it.
    pub const UNMARKED: Reason = Reason::new("Unmarked");
    /// A header that an element needs is cut short.
    pub const TRUNCATED: Reason = Reason::new("Truncated");
    /// A header is not what its protocol allows.
    pub const BAD_HEADER: Reason = Reason::new("BadHeader");
    /// A checksum is wrong.
    pub const BAD_CHECKSUM: Reason = Reason::new("BadChecksum");
    /// The time to live ran out.
    pub const TTL_EXPIRED: Reason = Reason::new("TtlExpired");
    /// No route, rule or pattern matches.
    pub const NO_MATCH: Reason = Reason::new("NoMatch");
    /// A rule says so.
    pub const DENIED: Reason = Reason::new("Denied");
    /// All ports, or identifiers of ICMP, to translate to are used up.
    pub const NO_PORT: Reason = Reason::new("NoPort");
    /// All addresses to translate to are used up.
    pub const NO_ADDRESS: Reason = Reason::new("NoAddress");
    /// A table, queue or pool is full.
    pub const FULL: Reason = Reason::new("Full");
    /// The buffer has no space for another header.
    pub const NO_SPACE: Reason = Reason::new("NoSpace");
    /// The packet went round a cycle of the graph too often.
    pub const LOOP_LIMIT: Reason = Reason::new("LoopLimit");
    /// What the packet waited for did not come.
    pub const TIMED_OUT: Reason = Reason::new("TimedOut");
    /// The function that it was for is stopped, and its FIFO is full.
    pub const STOPPED: Reason = Reason::new("Stopped");
    /// An element answered the packet instead of passing it on, or took what it said to heart.
    pub const CONSUMED: Reason = Reason::new("Consumed");

    /// A reason of that name.
    pub const fn new(name: &'static str) -> Reason {
        Reason(Cow::Borrowed(name))
    }

    /// A reason of a name that is read at run time.
    pub fn named(name: &str) -> Reason {
        Reason(Cow::Owned(name.to_owned()))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number of bytes: known when the program is built, or when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Amount {
    /// Known.
    Const(u32),
    /// A 32-bit value.
    Value(Value),
}

/// The target of a jump: a block, and the arguments for its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The block.
    pub block: BlockId,
    /// One argument for each parameter (of those that the jump itself does not supply).
    pub args: Vec<Value>,
}

/// Arithmetic on two values of one width. Results wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Remainder; 0 if the divisor is 0.
    Rem,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Shift left; 0 if the distance is the width or more.
    Shl,
    /// Shift right, filling with zeros; 0 if the distance is the width or more.
    Shr,
}

/// Comparison of two values of one width, unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CmpOp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
}

/// Metadata of a packet that programs may read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetaField {
    /// Link-layer delivery ([`weir_packet::PacketType`]), 8 bits.
    PacketType,
    /// Entry port, 16 bits.
    InPort,
    /// Time of arrival in nanoseconds, 64 bits.
    Timestamp,
    /// Flow hash, 32 bits.
    FlowHash,
    /// Checksum state ([`weir_packet::Checksum`]), 8 bits. Writing `Partial` is ignored: only a device makes it.
    Checksum,
    /// Payload bytes of each segment of a packet that a device is to segment, 0 of others, 16 bits.
    SegmentSize,
    /// Whose packet it is ([`weir_packet::Provenance`]), 8 bits. One that is started empty is made; an element that turns a packet
    /// into an answer says so.
    Provenance,
}

/// One operation. `dst` is the value that it defines.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the text of each variant speaks of its fields")]
pub enum Op {
    /// A constant of `dst`'s type.
    Const { dst: Value, value: u128 },
    /// Arithmetic.
    Binary { op: BinOp, dst: Value, a: Value, b: Value },
    /// Comparison; `dst` has one bit.
    Compare { op: CmpOp, dst: Value, a: Value, b: Value },
    /// All bits inverted.
    Not { dst: Value, a: Value },
    /// `a` in the width of `dst`: zero-extended or cut.
    Resize { dst: Value, a: Value },
    /// `a` if `cond`, else `b`.
    Select { dst: Value, cond: Value, a: Value, b: Value },

    /// Reads from the packet, in network byte order, at `layer + off`.
    Load { dst: Value, layer: Layer, off: u32 },
    /// Writes to the packet, in network byte order, at `layer + off`.
    Store { layer: Layer, off: u32, src: Value },
    /// Number of bytes from a layer to the end of the packet (32 bits); 0 if the layer is not set or beyond it.
    Rest { dst: Value, layer: Layer },
    /// Position of `to` minus position of `from` (32 bits, wrapping); all ones if either is not set.
    Distance { dst: Value, from: Layer, to: Layer },
    /// Sets the mark `layer` to `base + off`, which a `require` must cover.
    SetMark { layer: Layer, base: Layer, off: Amount },
    /// Unsets a mark.
    ClearMark { layer: Layer },
    /// Reads an annotation, in network byte order.
    LoadAnno { dst: Value, off: u32 },
    /// Writes an annotation, in network byte order.
    StoreAnno { off: u32, src: Value },
    /// Reads metadata.
    LoadMeta { dst: Value, field: MetaField },
    /// Writes metadata.
    StoreMeta { field: MetaField, src: Value },

    /// Ones' complement sum (16 bits, not inverted) of the bytes `layer + start .. layer + end`; an odd last byte is
    /// padded with zero (RFC 1071).
    Checksum { dst: Value, layer: Layer, start: u32, end: Amount },
    /// Ones' complement sum of two 16-bit values.
    Sum16 { dst: Value, a: Value, b: Value },
    /// Copies `len` bytes within the packet; the ranges may overlap.
    CopyBytes { to: (Layer, u32), from: (Layer, u32), len: u32 },
    /// Whether two ranges of `len` bytes are equal (1 bit).
    CompareBytes { dst: Value, a: (Layer, u32), b: (Layer, u32), len: u32 },
    /// Offset from `layer` of the first byte in `start..end` that equals `byte` (8 bits); `end` if none (32 bits).
    FindByte { dst: Value, layer: Layer, start: u32, end: Amount, byte: Value },

    /// A hash of the arguments (32 bits), with a seed that the host supplies.
    Hash { dst: Value, args: Vec<Value> },
    /// A random number (32 bits) from the host.
    Random { dst: Value },
    /// The time in nanoseconds (64 bits), constant within a batch.
    Now { dst: Value },

    /// Removes bytes in front; a `require` of `data` must cover them.
    Pull { n: Amount },
    /// Cuts the packet to this many bytes (32 bits); nothing if it is shorter.
    Trim { len: Value },

    /// The entry of an array with a constant index.
    Index { dst: Value, table: TableId, index: u32 },
    /// A value field of an entry.
    Get { dst: Value, entry: Value, field: u32 },
    /// A key field of an entry (exact tables and arrays).
    GetKey { dst: Value, entry: Value, field: u32 },
    /// Changes a value field.
    Set { entry: Value, field: u32, src: Value },
    /// Lets an entry expire so many nanoseconds (64 bits) from now, or a little later if it lives already; 0 is never.
    /// Linked entries go when the time of both has come; a time earlier than the entry's own is both's
    /// ([`weir_table::TableSet::touch`]).
    Touch { entry: Value, after: Value },
    /// Ties two entries together: they expire and are removed as one.
    Link { a: Value, b: Value },
    /// Removes an entry and the one linked to it. Packets that they hold are dropped (`TimedOut`).
    Remove { entry: Value },
    /// Number of entries (32 bits) with this value in the group field of the table.
    GroupCount { dst: Value, table: TableId, value: Value },
    /// Number of entries of the table (32 bits).
    Size { dst: Value, table: TableId },

    /// Starts another packet at `target` once this run has ended: a copy of the current one, or an empty one with
    /// its annotations. Arguments have at most 64 bits each, and there are at most [`MAX_STRAND_ARGS`]. Of the packets
    /// that one element starts in a run, the first goes first; they go before those that elements on the path to it
    /// started ([`turn`](crate::interp::turn)).
    Fork { copy: bool, target: Target },
    /// Starts each packet that the entry holds at `target` once this run has ended, oldest first.
    Release { entry: Value, target: Target },
    /// Notifies the host that something happened; with `packet`, shows it the current packet.
    Notify { event: u32, args: Vec<Value>, packet: bool },
}

/// Most arguments that [`Op::Fork`] and [`Op::Release`] pass.
pub const MAX_STRAND_ARGS: usize = 4;

/// Most times a packet goes round cycles of a graph.
pub const MAX_HOPS: u8 = 64;

/// The end of a block.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the text of each variant speaks of its fields")]
pub enum End {
    /// Goes on.
    Jump(Target),
    /// One of two paths.
    Branch { cond: Value, then: Target, other: Target },
    /// The path of the first case that equals `value`.
    Switch { value: Value, cases: Vec<(u128, Target)>, default: Target },
    /// Back to a loop header, unless it was entered as often as its limit allows.
    Again { header: Target, exit: Target },
    /// Whether the packet has `n` bytes from `layer` on.
    Require { layer: Layer, n: Amount, ok: Target, fail: Target },
    /// Adds `n` zero bytes in front.
    Push { n: Amount, ok: Target, fail: Target },
    /// Takes back `n` bytes in front that were pulled before.
    Unpull { n: Amount, ok: Target, fail: Target },
    /// Adds `n` zero bytes at the end.
    Put { n: Amount, ok: Target, fail: Target },
    /// Looks a key up. `hit` gets the entry as its first argument.
    Lookup { table: TableId, key: Vec<Value>, hit: Target, miss: Target },
    /// Finds or makes an entry (new: all value fields zero). `ok` gets it as its first argument.
    Insert { table: TableId, key: Vec<Value>, ok: Target, full: Target },
    /// Makes an entry with a key that is free: field `hole` takes the first free value in `lo..=hi`, tried from
    /// `lo + start` on, wrapping (the value given for it in `key` is ignored). `ok` gets the entry and that value
    /// first.
    Claim {
        table: TableId,
        key: Vec<Value>,
        hole: u32,
        lo: Value,
        hi: Value,
        start: Value,
        ok: Target,
        full: Target,
    },
    /// Finds the entry of an exact table that expires next ([`weir_table::TableSet::soonest`]), to be evicted for
    /// another. `hit` gets the entry and the nanoseconds that it has left (64 bits) first; `miss` is taken if no entry
    /// expires.
    Soonest { table: TableId, hit: Target, miss: Target },
    /// Takes `cost` tokens from the bucket in a 128-bit field ([`weir_table::meter`]; all 64 bits).
    Meter { entry: Value, field: u32, cost: Value, rate: Value, burst: Value, ok: Target, over: Target },
    /// Leaves the packet with an entry; goes on with it if the entry holds as many as it may.
    Hold { entry: Value, full: Target },
    /// The packet leaves the element.
    Emit { port: u32 },
    /// The packet ends.
    Drop { reason: Reason },
    /// Ends a program that has no current packet.
    Finish,

    /// Linked programs: the packet goes on in another element. `back` closes a cycle of the graph: the packet's hop
    /// count rises, and beyond [`MAX_HOPS`] it is dropped (`LoopLimit`).
    Enter { block: BlockId, back: bool },
    /// Linked programs: the packet leaves the graph.
    Exit { exit: u32 },
}

/// A straight run of operations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Block {
    /// Values that jumps pass in.
    pub params: Vec<Value>,
    /// For a loop header: how often it may be entered, the first time included.
    pub loop_limit: Option<u32>,
    /// What it does.
    pub ops: Vec<Op>,
    /// How it ends.
    pub end: End,
    /// Which of [`Program::elements`] it comes from.
    pub owner: u32,
}

/// The kind of event that starts a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A packet on an input of the element.
    Packet {
        /// The input.
        port: u32,
    },
    /// The clock.
    Timer {
        /// Nanoseconds between two runs.
        every: u64,
    },
    /// An entry whose time has come; the block's parameter. It is removed afterwards unless it was touched.
    Expire {
        /// Its table.
        table: TableId,
    },
    /// The control side; the block's parameters are the message.
    Message {
        /// Name of the message.
        name: String,
    },
}

/// An entry of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What starts it.
    pub kind: EntryKind,
    /// Where.
    pub block: BlockId,
    /// Which of [`Program::elements`] it belongs to.
    pub owner: u32,
}

/// A table and what it contains at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInit {
    /// The declaration.
    pub decl: TableDecl,
    /// First content.
    pub rows: Vec<Row>,
    /// Which of [`Program::elements`] it belongs to.
    pub owner: u32,
}

/// Something that a program reports to its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Which of [`Program::elements`] it belongs to.
    pub owner: u32,
}

/// The program of one element, or of a linked graph of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// Names of the elements; an unlinked program has one.
    pub elements: Vec<String>,
    /// Number of inputs (of an unlinked program).
    pub inputs: u32,
    /// Number of outputs (linked: of exits).
    pub outputs: u32,
    /// Exits where nobody reads more of a packet than a device does: its bytes, its time, and the state of its checksum and
    /// segmentation. The rest (marks, annotations, other metadata) need not be right there, nor in packets that are
    /// dropped.
    pub plain_exits: Vec<u32>,
    /// Types of the values.
    pub types: Vec<Type>,
    /// Tables.
    pub tables: Vec<TableInit>,
    /// Events.
    pub events: Vec<Event>,
    /// Its entries.
    pub entries: Vec<Entry>,
    /// Blocks. Jumps go to later blocks, except [`End::Again`] and an [`End::Enter`] that is `back`.
    pub blocks: Vec<Block>,
}

impl Program {
    /// A block.
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// Type of a value.
    pub fn ty(&self, v: Value) -> Type {
        self.types[v.0 as usize]
    }

    /// Width of a value; an entry has 32 bits.
    pub fn width(&self, v: Value) -> Width {
        match self.ty(v) {
            Type::Int(w) => w,
            Type::Entry(_) => Width::W32,
        }
    }

    /// The block where packets on this input of this element start.
    pub fn packet_entry(&self, owner: u32, port: u32) -> Option<BlockId> {
        self.entries
            .iter()
            .find(|e| e.owner == owner && e.kind == EntryKind::Packet { port })
            .map(|e| e.block)
    }
}

impl MetaField {
    /// All fields.
    pub const ALL: [MetaField; 7] = [
        MetaField::PacketType,
        MetaField::InPort,
        MetaField::Timestamp,
        MetaField::FlowHash,
        MetaField::Checksum,
        MetaField::SegmentSize,
        MetaField::Provenance,
    ];

    /// Size.
    pub fn width(self) -> Width {
        match self {
            MetaField::PacketType | MetaField::Checksum | MetaField::Provenance => Width::W8,
            MetaField::InPort | MetaField::SegmentSize => Width::W16,
            MetaField::Timestamp => Width::W64,
            MetaField::FlowHash => Width::W32,
        }
    }

    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            MetaField::PacketType => "packet_type",
            MetaField::InPort => "in_port",
            MetaField::Timestamp => "timestamp",
            MetaField::FlowHash => "flow_hash",
            MetaField::Checksum => "checksum",
            MetaField::SegmentSize => "segment_size",
            MetaField::Provenance => "provenance",
        }
    }
}

/// References to the targets of an end; most ends have at most two.
pub type Targets<T> = SmallVec<[T; 2]>;

/// The body of [`End::visit_targets`], for both kinds of references.
macro_rules! visit_targets {
    ($end:expr, $f:ident, $iter:ident) => {
        match $end {
            End::Jump(t) => $f(0, t),
            End::Branch { then: a, other: b, .. }
            | End::Again { header: a, exit: b }
            | End::Require { ok: a, fail: b, .. }
            | End::Push { ok: a, fail: b, .. }
            | End::Unpull { ok: a, fail: b, .. }
            | End::Put { ok: a, fail: b, .. }
            | End::Meter { ok: a, over: b, .. } => {
                $f(0, a);
                $f(0, b);
            }
            End::Switch { cases, default, .. } => {
                cases.$iter().for_each(|(_, t)| $f(0, t));
                $f(0, default);
            }
            End::Lookup { hit: a, miss: b, .. } | End::Insert { ok: a, full: b, .. } => {
                $f(1, a);
                $f(0, b);
            }
            End::Claim { ok: a, full: b, .. } | End::Soonest { hit: a, miss: b, .. } => {
                $f(2, a);
                $f(0, b);
            }
            End::Hold { full, .. } => $f(0, full),
            End::Emit { .. } | End::Drop { .. } | End::Finish | End::Enter { .. } | End::Exit { .. } => {}
        }
    };
}

impl End {
    /// Every block this end may go to, with the arguments.
    pub fn targets(&self) -> Targets<&Target> {
        let mut all = Targets::new();
        self.visit_targets(|_, t| all.push(t));
        all
    }

    /// As [`targets`](End::targets), to change.
    pub fn targets_mut(&mut self) -> Targets<&mut Target> {
        let mut all = Targets::new();
        self.visit_targets_mut(|_, t| all.push(t));
        all
    }

    /// Visits the targets in order, each with the number of arguments that the end itself puts before the target's.
    pub fn visit_targets<'a>(&'a self, mut f: impl FnMut(usize, &'a Target)) {
        visit_targets!(self, f, iter);
    }

    /// As [`visit_targets`](End::visit_targets), to change.
    pub fn visit_targets_mut<'a>(&'a mut self, mut f: impl FnMut(usize, &'a mut Target)) {
        visit_targets!(self, f, iter_mut);
    }

    /// The number of bytes that it is about.
    pub fn amount(&self) -> Option<Amount> {
        match *self {
            End::Require { n, .. } | End::Push { n, .. } | End::Unpull { n, .. } | End::Put { n, .. } => {
                Some(n)
            }
            _ => None,
        }
    }

    /// Number of arguments that the end itself puts before those of its `i`th target.
    pub fn supplied(&self, i: usize) -> usize {
        match (self, i) {
            (End::Lookup { .. } | End::Insert { .. }, 0) => 1,
            (End::Claim { .. } | End::Soonest { .. }, 0) => 2,
            _ => 0,
        }
    }
}
