//! What is wanted, and what is known.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use weir_api::domain::Domain;
use weir_api::graphs::GraphSummary;
use weir_api::queries::Query;
use weir_auth::quota::Usage;
use weir_model::graph::WhenLost;

use crate::links::Declared;
use crate::policy::Policies;
use crate::requests::Kept;
use crate::store::{Member, Stored};
use crate::traffic::Sent;

/// The known state of a node.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Since when it is connected, or not, in milliseconds since the epoch.
    pub since: u64,
    /// The same by the clock that no one sets; none if it has not been connected since this controller started.
    pub changed: Option<Instant>,
    /// Its version.
    pub version: Option<String>,
    /// What it said last of itself.
    pub domain: Option<Domain>,
    /// Which of the times that domains were asked for brought it.
    pub domain_asked: u64,
    /// What its tunnels to other nodes have carried.
    pub sent: Sent,
    /// Its graphs, as it said last.
    pub graphs: Vec<GraphSummary>,
    /// What is wrong with it.
    pub trouble: Vec<String>,
}

/// The desired state, and what is known of the actual one.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The nodes that have joined.
    pub members: BTreeMap<String, Member>,
    /// The graphs of the domain.
    pub graphs: BTreeMap<String, Stored>,
    /// The graphs that were removed last: what nodes still have of these goes.
    pub removed: BTreeSet<String>,
    /// What is known of each node.
    pub known: BTreeMap<String, Known>,
    /// What the operator requires of graphs.
    pub policies: Policies,
    /// The requests for processing.
    pub requests: BTreeMap<u64, Kept>,
    /// The manifests of images that were added to the domain.
    pub images: BTreeMap<String, String>,
    /// The queries of the domain.
    pub queries: BTreeMap<String, Query>,
    /// What the operator says of links.
    pub declared: Declared,
    /// Whether tunnels between nodes are encrypted, where that is not said of a link.
    pub encrypts: bool,
    /// What becomes of graphs that do not say it when a node of theirs is lost.
    pub when_lost: WhenLost,
}

impl View {
    /// What a tenant has, but for one graph.
    pub fn usage(&self, tenant: &str, without: Option<&str>) -> Usage {
        let own = self
            .graphs
            .iter()
            .filter(|(id, g)| Some(id.as_str()) != without && g.graph.tenant.as_deref() == Some(tenant));
        own.fold(Usage::default(), |all, (_, g)| plus(all, g.graph.usage()))
    }
}

/// Both together.
pub(crate) fn plus(a: Usage, b: Usage) -> Usage {
    Usage {
        graphs: a.graphs.saturating_add(b.graphs),
        memory: a.memory.saturating_add(b.memory),
        cpu: a.cpu.saturating_add(b.cpu),
    }
}
