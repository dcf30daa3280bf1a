//! A graph that spans nodes becomes one graph a node, joined by tunnels (COMPOSER paper, section 5.1.1 and figure 6). Pure.
//!
//! Where a rule sends packets from a node to a place at another one, both nodes get an access point for a tunnel that carries packets
//! for that place alone: what a rule decides is decided once, where the packets come in, and nothing has to travel with them. On a
//! path over nodes in between, each of these passes the packets on from one tunnel to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use weir_api::members::Encapsulation;
use weir_measure::{Monitoring, Of};
use weir_model::DocErrors;
use weir_model::graph::{
    Actions, Function, FunctionState, GraphParts, GreSap, Match, Placement, PortRef, Rule, Sap, SapKind,
    ServiceGraph, VXLAN_PORT, VlanSap, VxlanSap, WIREGUARD_PORT, WireGuardPeer,
};
use weir_model::value::{Id, PublicKey, VlanId};

use crate::links::{Link, path, usable};
use crate::migrate::core::{Moving, Stage};
use crate::migrate::turns::{Turns, turn_port};

/// The numbers of tunnels between nodes by VXLAN and GRE: the upper half of what VXLAN has. Documents have the others.
pub(crate) const NUMBERS: RangeInclusive<u32> = 0x80_0000..=0xff_ffff;

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
    /// Its number: the VNI, GRE's key, or the VLAN.
    pub number: u32,
    /// How it goes over the link. It is not known of tunnels that an older controller made.
    #[serde(default)]
    pub encapsulation: Encapsulation,
}

impl std::fmt::Display for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tunnel { from, to, place, origin, end: _, number, encapsulation } = self;
        match encapsulation {
            Encapsulation::Vlan => write!(f, "vlan {number}")?,
            other => write!(f, "{other} {number:#x}")?,
        }
        write!(f, " from {from} to {to}: from {origin} to {place}")
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
    /// There are no VLANs for tunnels left.
    #[error(
        "all VLANs that tunnels between the nodes '{a}' and '{b}' may have are in use ({first} to {last}); give them more with 'weir link set {a} {b} --encapsulation vlan --vlans FIRST-LAST'"
    )]
    NoVlan {
        /// A node.
        a: String,
        /// The other node.
        b: String,
        /// The first VLAN.
        first: u32,
        /// The last one.
        last: u32,
    },
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
                    let link = between(self.links, from, to);
                    let encapsulation = link.map_or(Encapsulation::Vxlan, |l| l.encapsulation);
                    let numbers = numbers(link);
                    let number = match self.before.iter().find(is).map(|before| before.number) {
                        Some(before) if numbers.contains(&before) => before,
                        _ => self.number(&numbers).ok_or_else(|| none_left(from, to, &numbers))?,
                    };
                    let (from, to, end) = (from.clone(), to.clone(), end.to_owned());
                    let (place, origin) = (place.clone(), origin.to_owned());
                    let new = Tunnel { from, to, place, origin, end, number, encapsulation };
                    self.made.push(new.clone());
                    new
                }
            };
            tunnels.push(tunnel);
        }
        Ok(tunnels)
    }

    fn number(&self, numbers: &RangeInclusive<u32>) -> Option<u32> {
        let own = |n: &u32| self.before.iter().chain(&self.made).any(|t| t.number == *n);
        numbers.clone().find(|n| !self.taken.contains(n) && !own(n))
    }
}

/// The link between two nodes.
fn between<'l>(links: &[&'l Link], from: &str, to: &str) -> Option<&'l Link> {
    links.iter().find(|l| l.from(from).is_some_and(|(_, end)| end.node == to)).copied()
}

/// The numbers that tunnels over a link may have. No two tunnels of a domain have one: what is between the nodes may be one network for several of them.
fn numbers(link: Option<&Link>) -> RangeInclusive<u32> {
    match link {
        Some(Link { encapsulation: Encapsulation::Vlan, vlans, .. }) => {
            let [first, last] = vlans.unwrap_or([1, 0]);
            first.into()..=last.into()
        }
        _ => NUMBERS,
    }
}

fn none_left(a: &str, b: &str, numbers: &RangeInclusive<u32>) -> SplitError {
    if *numbers == NUMBERS {
        return SplitError::NoNumber;
    }
    SplitError::NoVlan { a: a.to_owned(), b: b.to_owned(), first: *numbers.start(), last: *numbers.end() }
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
    let Some(link) = between(links, node, other) else { return Ok(None) };
    let Some((here, there)) = link.from(node) else { return Ok(None) };
    let wrong = |what| SplitError::Part { node: node.to_owned(), what };
    let number = tunnel.number;
    let addresses = || {
        let both = here.address.zip(there.address).map(|(a, b)| (a.into(), b.into()));
        both.ok_or_else(|| wrong(DocErrors::one(None, format!("no address leads to node '{other}'"), "")))
    };
    let vxlan = |wireguard| {
        let (local_ip, remote_ip) = addresses()?;
        let vxlan = VxlanSap { vni: number, local_ip, remote_ip, udp_port: VXLAN_PORT, wireguard };
        Ok::<_, SplitError>(SapKind::Vxlan { vxlan })
    };
    let kind = match link.encapsulation {
        Encapsulation::Vxlan => vxlan(None)?,
        Encapsulation::WireGuard => {
            let key = keys.get(other).ok_or_else(|| SplitError::NoKey(other.clone()))?;
            vxlan(Some(WireGuardPeer { public_key: *key, udp_port: WIREGUARD_PORT }))?
        }
        Encapsulation::Gre => {
            let (local_ip, remote_ip) = addresses()?;
            SapKind::Gre { gre: GreSap { local_ip, remote_ip, gre_key: Some(number) } }
        }
        Encapsulation::Vlan => SapKind::Vlan { vlan: vlan(number, &here.interface).map_err(wrong)? },
    };
    let id = sap_id(number).map_err(wrong)?;
    Ok(Some(Sap { id, name: None, node: None, kind }))
}

/// A VLAN of an interface.
fn vlan(number: u32, interface: &str) -> Result<VlanSap, DocErrors> {
    let wrong = |what: String| DocErrors::one(None, what, "");
    let id = u16::try_from(number).ok().and_then(VlanId::new);
    let vlan_id = id.ok_or_else(|| wrong(format!("{number} is no VLAN")))?;
    let name = interface.parse().map_err(|_| wrong(format!("'{interface}' is no name of an interface")))?;
    Ok(VlanSap { vlan_id, if_name: Some(name) })
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
mod tests;
