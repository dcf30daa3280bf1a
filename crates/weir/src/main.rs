//! `weir`: the one command.

#![forbid(unsafe_code)]

mod commands;
mod contexts;
mod ui;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use crate::commands::Command;
use crate::ui::{Failure, Ui};

/// Verification makes and drops many small things.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run network services in software: check, run, watch and change service graphs.
///
/// Exit codes: 0 done; 1 what was asked for failed or was refused; 2 the command line is wrong; 3 the node or a file
/// cannot be reached.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// Print results as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Colour: on a terminal only, always or never
    #[arg(long, global = true, value_enum, default_value = "auto")]
    color: ui::Color,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    // A shell that completes a command line asks, and is answered, here.
    CompleteEnv::with_factory(Cli::command).var(commands::COMPLETE).complete();
    let cli = Cli::parse();
    let ui = Ui::new(cli.json, cli.color);
    match with_settings(cli).and_then(|cli| cli.command.run(&ui)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ui.fail(&failure),
    }
}

/// The command line with the settings of the file that it names.
fn with_settings(cli: Cli) -> Result<Cli, Failure> {
    let Some((daemon, file)) = cli.command.settings() else { return Ok(cli) };
    let cli = Cli::command();
    let command = cli.find_subcommand(daemon).cloned().unwrap_or_default();
    let line = commands::expand(std::env::args_os().collect(), daemon, &command, file)?;
    // What a value has to be like is said as of an option.
    Ok(Cli::parse_from(line))
}
