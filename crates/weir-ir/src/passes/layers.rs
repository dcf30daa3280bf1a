//! Known layer offsets: an access relative to a mark becomes one relative to the start of the packet, or to the first
//! mark that has a known distance, so that accesses to the same bytes look the same. Distances become constants.

use crate::facts::{Facts, facts};
use crate::program::{Amount, BlockId, Layer, Op, Program};

/// Rewrites accesses to a common layer.
pub(super) fn run(p: &mut Program) {
    let known = facts(p);
    for b in 0..p.blocks.len() {
        let id = BlockId(b as u32);
        let Some(mut here) = known.at(id).cloned() else { continue };
        let mut ops = std::mem::take(&mut p.blocks[b].ops);
        for op in &mut ops {
            let common = |layer: Layer, off: u32, len: u32| {
                let there = |l: Layer, off: u32| {
                    off.checked_add(len).is_some_and(|end| here.bytes(l).is_some_and(|n| n >= end))
                };
                Layer::ALL
                    .into_iter()
                    .filter_map(|l| Some((l, offset(&here, l, layer, off)?)))
                    .find(|&(l, off)| there(l, off))
                    .unwrap_or((layer, off))
            };
            match op {
                Op::Load { dst: v, layer, off } | Op::Store { layer, off, src: v } => {
                    (*layer, *off) = common(*layer, *off, p.width(*v).bytes());
                }
                Op::CopyBytes { to: a, from: b, len } | Op::CompareBytes { a, b, len, .. } => {
                    *a = common(a.0, a.1, *len);
                    *b = common(b.0, b.1, *len);
                }
                Op::Checksum { layer, start, end, .. } => {
                    if let Amount::Const(to) = *end
                        && *start < to
                    {
                        let len = to - *start;
                        (*layer, *start) = common(*layer, *start, len);
                        *end = Amount::Const(*start + len);
                    }
                }
                Op::Rest { layer, .. } => {
                    let same = |l: &Layer| here.distance(*l, *layer) == Some(0);
                    *layer = Layer::ALL.into_iter().find(same).unwrap_or(*layer);
                }
                Op::Distance { dst, from, to } => {
                    if let Some(d) = here.distance(*from, *to) {
                        *op = Op::Const { dst: *dst, value: u128::from(d as u32) };
                    }
                }
                _ => {}
            }
            known.step(&mut here, id, op);
        }
        p.blocks[b].ops = ops;
    }
}

/// The offset from `to` that is `from + off`.
fn offset(here: &Facts, to: Layer, from: Layer, off: u32) -> Option<u32> {
    if to == from {
        return Some(off);
    }
    u32::try_from(here.distance(to, from)? + i64::from(off)).ok()
}
