//! What a program does with each of its tables, as far as it matters that several processors run it at once.
//!
//! A single access is one step. A packet that takes at most one step in an element's tables finds and leaves what it would if
//! packets came one at a time. So what needs more is not compiled: to read a field and then to write it, to write several
//! fields, to look for an entry and then to make it. Sums take no step while no packet sees them, in whatever order they are added to.

use std::collections::HashMap;

use weir_ir::program::{BinOp, Block, BlockId, End, EntryKind, Op, Program, TableId, Type, Value, Width};

/// The use of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Packets make entries.
    pub inserts: bool,
    /// Packets only add to its fields, and nothing else reads these.
    pub sums: bool,
    /// Someone asks for keys of entries.
    pub keys: bool,
    /// A packet may take several steps, between which those of another processor may come.
    pub races: bool,
    /// Its entries have a program that runs when they expire.
    pub expires: bool,
}

/// The uses of a program's values.
pub struct Usages {
    /// By table.
    pub tables: Vec<Usage>,
    /// For each write that is a sum (block, operation): what is added.
    pub sums: HashMap<(BlockId, usize), Value>,
}

/// The same entry, whichever value names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Value(Value),
    Index(TableId, u32),
}

/// An access to a table: block, and place in it (behind all operations, if it is the block's end).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Access {
    block: BlockId,
    at: usize,
    table: usize,
}

/// An access to a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It is read, but for a sum.
    Read,
    Write,
    Sum,
}

/// Definitions of values, and how often each is used.
struct Values<'a> {
    program: &'a Program,
    defs: HashMap<Value, (BlockId, usize)>,
    uses: HashMap<Value, u32>,
}

impl<'a> Values<'a> {
    fn of(program: &'a Program, reached: &[bool]) -> Values<'a> {
        let mut values = Values { program, defs: HashMap::new(), uses: HashMap::new() };
        for (id, block) in blocks(program, reached) {
            for (at, op) in block.ops.iter().enumerate() {
                op.visit_values(|v, defined| {
                    if defined {
                        values.defs.insert(*v, (id, at));
                    } else {
                        *values.uses.entry(*v).or_default() += 1;
                    }
                });
            }
            block.end.visit_values(|v| *values.uses.entry(*v).or_default() += 1);
        }
        values
    }

    fn def(&self, v: Value) -> Option<&'a Op> {
        let &(block, at) = self.defs.get(&v)?;
        Some(&self.program.block(block).ops[at])
    }

    fn once(&self, v: Value) -> bool {
        self.uses.get(&v) == Some(&1)
    }

    fn entry(&self, v: Value) -> Entry {
        match self.def(v) {
            Some(Op::Index { table, index, .. }) => Entry::Index(*table, *index),
            _ => Entry::Value(v),
        }
    }

    fn table(&self, entry: Value) -> usize {
        match self.program.ty(entry) {
            Type::Entry(t) => t.0 as usize,
            Type::Int(_) => unreachable!("the checker proved that this is an entry"),
        }
    }

    /// If a write (in a block, at an operation) puts there the field's own value and something more, neither serves another
    /// purpose, and the field is not written between: the value that was read, and what is added.
    fn sum(&self, block: BlockId, at: usize, entry: Value, field: u32, src: Value) -> Option<(Value, Value)> {
        let Some(Op::Binary { op: BinOp::Add, a, b, .. }) = self.def(src) else { return None };
        let writes = |op: &Op| matches!(op, Op::Set { entry: e, field: f, .. } if *f == field && self.table(*e) == self.table(entry));
        let is_own = |v: Value| {
            let Some(Op::Get { entry: e, field: f, .. }) = self.def(v) else { return false };
            let (there, read) = self.defs[&v];
            *f == field
                && self.entry(*e) == self.entry(entry)
                && self.once(v)
                && there == block
                && !self.program.block(block).ops[read..at].iter().any(writes)
        };
        [(*a, *b), (*b, *a)].into_iter().find(|(old, _)| is_own(*old)).filter(|_| self.once(src))
    }
}

fn blocks<'a>(program: &'a Program, reached: &'a [bool]) -> impl Iterator<Item = (BlockId, &'a Block)> {
    (0..).map(BlockId).zip(&program.blocks).filter(|(b, _)| reached[b.0 as usize])
}

impl Usages {
    /// Reads them off the blocks that can be reached.
    pub fn of(program: &Program, reached: &[bool]) -> Usages {
        let mut u = Usages { tables: vec![Usage::default(); program.tables.len()], sums: HashMap::new() };
        let values = Values::of(program, reached);
        // What is read to be added to.
        let mut own = Vec::new();
        let (mut fields, mut entries) = (Vec::new(), Vec::new());
        for (block, b) in blocks(program, reached) {
            for (at, op) in b.ops.iter().enumerate() {
                let Op::Set { entry, field, src } = op else { continue };
                let access = Access { block, at, table: values.table(*entry) };
                let sum = values.sum(block, at, *entry, *field, *src);
                fields.push((access, *field, if sum.is_some() { Kind::Sum } else { Kind::Write }));
                if let Some((old, more)) = sum {
                    own.push(old);
                    u.sums.insert((block, at), more);
                }
            }
        }
        for (block, b) in blocks(program, reached) {
            for (at, op) in b.ops.iter().enumerate() {
                match op {
                    Op::Get { entry, field, dst } if !own.contains(dst) => {
                        fields.push((Access { block, at, table: values.table(*entry) }, *field, Kind::Read));
                    }
                    Op::GetKey { entry, .. } => u.tables[values.table(*entry)].keys = true,
                    _ => {}
                }
            }
            if let End::Lookup { table, .. } | End::Insert { table, .. } = b.end {
                entries.push(Access { block, at: b.ops.len(), table: table.0 as usize });
            }
            if let End::Insert { table, .. } = b.end {
                u.tables[table.0 as usize].inserts = true;
            }
        }
        for e in &program.entries {
            if let EntryKind::Expire { table } = e.kind {
                u.tables[table.0 as usize].expires = true;
            }
        }
        for (t, usage) in u.tables.iter_mut().enumerate() {
            let of = |kind: Kind| fields.iter().filter(move |f| f.0.table == t && f.2 == kind);
            let read = |field: u32| of(Kind::Read).any(|r| r.1 == field);
            usage.sums = of(Kind::Write).next().is_none()
                && of(Kind::Sum).next().is_some()
                && !of(Kind::Sum).any(|s| read(s.1));
        }
        let is = |a: &Access, field: u32, kind: Kind| {
            fields.iter().any(|f| (f.0.table, f.1, f.2) == (a.table, field, kind))
        };
        let step = |(a, field, kind): &&(Access, u32, Kind)| match kind {
            Kind::Read => is(a, *field, Kind::Write) || is(a, *field, Kind::Sum),
            Kind::Write => true,
            Kind::Sum => is(a, *field, Kind::Read) || is(a, *field, Kind::Write),
        };
        let mut steps: Vec<Access> = Vec::new();
        for (a, field, _) in fields.iter().filter(step) {
            steps.push(*a);
            // Numbers of 128 bits are two words.
            if program.tables[a.table].decl.value[*field as usize].width == Width::W128 {
                u.tables[a.table].races = true;
            }
        }
        steps.extend(entries.into_iter().filter(|e| u.tables[e.table].inserts));
        for first in &steps {
            let later = self::reached(program, &successors(program, first.block));
            let owner = program.tables[first.table].owner;
            for second in steps.iter().filter(|s| program.tables[s.table].owner == owner) {
                let follows = second.block == first.block && second.at > first.at;
                if follows || later[second.block.0 as usize] {
                    u.tables[first.table].races = true;
                    u.tables[second.table].races = true;
                }
            }
        }
        u
    }
}

/// The blocks that a packet may go to from a block.
pub fn successors(program: &Program, b: BlockId) -> Vec<BlockId> {
    match &program.block(b).end {
        End::Enter { block, .. } => vec![*block],
        end => end.targets().iter().map(|t| t.block).collect(),
    }
}

/// For each block, whether a packet may come to it that starts at one of these.
pub fn reached(program: &Program, from: &[BlockId]) -> Vec<bool> {
    let (mut seen, mut work) = (vec![false; program.blocks.len()], from.to_vec());
    while let Some(b) = work.pop() {
        if !std::mem::replace(&mut seen[b.0 as usize], true) {
            work.extend(successors(program, b));
        }
    }
    seen
}
