//! Replacing values by others that are equal.

use crate::program::{Program, Value};

/// Which value stands for which.
pub(super) struct Rename {
    to: Vec<u32>,
    /// Whether any value stands for another.
    any: bool,
}

impl Rename {
    /// Each value stands for itself.
    pub fn new(p: &Program) -> Rename {
        Rename { to: (0..p.types.len() as u32).collect(), any: false }
    }

    /// The value that stands for `v`. Values made since [`new`](Rename::new) stand for themselves.
    pub fn of(&mut self, v: Value) -> Value {
        let mut at = v.0;
        while let Some(&next) = self.to.get(at as usize) {
            if next == at {
                break;
            }
            if let Some(&after) = self.to.get(next as usize) {
                self.to[at as usize] = after;
            }
            at = next;
        }
        Value(at)
    }

    /// Lets `to` stand for `v`.
    pub fn set(&mut self, v: Value, to: Value) {
        let (v, to) = (self.of(v), self.of(to));
        if v != to
            && let Some(slot) = self.to.get_mut(v.0 as usize)
        {
            *slot = to.0;
            self.any = true;
        }
    }

    /// Renames all uses in the program.
    pub fn apply(mut self, p: &mut Program) {
        if !self.any {
            return;
        }
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
