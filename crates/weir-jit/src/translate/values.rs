//! The values of a program in the code.

use cranelift_codegen::ir;
use rustc_hash::FxHashMap;
use weir_ir::program::Value;

use crate::translate::network::Network;

/// The values of a program in the code, and the other forms that some of them have.
pub(crate) struct Values {
    /// In registers, as they are; constants are made where they are used.
    pub numbers: Vec<Option<ir::Value>>,
    /// In network byte order.
    pub network: Network,
    /// Ones' complement sums that are not folded, with the number of words in them.
    pub sums: FxHashMap<Value, (ir::Value, u32)>,
    /// Checksums of this block before they are folded.
    pub unfolded: FxHashMap<Value, ir::Value>,
}

impl Values {
    /// Of a program with so many.
    pub fn new(count: usize) -> Values {
        Values {
            numbers: vec![None; count],
            network: Network::default(),
            sums: FxHashMap::default(),
            unfolded: FxHashMap::default(),
        }
    }

    pub fn set(&mut self, v: Value, to: ir::Value) {
        self.numbers[v.0 as usize] = Some(to);
    }

    /// A value that is a constant.
    pub fn constant(&self, v: Value) -> Option<u128> {
        self.network.constant(v)
    }
}
