//! Dead code: values that nothing needs, parameters that say nothing new, blocks that nothing reaches. Numbers
//! blocks and values anew, without gaps.

use crate::program::{Block, BlockId, End, Op, Program, Target, Value};

use super::rename::Rename;
use crate::flow::index;

/// Removes dead code. Tables and events stay.
pub(super) fn run(p: &mut Program) {
    blocks(p);
    same_arguments(p);
    values(p);
}

/// Visits all jumps of a block, those that start another packet included, with the number of arguments supplied.
fn jumps<'a>(block: &'a Block, mut f: impl FnMut(usize, &'a Target)) {
    for op in &block.ops {
        if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
            f(0, target);
        }
    }
    block.end.visit_targets(f);
}

/// As [`jumps`], to change.
pub(super) fn jumps_mut(block: &mut Block, mut f: impl FnMut(usize, &mut Target)) {
    for op in &mut block.ops {
        if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
            f(0, target);
        }
    }
    block.end.visit_targets_mut(f);
}

/// Removes blocks that nothing reaches. The order stays, so jumps go forward as before.
pub(super) fn blocks(p: &mut Program) {
    let mut reached = vec![false; p.blocks.len()];
    let mut work: Vec<BlockId> = p.entries.iter().map(|e| e.block).collect();
    while let Some(b) = work.pop() {
        if std::mem::replace(&mut reached[index(b)], true) {
            continue;
        }
        jumps(p.block(b), |_, t| work.push(t.block));
        if let End::Enter { block, .. } = p.block(b).end {
            work.push(block);
        }
    }
    if reached.iter().all(|&r| r) {
        return;
    }
    let mut next = 0;
    let number: Vec<BlockId> = reached
        .iter()
        .map(|&r| {
            next += u32::from(r);
            BlockId(next.saturating_sub(1))
        })
        .collect();
    let mut old = 0;
    p.blocks.retain(|_| {
        old += 1;
        reached[old - 1]
    });
    for block in &mut p.blocks {
        jumps_mut(block, |_, t| t.block = number[index(t.block)]);
        if let End::Enter { block, .. } = &mut block.end {
            *block = number[index(*block)];
        }
    }
    p.entries.iter_mut().for_each(|e| e.block = number[index(e.block)]);
}

/// For each block how many of its first parameters have to stay: those of entries and those that an end supplies.
fn fixed_params(p: &Program) -> Vec<usize> {
    let mut fixed = vec![0; p.blocks.len()];
    for block in &p.blocks {
        jumps(block, |supplied, t| {
            let f = &mut fixed[index(t.block)];
            *f = supplied.max(*f);
        });
    }
    for e in &p.entries {
        fixed[index(e.block)] = usize::MAX;
    }
    fixed
}

/// Removes the parameters of blocks for which `drop` says so, and their arguments.
fn drop_params(p: &mut Program, drop: &[Vec<bool>]) {
    if !drop.iter().flatten().any(|&gone| gone) {
        return;
    }
    for block in &mut p.blocks {
        jumps_mut(block, |supplied, t| {
            let mut i = supplied;
            let gone = &drop[index(t.block)];
            t.args.retain(|_| {
                i += 1;
                !gone.get(i - 1).copied().unwrap_or(false)
            });
        });
    }
    for (block, gone) in p.blocks.iter_mut().zip(drop) {
        let mut i = 0;
        block.params.retain(|_| {
            i += 1;
            !gone.get(i - 1).copied().unwrap_or(false)
        });
    }
}

/// A parameter that gets the same value on all paths is that value.
fn same_arguments(p: &mut Program) {
    let mut fixed = fixed_params(p);
    // Values do not live on into another packet's run.
    for block in &p.blocks {
        for op in &block.ops {
            if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
                fixed[index(target.block)] = usize::MAX;
            }
        }
    }
    // What each parameter gets: nothing yet, one value, or several.
    #[derive(Clone, Copy, PartialEq)]
    enum Gets {
        Nothing,
        One(Value),
        Several,
    }
    let mut gets: Vec<Vec<Gets>> = p.blocks.iter().map(|b| vec![Gets::Nothing; b.params.len()]).collect();
    for block in &p.blocks {
        block.end.visit_targets(|supplied, t| {
            let params = p.block(t.block).params.iter().skip(supplied);
            let slots = gets[index(t.block)].iter_mut().skip(supplied);
            for ((arg, param), slot) in t.args.iter().zip(params).zip(slots) {
                if arg != param {
                    *slot = match *slot {
                        Gets::Nothing => Gets::One(*arg),
                        Gets::One(v) if v == *arg => Gets::One(v),
                        _ => Gets::Several,
                    };
                }
            }
        });
    }
    let mut rename = Rename::new(p);
    let mut drop: Vec<Vec<bool>> = Vec::new();
    for (b, block) in p.blocks.iter().enumerate() {
        drop.push(vec![false; block.params.len()]);
        for (i, param) in block.params.iter().enumerate() {
            if i >= fixed[b]
                && let Gets::One(v) = gets[b][i]
                && rename.of(v) != *param
            {
                rename.set(*param, v);
                drop[b][i] = true;
            }
        }
    }
    rename.apply(p);
    drop_params(p, &drop);
}

/// The definition of a value.
#[derive(Clone, Copy)]
enum Def {
    Nowhere,
    /// A block, and the number of the operation in it.
    Op(u32, u32),
    /// The last of the arguments.
    Param(Option<u32>),
}

/// Removes operations and parameters whose values nothing needs, and numbers the others in the order of their
/// definitions.
fn values(p: &mut Program) {
    let mut defs = vec![Def::Nowhere; p.types.len()];
    // Arguments, each with the one before it for the same parameter.
    let mut args: Vec<(Value, Option<u32>)> = Vec::new();
    let mut work: Vec<Value> = Vec::new();
    for (b, block) in p.blocks.iter().enumerate() {
        for v in &block.params {
            defs[v.0 as usize] = Def::Param(None);
        }
        for (i, op) in block.ops.iter().enumerate() {
            if let Some(v) = op.dst() {
                defs[v.0 as usize] = Def::Op(b as u32, i as u32);
            }
            match op {
                Op::Fork { .. } => {}
                Op::Release { entry, .. } => work.push(*entry),
                op if op.has_effect() => op.visit_values(|v, def| {
                    if !def {
                        work.push(*v);
                    }
                }),
                _ => {}
            }
        }
        block.end.visit_own_values(|v| work.push(*v));
    }
    for block in &p.blocks {
        jumps(block, |supplied, t| {
            for (arg, param) in t.args.iter().zip(p.block(t.block).params.iter().skip(supplied)) {
                if let Def::Param(last) = &mut defs[param.0 as usize] {
                    args.push((*arg, last.replace(args.len() as u32)));
                }
            }
        });
    }
    let fixed = fixed_params(p);
    for (b, block) in p.blocks.iter().enumerate() {
        work.extend(block.params.iter().take(fixed[b]));
    }
    let mut needed = vec![false; p.types.len()];
    while let Some(v) = work.pop() {
        if std::mem::replace(&mut needed[v.0 as usize], true) {
            continue;
        }
        match defs[v.0 as usize] {
            Def::Op(b, i) => p.blocks[b as usize].ops[i as usize].visit_values(|v, def| {
                if !def && !needed[v.0 as usize] {
                    work.push(*v);
                }
            }),
            Def::Param(mut at) => {
                while let Some(arg) = at {
                    work.push(args[arg as usize].0);
                    at = args[arg as usize].1;
                }
            }
            Def::Nowhere => {}
        }
    }
    let drop: Vec<Vec<bool>> =
        p.blocks.iter().map(|b| b.params.iter().map(|v| !needed[v.0 as usize]).collect()).collect();
    drop_params(p, &drop);
    renumber(p, &needed);
}

/// Gives the values that are needed new numbers, in the order of their definitions, and removes the operations that
/// make others. Jumps go forward, so definitions stand before uses.
fn renumber(p: &mut Program, needed: &[bool]) {
    let mut number: Vec<Option<Value>> = vec![None; p.types.len()];
    let mut types = Vec::with_capacity(p.types.len());
    let mut blocks = std::mem::take(&mut p.blocks);
    for block in &mut blocks {
        let mut change = |v: &mut Value, def: bool| {
            if def {
                number[v.0 as usize] = Some(Value(types.len() as u32));
                types.push(p.ty(*v));
            }
            if let Some(n) = number[v.0 as usize] {
                *v = n;
            }
        };
        block.params.iter_mut().for_each(|v| change(v, true));
        block.ops.retain_mut(|op| {
            let stays = op.dst().is_none_or(|v| needed[v.0 as usize]) || op.has_effect();
            if stays {
                op.visit_values_mut(&mut change);
            }
            stays
        });
        block.end.visit_values_mut(|v| change(v, false));
    }
    (p.blocks, p.types) = (blocks, types);
}
