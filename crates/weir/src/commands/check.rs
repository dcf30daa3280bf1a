//! `weir check`.

use serde::Serialize;
use weir_engine::Plan;

use super::classes;
use super::config::ConfigArgs;
use crate::ui::{Failure, Ui};

/// Options of `weir check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
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
    let (config, name) = args.config.any(&args.images, ui)?;
    let plan = Plan::new(&classes(), &config, &name).map_err(Failure::plan)?;
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
