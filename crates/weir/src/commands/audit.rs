//! `weir audit`.

use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;
use weir_auth::audit::{Outcome, Record};

use super::events::time;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui};

/// How often the node is asked for more.
const INTERVAL: Duration = Duration::from_secs(1);
/// Records that are asked for at a time.
const PAGE: u32 = 1000;

/// Options of `weir audit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Go on with what is changed, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// How many records, the newest
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    last: u32,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let client = args.node.client()?;
    let records = client.audit(None, args.last.max(1))?.records;
    let mut seen = records.last().map_or(0, |r| r.id);
    let shown = if args.last == 0 { &[] } else { &records[..] };
    if shown.is_empty() && !args.follow {
        ui.note("no records");
    }
    shown.iter().try_for_each(|r| show(r, *ui))?;
    if !args.follow {
        return Ok(());
    }
    loop {
        let more = client.audit(Some(seen), PAGE)?.records;
        more.iter().try_for_each(|r| show(r, *ui))?;
        seen = more.last().map_or(seen, |r| r.id);
        if more.len() < PAGE as usize {
            sleep(INTERVAL);
        }
    }
}

fn show(record: &Record, ui: Ui) -> Result<(), Failure> {
    let line = if ui.json {
        serde_json::to_string(record).context("cannot print the record")? + "\n"
    } else {
        text(record, ui)
    };
    std::io::stdout().write_all(line.as_bytes())?;
    Ok(())
}

fn text(r: &Record, ui: Ui) -> String {
    let outcome = format!("{:6}", r.outcome.name());
    let outcome = if r.outcome == Outcome::Done { ui.good(&outcome) } else { ui.bad(&outcome) };
    let what = r.action.clone().unwrap_or_else(|| r.method.to_lowercase());
    let object = r.object.clone().unwrap_or_else(|| r.path.clone());
    let change = match (&r.before, &r.after) {
        (Some(before), Some(after)) => format!(" {before} -> {after}"),
        (Some(before), None) => format!(" {before} -> nothing"),
        (None, Some(after)) => format!(" nothing -> {after}"),
        (None, None) => String::new(),
    };
    let summary = r.summary.as_ref().map_or(String::new(), |s| format!(": {s}"));
    let line = format!("{what} {object}{change}{summary}").replace('\n', "\n    ");
    format!("{} {outcome} {} {line}\n", ui.dim(&time(r.time)), ui.bold(&r.who.name))
}
