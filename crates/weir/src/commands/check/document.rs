//! Documents that can be checked.

use std::fmt;
use std::path::Path;

use serde::Serialize;
use weir_check::World;
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_node::guard;
use weir_plan::Plan;
use weir_topology::{Topology, TopologyError};

use super::change::Change;
use crate::commands::config::Source;
use crate::commands::images::{self, ImageArgs};
use crate::commands::{classes, is_service_graph};
use crate::ui::{Failure, Ui};

/// A document as a network with names.
pub(super) struct Document {
    pub name: String,
    pub world: World,
    /// Those that stand in it.
    pub requirements: Vec<Requirement>,
    pub size: Size,
}

/// How much there is.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(super) enum Size {
    /// Of a configuration or a service graph.
    Configuration { elements: usize, connections: usize, tables: usize, blocks: usize },
    /// Of a request.
    Request { modules: usize, links: usize, nodes: usize },
    /// Of a topology.
    Topology { boxes: usize, links: usize, nodes: usize },
}

impl Size {
    /// What it is the size of.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Size::Configuration { .. } => "configuration",
            Size::Request { .. } => "request",
            Size::Topology { .. } => "topology",
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Configuration { elements, connections, .. } => {
                write!(f, "{elements} elements, {connections} connections")
            }
            Size::Request { modules, links, .. } => write!(f, "{modules} modules, {links} links"),
            Size::Topology { boxes, links, .. } => write!(f, "{boxes} boxes, {links} links"),
        }
    }
}

fn size(plan: &Plan) -> Size {
    let program = plan.program();
    Size::Configuration {
        elements: plan.graph.elements.len(),
        connections: plan.graph.connections.len(),
        tables: program.tables.len(),
        blocks: program.blocks.len(),
    }
}

/// Reads a document of any kind, with changes for a topology.
pub(super) fn load(
    source: &Source,
    images: &ImageArgs,
    changes: &[Change],
    ui: &Ui,
) -> Result<Document, Failure> {
    let (text, name) = source.text()?;
    if let Some(file) = source.file().filter(|file| is_topology(file, &text)) {
        source.no_parameters(&name)?;
        return topology(file, name, &text, changes);
    }
    if !changes.is_empty() {
        return Err(Failure::refused(format!("--what-if changes a topology, and {name} is none")));
    }
    if source.file().is_some_and(|file: &Path| is_service_graph(file, &text)) {
        source.no_parameters(&name)?;
        ui.progress("compiling the service graph");
        return service_graph(images, name, &text, ui);
    }
    click(source, name, &text)
}

/// Whether a file is a topology rather than a service graph.
fn is_topology(path: &Path, text: &str) -> bool {
    let structured = matches!(path.extension().and_then(|e| e.to_str()), Some("yaml" | "yml" | "json"));
    let json = text.trim_start().starts_with('{') && text.contains("\"boxes\"");
    json || structured && text.lines().any(|l| l.starts_with("boxes:") || l.starts_with("\"boxes\":"))
}

fn topology(path: &Path, name: String, text: &str, changes: &[Change]) -> Result<Document, Failure> {
    let refuse =
        |lines: Vec<String>| Failure::Refused(lines.iter().map(|l| format!("{name}: {l}")).collect());
    let topology = if path == Path::new("-") {
        let topology = Topology::parse(text).map_err(|e| refuse(lines(&e)))?;
        known(&topology, changes)?;
        topology
    } else {
        load_topology(path, changes)?
    };
    let world = World::of_topology(&topology, &classes(), |a, b| changes.iter().any(|c| c.cuts(a, b)))
        .map_err(refuse)?;
    let (boxes, links, nodes) = (topology.boxes.len(), topology.links.len(), world.net.nodes().len());
    let size = Size::Topology { boxes, links, nodes };
    Ok(Document { name, world, requirements: topology.requirements, size })
}

/// Loads a topology that has what the changes name.
pub(super) fn load_topology(path: &Path, changes: &[Change]) -> Result<Topology, Failure> {
    let topology = Topology::load(path).map_err(|e| match &e {
        TopologyError::Document { path, source } => {
            Failure::Refused(lines(source).iter().map(|l| format!("{}: {l}", path.display())).collect())
        }
        TopologyError::Io { .. } => Failure::Unreachable(e.into()),
    })?;
    known(&topology, changes)?;
    Ok(topology)
}

fn known(topology: &Topology, changes: &[Change]) -> Result<(), Failure> {
    let errors: Vec<String> = changes.iter().filter_map(|c| c.unknown(topology)).collect();
    if errors.is_empty() { Ok(()) } else { Err(Failure::Refused(errors)) }
}

fn service_graph(images: &ImageArgs, name: String, text: &str, ui: &Ui) -> Result<Document, Failure> {
    let (graph, compiled) = images::compile(images, &name, text, ui)?;
    let refuse =
        |lines: Vec<String>| Failure::Refused(lines.iter().map(|l| format!("{name}: {l}")).collect());
    let plan = Plan::new(&classes(), &compiled.config.text, &name).map_err(|e| {
        refuse(guard::placed(&graph, &compiled, &e).iter().map(ToString::to_string).collect())
    })?;
    let world = World::of_graph(&graph, &compiled.plan.names(), &plan).map_err(refuse)?;
    let size = size(&plan);
    Ok(Document { name, world, requirements: graph.into_parts().requirements, size })
}

/// A configuration, in which requirements may stand, or several as the modules of a request.
fn click(source: &Source, name: String, text: &str) -> Result<Document, Failure> {
    let request = Request::parse(text);
    let plain = |r: &Request| matches!(r.modules.as_slice(), [m] if m.name == weir_model::request::UNNAMED && m.stock.is_none());
    let (text, requirements) = match &request {
        Ok(r) if !plain(r) && !r.modules.is_empty() => {
            source.no_parameters(&name)?;
            let world = World::of_request(r, &classes(), &name).map_err(Failure::Refused)?;
            let size = Size::Request {
                modules: r.modules.len(),
                links: r.links.len(),
                nodes: world.net.nodes().len(),
            };
            return Ok(Document { name, world, requirements: r.requirements.clone(), size });
        }
        Ok(r) => (r.modules.first().map_or(text, |m| m.click.as_str()), r.requirements.clone()),
        // Click's own reader says better what is wrong with Click's text.
        Err(e) => {
            source.plan(text, &name).map_err(Failure::plan)?;
            return Err(Failure::Refused(lines(e).iter().map(|l| format!("{name}: {l}")).collect()));
        }
    };
    let plan = source.plan(text, &name).map_err(Failure::plan)?;
    let size = size(&plan);
    Ok(Document { name, world: World::of_click(&plan), requirements, size })
}

fn lines(e: &impl fmt::Display) -> Vec<String> {
    e.to_string().lines().map(str::to_owned).collect()
}
