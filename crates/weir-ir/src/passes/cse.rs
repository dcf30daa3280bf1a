//! Common subexpressions: an operation on values that was done on every path here is not done again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::program::{BinOp, CmpOp, Op, Program, Type, Value};

use super::rename::Rename;
use crate::flow::{Flow, Step};

/// Removes repeated operations.
pub(super) fn run(p: &mut Program) {
    let flow = Flow::of(p);
    let mut rename = Rename::new(p);
    // Where each operation was done last. Operations have constants that others choose, so the hash must not be known
    // to them.
    let mut known: HashMap<(Op, Type), (usize, Value)> = HashMap::with_capacity(p.types.len());
    for step in flow.walk() {
        let Step::Enter(b) = step else { continue };
        let mut ops = std::mem::take(&mut p.blocks[b].ops);
        ops.retain_mut(|op| {
            op.visit_values_mut(|v, def| {
                if !def {
                    *v = rename.of(*v);
                }
            });
            let (Some(key), Some(dst)) = (key(op), op.dst()) else { return true };
            match known.entry((key, p.ty(dst))) {
                Entry::Occupied(same) if flow.dominates(same.get().0, b) => {
                    rename.set(dst, same.get().1);
                    false
                }
                // The walk has left the other block, and does not come back to what it dominates.
                Entry::Occupied(mut other) => {
                    other.insert((b, dst));
                    true
                }
                Entry::Vacant(new) => {
                    new.insert((b, dst));
                    true
                }
            }
        });
        p.blocks[b].ops = ops;
    }
    rename.apply(p);
}

/// What stands for all operations with the same result, if that depends on nothing but values.
fn key(op: &Op) -> Option<Op> {
    let dst = Value(u32::MAX);
    Some(match op.clone() {
        Op::Const { value, .. } => Op::Const { dst, value },
        Op::Binary { op, a, b, .. } => {
            let commutes = matches!(op, BinOp::Add | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor);
            let (a, b) = if commutes { (a.min(b), a.max(b)) } else { (a, b) };
            Op::Binary { op, dst, a, b }
        }
        Op::Compare { op, a, b, .. } => {
            let (a, b) = if matches!(op, CmpOp::Eq | CmpOp::Ne) { (a.min(b), a.max(b)) } else { (a, b) };
            Op::Compare { op, dst, a, b }
        }
        Op::Not { a, .. } => Op::Not { dst, a },
        Op::Resize { a, .. } => Op::Resize { dst, a },
        Op::Select { cond, a, b, .. } => Op::Select { dst, cond, a, b },
        Op::Sum16 { a, b, .. } => Op::Sum16 { dst, a: a.min(b), b: a.max(b) },
        Op::Hash { args, .. } => Op::Hash { dst, args },
        Op::Now { .. } => Op::Now { dst },
        Op::Index { table, index, .. } => Op::Index { dst, table, index },
        _ => return None,
    })
}
