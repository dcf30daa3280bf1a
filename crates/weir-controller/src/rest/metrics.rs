//! Metrics for Prometheus: of the domain; those of nodes are read at the nodes, or through `/v1/nodes/NAME/v1/metrics`.

use axum::extract::State;
use axum::http::HeaderName;
use weir_api::graphs::GraphSummary;
use weir_api::problem::Problem;
use weir_api::status::State as Life;
use weir_auth::Action;
use weir_rest::login::Caller;
use weir_rest::metrics::{CONTENT_TYPE, Exposition, Kind, process};

use super::App;
use crate::store::Stored;
use crate::view::View;

/// Most graphs that have series of their own.
const GRAPHS: usize = 20_000;

/// Counts of the domain in the text format of Prometheus. Who may read some graphs only gets theirs.
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
) -> Result<([(HeaderName, &'static str); 1], String), Problem> {
    caller.may(&Action::ReadMetrics)?;
    let view = app.view();
    let readable = view.graphs.iter().filter(|(id, g)| caller.can(&Action::ReadGraph(g.graph.owned(id))));
    let graphs: Vec<(&String, &Stored)> = readable.take(GRAPHS).collect();
    let mut out = Exposition::default();
    let help = "Whether a graph runs on all its nodes, as they said last, and these are connected.";
    out.family("weir_graph_up", Kind::Gauge, help);
    for (id, g) in &graphs {
        let tenant = g.graph.tenant.as_deref().unwrap_or_default();
        out.sample(&[("graph", id), ("tenant", tenant)], u8::from(runs(&app, &view, id, g)));
    }
    out.family("weir_graph_revision", Kind::Gauge, "The revision of a graph.");
    for (id, g) in &graphs {
        out.sample(&[("graph", id)], g.revision);
    }
    out.family("weir_graph_nodes", Kind::Gauge, "How many nodes a graph is on.");
    for (id, g) in &graphs {
        out.sample(&[("graph", id)], g.graph.parts.len());
    }
    if caller.can(&Action::ReadNodes) {
        domain(&app, &view, &mut out);
    }
    Ok(([CONTENT_TYPE], out.finish()))
}

fn runs(app: &App, view: &View, id: &str, g: &Stored) -> bool {
    g.graph.parts.keys().all(|node| {
        let known = view.known.get(node).map(|k| &k.graphs[..]).unwrap_or_default();
        let here = |s: &GraphSummary| s.id == id && s.state == Life::Running;
        app.fleet.get(node).is_some() && known.iter().any(here)
    })
}

fn domain(app: &App, view: &View, out: &mut Exposition) {
    process(out, env!("CARGO_PKG_VERSION"));
    let up = |name: &str| app.fleet.get(name).is_some();
    out.family("weir_nodes", Kind::Gauge, "Nodes of the domain, by whether they are connected.");
    let online = view.members.keys().filter(|name| up(name)).count();
    out.sample(&[("state", "online")], online);
    out.sample(&[("state", "offline")], view.members.len() - online);
    out.family("weir_node_up", Kind::Gauge, "Whether a node is connected.");
    for name in view.members.keys() {
        out.sample(&[("node", name)], u8::from(up(name)));
    }
    out.family("weir_node_cordoned", Kind::Gauge, "Whether a node gets no new graphs.");
    for (name, member) in &view.members {
        out.sample(&[("node", name)], u8::from(member.cordoned));
    }
    out.family("weir_node_graphs", Kind::Gauge, "Graphs that a node is to run.");
    for name in view.members.keys() {
        let placed = view.graphs.values().filter(|g| g.graph.parts.contains_key(name)).count();
        out.sample(&[("node", name)], placed);
    }
    let help = "Graphs of a node that are not as they should be.";
    out.family("weir_node_troubles", Kind::Gauge, help);
    for name in view.members.keys() {
        out.sample(&[("node", name)], view.known.get(name).map_or(0, |k| k.trouble.len()));
    }
    out.single("weir_domain_graphs", Kind::Gauge, "Graphs of the domain.", view.graphs.len());
    let help = "How long it took to bring a node to what it is to run, or to find that it is there.";
    out.histogram("weir_reconcile_seconds", help, &app.reconcile);
    let help = "How long requests to change graphs took, whether or not they were refused.";
    out.histogram("weir_change_seconds", help, &app.change);
}
