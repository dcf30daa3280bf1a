//! `weir ir`.

use std::fmt::Write;
use weir_ir::Program;

use super::config::ConfigArgs;
use super::ir_asm::Asm;
use super::ir_ebpf::{self, HookName};
use crate::ui::{Failure, Ui};

/// Options of `weir ir`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print this stage only: linked, a pass, or "last"
    #[arg(long)]
    stage: Option<String>,
    /// Print the blocks of this element only
    #[arg(long)]
    element: Option<String>,
    /// Print how many blocks and operations each stage has, and no programs
    #[arg(long)]
    summary: bool,
    /// Print the machine code of what runs (or of the stage), with the line of the program that each instruction comes
    /// from beside it
    #[arg(long, conflicts_with = "summary")]
    asm: bool,
    /// Print what the kernel would run at this hook, for each input at which packets come in, or why it cannot
    #[arg(long, value_name = "HOOK", conflicts_with_all = ["summary", "asm", "stage"])]
    ebpf: Option<HookName>,
    #[command(flatten)]
    images: crate::commands::images::ImageArgs,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let plan = args.config.one()?.any(&args.images, ui)?;
    let stages: Vec<(String, Program)> = std::iter::once(("linked".to_owned(), (**plan.program()).clone()))
        .chain(weir_ir::stages((**plan.program()).clone()).into_iter().map(|(n, p)| (n.to_owned(), p)))
        .collect();
    if let Some(hook) = args.ebpf {
        let program = plan.optimized().program;
        check_element(&program, args)?;
        return ir_ebpf::print(&program, args.element.as_deref(), hook, ui);
    }
    if args.asm && args.stage.is_none() {
        return print_asm(&[&("runs".to_owned(), plan.optimized().program)], args, ui);
    }
    let chosen: Vec<&(String, Program)> = match args.stage.as_deref() {
        None => stages.iter().collect(),
        Some("last") => stages.last().into_iter().collect(),
        Some(wanted) => stages.iter().filter(|(n, _)| n == wanted).collect(),
    };
    if chosen.is_empty() {
        let names: Vec<&str> = stages.iter().map(|(n, _)| n.as_str()).collect();
        return Err(Failure::refused(format!(
            "there is no stage '{}'; the stages are {}",
            args.stage.as_deref().unwrap_or_default(),
            names.join(", ")
        )));
    }
    if args.asm {
        return print_asm(&chosen, args, ui);
    }
    check_element(&chosen[0].1, args)?;
    let value: Vec<_> = chosen.iter().map(|(n, p)| stage_json(n, p, args)).collect();
    ui.print(&value, || {
        let mut out = String::new();
        for (name, program) in &chosen {
            let operations: usize = program.blocks.iter().map(|b| b.ops.len()).sum();
            let head = format!("; {name}: {} blocks, {operations} operations", program.blocks.len());
            _ = writeln!(out, "{}", ui.bold(&head));
            if !args.summary {
                _ = writeln!(out, "{}", program_text(program, args));
            }
        }
        out
    })?;
    Ok(())
}

fn print_asm(chosen: &[&(String, Program)], args: &Args, ui: &Ui) -> Result<(), Failure> {
    let mut all = Vec::new();
    for (name, program) in chosen {
        check_element(program, args)?;
        all.push(Asm::of(name, program, args.element.as_deref())?);
    }
    ui.print(&all, || all.iter().map(|a| a.text(*ui)).collect::<Vec<_>>().join("\n"))?;
    Ok(())
}

fn check_element(program: &Program, args: &Args) -> Result<(), Failure> {
    let Some(element) = args.element.as_ref().filter(|e| !program.elements.contains(e)) else {
        return Ok(());
    };
    let names = program.elements.join(", ");
    Err(Failure::refused(format!("no element '{element}' has a program; there are: {names}")))
}

fn stage_json(name: &str, program: &Program, args: &Args) -> serde_json::Value {
    serde_json::json!({
        "stage": name,
        "blocks": program.blocks.len(),
        "operations": program.blocks.iter().map(|b| b.ops.len()).sum::<usize>(),
        "text": (!args.summary).then(|| program_text(program, args)),
    })
}

fn program_text(program: &Program, args: &Args) -> String {
    let text = program.to_string();
    let Some(element) = &args.element else { return text };
    // Blocks of other elements are left out; a block is a label at the start of a line and what is indented below.
    let owner = program.elements.iter().position(|e| e == element);
    let (mut block, mut keep) = (None::<usize>, true);
    let mut out = String::new();
    for line in text.lines() {
        let label = line.strip_prefix('b').and_then(|l| {
            let digits = l.find(|c: char| !c.is_ascii_digit()).unwrap_or(l.len());
            l[..digits].parse::<usize>().ok()
        });
        if label.is_some() {
            block = label;
            keep = block.and_then(|b| program.blocks.get(b)).is_some_and(|b| Some(b.owner as usize) == owner);
        }
        if keep && block.is_some() {
            _ = writeln!(out, "{line}");
        }
    }
    out
}
