//! Links between graphs of one engine, by name.

use std::collections::VecDeque;

use weir_packet::Packet;

/// The place where packets of a link enter a graph: graph and link of its router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entrance {
    pub graph: usize,
    pub link: u32,
}

#[derive(Debug)]
struct Link {
    name: String,
    entrance: Option<Entrance>,
    packets: Vec<Packet>,
}

/// All links that any graph named. There are few names and they come back, so a name is never forgotten.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: Vec<Link>,
    ready: VecDeque<usize>,
}

impl Links {
    /// Number of the link of that name.
    pub fn id(&mut self, name: &str) -> usize {
        self.links.iter().position(|l| l.name == name).unwrap_or_else(|| {
            self.links.push(Link { name: name.to_owned(), entrance: None, packets: Vec::new() });
            self.links.len() - 1
        })
    }

    /// Whether packets of the link enter a graph.
    pub fn is_up(&self, id: usize) -> bool {
        self.links[id].entrance.is_some()
    }

    /// Leaves packets for the graph at the other end.
    pub fn send(&mut self, id: usize, packets: &mut Vec<Packet>) {
        if self.links[id].packets.is_empty() && !packets.is_empty() {
            self.ready.push_back(id);
        }
        packets.iter_mut().for_each(Packet::hand_over);
        self.links[id].packets.append(packets);
    }

    /// The next packets that were left, and where they enter.
    pub fn next(&mut self) -> Option<(Entrance, Vec<Packet>)> {
        while let Some(id) = self.ready.pop_front() {
            let packets = std::mem::take(&mut self.links[id].packets);
            if let Some(entrance) = self.links[id].entrance {
                return Some((entrance, packets));
            }
        }
        None
    }

    /// Whether packets are on the way.
    pub fn waiting(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Joins links anew: (name, where its packets enter).
    pub fn join(&mut self, entrances: &[(String, Entrance)]) {
        for link in &mut self.links {
            link.entrance = None;
        }
        for (name, entrance) in entrances {
            let id = self.id(name);
            self.links[id].entrance = Some(*entrance);
        }
    }
}
