//! `weir handler`.

use std::io::IsTerminal;

use clap::Subcommand;
use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use weir_api::client::{ClientError, NodeClient};
use weir_model::nearest::nearest;

use super::complete;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui, table};

/// Options of `weir handler`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Access,
}

#[derive(Debug, Subcommand)]
enum Access {
    /// List the public handlers of a graph's functions
    List {
        /// The graph's identifier
        #[arg(add = ArgValueCandidates::new(complete::graphs))]
        graph: String,
        /// The function's identifier; all functions, if left out
        #[arg(add = ArgValueCandidates::new(complete::functions))]
        function: Option<String>,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Read a public handler of a function
    Read {
        #[command(flatten)]
        place: HandlerRef,
    },
    /// Write a public handler of a function
    Write {
        #[command(flatten)]
        place: HandlerRef,
        /// What to write; - is standard input
        #[arg(default_value = "", allow_hyphen_values = true)]
        value: String,
    },
}

#[derive(Debug, clap::Args)]
struct HandlerRef {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    /// The function's identifier
    #[arg(add = ArgValueCandidates::new(complete::functions))]
    function: String,
    /// The handler's public name
    #[arg(add = ArgValueCandidates::new(complete::handlers))]
    handler: String,
    #[command(flatten)]
    node: NodeArgs,
}

/// A public handler of a function.
#[derive(Debug, Serialize)]
pub(crate) struct Public {
    /// The function's identifier.
    pub(crate) function: String,
    /// Its name.
    pub(crate) handler: String,
    /// `r`, `w` or `rw`.
    pub(crate) access: String,
}

/// The public handlers of a graph's functions, as their images have them.
pub(crate) fn list(client: &NodeClient, graph: &str) -> Result<Vec<Public>, ClientError> {
    let mut found = Vec::new();
    for f in client.status(graph)?.functions {
        let image = match client.image(&f.image) {
            Ok(image) => image,
            // It is gone since the graph was applied.
            Err(ClientError::Problem(_)) => continue,
            Err(e) => return Err(e),
        };
        found.extend(image.handlers.into_iter().map(|h| Public {
            function: f.id.clone(),
            handler: h.name,
            access: h.access,
        }));
    }
    Ok(found)
}

/// A function's text, for a terminal without what would steer that.
fn for_terminal(text: &str) -> String {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if std::io::stdout().is_terminal() { text.replace(steers, "\u{fffd}") } else { text.to_owned() }
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    match &args.action {
        Access::List { graph, function, node } => {
            let client = node.client()?;
            let mut found = list(&client, graph)?;
            if let Some(function) = function {
                let status = client.status(graph)?;
                if !status.functions.iter().any(|f| f.id == *function) {
                    let hint = nearest(function, status.functions.iter().map(|f| f.id.as_str()));
                    return Err(Failure::refused(format!(
                        "there is no function '{function}' in '{graph}'{hint}"
                    )));
                }
                found.retain(|h| h.function == *function);
            }
            ui.print(&serde_json::json!({ "handlers": found }), || {
                let mut rows = vec![["FUNCTION", "HANDLER", "ACCESS"].map(str::to_owned).to_vec()];
                rows.extend(
                    found.iter().map(|h| vec![h.function.clone(), h.handler.clone(), h.access.clone()]),
                );
                if rows.len() > 1 { table(&rows, &[]) } else { "no public handlers\n".to_owned() }
            })?;
        }
        Access::Read { place: p } => {
            let text = p.node.client()?.read_handler(&p.graph, &p.function, &p.handler)?;
            ui.print(&serde_json::json!({ "value": text }), || for_terminal(&text))?;
        }
        Access::Write { place: p, value } => {
            let value = if value == "-" { std::io::read_to_string(std::io::stdin())? } else { value.clone() };
            p.node.client()?.write_handler(&p.graph, &p.function, &p.handler, &value)?;
            ui.print(&serde_json::json!({ "written": true }), || "written".into())?;
        }
    }
    Ok(())
}
