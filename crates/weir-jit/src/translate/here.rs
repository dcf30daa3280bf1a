//! The place in the program that is being translated, and what the analyses know of it.

use weir_ir::program::{BinOp, BlockId, Op, Program, Value};
use weir_ir::{Facts, Known, Layer};

use crate::analysis::starts::{Starts, successors};
use crate::analysis::uses::Uses;
use crate::flows::CachePlan;
use crate::translate::lanes::LaneState;
use crate::translate::layers::INLINE;

/// The analyses of a program that its translation needs.
#[derive(Clone, Copy)]
pub(crate) struct Analyses<'a> {
    /// Where runs may start.
    pub starts: &'a Starts,
    /// What is used of values and tables.
    pub uses: &'a Uses,
    /// The lookups whose results are kept for each flow.
    pub flows: &'a CachePlan,
    /// What is known of the packet's bounds.
    pub bounds: &'a Known,
}

/// The place in the program that is being translated.
#[derive(Clone, Copy)]
pub(crate) struct Here<'a> {
    pub p: &'a Program,
    pub known: Analyses<'a>,
    pub block: BlockId,
    /// The number of the operation in it.
    pub op: usize,
}

impl Here<'_> {
    /// Whether few packets come to this block, which then should need nothing that others would have to keep for it.
    pub fn is_exception(&self) -> bool {
        self.known.uses.exceptions[self.block.0 as usize]
    }

    /// For each block whether nothing is known there: runs start there, or a path leads back to it. `order` has the blocks
    /// of the function.
    pub fn unknown(&self, lanes: &LaneState, order: &[BlockId]) -> Vec<bool> {
        let mut unknown: Vec<bool> = self.known.starts.numbers.iter().map(Option::is_some).collect();
        let mut number = vec![usize::MAX; unknown.len()];
        for (i, b) in order.iter().enumerate() {
            number[b.0 as usize] = i;
        }
        for (i, &b) in order.iter().enumerate() {
            for to in successors(self.p, &lanes.of, b).into_iter().filter(|to| number[to.0 as usize] <= i) {
                unknown[to.0 as usize] = true;
            }
        }
        unknown
    }

    /// Whether the layer is known to be set and not beyond the end, at the operation that is being translated.
    pub fn is_within(&self, lanes: &LaneState, layer: Layer) -> bool {
        self.is_known(lanes, self.op, |facts| facts.bytes(layer).is_some())
    }

    /// Whether `n` bytes in front of the packet are known to have been part of it, at the end of the block.
    pub fn has_headroom(&self, lanes: &LaneState, n: u32) -> bool {
        self.is_known(lanes, usize::MAX, |facts| facts.headroom() >= n)
    }

    /// Whether something is known of the packet's bounds before an operation of the block, on all its lanes.
    fn is_known(&self, lanes: &LaneState, at: usize, what: impl Fn(&Facts) -> bool) -> bool {
        let p = self.p;
        let known = self.known.bounds;
        let here = [self.block];
        let blocks = lanes.of.group(self.block).map_or(&here[..], |g| &g.blocks);
        blocks.iter().all(|&b| {
            let Some(mut facts) = known.at(b).cloned() else { return false };
            p.block(b).ops.iter().take(at).for_each(|op| known.step(&mut facts, b, op));
            what(&facts)
        })
    }

    /// What an "and" or "or" of the current block joins, if these are comparisons, or joined themselves. A comparison may
    /// stand in another block: it is made again.
    pub fn parts_of(&self, cond: Value) -> Option<(BinOp, Value, Value)> {
        let ops = &self.p.block(self.block).ops;
        let made_by = |v: Value| ops.iter().rev().find(|op| op.dst() == Some(v));
        let Op::Binary { op: op @ (BinOp::And | BinOp::Or), a, b, .. } = *made_by(cond)? else { return None };
        let is_part = |v: Value| {
            let is_joined = || matches!(made_by(v), Some(Op::Binary { op: BinOp::And | BinOp::Or, .. }));
            self.known.uses.compared[v.0 as usize] || is_joined()
        };
        (is_part(a) && is_part(b)).then_some((op, a, b))
    }

    /// Whether a block starts with writing all of a packet's first bytes, before anything can read one. One that stands
    /// for several, where lanes part, is taken for one that does not.
    pub fn writes_first(&self, b: BlockId, n: u32) -> bool {
        let Some(block) = self.p.blocks.get(b.0 as usize) else { return false };
        let mut written = [false; INLINE as usize];
        for op in &block.ops {
            match *op {
                Op::Store { layer: Layer::Data, off, src } => {
                    let bytes =
                        written.iter_mut().skip(off as usize).take(self.p.width(src).bytes() as usize);
                    bytes.for_each(|byte| *byte = true);
                }
                Op::Const { .. } | Op::Index { .. } | Op::Get { .. } => {}
                Op::SetMark { layer, .. } if layer != Layer::Data => {}
                _ => break,
            }
        }
        written[..n as usize].iter().all(|&w| w)
    }
}
