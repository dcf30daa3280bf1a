//! The graphs of a node at one moment, and what a change of them gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_model::status::State;
use weir_switch::compile::CompileError;
use weir_switch::lsi0::Conflict;

use crate::desired::DesiredGraph;
use crate::store::StoreError;

/// A graph of the node.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What should run.
    pub graph: Arc<DesiredGraph>,
    /// Counts its changes from 1.
    pub revision: u64,
    /// Proposed before a crash, and not confirmed since.
    pub pending: bool,
}

/// Why a graph cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For people.
    pub reason: String,
    /// Whether the graph itself can be loaded, and only LSI-0 fails with its access points.
    pub loads: bool,
}

/// Graphs and failures by identifier.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The graphs.
    pub graphs: BTreeMap<String, Entry>,
    /// Those that cannot run.
    pub failures: BTreeMap<String, Failure>,
    /// Whether the data plane was brought to the desired state since it was last reached.
    pub settled: bool,
    /// Graphs whose roll-back the store still owes.
    pub(crate) unsaved: BTreeSet<String>,
}

impl View {
    /// The state of a graph.
    pub fn state(&self, id: &str) -> State {
        match self.failures.get(id) {
            Some(f) => State::Failed { reason: f.reason.clone() },
            None if self.settled => State::Running,
            None => State::Starting,
        }
    }
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The revision that runs now.
    pub revision: u64,
    /// What became of the graph.
    pub outcome: Outcome,
}

/// What became of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is new.
    Created,
    /// It was changed.
    Changed,
    /// It was as asked for already.
    Unchanged,
}

/// Why a change was not made. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// `POST` of a graph that is there.
    #[error("there is a graph '{0}' already; change it with PUT /graphs/{0}")]
    Exists(String),
    /// There is no such graph.
    #[error("there is no graph '{0}'")]
    Missing(String),
    /// This node cannot run it.
    #[error("this node cannot run the graph")]
    Invalid(Vec<CompileError>),
    /// Another graph has an access point.
    #[error("another graph has an access point that this one asks for")]
    Conflict(Vec<Conflict>),
    /// The data plane refused it.
    #[error("the data plane refused the graph; what ran before goes on")]
    Refused(Vec<String>),
    /// The data plane cannot be reached.
    #[error("the data plane cannot be reached: {0}")]
    Lost(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A bug.
    #[error("internal error: {0}")]
    Internal(String),
}

/// Graphs that LSI-0 may fail with.
pub(crate) fn attached(view: &View) -> BTreeSet<String> {
    let with =
        |(id, e): &(&String, &Entry)| !e.graph.attachments.is_empty() && !view.failures.contains_key(*id);
    view.graphs.iter().filter(with).map(|(id, _)| id.clone()).collect()
}

/// Marks graphs as failed; false if that says nothing new.
pub(crate) fn fail(view: &mut View, graphs: &BTreeSet<String>, loads: bool, errors: &[String]) -> bool {
    let mut new = false;
    for id in graphs.iter().filter(|id| view.graphs.contains_key(*id)) {
        let failure = Failure { reason: errors.join("; "), loads };
        // Once it is known not to load, LSI-0 has no say.
        let known = view.failures.get(id).is_some_and(|f| !f.loads || loads);
        if !known {
            view.failures.insert(id.clone(), failure);
            new = true;
        }
    }
    new
}
