//! Sinking: what is read of the packet for later blocks only is read there, if nothing changes it on the path. Other paths do
//! without, nothing keeps the value in between, and what is read side by side is read at once.

use crate::flow::Flow;
use crate::program::{End, Op, Program, Value};

/// Sinks loads.
pub(super) fn run(p: &mut Program) {
    let far = loads_for_other_blocks(p);
    if far.is_empty() {
        return;
    }
    let flow = Flow::of(p);
    // From the last on: what is moved comes before nothing that is still to be moved, as it goes to a later block, and the
    // loads of a block keep their order.
    for load in far.iter().rev() {
        if load.users.iter().any(|&b| !flow.reached(b)) {
            continue;
        }
        let Some(to) = load.users.iter().copied().reduce(|a, b| flow.common_dominator(a, b)) else {
            continue;
        };
        if to != load.block && is_kept(p, &flow, load, to) {
            let op = p.blocks[load.block].ops.remove(load.at);
            p.blocks[to].ops.insert(0, op);
        }
    }
}

/// A load whose value its own block does not use.
struct Far {
    block: usize,
    at: usize,
    /// The blocks that use the value.
    users: Vec<usize>,
}

fn loads_for_other_blocks(p: &Program) -> Vec<Far> {
    let mut load_of: Vec<Option<usize>> = vec![None; p.types.len()];
    let mut loads: Vec<Far> = Vec::new();
    for (b, block) in p.blocks.iter().enumerate() {
        for (at, op) in block.ops.iter().enumerate() {
            if let Op::Load { dst, .. } = op {
                load_of[dst.0 as usize] = Some(loads.len());
                loads.push(Far { block: b, at, users: Vec::new() });
            }
        }
    }
    for (b, block) in p.blocks.iter().enumerate() {
        let mut uses = |v: Value| {
            if let Some(load) = load_of[v.0 as usize].map(|i| &mut loads[i])
                && load.users.last() != Some(&b)
            {
                load.users.push(b);
            }
        };
        block.ops.iter().for_each(|op| {
            op.visit_values(|v, def| {
                if !def {
                    uses(*v);
                }
            });
        });
        block.end.visit_values(|v| uses(*v));
    }
    loads.retain(|load| !load.users.is_empty() && !load.users.contains(&load.block));
    loads
}

/// Whether what is loaded stays, and stays where it is, on all paths from the load to another block, which come by once.
fn is_kept(p: &Program, flow: &Flow, load: &Far, to: usize) -> bool {
    let home = &p.blocks[load.block];
    let Op::Load { layer, .. } = home.ops[load.at] else { return false };
    let keeps = |op: &Op| match op {
        Op::SetMark { layer: moved, .. } => *moved != layer,
        Op::StoreAnno { .. } | Op::Set { .. } | Op::Touch { .. } => true,
        op => op.dst().is_some(),
    };
    let goes_on = |end: &End| {
        matches!(
            end,
            End::Jump(_) | End::Branch { .. } | End::Switch { .. } | End::Require { .. } | End::Lookup { .. }
        )
    };
    if !home.ops[load.at..].iter().all(keeps) || !goes_on(&home.end) {
        return false;
    }
    let mut seen = vec![to];
    let mut next = 0;
    while let Some(&b) = seen.get(next) {
        next += 1;
        if !flow.back[b].is_empty() {
            return false;
        }
        for from in flow.preds[b].iter().map(|e| e.from).filter(|&from| from != load.block) {
            let block = &p.blocks[from];
            if !block.ops.iter().all(keeps) || !goes_on(&block.end) {
                return false;
            }
            if !seen.contains(&from) {
                seen.push(from);
            }
        }
    }
    true
}
