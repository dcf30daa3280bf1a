//! `weir image`: function images in folders and in OCI registries.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use serde::Serialize;
use weir_node::images::Images;
use weir_oci::function::{Packed, origin, pack, reference, repository};
use weir_oci::{Error, Registries};

use super::images::DIRECTORY;
use crate::ui::{Failure, Ui, table};

/// Options of `weir image`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    /// A registry, HOST:PORT, that is spoken to without TLS (may be repeated); those on this machine always are
    #[arg(long, value_name = "HOST:PORT", global = true)]
    insecure_registry: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put the image in a folder into a registry; prints its digest, by which it can be pinned
    Push {
        /// The folder with function.yaml
        folder: PathBuf,
        /// Where to: HOST/REPOSITORY:TAG
        to: String,
    },
    /// Get an image from a registry into a folder of images, under its own name
    Pull {
        /// Which: HOST/REPOSITORY:TAG or HOST/REPOSITORY@sha256:…
        from: String,
        /// The folder of images
        #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
        images: PathBuf,
        /// Replace another image of this name
        #[arg(long)]
        replace: bool,
    },
    /// List the images in a folder with their digests, or the tags of a repository
    Ls {
        /// A folder of images, or HOST/REPOSITORY
        #[arg(default_value = DIRECTORY)]
        place: String,
    },
}

#[derive(Debug, Serialize)]
struct Moved {
    image: String,
    digest: String,
    reference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Listed {
    image: String,
    kind: String,
    version: String,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let registries = Registries::new(args.insecure_registry.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    match &args.command {
        Command::Push { folder, to } => {
            let to = reference(to).map_err(|e| refused(&e))?;
            let image = pack(folder).map_err(|e| refused(&e))?;
            let name = image.template.name.to_string();
            let digest = image.digest.to_string();
            runtime.block_on(registries.push_function(&to, image)).map_err(|e| refused(&e))?;
            let pinned = format!("{}@{digest}", repository(&to));
            let moved = Moved { image: name, digest, reference: pinned, folder: None };
            ui.print(&moved, || format!("{} is {}\n", to.whole(), moved.reference))?;
        }
        Command::Pull { from, images, replace } => {
            let from = reference(from).map_err(|e| refused(&e))?;
            let pulled = runtime.block_on(registries.pull_function(&from, images, *replace));
            let (template, folder, digest) = pulled.map_err(|e| refused(&e))?;
            let pinned = format!("{}@{digest}", repository(&from));
            let image = template.name.to_string();
            let moved = Moved { image, digest: digest.to_string(), reference: pinned, folder: Some(folder) };
            ui.print(&moved, || {
                let folder = moved.folder.as_deref().unwrap_or(Path::new("")).display();
                format!("{} is in {folder}, from {}\n", moved.image, moved.reference)
            })?;
        }
        Command::Ls { place } => match reference(place).ok().filter(|_| !Path::new(place).exists()) {
            Some(repository) => {
                let tags = runtime.block_on(registries.tags(&repository)).map_err(|e| refused(&e))?;
                ui.print(&tags, || tags.iter().map(|t| format!("{t}\n")).collect())?;
            }
            None => list(Path::new(place), *ui)?,
        },
    }
    Ok(())
}

fn refused(e: &Error) -> Failure {
    Failure::refused(e.to_string())
}

fn list(folder: &Path, ui: Ui) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Err(Failure::refused(format!("there is no folder of images {}", folder.display())));
    }
    let images = Images::read(&[folder.to_owned()], super::images::archives().as_ref());
    let listed = |t: &weir_model::template::Template| {
        // Images in one file are none that a registry takes.
        let packed: Option<Packed> = t.folder().and_then(|f| pack(f).ok());
        Listed {
            image: t.name.to_string(),
            kind: t.implementation.kind().to_owned(),
            version: t.version.as_ref().map(ToString::to_string).unwrap_or_default(),
            digest: packed.map(|p| p.digest.to_string()).unwrap_or_default(),
            from: t.folder().and_then(origin),
        }
    };
    let all: Vec<Listed> = images.templates.values().map(listed).collect();
    ui.print(&all, || {
        let mut rows = vec![["IMAGE", "KIND", "VERSION", "DIGEST", "FROM"].map(str::to_owned).to_vec()];
        rows.extend(all.iter().map(|l| {
            let digest = if l.digest.is_empty() { "-" } else { &l.digest[..19] };
            let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
            let from = l.from.as_deref().map(|f| f.split_once('@').map_or(f, |(place, _)| place));
            let from = from.unwrap_or_default();
            vec![l.image.clone(), l.kind.clone(), or_dash(&l.version), digest.to_owned(), or_dash(from)]
        }));
        let mut out = table(&rows, &[]);
        for e in &images.errors {
            let line = format!("{} cannot be used: {}", e.path, e.errors.join("\n    "));
            _ = writeln!(out, "{}", ui.bad(&line));
        }
        out
    })?;
    Ok(())
}
