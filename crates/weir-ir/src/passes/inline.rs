//! Joins blocks: entering the next element becomes a jump, blocks on a straight path become one, blocks that only
//! jump are passed by.
//!
//! The owner of a block says where a drop happens and what a trace shows, so only blocks of one element become one,
//! and an empty block is passed by only where the sequence of elements on the path stays the same.

use crate::program::{BlockId, End, Program, Target};

use super::dead;
use super::rename::Rename;
use crate::flow::{Flow, index};

/// Joins blocks.
pub(super) fn run(p: &mut Program) {
    for block in &mut p.blocks {
        if let End::Enter { block: next, back: false } = block.end {
            block.end = End::Jump(Target { block: next, args: Vec::new() });
        }
    }
    pass_by(p);
    dead::blocks(p);
    merge(p);
    dead::run(p);
}

/// Leads each jump past blocks that only jump on.
fn pass_by(p: &mut Program) {
    // From the last block to the first: the blocks that a jump may pass by have been led past others already.
    for b in (0..p.blocks.len()).rev() {
        let mut end = std::mem::replace(&mut p.blocks[b].end, End::Finish);
        let owner = p.blocks[b].owner;
        for t in end.targets_mut() {
            while let Some(next) = beyond(p, owner, t.block) {
                *t = next;
            }
        }
        p.blocks[b].end = simpler(end);
    }
}

/// Where a block that only jumps leads, if a block of `owner` may pass it by.
fn beyond(p: &Program, owner: u32, b: BlockId) -> Option<Target> {
    let block = p.block(b);
    match &block.end {
        End::Jump(t) if block.ops.is_empty() && block.params.is_empty() && block.loop_limit.is_none() => {
            (block.owner == owner || block.owner == p.block(t.block).owner).then(|| t.clone())
        }
        _ => None,
    }
}

/// A choice between one path and the same path is none.
fn simpler(end: End) -> End {
    match end {
        End::Branch { then, other, .. } if then == other => End::Jump(then),
        End::Require { ok, fail, .. } if ok == fail => End::Jump(ok),
        End::Switch { value, mut cases, default } => {
            // Cases that lead where all others lead; an earlier case hides a later one of the same value.
            let mut seen = std::collections::HashSet::new();
            cases.retain(|(c, _)| seen.insert(*c));
            cases.retain(|(_, t)| *t != default);
            if cases.is_empty() { End::Jump(default) } else { End::Switch { value, cases, default } }
        }
        end => end,
    }
}

fn merge(p: &mut Program) {
    let flow = Flow::of(p);
    let mut rename = Rename::new(p);
    for b in 0..p.blocks.len() {
        while let End::Jump(t) = &p.blocks[b].end {
            let next = index(t.block);
            let after = &p.blocks[next];
            // A path back must not become a path forward.
            let back = matches!(&after.end, End::Again { header, .. } if index(header.block) > b);
            if flow.only_edge(next).is_none()
                || after.owner != p.blocks[b].owner
                || after.loop_limit.is_some()
                || back
            {
                break;
            }
            for (&param, &arg) in after.params.iter().zip(&t.args) {
                rename.set(param, arg);
            }
            let after = &mut p.blocks[next];
            let ops = std::mem::take(&mut after.ops);
            let end = std::mem::replace(&mut after.end, End::Finish);
            after.params.clear();
            p.blocks[b].ops.extend(ops);
            p.blocks[b].end = end;
        }
    }
    rename.apply(p);
    dead::blocks(p);
}
