//! What a program does with its values and with the rows of its tables.

use weir_ir::program::{End, Op, Program, Type};
use weir_table::Kind;

/// For each value how often an operation reads or writes a row by it.
pub(crate) fn row_uses(p: &Program) -> Vec<u32> {
    let mut uses = vec![0; p.types.len()];
    for op in p.blocks.iter().flat_map(|b| &b.ops) {
        if let Op::Get { entry, .. } | Op::Set { entry, .. } | Op::Touch { entry, .. } = op {
            uses[entry.0 as usize] += 1;
        }
    }
    uses
}

/// For each value whether it is what a comparison finds.
pub(crate) fn compared(p: &Program) -> Vec<bool> {
    let mut compared = vec![false; p.types.len()];
    for op in p.blocks.iter().flat_map(|b| &b.ops) {
        if let Op::Compare { dst, .. } = op {
            compared[dst.0 as usize] = true;
        }
    }
    compared
}

/// For each table whether programs remove entries. Who removes an entry removes the one it is linked to.
pub(crate) fn removes(p: &Program) -> Vec<bool> {
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
pub(crate) fn written(p: &Program) -> Vec<bool> {
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
