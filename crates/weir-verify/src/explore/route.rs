//! Where a packet came by.

use crate::model::list::List;
use crate::model::packet::SymbolicPacket;
use crate::network::NodePort;

/// How often a packet may come to a place, changed each time.
const VISITS: usize = 64;

/// A place that a packet came to.
#[derive(Debug, Clone)]
struct Hop {
    place: NodePort,
    /// What it was then, where packets can come again.
    packet: Option<SymbolicPacket>,
}

/// The places that a packet came to.
#[derive(Debug, Clone, Default)]
pub struct Route {
    hops: List<Hop>,
    /// A bit for some places each: those whose bit is not set, the packet did not come to.
    seen: u64,
}

/// The bit of a place, and of some others.
fn bit(place: NodePort) -> u64 {
    1 << ((place.node.wrapping_mul(5) + place.port) % u64::BITS)
}

/// The answer to whether a packet was at a place before.
pub(crate) enum Again {
    No,
    /// As it is, but for its time to live.
    Same,
    /// Changed, again and again.
    Often,
}

impl Route {
    pub(crate) fn push(&mut self, place: NodePort, keep: bool, packet: &SymbolicPacket) {
        self.hops.push(Hop { place, packet: keep.then(|| packet.clone()) });
        self.seen |= bit(place);
    }

    pub(crate) fn again(&self, place: NodePort, packet: &SymbolicPacket) -> Again {
        if self.seen & bit(place) == 0 {
            return Again::No;
        }
        let mut visits = 0;
        for before in self.hops.iter().filter(|h| h.place == place).filter_map(|h| h.packet.as_ref()) {
            if packet.same_but_ttl(before) {
                return Again::Same;
            }
            visits += 1;
        }
        if visits < VISITS { Again::No } else { Again::Often }
    }

    /// The places at which it is kept what the packet was there, and what it was, first to last.
    pub(crate) fn kept(&self) -> Vec<(NodePort, SymbolicPacket)> {
        let kept = self.hops.iter().filter_map(|h| Some((h.place, h.packet.clone()?)));
        let mut kept: Vec<_> = kept.collect();
        kept.reverse();
        kept
    }

    /// The places up to each at which it is kept what the packet was there and is as asked, with that one.
    pub(crate) fn up_to_each(&self, is: impl Fn(NodePort, &SymbolicPacket) -> bool) -> Vec<Vec<NodePort>> {
        let mut hops: Vec<&Hop> = self.hops.iter().collect();
        hops.reverse();
        let asked = |h: &&Hop| h.packet.as_ref().is_some_and(|p| is(h.place, p));
        let ends = (0..hops.len()).filter(|&at| asked(&hops[at]));
        ends.map(|at| hops[..=at].iter().map(|h| h.place).collect()).collect()
    }

    /// Whether two packets came on the same path.
    pub(crate) fn same(&self, other: &Route) -> bool {
        self.hops.len() == other.hops.len()
            && self.hops.iter().zip(other.hops.iter()).all(|(a, b)| a.place == b.place)
    }

    /// The places, first to last.
    pub fn places(&self) -> Vec<NodePort> {
        let mut places: Vec<NodePort> = self.hops.iter().map(|h| h.place).collect();
        places.reverse();
        places
    }

    /// Whether the packet came to a node.
    pub fn meets(&self, node: crate::network::NodeId) -> bool {
        self.hops.iter().any(|h| h.place.node == node)
    }
}
