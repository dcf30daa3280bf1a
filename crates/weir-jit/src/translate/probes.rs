//! Reading the clock where packets pass from element to element ([`Profile`](crate::abi::profile::Profile)).

use cranelift_codegen::ir::{self, types};
use weir_ir::program::BlockId;

use super::Translator;
use crate::abi::helpers::Helper;
use crate::abi::profile::{EMPTY, STARTS};

impl Translator<'_, '_> {
    /// Reads the clock at the start of a block, if packets come there from other elements.
    pub(crate) fn probe(&mut self, id: BlockId) {
        if self.notes.probes.as_ref().is_some_and(|borders| borders[id.0 as usize]) {
            self.call_probe(self.p.block(id).owner);
        }
    }

    /// Reads the clock where a packet starts.
    pub(crate) fn probe_start(&mut self, id: BlockId) {
        if self.notes.probes.is_some() {
            self.call_probe(EMPTY);
            self.call_probe(self.p.block(id).owner | STARTS);
        }
    }

    fn call_probe(&mut self, what: u32) {
        let what: ir::Value = self.code.imm(types::I32, what.into());
        self.call(Helper::Probe, &[what]);
    }
}
