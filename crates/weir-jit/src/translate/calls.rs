//! Functions and data that the code refers to.

use cranelift_codegen::ir::{self, FuncRef};
use cranelift_jit::JITModule;
use cranelift_module::{DataDescription, FuncId, Linkage, Module, ModuleError};
use rustc_hash::FxHashMap;

use crate::abi::cold_calls::{cold_signature, helper_signature};
use crate::abi::helpers::Helper;

/// The functions and data that a function refers to in its module.
pub(crate) struct Callees<'a> {
    module: &'a mut JITModule,
    /// The helpers that are called, each perhaps by what keeps all registers.
    helpers: FxHashMap<(Helper, bool), FuncRef>,
    /// What went wrong first.
    failed: Option<Box<ModuleError>>,
}

impl<'a> Callees<'a> {
    pub fn new(module: &'a mut JITModule) -> Callees<'a> {
        Callees { module, helpers: FxHashMap::default(), failed: None }
    }

    /// A helper, or what keeps all registers and calls it.
    pub fn helper(&mut self, of: &mut ir::Function, h: Helper, cold: bool) -> FuncRef {
        if let Some(&reference) = self.helpers.get(&(h, cold)) {
            return reference;
        }
        let (name, signature) = match cold {
            true => (h.cold_name(), cold_signature(self.module)),
            false => (h.name().to_owned(), helper_signature(self.module, h)),
        };
        let id = match self.module.declare_function(&name, Linkage::Import, &signature) {
            Ok(id) => id,
            Err(e) => {
                self.fail(e);
                FuncId::from_u32(0)
            }
        };
        let reference = self.module.declare_func_in_func(id, of);
        self.helpers.insert((h, cold), reference);
        reference
    }

    /// A function of the same module that keeps all registers.
    pub fn local(&mut self, of: &mut ir::Function, name: &str) -> Result<FuncRef, Box<ModuleError>> {
        let signature = cold_signature(self.module);
        let id = self.module.declare_function(name, Linkage::Local, &signature)?;
        Ok(self.module.declare_func_in_func(id, of))
    }

    /// 64-bit constants in memory.
    pub fn constants(
        &mut self,
        of: &mut ir::Function,
        all: impl Iterator<Item = u64>,
    ) -> Result<ir::GlobalValue, Box<ModuleError>> {
        let mut data = DataDescription::new();
        data.define(all.flat_map(u64::to_ne_bytes).collect());
        data.set_align(8);
        let id = self.module.declare_anonymous_data(false, false)?;
        self.module.define_data(id, &data)?;
        Ok(self.module.declare_data_in_func(id, of))
    }

    /// Something went wrong: what is made is of no use.
    pub fn fail(&mut self, e: impl Into<Box<ModuleError>>) {
        self.failed.get_or_insert(e.into());
    }

    /// Whether all went well.
    pub fn finish(&mut self) -> Result<(), Box<ModuleError>> {
        self.failed.take().map_or(Ok(()), Err)
    }
}
