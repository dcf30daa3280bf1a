//! Function images, for commands that compile a service graph without a node.

use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_model::graph::ServiceGraph;
use weir_node::guard;
use weir_node::images::Images;
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

/// Compiles a service graph with the images of these directories, as a node does.
pub(crate) fn compile(args: &ImageArgs, file: &str, text: &str) -> Result<Compiled, Failure> {
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
    let images = Images::read(directories);
    guard::compile(&graph, |f| images.find(f))
        .map_err(|errors| Failure::Refused(errors.iter().map(|e| refuse(e)).collect()))
}
