//! Sets the compiler up, and keeps the code it makes.

use cranelift_codegen::ir::{AbiParam, Signature, UserFuncName, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenError, Context};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError, default_libcall_names};
use weir_ir::{Known, Program};

use crate::JitError;
use crate::ahead::Slice;
use crate::compile::{Notes, Translator};
use crate::flows::Plan;
use crate::helpers::{Code, Helper};
use crate::profile::borders;
use crate::rare;
use crate::starts::Starts;

/// What is compiled: a checked program, and what follows from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    pub program: &'a Program,
    /// What is known of the packet's bounds.
    pub known: &'a Known,
    pub starts: &'a Starts,
    /// The lookups whose results are kept for each flow.
    pub flows: &'a Plan,
}

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
            // SAFETY: the pointers into this memory go with it (`Machine`, `Ahead`), and no run is under way, because
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
        let program = input.program;
        let notes = || Notes { probes: probes.then(|| borders(program)), ..Notes::default() };
        let (code, memory) = compile(program, |module| Ok(vec![translate(module, input, notes())?]))?;
        Ok(Machine { code: code[0], _memory: memory })
    }
}

/// What makes keys of lookups before a batch runs.
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
            slices.iter().map(|slice| translate_slice(module, input, slice)).collect()
        })?;
        Ok(Some(Ahead { slices: slices.into_iter().zip(code).collect(), _memory: memory }))
    }
}

/// Compiles functions of a program.
fn compile(
    program: &Program,
    functions: impl Fn(&mut JITModule) -> Result<Vec<Context>, Box<ModuleError>>,
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
    functions: impl Fn(&mut JITModule) -> Result<Vec<Context>, Box<ModuleError>>,
    optimise: Optimise,
) -> Result<(Vec<Code>, Memory), JitError> {
    let mut memory = Memory(Some(new_module(optimise)?));
    let module = memory.0.as_mut().expect("it is not dropped yet");
    let contexts = functions(module).map_err(|source| failed(program, source))?;
    rare::make(module, || new_module(Optimise::Speed))?;
    let code = define(module, contexts).map_err(|source| failed(program, source))?;
    Ok((code, memory))
}

/// Makes machine code of functions.
fn define(module: &mut JITModule, contexts: Vec<Context>) -> Result<Vec<Code>, Box<ModuleError>> {
    let mut ids = Vec::new();
    for (i, mut context) in contexts.into_iter().enumerate() {
        let name = format!("program{i}");
        let id = module.declare_function(&name, Linkage::Export, &context.func.signature)?;
        module.define_function(id, &mut context)?;
        ids.push(id);
    }
    module.finalize_definitions()?;
    let code = ids.into_iter().map(|id| {
        let address = module.get_finalized_function(id);
        // SAFETY: the function was compiled with the signature of `Code` (see `signature`).
        unsafe { std::mem::transmute::<*const u8, Code>(address) }
    });
    Ok(code.collect())
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

/// Translates a checked program, for who looks at what becomes of it.
pub(crate) fn with_translation<R>(
    program: &Program,
    notes: Notes,
    look: impl FnOnce(&JITModule, &mut Context) -> Result<R, Box<ModuleError>>,
) -> Result<R, JitError> {
    let known = &weir_ir::known_if_checked(program).map_err(JitError::Unchecked)?;
    let mut module = new_module(Optimise::Speed)?;
    let input = Input { program, known, starts: &Starts::of(program), flows: &Plan::of(program) };
    let seen = translate(&mut module, input, notes).and_then(|mut context| look(&module, &mut context));
    // SAFETY: nothing was defined in the module, so nothing has a pointer into its memory.
    unsafe { module.free_memory() };
    seen.map_err(|source| failed(program, source))
}

/// The machine code of a program as assembly text, with the compiler's block numbers.
pub fn disassemble(program: &Program) -> Result<String, JitError> {
    with_translation(program, Notes::default(), |module, context| {
        context.set_disasm(true);
        match context.compile(module.isa(), &mut Default::default()) {
            Ok(code) => Ok(code.vcode.clone().unwrap_or_default()),
            Err(e) => Err(Box::new(ModuleError::Compilation(e.inner))),
        }
    })
}

/// A module whose code may call helpers.
fn new_module(optimise: Optimise) -> Result<JITModule, JitError> {
    let mut builder = JITBuilder::with_isa(machine(optimise)?, default_libcall_names());
    for &h in Helper::ALL {
        builder.symbol(h.name(), h.address());
    }
    builder.symbol_lookup_fn(Box::new(rare::find));
    Ok(JITModule::new(builder))
}

/// The program in the compiler's own form.
fn translate(module: &mut JITModule, input: Input<'_>, notes: Notes) -> Result<Context, Box<ModuleError>> {
    function(module, |module, b| {
        let mut t = Translator::new(input, module, b);
        t.notes = notes;
        t.translate()
    })
}

/// As [`translate`], a slice of the program.
fn translate_slice(
    module: &mut JITModule,
    input: Input<'_>,
    slice: &Slice,
) -> Result<Context, Box<ModuleError>> {
    function(module, |module, b| Ok(Translator::new(input, module, b).translate_slice(slice)))
}

fn function(
    module: &mut JITModule,
    translate: impl for<'b> FnOnce(
        &mut JITModule,
        FunctionBuilder<'b>,
    ) -> Result<FunctionBuilder<'b>, Box<ModuleError>>,
) -> Result<Context, Box<ModuleError>> {
    let mut context = module.make_context();
    context.func.signature = signature(module);
    context.func.name = UserFuncName::user(0, 0);
    let mut memory = FunctionBuilderContext::new();
    let config = module.target_config();
    let b = FunctionBuilder::new(&mut context.func, &mut memory);
    translate(module, b)?.finalize(config);
    Ok(context)
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
        // A listing tells code from data by it.
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
        let input =
            Input { program: &program, known, starts: &Starts::of(&program), flows: &Plan::of(&program) };
        for optimise in [Optimise::Speed, Optimise::Nothing] {
            let functions = |module: &mut JITModule| Ok(vec![translate(module, input, Notes::default())?]);
            assert!(optimised(&program, functions, optimise).is_ok());
        }
    }
}
