//! `weir ir --asm`: machine code beside the program that it comes from.

use std::collections::HashMap;
use std::fmt::Write;

use serde::Serialize;
use weir_ir::Program;
use weir_jit::{Instruction, JitError, Origin};

use crate::ui::{Failure, Ui};

/// Where the column of the program begins; longer instructions push it to the right.
const COLUMN: usize = 52;

/// The machine code of a program, or of one element in it.
#[derive(Debug, Serialize)]
pub(crate) struct Asm {
    stage: String,
    /// The element whose code this is, if not all is wanted.
    #[serde(skip)]
    of: Option<String>,
    /// Bytes of code, those of other elements included.
    size: usize,
    instructions: Vec<Line>,
}

/// An instruction and its place in the program.
#[derive(Debug, Serialize)]
struct Line {
    /// The function that begins here, behind the one in which packets start.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    /// Bytes from the start of the code.
    offset: Option<u32>,
    bytes: String,
    instruction: String,
    /// Number of the block; it and what follows are missing for what the compiler adds.
    block: Option<u32>,
    element: Option<String>,
    /// The operation or end of the block, as in the program's text.
    ir: Option<String>,
}

impl Asm {
    /// Compiles a program.
    pub(crate) fn of(stage: &str, program: &Program, element: Option<&str>) -> Result<Asm, Failure> {
        let code = weir_jit::listing(program).map_err(failure)?;
        let lines = ir_lines(program);
        let size = code.iter().map(|i| i.bytes.len()).sum();
        let line = |i: Instruction| {
            let block = i.origin.and_then(|o| program.blocks.get(o.block.0 as usize));
            Line {
                function: i.function,
                offset: i.offset,
                bytes: i.bytes.iter().map(|b| format!("{b:02x}")).collect(),
                instruction: i.text,
                block: i.origin.map(|o| o.block.0),
                element: block.and_then(|b| program.elements.get(b.owner as usize)).cloned(),
                ir: i.origin.and_then(|o| lines.get(&o)).cloned(),
            }
        };
        let kept = |l: &Line| element.is_none_or(|e| l.element.as_deref() == Some(e));
        let (mut instructions, mut function) = (Vec::new(), None);
        for mut line in code.into_iter().map(line) {
            function = line.function.take().or(function);
            if kept(&line) {
                line.function = function.take();
                instructions.push(line);
            }
        }
        Ok(Asm { stage: stage.to_owned(), of: element.map(str::to_owned), size, instructions })
    }

    /// Instructions on the left, on the right the operation where another one begins (`-`: none).
    pub(crate) fn text(&self, ui: Ui) -> String {
        let head = format!("; {}: {} bytes of machine code", self.stage, self.size);
        let mut out = format!("{}\n", ui.bold(&head));
        if let (Some(element), []) = (&self.of, &self.instructions[..]) {
            _ = writeln!(
                out,
                "; no instruction is of {element}: what no packet reaches, or nobody reads, has no code"
            );
        }
        let mut before: Option<(Option<u32>, &Option<String>)> = None;
        let mut end = None;
        for l in &self.instructions {
            if end.is_some() && end != l.offset {
                // Other elements' code is between.
                out.push('\n');
                before = None;
            }
            end = l.offset.map(|o| o + l.bytes.len() as u32 / 2);
            if let Some(function) = &l.function {
                _ = writeln!(out, "\n{}", ui.bold(&format!("{function}:")));
            }
            let address = l.offset.map_or(String::new(), |o| format!("{o:6x}  "));
            let left = format!("{address}{}", l.instruction);
            let here = (l.block, &l.ir);
            let right = match (&l.block, &l.element, &l.ir) {
                _ if before == Some(here) => String::new(),
                (Some(block), Some(element), Some(ir)) => format!("b{block} {element}: {ir}"),
                _ if l.offset.is_none() => String::new(),
                _ => "-".to_owned(),
            };
            before = Some(here);
            if right.is_empty() {
                _ = writeln!(out, "{left}");
            } else {
                _ = writeln!(out, "{left:COLUMN$}  {}", ui.dim(&right));
            }
        }
        out
    }
}

fn failure(e: JitError) -> Failure {
    match e {
        JitError::Machine { .. } => Failure::refused(e.to_string()),
        e => Failure::Other(e.into()),
    }
}

/// The text of every operation and end. Each is a line of the program's text, after the line of its block.
fn ir_lines(program: &Program) -> HashMap<Origin, String> {
    let text = program.to_string();
    let mut lines = text.lines().skip_while(|l| !is_label(l));
    let mut all = HashMap::new();
    for (block, b) in (0..).map(weir_ir::program::BlockId).zip(&program.blocks) {
        let body = lines.by_ref().skip_while(|l| !is_label(l)).skip(1).take(b.ops.len() + 1);
        all.extend(body.enumerate().map(|(op, l)| (Origin { block, op }, l.trim().to_owned())));
    }
    all
}

/// Whether a line is the first of a block: `b12(…) … :`.
fn is_label(line: &str) -> bool {
    line.strip_prefix('b').is_some_and(|l| l.starts_with(|c: char| c.is_ascii_digit()))
}
