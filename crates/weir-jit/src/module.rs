//! Sets the compiler up, and keeps the code it makes.

use cranelift_codegen::ir::{AbiParam, Signature, UserFuncName, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenError, Context};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError, default_libcall_names};
use weir_ir::Program;

use crate::JitError;
use crate::compile::Translator;
use crate::helpers::{Code, Helper};
use crate::starts::Starts;

/// Machine code in memory, freed on drop.
pub(crate) struct Machine {
    /// `None` only while it is dropped.
    module: Option<JITModule>,
    pub code: Code,
}

// SAFETY: once the code is final nothing changes the module before it is dropped, and no method reads it; what
// threads share is the code, which is read and executed only.
unsafe impl Sync for Machine {}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: `code`, the only pointer into this memory, goes with `self`, and no run is under way, because
            // runs borrow `self`.
            unsafe { module.free_memory() };
        }
    }
}

impl Machine {
    /// Compiles a checked program.
    pub fn new(program: &Program, starts: &Starts) -> Result<Machine, JitError> {
        // The optimiser may make operations that the machine has no code for (a gap of the compiler, seen with 128
        // bits). Without it none but those that we ask for remain.
        match Machine::optimised(program, starts, Optimise::Speed) {
            Err(JitError::Compile { source, .. }) if is_gap(&source) => {
                Machine::optimised(program, starts, Optimise::Nothing)
            }
            result => result,
        }
    }

    fn optimised(program: &Program, starts: &Starts, optimise: Optimise) -> Result<Machine, JitError> {
        let (mut module, context) = translate(program, starts, optimise)?;
        let finish = |module: &mut JITModule, mut context: Context| -> Result<*const u8, Box<ModuleError>> {
            let id = module.declare_function("program", Linkage::Export, &context.func.signature)?;
            module.define_function(id, &mut context)?;
            module.finalize_definitions()?;
            Ok(module.get_finalized_function(id))
        };
        match finish(&mut module, context) {
            Ok(address) => {
                // SAFETY: the function was compiled with the signature of `Code` (see `signature`).
                let code = unsafe { std::mem::transmute::<*const u8, Code>(address) };
                Ok(Machine { module: Some(module), code })
            }
            Err(source) => {
                // SAFETY: nothing has a pointer into its memory.
                unsafe { module.free_memory() };
                Err(failed(program, source))
            }
        }
    }
}

/// How hard the compiler tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Optimise {
    Speed,
    Nothing,
}

fn is_gap(e: &ModuleError) -> bool {
    matches!(e, ModuleError::Compilation(CodegenError::Unsupported(_)))
}

/// The machine code of a program as assembly text, with the compiler's block numbers.
pub fn disassemble(program: &Program) -> Result<String, JitError> {
    weir_ir::check(program).map_err(JitError::Unchecked)?;
    let (module, mut context) = translate(program, &Starts::of(program), Optimise::Speed)?;
    context.set_disasm(true);
    let compiled = context.compile(module.isa(), &mut Default::default());
    let text = match compiled {
        Ok(code) => Ok(code.vcode.clone().unwrap_or_default()),
        Err(e) => Err(failed(program, Box::new(ModuleError::Compilation(e.inner)))),
    };
    // SAFETY: nothing was defined in the module, so nothing has a pointer into its memory.
    unsafe { module.free_memory() };
    text
}

/// The program in the compiler's own form, and the module that it may call helpers of.
fn translate(
    program: &Program,
    starts: &Starts,
    optimise: Optimise,
) -> Result<(JITModule, Context), JitError> {
    let mut builder = JITBuilder::with_isa(machine(optimise)?, default_libcall_names());
    for &h in Helper::ALL {
        builder.symbol(h.name(), h.address());
    }
    let mut module = JITModule::new(builder);
    let mut context = module.make_context();
    context.func.signature = signature(&module);
    context.func.name = UserFuncName::user(0, 0);
    let mut memory = FunctionBuilderContext::new();
    let config = module.target_config();
    let b = FunctionBuilder::new(&mut context.func, &mut memory);
    match Translator::new(program, starts, &mut module, b).translate() {
        Ok(b) => b.finalize(config),
        Err(source) => {
            // SAFETY: nothing has a pointer into its memory.
            unsafe { module.free_memory() };
            return Err(failed(program, source));
        }
    }
    Ok((module, context))
}

fn machine(optimise: Optimise) -> Result<OwnedTargetIsa, JitError> {
    let err = |what: String| JitError::Machine { what };
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) || cfg!(target_endian = "big") {
        return Err(err("programs are compiled for x86-64 and AArch64, little-endian".into()));
    }
    let mut flags = settings::builder();
    let options = [
        ("opt_level", if optimise == Optimise::Speed { "speed" } else { "none" }),
        ("is_pic", "false"),
        // Helpers may lie further away than a short call reaches.
        ("use_colocated_libcalls", "false"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
    ];
    for (name, value) in options {
        flags.set(name, value).map_err(|e| err(e.to_string()))?;
    }
    let isa = cranelift_native::builder().map_err(|e| err(e.into()))?;
    isa.finish(settings::Flags::new(flags)).map_err(|e: CodegenError| err(e.to_string()))
}

/// The signature of [`Code`].
fn signature(module: &JITModule) -> Signature {
    let mut s = module.make_signature();
    let pointer = module.target_config().pointer_type();
    s.params.extend([pointer, pointer, types::I32, pointer].map(AbiParam::new));
    s.returns.push(AbiParam::new(types::I64));
    s
}

fn failed(program: &Program, source: Box<ModuleError>) -> JitError {
    JitError::Compile { elements: program.elements.join(", "), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_ir::{Builder, Width::W128};

    #[test]
    fn a_program_compiles_without_the_optimiser() {
        let mut b = Builder::new("Min", 0, 0);
        let event = b.event("e");
        b.message("do", &[W128, W128], |b, a| {
            let less = b.lt(a[0], a[1]);
            let out = [b.select(less, a[0], a[1]), b.shl(a[0], a[1]), b.rem(a[0], a[1]), b.mul(a[0], a[1])];
            b.notify(event, &out);
        });
        let program = b.finish();
        weir_ir::check(&program).unwrap();
        let starts = Starts::of(&program);
        for optimise in [Optimise::Speed, Optimise::Nothing] {
            assert!(Machine::optimised(&program, &starts, optimise).is_ok());
        }
    }
}
