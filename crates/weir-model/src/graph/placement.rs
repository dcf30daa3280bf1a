//! What a graph asks of the nodes of a domain that it is placed on.

use schemars::JsonSchema;
use serde::Serialize;

use crate::doc::{At, Reader, optional};
use crate::error::quote;

/// What becomes of a graph when a node of it is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenLost {
    /// It waits until the node is back.
    #[default]
    Keep,
    /// What was there is placed anew on other nodes.
    Move,
}

/// What a graph asks of the nodes of a domain. A node by itself takes no notice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct Placement {
    /// What becomes of the graph when a node of it is lost: `keep` waits until the node is back, `move` places what was there anew on other
    /// nodes. Without it, as the controller was started (`--when-lost`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_lost: Option<WhenLost>,
}

impl Placement {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Placement::default()
    }
}

pub(super) fn placement(r: &mut Reader, at: &At<'_>) -> Option<Placement> {
    let f = r.fields(at, &["when-lost"])?;
    let when_lost = optional(f.get("when-lost"), |at| when_lost(r, at));
    Some(Placement { when_lost: when_lost? })
}

fn when_lost(r: &mut Reader, at: &At<'_>) -> Option<WhenLost> {
    match r.text(at, "keep or move")? {
        "keep" => Some(WhenLost::Keep),
        "move" => Some(WhenLost::Move),
        other => {
            let help = "keep waits until the node is back, move places the graph anew";
            r.error(at, format!("{} is nothing to do when a node is lost", quote(other)), help);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServiceGraph;
    use super::*;

    #[test]
    fn what_is_asked_of_the_placement_is_read_and_written_again() {
        let graph = ServiceGraph::parse("id: g\nname: g\nplacement: {when-lost: move}\n").unwrap();
        assert_eq!(graph.placement.when_lost, Some(WhenLost::Move));
        let again = ServiceGraph::from_json(&graph.to_json().to_string()).unwrap();
        assert_eq!(again, graph);
        let none = ServiceGraph::parse("id: g\nname: g\nplacement: {}\n").unwrap();
        assert!(none.to_json()["sffg"].get("placement").is_none(), "what says nothing is left out");
        let e = ServiceGraph::parse("id: g\nname: g\nplacement: {when-lost: flee}\n").unwrap_err();
        assert_eq!(e.errors()[0].path, "placement.when-lost");
        assert!(e.to_string().contains("keep waits until the node is back"), "{e}");
    }

    #[test]
    fn a_single_node_is_not_asked_for_places() {
        let graph = ServiceGraph::parse("id: g\nname: g\nplacement: {when-lost: move}\n").unwrap();
        assert!(graph.on_one_node().unwrap().placement.is_empty());
    }
}
