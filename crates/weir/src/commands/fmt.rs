//! `weir fmt`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use super::read;
use crate::ui::{Failure, Ui};

/// Options of `weir fmt`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Click configurations; - for standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write the layout to the files themselves
    #[arg(short, long)]
    write: bool,
    /// Print the names of the files that have another layout; exit code 1 if there are any
    #[arg(long, conflicts_with = "write")]
    check: bool,
}

#[derive(Serialize)]
struct Report {
    file: String,
    /// Whether the file had another layout.
    differs: bool,
    /// The layout, if it is to be printed.
    text: Option<String>,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let mut reports = Vec::new();
    let mut errors = Vec::new();
    for path in &args.files {
        let text = read(path)?;
        let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
        let formatted = match weir_click::format(&name, &text) {
            Ok(formatted) => formatted,
            Err(e) => {
                errors.extend(e.list.iter().map(ToString::to_string));
                continue;
            }
        };
        let differs = formatted != text;
        let to_file = args.write && path != Path::new("-");
        if to_file && differs {
            std::fs::write(path, &formatted)
                .with_context(|| format!("cannot write {name}"))
                .map_err(Failure::Unreachable)?;
        }
        let text = (!to_file && !args.check).then_some(formatted);
        reports.push(Report { file: name, differs, text });
    }
    ui.print(&reports, || {
        let shown = reports.iter().map(|r| match &r.text {
            Some(text) => text.clone(),
            None if args.check && r.differs => format!("{}\n", r.file),
            None => String::new(),
        });
        shown.collect()
    })?;
    if !errors.is_empty() {
        return Err(Failure::Refused(errors));
    }
    if args.check && reports.iter().any(|r| r.differs) {
        return Err(Failure::Exit(1));
    }
    Ok(())
}
