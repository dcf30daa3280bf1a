//! `weir get`, `describe`, `cordon`, `uncordon`, `drain`, `forget` and `token`: the nodes of a domain.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Subcommand;
use weir_api::members::{NodeDetails, NodeSummary, Presence, TokenRequest};

use super::describe;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui, table};

/// Options of `weir get`.
#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    #[command(subcommand)]
    what: What,
}

/// The kinds of objects that can be listed.
#[derive(Debug, Subcommand)]
enum What {
    /// The nodes of the domain
    #[command(alias = "node")]
    Nodes(Where),
    /// The links between the nodes: what was declared of them, and what goes there
    #[command(alias = "link")]
    Links(Where),
    /// The tenants, with what they have
    #[command(alias = "tenant")]
    Tenants(Where),
    /// What is required of graphs, whoever applies them
    #[command(alias = "policy")]
    Policies(Where),
}

/// Options of commands about the whole domain.
#[derive(Debug, clap::Args)]
pub(crate) struct Where {
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of commands about one node.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeNameArgs {
    /// The node's name in the domain
    name: String,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir describe`.
#[derive(Debug, clap::Args)]
pub(crate) struct DescribeArgs {
    #[command(subcommand)]
    what: Describe,
}

/// The kinds of objects that can be described.
#[derive(Debug, Subcommand)]
enum Describe {
    /// A node of the domain: its graphs, end points, images and resources
    Node(NodeNameArgs),
}

/// Options of `weir token`.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// How many nodes may join by it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    uses: u32,
    /// How long it is good, in minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=525_600))]
    minutes: u64,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn get(args: &GetArgs, ui: &Ui) -> Result<(), Failure> {
    match &args.what {
        What::Nodes(args) => {
            let list = args.node.client()?.nodes()?;
            ui.print(&list, || nodes_text(&list.nodes))?;
        }
        What::Tenants(args) => super::tenant::list(&args.node.client()?, ui)?,
        What::Policies(args) => super::policy::list(&args.node.client()?, ui)?,
        What::Links(args) => {
            let list = args.node.client()?.links()?;
            ui.print(&list, || super::link::text(&list))?;
        }
    }
    Ok(())
}

fn nodes_text(nodes: &[NodeSummary]) -> String {
    if nodes.is_empty() {
        return "no nodes; 'weir token' makes a token by which they join\n".into();
    }
    let mut rows = vec![
        ["NODE", "STATE", "SINCE", "GRAPHS", "MEMORY", "FROM", "VERSION", ""].map(str::to_owned).to_vec(),
    ];
    for n in nodes {
        let memory = n.resources.as_ref().map_or("-".to_owned(), |r| {
            let size = weir_node::resources::size;
            format!("{} of {}", size(r.memory.used), size(r.memory.total))
        });
        let mut notes: Vec<String> = n.trouble.clone();
        if n.cordoned {
            notes.insert(0, "cordoned".into());
        }
        rows.push(vec![
            n.name.clone(),
            state(n.state).to_owned(),
            since(n.since),
            n.graphs.to_string(),
            memory,
            n.address.clone().unwrap_or_else(|| "-".into()),
            n.version.clone().unwrap_or_else(|| "-".into()),
            notes.join("; "),
        ]);
    }
    table(&rows, &[3])
}

fn state(state: Presence) -> &'static str {
    match state {
        Presence::Online => "online",
        Presence::Offline => "offline",
    }
}

/// How long ago that was, roughly; `ms` since the epoch.
fn since(ms: u64) -> String {
    if ms == 0 {
        return "-".into();
    }
    let then = UNIX_EPOCH + Duration::from_millis(ms);
    let seconds = SystemTime::now().duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

pub(crate) fn describe(args: &DescribeArgs, ui: &Ui) -> Result<(), Failure> {
    let Describe::Node(args) = &args.what;
    let details = args.node.client()?.node(&args.name)?;
    ui.print(&details, || details_text(&details, *ui))?;
    Ok(())
}

fn details_text(d: &NodeDetails, ui: Ui) -> String {
    let s = &d.summary;
    let mut out = format!("node {}: {} for {}", ui.bold(&s.name), state(s.state), since(s.since));
    if let Some(address) = &s.address {
        _ = write!(out, ", from {address}");
    }
    _ = writeln!(out, "{}", if s.cordoned { ", cordoned" } else { "" });
    let valid = UNIX_EPOCH + Duration::from_secs(d.certificate);
    let left = valid.duration_since(SystemTime::now()).unwrap_or_default().as_secs() / 86_400;
    _ = writeln!(out, "joined {} ago; its certificate is good for {left} days more", since(d.joined));
    let graphs = if d.placed.is_empty() { "none".to_owned() } else { d.placed.join(", ") };
    _ = writeln!(out, "graphs: {graphs}");
    if !d.own.is_empty() {
        _ = writeln!(out, "of its own, applied at the node: {}", d.own.join(", "));
    }
    for line in &s.trouble {
        _ = writeln!(out, "{}", ui.bad(line));
    }
    if let Some(domain) = &d.domain {
        _ = write!(out, "\n{}", describe::text(domain, ui));
    }
    out
}

pub(crate) fn cordon(args: &NodeNameArgs, cordoned: bool, ui: &Ui) -> Result<(), Failure> {
    let node = args.node.client()?.cordon(&args.name, cordoned)?;
    ui.print(&node, || {
        let what = if cordoned { "cordoned: it gets no new graphs" } else { "uncordoned" };
        format!("node {}: {what}\n", node.name)
    })?;
    Ok(())
}

pub(crate) fn drain(args: &NodeNameArgs, ui: &Ui) -> Result<(), Failure> {
    let drained = args.node.client()?.drain(&args.name)?;
    ui.print(&drained, || {
        let mut out = format!("node {}: cordoned\n", args.name);
        for g in &drained.graphs {
            match (&g.node, &g.reason) {
                (Some(node), _) => _ = writeln!(out, "graph {}: at node {node} now", g.id),
                (None, reason) => {
                    let reason = reason.as_deref().unwrap_or("no other node can take it");
                    _ = writeln!(out, "{}", ui.bad(&format!("graph {} stays: {reason}", g.id)));
                }
            }
        }
        out
    })?;
    let stays = drained.graphs.iter().any(|g| g.node.is_none());
    if stays { Err(Failure::Exit(1)) } else { Ok(()) }
}

pub(crate) fn forget(args: &NodeNameArgs, ui: &Ui) -> Result<(), Failure> {
    args.node.client()?.forget(&args.name)?;
    ui.print(&serde_json::json!({ "name": args.name, "forgotten": true }), || {
        format!("node {}: forgotten; its connection and its certificate are not taken any more\n", args.name)
    })?;
    Ok(())
}

pub(crate) fn token(args: &TokenArgs, ui: &Ui) -> Result<(), Failure> {
    let request = TokenRequest { uses: args.uses, seconds: args.minutes * 60 };
    let token = args.node.client()?.join_token(&request)?;
    ui.print(&token, || format!("{}\n", token.token))?;
    let nodes = if args.uses == 1 { "one node".to_owned() } else { format!("{} nodes", args.uses) };
    let text = format!(
        "for {nodes}, within {} minutes: weir node --join https://CONTROLLER:7443 --token …",
        args.minutes
    );
    ui.note(&text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_without_nodes_says_how_they_join_and_nodes_are_a_table() {
        assert!(nodes_text(&[]).contains("weir token"));
        let node = NodeSummary {
            name: "n1".into(),
            state: Presence::Offline,
            since: 0,
            cordoned: true,
            address: None,
            version: None,
            graphs: 3,
            resources: None,
            trouble: vec!["graph g: refused".into()],
        };
        let text = nodes_text(&[node]);
        let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words[..4], ["n1", "offline", "-", "3"]);
        assert!(text.contains("cordoned; graph g: refused"), "{text}");
    }
}
