//! Where the layers are, as far as the code knows it in registers. The compiler would read a position again behind
//! each call, though none but those that make space move a packet.

use cranelift_codegen::ir::{self, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use rustc_hash::FxHashMap;
use weir_ir::program::BlockId;
use weir_packet::Meta;

use crate::translate::emit::Emitter;
use crate::translate::jumps::Jumps;
use crate::translate::slice::Positions;
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
}

impl PacketState {
    pub fn new(b: &mut FunctionBuilder<'_>, at: ir::Value) -> PacketState {
        PacketState {
            at,
            sliced: None,
            places: NOWHERE,
            variables: (0..POSITIONS).map(|_| b.declare_var(types::I32)).collect(),
            at_blocks: FxHashMap::default(),
        }
    }

    /// A position, if it is known.
    pub fn known(&mut self, code: &mut Emitter<'_, '_>, number: usize) -> Option<ir::Value> {
        match *self.places.get(number)? {
            KnownPosition::Unknown => None,
            KnownPosition::Is(v) => Some(v),
            KnownPosition::Merged => {
                let v = code.b.use_var(self.variables[number]);
                if code.is_settled() {
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
    /// Goes on in a block that paths [`reach`](Translator::reach) already.
    pub fn start_block(&mut self, block: ir::Block, known: bool) {
        self.code.b.switch_to_block(block);
        self.packet.start(block, known);
        self.code.addresses.clear();
        self.values.unfolded.clear();
        self.code.settle();
    }
}

impl Jumps {
    /// A path leads to a block.
    pub fn reach(&self, code: &mut Emitter<'_, '_>, packet: &mut PacketState, to: BlockId) {
        packet.reach(&mut code.b, self.block(to));
    }
}
