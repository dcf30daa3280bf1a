//! Function images: `weir images`, and those of commands that compile a service graph without a node.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_complete::engine::ArgValueCandidates;
use weir_api::images::{ImageDetails, ImageList, Parameter};
use weir_model::graph::ServiceGraph;
use weir_node::archives::Archives;
use weir_node::candidates::Candidates;
use weir_node::guard;
use weir_node::images::Images;
use weir_node::resources::Resources;
use weir_switch::compile::CompileError;
use weir_switch::config::Compiled;

use super::complete;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui, table};

/// Options of `weir images`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The image; all, if left out
    #[arg(add = ArgValueCandidates::new(complete::images))]
    image: Option<String>,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let client = args.node.client()?;
    match &args.image {
        Some(name) => {
            let image = client.image(name)?;
            ui.print(&image, || details(&image, *ui))?;
        }
        None => {
            let images = client.images()?;
            ui.print(&images, || list(&images, *ui))?;
        }
    }
    Ok(())
}

fn list(list: &ImageList, ui: Ui) -> String {
    let mut out = String::new();
    for image in &list.images {
        let version = image.version.as_ref().map_or(String::new(), |v| format!(" {v}"));
        _ = writeln!(
            out,
            "{}{version}{}: {}",
            ui.bold(&image.name),
            kind(&image.kind),
            image.description.trim()
        );
        _ = writeln!(out, "  ports: {}", image.ports.join(", "));
        out.push_str(&abilities(&image.capabilities, &image.features));
        out.push_str(&parameters(&image.params));
        out.push('\n');
    }
    if list.images.is_empty() {
        out.push_str("no images\n");
    }
    for e in &list.errors {
        let line = format!("{} cannot be used: {}", e.path, e.errors.join("\n    "));
        _ = writeln!(out, "{}", ui.bad(&line));
    }
    out
}

fn details(image: &ImageDetails, ui: Ui) -> String {
    let version = image.version.as_ref().map_or(String::new(), |v| format!(" {v}"));
    let mut out =
        format!("{}{version}{}\n{}\n", ui.bold(&image.name), kind(&image.kind), image.description.trim());
    out.push_str(&abilities(&image.capabilities, &image.features));
    let mut rows = vec![["PORT", ""].map(str::to_owned).to_vec()];
    rows.extend(image.ports.iter().map(|p| vec![p.name.clone(), p.doc.clone()]));
    _ = write!(out, "\n{}", table(&rows, &[]));
    if !image.params.is_empty() {
        _ = write!(out, "\n{}", parameters(&image.params));
    }
    if !image.handlers.is_empty() {
        let mut rows = vec![["HANDLER", "ACCESS", ""].map(str::to_owned).to_vec()];
        rows.extend(image.handlers.iter().map(|h| vec![h.name.clone(), h.access.clone(), h.doc.clone()]));
        _ = write!(out, "\n{}", table(&rows, &[]));
    }
    out
}

/// What graphs can ask for to get an image.
fn abilities(capabilities: &[String], features: &[String]) -> String {
    match (capabilities, features) {
        ([], _) => String::new(),
        (all, []) => format!("  capability: {}\n", all.join(", ")),
        (all, features) => format!("  capability: {}, with {}\n", all.join(", "), features.join(", ")),
    }
}

/// What runs it, if that is not the data plane.
fn kind(kind: &str) -> String {
    if kind == "click" { String::new() } else { format!(" ({kind})") }
}

fn parameters(params: &[Parameter]) -> String {
    if params.is_empty() {
        return String::new();
    }
    let mut rows = vec![["PARAMETER", "VALUES", "DEFAULT", ""].map(str::to_owned).to_vec()];
    rows.extend(params.iter().map(|p| {
        let default = match &p.default {
            Some(text) if text.is_empty() => "\"\"".to_owned(),
            Some(text) => text.clone(),
            None => "(needed)".to_owned(),
        };
        let values = if p.secret { format!("{} (secret)", p.values) } else { p.values.clone() };
        vec![p.name.clone(), values, default, p.doc.clone()]
    }));
    table(&rows, &[])
}

/// Where images that are archives are unpacked, if this user has a folder for such things.
pub(super) fn archives() -> Option<Archives> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(Archives::shared(cache.join("weir/images")))
}

/// Where images are, unless something else is said.
pub(super) const DIRECTORY: &str = "images";

/// Where images are.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Directory of function images (may be repeated) [default: images, if it is there]
    #[arg(long = "images", value_name = "DIR")]
    pub(crate) directories: Vec<PathBuf>,
}

/// Compiles a service graph with the images of these directories, as a node does; gives the graph that it becomes when functions that
/// are made of functions are replaced by these.
pub(crate) fn compile(
    args: &ImageArgs,
    file: &str,
    text: &str,
    ui: &Ui,
) -> Result<(ServiceGraph, Compiled), Failure> {
    let refuse = |e: &dyn std::fmt::Display| format!("{file}: {e}");
    let graph = ServiceGraph::parse(text)
        .map_err(|e| Failure::Refused(e.to_string().lines().map(|l| refuse(&l)).collect()))?;
    let usual = args.directories.is_empty() && Path::new(DIRECTORY).exists();
    let usual = usual.then(|| vec![PathBuf::from(DIRECTORY)]);
    let directories = usual.as_ref().unwrap_or(&args.directories);
    for directory in directories {
        std::fs::read_dir(directory)
            .with_context(|| format!("cannot read the images in {}", directory.display()))?;
    }
    let archives = archives();
    let mut images = Images::read(directories, archives.as_ref());
    images.add_scripts(&graph);
    // A node that lacks a program, or memory, may choose otherwise.
    let refuse_all = |errors: Vec<CompileError>| Failure::Refused(errors.iter().map(|e| refuse(e)).collect());
    let chosen = Candidates::new(&images, None).choose(&graph, Resources::UNBOUNDED, &|_| None);
    let chosen = chosen.map_err(refuse_all)?;
    for c in &chosen.choices {
        ui.note(&format!(
            "{file}: function {} is checked as the image '{}'; a node may choose another for '{}'",
            c.function, c.image, c.capability
        ));
    }
    let whole = chosen.graph(&graph);
    let compiled = guard::compile(whole, |f| chosen.image(f)).map_err(|e| refuse_all(chosen.placed(e)))?;
    Ok((whole.clone(), compiled))
}
