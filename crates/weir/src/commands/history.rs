//! `weir history`, `diff`, `rollback` and `confirm`.

use std::time::Duration;

use anyhow::Context;
use clap_complete::engine::ArgValueCandidates;
use serde_json::{Value, json};
use similar::TextDiff;
use weir_api::history::{MAX_CONFIRM, Revision, RevisionDetails, Unconfirmed};
use weir_elements::FromArg;

use super::complete;
use super::events::time;
use super::graphs::warn;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui, table};

/// Why a graph is changed, and whether it stays so.
#[derive(Debug, clap::Args)]
pub(crate) struct NoteArgs {
    /// Why: kept with the revision, and shown by 'weir history'
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Go back after this time (as 60s, 5min) to what was confirmed last, unless 'weir confirm' comes
    #[arg(long, value_name = "TIME", value_parser = within)]
    confirm: Option<u32>,
}

impl NoteArgs {
    /// As clients take it.
    pub(crate) fn note(&self) -> (Option<&str>, Option<u32>) {
        (self.message.as_deref(), self.confirm)
    }

    /// What is to be done so that the graphs stay.
    pub(crate) fn remind(&self, graphs: &[&str], ui: Ui) {
        if let (Some(seconds), Some(first)) = (self.confirm, graphs.first()) {
            let (what, first) = match graphs.len() {
                1 => (format!("graph {first} goes"), (*first).to_owned()),
                n => (format!("{n} graphs go"), "GRAPH".to_owned()),
            };
            ui.note(&format!("{what} back in {seconds} s, unless 'weir confirm {first}' comes"));
        }
    }
}

/// A time to confirm something, in seconds.
fn within(text: &str) -> Result<u32, String> {
    let wrong = || format!("give a time from 1s to {MAX_CONFIRM}s, in whole seconds, as 60s or 5min");
    let time = Duration::from_arg(text).map_err(|_| wrong())?;
    let seconds = u32::try_from(time.as_secs()).map_err(|_| wrong())?;
    if time.subsec_nanos() == 0 && (1..=MAX_CONFIRM).contains(&seconds) { Ok(seconds) } else { Err(wrong()) }
}

/// Options of `weir history`.
#[derive(Debug, clap::Args)]
pub(crate) struct HistoryArgs {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    /// The revision to compare from [default: the one before the second]
    from: Option<u64>,
    /// The revision to compare with [default: the current one]
    to: Option<u64>,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir rollback`.
#[derive(Debug, clap::Args)]
pub(crate) struct RollbackArgs {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    /// The revision [default: the one before the current one]
    revision: Option<u64>,
    #[command(flatten)]
    note: NoteArgs,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir confirm`.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfirmArgs {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn history(args: &HistoryArgs, ui: &Ui) -> Result<(), Failure> {
    let history = args.node.client()?.history(&args.graph)?;
    ui.print(&history, || {
        let mut rows = vec![["REVISION", "TIME", "WHO", "WHY"].map(str::to_owned).to_vec()];
        for r in &history.revisions {
            let mark = if r.revision == history.current { "*" } else { "" };
            rows.push(vec![
                format!("{mark}{}", r.revision),
                r.time.map_or_else(|| "-".into(), time),
                who(r),
                why(r),
            ]);
        }
        table(&rows, &[0])
    })?;
    Ok(())
}

fn who(r: &Revision) -> String {
    match &r.who {
        Some(who) => who.name.clone(),
        None => "-".into(),
    }
}

fn why(r: &Revision) -> String {
    let mut parts: Vec<String> = r.message.iter().map(|m| m.replace('\n', " ")).collect();
    parts.extend(r.same_as.map(|n| format!("(as revision {n})")));
    if let Some(Unconfirmed { until, back, .. }) = r.unconfirmed {
        let back = back.map_or_else(|| "is removed".into(), |n| format!("goes back to {n}"));
        parts.push(format!("[{back} at {}, unless it is confirmed]", time(until)));
    }
    parts.join(" ")
}

pub(crate) fn diff(args: &DiffArgs, ui: &Ui) -> Result<(), Failure> {
    let client = args.node.client()?;
    let history = client.history(&args.graph)?;
    let to = args.to.unwrap_or(history.current);
    let from = match args.from {
        Some(from) => from,
        None => history.revisions.iter().map(|r| r.revision).find(|r| *r < to).ok_or_else(|| {
            Failure::refused(format!("no revision of graph '{}' before {to} is kept", args.graph))
        })?,
    };
    let (old, new) = (client.revision(&args.graph, from)?, client.revision(&args.graph, to)?);
    let lines = unified(&old, &new)?;
    let value = json!({ "graph": args.graph, "from": from, "to": to, "same": lines.is_empty(), "diff": lines.join("") });
    ui.print(&value, || {
        if lines.is_empty() {
            return format!("revisions {from} and {to} of graph {} say the same\n", args.graph);
        }
        let painted = lines.iter().map(|line| match line.as_bytes().first() {
            Some(b'+') => ui.good(line),
            Some(b'-') => ui.bad(line),
            Some(b'@') => ui.dim(line),
            _ => line.clone(),
        });
        painted.collect()
    })?;
    Ok(())
}

/// What two revisions say, line by line in YAML: how they were written makes no difference.
fn unified(old: &RevisionDetails, new: &RevisionDetails) -> Result<Vec<String>, Failure> {
    let yaml = |d: &RevisionDetails| -> Result<String, Failure> {
        // Rules and functions are known by their identifiers: these come first in each.
        let text =
            serde_yaml_ng::to_string(&named_first(&d.document)).context("cannot print the document")?;
        Ok(text)
    };
    let (a, b) = (yaml(old)?, yaml(new)?);
    let name = |d: &RevisionDetails| format!("revision {}", d.revision.revision);
    let diff = TextDiff::from_lines(&a, &b);
    let text = diff.unified_diff().context_radius(3).header(&name(old), &name(new)).to_string();
    Ok(text.split_inclusive('\n').map(str::to_owned).collect())
}

/// A document in which each map begins with its identifier or its name.
fn named_first(value: &Value) -> serde_yaml_ng::Value {
    use serde_yaml_ng::{Mapping, Value as Yaml};
    match value {
        Value::Object(map) => {
            let (first, rest): (Vec<_>, Vec<_>) =
                map.iter().partition(|(key, _)| matches!(key.as_str(), "id" | "name"));
            let all = first.into_iter().chain(rest);
            Yaml::Mapping(all.map(|(k, v)| (Yaml::from(k.as_str()), named_first(v))).collect::<Mapping>())
        }
        Value::Array(list) => Yaml::Sequence(list.iter().map(named_first).collect()),
        other => serde_yaml_ng::to_value(other).unwrap_or_default(),
    }
}

pub(crate) fn roll_back(args: &RollbackArgs, ui: &Ui) -> Result<(), Failure> {
    let (message, confirm) = args.note.note();
    let client = args.node.client()?.noting(message, confirm);
    let changed = client.roll_back(&args.graph, args.revision)?;
    ui.print(&changed, || {
        let what = if changed.unchanged { ui.dim("unchanged") } else { ui.good("rolled back") };
        let mut lines = format!("graph {}: {what} (revision {})\n", changed.id, changed.revision);
        warn(&changed.warnings, *ui, &mut lines);
        lines
    })?;
    if !changed.unchanged {
        args.note.remind(&[&args.graph], *ui);
    }
    Ok(())
}

pub(crate) fn confirm(args: &ConfirmArgs, ui: &Ui) -> Result<(), Failure> {
    args.node.client()?.confirm(&args.graph)?;
    let value = json!({ "id": args.graph, "confirmed": true });
    ui.print(&value, || format!("graph {}: {}\n", args.graph, ui.good("confirmed")))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: u64) -> Revision {
        Revision { revision: number, time: None, who: None, message: None, same_as: None, unconfirmed: None }
    }

    fn details(number: u64, document: Value) -> RevisionDetails {
        RevisionDetails { revision: revision(number), document, text: None }
    }

    #[test]
    fn a_difference_is_shown_in_yaml_with_three_lines_around_it() {
        let rule = |id: &str, to: &str| json!({ "actions": { "output_to_port": to }, "id": id });
        let document =
            |to: &str| json!({ "sffg": { "flowrules": [rule("a", "sap:r"), rule("b", to)], "id": "g" } });
        let lines = unified(&details(1, document("sap:l")), &details(3, document("sap:m"))).unwrap();
        assert_eq!(
            lines.concat(),
            "--- revision 1\n+++ revision 3\n@@ -6,4 +6,4 @@\n       output_to_port: sap:r\n   - id: b\n     actions:\n\
             -      output_to_port: sap:l\n+      output_to_port: sap:m\n"
        );
        assert!(unified(&details(1, document("x")), &details(2, document("x"))).unwrap().is_empty());
    }

    #[test]
    fn why_a_revision_came_to_be_is_a_line() {
        let back = Unconfirmed { until: 60_000, seconds: 60, back: Some(3) };
        let r = Revision {
            message: Some("two\nlines".into()),
            same_as: Some(2),
            unconfirmed: Some(back),
            ..revision(4)
        };
        assert_eq!(
            why(&r),
            "two lines (as revision 2) [goes back to 3 at 1970-01-01 00:01:00Z, unless it is confirmed]"
        );
        assert_eq!(why(&revision(1)), "");
    }

    #[test]
    fn times_to_confirm_are_whole_seconds_of_a_day_at_most() {
        assert_eq!((within("60s"), within("5min"), within("90")), (Ok(60), Ok(300), Ok(90)));
        for wrong in ["0", "500ms", "1.5s", "2d", "25h", "", "soon", "-1"] {
            assert!(within(wrong).is_err(), "{wrong}");
        }
    }
}
