//! Where a packet came by.

use crate::list::List;
use crate::network::Place;
use crate::packet::SymbolicPacket;

/// How often a packet may come to a place, changed each time.
const VISITS: usize = 64;

/// A place that a packet came to.
#[derive(Debug, Clone)]
struct Hop {
    place: Place,
    /// What it was then, where packets can come again.
    packet: Option<SymbolicPacket>,
}

/// The places that a packet came to.
#[derive(Debug, Clone, Default)]
pub struct Trail(List<Hop>);

/// Whether a packet was at a place before.
pub(crate) enum Again {
    No,
    /// As it is, but for its time to live.
    Same,
    /// Changed, again and again.
    Often,
}

impl Trail {
    pub(crate) fn push(&mut self, place: Place, keep: bool, packet: &SymbolicPacket) {
        self.0.push(Hop { place, packet: keep.then(|| packet.clone()) });
    }

    pub(crate) fn again(&self, place: Place, packet: &SymbolicPacket) -> Again {
        let mut visits = 0;
        for before in self.0.iter().filter(|h| h.place == place).filter_map(|h| h.packet.as_ref()) {
            if packet.same_but_ttl(before) {
                return Again::Same;
            }
            visits += 1;
        }
        if visits < VISITS { Again::No } else { Again::Often }
    }

    /// Whether two packets came the same way.
    pub(crate) fn same(&self, other: &Trail) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(other.0.iter()).all(|(a, b)| a.place == b.place)
    }

    /// The places, first to last.
    pub fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.0.iter().map(|h| h.place).collect();
        places.reverse();
        places
    }

    /// Whether the packet came to a node.
    pub fn meets(&self, node: crate::network::NodeId) -> bool {
        self.0.iter().any(|h| h.place.node == node)
    }
}
