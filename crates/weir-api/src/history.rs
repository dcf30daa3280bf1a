//! The revisions of a graph that are kept: what was applied, by whom, when and why.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_auth::audit::Who;

/// Most characters of why a graph is applied.
pub const MAX_MESSAGE: usize = 1000;
/// Most seconds until a graph goes back that nobody confirms.
pub const MAX_CONFIRM: u32 = 86_400;

/// A revision of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revision {
    /// Its number.
    pub revision: u64,
    /// When it was applied, in milliseconds since the epoch; unknown of what earlier versions of Weir applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
    /// Who applied it. Without one, the daemon did by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The revision whose document it has again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<u64>,
    /// It goes back by itself, unless it is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<Unconfirmed>,
}

/// When a revision goes back that nobody confirms, and to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unconfirmed {
    /// Milliseconds since the epoch.
    pub until: u64,
    /// So many seconds after it was applied.
    pub seconds: u32,
    /// The revision that comes back. Without one the graph is removed, since it was not there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<u64>,
}

/// The revisions of a graph that are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// The graph.
    pub id: String,
    /// The revision that runs now.
    pub current: u64,
    /// Newest first.
    pub revisions: Vec<Revision>,
}

/// A revision with its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevisionDetails {
    /// What is known of it.
    #[serde(flatten)]
    pub revision: Revision,
    /// The document in canonical form; secrets are not shown.
    #[schema(value_type = Object)]
    pub document: serde_json::Value,
    /// The document as it was written, if that is known and it has no secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
