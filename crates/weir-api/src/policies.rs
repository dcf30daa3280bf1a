//! What the operator of a domain requires of graphs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_auth::TenantKind;

/// A policy: its requirements, and the graphs that they are for. Without `tenants` and `kind`: all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicySettings {
    /// Requirements: `never`, `only` or `noloops`. A place `*` is each access point of the graph.
    #[schema(min_items = 1, max_items = 64)]
    pub require: Vec<String>,
    /// The tenants whose graphs it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// The kind of tenants whose graphs it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TenantKind>,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// What it says.
    #[serde(flatten)]
    pub settings: PolicySettings,
    /// How many graphs it is for.
    pub graphs: usize,
}

/// The policies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyList {
    /// By name.
    pub policies: Vec<Policy>,
}
