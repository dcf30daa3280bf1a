//! The stages by which a function moves from a node to another. Pure: no I/O, no clock.
//!
//! The store has the stage before anything is done for it, and each node's part of the graph follows from it: so whoever ends in between,
//! and when, at most one of the two nodes has the function running, and after the next stages exactly one.
//!
//! From `Ready` to `Arrived` nodes get no other parts. All that packets wait for is words ([`exchange`](super::exchange)): parts say of the function
//! that it is stopped if its data plane is lost and begins again.
//!
//! | stage | at the source | at the target | packets go to |
//! |---|---|---|---|
//! | `Prepared` | runs | stopped | the source |
//! | `Ready` | runs, and stops at a word | stopped, and goes on at a word | the source, and at a word the target |
//! | `Turned` | stops | stopped | the target; what is under way comes to the source |
//! | `Arrived` | gone, or runs | runs, or gone | where it runs |

use serde::{Deserialize, Serialize};
use weir_model::graph::{PortRef, RunAs};
use weir_model::value::Name;

/// How far a function has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It is at the target too, and stopped there.
    Prepared,
    /// It works with a copy of its state at the target that follows; all is ready for the turn.
    Ready,
    /// It stops, and what has changed of its state is copied. At both nodes it is stopped in the end.
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
    /// How it is run from now on, if that changes as it moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Kinds>,
    /// What image it is made of from now on, if that changes as it moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
}

/// The image of a function that changes that as it moves; none, if its document names none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Images {
    /// At the node that it leaves.
    pub from: Option<String>,
    /// At the one that it goes to.
    pub to: Option<String>,
}

/// How a function is run that changes that as it moves; none, if that is up to its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kinds {
    /// At the node that it leaves.
    pub from: Option<RunAs>,
    /// At the one that it goes to.
    pub to: Option<RunAs>,
}

impl Moving {
    /// A function that goes from a node to another, and stays what it is.
    pub fn new(function: &str, [from, to]: [&str; 2], stage: Stage) -> Moving {
        let [function, from, to] = [function, from, to].map(str::to_owned);
        Moving { function, from, to, stage, kinds: None, images: None }
    }

    /// Whether a place is a port of the function.
    pub fn is_of(&self, place: &PortRef) -> bool {
        matches!(place, PortRef::Function { function, .. } if function.as_str() == self.function)
    }

    /// How the function is run at a node, where its document says `said`.
    pub fn kind_at(&self, node: &str, said: Option<RunAs>) -> Option<RunAs> {
        match self.kinds {
            Some(kinds) if node == self.to => kinds.to,
            Some(kinds) => kinds.from,
            None => said,
        }
    }

    /// The image of the function at a node, where its document says `said`.
    pub fn image_at(&self, node: &str, said: Option<&Name>) -> Option<Name> {
        match &self.images {
            Some(images) if node == self.to => images.to.as_ref().and_then(|name| name.parse().ok()),
            Some(images) => images.from.as_ref().and_then(|name| name.parse().ok()),
            None => said.cloned(),
        }
    }

    /// Both nodes as long as it is at both, the one first that packets are sent to at first.
    pub fn nodes(&self) -> Option<[&String; 2]> {
        match self.stage {
            Stage::Prepared | Stage::Ready | Stage::Turned => Some([&self.from, &self.to]),
            Stage::Arrived => None,
        }
    }

    /// Whether packets for it are led to one of both nodes by a word.
    pub fn turns(&self) -> bool {
        matches!(self.stage, Stage::Ready | Stage::Turned)
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

/// The next step of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// This stage, with the function at that node in the end.
    Stage(Stage, End),
    /// Nothing more: the graph is as any other.
    Over,
    /// The same again, later.
    Again,
}

/// What comes after a stage. Whether all that had to be done for it is known to be done: at `Prepared` and `Ready` each node has its part, at `Turned` the state
/// is at the target, and at `Arrived` nothing waits. Who comes back after an end knows nothing to be done.
pub fn next(stage: Stage, done: bool) -> Next {
    match (stage, done) {
        (Stage::Prepared, true) => Next::Stage(Stage::Ready, End::Source),
        (Stage::Ready, true) => Next::Stage(Stage::Turned, End::Target),
        // No packet was turned.
        (Stage::Prepared | Stage::Ready, false) => Next::Over,
        (Stage::Turned, true) => Next::Stage(Stage::Arrived, End::Target),
        (Stage::Turned, false) => Next::Stage(Stage::Arrived, End::Source),
        (Stage::Arrived, true) => Next::Over,
        (Stage::Arrived, false) => Next::Again,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_of_its_new_image_at_the_node_that_it_goes_to_alone() {
        let images = Some(Images { from: None, to: Some("nat2".into()) });
        let moving = Moving { images, ..Moving::new("nat", ["n1", "n2"], Stage::Ready) };
        let said: Name = "nat2".parse().unwrap();
        assert_eq!(moving.image_at("n1", Some(&said)), None);
        assert_eq!(moving.image_at("n2", None), Some(said.clone()));
        let stays = Moving { images: None, ..moving };
        assert_eq!(stays.image_at("n1", Some(&said)), Some(said));
    }
}
