//! What a branch decided is known on its paths: repeated conditions, comparisons that a range decides, and cases that
//! cannot be are removed.

use crate::flow::{Flow, Step};
use crate::program::{End, Op, Program};
use crate::ranges::{Range, Walk};

use super::dead;

/// Removes choices that are made already.
pub(super) fn run(p: &mut Program) {
    let flow = Flow::of(p);
    let mut walk = Walk::new(p);
    let mut decided: Vec<(usize, End)> = Vec::new();
    for step in flow.walk() {
        let Step::Enter(b) = step else {
            walk.leave();
            continue;
        };
        walk.enter(p, &flow, b);
        let mut ops = std::mem::take(&mut p.blocks[b].ops);
        for op in &mut ops {
            walk.define(p, op);
            if let Some(dst) = op.dst()
                && !op.has_effect()
                && let Range { lo, hi } = walk.range(dst)
                && lo == hi
            {
                *op = Op::Const { dst, value: lo };
            }
        }
        p.blocks[b].ops = ops;
        // The ends stay as they are until the walk is over: paths are counted by their place in the end.
        let mut end = p.blocks[b].end.clone();
        if decide(&walk, &mut end) {
            decided.push((b, end));
        }
    }
    if decided.is_empty() {
        return;
    }
    for (b, end) in decided {
        p.blocks[b].end = end;
    }
    dead::run(p);
}

/// Leaves out the paths that cannot be taken. Returns whether there were any.
fn decide(walk: &Walk, end: &mut End) -> bool {
    match end {
        End::Branch { cond, then, other } => match walk.range(*cond) {
            Range { lo: 1, .. } => *end = End::Jump(then.clone()),
            Range { hi: 0, .. } => *end = End::Jump(other.clone()),
            _ => return false,
        },
        End::Switch { value, cases, default } => {
            let range = walk.range(*value);
            let before = cases.len();
            cases.retain(|(c, _)| (range.lo..=range.hi).contains(c));
            if range.lo == range.hi
                && let Some((_, t)) = cases.first()
            {
                *end = End::Jump(t.clone());
            } else if cases.is_empty() {
                *end = End::Jump(default.clone());
            } else {
                return cases.len() != before;
            }
        }
        _ => return false,
    }
    true
}
