//! `weir ir --ebpf`: what the kernel would run of a configuration, or why it would not.

use std::fmt::Write;

use clap::ValueEnum;
use serde::Serialize;
use weir_ebpf::{Hook, Options, compile};
use weir_ir::Program;
use weir_ir::program::EntryKind;

use crate::ui::{Failure, Ui};

/// The hooks of the kernel for which a program can be compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HookName {
    /// When a frame comes in, before anything else is done with it
    Xdp,
    /// When a packet comes in, as the kernel has it: unsegmented, with unfinished checksums
    Tc,
}

/// The program of one input.
#[derive(Debug, Serialize)]
struct Compiled {
    element: String,
    input: u32,
    /// Instructions and maps; without them it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Why the kernel cannot run it, element by element.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
}

/// Prints the program of each input at which packets come in. That there is one that cannot be compiled is no failure: it is an answer.
pub(crate) fn print(
    program: &Program,
    element: Option<&str>,
    hook: HookName,
    ui: &Ui,
) -> Result<(), Failure> {
    let hook = match hook {
        HookName::Xdp => Hook::Xdp,
        HookName::Tc => Hook::Tc,
    };
    let options = Options { hook, ..Options::default() };
    let mut all = Vec::new();
    for entry in &program.entries {
        let EntryKind::Packet { port } = entry.kind else { continue };
        let Some(name) = program.elements.get(entry.owner as usize) else { continue };
        if element.is_some_and(|wanted| wanted != name) {
            continue;
        }
        let mut compiled = Compiled {
            element: name.clone(),
            input: port,
            instructions: None,
            text: None,
            refused: Vec::new(),
        };
        match compile(program, entry.block, &options) {
            Ok(object) => {
                compiled.instructions = Some(object.code.len());
                compiled.text = Some(object.text());
            }
            Err(refused) => compiled.refused = refused.0.iter().map(ToString::to_string).collect(),
        }
        all.push(compiled);
    }
    if all.is_empty() {
        return Err(Failure::refused(
            "no packets come in at a program: the kernel would have nothing to run",
        ));
    }
    ui.print(&all, || all.iter().map(|c| text(c, *ui)).collect::<Vec<_>>().join("\n"))?;
    Ok(())
}

fn text(c: &Compiled, ui: Ui) -> String {
    let Compiled { element, input, .. } = c;
    let mut out = String::new();
    match (&c.text, c.instructions) {
        (Some(text), Some(n)) => {
            _ = writeln!(out, "{}", ui.bold(&format!("; input {input} of {element}: {n} instructions")));
            out += text;
        }
        _ => {
            let head = format!("; input {input} of {element}: the kernel cannot run it");
            _ = writeln!(out, "{}", ui.bold(&head));
            for reason in &c.refused {
                _ = writeln!(out, ";   {reason}");
            }
        }
    }
    out
}
