//! `weir handler`.

use clap::Subcommand;
use clap_complete::engine::ArgValueCandidates;

use super::complete;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui};

/// Options of `weir handler`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Access,
}

#[derive(Debug, Subcommand)]
enum Access {
    /// Read a public handler of a function
    Read {
        #[command(flatten)]
        place: Place,
    },
    /// Write a public handler of a function
    Write {
        #[command(flatten)]
        place: Place,
        /// What to write; - is standard input
        #[arg(default_value = "", allow_hyphen_values = true)]
        value: String,
    },
}

#[derive(Debug, clap::Args)]
struct Place {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    /// The function's identifier
    #[arg(add = ArgValueCandidates::new(complete::functions))]
    function: String,
    /// The handler's public name
    handler: String,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    match &args.action {
        Access::Read { place: p } => {
            let text = p.node.client().read_handler(&p.graph, &p.function, &p.handler)?;
            ui.print(&serde_json::json!({ "value": text }), || text.clone())?;
        }
        Access::Write { place: p, value } => {
            let value = if value == "-" { std::io::read_to_string(std::io::stdin())? } else { value.clone() };
            p.node.client().write_handler(&p.graph, &p.function, &p.handler, &value)?;
            ui.print(&serde_json::json!({ "written": true }), || "written".into())?;
        }
    }
    Ok(())
}
