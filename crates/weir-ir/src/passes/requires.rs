//! Removes a `require` of bytes that are known to be there, or that the next one asks for too, and a mark's change to
//! the place where it is.

use crate::check::is_within_bounds;
use crate::facts::{Facts, Known, facts_by};
use crate::flow::{Flow, index};
use crate::program::{Block, BlockId, End, Op, Program};

use super::dead;
use super::positions::places;

/// Removes what is required already.
///
/// All stay where that would leave bounds unproved, which happens in two cases. What is known in loops is found by
/// approximation, which may end elsewhere when a `require` is gone. And behind a `require` that no packet meets, what is
/// known is contradictory, and another `require` may add to it although it asks for what is there.
pub(super) fn run(p: &mut Program) {
    let flow = Flow::of(p);
    let known = facts_by(p, &flow);
    let goes_back = |b: &Block| b.loop_limit.is_some() || matches!(b.end, End::Enter { back: true, .. });
    let before = (known.is_contradictory() || p.blocks.iter().any(goes_back)).then(|| p.clone());
    if remove(p, &flow, &known)
        && let Some(before) = before
        && !is_within_bounds(p)
    {
        *p = before;
    }
}

/// Returns whether there was anything to remove.
fn remove(p: &mut Program, flow: &Flow, known: &Known) -> bool {
    let mut removed = false;
    let at = places(p, flow);
    // The facts before the end of each block with a `require` that stays.
    let mut open: Vec<Option<Facts>> = vec![None; p.blocks.len()];
    for (b, block) in p.blocks.iter_mut().enumerate() {
        let id = BlockId(b as u32);
        let Some(mut here) = known.at(id).cloned() else { continue };
        let mut places = at[b];
        let mut i = 0;
        block.ops.retain(|op| {
            let before = places;
            places.after(op, b, i);
            i += 1;
            if !matches!(op, Op::SetMark { .. }) || before != places {
                known.step(&mut here, id, op);
                return true;
            }
            let mut after = here.clone();
            known.step(&mut after, id, op);
            // The facts that the operation gives must be known without it.
            let same = here.implies(&after);
            if !same {
                here = after;
            }
            removed |= same;
            !same
        });
        let End::Require { layer, n, ok, .. } = &block.end else { continue };
        if known.covered(&here, id, *layer, *n) && here.implies(&known.edge(&here, id, &block.end, 0)) {
            block.end = End::Jump(ok.clone());
            removed = true;
        } else {
            open[b] = Some(here);
        }
    }
    // A `require` whose ok path asks for no less, and does the same if that is not there. The second one stays then.
    for b in 0..p.blocks.len() {
        let (id, Some(here)) = (BlockId(b as u32), &open[b]) else { continue };
        let End::Require { ok, fail, .. } = &p.blocks[b].end else { continue };
        let next = p.block(ok.block);
        if !next.ops.is_empty() || next.owner != p.blocks[b].owner || open[index(ok.block)].is_none() {
            continue;
        }
        let End::Require { fail: next_fail, .. } = &next.end else { continue };
        let after = |facts: &Facts| known.edge(facts, ok.block, &next.end, 0);
        let both = after(&known.edge(here, id, &p.blocks[b].end, 0));
        if next.params.is_empty() && fail == next_fail && after(here).implies(&both) {
            let ok = ok.clone();
            open[index(ok.block)] = None;
            p.blocks[b].end = End::Jump(ok);
            removed = true;
        }
    }
    if removed {
        dead::blocks(p);
    }
    removed
}
