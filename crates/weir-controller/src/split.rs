//! A graph that spans nodes becomes one graph a node, joined by tunnels (COMPOSER paper, section 5.1.1 and figure 6). Pure.
//!
//! Where a rule sends packets from a node to a place at another one, both nodes get an access point for a tunnel that carries packets
//! for that place alone: what a rule decides is decided once, where the packets come in, and nothing has to travel with them. On a
//! path over nodes in between, each of these passes the packets on from one tunnel to the next.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weir_measure::{Monitoring, Of};
use weir_model::DocErrors;
use weir_model::graph::{
    Actions, Function, FunctionState, GraphParts, Match, Placement, PortRef, Rule, Sap, SapKind,
    ServiceGraph, VXLAN_PORT, VxlanSap, WIREGUARD_PORT, WireGuardPeer,
};
use weir_model::value::{Id, PublicKey};

use crate::links::{Link, path, usable};
use crate::migrate::core::{Moving, Stage};
use crate::migrate::turns::{Turns, turn_port};

/// The numbers of tunnels between nodes: the upper half of what VXLAN has. Documents have the lower half.
pub(crate) const NUMBERS: std::ops::RangeInclusive<u32> = 0x80_0000..=0xff_ffff;

/// Which node each part of a graph is on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The functions.
    pub functions: BTreeMap<Id, String>,
    /// The service access points.
    pub saps: BTreeMap<Id, String>,
}

impl Places {
    /// The node of a place.
    pub fn node(&self, place: &PortRef) -> Option<&String> {
        match place {
            PortRef::Sap(id) => self.saps.get(id),
            PortRef::Function { function, .. } => self.functions.get(function),
        }
    }
}

/// A tunnel of a graph from a node to the next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tunnel {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Where the packets are to go in the end, as in flow rules.
    pub place: String,
    /// The node where they began.
    pub origin: String,
    /// The node that the place is at. None is known of tunnels that an older controller made.
    #[serde(default)]
    pub end: String,
    /// Its number (VNI).
    pub number: u32,
}

impl std::fmt::Display for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tunnel { from, to, place, origin, end: _, number } = self;
        write!(f, "vxlan {number:#x} from {from} to {to}: from {origin} to {place}")
    }
}

/// A graph cannot be split.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// A part of it has no node.
    #[error("'{0}' is on no node")]
    Nowhere(String),
    /// Nodes do not reach each other.
    #[error("no link leads from node '{from}' to node '{to}', where '{place}' is")]
    NoPath {
        /// Where packets come from.
        from: String,
        /// Where they should go.
        to: String,
        /// To what.
        place: String,
    },
    /// Tunnels are to be encrypted.
    #[error("tunnels between nodes are encrypted, and node '{0}' says no key; a newer Weir on it does")]
    NoKey(String),
    /// There are no numbers for tunnels left.
    #[error("all {} numbers of tunnels are in use", NUMBERS.count())]
    NoNumber,
    /// One node does all of a graph's monitoring.
    #[error(
        "the monitoring measures '{of}' on node '{node}' and '{other}' on node '{elsewhere}'; measure what is on one node"
    )]
    Monitoring {
        /// What is measured.
        of: String,
        /// Where it is.
        node: String,
        /// What else is measured.
        other: String,
        /// Where that is.
        elsewhere: String,
    },
    /// A part is no graph.
    #[error("the part for node '{node}' is wrong: {what}")]
    Part {
        /// Which.
        node: String,
        /// Why.
        what: DocErrors,
    },
}

/// A graph in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// What each node is to run.
    pub parts: BTreeMap<String, ServiceGraph>,
    /// The tunnels between them.
    pub tunnels: Vec<Tunnel>,
}

/// Makes the tunnels of a graph, with the numbers that it had before where it had them.
struct Tunnels<'a> {
    links: &'a [&'a Link],
    before: &'a [Tunnel],
    taken: &'a BTreeSet<u32>,
    made: Vec<Tunnel>,
}

impl Tunnels<'_> {
    /// The tunnels that lead from a node to a place at another, in order.
    fn to(&mut self, origin: &str, to: &str, place: &PortRef) -> Result<Vec<Tunnel>, SplitError> {
        let (end, place) = (to, place.to_string());
        let (path, _) = path(self.links, origin, to).ok_or_else(|| SplitError::NoPath {
            from: origin.to_owned(),
            to: to.to_owned(),
            place: place.clone(),
        })?;
        let mut tunnels = Vec::new();
        for hop in path.windows(2) {
            let [from, to] = hop else { continue };
            // A place that moves is at two nodes for a while.
            let is = |t: &&Tunnel| {
                let same_end = t.end == end || t.end.is_empty();
                t.from == *from && t.to == *to && t.place == place && t.origin == origin && same_end
            };
            let tunnel = match self.made.iter().find(is) {
                Some(made) => made.clone(),
                None => {
                    let number = match self.before.iter().find(is) {
                        Some(before) => before.number,
                        None => self.number().ok_or(SplitError::NoNumber)?,
                    };
                    let (from, to, end) = (from.clone(), to.clone(), end.to_owned());
                    let new =
                        Tunnel { from, to, place: place.clone(), origin: origin.to_owned(), end, number };
                    self.made.push(new.clone());
                    new
                }
            };
            tunnels.push(tunnel);
        }
        Ok(tunnels)
    }

    fn number(&self) -> Option<u32> {
        let own = |n: &u32| self.before.iter().chain(&self.made).any(|t| t.number == *n);
        NUMBERS.clone().find(|n| !self.taken.contains(n) && !own(n))
    }
}

/// The identifier of a tunnel's access point.
fn sap_id(number: u32) -> Result<Id, DocErrors> {
    let text = format!("tunnel-{number:x}");
    text.parse().map_err(|_| DocErrors::one(None, format!("{text} is no identifier"), ""))
}

/// The public keys of nodes.
pub type Keys = BTreeMap<String, PublicKey>;

/// A tunnel's access point at one of its ends.
fn sap(links: &[&Link], keys: &Keys, tunnel: &Tunnel, node: &str) -> Result<Option<Sap>, SplitError> {
    let other = if tunnel.from == node { &tunnel.to } else { &tunnel.from };
    let ends = links.iter().filter_map(|l| Some((l, l.from(node)?))).find(|(_, (_, end))| end.node == *other);
    let Some((link, (here, there))) = ends else { return Ok(None) };
    let wireguard = match keys.get(other) {
        Some(key) if link.encrypted => Some(WireGuardPeer { public_key: *key, udp_port: WIREGUARD_PORT }),
        None if link.encrypted => return Err(SplitError::NoKey(other.clone())),
        _ => None,
    };
    let id = sap_id(tunnel.number).map_err(|what| SplitError::Part { node: node.to_owned(), what })?;
    let vxlan = VxlanSap {
        vni: tunnel.number,
        local_ip: here.address.into(),
        remote_ip: there.address.into(),
        udp_port: VXLAN_PORT,
        wireguard,
    };
    Ok(Some(Sap { id, name: None, node: None, kind: SapKind::Vxlan { vxlan } }))
}

/// The tunnels of a graph before it is split.
#[derive(Debug, Clone, Copy)]
pub struct Had<'a> {
    /// Those that it has.
    pub tunnels: &'a [Tunnel],
    /// Numbers that belong to other graphs.
    pub taken: &'a BTreeSet<u32>,
}

/// The nodes that a function is at, with the state that it has there.
fn whereabouts<'n>(
    f: &Function,
    node: &'n String,
    moving: Option<&'n Moving>,
) -> Vec<(&'n String, Option<FunctionState>)> {
    let Some(m) = moving.filter(|m| m.function == f.id.as_str()) else { return vec![(node, f.state)] };
    let stopped = Some(FunctionState::Stopped);
    // One that does not work anyway need not stop at a word.
    let moving = match f.state {
        None | Some(FunctionState::Running) => Some(FunctionState::Moving),
        _ => stopped,
    };
    match m.stage {
        Stage::Prepared => vec![(&m.from, f.state.or(Some(FunctionState::Running))), (&m.to, stopped)],
        Stage::Ready | Stage::Turned => vec![(&m.from, moving), (&m.to, moving)],
        // What waits there goes on.
        Stage::Arrived => vec![(node, f.state.or(Some(FunctionState::Running)))],
    }
}

/// The rules behind tunnels at the nodes where they end, by the tunnels' numbers.
type Onward = BTreeMap<u32, (String, PortRef)>;

/// Where packets are sent that are to go by these tunnels, one after the other, to a place.
fn lead(hops: &[Tunnel], place: &PortRef, onward: &mut Onward) -> Result<PortRef, DocErrors> {
    let ids = hops.iter().map(|t| sap_id(t.number)).collect::<Result<Vec<_>, _>>()?;
    for (i, hop) in hops.iter().enumerate() {
        let next = ids.get(i + 1).map_or_else(|| place.clone(), |id| PortRef::Sap(id.clone()));
        onward.insert(hop.number, (hop.to.clone(), next));
    }
    Ok(ids.into_iter().next().map_or_else(|| place.clone(), PortRef::Sap))
}

/// The node that has all that is measured; none without measurements.
pub(crate) fn monitoring_node(
    monitoring: &Monitoring,
    places: &Places,
) -> Result<Option<String>, SplitError> {
    let mut first: Option<(String, &String)> = None;
    for m in monitoring.measurements() {
        let (name, node) = match m.metric.of() {
            Of::Function(id) | Of::Port(id, _) => {
                let found = places.functions.iter().find(|(f, _)| f.as_str() == id);
                (id, found.map(|(_, node)| node))
            }
            Of::Sap(id) => {
                let found = places.saps.iter().find(|(s, _)| s.as_str() == id);
                (id, found.map(|(_, node)| node))
            }
        };
        let node = node.ok_or_else(|| SplitError::Nowhere(name.clone()))?;
        match &first {
            None => first = Some((name, node)),
            Some((of, at)) if *at != node => {
                let (of, node, elsewhere) = (of.clone(), (*at).clone(), node.clone());
                return Err(SplitError::Monitoring { of, node, other: name, elsewhere });
            }
            Some(_) => {}
        }
    }
    Ok(first.map(|(_, node)| node.clone()))
}

/// Splits a graph. Tunnels over links that encrypt are so by `keys`. A function that is `moving` is at two nodes as long as it has not arrived.
///
/// # Errors
/// See [`SplitError`].
pub fn split(
    graph: &ServiceGraph,
    places: &Places,
    links: &[Link],
    keys: &Keys,
    had: Had<'_>,
    moving: Option<&Moving>,
) -> Result<Split, SplitError> {
    let Had { tunnels: before, taken } = had;
    let nowhere = |place: &PortRef| SplitError::Nowhere(place.to_string());
    let mut parts: BTreeMap<String, GraphParts> = BTreeMap::new();
    let empty = || GraphParts {
        id: graph.id.clone(),
        name: graph.name.clone(),
        tenant: graph.tenant.clone(),
        node: None,
        placement: Placement::default(),
        functions: Vec::new(),
        saps: Vec::new(),
        flowrules: Vec::new(),
        requirements: Vec::new(),
        monitoring: None,
        direct_links: graph.direct_links,
        start: graph.start,
        idle: graph.idle,
    };
    for f in &graph.functions {
        let node = places.functions.get(&f.id).ok_or_else(|| SplitError::Nowhere(f.id.to_string()))?;
        for (node, state) in whereabouts(f, node, moving) {
            let is_it = moving.filter(|m| m.function == f.id.as_str());
            let kind = is_it.map_or(f.kind, |m| m.kind_at(node, f.kind));
            let template =
                is_it.map_or_else(|| f.template.clone(), |m| m.image_at(node, f.template.as_ref()));
            let f = Function { state, kind, template, ..f.clone() };
            parts.entry(node.clone()).or_insert_with(empty).functions.push(f);
        }
    }
    for s in &graph.saps {
        let node = places.saps.get(&s.id).ok_or_else(|| SplitError::Nowhere(s.id.to_string()))?;
        parts.entry(node.clone()).or_insert_with(empty).saps.push(s.clone());
    }
    let links = &usable(links, &graph.placement)[..];
    let mut tunnels = Tunnels { links, before, taken, made: Vec::new() };
    let mut turns = Turns::default();
    let mut onward = Onward::new();
    let bad = |node: &String| {
        let node = node.clone();
        move |what| SplitError::Part { node, what }
    };
    for rule in &graph.flowrules {
        let from = &rule.matches.port_in;
        let node = places.node(from).ok_or_else(|| nowhere(from))?;
        let two = moving.filter(|m| m.is_of(from)).and_then(Moving::nodes);
        for node in two.map_or_else(|| vec![node], Vec::from) {
            let mut rule = rule.clone();
            for output in &mut rule.actions.output_to_port {
                let place = output.clone();
                let at = places.node(&place).ok_or_else(|| nowhere(&place))?;
                if let Some(m) = moving.filter(|m| m.turns() && m.is_of(&place) && !m.is_of(from)) {
                    let turn = turns.of(graph, node, &place).map_err(bad(node))?;
                    for (port, to) in [("old", &m.from), ("new", &m.to)] {
                        let first = if to == node {
                            place.clone()
                        } else {
                            let hops = tunnels.to(node, to, &place)?;
                            lead(&hops, &place, &mut onward).map_err(bad(node))?
                        };
                        turns.leads(graph, node, &turn, (port, first)).map_err(bad(node))?;
                    }
                    *output = turn_port(&turn, "in").map_err(bad(node))?;
                    continue;
                }
                // Where packets go, and behind it where else tunnels have to lead.
                let ends = match moving.filter(|m| m.is_of(&place)) {
                    Some(m) if m.is_of(from) && m.nodes().is_some() => vec![node],
                    Some(m) => m.nodes().map_or_else(|| vec![at], Vec::from),
                    None => vec![at],
                };
                for (i, to) in ends.into_iter().enumerate() {
                    if to == node {
                        continue;
                    }
                    let hops = tunnels.to(node, to, &place)?;
                    let first = lead(&hops, &place, &mut onward).map_err(bad(node))?;
                    if i == 0 {
                        *output = first;
                    }
                }
            }
            parts.entry(node.clone()).or_insert_with(empty).flowrules.push(rule);
        }
    }
    for (node, turn) in turns.made {
        let part = parts.entry(node).or_insert_with(empty);
        part.functions.push(turn.function);
        part.flowrules.extend(turn.rules);
    }
    for tunnel in &tunnels.made {
        for node in [&tunnel.from, &tunnel.to] {
            if let Some(sap) = sap(links, keys, tunnel, node)? {
                parts.entry(node.clone()).or_insert_with(empty).saps.push(sap);
            }
        }
    }
    if let Some(monitoring) = &graph.monitoring {
        let node = monitoring_node(monitoring, places)?.or_else(|| parts.keys().next().cloned());
        if let Some(part) = node.and_then(|node| parts.get_mut(&node)) {
            part.monitoring = Some(monitoring.clone());
        }
    }
    for (number, (node, place)) in onward {
        let id = sap_id(number).map_err(bad(&node))?;
        let rule = Rule {
            id: id.clone(),
            priority: 1,
            matches: Match::port_in(PortRef::Sap(id)),
            actions: Actions { output_to_port: vec![place], ..Actions::default() },
        };
        parts.entry(node).or_insert_with(empty).flowrules.push(rule);
    }
    let check = |(node, parts): (String, GraphParts)| {
        let graph = ServiceGraph::from_parts(&parts).and_then(ServiceGraph::on_one_node);
        match graph {
            Ok(graph) => Ok((node, graph)),
            Err(what) => Err(SplitError::Part { node, what }),
        }
    };
    let parts = parts.into_iter().map(check).collect::<Result<_, _>>()?;
    Ok(Split { parts, tunnels: tunnels.made })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weir_model::graph::RunAs;

    use super::*;
    use crate::links::End;
    use crate::migrate::core::Kinds;

    const GRAPH: &str = "
id: g
name: g
SFs:
  - {id: fw, name: firewall, ports: [in, out]}
saps:
  - {id: lan, type: interface, interface: {if-name: lan}}
  - {id: wan, type: interface, interface: {if-name: lan}, node: n3}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:lan'}, actions: {output_to_port: 'sf:fw:in'}}
  - {id: b, priority: 2, match: {port_in: 'sf:fw:out', ip_proto: 6}, actions: {dec_ttl: true, output_to_port: 'sap:wan'}}
  - {id: c, priority: 1, match: {port_in: 'sap:wan'}, actions: {output_to_port: ['sf:fw:out', 'sap:lan']}}
  - {id: d, priority: 1, match: {port_in: 'sf:fw:in'}, actions: {output_to_port: 'sap:lan'}}
";

    fn link(a: u8, b: u8) -> Link {
        let end =
            |n: u8| End { node: format!("n{n}"), interface: "m".into(), address: Ipv4Addr::new(10, 0, 0, n) };
        Link {
            a: end(a),
            b: end(b),
            mtu: Some(1500),
            declared: false,
            capacity: None,
            delay: None,
            encrypted: false,
            promised: [0, 0],
        }
    }

    fn places(fw: &str) -> Places {
        let id = |text: &str| text.parse::<Id>().unwrap();
        Places {
            functions: BTreeMap::from([(id("fw"), fw.into())]),
            saps: BTreeMap::from([(id("lan"), "n1".into()), (id("wan"), "n3".into())]),
        }
    }

    fn rules(graph: &ServiceGraph) -> Vec<String> {
        let outputs = |r: &Rule| -> String {
            let all: Vec<String> = r.actions.output_to_port.iter().map(ToString::to_string).collect();
            all.join(" and ")
        };
        graph.flowrules.iter().map(|r| format!("{} to {}", r.matches.port_in, outputs(r))).collect()
    }

    #[test]
    fn each_node_gets_its_functions_and_rules_and_tunnels_to_the_others() {
        let graph = ServiceGraph::parse(GRAPH).unwrap();
        let links = [link(1, 2), link(2, 3), link(1, 3)];
        let taken = BTreeSet::from([0x80_0000]);
        let had = Had { tunnels: &[], taken: &taken };
        let split = split(&graph, &places("n2"), &links, &Keys::new(), had, None).unwrap();
        assert_eq!(
            rules(&split.parts["n1"]),
            ["sap:lan to sap:tunnel-800001", "sap:tunnel-800004 to sap:lan", "sap:tunnel-800005 to sap:lan"]
        );
        assert_eq!(
            rules(&split.parts["n2"]),
            [
                "sf:fw:out to sap:tunnel-800002",
                "sf:fw:in to sap:tunnel-800005",
                "sap:tunnel-800001 to sf:fw:in",
                "sap:tunnel-800003 to sf:fw:out"
            ]
        );
        assert_eq!(
            rules(&split.parts["n3"]),
            ["sap:wan to sap:tunnel-800003 and sap:tunnel-800004", "sap:tunnel-800002 to sap:wan"]
        );
        // What changes packets is done once, where they come in.
        assert!(split.parts["n2"].flowrules[0].actions.dec_ttl);
        let vxlan = |node: &str, id: &str| split.parts[node].sap(&id.parse().unwrap()).unwrap().kind.clone();
        let SapKind::Vxlan { vxlan: sender } = vxlan("n1", "tunnel-800001") else { panic!() };
        let SapKind::Vxlan { vxlan: receiver } = vxlan("n2", "tunnel-800001") else { panic!() };
        assert_eq!((sender.local_ip, sender.remote_ip), (receiver.remote_ip, receiver.local_ip));
        // The same again has the same numbers, also when something else is new.
        let none = BTreeSet::new();
        let had = Had { tunnels: &split.tunnels, taken: &none };
        let again = super::split(&graph, &places("n2"), &links, &Keys::new(), had, None).unwrap();
        assert_eq!(again, split);
    }

    #[test]
    fn nodes_in_between_pass_packets_on() {
        let graph = ServiceGraph::parse(GRAPH).unwrap();
        let none = BTreeSet::new();
        let had = Had { tunnels: &[], taken: &none };
        let split = split(&graph, &places("n1"), &[link(1, 2), link(2, 3)], &Keys::new(), had, None).unwrap();
        assert!(split.parts["n2"].functions.is_empty());
        assert_eq!(rules(&split.parts["n2"]).len(), 3, "to wan, to fw:out, to lan");
        let e = super::split(&graph, &places("n1"), &[link(1, 2)], &Keys::new(), had, None).unwrap_err();
        assert_eq!(e.to_string(), "no link leads from node 'n1' to node 'n3', where 'sap:wan' is");
    }

    #[test]
    fn a_graph_on_one_node_stays_whole() {
        let text = GRAPH.replace("if-name: lan}, node: n3", "if-name: wan}");
        let graph = ServiceGraph::parse(&text).unwrap();
        let mut places = places("n1");
        places.saps.insert("wan".parse().unwrap(), "n1".into());
        let none = BTreeSet::new();
        let split =
            split(&graph, &places, &[], &Keys::new(), Had { tunnels: &[], taken: &none }, None).unwrap();
        assert_eq!((split.parts.len(), split.tunnels.len()), (1, 0));
        assert_eq!(split.parts["n1"], graph);
    }

    #[test]
    fn a_function_that_moves_is_at_two_nodes_and_packets_turn_from_one_to_the_other() {
        let graph = ServiceGraph::parse(GRAPH).unwrap();
        let links = [link(1, 2), link(2, 3), link(1, 3)];
        let none = BTreeSet::new();
        let first =
            split(&graph, &places("n2"), &links, &Keys::new(), Had { tunnels: &[], taken: &none }, None)
                .unwrap();
        let moving = |stage| Moving::new("fw", ["n2", "n1"], stage);
        let at = |split: &Split, node: &str| {
            let f = split.parts.get(node).and_then(|p| p.functions.first());
            f.map(|f| f.state)
        };
        let stage = |stage, before: &Split| {
            let had = Had { tunnels: &before.tunnels, taken: &none };
            let places = places(if stage == Stage::Arrived { "n1" } else { "n2" });
            split(&graph, &places, &links, &Keys::new(), had, Some(&moving(stage))).unwrap()
        };
        let said = |state| Some(Some(state));
        let stopped = said(FunctionState::Stopped);
        let prepared = stage(Stage::Prepared, &first);
        assert_eq!((at(&prepared, "n2"), at(&prepared, "n1")), (said(FunctionState::Running), stopped));
        // All that led to it leads there as before, by the same tunnels.
        assert!(first.tunnels.iter().all(|t| prepared.tunnels.contains(t)));
        assert_eq!(rules(&prepared.parts["n1"])[0], "sap:lan to sap:tunnel-800000");
        let ready = stage(Stage::Ready, &prepared);
        let moving_state = said(FunctionState::Moving);
        assert_eq!((at(&ready, "n2"), at(&ready, "n1")), (moving_state, moving_state));
        let by_number =
            |s: &Split| s.tunnels.iter().map(|t| (t.number, t.clone())).collect::<BTreeMap<_, _>>();
        assert_eq!(by_number(&ready), by_number(&prepared), "no tunnel is another one");
        // Where packets come in, one word leads them from the old place to the new one.
        let at_n1 = rules(&ready.parts["n1"]);
        for rule in
            ["sap:lan to sf:turn-0:in", "sf:turn-0:old to sap:tunnel-800000", "sf:turn-0:new to sf:fw:in"]
        {
            assert!(at_n1.contains(&rule.to_owned()), "{at_n1:?}");
        }
        let turn = ready.parts["n3"].functions.iter().find(|f| f.id.as_str() == "turn-1").unwrap();
        assert_eq!(turn.click.as_deref(), Some(crate::migrate::turns::CLICK));
        // What the function sends to itself stays where it is, and what is under way to the old place gets there.
        assert!(rules(&ready.parts["n2"]).contains(&"sap:tunnel-800000 to sf:fw:in".to_owned()));
        let turned = stage(Stage::Turned, &ready);
        assert_eq!(turned, ready, "a turn takes no other parts");
        let arrived = stage(Stage::Arrived, &turned);
        assert_eq!((at(&arrived, "n2"), at(&arrived, "n1")), (None, Some(Some(FunctionState::Running))));
        assert!(arrived.tunnels.iter().all(|t| turned.tunnels.contains(t)), "and no new ones at the end");
        // One that goes into a process is in one there alone, also while it is at both nodes.
        let into = Kinds { from: None, to: Some(RunAs::Process) };
        for (stage, at, kinds) in [
            (Stage::Prepared, "n2", [Some(None), Some(into.to)]),
            (Stage::Turned, "n2", [Some(None), Some(into.to)]),
            (Stage::Arrived, "n1", [None, Some(into.to)]),
            // The move failed.
            (Stage::Arrived, "n2", [Some(None), None]),
        ] {
            let moving = Moving { kinds: Some(into), ..moving(stage) };
            let had = Had { tunnels: &ready.tunnels, taken: &none };
            let split = split(&graph, &places(at), &links, &Keys::new(), had, Some(&moving)).unwrap();
            let kind = |node: &str| {
                let own = split.parts.get(node)?.functions.iter().find(|f| f.id.as_str() == "fw");
                own.map(|f| f.kind)
            };
            assert_eq!(["n2", "n1"].map(kind), kinds, "{stage:?} at {at}");
        }
    }
}
