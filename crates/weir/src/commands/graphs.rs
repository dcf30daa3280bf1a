//! `weir apply`, `plan`, `ps`, `show` and `delete`.

use std::fmt::Write;
use std::path::PathBuf;

use clap_complete::engine::ArgValueCandidates;
use weir_model::graph::ServiceGraph;
use weir_model::status::{GraphStatus, State};
use weir_node::plan::{Action, Changes, Plan};
use weir_node::traffic::Traffic;

use super::remote::NodeArgs;
use super::{complete, profile, read};
use crate::ui::{Failure, Ui, table};

/// Options of `weir apply` and `weir plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct DocumentArgs {
    /// Service graph in YAML or JSON; - is standard input
    file: PathBuf,
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
    /// Print the document as it was applied
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
fn document(args: &DocumentArgs) -> Result<(String, ServiceGraph), Failure> {
    let text = read(&args.file)?;
    let name = args.file.display().to_string();
    let graph = ServiceGraph::parse(&text)
        .map_err(|e| Failure::Refused(e.to_string().lines().map(|l| format!("{name}: {l}")).collect()))?;
    Ok((text, graph))
}

pub(crate) fn apply(args: &DocumentArgs, ui: &Ui) -> Result<(), Failure> {
    let (text, graph) = document(args)?;
    ui.progress(&format!("applying graph {}", graph.id));
    let (changed, new) = args.node.client().put(graph.id.as_str(), &text)?;
    ui.print(&changed, || {
        let what = match (new, changed.unchanged) {
            (true, _) => ui.good("created"),
            (false, true) => ui.dim("unchanged"),
            (false, false) => ui.good("changed"),
        };
        format!("graph {}: {what} (revision {})", changed.id, changed.revision)
    })?;
    Ok(())
}

pub(crate) fn plan(args: &DocumentArgs, ui: &Ui) -> Result<(), Failure> {
    let (text, _) = document(args)?;
    let plan = args.node.client().plan(&text)?;
    ui.print(&plan, || plan_text(&plan, *ui))?;
    Ok(())
}

fn plan_text(plan: &Plan, ui: Ui) -> String {
    let action = match plan.action {
        Action::Create => "would be created",
        Action::Change => "would change",
        Action::None => return format!("graph {}: nothing would change\n", plan.graph),
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
    let lost: Vec<_> = plan.tables.iter().filter(|t| !t.kept).collect();
    let kept: u64 = plan.tables.iter().filter(|t| t.kept).map(|t| u64::from(t.entries)).sum();
    if kept > 0 {
        _ = writeln!(out, "  {kept} entries of state are kept");
    }
    traffic_text(&plan.traffic, ui, &mut out);
    for t in lost {
        _ = writeln!(out, "{}", ui.bad(&format!("  {} entries of {} are lost", t.entries, t.table)));
    }
    out
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
    let graphs = args.node.client().graphs()?;
    ui.print(&graphs, || {
        let mut rows =
            vec![["GRAPH", "NAME", "TENANT", "REVISION", "FUNCTIONS", "STATE"].map(str::to_owned).to_vec()];
        for g in &graphs {
            rows.push(vec![
                g.id.clone(),
                g.name.clone(),
                g.tenant.clone().unwrap_or_else(|| "-".into()),
                g.revision.to_string(),
                g.functions.to_string(),
                state(&g.state),
            ]);
        }
        if graphs.is_empty() { "no graphs\n".into() } else { table(&rows, &[3, 4]) }
    })?;
    Ok(())
}

fn state(state: &State) -> String {
    match state {
        State::Starting => "starting".into(),
        State::Running => "running".into(),
        State::Stopped => "stopped".into(),
        State::Failed { reason } => format!("failed: {reason}"),
    }
}

pub(crate) fn show(args: &ShowArgs, ui: &Ui) -> Result<(), Failure> {
    let client = args.graph.node.client();
    let id = &args.graph.graph;
    if args.config {
        let config = client.config(id)?;
        ui.print(&serde_json::json!({ "graph": id, "config": config }), || config.clone())?;
    } else if args.document {
        let document = client.graph(id)?;
        ui.print(&document, || serde_json::to_string_pretty(&document).unwrap_or_default())?;
    } else {
        let status = client.status(id)?;
        ui.print(&status, || status_text(&status, *ui))?;
    }
    Ok(())
}

fn status_text(s: &GraphStatus, ui: Ui) -> String {
    let mut out = format!("graph {} ({}): {}\n", ui.bold(&s.id), s.name, state(&s.state));
    if let Some(tenant) = &s.tenant {
        _ = writeln!(out, "tenant {tenant}");
    }
    let mut rows = vec![["FUNCTION", "IMAGE", "STATE", "IN", "OUT", "DROPPED"].map(str::to_owned).to_vec()];
    for f in &s.functions {
        let drops: Vec<String> = f.drops.iter().map(|d| format!("{} {}", d.count, d.reason)).collect();
        rows.push(vec![
            f.id.clone(),
            f.name.clone(),
            state(&f.state),
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
    args.node.client().delete(&args.graph)?;
    ui.print(&serde_json::json!({ "id": args.graph, "deleted": true }), || {
        format!("graph {}: deleted", args.graph)
    })?;
    Ok(())
}
