//! A network with names: what requirements can speak of, and how a node is shown to people.

pub(crate) mod configurations;
mod entries;
mod graph;
mod matching;
mod topology;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_filter::{AddressOf, Dir, Expr, Prim, Tags};
use weir_model::value::IpPrefix;
use weir_packet::entry;
use weir_verify::checks::{Framing, Start, Target};
use weir_verify::{Body, Guard, Network, NodeId, NodePort, SymbolicInput};

use crate::click::Label;
use crate::filter::guard;
use crate::security::Placed;

pub use matching::Matching;
pub use topology::Modules;

/// An entry into a node and an exit out of it.
#[derive(Debug, Clone)]
pub struct EdgePort {
    /// Name of the port.
    pub name: String,
    /// Packets that leave the node here, if packets begin there.
    pub start: Option<Start>,
    /// Packets that come to the node here.
    pub target: Option<Target>,
    /// Whether the addresses of its location are behind it: packets for them end here, and do not only pass.
    pub owns: bool,
}

/// A name that requirements use, and its nodes.
#[derive(Debug, Clone)]
pub struct Location {
    /// Its name.
    pub name: String,
    /// Its ports.
    pub edge_ports: Vec<EdgePort>,
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
    /// Why it is not known what some of its nodes do to packets.
    pub causes: BTreeMap<NodeId, String>,
    /// What requirements can name.
    pub locations: Vec<Location>,
    /// Where packets of anybody may come in.
    pub others: Vec<Start>,
    /// What a reader of verdicts should know.
    pub notes: Vec<String>,
    /// The modules of a request, where they are placed on a platform.
    pub(crate) modules: Vec<Placed>,
    /// Where what comes to a platform ends, if it is for no module there.
    rests: BTreeMap<NodePort, NodePort>,
    /// Programs that are asked whether an address lies in a prefix. They stand beside the network: a question leaves what
    /// packets do, and so the answers to others, as it is.
    within: HashMap<(IpPrefix, Dir, Framing), Guard>,
}

/// Any packet that a host sends onto the link of a topology.
pub fn anything() -> SymbolicInput {
    SymbolicInput::of(&entry::WIRE)
}

impl World {
    /// What is said of a node of which it is not known what it does to a packet.
    pub(crate) fn not_known(&self, node: NodeId) -> String {
        let name = self.net.nodes().get(node as usize).map(|n| n.name.as_str()).unwrap_or_default();
        if let Some(cause) = self.causes.get(&node) {
            return format!("a packet comes to {name}: {cause}");
        }
        let class = self.labels.get(&node).map_or("", |l| l.class.as_str());
        format!("a packet comes to {name} :: {class}, and it is not known what that does")
    }

    /// The packets of a target whose destination lies in a prefix.
    pub(crate) fn addressed(&mut self, target: Target, prefix: IpPrefix) -> Target {
        Target { only: Some(self.within(prefix, Dir::Dst, target.framing)), ..target }
    }

    /// The packets of a start whose source lies in a prefix.
    pub(crate) fn sent_from(&mut self, start: Start, prefix: IpPrefix) -> Start {
        Start { only: Some(self.within(prefix, Dir::Src, start.framing)), ..start }
    }

    /// A program that is only asked whether an address of packets lies in a prefix.
    fn within(&mut self, prefix: IpPrefix, dir: Dir, framing: Framing) -> Guard {
        if let Some(&known) = self.within.get(&(prefix, dir, framing)) {
            return known;
        }
        let guard = self.guard(&within(prefix, dir), framing);
        self.within.insert((prefix, dir, framing), guard);
        guard
    }

    /// The nodes that stand for elements or boxes.
    pub(crate) fn elements(&self) -> impl Iterator<Item = NodeId> {
        self.labels.iter().filter(|(_, l)| !l.hidden).map(|(n, _)| *n)
    }

    /// The node that a hidden one leads to.
    pub(crate) fn behind(&self, node: NodeId) -> Option<NodeId> {
        self.labels.get(&node).filter(|l| l.hidden)?;
        self.net.nodes().get(node as usize)?.outputs.first().copied().flatten().map(|p| p.node)
    }

    pub(crate) fn hidden(&mut self, body: Body) -> NodeId {
        let node = self.net.add("", body);
        self.labels.insert(node, Label { hidden: true, ..Label::default() });
        node
    }

    pub(crate) fn hidden_program(&mut self, name: &str, program: &Arc<weir_ir::Program>) -> NodeId {
        let node = self.net.add_program(name, program, u32::MAX);
        self.labels.insert(node, Label { hidden: true, ..Label::default() });
        node
    }

    /// The place in front of one where whole IP packets come in: nothing else passes.
    pub(crate) fn well_formed(&mut self, place: NodePort) -> NodePort {
        let mut b = weir_ir::Builder::new("sender", 1, 1);
        b.input(0, |b| {
            crate::filter::well_formed(b, |b| b.drop(weir_ir::Reason::BAD_HEADER));
            b.emit(0);
        });
        let node = self.hidden_program("sender", &Arc::new(b.finish()));
        self.net.connect(NodePort { node, port: 0 }, place);
        NodePort { node, port: 0 }
    }

    /// Adds a program that is only asked what it says of packets where they begin.
    pub(crate) fn guard_of_sent(&mut self, expr: &Expr) -> NodeId {
        self.hidden_program("filter", &Arc::new(crate::filter::guard_of_sent(expr)))
    }

    /// Adds a program that is only asked whether packets are as hosts send them.
    pub(crate) fn guard_of_hosts(&mut self, framing: Framing) -> NodeId {
        self.hidden_program("well-formed", &Arc::new(crate::hosts::guard_of_hosts(framing)))
    }

    /// Adds a program that is only asked what it says of packets.
    pub(crate) fn guard(&mut self, expr: &Expr, framing: Framing) -> NodeId {
        self.hidden_program("filter", &Arc::new(guard(expr, framing)))
    }
}

/// Whether an address lies in a prefix, as a filter: of the IP packet in a frame, whatever VLAN tags it has.
pub(crate) fn within(prefix: IpPrefix, dir: Dir) -> Expr {
    let expr: Expr = match prefix.addr() {
        std::net::IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.len())).unwrap_or(0);
            Prim::Net { of: AddressOf::Ip, dir, addr, mask: mask.into() }.into()
        }
        std::net::IpAddr::V6(addr) => Prim::Net6 { dir, addr, len: prefix.len() }.into(),
    };
    expr.behind(Tags::All)
}
