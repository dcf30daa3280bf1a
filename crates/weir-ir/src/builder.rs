//! Writes programs: the language that elements are written in.
//!
//! A builder always stands at the end of some block. An operation appends; control flow is written with closures,
//! and paths that do not end (by `emit`, `drop`, `hold` …) join after it.
//!
//! ```
//! # use weir_ir::{Builder, Layer, Reason, Width::*};
//! let mut b = Builder::new("DecIPTTL", 1, 2);
//! b.input(0, |b| {
//!     b.require(Layer::Net, 20, Reason::TRUNCATED);
//!     let ttl = b.load(W8, Layer::Net, 8);
//!     let low = b.le(ttl, 1);
//!     b.when(low, |b| b.emit_or_drop(1, Reason::TTL_EXPIRED));
//!     let ttl = b.sub(ttl, 1);
//!     b.store(Layer::Net, 8, ttl);
//!     b.emit(0);
//! });
//! let program = b.finish();
//! weir_ir::check(&program).unwrap();
//! ```

use crate::program::{
    Amount, BinOp, Block, BlockId, CmpOp, End, Entry, EntryKind, Event, Layer, MetaField, Op, Program, Reason, Row,
    TableDecl, TableId, TableInit, Target, Type, Value, Width,
};

/// A number in a program: its value and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V {
    /// The value.
    pub value: Value,
    /// Its size.
    pub width: Width,
}

/// An entry of a table in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct E {
    /// The value.
    pub value: Value,
    /// Its table.
    pub table: TableId,
}

/// What arithmetic takes: a value, or a constant of the other operand's width.
#[derive(Debug, Clone, Copy)]
pub enum Arg {
    /// A value.
    V(V),
    /// A constant.
    C(u128),
}

impl From<V> for Arg {
    fn from(v: V) -> Arg {
        Arg::V(v)
    }
}

macro_rules! arg_from {
    ($($t:ty)*) => { $(impl From<$t> for Arg { fn from(c: $t) -> Arg { Arg::C(c as u128) } })* };
}
arg_from!(u8 u16 u32 u64 u128 i32);

impl From<V> for Amount {
    fn from(v: V) -> Amount {
        debug_assert_eq!(v.width, Width::W32, "amounts have 32 bits");
        Amount::Value(v.value)
    }
}

impl From<u32> for Amount {
    fn from(n: u32) -> Amount {
        Amount::Const(n)
    }
}

/// Builds the program of one element.
#[derive(Debug)]
pub struct Builder {
    program: Program,
    /// The block that operations are appended to; `None` after an end.
    current: Option<BlockId>,
    /// Blocks are made when their place in the order is known; this holds unfinished ones.
    open: Vec<Option<Open>>,
    order: Vec<BlockId>,
}

#[derive(Debug)]
struct Open {
    params: Vec<Value>,
    loop_limit: Option<u32>,
    ops: Vec<Op>,
    end: Option<End>,
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(&mut self, a: V, b: impl Into<Arg>) -> V {
            let b = self.arg(b.into(), a.width);
            let dst = self.value(Type::Int(a.width));
            self.op(Op::Binary { op: BinOp::$op, dst, a: a.value, b: b.value });
            V { value: dst, width: a.width }
        }
    )* };
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(&mut self, a: V, b: impl Into<Arg>) -> V {
            let b = self.arg(b.into(), a.width);
            self.define(Width::W1, |dst| Op::Compare { op: CmpOp::$op, dst, a: a.value, b: b.value })
        }
    )* };
}

impl Builder {
    /// A builder for an element with so many connected inputs and outputs.
    pub fn new(name: &str, inputs: u32, outputs: u32) -> Builder {
        Builder {
            program: Program { elements: vec![name.to_owned()], inputs, outputs, ..Program::default() },
            current: None,
            open: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Number of inputs.
    pub fn inputs(&self) -> u32 {
        self.program.inputs
    }

    /// Number of outputs.
    pub fn outputs(&self) -> u32 {
        self.program.outputs
    }

    /// The program. Inputs that nothing was written for drop their packets (`Discarded`).
    pub fn finish(mut self) -> Program {
        for port in 0..self.program.inputs {
            if self.program.packet_entry(0, port).is_none() {
                self.input(port, |b| b.drop(Reason::DISCARDED));
            }
        }
        // Number the blocks in the order in which they were entered, so that jumps go forward.
        let mut number = vec![BlockId(0); self.open.len()];
        for (i, id) in self.order.iter().enumerate() {
            number[id.0 as usize] = BlockId(i as u32);
        }
        let mut blocks = Vec::with_capacity(self.order.len());
        for id in &self.order {
            let open = self.open[id.0 as usize].take().expect("each block stands once in the order");
            let mut end = open.end.unwrap_or(End::Finish);
            end.targets_mut().into_iter().for_each(|t| t.block = number[t.block.0 as usize]);
            let mut ops = open.ops;
            for op in &mut ops {
                if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
                    target.block = number[target.block.0 as usize];
                }
            }
            blocks.push(Block { params: open.params, loop_limit: open.loop_limit, ops, end, owner: 0 });
        }
        for e in &mut self.program.entries {
            e.block = number[e.block.0 as usize];
        }
        self.program.blocks = blocks;
        self.program
    }

    // --- declarations -----------------------------------------------------------------------------------------

    /// Declares a table with first content.
    pub fn table(&mut self, decl: TableDecl, rows: Vec<Row>) -> TableId {
        self.program.tables.push(TableInit { decl, rows, owner: 0 });
        TableId(self.program.tables.len() as u32 - 1)
    }

    /// Declares a cell of state: an array of one entry with one field, `value`, that starts as `init`.
    pub fn cell(&mut self, name: &str, width: Width, init: u128) -> TableId {
        self.table(cell_decl(name, width), vec![Row::exact(&[0], &[init])])
    }

    /// Declares the cell of a live parameter: handlers may change it, but a hot swap takes the new configuration's.
    pub fn live(&mut self, name: &str, width: Width, init: u128) -> TableId {
        self.table(cell_decl(name, width).configured(), vec![Row::exact(&[0], &[init])])
    }

    /// Declares an event.
    pub fn event(&mut self, name: &str) -> u32 {
        self.program.events.push(Event { name: name.to_owned(), owner: 0 });
        self.program.events.len() as u32 - 1
    }

    /// The program for packets on an input. A path that does not end drops the packet (`Discarded`).
    pub fn input(&mut self, port: u32, body: impl FnOnce(&mut Builder)) {
        self.entry(EntryKind::Packet { port }, Vec::new(), |b| {
            body(b);
            if !b.ended() {
                b.drop(Reason::DISCARDED);
            }
        });
    }

    /// The program that runs every so many nanoseconds.
    pub fn timer(&mut self, every: u64, body: impl FnOnce(&mut Builder)) {
        self.entry(EntryKind::Timer { every }, Vec::new(), |b| b.packetless(body));
    }

    /// The program for entries of a table whose time has come.
    pub fn expire(&mut self, table: TableId, body: impl FnOnce(&mut Builder, E)) {
        let value = self.value(Type::Entry(table));
        self.entry(EntryKind::Expire { table }, vec![value], |b| b.packetless(|b| body(b, E { value, table })));
    }

    /// The program for a message from the control side.
    pub fn message(&mut self, name: &str, widths: &[Width], body: impl FnOnce(&mut Builder, &[V])) {
        let args: Vec<V> = widths.iter().map(|&w| V { value: self.value(Type::Int(w)), width: w }).collect();
        let params = args.iter().map(|v| v.value).collect();
        self.entry(EntryKind::Message { name: name.to_owned() }, params, |b| b.packetless(|b| body(b, &args)));
    }

    fn entry(&mut self, kind: EntryKind, params: Vec<Value>, body: impl FnOnce(&mut Builder)) {
        assert!(self.current.is_none(), "a program is written after the one before has ended");
        let block = self.new_block(params);
        self.program.entries.push(Entry { kind, block, owner: 0 });
        self.enter(block);
        body(self);
    }

    fn packetless(&mut self, body: impl FnOnce(&mut Builder)) {
        body(self);
        if !self.ended() {
            self.end(End::Finish);
        }
    }

    // --- values -----------------------------------------------------------------------------------------------

    /// A constant.
    pub fn constant(&mut self, width: Width, value: impl Into<u128>) -> V {
        let value = value.into() & width.max();
        self.define(width, |dst| Op::Const { dst, value })
    }

    binary! {
        /// `a + b`
        add = Add;
        /// `a - b`
        sub = Sub;
        /// `a * b`
        mul = Mul;
        /// `a mod b`, 0 if `b` is 0
        rem = Rem;
        /// `a & b`
        and = And;
        /// `a | b`
        or = Or;
        /// `a ^ b`
        xor = Xor;
        /// `a << b`
        shl = Shl;
        /// `a >> b`
        shr = Shr;
    }

    compare! {
        /// `a == b`
        eq = Eq;
        /// `a != b`
        ne = Ne;
        /// `a < b`
        lt = Lt;
        /// `a <= b`
        le = Le;
    }

    /// `a > b`
    pub fn gt(&mut self, a: V, b: impl Into<Arg>) -> V {
        let b = self.arg(b.into(), a.width);
        self.lt(b, a)
    }

    /// `a >= b`
    pub fn ge(&mut self, a: V, b: impl Into<Arg>) -> V {
        let b = self.arg(b.into(), a.width);
        self.le(b, a)
    }

    /// All bits inverted.
    pub fn not(&mut self, a: V) -> V {
        self.define(a.width, |dst| Op::Not { dst, a: a.value })
    }

    /// `a` with another width: zero-extended or cut.
    pub fn resize(&mut self, width: Width, a: V) -> V {
        if a.width == width {
            return a;
        }
        self.define(width, |dst| Op::Resize { dst, a: a.value })
    }

    /// `a` if `cond`, else `b`.
    pub fn select(&mut self, cond: V, a: V, b: impl Into<Arg>) -> V {
        let b = self.arg(b.into(), a.width);
        self.define(a.width, |dst| Op::Select { dst, cond: cond.value, a: a.value, b: b.value })
    }

    /// Ones' complement sum of two 16-bit values.
    pub fn sum16(&mut self, a: V, b: impl Into<Arg>) -> V {
        let b = self.arg(b.into(), Width::W16);
        self.define(Width::W16, |dst| Op::Sum16 { dst, a: a.value, b: b.value })
    }

    /// A 32-bit hash.
    pub fn hash(&mut self, args: &[V]) -> V {
        let args = args.iter().map(|v| v.value).collect();
        self.define(Width::W32, |dst| Op::Hash { dst, args })
    }

    /// A random 32-bit number.
    pub fn random(&mut self) -> V {
        self.define(Width::W32, |dst| Op::Random { dst })
    }

    /// The time in nanoseconds.
    pub fn now(&mut self) -> V {
        self.define(Width::W64, |dst| Op::Now { dst })
    }

    // --- the packet -------------------------------------------------------------------------------------------

    /// Reads `layer + off`.
    pub fn load(&mut self, width: Width, layer: Layer, off: u32) -> V {
        self.define(width, |dst| Op::Load { dst, layer, off })
    }

    /// Writes `layer + off`.
    pub fn store(&mut self, layer: Layer, off: u32, v: V) {
        self.op(Op::Store { layer, off, src: v.value });
    }

    /// Writes a constant at `layer + off`.
    pub fn store_const(&mut self, width: Width, layer: Layer, off: u32, value: impl Into<u128>) {
        let v = self.constant(width, value);
        self.store(layer, off, v);
    }

    /// Length of the packet.
    pub fn len(&mut self) -> V {
        self.rest(Layer::Data)
    }

    /// Bytes from a layer to the end of the packet.
    pub fn rest(&mut self, layer: Layer) -> V {
        self.define(Width::W32, |dst| Op::Rest { dst, layer })
    }

    /// Position of `to` minus position of `from`.
    pub fn distance(&mut self, from: Layer, to: Layer) -> V {
        self.define(Width::W32, |dst| Op::Distance { dst, from, to })
    }

    /// Sets a mark to `base + off`.
    pub fn set_mark(&mut self, layer: Layer, base: Layer, off: impl Into<Amount>) {
        self.op(Op::SetMark { layer, base, off: off.into() });
    }

    /// Unsets a mark.
    pub fn clear_mark(&mut self, layer: Layer) {
        self.op(Op::ClearMark { layer });
    }

    /// Reads an annotation.
    pub fn load_anno(&mut self, width: Width, off: u32) -> V {
        self.define(width, |dst| Op::LoadAnno { dst, off })
    }

    /// Writes an annotation.
    pub fn store_anno(&mut self, off: u32, v: V) {
        self.op(Op::StoreAnno { off, src: v.value });
    }

    /// Reads metadata.
    pub fn load_meta(&mut self, field: MetaField) -> V {
        self.define(field.width(), |dst| Op::LoadMeta { dst, field })
    }

    /// Writes metadata.
    pub fn store_meta(&mut self, field: MetaField, v: V) {
        self.op(Op::StoreMeta { field, src: v.value });
    }

    /// Ones' complement sum of a range.
    pub fn checksum(&mut self, layer: Layer, start: u32, end: impl Into<Amount>) -> V {
        let end = end.into();
        self.define(Width::W16, |dst| Op::Checksum { dst, layer, start, end })
    }

    /// Copies bytes within the packet.
    pub fn copy_bytes(&mut self, to: (Layer, u32), from: (Layer, u32), len: u32) {
        self.op(Op::CopyBytes { to, from, len });
    }

    /// Whether two ranges are equal.
    pub fn compare_bytes(&mut self, a: (Layer, u32), b: (Layer, u32), len: u32) -> V {
        self.define(Width::W1, |dst| Op::CompareBytes { dst, a, b, len })
    }

    /// Where a byte first stands in a range; `end` if nowhere.
    pub fn find_byte(&mut self, layer: Layer, start: u32, end: impl Into<Amount>, byte: V) -> V {
        let end = end.into();
        self.define(Width::W32, |dst| Op::FindByte { dst, layer, start, end, byte: byte.value })
    }

    /// Removes bytes in front.
    pub fn pull(&mut self, n: impl Into<Amount>) {
        self.op(Op::Pull { n: n.into() });
    }

    /// Cuts the packet.
    pub fn trim(&mut self, len: V) {
        self.op(Op::Trim { len: len.value });
    }

    /// Goes on if the packet has `n` bytes from `layer` on, else drops it.
    pub fn require(&mut self, layer: Layer, n: impl Into<Amount>, reason: Reason) {
        self.require_or(layer, n, |b| b.drop(reason));
    }

    /// Goes on if the packet has `n` bytes from `layer` on, else does `fail`. If `fail` does not end, it joins, and
    /// the bytes are not known to be there.
    pub fn require_or(&mut self, layer: Layer, n: impl Into<Amount>, fail: impl FnOnce(&mut Builder)) {
        let n = n.into();
        self.or_else(fail, |ok, fail| End::Require { layer, n, ok, fail });
    }

    /// Whether the packet has `n` bytes from `layer` on.
    pub fn if_has(
        &mut self,
        layer: Layer,
        n: impl Into<Amount>,
        yes: impl FnOnce(&mut Builder),
        no: impl FnOnce(&mut Builder),
    ) {
        let n = n.into();
        self.either(yes, no, |ok, fail| End::Require { layer, n, ok, fail });
    }

    /// Adds zero bytes in front, or drops the packet (`NoRoom`).
    pub fn push(&mut self, n: impl Into<Amount>) {
        let n = n.into();
        self.or_else(|b| b.drop(Reason::NO_ROOM), |ok, fail| End::Push { n, ok, fail });
    }

    /// Takes back bytes that were pulled, or drops the packet (`NoRoom`).
    pub fn unpull(&mut self, n: impl Into<Amount>) {
        let n = n.into();
        self.or_else(|b| b.drop(Reason::NO_ROOM), |ok, fail| End::Unpull { n, ok, fail });
    }

    /// Adds zero bytes at the end, or drops the packet (`NoRoom`).
    pub fn put(&mut self, n: impl Into<Amount>) {
        let n = n.into();
        self.or_else(|b| b.drop(Reason::NO_ROOM), |ok, fail| End::Put { n, ok, fail });
    }

    // --- tables -----------------------------------------------------------------------------------------------

    /// An entry of an array.
    pub fn index(&mut self, table: TableId, index: u32) -> E {
        let value = self.value(Type::Entry(table));
        self.op(Op::Index { dst: value, table, index });
        E { value, table }
    }

    /// The value of a cell.
    pub fn read_cell(&mut self, cell: TableId) -> V {
        let e = self.index(cell, 0);
        self.get(e, "value")
    }

    /// Changes a cell.
    pub fn write_cell(&mut self, cell: TableId, v: V) {
        let e = self.index(cell, 0);
        self.set(e, "value", v);
    }

    /// A value field.
    ///
    /// # Panics
    /// If the table has no such field.
    pub fn get(&mut self, e: E, field: &str) -> V {
        let (field, width) = self.field(e.table, field);
        self.define(width, |dst| Op::Get { dst, entry: e.value, field })
    }

    /// A key field, by number.
    pub fn key(&mut self, e: E, field: u32) -> V {
        let width = self.program.tables[e.table.0 as usize].decl.key[field as usize].width;
        self.define(width, |dst| Op::GetKey { dst, entry: e.value, field })
    }

    /// Changes a value field.
    ///
    /// # Panics
    /// If the table has no such field.
    pub fn set(&mut self, e: E, field: &str, v: impl Into<Arg>) {
        let (field, width) = self.field(e.table, field);
        let v = self.arg(v.into(), width);
        self.op(Op::Set { entry: e.value, field, src: v.value });
    }

    /// Lets an entry expire after so many nanoseconds.
    pub fn touch(&mut self, e: E, after: impl Into<Arg>) {
        let after = self.arg(after.into(), Width::W64);
        self.op(Op::Touch { entry: e.value, after: after.value });
    }

    /// Ties two entries together.
    pub fn link(&mut self, a: E, b: E) {
        self.op(Op::Link { a: a.value, b: b.value });
    }

    /// Removes an entry.
    pub fn remove(&mut self, e: E) {
        self.op(Op::Remove { entry: e.value });
    }

    /// Number of entries in a group.
    pub fn group_count(&mut self, table: TableId, value: V) -> V {
        self.define(Width::W32, |dst| Op::GroupCount { dst, table, value: value.value })
    }

    /// Number of entries.
    pub fn size(&mut self, table: TableId) -> V {
        self.define(Width::W32, |dst| Op::Size { dst, table })
    }

    /// Looks a key up.
    pub fn lookup(
        &mut self,
        table: TableId,
        key: &[V],
        hit: impl FnOnce(&mut Builder, E),
        miss: impl FnOnce(&mut Builder),
    ) {
        let key = values(key);
        self.with_entry(table, hit, miss, |hit, miss| End::Lookup { table, key, hit, miss });
    }

    /// Looks a key up and goes on with the entry; `miss` has to end.
    pub fn find(&mut self, table: TableId, key: &[V], miss: impl FnOnce(&mut Builder)) -> E {
        let key = values(key);
        self.or_leave(table, miss, |hit, miss| End::Lookup { table, key, hit, miss })
    }

    /// Finds or makes an entry and goes on with it; `full` has to end.
    pub fn insert(&mut self, table: TableId, key: &[V], full: impl FnOnce(&mut Builder)) -> E {
        let key = values(key);
        self.or_leave(table, full, |ok, full| End::Insert { table, key, ok, full })
    }

    /// Makes an entry with a free key (see [`End::Claim`]) and goes on with it and the claimed value; `full` has to
    /// end.
    #[expect(clippy::too_many_arguments, reason = "a claim has that many parts, and each call names them all")]
    pub fn claim(
        &mut self,
        table: TableId,
        key: &[V],
        hole: u32,
        lo: V,
        hi: V,
        start: V,
        full: impl FnOnce(&mut Builder),
    ) -> (E, V) {
        let width = self.program.tables[table.0 as usize].decl.key[hole as usize].width;
        let key = values(key);
        let claimed = self.value(Type::Int(width));
        let (lo, hi, start) = (lo.value, hi.value, start.value);
        let e = self.or_leave_with(table, vec![claimed], full, |ok, full| End::Claim {
            table,
            key,
            hole,
            lo,
            hi,
            start,
            ok,
            full,
        });
        (e, V { value: claimed, width })
    }

    /// Takes tokens from the bucket in a field; does `over` if there are not enough.
    pub fn meter(
        &mut self,
        e: E,
        field: &str,
        [cost, rate, burst]: [V; 3],
        ok: impl FnOnce(&mut Builder),
        over: impl FnOnce(&mut Builder),
    ) {
        let (field, _) = self.field(e.table, field);
        let (cost, rate, burst) = (cost.value, rate.value, burst.value);
        self.either(ok, over, |ok, over| End::Meter { entry: e.value, field, cost, rate, burst, ok, over });
    }

    // --- other packets ----------------------------------------------------------------------------------------

    /// Copies the packet; the copy runs `body` when this run has ended.
    pub fn fork(&mut self, body: impl FnOnce(&mut Builder)) {
        self.strand(&[], |b, _| body(b), |target| Op::Fork { copy: true, target });
    }

    /// Makes an empty packet with the annotations of the current one (or none); it runs `body` when this run has
    /// ended. `args` are passed along.
    pub fn fork_new(&mut self, args: &[V], body: impl FnOnce(&mut Builder, &[V])) {
        self.strand(args, body, |target| Op::Fork { copy: false, target });
    }

    /// Lets the packets that an entry holds go on with `body` when this run has ended. `args` are passed along.
    pub fn release(&mut self, e: E, args: &[V], body: impl FnOnce(&mut Builder, &[V])) {
        self.strand(args, body, |target| Op::Release { entry: e.value, target });
    }

    fn strand(
        &mut self,
        args: &[V],
        body: impl FnOnce(&mut Builder, &[V]),
        op: impl FnOnce(Target) -> Op,
    ) {
        let params: Vec<V> = args.iter().map(|a| V { value: self.value(Type::Int(a.width)), width: a.width }).collect();
        let block = self.new_block(params.iter().map(|p| p.value).collect());
        self.op(op(Target { block, args: values(args) }));
        let here = self.current.take();
        self.enter(block);
        body(self, &params);
        if !self.ended() {
            self.drop(Reason::DISCARDED);
        }
        // The strand's blocks stand before those that follow, so what follows here starts a block of its own.
        if let Some(here) = here {
            let next = self.new_block(Vec::new());
            self.open_block(here).end = Some(End::Jump(Target { block: next, args: Vec::new() }));
            self.enter(next);
        }
    }

    /// Tells the host about an event, without showing the packet.
    pub fn notify(&mut self, event: u32, args: &[V]) {
        self.op(Op::Notify { event, args: values(args), packet: false });
    }

    /// Tells the host about an event and shows it the current packet.
    pub fn notify_packet(&mut self, event: u32, args: &[V]) {
        self.op(Op::Notify { event, args: values(args), packet: true });
    }

    // --- control ----------------------------------------------------------------------------------------------

    /// Whether the current path has ended.
    pub fn ended(&self) -> bool {
        self.current.is_none()
    }

    /// Does `body` if `cond`.
    pub fn when(&mut self, cond: V, body: impl FnOnce(&mut Builder)) {
        self.if_else(cond, body, |_| {});
    }

    /// Does `body` unless `cond`.
    pub fn unless(&mut self, cond: V, body: impl FnOnce(&mut Builder)) {
        self.if_else(cond, |_| {}, body);
    }

    /// One of two ways.
    pub fn if_else(&mut self, cond: V, yes: impl FnOnce(&mut Builder), no: impl FnOnce(&mut Builder)) {
        debug_assert_eq!(cond.width, Width::W1);
        self.either(yes, no, |then, other| End::Branch { cond: cond.value, then, other });
    }

    /// A value that depends on the way taken. Both ways must give the same width and not end.
    pub fn choose(
        &mut self,
        cond: V,
        yes: impl FnOnce(&mut Builder) -> V,
        no: impl FnOnce(&mut Builder) -> V,
    ) -> V {
        self.either_value(yes, no, |then, other| End::Branch { cond: cond.value, then, other })
    }

    /// A value that depends on whether the packet has `n` bytes from `layer` on.
    pub fn choose_has(
        &mut self,
        layer: Layer,
        n: impl Into<Amount>,
        yes: impl FnOnce(&mut Builder) -> V,
        no: impl FnOnce(&mut Builder) -> V,
    ) -> V {
        let n = n.into();
        self.either_value(yes, no, |ok, fail| End::Require { layer, n, ok, fail })
    }

    /// One way for each case, `None` for all other values. Ways that do not end join.
    pub fn switch(&mut self, v: V, cases: &[u128], mut body: impl FnMut(&mut Builder, Option<usize>)) {
        let ways: Vec<BlockId> = (0..=cases.len()).map(|_| self.new_block(Vec::new())).collect();
        let end = End::Switch {
            value: v.value,
            cases: cases.iter().zip(&ways).map(|(&c, &w)| (c, target(w))).collect(),
            default: target(ways[cases.len()]),
        };
        self.end(end);
        let mut open = Vec::new();
        for (i, &way) in ways.iter().enumerate() {
            self.enter(way);
            body(self, (i < cases.len()).then_some(i));
            open.extend(self.current.take());
        }
        self.join(open);
    }

    /// A loop of at most `limit` rounds. `body` gets the loop's variables and either ends the path, or calls
    /// [`Loop::next`] or [`Loop::leave`]. After the loop the variables have the values they were left with (after
    /// the last round: those for the round that was not run).
    pub fn repeat(&mut self, limit: u32, init: &[V], body: impl FnOnce(&mut Builder, &Loop, &[V])) -> Vec<V> {
        let vars = |b: &mut Builder| -> Vec<V> {
            init.iter().map(|v| V { value: b.value(Type::Int(v.width)), width: v.width }).collect()
        };
        let (inside, outside) = (vars(self), vars(self));
        let header = self.new_block(inside.iter().map(|v| v.value).collect());
        self.open_block(header).loop_limit = Some(limit);
        let exit = self.new_block(outside.iter().map(|v| v.value).collect());
        self.end(End::Jump(Target { block: header, args: values(init) }));
        self.enter(header);
        let this = Loop { header, exit };
        body(self, &this, &inside);
        if !self.ended() {
            this.next(self, &inside);
        }
        self.enter(exit);
        outside
    }

    /// The packet leaves on an output; dropped (`Unconnected`) if there is none of that number.
    pub fn emit(&mut self, port: u32) {
        self.emit_or_drop(port, Reason::UNCONNECTED);
    }

    /// The packet leaves on an output, or is dropped if there is none of that number.
    pub fn emit_or_drop(&mut self, port: u32, reason: Reason) {
        if port < self.program.outputs {
            self.end(End::Emit { port });
        } else {
            self.drop(reason);
        }
    }

    /// The packet ends.
    pub fn drop(&mut self, reason: Reason) {
        self.end(End::Drop { reason });
    }

    /// Leaves the packet with an entry; does `full` if that has no room. Ends the path unless `full` joins.
    pub fn hold(&mut self, e: E, full: impl FnOnce(&mut Builder)) {
        let block = self.new_block(Vec::new());
        self.end(End::Hold { entry: e.value, full: target(block) });
        self.enter(block);
        full(self);
    }

    /// Ends a program that has no packet.
    pub fn stop(&mut self) {
        self.end(End::Finish);
    }

    // --- inside -----------------------------------------------------------------------------------------------

    fn field(&self, table: TableId, name: &str) -> (u32, Width) {
        let decl = &self.program.tables[table.0 as usize].decl;
        let field = decl.value_field(name).unwrap_or_else(|| panic!("table '{}' has no field '{name}'", decl.name));
        (field, decl.value[field as usize].width)
    }

    fn arg(&mut self, a: Arg, width: Width) -> V {
        match a {
            Arg::V(v) => {
                assert_eq!(v.width, width, "both operands have the same width");
                v
            }
            Arg::C(c) => self.constant(width, c),
        }
    }

    fn value(&mut self, ty: Type) -> Value {
        self.program.types.push(ty);
        Value(self.program.types.len() as u32 - 1)
    }

    fn define(&mut self, width: Width, op: impl FnOnce(Value) -> Op) -> V {
        let value = self.value(Type::Int(width));
        self.op(op(value));
        V { value, width }
    }

    fn op(&mut self, op: Op) {
        let block = self.current.expect("nothing can be written after a path has ended");
        self.open_block(block).ops.push(op);
    }

    fn end(&mut self, end: End) {
        let block = self.current.take().expect("nothing can be written after a path has ended");
        self.open_block(block).end = Some(end);
    }

    fn new_block(&mut self, params: Vec<Value>) -> BlockId {
        self.open.push(Some(Open { params, loop_limit: None, ops: Vec::new(), end: None }));
        BlockId(self.open.len() as u32 - 1)
    }

    fn open_block(&mut self, id: BlockId) -> &mut Open {
        self.open[id.0 as usize].as_mut().expect("blocks are taken only when the program is finished")
    }

    fn enter(&mut self, id: BlockId) {
        self.order.push(id);
        self.current = Some(id);
    }

    fn join(&mut self, open: Vec<BlockId>) {
        if open.is_empty() {
            return;
        }
        let next = self.new_block(Vec::new());
        for id in open {
            self.open_block(id).end = Some(End::Jump(target(next)));
        }
        self.enter(next);
    }

    fn either(
        &mut self,
        yes: impl FnOnce(&mut Builder),
        no: impl FnOnce(&mut Builder),
        end: impl FnOnce(Target, Target) -> End,
    ) {
        let (a, b) = (self.new_block(Vec::new()), self.new_block(Vec::new()));
        self.end(end(target(a), target(b)));
        let mut open = Vec::new();
        self.enter(a);
        yes(self);
        open.extend(self.current.take());
        self.enter(b);
        no(self);
        open.extend(self.current.take());
        self.join(open);
    }

    fn either_value(
        &mut self,
        yes: impl FnOnce(&mut Builder) -> V,
        no: impl FnOnce(&mut Builder) -> V,
        end: impl FnOnce(Target, Target) -> End,
    ) -> V {
        let (then, other) = (self.new_block(Vec::new()), self.new_block(Vec::new()));
        self.end(end(target(then), target(other)));
        self.enter(then);
        let a = yes(self);
        let from_yes = self.current.take().expect("a way that gives a value does not end");
        self.enter(other);
        let b = no(self);
        assert_eq!(a.width, b.width, "both ways give the same width");
        let result = self.value(Type::Int(a.width));
        let join = self.new_block(vec![result]);
        self.end(End::Jump(Target { block: join, args: vec![b.value] }));
        self.open_block(from_yes).end = Some(End::Jump(Target { block: join, args: vec![a.value] }));
        self.enter(join);
        V { value: result, width: a.width }
    }

    /// Goes on where `end` succeeds; the other way is `fail`, and joins if it does not end.
    fn or_else(&mut self, fail: impl FnOnce(&mut Builder), end: impl FnOnce(Target, Target) -> End) {
        self.either(|_| {}, fail, end);
    }

    fn with_entry(
        &mut self,
        table: TableId,
        hit: impl FnOnce(&mut Builder, E),
        miss: impl FnOnce(&mut Builder),
        end: impl FnOnce(Target, Target) -> End,
    ) {
        let value = self.value(Type::Entry(table));
        let (a, b) = (self.new_block(vec![value]), self.new_block(Vec::new()));
        self.end(end(target(a), target(b)));
        let mut open = Vec::new();
        self.enter(a);
        hit(self, E { value, table });
        open.extend(self.current.take());
        self.enter(b);
        miss(self);
        open.extend(self.current.take());
        self.join(open);
    }

    fn or_leave(
        &mut self,
        table: TableId,
        fail: impl FnOnce(&mut Builder),
        end: impl FnOnce(Target, Target) -> End,
    ) -> E {
        self.or_leave_with(table, Vec::new(), fail, end)
    }

    fn or_leave_with(
        &mut self,
        table: TableId,
        more: Vec<Value>,
        fail: impl FnOnce(&mut Builder),
        end: impl FnOnce(Target, Target) -> End,
    ) -> E {
        let value = self.value(Type::Entry(table));
        let mut params = vec![value];
        params.extend(more);
        let (a, b) = (self.new_block(params), self.new_block(Vec::new()));
        self.end(end(target(a), target(b)));
        self.enter(b);
        fail(self);
        assert!(self.ended(), "the way without an entry has to end");
        self.enter(a);
        E { value, table }
    }
}

/// A loop under construction.
#[derive(Debug)]
pub struct Loop {
    header: BlockId,
    exit: BlockId,
}

impl Loop {
    /// Goes to the next round with these values, or leaves with them after the last.
    pub fn next(&self, b: &mut Builder, vars: &[V]) {
        let args = values(vars);
        b.end(End::Again {
            header: Target { block: self.header, args: args.clone() },
            exit: Target { block: self.exit, args },
        });
    }

    /// Leaves the loop with these values.
    pub fn leave(&self, b: &mut Builder, vars: &[V]) {
        b.end(End::Jump(Target { block: self.exit, args: values(vars) }));
    }
}

fn cell_decl(name: &str, width: Width) -> TableDecl {
    TableDecl::new(name, weir_table::Kind::Array, &[("index", Width::W32)], &[("value", width)], 1)
}

fn target(block: BlockId) -> Target {
    Target { block, args: Vec::new() }
}

fn values(list: &[V]) -> Vec<Value> {
    list.iter().map(|v| v.value).collect()
}
