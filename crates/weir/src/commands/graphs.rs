//! `weir apply`, `plan`, `ps`, `show` and `delete`.

use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_complete::engine::ArgValueCandidates;
use weir_api::client::NodeClient;
use weir_api::graphs::{GraphSummary, ListOutcome};
use weir_api::plan::Traffic;
use weir_api::plan::{Action, Changes, Plan};
use weir_api::status::{GraphStatus, MonitoringStatus, State};
use weir_model::graph::ServiceGraph;

use super::history::NoteArgs;
use super::remote::NodeArgs;
use super::{complete, profile, read};
use crate::ui::{Failure, Ui, table};

/// What executes functions that have handlers which are scripts.
const NATIVE: &str = "native";

/// Options of `weir plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    /// Service graph in YAML or JSON; - is standard input
    file: PathBuf,
    /// Say of each function that asks for a capability why it has its image, and why not each other
    #[arg(long)]
    explain: bool,
    /// The node that all of it would be on, in a domain
    #[arg(long, value_name = "NODE")]
    on: Option<String>,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir apply`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// Service graphs in YAML or JSON: files, or directories with files in them; - is standard input
    #[arg(required_unless_present = "file")]
    files: Vec<PathBuf>,
    /// The same (may be repeated)
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Apply each graph by itself; otherwise all of several are applied, or none
    #[arg(long)]
    each: bool,
    /// Apply graphs again that are as asked for, so that handlers written beside the document are as it says
    #[arg(long)]
    again: bool,
    /// The node that all of the graph is to be on, in a domain; without it the controller chooses
    #[arg(long, value_name = "NODE", conflicts_with = "again")]
    on: Option<String>,
    #[command(flatten)]
    note: NoteArgs,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of commands about one graph.
#[derive(Debug, clap::Args)]
pub(crate) struct GraphArgs {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    graph: GraphArgs,
    /// Print the configuration that the graph became, in the Click language
    #[arg(long, conflicts_with = "document")]
    config: bool,
    /// Print the document as it was applied, to the last byte; with --json what it says, in canonical form
    #[arg(long)]
    document: bool,
}

/// Options of `weir ps`.
#[derive(Debug, clap::Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    node: NodeArgs,
}

/// Reads a document and checks its form, so that mistakes are shown with their lines before anything is sent.
fn document(file: &Path) -> Result<(String, ServiceGraph), Failure> {
    let text = read(file)?;
    let name = file.display().to_string();
    let graph = ServiceGraph::parse(&text)
        .map_err(|e| Failure::Refused(e.to_string().lines().map(|l| format!("{name}: {l}")).collect()))?;
    Ok((text, graph))
}

/// The files that are meant: those of directories, by name.
fn files(args: &ApplyArgs) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in args.files.iter().chain(&args.file) {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let directory = || format!("cannot read the directory {}", path.display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).with_context(directory)? {
            let file = entry.with_context(directory)?.path();
            let kind = file.extension().and_then(|e| e.to_str());
            if file.is_file() && matches!(kind, Some("yaml" | "yml" | "json")) {
                found.push(file);
            }
        }
        if found.is_empty() {
            let text = format!("{} has no files that end in .yaml, .yml or .json", path.display());
            return Err(Failure::refused(text));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

pub(crate) fn apply(args: &ApplyArgs, ui: &Ui) -> Result<(), Failure> {
    let files = files(args)?;
    let (mut graphs, mut mistakes) = (Vec::new(), Vec::new());
    for file in &files {
        match document(file) {
            Ok(graph) => graphs.push(graph),
            Err(Failure::Refused(lines)) => mistakes.extend(lines),
            Err(e) => return Err(e),
        }
    }
    if !mistakes.is_empty() && (!args.each || graphs.is_empty()) {
        return Err(Failure::Refused(mistakes));
    }
    if args.on.is_some() && files.len() > 1 {
        return Err(Failure::refused("--on names the node of one graph; apply them one by one"));
    }
    if let ([(text, graph)], [_]) = (&graphs[..], &files[..]) {
        return apply_one(text, graph, args, ui);
    }
    let unread = mistakes.len();
    ui.progress(&format!("applying {} graphs", graphs.len()));
    let list: Vec<serde_json::Value> = graphs.iter().map(|(text, _)| text.as_str().into()).collect();
    let list = serde_json::Value::from(list).to_string();
    let (message, confirm) = args.note.note();
    let client = args.node.client()?.noting(message, confirm);
    let applied = client.put_list(&list, args.each, args.again)?;
    let refused = applied.graphs.iter().filter_map(|g| Some((g, g.problem.as_ref()?)));
    mistakes.extend(refused.map(|(g, problem)| format!("graph {}: {problem}", g.id)));
    ui.print(&applied, || {
        let mut lines = String::new();
        for g in &applied.graphs {
            let what = match g.outcome {
                ListOutcome::Created => ui.good("created"),
                ListOutcome::Changed => ui.good("changed"),
                ListOutcome::Unchanged => ui.dim("unchanged"),
                ListOutcome::Refused => ui.bad("refused"),
            };
            let revision = g.revision.map_or(String::new(), |r| format!(" (revision {r})"));
            _ = writeln!(lines, "graph {}: {what}{revision}", g.id);
            warn(&g.warnings, *ui, &mut lines);
        }
        lines
    })?;
    let is_new = |o| matches!(o, ListOutcome::Created | ListOutcome::Changed);
    let new = applied.graphs.iter().filter(|g| is_new(g.outcome)).map(|g| g.id.as_str());
    args.note.remind(&new.collect::<Vec<_>>(), *ui);
    match (mistakes.is_empty(), ui.json) {
        (true, _) => Ok(()),
        // What was printed says it all, but for files that could not be read.
        (false, true) if unread == 0 => Err(Failure::Exit(1)),
        (false, _) => Err(Failure::Refused(mistakes)),
    }
}

fn apply_one(text: &str, graph: &ServiceGraph, args: &ApplyArgs, ui: &Ui) -> Result<(), Failure> {
    ui.progress(&format!("applying graph {}", graph.id));
    let (message, confirm) = args.note.note();
    let client = args.node.client()?.on(args.on.as_deref()).noting(message, confirm);
    let id = graph.id.as_str();
    let (changed, new) = if args.again { client.put_again(id, text) } else { client.put(id, text) }?;
    ui.print(&changed, || {
        let what = match (new, changed.unchanged) {
            (true, _) => ui.good("created"),
            (false, true) => ui.dim("unchanged"),
            (false, false) => ui.good("changed"),
        };
        let mut lines = format!("graph {}: {what} (revision {})\n", changed.id, changed.revision);
        warn(&changed.warnings, *ui, &mut lines);
        lines
    })?;
    if !changed.unchanged {
        args.note.remind(&[id], *ui);
    }
    Ok(())
}

pub(crate) fn plan(args: &PlanArgs, ui: &Ui) -> Result<(), Failure> {
    let (text, _) = document(&args.file)?;
    let plan = args.node.client()?.on(args.on.as_deref()).plan(&text)?;
    ui.print(&plan, || plan_text(&plan, args.explain, *ui))?;
    Ok(())
}

fn plan_text(plan: &Plan, explain: bool, ui: Ui) -> String {
    let action = match plan.action {
        Action::Create => "would be created",
        Action::Change => "would change",
        Action::None => {
            let mut out = format!("graph {}: nothing would change\n", plan.graph);
            placement_text(plan, explain, &mut out);
            choices_text(plan, explain, ui, &mut out);
            warn(&plan.warnings, ui, &mut out);
            return out;
        }
    };
    let mut out = format!("graph {} {action}\n", ui.bold(&plan.graph));
    let mut list = |what: &str, c: &Changes| {
        for (sign, names) in [("+", &c.added), ("~", &c.changed), ("-", &c.removed)] {
            for name in names {
                let line = format!("  {sign} {what} {name}");
                let line = match sign {
                    "+" => ui.good(&line),
                    "-" => ui.bad(&line),
                    _ => line,
                };
                _ = writeln!(out, "{line}");
            }
        }
    };
    list("function", &plan.functions);
    list("access point", &plan.saps);
    list("rule", &plan.rules);
    placement_text(plan, explain, &mut out);
    choices_text(plan, explain, ui, &mut out);
    let lost: Vec<_> = plan.tables.iter().filter(|t| !t.kept).collect();
    let kept: u64 = plan.tables.iter().filter(|t| t.kept).map(|t| u64::from(t.entries)).sum();
    if kept > 0 {
        _ = writeln!(out, "  {kept} entries of state are kept");
    }
    traffic_text(&plan.traffic, ui, &mut out);
    for t in lost {
        _ = writeln!(out, "{}", ui.bad(&format!("  {} entries of {} are lost", t.entries, t.table)));
    }
    warn(&plan.warnings, ui, &mut out);
    out
}

/// Where the graph would be, and with `explain` why, and why not elsewhere.
fn placement_text(plan: &Plan, explain: bool, out: &mut String) {
    let Some(p) = &plan.placement else { return };
    _ = write!(out, "  at {} {}", if p.nodes.len() == 1 { "node" } else { "nodes" }, p.nodes.join(", "));
    out.push_str(&if explain { format!(": {}\n", p.reason) } else { "\n".to_owned() });
    for (what, places) in [("function", &p.functions), ("access point", &p.saps)] {
        for (id, node) in places {
            _ = writeln!(out, "      {what} {id} at {node}");
        }
    }
    if explain {
        for other in &p.others {
            _ = writeln!(out, "      not {}: {}", other.node, other.reason);
        }
        for tunnel in &p.tunnels {
            _ = writeln!(out, "      {tunnel}");
        }
    }
}

/// The images that were chosen, and with `explain` why, and why not the others.
fn choices_text(plan: &Plan, explain: bool, ui: Ui, out: &mut String) {
    for c in &plan.choices {
        let what = format!("  {} as {}: {} ({})", c.function, c.capability, ui.bold(&c.image), c.kind);
        if !explain {
            _ = writeln!(out, "{what}");
            continue;
        }
        _ = writeln!(out, "{what}: {}", c.why);
        for other in &c.others {
            _ = writeln!(out, "      not {} ({}): {}", other.image, other.kind, other.why);
        }
    }
}

pub(super) fn warn(warnings: &[String], ui: Ui, out: &mut String) {
    for line in warnings {
        _ = writeln!(out, "{} {line}", ui.bad("warning:"));
    }
}

fn traffic_text(traffic: &Traffic, ui: Ui, out: &mut String) {
    let lists = [("+", &traffic.gained), ("-", &traffic.lost), ("~", &traffic.altered)];
    for (sign, list) in lists {
        for flow in list {
            let line = format!("  {sign} traffic from {} to {}", flow.from, flow.to);
            let line = match sign {
                "+" => ui.good(&line),
                "-" => ui.bad(&line),
                _ => line,
            };
            _ = writeln!(out, "{line}\n      {}", flow.packet);
            _ = writeln!(out, "      now {}; then {}", flow.before, flow.after);
        }
    }
    for line in &traffic.malformed {
        _ = writeln!(out, "  ~ packets that no host sends, {line}");
    }
    for note in &traffic.unknown {
        _ = writeln!(out, "  ? {note}");
    }
}

pub(crate) fn ps(args: &PsArgs, ui: &Ui) -> Result<(), Failure> {
    let graphs = args.node.client()?.graphs()?;
    ui.print(&graphs, || {
        let mut rows =
            vec![["GRAPH", "NAME", "TENANT", "REVISION", "FUNCTIONS", "STATE"].map(str::to_owned).to_vec()];
        // A node by itself has none of the names that a domain gives to nodes.
        let of_domain = graphs.iter().any(|g| g.node.is_some());
        for g in &graphs {
            rows.push(vec![
                g.id.clone(),
                g.name.clone(),
                g.tenant.clone().unwrap_or_else(|| "-".into()),
                g.revision.to_string(),
                g.functions.to_string(),
                said(g),
            ]);
        }
        if of_domain {
            let nodes = graphs.iter().map(|g| g.node.clone().unwrap_or_else(|| "-".into()));
            for (row, node) in rows.iter_mut().zip(["NODE".to_owned()].into_iter().chain(nodes)) {
                row.insert(5, node);
            }
        }
        if graphs.is_empty() { "no graphs\n".into() } else { table(&rows, &[3, 4]) }
    })?;
    Ok(())
}

/// The state of a graph, with what else is to be known of it.
fn said(g: &GraphSummary) -> String {
    let mut said = state(&g.state);
    match g.drift {
        0 => {}
        1 => said += ", 1 handler beside the document",
        n => _ = write!(said, ", {n} handlers beside the document"),
    }
    if !g.zones.is_empty() {
        _ = write!(said, ", in {}", g.zones.join(", "));
    }
    said
}

fn state(state: &State) -> String {
    match state {
        State::Starting => "starting".into(),
        State::Running => "running".into(),
        State::Idle => "idle".into(),
        State::Stopped => "stopped".into(),
        State::Bypass => "bypass".into(),
        State::Degraded { reason } => format!("degraded: {reason}"),
        State::Failed { reason } => format!("failed: {reason}"),
    }
}

pub(crate) fn show(args: &ShowArgs, ui: &Ui) -> Result<(), Failure> {
    let client = args.graph.node.client()?;
    let id = &args.graph.graph;
    if args.config {
        let config = client.config(id)?;
        ui.print(&serde_json::json!({ "graph": id, "config": config }), || config.clone())?;
    } else if args.document {
        if ui.json {
            ui.print(&client.graph(id)?, String::new)?;
        } else {
            // To the last byte: what is printed can be applied, and compared with the file.
            std::io::stdout().write_all(client.written(id)?.as_bytes())?;
        }
    } else {
        let status = client.status(id)?;
        ui.print(&status, || status_text(&status, *ui) + &controllers(&client, &status))?;
    }
    Ok(())
}

/// How the controllers of OpenFlow switches are: functions that have the handler `controllers`.
fn controllers(client: &NodeClient, s: &GraphStatus) -> String {
    let mut rows = vec![["SWITCH", "CONTROLLER"].map(str::to_owned).to_vec()];
    for f in s.functions.iter().filter(|f| f.engine == NATIVE) {
        // Others have no such handler.
        let text = client.read_handler(&s.id, &f.id, "controllers").unwrap_or_default();
        rows.extend(text.lines().map(|line| vec![f.id.clone(), line.to_owned()]));
    }
    if rows.len() > 1 { format!("\n{}", table(&rows, &[])) } else { String::new() }
}

/// What was measured, and the zones.
fn monitoring(m: &MonitoringStatus, ui: Ui) -> String {
    let mut rows = vec![["MEASUREMENT", "METRIC", "VALUE"].map(str::to_owned).to_vec()];
    for m in &m.measurements {
        let value = m.value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"));
        rows.push(vec![m.name.clone(), m.metric.clone(), value]);
    }
    let mut zones = vec![["ZONE", "STATE", "FOR"].map(str::to_owned).to_vec()];
    for z in &m.zones {
        let state = match z.entered {
            Some(true) => ui.bold("entered"),
            Some(false) => "left".to_owned(),
            None => "unknown".to_owned(),
        };
        zones.push(vec![z.name.clone(), state, format!("{}.{} s", z.age / 1000, z.age % 1000 / 100)]);
    }
    format!("{}\n{}\n", table(&rows, &[2]), table(&zones, &[2]))
}

fn status_text(s: &GraphStatus, ui: Ui) -> String {
    let mut out = format!("graph {} ({}): {}\n", ui.bold(&s.id), s.name, state(&s.state));
    if let Some(tenant) = &s.tenant {
        _ = writeln!(out, "tenant {tenant}");
    }
    if !s.nodes.is_empty() {
        _ = writeln!(out, "at {} {}", if s.nodes.len() == 1 { "node" } else { "nodes" }, s.nodes.join(", "));
    }
    for d in &s.drift {
        let line = format!("beside the document: {}.{} was written {:?}", d.function, d.handler, d.value);
        _ = writeln!(out, "{}", ui.bad(&line));
    }
    warn(&s.warnings, ui, &mut out);
    if let Some(m) = &s.monitoring {
        out += &monitoring(m, ui);
    }
    let mut rows = vec![["FUNCTION", "IMAGE", "STATE", "IN", "OUT", "DROPPED"].map(str::to_owned).to_vec()];
    for f in &s.functions {
        let drops: Vec<String> = f.drops.iter().map(|d| format!("{} {}", d.count, d.reason)).collect();
        rows.push(vec![
            f.id.clone(),
            f.image.clone(),
            match &f.cores {
                Some(cores) => format!("{}, on core {cores}", state(&f.state)),
                None => state(&f.state),
            },
            f.packets_in.to_string(),
            f.packets_out.to_string(),
            if drops.is_empty() { "-".into() } else { drops.join(", ") },
        ]);
    }
    if s.functions.is_empty() {
        out.push_str("no functions\n");
    } else {
        _ = write!(out, "\n{}", table(&rows, &[3, 4]));
    }
    let mut rows = vec![["FROM", "TO", "PACKETS", "BYTES"].map(str::to_owned).to_vec()];
    rows.extend(
        s.links
            .iter()
            .map(|l| vec![l.from.clone(), l.to.clone(), l.packets.to_string(), l.bytes.to_string()]),
    );
    if s.links.iter().any(|l| l.direct.is_some()) {
        rows[0].push("BY".to_owned());
        let by = s.links.iter().map(|l| if l.direct.is_some() { "direct link" } else { "switch" });
        rows[1..].iter_mut().zip(by).for_each(|(row, by)| row.push(by.to_owned()));
    }
    if rows.len() > 1 {
        _ = write!(out, "\n{}", table(&rows, &[2, 3]));
    }
    if !s.profile.is_empty() {
        _ = write!(out, "\n{}", profile::text(&s.profile));
    }
    let flows = s.flows.iter().map(|c| (&*c.table, c.entries, c.hits, c.misses));
    if let Some(flows) = profile::flows(flows) {
        _ = write!(out, "\n{flows}");
    }
    out
}

pub(crate) fn delete(args: &GraphArgs, ui: &Ui) -> Result<(), Failure> {
    let later = args.node.client()?.delete(&args.graph)?;
    let later = later.map(|l| l.reason);
    ui.print(&serde_json::json!({ "id": args.graph, "deleted": later.is_none(), "later": later }), || {
        match &later {
            None => format!("graph {}: deleted", args.graph),
            Some(why) => format!("graph {}: will be deleted; it may go on until then: {why}", args.graph),
        }
    })?;
    Ok(())
}
