//! Which graphs are to be placed anew because nodes of theirs are lost. Pure: no I/O, no clock. All times are since the controller started.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_api::domain::Domain;
use weir_model::graph::{Sap, ServiceGraph, WhenLost};
use weir_model::value::Id;

use crate::facts::no_place;
use crate::split::Places;

/// How long a node is offline before it is lost: a daemon that is started again is back earlier, and with [`weir_rest::listen::SILENCE`] all is placed
/// anew within 5 s.
pub const HOLD: Duration = Duration::from_millis(1500);
/// How long nodes have to come back after the controller started, unless all of them have been there since.
pub const GRACE: Duration = Duration::from_secs(30);
/// How long until a graph that could not be placed is tried again.
pub const AGAIN: Duration = Duration::from_secs(5);

/// Whether a node is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Whether it is connected.
    pub online: bool,
    /// Since when that is so; none if it has not been connected since the controller started.
    pub since: Option<Duration>,
}

/// A graph and its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<'a> {
    /// Its identifier.
    pub id: &'a str,
    /// The nodes that it is on.
    pub nodes: BTreeSet<&'a str>,
    /// What becomes of it when one is lost.
    pub when_lost: WhenLost,
}

/// A graph that is to be placed anew now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its identifier.
    pub id: String,
    /// The nodes that it had, and that are lost.
    pub from: BTreeSet<String>,
}

/// The nodes that are lost.
fn lost<'a>(nodes: &BTreeMap<&'a str, Node>, now: Duration) -> BTreeSet<&'a str> {
    let all_seen = nodes.values().all(|n| n.since.is_some());
    let begin = if all_seen { Duration::ZERO } else { GRACE };
    let is_lost = |n: &Node| !n.online && now >= n.since.unwrap_or_default().max(begin) + HOLD;
    nodes.iter().filter(|(_, n)| is_lost(n)).map(|(name, _)| *name).collect()
}

/// What of a graph can be on none but nodes that it is to leave, and why. `others` are nodes that are there, with what they are to others.
pub fn bound(
    graph: &ServiceGraph,
    places: &Places,
    from: &BTreeSet<String>,
    others: &BTreeMap<&str, &Domain>,
) -> Vec<String> {
    let named = |what: String, node: &Option<Id>| {
        let node = node.as_ref().filter(|n| from.contains(n.as_str()))?;
        Some(format!("{what} is to be at node '{node}', as the document says"))
    };
    let sap = |s: &Sap| {
        let what = format!("access point '{}'", s.id);
        if let Some(why) = named(what.clone(), &s.node) {
            return Some(why);
        }
        let node = places.saps.get(&s.id).filter(|n| from.contains(*n))?;
        let why: Option<Vec<String>> = others
            .iter()
            .map(|(name, domain)| {
                Some(format!("node {name}: {}", no_place(domain, graph.id.as_str(), s)?.without_others()))
            })
            .collect();
        let why = match why?.join("; ") {
            none if none.is_empty() => "there is none".to_owned(),
            why => why,
        };
        Some(format!("{what} is at node '{node}', and no other node has a place for it: {why}"))
    };
    let whole = named("the graph".to_owned(), &graph.node);
    let functions = graph.functions.iter().filter_map(|f| named(format!("function '{}'", f.id), &f.node));
    whole.into_iter().chain(graph.saps.iter().filter_map(sap)).chain(functions).collect()
}

/// The graphs that could not be placed anew so far, and why.
#[derive(Debug, Default)]
pub struct Failures(BTreeMap<String, (Duration, String)>);

impl Failures {
    /// The graphs that are to be placed anew now. Those whose nodes are back are forgotten.
    pub fn due(&mut self, graphs: &[Placed<'_>], nodes: &BTreeMap<&str, Node>, now: Duration) -> Vec<Due> {
        let lost = lost(nodes, now);
        let offline = |node: &&str| nodes.get(node).is_none_or(|n| !n.online);
        let mut due = Vec::new();
        let mut affected = BTreeSet::new();
        for graph in graphs.iter().filter(|g| g.when_lost == WhenLost::Move) {
            let away: BTreeSet<&str> = graph.nodes.iter().copied().filter(offline).collect();
            // One that may be back in a moment keeps its part, so the others wait for it to be back or lost.
            if away.is_empty() || !away.is_subset(&lost) {
                continue;
            }
            affected.insert(graph.id);
            if self.0.get(graph.id).is_none_or(|(at, _)| now >= *at + AGAIN) {
                let from = away.into_iter().map(str::to_owned).collect();
                due.push(Due { id: graph.id.to_owned(), from });
            }
        }
        self.0.retain(|id, _| affected.contains(id.as_str()));
        due
    }

    /// A graph cannot be placed. Whether that is for another reason than before, or for the first time.
    pub fn failed(&mut self, id: &str, now: Duration, reason: String) -> bool {
        let new = self.0.get(id).is_none_or(|(_, before)| *before != reason);
        self.0.insert(id.to_owned(), (now, reason));
        new
    }

    /// It is placed.
    pub fn placed(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Why a graph could not be placed when that was tried last.
    pub fn reason(&self, id: &str) -> Option<&str> {
        self.0.get(id).map(|(_, reason)| reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn node(online: bool, since: u32) -> Node {
        Node { online, since: Some(SECOND * since) }
    }

    fn graph<'a>(id: &'a str, nodes: &[&'a str], when_lost: WhenLost) -> Placed<'a> {
        Placed { id, nodes: nodes.iter().copied().collect(), when_lost }
    }

    fn ids(due: &[Due]) -> Vec<&str> {
        due.iter().map(|d| d.id.as_str()).collect()
    }

    #[test]
    fn graphs_of_a_lost_node_are_placed_anew_if_they_may() {
        let graphs = [
            graph("moves", &["n1"], WhenLost::Move),
            graph("over", &["n1", "n2"], WhenLost::Move),
            graph("stays", &["n1"], WhenLost::Keep),
            graph("elsewhere", &["n2"], WhenLost::Move),
        ];
        let nodes = BTreeMap::from([("n1", node(false, 100)), ("n2", node(true, 1))]);
        let mut failures = Failures::default();
        assert_eq!(failures.due(&graphs, &nodes, SECOND * 101), [], "it may be back in a moment");
        let due = failures.due(&graphs, &nodes, SECOND * 102);
        assert_eq!(ids(&due), ["moves", "over"]);
        assert_eq!(due[1].from, BTreeSet::from(["n1".to_owned()]), "what survives stays");
    }

    #[test]
    fn a_controller_that_starts_waits_for_its_nodes() {
        let graphs = [graph("g", &["n1"], WhenLost::Move)];
        let never = Node { online: false, since: None };
        let mut failures = Failures::default();
        let nodes = BTreeMap::from([("n1", never), ("n2", node(true, 1))]);
        assert_eq!(failures.due(&graphs, &nodes, SECOND * 30), []);
        assert_eq!(ids(&failures.due(&graphs, &nodes, SECOND * 32)), ["g"]);
        // One that was there and left waits for the others, too, if they have not all been there.
        let nodes = BTreeMap::from([("n1", node(false, 3)), ("n2", never)]);
        assert_eq!(failures.due(&graphs, &nodes, SECOND * 10), []);
        let nodes = BTreeMap::from([("n1", node(false, 3)), ("n2", node(true, 4))]);
        assert_eq!(ids(&failures.due(&graphs, &nodes, SECOND * 10)), ["g"]);
    }

    #[test]
    fn a_graph_waits_for_a_node_that_may_be_back_in_a_moment() {
        let graphs = [graph("g", &["n1", "n2"], WhenLost::Move)];
        let mut failures = Failures::default();
        let nodes = BTreeMap::from([("n1", node(false, 10)), ("n2", node(false, 12))]);
        assert_eq!(failures.due(&graphs, &nodes, SECOND * 13), []);
        let due = failures.due(&graphs, &nodes, SECOND * 14);
        assert_eq!(due[0].from.len(), 2);
    }

    #[test]
    fn what_cannot_be_placed_is_tried_again_and_said_once() {
        let graphs = [graph("g", &["n1"], WhenLost::Move)];
        let nodes = BTreeMap::from([("n1", node(false, 10)), ("n2", node(true, 1))]);
        let mut failures = Failures::default();
        assert!(failures.failed("g", SECOND * 20, "why".into()));
        assert!(
            !failures.failed("g", SECOND * 20, "why".into())
                && failures.failed("g", SECOND * 20, "else".into())
        );
        assert_eq!(failures.due(&graphs, &nodes, SECOND * 24), []);
        assert_eq!(ids(&failures.due(&graphs, &nodes, SECOND * 25)), ["g"]);
        assert_eq!(failures.reason("g"), Some("else"));
        // When the node is back nothing is known against the graph any more.
        let back = BTreeMap::from([("n1", node(true, 26)), ("n2", node(true, 1))]);
        assert_eq!((failures.due(&graphs, &back, SECOND * 26), failures.reason("g")), (vec![], None));
    }

    #[test]
    fn what_can_be_nowhere_else_is_named() {
        let text = "
id: g
name: g
SFs:
  - {id: fw, name: firewall, node: n1, ports: [in, out]}
saps:
  - {id: lan, type: interface, interface: {if-name: lan}}
  - {id: wan, type: interface, interface: {if-name: wan}}
  - {id: dmz, node: n1, type: interface, interface: {if-name: dmz}}
";
        let graph = ServiceGraph::parse(text).unwrap();
        let id = |text: &str| text.parse::<Id>().unwrap();
        let saps = ["lan", "wan", "dmz"].map(|s| (id(s), "n1".to_owned()));
        let places = Places { functions: BTreeMap::new(), saps: BTreeMap::from(saps) };
        let wan = weir_api::domain::Endpoint {
            interface: "wan".into(),
            up: true,
            mac: None,
            mtu: None,
            addresses: Vec::new(),
            graph: None,
            vlans: Vec::new(),
            neighbours: Vec::new(),
        };
        let other = Domain { endpoints: vec![wan], ..Domain::default() };
        let n1 = BTreeSet::from(["n1".to_owned()]);
        let why = bound(&graph, &places, &n1, &BTreeMap::from([("n2", &other)]));
        assert_eq!(
            why,
            [
                "access point 'lan' is at node 'n1', and no other node has a place for it: node n2: it has no interface 'lan'",
                "access point 'dmz' is to be at node 'n1', as the document says",
                "function 'fw' is to be at node 'n1', as the document says",
            ]
        );
        let n2 = BTreeSet::from(["n2".to_owned()]);
        assert_eq!(bound(&graph, &places, &n2, &BTreeMap::new()), Vec::<String>::new());
    }

    proptest! {
        /// Whatever comes and goes: what is due has lost all of its nodes that are away, and may move.
        #[test]
        fn nothing_is_due_that_need_not_be(
            states in proptest::collection::vec((any::<bool>(), proptest::option::of(0u32..60)), 3),
            on in proptest::collection::vec(proptest::collection::btree_set(0usize..3, 1..4), 4),
            moves in proptest::collection::vec(any::<bool>(), 4),
            now in 0u32..90,
        ) {
            let names = ["n0", "n1", "n2"];
            let node = |(online, since): &(bool, Option<u32>)| Node {
                online: *online && since.is_some(),
                since: since.map(|s| SECOND * s.min(now)),
            };
            let nodes: BTreeMap<&str, Node> = names.iter().copied().zip(states.iter().map(node)).collect();
            let ids: Vec<String> = (0..4).map(|g| format!("g{g}")).collect();
            let policy = |moves: bool| if moves { WhenLost::Move } else { WhenLost::Keep };
            let graphs: Vec<Placed<'_>> = (0..4)
                .map(|g| graph(&ids[g], &on[g].iter().map(|n| names[*n]).collect::<Vec<_>>(), policy(moves[g])))
                .collect();
            for due in Failures::default().due(&graphs, &nodes, SECOND * now) {
                let graph = graphs.iter().find(|g| g.id == due.id).unwrap();
                prop_assert_eq!(graph.when_lost, WhenLost::Move);
                for name in &graph.nodes {
                    let node = nodes[name];
                    prop_assert_eq!(due.from.contains(*name), !node.online);
                    let away = SECOND * now - node.since.unwrap_or_default();
                    prop_assert!(node.online || away >= HOLD && (node.since.is_some() || SECOND * now >= GRACE + HOLD));
                }
                prop_assert!(!due.from.is_empty());
            }
        }
    }
}
