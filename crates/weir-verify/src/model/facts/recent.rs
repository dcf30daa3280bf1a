//! What was last found of expressions. A question is asked several times until more becomes known: whether it is settled, and
//! then on each side what follows for its operands.

use std::cell::{Cell, RefCell};

use crate::model::expr::Expr;
use crate::model::set::Set;

/// Expressions that are remembered: those with the same last bits of their number take turns.
const SLOTS: usize = 32;

/// How many of the states of knowledge before a path still knows.
const BEFORE: usize = 6;

/// The number of a state of knowledge: paths of one number know the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Version {
    now: u64,
    /// What was known before, the latest first, and the lowest expression of which more became known since. Operands have
    /// lower numbers than what is made of them: what was found of lower ones still holds.
    before: [(u64, u32); BEFORE],
}

/// The sets of expressions as they were last found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recent {
    last: Cell<u64>,
    slots: RefCell<Vec<Option<Kept>>>,
}

#[derive(Debug, Clone)]
struct Kept {
    e: Expr,
    version: u64,
    /// How deep operands were looked into.
    depth: u32,
    set: Set,
}

impl Version {
    /// Whether what was found of an expression by another version is so by this one.
    fn keeps(&self, version: u64, e: Expr) -> bool {
        self.now == version || self.before.iter().any(|&(before, from)| before == version && e.0 < from)
    }
}

impl Recent {
    /// More is known of an expression.
    pub(super) fn learned(&self, version: &mut Version, of: Expr) {
        version.before.rotate_right(1);
        version.before[0] = (version.now, u32::MAX);
        version.before.iter_mut().for_each(|(_, from)| *from = of.0.min(*from));
        self.last.set(self.last.get() + 1);
        version.now = self.last.get();
    }

    /// The set of an expression, if it was found by as much as is known now, and operands were looked into as deep.
    pub(super) fn get(&self, version: &Version, e: Expr, depth: u32) -> Option<Set> {
        let slots = self.slots.borrow();
        let found = slots.get(e.0 as usize % SLOTS)?.as_ref()?;
        (found.e == e && found.depth >= depth && version.keeps(found.version, e)).then(|| found.set.clone())
    }

    pub(super) fn put(&self, version: &Version, e: Expr, depth: u32, set: &Set) {
        let mut slots = self.slots.borrow_mut();
        if slots.is_empty() {
            slots.resize(SLOTS, None);
        }
        slots[e.0 as usize % SLOTS] = Some(Kept { e, version: version.now, depth, set: set.clone() });
    }
}
