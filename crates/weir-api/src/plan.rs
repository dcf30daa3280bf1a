//! What a change of a graph would do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The effects that a change would have. Nothing of it was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// The graph.
    pub graph: String,
    /// What would become of it.
    pub action: Action,
    /// Functions by identifier.
    pub functions: Changes,
    /// Service access points by identifier.
    pub saps: Changes,
    /// Flow rules by identifier.
    pub rules: Changes,
    /// State tables that have entries now.
    pub tables: Vec<TableFate>,
    /// What it would do to the traffic between access points.
    #[serde(default)]
    pub traffic: Traffic,
    /// For each function that asks for a capability, which image was chosen and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// Where it would go, in a domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// What may go wrong, such as packets that are too large for an access point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Where a graph would go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Placement {
    /// The nodes.
    pub nodes: Vec<String>,
    /// What spoke for them.
    pub reason: String,
    /// The node of each function, of a graph over several nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, String>,
    /// The node of each service access point.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub saps: BTreeMap<String, String>,
    /// The tunnels between the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<String>,
    /// The other nodes, and what spoke against them.
    pub others: Vec<NotPlaced>,
}

/// A node that a graph would not go to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotPlaced {
    /// The node.
    pub node: String,
    /// What speaks against it.
    pub reason: String,
}

/// The image that was chosen for a function that asks for a capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Choice {
    /// The function's identifier.
    pub function: String,
    /// What it asks for.
    pub capability: String,
    /// The image.
    pub image: String,
    /// The kind of function that it is.
    pub kind: String,
    /// Why this one.
    pub why: String,
    /// The other images with the capability, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherImage>,
}

/// An image that was not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OtherImage {
    /// Its name.
    pub image: String,
    /// The kind of function that it is.
    pub kind: String,
    /// Why not this one.
    pub why: String,
}

/// The effect of a change on a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It would be new.
    Create,
    /// It would be changed while it runs.
    Change,
    /// It would stay as it is.
    None,
}

/// Parts of a graph by identifier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changes {
    /// Those that are new.
    pub added: Vec<String>,
    /// Those that are different.
    pub changed: Vec<String>,
    /// Those that go.
    pub removed: Vec<String>,
}

/// The effect of a change on a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableFate {
    /// `element.table`.
    pub table: String,
    /// Number of its entries.
    pub entries: u32,
    /// Whether it is kept: an element of the same name and class remains.
    pub kept: bool,
}

/// The effect of a change on the packets between access points.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Traffic {
    /// What would arrive and does not now.
    pub gained: Vec<Flow>,
    /// What arrives and would not any more.
    pub lost: Vec<Flow>,
    /// What would arrive as before, but with other contents.
    pub altered: Vec<Flow>,
    /// What becomes of packets that no host sends, where it changes and that of others does not: a line for each class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed: Vec<String>,
    /// What is not known of it, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// A class of packets between two access points, with one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flow {
    /// Where it comes in.
    pub from: String,
    /// Where it arrives.
    pub to: String,
    /// The packet as it comes in, in one line.
    pub packet: String,
    /// Its bytes in hexadecimal.
    pub hex: String,
    /// What becomes of it now.
    pub before: String,
    /// What would become of it.
    pub after: String,
}

impl Traffic {
    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.gained.is_empty()
            && self.lost.is_empty()
            && self.altered.is_empty()
            && self.malformed.is_empty()
            && self.unknown.is_empty()
    }
}
