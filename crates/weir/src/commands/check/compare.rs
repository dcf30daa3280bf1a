//! Two documents: what they do differently.

use std::mem::discriminant;

use weir_check::Extent;
use weir_check::report::Changes;

use super::{Args, capture, document, exit};
use crate::commands::config::Source;
use crate::ui::{Failure, Ui};

/// Shows the traffic that `new` treats differently.
pub(super) fn run(args: &Args, (old, new): (&Source, &Source), ui: &Ui) -> Result<(), Failure> {
    let old = document::load(old, &args.images, &[], ui)?;
    let new = document::load(new, &args.images, &[], ui)?;
    if discriminant(&old.size) != discriminant(&new.size) {
        return Err(Failure::refused(format!(
            "{} is a {}, and {} a {}: give two documents of the same kind",
            old.name,
            old.size.kind(),
            new.name,
            new.size.kind()
        )));
    }
    ui.progress("comparing");
    let extent = Extent { limits: args.limits(), ..Extent::default() };
    let changes = Changes::between((&old.name, &old.world), (&new.name, &new.world), extent);
    if let Some(file) = &args.pcap {
        let comment = |of: &str| format!("from {of}: treated differently");
        let runs = changes.differences.iter().map(|d| (comment(&d.place), d.time, d.packets.as_slice()));
        capture(file, runs)?;
    }
    ui.print(&changes, || painted(&changes, ui))?;
    exit(changes.verdict())
}

/// The differences with their heads in colour.
fn painted(changes: &Changes, ui: &Ui) -> String {
    let paint = |line: &str| match line.split_once(": ") {
        Some(("different", rest)) => format!("{}: {rest}\n", ui.bad("different")),
        _ => format!("{line}\n"),
    };
    changes.to_string().lines().map(paint).collect()
}
