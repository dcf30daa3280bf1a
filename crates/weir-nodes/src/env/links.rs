//! Links between graphs of one engine, by name.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::Ipv4Addr;

use weir_net::PortShare;
use weir_packet::{Layer, Packet};

/// The place where packets of a link enter a graph: graph and link of its router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entrance {
    /// Number of the graph.
    pub graph: usize,
    /// Number of the link in it.
    pub link: u32,
}

/// Which packets of several access points' are those of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Those of no other.
    #[default]
    Rest,
    /// Those with a VLAN tag.
    Vlan(u16),
    /// Those of a tunnel.
    Tunnel {
        /// Its other end.
        remote: Ipv4Addr,
        /// Its VNI or key; a GRE tunnel may have none.
        id: Option<u32>,
    },
    /// Those of ports of an address, without a tag.
    Ports(PortShare),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Rest => write!(f, "-"),
            Part::Vlan(id) => write!(f, "{id}"),
            Part::Tunnel { remote, id: Some(id) } => write!(f, "{remote}/{id}"),
            Part::Tunnel { remote, id: None } => write!(f, "{remote}/-"),
            Part::Ports(share) => write!(f, "{share}"),
        }
    }
}

/// Where Click's annotations stand: destination address, colour, aggregate.
const DST_IP: usize = 0;
const PAINT: usize = 16;
const AGGREGATE: usize = 20;

impl Part {
    /// Makes a packet one of this part, by a tag or by annotations, as `VXLANDecap(ENDS)` and `GREDecap(ENDS)` write them; false if there
    /// is no space for a tag.
    fn put_on(self, packet: &mut Packet) -> bool {
        match self {
            Part::Rest | Part::Ports(_) => true,
            Part::Vlan(id) => push_tag(packet, id),
            Part::Tunnel { remote, id } => {
                packet.anno[DST_IP..DST_IP + 4].copy_from_slice(&remote.octets());
                packet.anno[PAINT] = id.is_some().into();
                packet.anno[AGGREGATE..AGGREGATE + 4].copy_from_slice(&id.unwrap_or(0).to_be_bytes());
                true
            }
        }
    }
}

/// The other end of the tunnel that a packet came out of, and its VNI or, if it had one, its key: as the elements of tunnels annotate
/// it.
pub fn tunnel_of(packet: &Packet, keyed: bool) -> (Ipv4Addr, Option<u32>) {
    let four = |at: usize| [0, 1, 2, 3].map(|i| packet.anno[at + i]);
    let has_id = !keyed || packet.anno[PAINT] != 0;
    (four(DST_IP).into(), has_id.then(|| u32::from_be_bytes(four(AGGREGATE))))
}

/// Packets that wait on a link for the graph at its other end to be started.
const WAITING: usize = 256;
/// The same on all links of a worker: who floods many of them takes no more memory than this.
const ALL_WAITING: usize = 16_384;

#[derive(Debug, Default)]
struct Link {
    entrance: Option<Entrance>,
    /// What its packets are where they enter.
    part: Part,
    packets: Vec<Packet>,
    /// Its packets wait: the graph at the other end is started first.
    held: bool,
    /// How many packets were left on it.
    came: u64,
}

/// All links that any graph named. A name is never forgotten, so that its number stays right.
#[derive(Debug, Default)]
pub struct Links {
    links: Vec<Link>,
    /// Packets that wait on links that are held.
    waiting: usize,
    by_name: HashMap<String, usize>,
    ready: VecDeque<usize>,
    /// What names begin with in the graph that is being made.
    scope: Option<String>,
}

impl Links {
    /// Number of the link of that name.
    pub fn id(&mut self, name: &str) -> usize {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        self.links.push(Link::default());
        self.by_name.insert(name.to_owned(), self.links.len() - 1);
        self.links.len() - 1
    }

    /// Number of the link that an element of the graph that is being made calls so.
    pub fn own_id(&mut self, name: &str) -> usize {
        match &self.scope {
            Some(scope) => self.id(&format!("{scope}/{name}")),
            None => self.id(name),
        }
    }

    /// Says what names of links begin with in the graph that is made now.
    pub fn set_scope(&mut self, scope: Option<&str>) {
        self.scope = scope.map(str::to_owned);
    }

    /// Whether packets of the link enter a graph.
    pub fn is_up(&self, id: usize) -> bool {
        self.links[id].entrance.is_some()
    }

    /// Where packets of the link enter.
    pub fn entrance(&self, id: usize) -> Option<Entrance> {
        self.links[id].entrance
    }

    /// Lets the packets of a link wait from now on, until it is [released](Links::release).
    pub fn hold(&mut self, id: usize) {
        let link = &mut self.links[id];
        if !std::mem::replace(&mut link.held, true) {
            self.waiting += link.packets.len();
        }
    }

    /// Lets what waits on a link go on, before what comes then.
    pub fn release(&mut self, id: usize) {
        let link = &mut self.links[id];
        if std::mem::take(&mut link.held) && !link.packets.is_empty() {
            self.waiting -= link.packets.len();
            self.ready.push_back(id);
        }
    }

    /// Whether the packets of a link wait.
    pub fn is_held(&self, id: usize) -> bool {
        self.links[id].held
    }

    /// How many packets were left on a link, and how many of them wait.
    pub fn counts(&self, id: usize) -> (u64, usize) {
        let link = &self.links[id];
        (link.came, if link.held { link.packets.len() } else { 0 })
    }

    /// Leaves packets for the graph at the other end. Those that have no space for a tag of its part, or to wait, stay.
    pub fn send(&mut self, id: usize, packets: &mut Vec<Packet>) {
        packets.iter_mut().for_each(Packet::hand_over);
        let link = &mut self.links[id];
        link.came += packets.len() as u64;
        if link.held {
            let space = WAITING.saturating_sub(link.packets.len());
            let n = packets.len().min(space).min(ALL_WAITING.saturating_sub(self.waiting));
            link.packets.extend(packets.drain(..n));
            self.waiting += n;
            return;
        }
        let were_none = link.packets.is_empty();
        match link.part {
            Part::Rest | Part::Ports(_) => link.packets.append(packets),
            part => link.packets.extend(packets.extract_if(.., |p| part.put_on(p))),
        }
        if were_none && !link.packets.is_empty() {
            self.ready.push_back(id);
        }
    }

    /// The next packets that were left, and where they enter.
    pub fn take_next(&mut self) -> Option<(Entrance, Vec<Packet>)> {
        while let Some(id) = self.ready.pop_front() {
            if self.links[id].held {
                // It is held since; what came before waits too.
                continue;
            }
            let packets = std::mem::take(&mut self.links[id].packets);
            if let Some(entrance) = self.links[id].entrance {
                return Some((entrance, packets));
            }
        }
        None
    }

    /// Whether packets are in flight.
    pub fn waiting(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Lets the packets of a link enter at that place, as packets of a part.
    pub fn join(&mut self, id: usize, entrance: Entrance, part: Part) {
        let link = &mut self.links[id];
        (link.entrance, link.part) = (Some(entrance), part);
    }

    /// Lets them enter nowhere.
    pub fn leave(&mut self, id: usize) {
        let link = &mut self.links[id];
        (link.entrance, link.part) = (None, Part::Rest);
    }
}

/// Puts a VLAN tag behind the addresses of a frame (IEEE 802.1Q); false if there is no space, or no frame.
fn push_tag(packet: &mut Packet, vlan: u16) -> bool {
    if packet.len() < 14 || packet.push(4).is_err() {
        return false;
    }
    let bytes = packet.bytes_mut();
    bytes.copy_within(4..16, 0);
    bytes[12..14].copy_from_slice(&0x8100_u16.to_be_bytes());
    bytes[14..16].copy_from_slice(&vlan.to_be_bytes());
    let data = packet.data();
    packet.set_layer(Layer::Mac, Some(data));
    true
}

/// The VLAN of a frame, if it has a tag (IEEE 802.1Q or 802.1ad).
pub fn tag_of(packet: &Packet) -> Option<u16> {
    match packet.bytes().get(12..18)? {
        [0x81, 0x00, high, low, ..] | [0x88, 0xa8, high, low, ..] => {
            Some(u16::from_be_bytes([*high, *low]) & 0x0fff)
        }
        _ => None,
    }
}

/// Takes the tag off a frame that has one.
pub fn pop_tag(packet: &mut Packet) {
    packet.bytes_mut().copy_within(0..12, 4);
    packet.pull(4);
    let data = packet.data();
    packet.set_layer(Layer::Mac, Some(data));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_goes_on_first_and_is_bounded() {
        let mut links = Links::default();
        let packet = |n: u8| Packet::from_bytes(&[n; 60]).unwrap();
        let first = |p: &[Packet]| p.iter().map(|p| p.bytes()[0]).collect::<Vec<_>>();
        let id = links.id("g/in");
        links.hold(id);
        links.send(id, &mut vec![packet(1), packet(2)]);
        assert!(!links.waiting() && links.take_next().is_none());
        assert_eq!(links.counts(id), (2, 2));
        links.join(id, Entrance { graph: 0, link: 0 }, Part::Rest);
        links.release(id);
        links.send(id, &mut vec![packet(3)]);
        assert_eq!(first(&links.take_next().unwrap().1), [1, 2, 3]);
        assert_eq!((links.counts(id), links.waiting), ((3, 0), 0));
        links.hold(id);
        let mut many: Vec<Packet> = (0..=WAITING).map(|_| packet(0)).collect();
        links.send(id, &mut many);
        assert_eq!((many.len(), links.counts(id).1), (1, WAITING));
        // Those of others have what all may take together.
        let mut left = 0;
        for n in 0..ALL_WAITING / WAITING {
            let other = links.id(&format!("g{n}/in"));
            links.hold(other);
            let mut more: Vec<Packet> = (0..WAITING).map(|_| packet(0)).collect();
            links.send(other, &mut more);
            left += more.len();
        }
        assert_eq!((left, links.waiting), (WAITING, ALL_WAITING));
    }

    #[test]
    fn a_tag_goes_on_and_off_again() {
        let frame: Vec<u8> = (0..60).collect();
        let mut packet = Packet::from_bytes(&frame).unwrap();
        assert!(tag_of(&packet).is_none() && push_tag(&mut packet, 25));
        assert_eq!(packet.len(), 64);
        assert_eq!((&packet.bytes()[..12], &packet.bytes()[12..16]), (&frame[..12], &[0x81, 0, 0, 25][..]));
        assert_eq!(tag_of(&packet), Some(25));
        pop_tag(&mut packet);
        assert_eq!(packet.bytes(), frame);
        assert!(!push_tag(&mut Packet::from_bytes(&frame[..13]).unwrap(), 25), "no frame");
    }
}
