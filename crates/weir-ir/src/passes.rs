//! The passes: each takes a checked program and gives one that means the same, is accepted by
//! [`check`](crate::check()), and does less.
//!
//! What stays exactly as it was: the packets that leave and their bytes, marks, annotations and metadata (by a
//! [plain exit](Program::plain_exits), what is read there); drops with the element they happen in; events; tables; and the
//! order in which a packet visits elements. A block therefore never swallows one of another element, and a jump may lead
//! from one element to another.

mod conditions;
mod cse;
mod dead;
mod fold;
mod forward;
mod inline;
mod layers;
mod paths;
mod positions;
mod rename;
mod requires;
mod sink;
mod stores;
mod sums;
mod tails;

use crate::check::is_within_bounds;
use crate::program::{Entry, Program};

/// A pass: a name for `weir ir`, and what it does.
pub type Pass = (&'static str, fn(&mut Program));

/// The passes in the order in which [`optimize`] runs them. A name stands twice where a later pass makes new work
/// for an earlier one: no more often than graphs of elements gain by it, as what they take is part of the time to machine
/// code.
pub const PASSES: &[Pass] = &[
    ("inline", inline::run),
    ("fold", fold::run),
    ("cse", cse::run),
    ("layers", layers::run),
    ("requires", requires::run),
    ("conditions", conditions::run),
    ("paths", paths::run),
    ("forward", forward::run),
    ("fold", fold::run),
    ("cse", cse::run),
    ("conditions", conditions::run),
    ("stores", stores::run),
    ("tails", tails::run),
    ("requires", requires::run),
    ("inline", inline::run),
    ("dead", dead::run),
    ("sink", sink::run),
];

/// Runs all passes over a checked program.
///
/// Bounds are proved by approximation. Should a pass have led to a program whose bounds are true but not proved,
/// the program as it was comes back: a compiler relies on the proof.
pub fn optimize(program: Program) -> Program {
    let mut best = program.clone();
    for (_, pass) in PASSES {
        pass(&mut best);
    }
    if is_within_bounds(&best) { best } else { program }
}

/// The program after each pass, with the pass's name; first the program itself (`input`).
pub fn stages(program: Program) -> Vec<(&'static str, Program)> {
    let mut all = vec![("input", program)];
    for (name, pass) in PASSES {
        let mut next = all[all.len() - 1].1.clone();
        pass(&mut next);
        all.push((name, next));
    }
    all
}

/// Removes entries that nothing outside the graph uses. A linked program has an entry for each input of each
/// element; nothing can be known at a block where packets may start, so the passes join elements only over inputs
/// whose entry was given up.
pub fn retain_entries(program: &mut Program, keep: impl FnMut(&Entry) -> bool) {
    program.entries.retain(keep);
    dead::run(program);
}
