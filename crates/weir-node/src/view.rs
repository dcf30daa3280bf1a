//! The graphs of a node at one moment, and what a change of them gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use weir_api::status::{Drift, State};
use weir_auth::Denied;
use weir_auth::quota::OverQuota;
use weir_switch::compile::CompileError;
use weir_switch::lsi0::Conflict;

use crate::desired::DesiredGraph;
use weir_store::StoreError;

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

impl Entry {
    /// An entity tag: another graph, and another revision of this one, has another.
    pub fn tag(&self) -> String {
        let hash = Sha256::digest(self.graph.document.to_string());
        let hash: String = hash.iter().take(6).map(|b| format!("{b:02x}")).collect();
        format!("{}-{hash}", self.revision)
    }
}

/// Why a graph cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For people.
    pub reason: String,
    /// It does not end by itself: somebody has to decide.
    pub lasts: bool,
}

/// Graphs and failures by identifier.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The graphs.
    pub graphs: BTreeMap<String, Entry>,
    /// Graphs as changes under way would have them.
    pub(crate) proposed: BTreeMap<String, Entry>,
    /// Graphs that are brought to their state apart from the others, since functions of theirs have to be made.
    pub(crate) starting: BTreeSet<String>,
    /// Those that cannot run.
    pub failures: BTreeMap<String, Failure>,
    /// Interfaces of access points that do not work, and why.
    pub faults: BTreeMap<String, String>,
    /// Handler writes that the documents do not have, by graph: function and handler, and what was written.
    pub drift: BTreeMap<String, BTreeMap<(String, String), String>>,
    /// Of the graphs that their first packet starts, those that run.
    pub awake: BTreeSet<String>,
    /// Of those, the ones whose functions start just now.
    pub(crate) waking: BTreeSet<String>,
    /// The data-plane process that this is of.
    pub(crate) engine: String,
    /// Whether the data plane was brought to the desired state since it was last reached.
    pub settled: bool,
    /// Graphs whose roll-back the store still owes.
    pub(crate) to_roll_back: BTreeSet<String>,
}

impl View {
    /// The state of a graph.
    pub fn state(&self, id: &str) -> State {
        if let Some(f) = self.failures.get(id) {
            return State::Failed { reason: f.reason.clone() };
        }
        let starts = self.starting.contains(id) || self.waking.contains(id);
        if !self.settled || starts || !self.graphs.contains_key(id) {
            return State::Starting;
        }
        let places = self.graphs.get(id).into_iter().flat_map(|e| &e.graph.attachments);
        let mut faults: Vec<&str> =
            places.filter_map(|p| self.faults.get(&p.interface)).map(String::as_str).collect();
        faults.sort_unstable();
        faults.dedup();
        match &faults[..] {
            [] if self.sleeps(id) => State::Idle,
            [] => State::Running,
            faults => State::Degraded { reason: faults.join("; ") },
        }
    }
}

impl View {
    /// The graphs as they are, and as changes under way would have them: some twice.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<DesiredGraph>> {
        self.graphs.values().chain(self.proposed.values()).map(|e| &e.graph)
    }

    /// The graphs, and those that are applied for the first time just now.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&String, &Entry)> {
        let new = self.proposed.iter().filter(|(id, _)| !self.graphs.contains_key(*id));
        self.graphs.iter().chain(new)
    }

    /// Whether a graph is to be started by its first packet.
    pub fn sleeps(&self, id: &str) -> bool {
        self.graphs.get(id).is_some_and(|e| e.graph.on_demand.is_some()) && !self.awake.contains(id)
    }

    /// Handler writes of a graph that its document does not have.
    pub fn drift_of(&self, id: &str) -> Vec<Drift> {
        let drift = |((function, handler), value): (&(String, String), &String)| Drift {
            function: function.clone(),
            handler: handler.clone(),
            value: value.clone(),
        };
        self.drift.get(id).into_iter().flatten().map(drift).collect()
    }
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The revision that runs now.
    pub revision: u64,
    /// What became of the graph.
    pub outcome: Outcome,
}

/// The result for one graph.
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
    #[error("there is a graph '{0}' already; change it with PUT /v1/graphs/{0}")]
    Exists(String),
    /// The request has it twice.
    #[error("the request has graph '{0}' twice; leave one out")]
    Twice(String),
    /// There is no such graph.
    #[error("there is no graph '{0}'")]
    Missing(String),
    /// It is somebody else's.
    #[error("{0}; nothing was changed")]
    Owned(String),
    /// Who asks for it may not.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A tenant would have too much.
    #[error(transparent)]
    OverQuota(#[from] OverQuota),
    /// What the request asks to be so is not so.
    #[error("the condition of the request does not hold: {0}; nothing was changed")]
    Condition(String),
    /// This node cannot run it.
    #[error("this node cannot run the graph")]
    Invalid(Vec<CompileError>),
    /// Another graph has an access point.
    #[error("another graph has an access point that this one asks for")]
    Conflict(Vec<Conflict>),
    /// Others of the request were refused, and it was to be done altogether or not at all.
    #[error("it was not applied, since another graph of the request was refused")]
    Together,
    /// The data plane, or a function, refused it.
    #[error("the graph was refused; what ran before goes on")]
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
