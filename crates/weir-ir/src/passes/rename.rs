//! Replacing values by others that are equal.

use crate::program::{Program, Value};

/// Which value stands for which.
pub(super) struct Rename(Vec<u32>);

impl Rename {
    /// Each value stands for itself.
    pub fn new(p: &Program) -> Rename {
        Rename((0..p.types.len() as u32).collect())
    }

    /// The value that stands for `v`. Values made since [`new`](Rename::new) stand for themselves.
    pub fn of(&mut self, v: Value) -> Value {
        let mut at = v.0;
        while let Some(&next) = self.0.get(at as usize) {
            if next == at {
                break;
            }
            if let Some(&after) = self.0.get(next as usize) {
                self.0[at as usize] = after;
            }
            at = next;
        }
        Value(at)
    }

    /// Lets `to` stand for `v`.
    pub fn set(&mut self, v: Value, to: Value) {
        let (v, to) = (self.of(v), self.of(to));
        if v != to
            && let Some(slot) = self.0.get_mut(v.0 as usize)
        {
            *slot = to.0;
        }
    }

    /// Renames all uses in the program.
    pub fn apply(mut self, p: &mut Program) {
        for block in &mut p.blocks {
            for op in &mut block.ops {
                op.visit_values_mut(|v, def| {
                    if !def {
                        *v = self.of(*v);
                    }
                });
            }
            block.end.visit_values_mut(|v| *v = self.of(*v));
        }
    }
}
