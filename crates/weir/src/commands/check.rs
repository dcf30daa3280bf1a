//! `weir check`.

use std::path::PathBuf;

use serde::Serialize;
use weir_engine::Plan;

use super::{classes, is_service_graph, read};
use crate::ui::{Failure, Ui};

/// Options of `weir check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Click configuration (.click) or service graph (.yaml, .json); - is standard input
    file: PathBuf,
    #[command(flatten)]
    images: crate::commands::images::ImageArgs,
}

#[derive(Serialize)]
struct Report {
    file: String,
    elements: usize,
    connections: usize,
    tables: usize,
    blocks: usize,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let text = read(&args.file)?;
    let name = args.file.display().to_string();
    let config = if is_service_graph(&args.file, &text) {
        ui.progress("compiling the service graph");
        crate::commands::images::compile(&args.images, &name, &text)?.config
    } else {
        text
    };
    let plan = Plan::new(&classes(), &config, &name).map_err(|e| Failure::Refused(e.0))?;
    let program = plan.program();
    let report = Report {
        file: name,
        elements: plan.graph.elements.len(),
        connections: plan.graph.connections.len(),
        tables: program.tables.len(),
        blocks: program.blocks.len(),
    };
    ui.print(&report, || {
        format!(
            "{}: {} ({} elements, {} connections)",
            report.file,
            ui.good("ok"),
            report.elements,
            report.connections
        )
    })?;
    Ok(())
}
