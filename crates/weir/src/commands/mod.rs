//! The commands, one file each.

mod check;
mod config;
mod elements;
mod graphs;
mod handler;
mod images;
mod ir;
mod ir_asm;
mod node;
mod profile;
mod remote;
mod run;
mod steps;
mod watch;

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
    /// Print the program that a configuration becomes, stage by stage, or its machine code
    Ir(ir::Args),
    /// List the elements, or print the manual page of one
    Elements(elements::Args),
    /// Run the node daemon: service graphs come in over REST
    Node(node::Args),
    /// Create a service graph on a node, or change it while it runs
    Apply(graphs::DocumentArgs),
    /// Show what applying a service graph would change
    Plan(graphs::DocumentArgs),
    /// List the graphs of a node
    Ps(graphs::PsArgs),
    /// Show the state of a graph: packets, drops and their reasons
    Show(graphs::ShowArgs),
    /// Remove a graph from a node
    Delete(graphs::GraphArgs),
    /// Read or write a handler of a function
    Handler(handler::Args),
    /// Follow packets through a graph: each element, what it changed, how it ended
    Trace(watch::TraceArgs),
    /// Copy the packets of a link to a pcap file or to standard output
    Capture(watch::CaptureArgs),
    /// Run the data-plane process; the node starts it itself
    Engine(node::EngineArgs),
}

impl Command {
    pub(crate) fn run(self, ui: &Ui) -> Result<(), Failure> {
        match self {
            Command::Run(a) => run::run(&a, ui),
            Command::Check(a) => check::run(&a, ui),
            Command::Ir(a) => ir::run(&a, ui),
            Command::Elements(a) => elements::run(&a, ui),
            Command::Node(a) => node::run(a, ui),
            Command::Apply(a) => graphs::apply(&a, ui),
            Command::Plan(a) => graphs::plan(&a, ui),
            Command::Ps(a) => graphs::ps(&a, ui),
            Command::Show(a) => graphs::show(&a, ui),
            Command::Delete(a) => graphs::delete(&a, ui),
            Command::Handler(a) => handler::run(&a, ui),
            Command::Trace(a) => watch::trace(&a, ui),
            Command::Capture(a) => watch::capture(&a, ui),
            Command::Engine(a) => node::engine(&a, ui),
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
