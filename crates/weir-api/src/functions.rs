//! Functions: what runs in them, their life, and moving them to other nodes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a program is started inside a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Inside {
    /// For this version of the program, on the machine of the node: namespaces, control group, directories, environment, command.
    pub launch: serde_json::Value,
}

/// What a function is to do with packets (Scylla paper, figure 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// It processes them.
    Running,
    /// They wait, and nothing happens in it.
    Stopped,
    /// They go past it.
    Bypass,
}

/// The life of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionLife {
    /// What it does with packets.
    pub state: Life,
    /// Packets that wait before it.
    #[serde(default)]
    pub waiting: u64,
    /// Packets for which there was no space there.
    #[serde(default)]
    pub dropped: u64,
}

/// What a function is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LifeChange {
    /// What it is to do with packets.
    pub state: Life,
}

/// Where a function is to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// The node.
    pub to: String,
    /// Whether only to say what the move would be.
    #[serde(default)]
    pub plan: bool,
}

/// A function has moved, or would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Moved {
    /// The graph.
    pub graph: String,
    /// The function.
    pub function: String,
    /// The node that it was at.
    pub from: String,
    /// The node that it is at now.
    pub to: String,
    /// Whether that is a plan, and nothing was done.
    pub plan: bool,
    /// Bytes of its state.
    pub bytes: u64,
    /// Microseconds for which packets waited, or are expected to.
    pub pause_micros: u64,
    /// Packets that waited for it, at both nodes.
    #[serde(default)]
    pub waited: u64,
    /// Packets for which there was no space to wait.
    #[serde(default)]
    pub dropped: u64,
    /// Packets that nodes sent each other by the old paths and that did not arrive, since these are there.
    #[serde(default)]
    pub missing: u64,
}
