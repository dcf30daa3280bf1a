//! Addresses that the code worked out already. The compiler would find them again, but only after it was given them,
//! and that costs most of what a program takes to compile.

use cranelift_codegen::ir;
use rustc_hash::FxHashMap;
use weir_ir::program::{TableId, Value};

use crate::translate::emit::Emitter;

/// The object of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    /// A field of the context, by its offset.
    Fixed(usize),
    /// What does not change of a table, by its offset.
    Table(TableId, usize),
    /// The row of a slot.
    Row(TableId, ir::Value),
    /// The row of an entry, or other space if there is no such entry any more.
    RowOrNowhere(Value),
    /// The packet's byte at a position.
    Byte(ir::Value),
    /// No address: a constant of the program.
    Constant(Value),
}

/// Addresses known in the block of the program that is being translated, wherever its code goes on.
#[derive(Default)]
pub(crate) struct Addresses {
    known: FxHashMap<Address, ir::Value>,
    /// The block of the code that dominates what follows.
    settled: Option<ir::Block>,
}

impl Addresses {
    /// Another block begins.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// An operation may remove entries: which are there has to be looked up again.
    pub fn forget_entries(&mut self) {
        self.known.retain(|of, _| !matches!(of, Address::RowOrNowhere(_)));
    }
}

impl Emitter<'_, '_> {
    /// The code is in a block that dominates all that follows: what is read there is known from then on.
    pub fn settle(&mut self) {
        self.addresses.settled = self.b.current_block();
    }

    /// Whether that is so.
    pub fn is_settled(&self) -> bool {
        self.addresses.settled.is_some() && self.addresses.settled == self.b.current_block()
    }

    /// An address, worked out by `make` unless it is known.
    pub fn address(&mut self, of: Address, make: impl FnOnce(&mut Self) -> ir::Value) -> ir::Value {
        if let Some(&v) = self.addresses.known.get(&of) {
            return v;
        }
        let v = make(self);
        if self.is_settled() {
            self.addresses.known.insert(of, v);
        }
        v
    }
}
