//! Topologies as networks.
//!
//! Links carry IP packets, whose `net` mark stands on their first byte. What the Ethernet destination address does on a
//! real link, the annotation [`NEXT`] does here: whoever sends onto a segment writes the number of the port that the
//! packet is for, and switches go by it. Number 0 means that nobody is known to have the address: such packets go
//! everywhere, as frames do that a switch floods, and who is no Click box takes only what is addressed to it.
//!
//! A router forwards by its table and takes what is for its own addresses. End points and platforms take what is for
//! them on their segment, whatever its IP destination is, as hosts with forwarding do; packets they send go to who owns
//! the destination on their segment, or else to any router there.

mod click_box;
mod filter_box;
mod iptables;
mod martians;
mod placement;
mod segments;
mod send;
mod transfer;

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_ir::Program;
use weir_plan::Classes;
use weir_topology::import::iptables::Ruleset;
use weir_topology::{BoxKind, EndpointRole, FirewallRules, LOCAL, LinkEnd, NetBox, Topology};
use weir_verify::checks::{Framing, Start, Target};
use weir_verify::{Body, NodeId, NodePort};

use super::{EdgePort, Location, World, anything};
use crate::click::Label;
pub use placement::Modules;
pub(crate) use placement::plan;
use segments::Segments;

/// Offset of the annotation with the number of the port that a packet is for on its segment (4 bytes).
const NEXT: u32 = 44;
/// Offset of the annotation with the VLAN tag of a packet on a link, 0 for none (2 bytes).
const TAG: u32 = 42;

/// The class of platforms.
const PLATFORM: &str = "Platform";

/// The place at which packets enter a box by a port, and the one that those which leave by it come from.
type PortEnds = (NodePort, NodePort);

impl World {
    /// A topology without some of its links: those that `down` says are down. Requirements name its boxes and their ports.
    ///
    /// # Errors
    /// What is wrong with Click configurations of boxes.
    pub fn of_topology(
        topology: &Topology,
        classes: &Classes,
        down: impl Fn(&LinkEnd, &LinkEnd) -> bool,
    ) -> Result<World, Vec<String>> {
        let mut world = World::default();
        world.notes.extend(topology.not_modelled.iter().map(|(b, note)| format!("{b}: {note}")));
        let segments = Segments::new(topology, &down);
        let mut ports: Vec<Vec<PortEnds>> = Vec::new();
        let mut errors = Vec::new();
        for (i, b) in topology.boxes.iter().enumerate() {
            match world.add_box(&segments, (i, b), classes) {
                Ok(ends) => ports.push(ends),
                Err(list) => {
                    errors.extend(list);
                    ports.push(Vec::new());
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut wires: BTreeMap<NodePort, Vec<NodePort>> = BTreeMap::new();
        for (a, b, one_way) in segments.links() {
            let end = |(node, port): (usize, usize)| ports.get(node)?.get(port).copied();
            if let (Some((to_a, from_a)), Some((to_b, from_b))) = (end(a), end(b)) {
                wires.entry(from_a).or_default().push(to_b);
                if !one_way {
                    wires.entry(from_b).or_default().push(to_a);
                }
            }
        }
        for (from, to) in wires {
            world.lead(from, &to);
        }
        world.others =
            world.locations.iter().flat_map(|s| &s.edge_ports).filter_map(|g| g.start.clone()).collect();
        world.net.finish();
        Ok(world)
    }

    /// Leads what leaves at a place to another one; if there are several, each copy is followed by itself.
    fn lead(&mut self, from: NodePort, to: &[NodePort]) {
        if let [only] = to {
            return self.net.connect(from, *only);
        }
        let fan = self.hidden_program("links", &Arc::new(crate::click::either("links", to.len() as u32)));
        self.net.connect(from, NodePort { node: fan, port: 0 });
        for (port, to) in (0..).zip(to) {
            self.net.connect(NodePort { node: fan, port }, *to);
        }
    }

    fn add_box(
        &mut self,
        segments: &Segments<'_>,
        (i, b): (usize, &NetBox),
        classes: &Classes,
    ) -> Result<Vec<PortEnds>, Vec<String>> {
        let (first, n) = (self.net.nodes().len() as NodeId, b.ports().len());
        let (edge_ports, ends) = match &b.kind {
            BoxKind::Endpoint(e) => {
                let class = match e.role {
                    EndpointRole::Host => "Host",
                    EndpointRole::Client => "Client",
                    EndpointRole::Internet => "Internet",
                };
                self.add_end(segments, (i, b), class, e.own_sources_only)
            }
            BoxKind::Platform(_) => self.add_end(segments, (i, b), PLATFORM, false),
            BoxKind::Router(r) => {
                let args: Vec<String> = r.routes.iter().map(ToString::to_string).collect();
                let program = send::router(segments, i, &b.name, r);
                self.add_filtering((i, b), "Router", (args, program), r.firewall.as_deref())
            }
            BoxKind::Switch(s) => {
                let program = send::switch(segments, i, &b.name, s);
                self.add_simple(b, "Switch", Vec::new(), Some(program), n)
            }
            BoxKind::Firewall(f) => match &f.rules {
                FirewallRules::Filters { rules, stateful } => {
                    let program = filter_box::program(&b.name, &f.ports, rules, *stateful);
                    self.add_simple(b, "Firewall", filter_box::texts(&f.ports, rules), Some(program), n)
                }
                FirewallRules::Iptables(set) if iptables::translates(set) => {
                    let what = "its rules translate addresses, but a firewall forwards frames as they are; make it a router";
                    return Err(vec![format!("box {}: {what}", b.name)]);
                }
                FirewallRules::Iptables(set) => {
                    let program = filter_box::wire(&b.name);
                    self.add_filtering((i, b), "Bridge", (Vec::new(), program), Some(set))
                }
            },
            BoxKind::Transfer(t) => self.add_transfer(segments, i, b, t)?,
            BoxKind::Click(c) => return self.add_click_box(segments, i, b, c, classes),
        };
        let nodes = (first..self.net.nodes().len() as NodeId).collect();
        self.locations.push(Location { name: b.name.clone(), edge_ports, nodes, owns: b.owns() });
        Ok(ends)
    }

    fn node(
        &mut self,
        b: &NetBox,
        class: &str,
        args: Vec<String>,
        body: Option<Program>,
        hidden: bool,
    ) -> NodeId {
        let node = match body {
            Some(p) => self.net.add_program(b.name.clone(), &Arc::new(p), u32::MAX),
            None => self.net.add(b.name.clone(), Body::Opaque),
        };
        self.labels.insert(node, Label { class: class.to_owned(), args: args.into(), hidden });
        node
    }

    /// A box that is one program: input and output of the same number belong to one port; what it takes for itself
    /// leaves by the output behind them.
    fn add_simple(
        &mut self,
        b: &NetBox,
        class: &str,
        args: Vec<String>,
        program: Option<Program>,
        n: usize,
    ) -> (Vec<EdgePort>, Vec<PortEnds>) {
        if program.is_none() {
            self.notes.push(format!("what the {} {} does is not modelled", class.to_lowercase(), b.name));
        }
        let node = self.node(b, class, args, program, false);
        let place = |port: usize| NodePort { node, port: port as u32 };
        let edge_port = |(port, name): (usize, &str)| EdgePort {
            name: name.to_owned(),
            start: None,
            target: Some(Target::new(place(port), Framing::Ip)),
            owns: false,
        };
        let mut edge_ports: Vec<EdgePort> = b.ports().into_iter().enumerate().map(edge_port).collect();
        if class == "Router" {
            let local = self.net.add(b.name.clone(), Body::Pass { lossy: false });
            self.labels.insert(local, Label { class: class.to_owned(), ..Label::default() });
            self.net.connect(place(n), NodePort { node: local, port: 0 });
            // What is for an address of the router arrives at the router.
            let target = Target::new(NodePort { node: local, port: 0 }, Framing::Ip);
            edge_ports.push(EdgePort { name: LOCAL.into(), start: None, target: Some(target), owns: true });
        }
        (edge_ports, (0..n).map(|p| (place(p), place(p))).collect())
    }

    /// A box that is one program, with rules of iptables around it if there are any.
    fn add_filtering(
        &mut self,
        (i, b): (usize, &NetBox),
        class: &str,
        (args, program): (Vec<String>, Program),
        rules: Option<&Ruleset>,
    ) -> (Vec<EdgePort>, Vec<PortEnds>) {
        let n = b.ports().len();
        let strange = rules.and_then(|set| iptables::Rules::new(set).not_modelled());
        self.notes.extend(strange.iter().map(|why| format!("{}: {why}", b.name)));
        let node = self.net.nodes().len() as NodeId;
        let (mut edge_ports, ends) = self.add_simple(b, class, args, strange.is_none().then_some(program), n);
        let Some(set) = rules.filter(|_| strange.is_none()) else { return (edge_ports, ends) };
        let local = edge_ports.get(n).and_then(|g| g.target).map(|t| t.place.node);
        let ends = self.add_rules((i, b), set, node, local);
        for (edge_port, (into, _)) in edge_ports.iter_mut().zip(&ends) {
            edge_port.target = Some(Target::new(*into, Framing::Ip));
        }
        (edge_ports, ends)
    }

    /// Where packets begin and end.
    fn add_end(
        &mut self,
        segments: &Segments<'_>,
        (i, b): (usize, &NetBox),
        class: &str,
        own_sources_only: bool,
    ) -> (Vec<EdgePort>, Vec<PortEnds>) {
        let (mut edge_ports, mut ends) = (Vec::new(), Vec::new());
        for (port, name) in b.ports().into_iter().enumerate() {
            let out = send::host(segments, (i, port), &b.name, own_sources_only);
            let out = NodePort { node: self.node(b, class, Vec::new(), Some(out), false), port: 0 };
            let accept = send::accept(segments, (i, port), &b.name);
            let accept = NodePort { node: self.node(b, class, Vec::new(), Some(accept), true), port: 0 };
            let here = self.net.add(b.name.clone(), Body::Pass { lossy: false });
            self.labels.insert(here, Label { class: class.to_owned(), ..Label::default() });
            let here = NodePort { node: here, port: 0 };
            self.net.connect(accept, here);
            edge_ports.push(EdgePort {
                name: name.to_owned(),
                start: Some(Start::new(out, Framing::Ip, anything())),
                target: Some(Target::new(here, Framing::Ip)),
                owns: true,
            });
            ends.push((accept, out));
        }
        (edge_ports, ends)
    }
}

#[cfg(test)]
mod tests;
