//! Graphs that go to other nodes: away from nodes that are drained, and from nodes that are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use weir_api::events::Kind;
use weir_api::problem::Problem;
use weir_model::graph::{ServiceGraph, WhenLost};
use weir_rest::body::Document;
use weir_store::history::{Confirm, Note};

use crate::admit::Admission;
use crate::changes::{at, one};
use crate::controller::Controller;
use crate::facts::without_others;
use crate::lost::{Due, Failures, Node, Placed, bound};
use crate::store::Stored;
use crate::view::View;

/// What a graph says of lost nodes, or else the domain does.
fn when_lost(view: &View, stored: &Stored) -> WhenLost {
    match stored.graph.document.pointer("/placement/when-lost").and_then(serde_json::Value::as_str) {
        Some("move") => WhenLost::Move,
        Some(_) => WhenLost::Keep,
        None => view.when_lost,
    }
}

/// A problem in one line, for the tenant of the graph.
fn line(problem: &Problem) -> String {
    without_others(problem.clone()).to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

fn note(stored: &Stored, message: String) -> Note {
    // Nobody asked for another document.
    Note {
        message: Some(message),
        same_as: Some(stored.revision),
        confirm: Confirm::AsBefore,
        ..Note::default()
    }
}

impl Controller {
    /// Moves a graph from a node to others that can take it: there first, so that it is refused whole or done.
    ///
    /// # Errors
    /// None can take it.
    pub async fn move_away(&self, id: &str, from: &str) -> Result<String, Problem> {
        // With their state, where that can be.
        if let Some(nodes) = self.move_functions(id, from).await? {
            return Ok(nodes.join(", "));
        }
        let _changing = self.at_rest(Some(id)).await;
        let stored = self.graph(id)?;
        let admission = self.admit_without(&stored, &BTreeSet::from([from.to_owned()])).await?;
        let nodes = admission.placement.nodes;
        let note = note(&stored, format!("moved from node '{from}'"));
        let changed = self.change(id, Some(&stored), admission.graph, &note).await?;
        let text = format!("revision {} runs at {}, moved from '{from}'", changed.revision, at(&nodes));
        self.tell(Kind::Changed, one(&nodes), Some(id), text).await;
        Ok(nodes.join(", "))
    }

    /// Where a graph can be that leaves some of its nodes. What is on its other nodes stays there as far as that is possible.
    async fn admit_without(&self, stored: &Stored, from: &BTreeSet<String>) -> Result<Admission, Problem> {
        // Not its text: that may leave out whose it is.
        let graph = ServiceGraph::from_json(&stored.graph.document.to_string())?;
        let view = self.view();
        let others = self.fleet.names().into_iter().filter(|n| !from.contains(n));
        let others: Vec<String> = others.collect();
        let domains = others.iter().filter_map(|n| Some((n.as_str(), view.known.get(n)?.domain.as_ref()?)));
        let bound = bound(&graph, &stored.graph.places(), from, &domains.collect());
        if !bound.is_empty() {
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, bound.join("; ")));
        }
        let document = Document { text: Some(stored.graph.text.clone()), graph, owner: None };
        let without = from.first().map(String::as_str);
        let mut admission = self.admit(&document, None, without)?;
        self.prove(admission.proof.take()).await?;
        Ok(admission)
    }

    /// Places graphs anew whose nodes are lost, if they may be, as far as that is possible. To be run to its end.
    pub async fn replace_lost(&self, now: Instant) {
        let now = now.saturating_duration_since(self.started);
        for due in self.due(now) {
            match self.replace(&due).await {
                Ok(()) => self.failures().placed(&due.id),
                Err(problem) => {
                    let reason = line(&problem);
                    let new = self.failures().failed(&due.id, now, reason.clone());
                    if new {
                        let text = format!("it cannot be placed anew: {reason}");
                        let node = due.from.first().map(String::as_str);
                        self.tell(Kind::Failed, node, Some(&due.id), text).await;
                    }
                }
            }
        }
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a graph of a lost node could not be placed anew.
    pub(crate) fn why_not_replaced(&self, id: &str) -> Option<String> {
        self.failures().reason(id).map(str::to_owned)
    }

    /// The graphs that are to be placed anew now.
    fn due(&self, now: Duration) -> Vec<Due> {
        let (view, online) = (self.view(), self.fleet.names());
        let node = |name: &String| {
            let changed = view.known.get(name).and_then(|k| k.changed);
            let since = changed.map(|c| c.saturating_duration_since(self.started));
            Node { online: online.contains(name), since }
        };
        let nodes: BTreeMap<&str, Node> = view.members.keys().map(|n| (n.as_str(), node(n))).collect();
        let away = |n: &str| nodes.get(n).is_none_or(|n| !n.online);
        // What may have been changed since is not known well enough to be placed anew.
        let affected =
            view.graphs.iter().filter(|(_, g)| !g.doubtful && g.graph.parts.keys().any(|n| away(n)));
        let graphs: Vec<Placed<'_>> = affected
            .map(|(id, g)| Placed {
                id,
                nodes: g.graph.parts.keys().map(String::as_str).collect(),
                when_lost: when_lost(&view, g),
            })
            .collect();
        self.failures().due(&graphs, &nodes, now)
    }

    /// Places a graph anew, unless its nodes are back, or something else became of it meanwhile.
    async fn replace(&self, due: &Due) -> Result<(), Problem> {
        let Due { id, from } = due;
        let _changing = self.changing.lock().await;
        if self.moves().contains_key(id) {
            // A move ends by itself when a node is away.
            return Ok(());
        }
        let Some(stored) = self.view().graphs.get(id).filter(|g| !g.doubtful).cloned() else { return Ok(()) };
        let away = stored.graph.parts.keys().filter(|n| self.fleet.get(n).is_none());
        if away.cloned().collect::<BTreeSet<_>>() != *from {
            return Ok(());
        }
        let admission = self.admit_without(&stored, from).await?;
        let nodes = admission.placement.nodes;
        let left: Vec<String> = from.iter().cloned().collect();
        let message = format!("placed anew: {} is lost", at(&left));
        let changed = self.try_change(id, Some(&stored), admission.graph, &note(&stored, message)).await;
        let revision = changed.map_err(|r| r.problem)?.revision;
        let text = format!("revision {revision} runs at {}, placed anew: {} is lost", at(&nodes), at(&left));
        self.tell(Kind::Changed, one(&nodes), Some(id), text).await;
        Ok(())
    }
}
