//! Machine code for people to read: each instruction with the operation that it comes from.

use cranelift_codegen::Context;
use cranelift_codegen::ir::{ExternalName, SourceLoc};
use cranelift_codegen::{CompiledCode, FinalizedRelocTarget};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};
use weir_ir::program::{BlockId, Program};

use crate::JitError;
use crate::compile::{Notes, Translator};
use crate::module;

/// A machine instruction (or data between instructions).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
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

/// A place in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The block.
    pub block: BlockId,
    /// Which of its operations; their number stands for the end of the block.
    pub op: usize,
}

/// The machine code of a program, in the order of addresses. One instruction may do the work of several operations
/// (then it bears one of them), and an operation whose result is known or not needed has none. Ways that do the same
/// with other constants have one code, which bears the operations of the first.
///
/// On x86-64 the instructions are those that run (addresses of helpers apart); elsewhere they are the compiler's,
/// without their origin.
///
/// # Errors
/// As [`Compiled::new`](crate::Compiled::new).
pub fn listing(program: &Program) -> Result<Vec<Instruction>, JitError> {
    let numbers = Numbers::of(program);
    let notes = Notes { numbers: Some(numbers.clone()), ..Notes::default() };
    let functions = module::look(program, &notes, !cfg!(target_arch = "x86_64"), |module, f| {
        let code = f.context.compiled_code();
        code.map(|code| instructions(code, &f.context, module, &numbers)).unwrap_or_default()
    })?;
    // One behind another.
    let mut all: Vec<Instruction> = Vec::new();
    for function in functions {
        let end = all.last().and_then(|i| Some(i.offset? + i.bytes.len() as u32)).unwrap_or(0);
        let behind = function.into_iter().map(|i| Instruction { offset: i.offset.map(|at| end + at), ..i });
        all.extend(behind);
    }
    Ok(all)
}

/// Numbers of a program's operations and ends, in the order of its text.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    /// Of the first operation of each block.
    first: Vec<u32>,
}

impl Numbers {
    fn of(p: &Program) -> Numbers {
        let mut next = 0;
        let first = p.blocks.iter().map(|b| {
            let first = next;
            next += b.ops.len() as u32 + 1;
            first
        });
        Numbers { first: first.collect() }
    }

    fn origin(&self, loc: SourceLoc) -> Option<Origin> {
        if loc.is_default() {
            return None;
        }
        let block = self.first.partition_point(|&f| f <= loc.bits()).checked_sub(1)?;
        Some(Origin { block: BlockId(block as u32), op: (loc.bits() - self.first[block]) as usize })
    }
}

impl Translator<'_, '_> {
    /// What is made next comes from an operation of a block, or its end.
    pub(crate) fn note(&mut self, id: BlockId, op: usize) {
        if let Some(numbers) = &self.notes.numbers {
            self.b.set_srcloc(SourceLoc::new(numbers.first[id.0 as usize] + op as u32));
        }
    }

    /// What is made next comes from nothing in the program.
    pub(crate) fn note_nothing(&mut self) {
        self.b.set_srcloc(SourceLoc::default());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn instructions(code: &CompiledCode, _: &Context, _: &JITModule, _: &Numbers) -> Vec<Instruction> {
    let text = code.vcode.as_deref().unwrap_or_default();
    let line =
        |l: &str| Instruction { offset: None, bytes: Vec::new(), text: l.trim().to_owned(), origin: None };
    text.lines().map(line).collect()
}

#[cfg(target_arch = "x86_64")]
fn instructions(
    code: &CompiledCode,
    context: &Context,
    module: &JITModule,
    numbers: &Numbers,
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
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let mut list = Vec::new();
    let push = |list: &mut Vec<Instruction>, from: usize, to: usize, text: String| {
        let loc = location(code, from as u32);
        let origin = loc.and_then(|loc| numbers.origin(loc));
        list.push(Instruction { offset: Some(from as u32), bytes: bytes[from..to].to_vec(), text, origin });
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
        // The table of an indirect jump follows it: a distance for each way.
        if instruction.mnemonic() == Mnemonic::Jmp && instruction.op0_kind() == OpKind::Register {
            let next = code.bb_starts.iter().map(|&b| b as usize).find(|&b| b >= to).unwrap_or(bytes.len());
            for at in (to..next).step_by(4) {
                let end = (at + 4).min(next);
                let word = bytes[at..end].iter().rev().fold(0_u32, |n, &b| n << 8 | u32::from(b));
                let way = (to as u32).wrapping_add(word);
                push(&mut list, at, end, format!("dd {word:#x} ; to {way:#x}"));
            }
            if decoder.set_position(next).is_err() {
                break;
            }
            decoder.set_ip(next as u64);
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
