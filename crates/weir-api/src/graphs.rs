//! The graphs of a node, and what a change of them gives.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::status::State;

/// A graph in the list of graphs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphSummary {
    /// Its identifier.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The tenant that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Counts its changes from 1.
    pub revision: u64,
    /// Its entity tag.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// The node that it is on, in a domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The controller that it belongs to, on a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Number of its functions.
    pub functions: usize,
    /// Its life-cycle state.
    #[serde(flatten)]
    pub state: State,
    /// Number of handlers that were written beside the document.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub drift: usize,
    /// The zones of its monitoring that are entered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    /// The graph.
    pub id: String,
    /// The revision that runs now.
    pub revision: u64,
    /// Whether it was as asked for already.
    pub unchanged: bool,
    /// What may go wrong, such as packets that are too large for an access point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A graph was removed from what the node should run, and goes from what it runs later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedLater {
    /// The graph.
    pub id: String,
    /// Why it is not gone yet.
    pub reason: String,
}

/// The results for a list of documents, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppliedList {
    /// One for each document.
    pub graphs: Vec<AppliedGraph>,
}

/// The result for one document of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppliedGraph {
    /// The graph.
    pub id: String,
    /// What became of it.
    pub outcome: ListOutcome,
    /// The revision that runs now, if it was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// What may go wrong, such as packets that are too large for an access point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The outcome for a graph of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListOutcome {
    /// It is new.
    Created,
    /// It was changed.
    Changed,
    /// It was as asked for already.
    Unchanged,
    /// It was refused.
    Refused,
}
