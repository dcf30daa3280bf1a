//! The commands, one file each.

mod check;
mod elements;
mod images;
mod ir;
mod run;
mod steps;

use std::path::Path;

use anyhow::Context;
use clap::Subcommand;

use crate::ui::{Failure, Ui};

/// All commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a Click configuration, without a node
    Run(run::Args),
    /// Check a Click configuration or a service graph without running it
    Check(check::Args),
    /// Print the program that a configuration becomes, stage by stage
    Ir(ir::Args),
    /// List the elements, or print the manual page of one
    Elements(elements::Args),
}

impl Command {
    pub(crate) fn run(self, ui: &Ui) -> Result<(), Failure> {
        match self {
            Command::Run(a) => run::run(&a, ui),
            Command::Check(a) => check::run(&a, ui),
            Command::Ir(a) => ir::run(&a, ui),
            Command::Elements(a) => elements::run(&a, ui),
        }
    }
}

/// The classes of this program.
pub(crate) fn classes() -> weir_engine::Classes {
    weir_engine::Classes::with(weir_switch::CLASSES.iter().copied())
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let read = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).context("cannot read standard input")
    } else {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    read.map_err(Failure::Unreachable)
}

/// Whether a file is a service graph rather than a Click configuration, by its name or else by its text.
pub(crate) fn is_service_graph(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|e| e.to_str()) {
        Some("yaml" | "yml" | "json") => true,
        Some("click") => false,
        _ => text.trim_start().starts_with('{') && text.contains("flowrules"),
    }
}
