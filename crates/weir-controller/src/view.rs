//! What is wanted, and what is known.

use std::collections::BTreeMap;

use weir_api::domain::Domain;
use weir_api::graphs::GraphSummary;

use crate::store::{Member, Stored};

/// What is known of a node.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Since when it is connected, or not, in milliseconds since the epoch.
    pub since: u64,
    /// Its version.
    pub version: Option<String>,
    /// What it said last of itself.
    pub domain: Option<Domain>,
    /// Its graphs, as it said last.
    pub graphs: Vec<GraphSummary>,
    /// What is wrong with it.
    pub trouble: Vec<String>,
}

/// What is wanted, and what is known.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The nodes that have joined.
    pub members: BTreeMap<String, Member>,
    /// The graphs of the domain.
    pub graphs: BTreeMap<String, Stored>,
    /// What is known of each node.
    pub known: BTreeMap<String, Known>,
}
