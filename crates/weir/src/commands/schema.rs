//! `weir schema`.

use weir_model::schema::Document;

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
    let document = match args.document {
        Kind::Graph => Document::Graph,
        Kind::Function => Document::Function,
        Kind::Topology => Document::Topology,
        Kind::Request => Document::Request,
    };
    let schema = document.json_schema();
    ui.print(&schema, || format!("{schema:#}\n"))?;
    Ok(())
}
