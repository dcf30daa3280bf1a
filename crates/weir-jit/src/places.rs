//! Where the layers are, as far as the code knows it in registers. The compiler would read a position again behind
//! each call, though none but those that make room move a packet.

use cranelift_codegen::ir;
use weir_ir::program::BlockId;
use weir_ir::{Facts, Layer};
use weir_packet::Meta;

use crate::compile::{POSITIONS, Translator};
use crate::starts::ways;

/// What is known of a position at the start of a packet's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Only that it can be read.
    Unknown,
    Is(ir::Value),
    /// It is known on all ways that lead here: what the variable is.
    Merged,
}

/// All positions.
pub(crate) type Places = [Place; POSITIONS];

/// Nothing is known.
pub(crate) const NOWHERE: Places = [Place::Unknown; POSITIONS];

/// There is no position here: a value means that it was said that the packet is dirty.
pub(crate) const SAID_DIRTY: usize = Meta::DIRTY_FIRST_OFFSET / 4;

impl Translator<'_, '_> {
    /// The code is in a block that dominates all that follows: what is read there is known from then on.
    pub(crate) fn settle(&mut self) {
        self.settled = self.b.current_block();
    }

    /// Whether that is so.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.is_some() && self.settled == self.b.current_block()
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
        for (number, place) in self.places.iter().enumerate().filter(|(number, _)| *number != SAID_DIRTY) {
            if let Place::Is(v) = place {
                self.b.def_var(self.place_numbers[number], *v);
            }
        }
        let here = self.places;
        let Some(known) = self.places_at.get_mut(&self.blocks[to.0 as usize]) else {
            self.places_at.insert(self.block(to), here);
            return;
        };
        for (number, (known, here)) in known.iter_mut().zip(here).enumerate() {
            *known = match (*known, here) {
                (Place::Unknown, _) | (_, Place::Unknown) => Place::Unknown,
                (k, h) if k == h || number == SAID_DIRTY => k,
                _ => Place::Merged,
            };
        }
    }

    /// A position, if it is known.
    pub(crate) fn known_place(&mut self, number: usize) -> Option<ir::Value> {
        match *self.places.get(number)? {
            Place::Unknown => None,
            Place::Is(v) => Some(v),
            Place::Merged => {
                let v = self.b.use_var(self.place_numbers[number]);
                if self.is_settled() {
                    self.places[number] = Place::Is(v);
                }
                Some(v)
            }
        }
    }

    /// Goes on in a block that ways [`reach`](Translator::reach) already.
    pub(crate) fn start_block(&mut self, block: ir::Block, known: bool) {
        self.b.switch_to_block(block);
        let places = self.places_at.remove(&block).filter(|_| known);
        self.places = places.unwrap_or(NOWHERE);
        self.addresses.clear();
        self.unfolded.clear();
        self.settle();
    }
}
