//! Sets the compiler up, and keeps the code it makes.

pub(crate) mod listing;

use std::panic::resume_unwind;
use std::thread::Builder;

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{AbiParam, Signature, UserFuncName, types};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenError, Context};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError, ModuleReloc, default_libcall_names};
use weir_ir::Program;

use crate::JitError;
use crate::abi::cold_calls::{self, cold_signature};
use crate::abi::helpers::{Code, Helper};
use crate::abi::profile::borders;
use crate::analysis::lanes::Lanes;
use crate::analysis::slow_paths::SlowPaths;
use crate::analysis::starts::Starts;
use crate::analysis::uses::Uses;
use crate::flows::CachePlan;
use crate::flows::slices::Slice;
use crate::translate::batch::Batch;
use crate::translate::slow_path::{open_slow_path, slow_path_name};
use crate::translate::{Input, Notes, Translator};

/// Memory with machine code, freed on drop.
struct Memory(
    /// `None` only while it is dropped.
    Option<JITModule>,
);

// SAFETY: once the code is final nothing changes the module before it is dropped, and no method reads it; what
// threads share is the code, which is read and executed only.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(module) = self.0.take() {
            // SAFETY: the pointers into this memory go with it (`Machine`, `Ahead`), and no run is in progress, because
            // runs borrow them.
            unsafe { module.free_memory() };
        }
    }
}

/// A program as machine code.
pub(crate) struct Machine {
    pub code: Code,
    _memory: Memory,
}

impl Machine {
    /// Compiles a program, to run at speed or to be measured.
    pub fn new(input: Input<'_>, probes: bool) -> Result<Machine, JitError> {
        let notes = Notes { probes: probes.then(|| borders(input.program)), ..Notes::default() };
        let (code, memory) = compile(input.program, |module| translate(module, input, &notes))?;
        Ok(Machine { code: code[0], _memory: memory })
    }
}

/// Code that makes keys of lookups before a batch runs.
pub(crate) struct Ahead {
    pub slices: Vec<(Slice, Code)>,
    _memory: Memory,
}

impl Ahead {
    /// Compiles the slices of a program; `None` if it has none.
    pub fn new(input: Input<'_>) -> Result<Option<Ahead>, JitError> {
        let slices = Slice::of(input.program, input.flows);
        if slices.is_empty() {
            return Ok(None);
        }
        let (code, memory) = compile(input.program, |module| {
            let named = slices.iter().enumerate();
            named.map(|(i, slice)| translate_slice(module, input, slice, format!("slice{i}"))).collect()
        })?;
        Ok(Some(Ahead { slices: slices.into_iter().zip(code).collect(), _memory: memory }))
    }
}

/// A function to be compiled.
pub(crate) struct Function {
    pub name: String,
    pub context: Context,
    /// Few packets run it: it need not be good.
    is_slow_path: bool,
}

/// Compiles functions of a program; gives those that are not slow paths, which the others call.
fn compile(
    program: &Program,
    functions: impl Fn(&mut JITModule) -> Result<Vec<Function>, Box<ModuleError>>,
) -> Result<(Vec<Code>, Memory), JitError> {
    // The optimiser may make operations that the machine has no code for (a gap of the compiler, seen with 128 bits).
    // Without it none but those that we ask for remain.
    match optimised(program, &functions, Optimise::Speed) {
        Err(JitError::Compile { source, .. }) if is_gap(&source) => {
            optimised(program, &functions, Optimise::Nothing)
        }
        result => result,
    }
}

fn optimised(
    program: &Program,
    functions: impl Fn(&mut JITModule) -> Result<Vec<Function>, Box<ModuleError>>,
    optimise: Optimise,
) -> Result<(Vec<Code>, Memory), JitError> {
    let mut memory = Memory(Some(new_module(optimise)?));
    let module = memory.0.as_mut().expect("it is not dropped yet");
    let mut functions = functions(module).map_err(|source| failed(program, source))?;
    cold_calls::make(module, || new_module(Optimise::Speed))?;
    make_all(program, &mut functions, module.isa())?;
    let code = define(module, &functions).map_err(|source| failed(program, source))?;
    Ok((code, memory))
}

/// Gives functions that were made to the module; gives the code of those that are not slow paths.
fn define(module: &mut JITModule, functions: &[Function]) -> Result<Vec<Code>, Box<ModuleError>> {
    let mut ids = Vec::new();
    for f in functions {
        let Some(code) = f.context.compiled_code() else { continue };
        let linkage = if f.is_slow_path { Linkage::Local } else { Linkage::Export };
        let id = module.declare_function(&f.name, linkage, &f.context.func.signature)?;
        let relocations = code.buffer.relocs().iter();
        let relocations: Vec<ModuleReloc> =
            relocations.map(|r| ModuleReloc::from_mach_reloc(r, &f.context.func, id)).collect();
        module.define_function_bytes(id, code.buffer.alignment.into(), code.buffer.data(), &relocations)?;
        if !f.is_slow_path {
            ids.push(id);
        }
    }
    module.finalize_definitions()?;
    let code = ids.into_iter().map(|id| {
        let address = module.get_finalized_function(id);
        // SAFETY: the function was compiled with the signature of `Code` (see `signature`).
        unsafe { std::mem::transmute::<*const u8, Code>(address) }
    });
    Ok(code.collect())
}

/// Makes machine code of functions, slow paths behind all others: of these quickly, and at the same time if there is a thread
/// to be had.
fn make_all(program: &Program, functions: &mut [Function], isa: &dyn TargetIsa) -> Result<(), JitError> {
    let first = functions.iter().position(|f| f.is_slow_path).unwrap_or(functions.len());
    let (usual, slow) = functions.split_at_mut(first);
    if slow.is_empty() {
        return make(usual, isa).map_err(|source| failed(program, source));
    }
    let quick = machine(Optimise::Hardly)?;
    let made_beside = std::thread::scope(|scope| {
        let thread = Builder::new().name("compile".to_owned()).spawn_scoped(scope, || make(slow, &*quick));
        make(usual, isa)?;
        let joined = thread.ok().map(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.transpose()
    });
    match made_beside {
        Ok(Some(())) => Ok(()),
        Ok(None) => make(slow, &*quick).map_err(|source| failed(program, source)),
        Err(source) => Err(failed(program, source)),
    }
}

/// Makes machine code, in the functions' contexts.
fn make(functions: &mut [Function], isa: &dyn TargetIsa) -> Result<(), Box<ModuleError>> {
    for f in functions {
        if let Err(e) = f.context.compile(isa, &mut ControlPlane::default()) {
            return Err(Box::new(ModuleError::Compilation(e.inner)));
        }
    }
    Ok(())
}

/// The compiler's level of optimisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Optimise {
    Speed,
    /// Only registers are chosen well.
    Nothing,
    /// What matters is that the code is ready soon.
    Hardly,
}

fn is_gap(e: &ModuleError) -> bool {
    matches!(e, ModuleError::Compilation(CodegenError::Unsupported(_)))
}

/// The machine code of a program in functions, for who looks at it: that which packets start in first, and those that it
/// calls.
pub(crate) fn look<R>(
    program: &Program,
    notes: &Notes,
    as_text: bool,
    mut see: impl FnMut(&JITModule, &Function) -> R,
) -> Result<Vec<R>, JitError> {
    let known = &weir_ir::known_if_checked(program).map_err(JitError::Unchecked)?;
    let mut module = new_module(Optimise::Speed)?;
    let (starts, flows, uses) = (&Starts::of(program), &CachePlan::of(program), &Uses::of(program));
    let input = Input { program, known, starts, flows, uses };
    let made = translate(&mut module, input, notes).map_err(|source| failed(program, source));
    let made = made.and_then(|mut functions| {
        functions.iter_mut().for_each(|f| f.context.set_disasm(as_text));
        make_all(program, &mut functions, module.isa())?;
        Ok(functions)
    });
    let seen = made.map(|functions| functions.iter().map(|f| see(&module, f)).collect());
    // SAFETY: nothing was defined in the module, so nothing has a pointer into its memory.
    unsafe { module.free_memory() };
    seen
}

/// The machine code of a program as assembly text, with the compiler's block numbers.
pub fn disassemble(program: &Program) -> Result<String, JitError> {
    let text = |_: &JITModule, f: &Function| {
        f.context.compiled_code().and_then(|code| code.vcode.clone()).unwrap_or_default()
    };
    Ok(look(program, &Notes::default(), true, text)?.concat())
}

/// A module whose code may call helpers.
fn new_module(optimise: Optimise) -> Result<JITModule, JitError> {
    let mut builder = JITBuilder::with_isa(machine(optimise)?, default_libcall_names());
    for &h in Helper::ALL {
        builder.symbol(h.name(), h.address());
    }
    builder.symbol_lookup_fn(Box::new(cold_calls::find));
    Ok(JITModule::new(builder))
}

/// The program in the compiler's own form: the function that packets start in, and its slow paths.
fn translate(
    module: &mut JITModule,
    input: Input<'_>,
    notes: &Notes,
) -> Result<Vec<Function>, Box<ModuleError>> {
    // What is measured is measured element by element.
    let lanes = if notes.probes.is_none() { Lanes::of(input.program) } else { Lanes::default() };
    let slow = SlowPaths::of(input.program, &lanes);
    let mut functions = Vec::new();
    let whole = signature(module);
    functions.push(function(module, "program".to_owned(), whole, |module, b| {
        let (batch, t) = Translator::new(input, notes.clone(), module, b, Batch::open);
        t.translate(&batch, lanes, &slow)
    })?);
    for (number, path) in slow.paths.iter().enumerate() {
        let signature = cold_signature(module);
        let f = function(module, slow_path_name(number), signature, |module, b| {
            let (opened, t) = Translator::new(input, notes.clone(), module, b, open_slow_path);
            t.translate_slow_path(path, opened)
        })?;
        functions.push(Function { is_slow_path: true, ..f });
    }
    Ok(functions)
}

/// As [`translate`], a slice of the program.
fn translate_slice(
    module: &mut JITModule,
    input: Input<'_>,
    slice: &Slice,
    name: String,
) -> Result<Function, Box<ModuleError>> {
    let signature = signature(module);
    function(module, name, signature, |module, b| {
        let (batch, t) = Translator::new(input, Notes::default(), module, b, Batch::open);
        t.translate_slice(&batch, slice)
    })
}

fn function(
    module: &mut JITModule,
    name: String,
    signature: Signature,
    translate: impl for<'b> FnOnce(
        &mut JITModule,
        FunctionBuilder<'b>,
    ) -> Result<FunctionBuilder<'b>, Box<ModuleError>>,
) -> Result<Function, Box<ModuleError>> {
    let mut context = module.make_context();
    context.func.signature = signature;
    context.func.name = UserFuncName::user(0, 0);
    let mut memory = FunctionBuilderContext::new();
    let config = module.target_config();
    let b = FunctionBuilder::new(&mut context.func, &mut memory);
    translate(module, b)?.finalize(config);
    Ok(Function { name, context, is_slow_path: false })
}

fn machine(optimise: Optimise) -> Result<OwnedTargetIsa, JitError> {
    let err = |what: String| JitError::Machine { what };
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) || cfg!(target_endian = "big") {
        return Err(err("programs are compiled for x86-64 and AArch64, little-endian".into()));
    }
    let mut flags = settings::builder();
    let options = [
        ("opt_level", if optimise == Optimise::Speed { "speed" } else { "none" }),
        ("regalloc_algorithm", if optimise == Optimise::Hardly { "single_pass" } else { "backtracking" }),
        ("is_pic", "false"),
        // A listing distinguishes code from data by it.
        ("machine_code_cfg_info", "true"),
        // Helpers may lie further away than a short call reaches.
        ("use_colocated_libcalls", "false"),
        // No panic passes through the code.
        ("unwind_info", "false"),
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
    s.params.extend([pointer, pointer, types::I64, types::I32, pointer].map(AbiParam::new));
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
        let known = &weir_ir::known_if_checked(&program).unwrap();
        let (starts, flows, uses) = (&Starts::of(&program), &CachePlan::of(&program), &Uses::of(&program));
        let input = Input { program: &program, known, starts, flows, uses };
        for optimise in [Optimise::Speed, Optimise::Nothing] {
            let functions = |module: &mut JITModule| translate(module, input, &Notes::default());
            assert!(optimised(&program, functions, optimise).is_ok());
        }
    }
}
