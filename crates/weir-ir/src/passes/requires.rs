//! Removes a `require` of bytes that are known to be there, and a mark's change to the place where it is.

use crate::facts::facts;
use crate::program::{End, Op, Program};

use super::dead;
use super::positions::places;
use crate::flow::Flow;

/// Removes what is required already.
pub(super) fn run(p: &mut Program) {
    let known = facts(p);
    let at = places(p, &Flow::of(p));
    for (b, block) in p.blocks.iter_mut().enumerate() {
        let Some(mut here) = known[b].clone() else { continue };
        let mut places = at[b];
        let mut i = 0;
        block.ops.retain(|op| {
            let (before, mut after) = (places, here.clone());
            places.after(op, b, i);
            after.after(op);
            i += 1;
            // The facts that the operation gives must be known without it.
            let mut common = here.clone();
            common.meet(&after);
            let same = matches!(op, Op::SetMark { .. }) && before == places && common == after;
            if !same {
                here = after;
            }
            !same
        });
        if let End::Require { layer, n, ok, .. } = &block.end
            && here.covered(*layer, *n)
        {
            block.end = End::Jump(ok.clone());
        }
    }
    dead::blocks(p);
}
