//! Function images, for commands that compile a service graph without a node.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use weir_model::graph::ServiceGraph;
use weir_model::template::Template;
use weir_switch::compile::Compiled;

use crate::ui::Failure;

/// Where images are, unless something else is said.
const DIRECTORY: &str = "images";

/// Where images are.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Directory of function images (may be repeated) [default: images, if it is there]
    #[arg(long = "images", value_name = "DIR")]
    pub(crate) directories: Vec<PathBuf>,
}

/// Compiles a service graph with the images of these directories.
pub(crate) fn compile(args: &ImageArgs, file: &str, text: &str) -> Result<Compiled, Failure> {
    let refuse = |e: &dyn std::fmt::Display| format!("{file}: {e}");
    let graph = ServiceGraph::parse(text)
        .map_err(|e| Failure::Refused(e.to_string().lines().map(|l| refuse(&l)).collect()))?;
    let images = load(&args.directories).map_err(Failure::Unreachable)?;
    weir_switch::compile::compile(&graph, |f| images.get(f.template.as_ref().unwrap_or(&f.name).as_str()))
        .map_err(|errors| Failure::Refused(errors.iter().map(|e| refuse(e)).collect()))
}

fn load(directories: &[PathBuf]) -> anyhow::Result<BTreeMap<String, Template>> {
    let mut images = BTreeMap::new();
    let usual = PathBuf::from(DIRECTORY);
    let usual = if directories.is_empty() && usual.exists() { Some(&usual) } else { None };
    for directory in directories.iter().chain(usual) {
        let entries = std::fs::read_dir(directory)
            .with_context(|| format!("cannot read the images in {}", directory.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("cannot read {}", directory.display()))?.path();
            let image =
                path.is_dir() || path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
            if image {
                let t = Template::load(&path).map_err(|e| anyhow!(e).context("an image is wrong"))?;
                images.entry(t.name.to_string()).or_insert(t);
            }
        }
    }
    Ok(images)
}
