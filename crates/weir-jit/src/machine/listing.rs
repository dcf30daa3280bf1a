//! Machine code for people to read: each instruction with the operation that it comes from.

use cranelift_codegen::Context;
use cranelift_codegen::ir::{ExternalName, SourceLoc};
use cranelift_codegen::{CompiledCode, FinalizedRelocTarget};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};
use weir_ir::program::Program;

use crate::JitError;
use crate::machine;
use crate::translate::Notes;
use crate::translate::notes::{Numbers, Origin};

/// A machine instruction (or data between instructions).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The name of the function that begins with it, unless that is the one in which packets start.
    pub function: Option<String>,
    /// Where it is in the code, in bytes from the start; `None` where there is no disassembler for the machine, and
    /// the instruction is one of the compiler's own.
    pub offset: Option<u32>,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// As assembly text.
    pub text: String,
    /// What it comes from; `None` for what the compiler adds: the loop over the batch, and moves between registers.
    pub origin: Option<Origin>,
}

/// The machine code of a program, in the order of addresses. One instruction may do the work of several operations
/// (then it bears one of them), and an operation whose result is known or not needed has none. Paths that do the same
/// with other constants have one code, which bears the operations of the first. What packets take once a flow is in
/// functions of its own, behind the one in which packets start.
///
/// On x86-64 the instructions are those that run (addresses of helpers apart); elsewhere they are the compiler's,
/// without their origin.
///
/// # Errors
/// As [`Compiled::new`](crate::Compiled::new).
pub fn listing(program: &Program) -> Result<Vec<Instruction>, JitError> {
    let numbers = Numbers::of(program);
    let notes = Notes { numbers: Some(numbers.clone()), ..Notes::default() };
    let mut end = 0;
    let functions = machine::look(program, &notes, !cfg!(target_arch = "x86_64"), |module, f| {
        let Some(code) = f.context.compiled_code() else { return Vec::new() };
        // One behind another.
        let start = end;
        end += code.buffer.data().len();
        let mut list = instructions(code, &f.context, module, &numbers, start);
        if let Some(first) = list.first_mut().filter(|_| start > 0) {
            first.function = Some(f.name.clone());
        }
        list
    })?;
    Ok(functions.concat())
}

#[cfg(not(target_arch = "x86_64"))]
fn instructions(code: &CompiledCode, _: &Context, _: &JITModule, _: &Numbers, _: usize) -> Vec<Instruction> {
    let text = code.vcode.as_deref().unwrap_or_default();
    let line = |l: &str| Instruction {
        function: None,
        offset: None,
        bytes: Vec::new(),
        text: l.trim().to_owned(),
        origin: None,
    };
    text.lines().map(line).collect()
}

#[cfg(target_arch = "x86_64")]
fn instructions(
    code: &CompiledCode,
    context: &Context,
    module: &JITModule,
    numbers: &Numbers,
    start: usize,
) -> Vec<Instruction> {
    use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter, Mnemonic, OpKind};

    let bytes = code.buffer.data();
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_space_after_operand_separator(true);
    options.set_rip_relative_addresses(true);
    let mut decoder = Decoder::with_ip(64, bytes, start as u64, DecoderOptions::NONE);
    let mut list = Vec::new();
    let push = |list: &mut Vec<Instruction>, from: usize, to: usize, text: String| {
        let loc = location(code, from as u32);
        let origin = loc.and_then(|loc| numbers.origin(loc));
        let (offset, bytes) = (Some((start + from) as u32), bytes[from..to].to_vec());
        list.push(Instruction { function: None, offset, bytes, text, origin });
    };
    while decoder.can_decode() {
        let from = decoder.position();
        let instruction = decoder.decode();
        let to = decoder.position();
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        if let Some(name) = referred(code, context, module, from, to) {
            text = format!("{text} ; {name}");
        }
        push(&mut list, from, to, text);
        // The table of an indirect jump follows it: a distance for each path.
        if instruction.mnemonic() == Mnemonic::Jmp && instruction.op0_kind() == OpKind::Register {
            let next = code.bb_starts.iter().map(|&b| b as usize).find(|&b| b >= to).unwrap_or(bytes.len());
            for at in (to..next).step_by(4) {
                let end = (at + 4).min(next);
                let word = bytes[at..end].iter().rev().fold(0_u32, |n, &b| n << 8 | u32::from(b));
                let path = ((start + to) as u32).wrapping_add(word);
                push(&mut list, at, end, format!("dd {word:#x} ; to {path:#x}"));
            }
            if decoder.set_position(next).is_err() {
                break;
            }
            decoder.set_ip((start + next) as u64);
        }
    }
    list
}

/// The operation's number at an offset.
#[cfg(target_arch = "x86_64")]
fn location(code: &CompiledCode, offset: u32) -> Option<SourceLoc> {
    let all = code.buffer.get_srclocs_sorted();
    let at = all.partition_point(|l| l.start <= offset).checked_sub(1)?;
    (offset < all[at].end).then_some(all[at].loc)
}

/// The function whose address an instruction gets.
#[cfg(target_arch = "x86_64")]
fn referred(
    code: &CompiledCode,
    context: &Context,
    module: &JITModule,
    from: usize,
    to: usize,
) -> Option<String> {
    let range = from as u32..to as u32;
    let relocation = code.buffer.relocs().iter().find(|r| range.contains(&r.offset))?;
    let FinalizedRelocTarget::ExternalName(name) = &relocation.target else { return None };
    if let ExternalName::User(reference) = name {
        let name = context.func.params.user_named_funcs().get(*reference)?;
        // What is no function is data: constants that are chosen by a lane.
        let index = match name.namespace {
            0 => name.index,
            _ => return Some("constants".into()),
        };
        let declared = module.declarations().get_function_decl(FuncId::from_u32(index));
        return Some(declared.linkage_name(FuncId::from_u32(index)).into_owned());
    }
    Some(name.display(Some(&context.func.params)).to_string())
}
