//! Addresses that the code worked out already. The compiler would find them again, but only after it was given them,
//! and that costs most of what a program takes to compile.

use cranelift_codegen::ir;
use rustc_hash::FxHashMap;
use weir_ir::program::{TableId, Value};

use crate::translate::Translator;

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
pub(crate) type Addresses = FxHashMap<Address, ir::Value>;

impl Translator<'_, '_> {
    /// An address, worked out by `make` unless it is known.
    pub(crate) fn address(&mut self, of: Address, make: impl FnOnce(&mut Self) -> ir::Value) -> ir::Value {
        if let Some(&v) = self.addresses.get(&of) {
            return v;
        }
        let v = make(self);
        if self.packet.is_settled(&self.code.b) {
            self.addresses.insert(of, v);
        }
        v
    }
}
