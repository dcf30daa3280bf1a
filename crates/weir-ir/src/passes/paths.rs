//! A path that brings constants to where it meets others goes on by itself, as far as nothing but values follows: what the
//! constants decide is decided then. So the usual frames pass by what a filter asks of short ones.

use std::collections::HashMap;

use crate::flow::{Flow, index};
use crate::program::{Block, BlockId, End, Op, Program, Target, Value};

use super::dead;

/// Most blocks, and operations in them, that are made anew for a path.
const MOST_BLOCKS: usize = 4;
const MOST_OPS: usize = 24;

/// A path: the block that it comes from, and the blocks that it gets for itself. The first of them is where it met others.
struct Path {
    from: usize,
    blocks: Vec<usize>,
}

/// Parts paths.
pub(super) fn run(p: &mut Program) {
    let constant = constants(p);
    let brings = |t: &Target| t.args.iter().any(|v| constant[v.0 as usize]);
    let jumps = |b: &Block| matches!(&b.end, End::Jump(t) if brings(t));
    if !p.blocks.iter().any(jumps) {
        return;
    }
    let flow = Flow::of(p);
    let users = users(p);
    let mut taken = vec![false; p.blocks.len()];
    let mut paths: Vec<Path> = Vec::new();
    for from in 0..p.blocks.len() {
        let End::Jump(t) = &p.blocks[from].end else { continue };
        let at = index(t.block);
        if !brings(t) || taken[from] || flow.preds[at].len() < 2 {
            continue;
        }
        let given = p.blocks[at].params.iter().zip(&t.args).filter(|(_, arg)| constant[arg.0 as usize]);
        if !given.into_iter().any(|(param, _)| users[param.0 as usize].contains(&at)) {
            continue;
        }
        // Others may use them still: each block is made anew for one path at most.
        if let Some(blocks) = alone(p, &flow, &users, at)
            && !blocks.iter().any(|&b| taken[b])
        {
            blocks.iter().chain([&from]).for_each(|&b| taken[b] = true);
            paths.push(Path { from, blocks });
        }
    }
    if !paths.is_empty() {
        part(p, paths);
    }
}

fn constants(p: &Program) -> Vec<bool> {
    let mut constant = vec![false; p.types.len()];
    for op in p.blocks.iter().flat_map(|b| &b.ops) {
        if let Op::Const { dst, .. } = op {
            constant[dst.0 as usize] = true;
        }
    }
    constant
}

/// For each value the blocks that use it, each perhaps several times.
fn users(p: &Program) -> Vec<Vec<usize>> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); p.types.len()];
    for (b, block) in p.blocks.iter().enumerate() {
        let mut add = |v: Value| {
            let of = &mut users[v.0 as usize];
            if of.last() != Some(&b) {
                of.push(b);
            }
        };
        for op in &block.ops {
            op.visit_values(|v, def| {
                if !def {
                    add(*v);
                }
            });
        }
        block.end.visit_values(|v| add(*v));
    }
    users
}

/// The blocks that have to be made anew for a path of its own into the block `at`: this, and all that use values from
/// there. `None` if that cannot be, or is too much.
fn alone(p: &Program, flow: &Flow, users: &[Vec<usize>], at: usize) -> Option<Vec<usize>> {
    let mut blocks = vec![at];
    let (mut next, mut ops) = (0, 0);
    while let Some(&b) = blocks.get(next) {
        next += 1;
        let block = &p.blocks[b];
        ops += block.ops.len();
        let only_chooses =
            matches!(block.end, End::Jump(_) | End::Branch { .. } | End::Switch { .. } | End::Require { .. });
        let is_start = flow.root[b] || block.loop_limit.is_some() || !flow.back[b].is_empty();
        if !only_chooses || is_start || block.ops.iter().any(Op::has_effect) {
            return None;
        }
        for v in block.params.iter().copied().chain(block.ops.iter().filter_map(Op::dst)) {
            for &user in &users[v.0 as usize] {
                if !blocks.contains(&user) {
                    blocks.push(user);
                }
            }
        }
        if blocks.len() > MOST_BLOCKS || ops > MOST_OPS {
            return None;
        }
    }
    blocks.sort_unstable();
    // To the others, only those lead.
    let closed = |&b: &usize| flow.preds[b].iter().all(|e| blocks.contains(&e.from));
    (blocks[0] == at && blocks[1..].iter().all(closed)).then_some(blocks)
}

/// Makes the blocks of the paths. Each stands before the one that it is made of, so that jumps go forward.
fn part(p: &mut Program, paths: Vec<Path>) {
    let mut number: Vec<BlockId> = Vec::with_capacity(p.blocks.len());
    let before: HashMap<usize, usize> = paths.iter().map(|w| (w.blocks[0], w.blocks.len())).collect();
    let mut made = 0;
    for b in 0..p.blocks.len() {
        made += before.get(&b).copied().unwrap_or(0);
        number.push(BlockId((b + made) as u32));
    }
    let mut copies: HashMap<usize, Vec<Block>> = HashMap::new();
    let mut first: HashMap<usize, BlockId> = HashMap::new();
    for Path { from, blocks } in paths {
        let start = BlockId(number[blocks[0]].0 - blocks.len() as u32);
        first.insert(from, start);
        let mut values: HashMap<Value, Value> = HashMap::new();
        if let End::Jump(t) = &mut p.blocks[from].end {
            let args = std::mem::take(&mut t.args);
            values.extend(p.blocks[blocks[0]].params.iter().copied().zip(args));
        }
        let mut made: Vec<Block> = blocks.iter().map(|&b| p.blocks[b].clone()).collect();
        made[0].params.clear();
        for block in &made {
            for v in block.params.iter().copied().chain(block.ops.iter().filter_map(Op::dst)) {
                values.insert(v, Value(p.types.len() as u32));
                p.types.push(p.ty(v));
            }
        }
        let rename = |v: &mut Value| *v = values.get(v).copied().unwrap_or(*v);
        for block in &mut made {
            block.params.iter_mut().for_each(rename);
            block.ops.iter_mut().for_each(|op| op.visit_values_mut(|v, _| rename(v)));
            block.end.visit_values_mut(rename);
            for t in block.end.targets_mut() {
                t.block = match blocks.binary_search(&index(t.block)) {
                    Ok(i) => BlockId(start.0 + i as u32),
                    Err(_) => number[index(t.block)],
                };
            }
        }
        copies.insert(blocks[0], made);
    }
    for (b, mut block) in std::mem::take(&mut p.blocks).into_iter().enumerate() {
        dead::jumps_mut(&mut block, |_, t| t.block = number[index(t.block)]);
        match &mut block.end {
            End::Enter { block, .. } => *block = number[index(*block)],
            End::Jump(t) => t.block = first.get(&b).copied().unwrap_or(t.block),
            _ => {}
        }
        p.blocks.extend(copies.remove(&b).unwrap_or_default());
        p.blocks.push(block);
    }
    p.entries.iter_mut().for_each(|e| e.block = number[index(e.block)]);
}
