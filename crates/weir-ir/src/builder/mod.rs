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

mod control;
mod packet;
mod tables;
mod values;

pub use control::Loop;

use crate::program::{
    Amount, BinOp, Block, BlockId, CmpOp, End, Entry, EntryKind, Event, Layer, MetaField, Op, Program,
    Reason, Row, TableDecl, TableId, TableInit, Target, Type, Value, Width,
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

/// An operand of arithmetic: a value, or a constant of the other operand's width.
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
    /// In the order in which they were first named; each finishes unless it is made to end otherwise.
    open: Vec<Block>,
    /// In the order in which they were entered.
    order: Vec<BlockId>,
}

/// No more blocks than so many are mostly made.
const USUAL: usize = 128;

impl Builder {
    /// A builder for an element with so many connected inputs and outputs.
    pub fn new(name: &str, inputs: u32, outputs: u32) -> Builder {
        Builder {
            program: Program { elements: vec![name.to_owned()], inputs, outputs, ..Program::default() },
            current: None,
            open: Vec::with_capacity(USUAL),
            order: Vec::with_capacity(USUAL),
        }
    }

    /// Full name of the element.
    pub fn name(&self) -> &str {
        &self.program.elements[0]
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
        for block in &mut self.open {
            block.end.visit_targets_mut(|_, t| t.block = number[t.block.0 as usize]);
            for op in &mut block.ops {
                if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
                    target.block = number[target.block.0 as usize];
                }
            }
        }
        for e in &mut self.program.entries {
            e.block = number[e.block.0 as usize];
        }
        let taken = |id: &BlockId| std::mem::replace(&mut self.open[id.0 as usize], unfinished(Vec::new()));
        self.program.blocks = self.order.iter().map(taken).collect();
        self.program
    }

    // --- declarations ----------------------------------------

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

    /// The programs for packets on all inputs: `first` for each, and `then` for those that it does not end.
    pub fn all_inputs(&mut self, mut first: impl FnMut(&mut Builder, u32), then: impl FnOnce(&mut Builder)) {
        let mut open = Vec::new();
        for port in 0..self.program.inputs {
            self.entry(EntryKind::Packet { port }, Vec::new(), |b| first(b, port));
            open.extend(self.current.take());
        }
        self.join(open);
        if !self.ended() {
            then(self);
        }
        if !self.ended() {
            self.drop(Reason::DISCARDED);
        }
    }

    /// The program that runs every so many nanoseconds.
    pub fn timer(&mut self, every: u64, body: impl FnOnce(&mut Builder)) {
        self.entry(EntryKind::Timer { every }, Vec::new(), |b| b.packetless(body));
    }

    /// The program for entries of a table whose time has come.
    pub fn expire(&mut self, table: TableId, body: impl FnOnce(&mut Builder, E)) {
        let value = self.value(Type::Entry(table));
        self.entry(EntryKind::Expire { table }, vec![value], |b| {
            b.packetless(|b| body(b, E { value, table }));
        });
    }

    /// The program for a message from the control side.
    pub fn message(&mut self, name: &str, widths: &[Width], body: impl FnOnce(&mut Builder, &[V])) {
        let args: Vec<V> = widths.iter().map(|&w| V { value: self.value(Type::Int(w)), width: w }).collect();
        let params = args.iter().map(|v| v.value).collect();
        self.entry(EntryKind::Message { name: name.to_owned() }, params, |b| {
            b.packetless(|b| body(b, &args));
        });
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

    // --- inside ----------------------------------------------

    fn field(&self, table: TableId, name: &str) -> (u32, Width) {
        let decl = &self.program.tables[table.0 as usize].decl;
        let field =
            decl.value_field(name).unwrap_or_else(|| panic!("table '{}' has no field '{name}'", decl.name));
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
        self.open_block(block).end = end;
    }

    fn new_block(&mut self, params: Vec<Value>) -> BlockId {
        self.open.push(unfinished(params));
        BlockId(self.open.len() as u32 - 1)
    }

    fn open_block(&mut self, id: BlockId) -> &mut Block {
        &mut self.open[id.0 as usize]
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
            self.open_block(id).end = End::Jump(target(next));
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
        let from_yes = self.current.take().expect("a path that gives a value does not end");
        self.enter(other);
        let b = no(self);
        assert_eq!(a.width, b.width, "both paths give the same width");
        let result = self.value(Type::Int(a.width));
        let join = self.new_block(vec![result]);
        self.end(End::Jump(Target { block: join, args: vec![b.value] }));
        self.open_block(from_yes).end = End::Jump(Target { block: join, args: vec![a.value] });
        self.enter(join);
        V { value: result, width: a.width }
    }

    /// Goes on where `end` succeeds; the other path is `fail`, and joins if it does not end.
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
        assert!(self.ended(), "the path without an entry has to end");
        self.enter(a);
        E { value, table }
    }
}

fn cell_decl(name: &str, width: Width) -> TableDecl {
    TableDecl::new(name, weir_table::Kind::Array, &[("index", Width::W32)], &[("value", width)], 1)
}

/// A block that nothing was written into.
fn unfinished(params: Vec<Value>) -> Block {
    Block { params, loop_limit: None, ops: Vec::new(), end: End::Finish, owner: 0 }
}

fn target(block: BlockId) -> Target {
    Target { block, args: Vec::new() }
}

fn values(list: &[V]) -> Vec<Value> {
    list.iter().map(|v| v.value).collect()
}
