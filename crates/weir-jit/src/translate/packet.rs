//! Where the layers are, as far as the code knows it in registers. The compiler would read a position again behind
//! each call, though none but those that make space move a packet.

use cranelift_codegen::ir::{self, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use rustc_hash::FxHashMap;
use weir_ir::program::BlockId;
use weir_ir::{Facts, Layer};
use weir_packet::Meta;

use super::slice::Positions;
use crate::analysis::starts::successors;
use crate::translate::{POSITIONS, Translator};

/// Knowledge of a position at the start of a packet's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownPosition {
    /// Only that it can be read.
    Unknown,
    Is(ir::Value),
    /// It is known on all paths that lead here: what the variable is.
    Merged,
}

/// All positions.
pub(crate) type KnownPositions = [KnownPosition; POSITIONS];

/// Nothing is known.
pub(crate) const NOWHERE: KnownPositions = [KnownPosition::Unknown; POSITIONS];

/// There is no position here: a value means that it was said that the packet is dirty.
pub(crate) const SAID_DIRTY: usize = Meta::DIRTY_FIRST_OFFSET / 4;

/// The packet, and where its layers are.
pub(crate) struct PacketState {
    /// Its address.
    pub at: ir::Value,
    /// Where the layers are, if that is not what the packet says: in a slice.
    pub sliced: Option<Positions>,
    /// Positions that are known.
    pub places: KnownPositions,
    /// For each position what it is where paths meet that all know it, but not the same.
    variables: Vec<Variable>,
    /// The same as `places` for blocks that are still to come.
    at_blocks: FxHashMap<ir::Block, KnownPositions>,
    /// The block that dominates what follows.
    settled: Option<ir::Block>,
}

impl PacketState {
    pub fn new(b: &mut FunctionBuilder<'_>, at: ir::Value) -> PacketState {
        PacketState {
            at,
            sliced: None,
            places: NOWHERE,
            variables: (0..POSITIONS).map(|_| b.declare_var(types::I32)).collect(),
            at_blocks: FxHashMap::default(),
            settled: None,
        }
    }

    /// The code is in a block that dominates all that follows: what is read there is known from then on.
    pub fn settle(&mut self, b: &FunctionBuilder<'_>) {
        self.settled = b.current_block();
    }

    /// Whether that is so.
    pub fn is_settled(&self, b: &FunctionBuilder<'_>) -> bool {
        self.settled.is_some() && self.settled == b.current_block()
    }

    /// A position, if it is known.
    pub fn known(&mut self, b: &mut FunctionBuilder<'_>, number: usize) -> Option<ir::Value> {
        match *self.places.get(number)? {
            KnownPosition::Unknown => None,
            KnownPosition::Is(v) => Some(v),
            KnownPosition::Merged => {
                let v = b.use_var(self.variables[number]);
                if self.is_settled(b) {
                    self.places[number] = KnownPosition::Is(v);
                }
                Some(v)
            }
        }
    }

    /// A path leads to a block of the code.
    fn reach(&mut self, b: &mut FunctionBuilder<'_>, to: ir::Block) {
        for (number, place) in self.places.iter().enumerate().filter(|(number, _)| *number != SAID_DIRTY) {
            if let KnownPosition::Is(v) = place {
                b.def_var(self.variables[number], *v);
            }
        }
        let here = self.places;
        let Some(known) = self.at_blocks.get_mut(&to) else {
            self.at_blocks.insert(to, here);
            return;
        };
        for (number, (known, here)) in known.iter_mut().zip(here).enumerate() {
            *known = match (*known, here) {
                (KnownPosition::Unknown, _) | (_, KnownPosition::Unknown) => KnownPosition::Unknown,
                (k, h) if k == h || number == SAID_DIRTY => k,
                _ => KnownPosition::Merged,
            };
        }
    }

    /// A block begins; `known` says that all paths to it are known.
    fn start(&mut self, block: ir::Block, known: bool) {
        let places = self.at_blocks.remove(&block).filter(|_| known);
        self.places = places.unwrap_or(NOWHERE);
    }
}

impl Translator<'_, '_> {
    /// For each block whether nothing is known there: runs start there, or a path leads back to it. `order` has the blocks
    /// of the function.
    pub(crate) fn unknown(&self, order: &[BlockId]) -> Vec<bool> {
        let mut unknown: Vec<bool> = self.known.starts.numbers.iter().map(Option::is_some).collect();
        let mut number = vec![usize::MAX; unknown.len()];
        for (i, b) in order.iter().enumerate() {
            number[b.0 as usize] = i;
        }
        for (i, &b) in order.iter().enumerate() {
            for to in
                successors(self.p, &self.lanes.of, b).into_iter().filter(|to| number[to.0 as usize] <= i)
            {
                unknown[to.0 as usize] = true;
            }
        }
        unknown
    }

    /// Whether the layer is known to be set and not beyond the end, at the operation that is being translated.
    pub(crate) fn is_within(&self, layer: Layer) -> bool {
        self.is_known(self.here.op, |facts| facts.bytes(layer).is_some())
    }

    /// Whether `n` bytes in front of the packet are known to have been part of it, at the end of the block.
    pub(crate) fn has_headroom(&self, n: u32) -> bool {
        self.is_known(usize::MAX, |facts| facts.headroom() >= n)
    }

    /// Whether something is known of the packet's bounds before an operation of the block, on all its lanes.
    fn is_known(&self, at: usize, what: impl Fn(&Facts) -> bool) -> bool {
        let p = self.p;
        let known = self.known.bounds;
        let here = [self.here.block];
        let blocks = self.lanes.of.group(self.here.block).map_or(&here[..], |g| &g.blocks);
        blocks.iter().all(|&b| {
            let Some(mut facts) = known.at(b).cloned() else { return false };
            p.block(b).ops.iter().take(at).for_each(|op| known.step(&mut facts, b, op));
            what(&facts)
        })
    }

    /// A path leads to a block.
    pub(crate) fn reach(&mut self, to: BlockId) {
        self.packet.reach(&mut self.code.b, self.jumps.block(to));
    }

    /// Goes on in a block that paths [`reach`](Translator::reach) already.
    pub(crate) fn start_block(&mut self, block: ir::Block, known: bool) {
        self.code.b.switch_to_block(block);
        self.packet.start(block, known);
        self.addresses.clear();
        self.values.unfolded.clear();
        self.packet.settle(&self.code.b);
    }
}
