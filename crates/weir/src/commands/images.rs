//! Function images, for commands that compile a service graph without a node.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use weir_model::graph::ServiceGraph;
use weir_model::template::Template;
use weir_switch::compile::Compiled;

use crate::ui::Failure;

/// Where images are.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Directory of function images (may be repeated)
    #[arg(long = "images", value_name = "DIR", default_value = "images")]
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
    for directory in directories {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
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
