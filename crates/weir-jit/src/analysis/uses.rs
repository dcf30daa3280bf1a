//! What a program does with its values and with the rows of its tables.

use weir_ir::program::{BlockId, End, Op, Program, TableId, Target, Type};
use weir_table::{Kind, Layout};

use crate::analysis::starts::exceptions;

/// Facts of a whole program that the translation of each of its functions needs.
#[derive(Debug)]
pub(crate) struct Uses {
    /// For each table where its rows have what.
    pub layouts: Vec<Layout>,
    /// For each value how often an operation reads or writes a row by it.
    pub rows: Vec<u32>,
    /// For each block whether it is for exceptions.
    pub exceptions: Vec<bool>,
    /// For each value whether it is what a comparison finds.
    pub compared: Vec<bool>,
    /// For each table whether an entry may be gone when it is used.
    pub removes: Vec<bool>,
    /// For each table whether programs write its rows.
    pub written: Vec<bool>,
    /// For each header of a loop that goes round the number of its counter.
    pub loops: Vec<Option<u32>>,
}

impl Uses {
    pub fn of(p: &Program) -> Uses {
        Uses {
            layouts: p.tables.iter().map(|t| Layout::of(&t.decl)).collect(),
            rows: row_uses(p),
            exceptions: exceptions(p),
            compared: compared(p),
            removes: removes(p),
            written: written(p),
            loops: loops(p),
        }
    }

    /// Where the rows of a table have what.
    pub fn layout(&self, table: TableId) -> &Layout {
        &self.layouts[table.0 as usize]
    }
}

/// Some headers only gather paths that leave a loop of one round.
fn loops(p: &Program) -> Vec<Option<u32>> {
    let mut is_header = vec![false; p.blocks.len()];
    for block in &p.blocks {
        if let End::Again { header: Target { block: BlockId(header), .. }, .. } = block.end {
            is_header[header as usize] = true;
        }
    }
    let mut number = 0..;
    is_header.into_iter().map(|is| is.then(|| number.next())?).collect()
}

/// For each value how often an operation reads or writes a row by it.
fn row_uses(p: &Program) -> Vec<u32> {
    let mut uses = vec![0; p.types.len()];
    for op in p.blocks.iter().flat_map(|b| &b.ops) {
        if let Op::Get { entry, .. } | Op::Set { entry, .. } | Op::Touch { entry, .. } = op {
            uses[entry.0 as usize] += 1;
        }
    }
    uses
}

/// For each value whether it is what a comparison finds.
fn compared(p: &Program) -> Vec<bool> {
    let mut compared = vec![false; p.types.len()];
    for op in p.blocks.iter().flat_map(|b| &b.ops) {
        if let Op::Compare { dst, .. } = op {
            compared[dst.0 as usize] = true;
        }
    }
    compared
}

/// For each table whether programs remove entries. Who removes an entry removes the one it is linked to.
fn removes(p: &Program) -> Vec<bool> {
    let mut removed = vec![false; p.tables.len()];
    let ops = || p.blocks.iter().flat_map(|b| &b.ops);
    if ops().any(|op| matches!(op, Op::Remove { .. })) {
        for op in ops() {
            if let Op::Remove { entry: a } | Op::Link { a, .. } = op
                && let Type::Entry(t) = p.ty(*a)
            {
                removed[t.0 as usize] = true;
            }
            if let Op::Link { b, .. } = op
                && let Type::Entry(t) = p.ty(*b)
            {
                removed[t.0 as usize] = true;
            }
        }
    }
    removed
}

/// For each table whether programs write its rows.
fn written(p: &Program) -> Vec<bool> {
    // The rows of others come and go.
    let mut written: Vec<bool> = p.tables.iter().map(|t| t.decl.kind != Kind::Array).collect();
    for block in &p.blocks {
        let ops = block.ops.iter().filter_map(|op| match op {
            Op::Set { entry, .. } | Op::Touch { entry, .. } | Op::Remove { entry } => Some(*entry),
            _ => None,
        });
        let end = match block.end {
            End::Meter { entry, .. } | End::Hold { entry, .. } => Some(entry),
            _ => None,
        };
        for entry in ops.chain(end) {
            if let Type::Entry(t) = p.ty(entry) {
                written[t.0 as usize] = true;
            }
        }
    }
    written
}
