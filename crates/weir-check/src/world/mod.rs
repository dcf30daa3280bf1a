//! A network with names: what requirements can speak of, and how a node is shown to people.

pub(crate) mod configurations;
mod graph;
mod matching;
mod topology;
mod ways;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_ir::Program;
use weir_model::filter::{AddressOf, Dir, Expr, Prim, Tags};
use weir_model::value::IpPrefix;
use weir_verify::checks::{Framing, Start, Target};
use weir_verify::{Body, Network, NodeId, Place, SymbolicInput};

use crate::click::Label;
use crate::filter::guard;
use crate::security::Placed;

pub use matching::Matching;
pub use topology::Modules;

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
    /// The modules of a request, where they are placed on a platform.
    pub(crate) modules: Vec<Placed>,
    /// For places that packets end at, and for prefixes, where those for an address of the prefix come to.
    inside: BTreeMap<(Place, IpPrefix), Place>,
    /// Where the next question about packets at such a place is asked.
    tails: BTreeMap<Place, Vec<Place>>,
    /// The same for packets that begin at a place.
    sent: BTreeMap<(Place, IpPrefix), Place>,
    /// Programs that ask whether an address lies in a prefix.
    within: HashMap<(IpPrefix, Dir, Framing), Arc<Program>>,
}

/// Any packet with this framing that a port delivers.
pub fn anything(framing: Framing) -> SymbolicInput {
    match framing {
        Framing::Ethernet => SymbolicInput::frame(),
        Framing::Ip => SymbolicInput::ip(),
    }
}

impl World {
    /// Where packets that end at a place come to if their destination lies in a prefix.
    pub(crate) fn addressed(&mut self, target: Target, prefix: IpPrefix) -> Target {
        if let Some(&place) = self.inside.get(&(target.place, prefix)) {
            return Target { place, ..target };
        }
        let ask = self.within("destination", prefix, Dir::Dst, target.framing);
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
                let ask = self.within("source", prefix, Dir::Src, start.framing);
                self.net.connect(Place { node: ask, port: 0 }, start.place);
                Place { node: ask, port: 0 }
            }
        };
        self.sent.insert((start.place, prefix), place);
        Start { place, ..start.clone() }
    }

    /// Adds a program that asks whether an address of packets lies in a prefix.
    fn within(&mut self, name: &str, prefix: IpPrefix, dir: Dir, framing: Framing) -> NodeId {
        let new = || Arc::new(guard(&within(prefix, dir), framing));
        let program = self.within.entry((prefix, dir, framing)).or_insert_with(new).clone();
        self.hidden_program(name, &program)
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

    fn hidden(&mut self, body: Body) -> NodeId {
        let node = self.net.add("", body);
        self.labels.insert(node, Label { hidden: true, ..Label::default() });
        node
    }

    pub(crate) fn hidden_program(&mut self, name: &str, program: &Arc<Program>) -> NodeId {
        let node = self.net.add_program(name, program, u32::MAX);
        self.labels.insert(node, Label { hidden: true, ..Label::default() });
        node
    }

    /// The place in front of one where whole IP packets come in: nothing else passes.
    pub(crate) fn well_formed(&mut self, place: Place) -> Place {
        let mut b = weir_ir::Builder::new("sender", 1, 1);
        b.input(0, |b| {
            crate::filter::well_formed(b, |b| b.drop(weir_ir::Reason::BAD_HEADER));
            b.emit(0);
        });
        let node = self.hidden_program("sender", &Arc::new(b.finish()));
        self.net.connect(Place { node, port: 0 }, place);
        Place { node, port: 0 }
    }

    /// Adds a program that is only asked what it says of packets where they begin.
    pub(crate) fn guard_of_sent(&mut self, expr: &Expr) -> NodeId {
        self.hidden_program("filter", &Arc::new(crate::filter::guard_of_sent(expr)))
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
