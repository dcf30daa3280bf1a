//! The stages by which a function moves from a node to another. Pure: no I/O, no clock.
//!
//! The store has the stage before anything is done for it, and each node's part of the graph follows from it: so whoever ends in between,
//! and when, at most one of the two nodes has the function running, and after the next stages exactly one.
//!
//! | stage | at the source | at the target | packets go to |
//! |---|---|---|---|
//! | `Prepared` | runs | stopped | the source |
//! | `Turned` | stopped | stopped | the target; what is under way comes to the source |
//! | `Arrived` | gone, or runs | runs, or gone | where it runs |

use serde::{Deserialize, Serialize};
use weir_model::graph::PortRef;

/// How far a function has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It is at the target too, and stopped there.
    Prepared,
    /// It is stopped at both. Its state is copied.
    Turned,
    /// It is at one node only, and runs; before its ports packets may wait still.
    Arrived,
}

/// A function that moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// The function.
    pub function: String,
    /// The node that it leaves.
    pub from: String,
    /// The node that it goes to.
    pub to: String,
    /// How far it is.
    pub stage: Stage,
}

impl Moving {
    /// Whether a place is a port of the function.
    pub fn is_of(&self, place: &PortRef) -> bool {
        matches!(place, PortRef::Function { function, .. } if function.as_str() == self.function)
    }

    /// Both nodes as long as it is at both, the one first that packets are sent to.
    pub fn nodes(&self) -> Option<[&String; 2]> {
        match self.stage {
            Stage::Prepared => Some([&self.from, &self.to]),
            Stage::Turned => Some([&self.to, &self.from]),
            Stage::Arrived => None,
        }
    }
}

/// Which of the two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The one that it leaves.
    Source,
    /// The one that it goes to.
    Target,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// This stage, with the function at that node in the end.
    Stage(Stage, End),
    /// Nothing more: the graph is as any other.
    Over,
    /// The same again, later.
    Again,
}

/// What comes after a stage. Whether all that had to be done for it is known to be done: at `Prepared` and `Turned` each node has its part, at `Turned` the state
/// is at the target, and at `Arrived` nothing waits. Who comes back after an end knows nothing to be done.
pub fn next(stage: Stage, done: bool) -> Next {
    match (stage, done) {
        (Stage::Prepared, true) => Next::Stage(Stage::Turned, End::Target),
        // No packet was turned.
        (Stage::Prepared, false) => Next::Over,
        (Stage::Turned, true) => Next::Stage(Stage::Arrived, End::Target),
        (Stage::Turned, false) => Next::Stage(Stage::Arrived, End::Source),
        (Stage::Arrived, true) => Next::Over,
        (Stage::Arrived, false) => Next::Again,
    }
}
