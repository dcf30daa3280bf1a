//! Paths to end that stand more than once become one: blocks of one element with the same operations and the same end
//! that leads nowhere else.

use std::collections::HashMap;

use crate::flow::index;
use crate::program::{Block, BlockId, Op, Program, Type, Value};

/// Merges equal last blocks.
pub(super) fn run(p: &mut Program) {
    // The last of them stays, so that jumps go forward.
    let mut kept: HashMap<(Block, Vec<Type>), BlockId> = HashMap::new();
    let mut instead: Vec<BlockId> = (0..p.blocks.len() as u32).map(BlockId).collect();
    for (b, block) in p.blocks.iter().enumerate().rev() {
        let starts = |op: &Op| matches!(op, Op::Fork { .. } | Op::Release { .. });
        if block.end.targets().is_empty() && block.params.is_empty() && !block.ops.iter().any(starts) {
            instead[b] = *kept.entry(common(p, block)).or_insert(BlockId(b as u32));
        }
    }
    for block in &mut p.blocks {
        block.end.targets_mut().into_iter().for_each(|t| t.block = instead[index(t.block)]);
    }
}

/// The block with its own values numbered from the largest number down, and their types. Nothing else uses them, as
/// no path leads out of the block.
fn common(p: &Program, block: &Block) -> (Block, Vec<Type>) {
    let mut block = block.clone();
    let mut own: HashMap<Value, Value> = HashMap::new();
    let mut types = Vec::new();
    for op in &mut block.ops {
        op.visit_values_mut(|v, def| {
            if def {
                types.push(p.ty(*v));
                own.insert(*v, Value(u32::MAX - types.len() as u32));
            }
            *v = own.get(v).copied().unwrap_or(*v);
        });
    }
    block.end.visit_values_mut(|v| *v = own.get(v).copied().unwrap_or(*v));
    (block, types)
}
