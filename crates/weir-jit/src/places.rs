//! Where the layers are, as far as the code knows it in registers. The compiler would read a position again behind
//! each call, though none but those that make room move a packet.

use cranelift_codegen::ir;
use weir_ir::program::BlockId;
use weir_ir::{Facts, Layer};

use crate::compile::{POSITIONS, Translator};
use crate::starts::ways;

/// The positions at the start of a packet's metadata that are known.
pub(crate) type Places = [Option<ir::Value>; POSITIONS];

impl Translator<'_, '_> {
    /// The code is in a block that dominates all that follows: what is read there is known from then on.
    pub(crate) fn settle(&mut self) {
        self.settled = self.b.current_block();
    }

    /// For each block whether nothing is known there: runs start there, or a way leads back to it. `order` has the blocks
    /// of the function.
    pub(crate) fn unknown(&self, order: &[BlockId]) -> Vec<bool> {
        let mut unknown: Vec<bool> = self.starts.numbers.iter().map(Option::is_some).collect();
        let mut number = vec![usize::MAX; unknown.len()];
        for (i, b) in order.iter().enumerate() {
            number[b.0 as usize] = i;
        }
        for (i, &b) in order.iter().enumerate() {
            for to in ways(self.p, &self.lanes, b).into_iter().filter(|to| number[to.0 as usize] <= i) {
                unknown[to.0 as usize] = true;
            }
        }
        unknown
    }

    /// Whether that is so.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.is_some() && self.settled == self.b.current_block()
    }

    /// Whether the layer is known to be set and not beyond the end, at the operation that is being translated.
    pub(crate) fn is_within(&self, layer: Layer) -> bool {
        self.is_known(self.at, |facts| facts.bytes(layer).is_some())
    }

    /// Whether `n` bytes in front of the packet are known to have been part of it, at the end of the block.
    pub(crate) fn has_headroom(&self, n: u32) -> bool {
        self.is_known(usize::MAX, |facts| facts.headroom() >= n)
    }

    /// Whether something is known of the packet's bounds before an operation of the block, on all its lanes.
    fn is_known(&self, at: usize, what: impl Fn(&Facts) -> bool) -> bool {
        let p = self.p;
        let known = self.bounds;
        let here = [self.here];
        let blocks = self.lanes.group(self.here).map_or(&here[..], |g| &g.blocks);
        blocks.iter().all(|&b| {
            let Some(mut facts) = known.at(b).cloned() else { return false };
            p.block(b).ops.iter().take(at).for_each(|op| known.step(&mut facts, b, op));
            what(&facts)
        })
    }

    /// A way leads to a block.
    pub(crate) fn reach(&mut self, to: BlockId) {
        let here = self.places;
        self.places_at
            .entry(self.block(to))
            .and_modify(|known| {
                known.iter_mut().zip(here).for_each(|(k, h)| *k = k.filter(|v| h == Some(*v)));
            })
            .or_insert(here);
    }

    /// Goes on in a block that ways [`reach`](Translator::reach) already.
    pub(crate) fn start_block(&mut self, block: ir::Block, known: bool) {
        self.b.switch_to_block(block);
        let places = self.places_at.remove(&block).filter(|_| known);
        self.places = places.unwrap_or([None; POSITIONS]);
        self.addresses.clear();
        self.unfolded.clear();
        self.settle();
    }
}
