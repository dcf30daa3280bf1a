//! Who is next to whom: the ports that frames can reach without passing a router or an end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use weir_model::value::IpPrefix;
use weir_topology::{BoxKind, LinkEnd, Topology};

/// A box and one of its ports, by number.
pub(super) type Port = (usize, usize);

/// A link: its ends, and whether it leads from the first to the second only.
pub(super) type Wire = (Port, Port, bool);

/// The links of a topology, and the numbers of the ports that packets are sent to.
pub(super) struct Segments<'a> {
    topology: &'a Topology,
    links: Vec<Wire>,
    far: BTreeMap<Port, Port>,
    /// The ports that are linked to something else than a transfer function.
    to_hosts: BTreeSet<Port>,
    /// Numbers of the ports of routers, end points and platforms, from 1 on.
    numbers: BTreeMap<Port, u32>,
}

/// Somebody on a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Neighbour {
    pub port: Port,
    pub number: u32,
}

fn is_transfer(topology: &Topology, port: Port) -> bool {
    matches!(topology.boxes.get(port.0).map(|b| &b.kind), Some(BoxKind::Transfer(_)))
}

impl<'a> Segments<'a> {
    pub(super) fn new(topology: &'a Topology, down: &impl Fn(&LinkEnd, &LinkEnd) -> bool) -> Segments<'a> {
        let boxes: BTreeMap<&str, usize> =
            topology.boxes.iter().enumerate().map(|(i, b)| (b.name.as_str(), i)).collect();
        let port = |end: &LinkEnd| {
            let node = *boxes.get(end.node.as_str())?;
            Some((node, topology.boxes.get(node)?.port(&end.port)?))
        };
        let up = topology.links.iter().filter(|l| !down(&l.a, &l.b));
        let links: Vec<Wire> = up.filter_map(|l| Some((port(&l.a)?, port(&l.b)?, l.one_way))).collect();
        let ends = || links.iter().flat_map(|&(a, b, _)| [(a, b), (b, a)]);
        let far = ends().collect();
        let to_hosts = ends().filter(|(_, far)| !is_transfer(topology, *far)).map(|(port, _)| port).collect();
        let addressed = topology.boxes.iter().enumerate().filter(|(_, b)| {
            matches!(b.kind, BoxKind::Endpoint(_) | BoxKind::Router(_) | BoxKind::Platform(_))
        });
        let ports = addressed.flat_map(|(i, b)| (0..b.ports().len()).map(move |p| (i, p)));
        let numbers = ports.zip(1..).collect();
        Segments { topology, links, far, to_hosts, numbers }
    }

    pub(super) fn links(&self) -> impl Iterator<Item = Wire> {
        self.links.iter().copied()
    }

    /// Whether a port has a link that is up.
    pub(super) fn is_linked(&self, port: Port) -> bool {
        self.far.contains_key(&port)
    }

    /// Whether a port is linked to something else than transfer functions.
    pub(super) fn leads_to_hosts(&self, port: Port) -> bool {
        self.to_hosts.contains(&port)
    }

    pub(super) fn number(&self, port: Port) -> u32 {
        self.numbers.get(&port).copied().unwrap_or(0)
    }

    /// Who can be reached by what leaves a port, the nearest first.
    pub(super) fn behind(&self, port: Port) -> Vec<Neighbour> {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::from([port]));
        let mut work = VecDeque::from([port]);
        while let Some(out) = work.pop_front() {
            let Some(&(node, input)) = self.far.get(&out) else { continue };
            if let Some(&number) = self.numbers.get(&(node, input)) {
                found.push(Neighbour { port: (node, input), number });
                continue;
            }
            // It forwards by rules of its own, whoever a packet is for on its segment.
            if is_transfer(self.topology, (node, input)) {
                continue;
            }
            let ports = self.topology.boxes.get(node).map_or(0, |b| b.ports().len());
            work.extend((0..ports).map(|p| (node, p)).filter(|&p| p.1 != input && seen.insert(p)));
        }
        found.retain(|n| n.port != port);
        found
    }

    /// The prefixes that a neighbour answers for on its segment.
    pub(super) fn prefixes(&self, n: Neighbour) -> Vec<IpPrefix> {
        match self.topology.boxes.get(n.port.0).map(|b| &b.kind) {
            Some(BoxKind::Endpoint(e)) => e.owns.clone(),
            Some(BoxKind::Platform(p)) => p.owns.clone(),
            Some(BoxKind::Router(r)) => r
                .interfaces
                .get(n.port.1)
                .map(|i| i.addresses.iter().map(weir_topology::InterfaceAddr::host).collect())
                .unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// The addresses that a box owns: its prefixes, each with whether it is its own. Parts of them that belong to others, who
    /// have longer prefixes, are there too.
    pub(super) fn owned(&self, node: usize) -> Vec<(IpPrefix, bool)> {
        let boxes = &self.topology.boxes;
        let own = boxes.get(node).map(weir_topology::NetBox::owns).unwrap_or_default();
        if own.iter().all(|p| *p == IpPrefix::host(p.addr())) {
            return own.into_iter().map(|p| (p, true)).collect();
        }
        let others = boxes.iter().enumerate().filter(|(i, _)| *i != node).flat_map(|(_, b)| b.owns());
        let inside = |p: &IpPrefix| own.iter().any(|o| o.contains(p)) && !own.contains(p);
        let others: Vec<IpPrefix> = others.filter(inside).collect();
        own.into_iter().map(|p| (p, true)).chain(others.into_iter().map(|p| (p, false))).collect()
    }

    pub(super) fn is_router(&self, n: Neighbour) -> bool {
        matches!(self.topology.boxes.get(n.port.0).map(|b| &b.kind), Some(BoxKind::Router(_)))
    }

    /// Who answers for all addresses of a prefix: the longest prefix around it counts; 0 if nobody does.
    pub(super) fn owner(&self, neighbours: &[Neighbour], prefix: IpPrefix) -> u32 {
        let longest = |n: &Neighbour| {
            self.prefixes(*n).iter().filter(|p| p.contains(&prefix)).map(|p| u32::from(p.len()) + 1).max()
        };
        let best = neighbours.iter().filter_map(|n| Some((longest(n)?, n))).max_by_key(|(len, _)| *len);
        best.map_or(0, |(_, n)| n.number)
    }

    /// Who has the address of a next hop; if that is not known, the only one there is.
    pub(super) fn next_hop(&self, neighbours: &[Neighbour], addr: IpAddr) -> u32 {
        match (self.owner(neighbours, IpPrefix::host(addr)), neighbours) {
            (0, [only]) => only.number,
            (known, _) => known,
        }
    }
}
