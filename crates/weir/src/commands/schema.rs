//! `weir schema`.

use weir_model::schema::Document;
use weir_topology::Topology;

use crate::ui::{Failure, Ui};

/// Options of `weir schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Of which document
    #[arg(value_enum)]
    document: Kind,
}

/// Documents that have a schema.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// A service graph (docs/service-graph.md)
    Graph,
    /// An image's function.yaml (docs/function.md)
    Function,
    /// A topology (docs/requirements.md)
    Topology,
    /// A request for processing, which is text (docs/requirements.md)
    Request,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let schema = match args.document {
        Kind::Graph => Document::Graph.json_schema(),
        Kind::Function => Document::Function.json_schema(),
        Kind::Topology => Topology::json_schema(),
        Kind::Request => Document::Request.json_schema(),
    };
    ui.print(&schema, || format!("{schema:#}\n"))?;
    Ok(())
}
