//! Reading the clock where packets pass from element to element ([`Profile`](crate::abi::profile::Profile)).

use cranelift_codegen::ir::{self, types};
use weir_ir::program::{BlockId, Program};

use crate::abi::helpers::Helper;
use crate::abi::profile::{EMPTY, STARTS};
use crate::translate::Notes;
use crate::translate::emit::Emitter;

impl Notes {
    /// Reads the clock at the start of a block, if packets come there from other elements.
    pub fn probe(&self, code: &mut Emitter<'_, '_>, p: &Program, id: BlockId) {
        if self.probes.as_ref().is_some_and(|borders| borders[id.0 as usize]) {
            code.call_probe(p.block(id).owner);
        }
    }

    /// Reads the clock where a packet starts.
    pub fn probe_start(&self, code: &mut Emitter<'_, '_>, p: &Program, id: BlockId) {
        if self.probes.is_some() {
            code.call_probe(EMPTY);
            code.call_probe(p.block(id).owner | STARTS);
        }
    }
}

impl Emitter<'_, '_> {
    fn call_probe(&mut self, what: u32) {
        let what: ir::Value = self.imm(types::I32, what.into());
        self.call(Helper::Probe, &[what]);
    }
}
