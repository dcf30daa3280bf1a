//! `weir logs`, `weir shell`, and what they and the node stand on.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap_complete::engine::ArgValueCandidates;
use weir_node::compute::launch::Launch;

use super::complete;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui};

/// The command that becomes a program inside a function.
pub(crate) const EXEC: &str = "function-exec";

/// The command that becomes the process which workers are copies of.
pub(crate) const ZYGOTE: &str = "zygote";

/// Options of `weir logs`.
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    place: FunctionRef,
    /// Go on with what comes, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Debug, clap::Args)]
struct FunctionRef {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    /// The function's identifier
    #[arg(add = ArgValueCandidates::new(complete::functions))]
    function: String,
}

/// Options of `weir shell`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    place: FunctionRef,
    #[command(flatten)]
    node: NodeArgs,
    /// A program with its arguments; without one, a shell
    #[arg(last = true)]
    command: Vec<String>,
}

/// Options of the command that becomes a program.
#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    /// A file that says where and what
    launch: PathBuf,
}

pub(crate) fn logs(args: &LogsArgs, ui: &Ui) -> Result<(), Failure> {
    let FunctionRef { graph, function } = &args.place;
    let mut log = args.node.client()?.log(graph, function, args.follow)?;
    let mut out = std::io::stdout().lock();
    let (mut bytes, mut any) = ([0; 64 << 10], false);
    loop {
        let read = log.read(&mut bytes).context("the node ended the output").map_err(Failure::Unreachable)?;
        if read == 0 {
            break;
        }
        any = true;
        out.write_all(&bytes[..read])?;
        out.flush()?;
    }
    if args.follow {
        // It goes on as long as there is something to follow.
        ui.note(&format!("function {function} of graph {graph} is there no longer: its output ends"));
    } else if !any {
        ui.note("no output");
    }
    Ok(())
}

pub(crate) fn shell(args: &ShellArgs) -> Result<(), Failure> {
    let FunctionRef { graph, function } = &args.place;
    let inside = args.node.client()?.inside(graph, function)?;
    let mut launch: Launch = serde_json::from_value(inside.launch)
        .context("the node is of another version than this program")
        .map_err(Failure::Other)?;
    if !args.command.is_empty() {
        launch.command.clone_from(&args.command);
    }
    let terminal = |(name, value)| (String::from(name), value);
    launch.environment.extend(std::env::var("TERM").ok().map(|value| terminal(("TERM", value))));
    become_it(&launch)
}

pub(crate) fn exec(args: &ExecArgs) -> Result<(), Failure> {
    let launch = Launch::take(&args.launch)
        .context("this is no job of the node's: the node alone starts this command")
        .map_err(Failure::Other)?;
    become_it(&launch)
}

fn become_it(launch: &Launch) -> Result<(), Failure> {
    let never: Infallible = launch.exec().map_err(|e| not_started(&e))?;
    match never {}
}

fn not_started(e: &io::Error) -> Failure {
    Failure::refused(match e.kind() {
        io::ErrorKind::PermissionDenied => format!("{e} (be root, on the node's own machine)"),
        _ => e.to_string(),
    })
}

/// Makes workers for the node that has started it.
pub(crate) fn zygote() -> Result<(), Failure> {
    weir_worker::zygote(super::classes).map_err(|e| Failure::Other(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_to_be_root_is_for_missing_permissions_only() {
        let text = |kind| match not_started(&io::Error::new(kind, "cannot start a")) {
            Failure::Refused(texts) => texts.join("\n"),
            _ => panic!("it is a refusal"),
        };
        let root = "cannot start a (be root, on the node's own machine)";
        assert_eq!(text(io::ErrorKind::PermissionDenied), root);
        assert_eq!(text(io::ErrorKind::NotFound), "cannot start a");
    }
}
