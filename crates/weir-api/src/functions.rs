//! Functions: what runs in them, their life, and moving them to other nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_model::graph::RunAs;

/// How a program is started inside a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Inside {
    /// For this version of the program, on the machine of the node: namespaces, control group, directories, environment, command.
    pub launch: serde_json::Value,
}

/// The wanted state of a function: what it does with packets (Scylla paper, figure 3).
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

/// A change of a function's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LifeChange {
    /// What it is to do with packets.
    pub state: Life,
}

/// A step of a move at a node, done all at once. Parts come in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveStep {
    /// The graph's entity tag: nothing is done if it has another one.
    pub tag: String,
    /// What a function that is stopped is to know: rounds of its state from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub give: Option<GivenState>,
    /// Access points, and how many packets have to have come by each since it is there. They are waited for, but not for long.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub await_packets: BTreeMap<String, u64>,
    /// Functions of the controller's that lead packets to one of two places, from now on to the second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn: Vec<String>,
    /// A function, about to move, that is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// A function, about to move, that goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go: Option<String>,
    /// Access points of which it is said how many packets went out by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub count: Vec<String>,
    /// The function of which it is said how many packets wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<String>,
    /// A round of the state of a function that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub take: Option<TakenState>,
}

/// A round of a function's state that it is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenState {
    /// The function.
    pub function: String,
    /// The round, as it was taken.
    pub round: String,
    /// Said if the function is of another version here: the tables, as `ELEMENT.TABLE`, that may end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave: Option<Vec<String>>,
}

/// A round of a function's state that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakenState {
    /// The function.
    pub function: String,
    /// Whether all is asked for, and not only what changed since the round before.
    pub first: bool,
    /// Whether the function is stopped, so that packets and timers go as well.
    pub last: bool,
}

/// The result of a step of a move.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MoveStepDone {
    /// Packets that were awaited and have not come, by access point.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, u64>,
    /// Packets on their way between a graph and the function's own data plane that did not arrive, and may be lost.
    #[serde(default)]
    pub left: u64,
    /// How many packets went out by each access point.
    #[serde(default)]
    pub counted: BTreeMap<String, u64>,
    /// Packets that wait before the function.
    #[serde(default)]
    pub waiting: u64,
    /// Packets for which there was no space there.
    #[serde(default)]
    pub dropped: u64,
    /// The round of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<String>,
}

/// The wanted state of a graph that its first packet starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GraphLife {
    /// It runs.
    Running,
    /// Nothing of it runs, and the state of its inline functions is on disk: the next packet for it starts it.
    Suspended,
}

/// Another life of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphLifeChange {
    /// What is to be done with it.
    pub state: GraphLife,
    /// Whether it begins without the state that it was suspended with.
    #[serde(default)]
    pub anew: bool,
}

/// Where a function is to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// The node.
    pub to: String,
    /// How it is run there; if nothing is said, as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<MoveKind>,
    /// The image that it is made of there, as `NAME` or `NAME@VERSION`; if nothing is said, the one that it is made of now. What is in its tables goes to those of
    /// the same element, name and fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Tables, as `ELEMENT.TABLE`, whose content may end because the other image has none that it fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leave: Vec<String>,
    /// Whether only to say what the move would be.
    #[serde(default)]
    pub plan: bool,
}

/// How a function is run whose image is a Click script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MoveKind {
    /// By the data plane of its graph.
    Inline,
    /// By a data plane of its own, in a process without privileges.
    Process,
}

impl From<MoveKind> for RunAs {
    fn from(kind: MoveKind) -> RunAs {
        match kind {
            MoveKind::Inline => RunAs::Inline,
            MoveKind::Process => RunAs::Process,
        }
    }
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
    /// The image that it is made of from now on, with its version, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Tables of the other image, as `ELEMENT.TABLE`, that begin empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begin: Vec<String>,
    /// Tables that the other image has nothing for, and that end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub end: Vec<String>,
    /// Of a plan: what the move would be refused for, unless it is allowed by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
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
    /// Packets on their way between the graph and the function's process that did not arrive in the time that they are waited for: they may be lost.
    #[serde(default)]
    pub left: u64,
}
