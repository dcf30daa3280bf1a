//! Functions and data that the code refers to.

use cranelift_codegen::ir::{self, FuncRef, InstBuilder, MemFlagsData, types};
use cranelift_jit::JITModule;
use cranelift_module::{DataDescription, FuncId, Linkage, Module, ModuleError};
use rustc_hash::FxHashMap;

use crate::abi::cold_calls::{cold_signature, helper_signature, passed_at};
use crate::abi::helpers::Helper;
use crate::translate::addresses::Address;
use crate::translate::emit::Emitter;
use crate::translate::frame::StackSpace;

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
    fn helper(&mut self, of: &mut ir::Function, h: Helper, cold: bool) -> FuncRef {
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

impl Emitter<'_, '_> {
    /// What does not change during a run, to be read where it is needed.
    pub fn fixed_here(&self) -> MemFlagsData {
        let here = MemFlagsData::new().with_notrap().with_aligned().with_readonly();
        here.with_alias_region(self.regions.fixed.alias_region())
    }

    /// Where the frame is, to read or write there.
    pub fn frame_address(&mut self) -> ir::Value {
        self.frame.values.at
    }

    /// The same, as a number.
    pub fn frame_number(&mut self) -> ir::Value {
        self.frame.values.number.get(&mut self.b)
    }

    /// A field of the context.
    pub fn fixed(&mut self, off: usize) -> ir::Value {
        self.address(Address::Fixed(off), |code| {
            code.b.ins().load(types::I64, code.regions.fixed, code.ctx, off as i32)
        })
    }

    /// What goes to a helper that few packets call, and comes back.
    fn passed(&self, h: Helper) -> Option<StackSpace> {
        self.frame.passed.filter(|_| h.is_cold())
    }

    /// Whether this is a slow path.
    pub fn is_slow_path(&self) -> bool {
        self.frame.passed.is_none()
    }

    /// Calls a helper without a result; `args` are those behind the context.
    pub fn call(&mut self, h: Helper, args: &[ir::Value]) {
        let args = self.with_context(h, args);
        if let Some(passed) = self.passed(h) {
            self.call_cold(h, passed, &args);
        } else {
            let helper = self.calls.helper(self.b.func, h, false);
            self.b.ins().call(helper, &args);
        }
    }

    /// Calls a helper and gives its result; `args` are those behind the context.
    pub fn result(&mut self, h: Helper, args: &[ir::Value]) -> ir::Value {
        let args = self.with_context(h, args);
        if let (Some(passed), Some(ty)) = (self.passed(h), h.result()) {
            self.call_cold(h, passed, &args);
            return self.b.ins().load(ty, self.regions.frame, passed.at, 0);
        }
        let helper = self.calls.helper(self.b.func, h, false);
        let call = self.b.ins().call(helper, &args);
        self.b.inst_results(call)[0]
    }

    fn with_context(&mut self, h: Helper, args: &[ir::Value]) -> Vec<ir::Value> {
        let context = h.takes_context().then(|| self.frame.context.get(&mut self.b));
        context.into_iter().chain(args.iter().copied()).collect()
    }

    /// Calls a helper by what keeps all registers; its result is where the first argument was.
    fn call_cold(&mut self, h: Helper, passed: StackSpace, args: &[ir::Value]) {
        let helper = self.calls.helper(self.b.func, h, true);
        for (i, &arg) in args.iter().enumerate() {
            self.b.ins().store(self.regions.frame, arg, passed.at, passed_at(i));
        }
        let passed = passed.number.get(&mut self.b);
        self.b.ins().call(helper, &[passed]);
    }
}
