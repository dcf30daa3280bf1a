//! What a graph asks of the nodes of a domain that it is placed on.

use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::Function;
use crate::doc::{At, Reader, did_you_mean, optional};
use crate::error::quote;
use crate::value::{Bandwidth, Delay, Id};

/// Most sets of functions that are to be together, and most of those that are to be apart.
const MAX_SETS: usize = 64;

/// The policy for a graph when a node of it is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenLost {
    /// It waits until the node is back.
    #[default]
    Keep,
    /// What was there is placed anew on other nodes.
    Move,
}

/// A graph's requirements of the nodes of a domain. A node by itself takes no notice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct Placement {
    /// What becomes of the graph when a node of it is lost: `keep` waits until the node is back, `move` places what was there anew on other
    /// nodes. Without it, as the controller was started (`--when-lost`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_lost: Option<WhenLost>,
    /// The region of the nodes that its functions are to be on, as nodes say it (`weir node --region`). A function that names its node is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Id>,
    /// Sets of functions that are to be on one node, such as `[[fw, nat]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "sets")]
    pub together: Vec<Vec<Id>>,
    /// Sets of functions of which each is to be on another node, such as `[[dns1, dns2]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "sets")]
    pub apart: Vec<Vec<Id>>,
    /// Most time that packets may spend on links between nodes, from an access point to where they leave. Links whose delay is not known are not used then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Delay>,
    /// What may pass between two of its functions or access points, in each direction: links whose capacity is known have that much left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

impl Placement {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Placement::default()
    }

    /// The functions that are to be on one node: sets that have a function in common are one.
    pub fn joined(&self) -> Vec<BTreeSet<&Id>> {
        let mut joined: Vec<BTreeSet<&Id>> = Vec::new();
        for set in &self.together {
            let mut all: BTreeSet<&Id> = set.iter().collect();
            joined.retain(|other| {
                let common = !other.is_disjoint(&all);
                if common {
                    all.extend(other);
                }
                !common
            });
            joined.push(all);
        }
        joined
    }
}

pub(super) fn placement(
    r: &mut Reader,
    at: &At<'_>,
    (functions, lost): (&[Function], bool),
) -> Option<Placement> {
    let f = r.fields(at, &["when-lost", "region", "together", "apart", "max-delay", "bandwidth"])?;
    let when_lost = optional(f.get("when-lost"), |at| when_lost(r, at));
    let region = optional(f.get("region"), |at| r.parse(at, "the name of a region"));
    let max_delay = optional(f.get("max-delay"), |at| r.parse(at, "a delay such as 5 ms"));
    let bandwidth = optional(f.get("bandwidth"), |at| r.parse(at, "a bandwidth such as 100 Mbit/s"));
    let known = |word: &Id| lost || functions.iter().any(|f| f.id == *word);
    let ids: Vec<&str> = functions.iter().map(|f| f.id.as_str()).collect();
    let mut read = |name: &'static str| {
        let Some(at) = f.get(name) else { return Vec::new() };
        let mut all = Vec::new();
        for (i, node) in r.items(&at, "sets of functions", MAX_SETS).unwrap_or_default().iter().enumerate() {
            let at = at.index(i, node);
            let before = r.count();
            let set: Vec<Id> = match r.items(&at, "functions", super::MAX_FUNCTIONS) {
                Some(_) => r.one_or_many(&at, "functions", super::MAX_FUNCTIONS),
                None => continue,
            };
            for word in set.iter().filter(|w| !known(w)) {
                let text = format!("there is no function {}", quote(word.as_str()));
                r.error(&at, text, did_you_mean(word.as_str(), &ids));
            }
            if set.len() < 2 && r.count() == before {
                r.error(&at, "a set of fewer than two functions", "name two or more, as in [[a, b]]");
            }
            all.push(set);
        }
        all
    };
    let (together, apart) = (read("together"), read("apart"));
    let placement = Placement {
        when_lost: when_lost?,
        region: region?,
        together,
        apart,
        max_delay: max_delay?,
        bandwidth: bandwidth?,
    };
    let joined = placement.joined();
    for (i, set) in placement.apart.iter().enumerate() {
        let both = joined.iter().map(|j| set.iter().filter(|f| j.contains(f)).collect::<Vec<_>>());
        for pair in both.filter(|both| both.len() > 1) {
            if let [a, b, ..] = pair[..] {
                let text = format!("functions '{a}' and '{b}' of \"apart\"[{i}] are to be together as well");
                r.error(at, text, "leave them out of one of the two");
            }
        }
    }
    Some(placement)
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

fn sets(g: &mut SchemaGenerator) -> Schema {
    let id = g.subschema_for::<Id>();
    json_schema!({
        "type": "array",
        "maxItems": MAX_SETS,
        "items": { "type": "array", "items": id, "minItems": 2, "uniqueItems": true }
    })
}

#[cfg(test)]
mod tests {
    use super::super::ServiceGraph;
    use super::*;

    const GRAPH: &str =
        "id: g\nname: g\nSFs:\n  - {id: a, name: wire}\n  - {id: b, name: wire}\n  - {id: c, name: wire}\n";

    fn with(placement: &str) -> Result<ServiceGraph, crate::DocErrors> {
        ServiceGraph::parse(&format!("{GRAPH}placement: {placement}\n"))
    }

    #[test]
    fn what_is_asked_of_the_placement_is_read_and_written_again() {
        let all = "{when-lost: move, region: east, together: [[a, b]], apart: [[b, c], [a, c]], max-delay: 5 ms, bandwidth: 100 Mbit/s}";
        let graph = with(all).unwrap();
        assert_eq!(graph.placement.when_lost, Some(WhenLost::Move));
        assert_eq!(graph.placement.apart.len(), 2);
        let again = ServiceGraph::from_json(&graph.to_json().to_string()).unwrap();
        assert_eq!(again, graph);
        let none = with("{}").unwrap();
        assert!(none.to_json()["sffg"].get("placement").is_none(), "what says nothing is left out");
    }

    #[test]
    fn mistakes_are_said() {
        let cases = [
            ("{when-lost: flee}", "placement.when-lost", "keep waits until the node is back"),
            ("{together: [[a, d]]}", "placement.together[0]", "there is no function \"d\""),
            ("{apart: [[a]]}", "placement.apart[0]", "name two or more"),
            ("{apart: [a, b]}", "placement.apart[0]", "expected a list of functions"),
            ("{apart: [[a, a]]}", "placement.apart[0][1]", "it is there twice"),
            (
                "{together: [[a, b], [b, c]], apart: [[a, c]]}",
                "placement",
                "'a' and 'c' of \"apart\"[0] are to be together",
            ),
            ("{max-delay: 5}", "placement.max-delay", "such as 5 ms"),
            ("{near: here}", "placement.near", "unknown field"),
        ];
        for (placement, path, what) in cases {
            let e = with(placement).unwrap_err();
            assert_eq!(e.errors()[0].path, path, "{placement}: {e}");
            assert!(e.to_string().contains(what), "{placement}: {e}");
        }
    }

    #[test]
    fn sets_with_a_function_in_common_are_one() {
        let graph = with("{together: [[a, b], [b, c]]}").unwrap();
        assert_eq!(graph.placement.joined().len(), 1);
    }

    #[test]
    fn a_single_node_is_not_asked_for_places() {
        assert!(with("{when-lost: move}").unwrap().on_one_node().unwrap().placement.is_empty());
    }
}
