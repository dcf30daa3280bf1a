//! What a program does with each of its tables, as far as it matters that several processors run it at once.
//!
//! A single access is one step. What is not: to read a field, and then to write the table. So only sums are compiled of
//! that kind, which are added to in one step.

use std::collections::HashMap;

use weir_ir::program::{BinOp, BlockId, End, EntryKind, Op, Program, TableId, Type, Value};

/// The use of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Packets make entries.
    pub inserts: bool,
    /// Packets only add to its fields, and nothing else reads these.
    pub sums: bool,
    /// Someone asks for keys of entries, or removes them.
    pub keys: bool,
    /// A field is read, and then the table written.
    pub races: bool,
    /// Its entries have a program that runs when they expire.
    pub expires: bool,
}

/// What is known of a program's values.
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

impl Usages {
    /// Reads them off the blocks that can be reached.
    pub fn of(program: &Program, reached: &[bool]) -> Usages {
        let mut u = Usages { tables: vec![Usage::default(); program.tables.len()], sums: HashMap::new() };
        let table = |entry: Value| match program.ty(entry) {
            Type::Entry(t) => t.0 as usize,
            Type::Int(_) => unreachable!("the checker proved that this is an entry"),
        };
        let blocks = || (0..).map(BlockId).zip(&program.blocks).filter(|(b, _)| reached[b.0 as usize]);
        // Definitions, and how often each value is used.
        let (mut defs, mut uses) = (HashMap::new(), HashMap::<Value, u32>::new());
        for (_, block) in blocks() {
            for op in &block.ops {
                op.visit_values(|v, defined| {
                    if defined {
                        defs.insert(*v, op);
                    } else {
                        *uses.entry(*v).or_default() += 1;
                    }
                });
            }
            block.end.visit_values(|v| *uses.entry(*v).or_default() += 1);
        }
        let entry = |v: Value| match defs.get(&v) {
            Some(Op::Index { table, index, .. }) => Entry::Index(*table, *index),
            _ => Entry::Value(v),
        };
        let once = |v: &Value| uses.get(v) == Some(&1);
        let mut own_reads = Vec::new();
        // Blocks and operations that read a field for its value, and that write.
        let n = program.tables.len();
        let (mut reads, mut writes) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        let mut plain = vec![false; n];
        for (id, block) in blocks() {
            for (at, op) in block.ops.iter().enumerate() {
                match op {
                    Op::Set { entry: e, field, src } => {
                        let sum = match defs.get(src) {
                            Some(Op::Binary { op: BinOp::Add, a, b, .. }) if once(src) => {
                                [(a, b), (b, a)].into_iter().find_map(|(old, more)| match defs.get(old) {
                                    Some(Op::Get { entry: from, field: f, .. })
                                        if f == field && entry(*from) == entry(*e) && once(old) =>
                                    {
                                        Some((*old, *more))
                                    }
                                    _ => None,
                                })
                            }
                            _ => None,
                        };
                        match sum {
                            Some((old, more)) => {
                                own_reads.push(old);
                                u.sums.insert((id, at), more);
                                writes[table(*e)].push((id, at, *field, true));
                            }
                            None => {
                                plain[table(*e)] = true;
                                writes[table(*e)].push((id, at, *field, false));
                            }
                        }
                    }
                    Op::Get { entry: e, field, dst } => reads[table(*e)].push((id, at, *field, *dst)),
                    Op::GetKey { entry: e, .. } => u.tables[table(*e)].keys = true,
                    Op::Remove { entry: e } => u.tables[table(*e)].keys = true,
                    _ => {}
                }
            }
            if let End::Insert { table, .. } | End::Claim { table, .. } = block.end {
                u.tables[table.0 as usize].inserts = true;
            }
        }
        for e in &program.entries {
            if let EntryKind::Expire { table } = e.kind {
                u.tables[table.0 as usize].expires = true;
            }
        }
        for t in 0..n {
            let foreign = |r: &&(BlockId, usize, u32, Value)| !own_reads.contains(&r.3);
            let summed = |f: u32| writes[t].iter().any(|w| w.2 == f && w.3);
            let written = |f: u32| writes[t].iter().any(|w| w.2 == f);
            u.tables[t].sums =
                !writes[t].is_empty() && !plain[t] && !reads[t].iter().filter(foreign).any(|r| summed(r.2));
            u.tables[t].races =
                !u.tables[t].sums
                    && reads[t].iter().filter(foreign).filter(|r| written(r.2)).any(|r| {
                        writes[t].iter().any(|w| (w.0 == r.0 && w.1 > r.1) || leads(program, r.0, w.0))
                    });
        }
        u
    }
}

/// Whether a run can come from one block to the start of the other.
fn leads(program: &Program, from: BlockId, to: BlockId) -> bool {
    let mut seen = vec![false; program.blocks.len()];
    let mut work = successors(program, from);
    while let Some(b) = work.pop() {
        if b == to {
            return true;
        }
        if !std::mem::replace(&mut seen[b.0 as usize], true) {
            work.extend(successors(program, b));
        }
    }
    false
}

/// The blocks that a packet may go to from a block.
pub fn successors(program: &Program, b: BlockId) -> Vec<BlockId> {
    match &program.block(b).end {
        End::Enter { block, .. } => vec![*block],
        end => end.targets().iter().map(|t| t.block).collect(),
    }
}

/// The blocks that a packet may come to from these.
pub fn reached(program: &Program, from: &[BlockId]) -> Vec<bool> {
    let mut seen = vec![false; program.blocks.len()];
    let mut work = from.to_vec();
    while let Some(b) = work.pop() {
        if !std::mem::replace(&mut seen[b.0 as usize], true) {
            work.extend(successors(program, b));
        }
    }
    seen
}
