//! A network with names: what requirements can speak of, and how a node is shown to people.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_engine::Plan;
use weir_model::filter::{Dir, Expr, Prim};
use weir_model::value::IpPrefix;
use weir_verify::checks::{Framing, Start, Target};
use weir_verify::{Body, Network, NodeId, Place, SymbolicInput};

use crate::click::{self, Label};
use crate::filter::guard;

/// A way into a node and out of it.
#[derive(Debug, Clone)]
pub struct Gate {
    /// Name of the port.
    pub name: String,
    /// Packets that leave the node here, if packets begin there.
    pub start: Option<Start>,
    /// Packets that come to the node here.
    pub target: Option<Target>,
}

/// What requirements call a node.
#[derive(Debug, Clone)]
pub struct Spot {
    /// Its name.
    pub name: String,
    /// Its ports.
    pub gates: Vec<Gate>,
    /// The nodes of the network that belong to it.
    pub nodes: Vec<NodeId>,
    /// The addresses that belong to it.
    pub owns: Vec<IpPrefix>,
}

/// A network with names.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The network; after a change of its wires [`Network::finish`] is due.
    pub net: Network,
    /// What its nodes are.
    pub labels: BTreeMap<NodeId, Label>,
    /// What requirements can name.
    pub spots: Vec<Spot>,
    /// Where packets of anybody may come in.
    pub others: Vec<Start>,
    /// What a reader of verdicts should know.
    pub notes: Vec<String>,
    /// For places that packets end at, and for prefixes, where those for an address of the prefix come to.
    inside: BTreeMap<(Place, IpPrefix), Place>,
    /// Where the next question about packets at such a place is asked.
    tails: BTreeMap<Place, Vec<Place>>,
    /// The same for packets that begin at a place.
    sent: BTreeMap<(Place, IpPrefix), Place>,
}

/// Any packet with this framing that a port delivers.
pub fn anything(framing: Framing) -> SymbolicInput {
    match framing {
        Framing::Ethernet => SymbolicInput::frame(),
        Framing::Ip => SymbolicInput::ip(),
    }
}

impl World {
    /// A Click configuration on its own. Requirements name its elements, devices, links and files; every address is
    /// outside.
    pub fn of_click(plan: &Plan) -> World {
        let mut world = World::default();
        let ports = click::add(&mut world.net, plan, 0, "");
        world.labels.extend(ports.labels.iter().map(|(n, l)| (*n, l.clone())));
        world.notes.extend(ports.notes.iter().cloned());
        world.add_devices(&ports);
        let gates: Vec<Gate> = world.spots.iter().flat_map(|s| s.gates.clone()).collect();
        world.add_elements(plan, &ports);
        world.others = gates.iter().filter_map(|g| g.start.clone()).collect();
        world.others.extend(ports.origins.iter().map(origin));
        world.spots.push(Spot { name: String::new(), gates, nodes: Vec::new(), owns: everything() });
        world.net.finish();
        world
    }

    fn add_devices(&mut self, ports: &click::Ports) {
        let mut names: Vec<&str> =
            ports.entries.iter().chain(&ports.exits).map(|p| p.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let (mut gates, mut nodes) = (Vec::new(), Vec::new());
            for p in ports.entries.iter().filter(|p| p.name == name) {
                let start = Start { place: p.place, framing: p.framing, input: anything(p.framing) };
                gates.push(Gate { name: "0".into(), start: Some(start), target: None });
                nodes.push(p.place.node);
            }
            for p in ports.exits.iter().filter(|p| p.name == name) {
                let target = Target { place: p.place, framing: p.framing };
                nodes.push(p.place.node);
                match gates.iter_mut().find(|g| g.target.is_none()) {
                    Some(gate) => gate.target = Some(target),
                    None => gates.push(Gate { name: "0".into(), start: None, target: Some(target) }),
                }
            }
            self.spots.push(Spot { name: name.to_owned(), gates, nodes, owns: Vec::new() });
        }
    }

    fn add_elements(&mut self, plan: &Plan, ports: &click::Ports) {
        let framings = click::framings(plan, ports);
        for (i, e) in plan.graph.elements.iter().enumerate() {
            let (Some(&(first, last)), Some(kinds)) = (ports.nodes.get(i), plan.graph.ports.get(i)) else {
                continue;
            };
            let of_element = |p: &&click::Port| p.element == i;
            let entry = ports.entries.iter().find(of_element);
            let entry =
                entry.map(|p| Start { place: p.place, framing: p.framing, input: anything(p.framing) });
            let start = entry.or_else(|| ports.origins.iter().find(|o| o.port.element == i).map(origin));
            let gate = |(port, framing): (usize, &Framing)| Gate {
                name: port.to_string(),
                start: start.clone().filter(|_| port == 0),
                target: Some(Target { place: Place { node: first, port: port as u32 }, framing: *framing }),
            };
            let mut gates: Vec<Gate> = framings
                .get(i)
                .into_iter()
                .flatten()
                .take(kinds.inputs.len())
                .enumerate()
                .map(gate)
                .collect();
            if gates.is_empty() {
                gates.extend(start.map(|s| Gate { name: "0".into(), start: Some(s), target: None }));
            }
            let mut nodes = vec![first, last];
            nodes.dedup();
            // A device of that name is meant rather than an element.
            if !self.spots.iter().any(|s| s.name == e.name) {
                self.spots.push(Spot { name: e.name.clone(), gates, nodes, owns: Vec::new() });
            }
        }
    }

    /// Where packets that end at a place come to if their destination lies in a prefix.
    pub(crate) fn addressed(&mut self, target: Target, prefix: IpPrefix) -> Target {
        if let Some(&place) = self.inside.get(&(target.place, prefix)) {
            return Target { place, ..target };
        }
        let program = Arc::new(guard(&within(prefix, Dir::Dst), target.framing));
        let ask = self.hidden_program("destination", &program);
        let (yes, no) = (self.hidden(Body::Pass { lossy: false }), self.hidden(Body::Pass { lossy: false }));
        let tails = self.tails.entry(target.place).or_insert_with(|| vec![Place { port: 0, ..target.place }]);
        for tail in std::mem::take(tails) {
            self.net.connect(tail, Place { node: ask, port: 0 });
        }
        *tails = [yes, no].map(|node| Place { node, port: 0 }).into();
        self.net.connect(Place { node: ask, port: 0 }, Place { node: yes, port: 0 });
        self.net.connect(Place { node: ask, port: 1 }, Place { node: no, port: 0 });
        let place = Place { node: yes, port: 0 };
        self.inside.insert((target.place, prefix), place);
        Target { place, ..target }
    }

    /// The packets of a start whose source lies in a prefix.
    pub(crate) fn sent_from(&mut self, start: &Start, prefix: IpPrefix) -> Start {
        let place = match self.sent.get(&(start.place, prefix)) {
            Some(&place) => place,
            None => {
                let program = Arc::new(guard(&within(prefix, Dir::Src), start.framing));
                let ask = self.hidden_program("source", &program);
                self.net.connect(Place { node: ask, port: 0 }, start.place);
                Place { node: ask, port: 0 }
            }
        };
        self.sent.insert((start.place, prefix), place);
        Start { place, ..start.clone() }
    }

    /// The node that a hidden one leads to.
    pub(crate) fn behind(&self, node: NodeId) -> Option<NodeId> {
        self.labels.get(&node).filter(|l| l.hidden)?;
        self.net.nodes().get(node as usize)?.outputs.first().copied().flatten().map(|p| p.node)
    }

    fn hidden(&mut self, body: Body) -> NodeId {
        let node = self.net.add("", body);
        self.labels.insert(node, Label { hidden: true, ..Label::default() });
        node
    }

    fn hidden_program(&mut self, name: &str, program: &Arc<weir_ir::Program>) -> NodeId {
        let node = self.net.add_program(name, program, u32::MAX);
        self.labels.insert(node, Label { hidden: true, ..Label::default() });
        node
    }

    /// Adds a program that is only asked what it says of packets.
    pub(crate) fn guard(&mut self, expr: &Expr, framing: Framing) -> NodeId {
        self.hidden_program("filter", &Arc::new(guard(expr, framing)))
    }
}

/// Whether an address lies in a prefix, as a filter.
pub(crate) fn within(prefix: IpPrefix, dir: Dir) -> Expr {
    match prefix.addr() {
        std::net::IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.len())).unwrap_or(0);
            Prim::Net { dir, addr, mask: mask.into() }.into()
        }
        std::net::IpAddr::V6(addr) => Prim::Net6 { dir, addr, len: prefix.len() }.into(),
    }
}

fn origin(o: &click::Origin) -> Start {
    let input = match &o.bytes {
        Some(bytes) => {
            let n = bytes.len() as u32;
            SymbolicInput { bytes: bytes.clone(), len: n..=n, ..anything(o.port.framing) }
        }
        None => anything(o.port.framing),
    };
    Start { place: o.port.place, framing: o.port.framing, input }
}

/// All addresses.
fn everything() -> Vec<IpPrefix> {
    [std::net::IpAddr::from([0; 4]), std::net::IpAddr::from([0; 16])]
        .into_iter()
        .filter_map(|addr| IpPrefix::new(addr, 0).ok())
        .collect()
}
