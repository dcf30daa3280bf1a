//! How graphs and their functions are.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use weir_api::status::{Drift, State};
use weir_protocol::{Answer, Command};

use super::Node;
use crate::compute::Health;
use crate::connection::DataPlane;
use crate::desired::{DesiredGraph, FunctionRuntime};
use crate::instance::InstanceId;
use crate::tunnels;
use crate::view::View;

/// How long functions of a graph may take together to say what they have dropped.
const DROPS_TIME: Duration = Duration::from_secs(1);
/// How long the data plane may take to say what is wrong with ports.
const PORTS_TIME: Duration = Duration::from_secs(1);

impl<D: DataPlane> Node<D> {
    /// The states of graphs, as far as they are there.
    pub async fn states(&self, ids: impl Iterator<Item = &str>) -> BTreeMap<String, State> {
        // A data plane that does not answer is told by other means.
        let ports = match timeout(PORTS_TIME, self.plane.call(Command::List)).await {
            Ok(Ok(Answer::Graphs { graphs })) => graphs,
            _ => Vec::new(),
        };
        let ports: BTreeMap<String, String> =
            ports.into_iter().filter(|g| !g.trouble.is_empty()).map(|g| (g.name, g.trouble)).collect();
        let view = self.view();
        ids.map(|id| (id.to_owned(), self.state_in(&view, id, ports.get(id)))).collect()
    }

    /// The state of a graph.
    pub async fn state(&self, id: &str) -> State {
        self.states([id].into_iter()).await.remove(id).unwrap_or(State::Starting)
    }

    /// The same with what is wrong with the ports of its functions.
    fn state_in(&self, view: &View, id: &str, ports: Option<&String>) -> State {
        let state = view.state(id);
        let Some(e) = view.graphs.get(id).filter(|_| state == State::Running) else { return state };
        let wrong = |f: &FunctionRuntime| match self.health(&e.graph, f)? {
            Health::Down { reason } | Health::Hung { reason } => Some(format!("function {}: {reason}", f.id)),
            _ => None,
        };
        let mut reasons: Vec<String> = e.graph.functions.iter().filter_map(wrong).collect();
        if reasons.is_empty() {
            let told = |what: &String| {
                own_port(&e.graph, what).unwrap_or_else(|| format!("at a function's port: {what}"))
            };
            reasons.extend(ports.map(told));
        }
        if reasons.is_empty() {
            reasons = tunnels::trouble(&e.graph);
        }
        if reasons.is_empty() { state } else { State::Degraded { reason: reasons.join("; ") } }
    }

    /// What a device of a graph does not do, in words of the graph where the device is a port of one of its functions: who
    /// reads it cannot do anything about the interface.
    pub(crate) fn in_words(&self, graph: Option<&str>, up: bool, text: String) -> String {
        let Some(e) = graph.and_then(|id| self.graph(id)) else { return text };
        match port_in(&e.graph, &text) {
            Some(port) if up => format!("{port} is up again"),
            Some(_) => own_port(&e.graph, &text).unwrap_or(text),
            None => text,
        }
    }

    /// Handler writes of a graph that its document does not have.
    pub fn drift_of(&self, id: &str) -> Vec<Drift> {
        let view = self.view();
        let mut drift = view.drift_of(id);
        for f in view.graphs.get(id).iter().flat_map(|e| &e.graph.functions) {
            let Ok(driver) = self.drivers.get(f.kind) else { continue };
            let written = driver.written(&InstanceId::new(id, &f.id)).into_iter();
            drift.extend(written.map(|(handler, value)| Drift { function: f.id.clone(), handler, value }));
        }
        drift
    }

    /// How a function is that is not inline.
    pub fn health(&self, graph: &DesiredGraph, f: &FunctionRuntime) -> Option<Health> {
        self.drivers.get(f.kind).ok()?.health(&InstanceId::new(&graph.id, &f.id))
    }

    /// Why packets ended in the functions of a graph that are not inline, and how many.
    pub async fn drops(&self, graph: &DesiredGraph) -> BTreeMap<String, BTreeMap<String, u64>> {
        let (mut drops, mut asked) = (BTreeMap::new(), JoinSet::new());
        for f in graph.functions.iter().filter(|f| f.kind != crate::instance::Kind::Inline) {
            drops.insert(f.id.clone(), BTreeMap::new());
            if let Ok(driver) = self.drivers.get(f.kind) {
                let id = InstanceId::new(&graph.id, &f.id);
                asked.spawn(async move { (id.function.clone(), driver.drops(&id).await) });
            }
        }
        // One that does not answer counts nothing.
        let answers = async {
            while let Some(answer) = asked.join_next().await {
                drops.extend(answer);
            }
        };
        _ = timeout(DROPS_TIME, answers).await;
        drops
    }
}

/// The port of a function whose interface a text of the data plane names.
fn port_in(graph: &DesiredGraph, text: &str) -> Option<String> {
    let names = |word: &str, name: &str| word.trim_matches(|c: char| !c.is_alphanumeric()) == name;
    let named = |name: &str| text.split_whitespace().any(|word| names(word, name));
    let ports = graph.instances.iter().flat_map(|i| i.spec.ports.iter().map(move |p| (i, p)));
    let (instance, port) = ports.into_iter().find(|(_, p)| p.is_interface() && named(&p.outside))?;
    Some(format!("port {} of function {}", port.inside, instance.id.function))
}

fn own_port(graph: &DesiredGraph, text: &str) -> Option<String> {
    Some(format!("{} is down; the node brings it up when the function works", port_in(graph, text)?))
}
