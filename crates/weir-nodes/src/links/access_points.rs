use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::net::Ipv4Addr;

use weir_elements::FromArg;
use weir_net::share::{Wanted, module_mac, wanted};
use weir_net::{EtherAddr, PortShare};
use weir_packet::Packet;

use crate::env::links::{Entrance, Links, Part, pop_tag, tag_of, tunnel_of};
use crate::prelude::*;

/// No graph takes packets from the link.
const LINK_DOWN: Reason = Reason::new("LinkDown");
/// The graph is being started, and no more packets can wait for it.
const NOT_STARTED: Reason = Reason::new("NotStarted");
/// What is said when a packet comes for a graph that has to be started.
const FIRST_PACKET: &str = "first-packet";
/// No tunnel has this other end.
const WRONG_REMOTE: Reason = Reason::new("WrongRemote");
/// Nobody has that port of an address that several share.
const WRONG_PORT: Reason = Reason::new("WrongPort");
/// Fragments have no ports, or not all.
const FRAGMENT: Reason = Reason::new("Fragment");
/// VLANs are numbered below this.
const VLANS: usize = 4096;

engine_node! {
    /// The access points of an interface, or of the tunnels at an address: hands frames to graphs by their VLAN tag, or by the
    /// tunnel that they came out of, and takes from these what leaves.
    ///
    /// By `VLAN`: what comes in goes over the link of the access point that has its VLAN (IEEE 802.1Q or 802.1ad), without the
    /// tag; of all others to the access point that takes the rest, as it is; else it is dropped (`NoMatch`). Packets that come
    /// over the links of access points leave by the output, with the tag of the access point's VLAN.
    ///
    /// Several access points may have ports of one address each, as `10.0.0.9:20000-20015` (all protocols that have ports) or
    /// `10.0.0.9:20000-20015/udp`. What comes without a tag for such an address goes to whoever has the port; ICMP errors go to who sent what they are about, and
    /// echo replies to who has their identifier among the ports. Else it is dropped (`WrongPort`, `Fragment`). ARP requests for the address are answered here.
    ///
    /// By `VNI` or `KEY`: what comes in goes over the link of the access point whose tunnel has the other end and the VNI or key
    /// that `VXLANDecap` or `GREDecap`, with `ENDS`, annotated it with; else it is dropped (`WrongRemote`, `WrongVNI`,
    /// `WrongKey`). Packets of the links leave annotated with these, as `VXLANEncap` and `GREEncap` with `ANNO` want them, and with paint
    /// 1 if there is a key: by that a `PaintSwitch` chooses between a `GREEncap` with `KEY ANNO` and one without.
    ///
    /// Access points come and go by the handler `change`. A hot swap keeps them.
    ///
    /// What comes for an access point that is held waits, 256 packets at most and 16,384 for all of a worker; more are dropped
    /// (`NotStarted`). The first is said (notice `first-packet`), so that the graph is started. What waits goes on in order when the access
    /// point is made anew without `hold`.
    AccessPoints: "1/1", "h/h", Source, Devices;
    example "FromDevice(eth0) -> a :: AccessPoints -> Queue -> ToDevice(eth0);";
    example "s :: TunnelSocket(UDP, 10.0.0.1, 4789) -> CheckIPHeader -> VXLANDecap(ENDS true) -> AccessPoints(VNI) -> FinishOffloads
        -> VXLANEncap(10.0.0.1, ANNO, ANNO) -> s;";
    params {
        /// By what packets are distinguished: `VLAN`, `VNI` or `KEY`.
        pos by: By = By::Vlan,
    }
    handlers {
        /// The access points, one a line: VLAN (`-`: all others) or tunnel (`10.0.0.2/42`; `10.0.0.2/-`: without a key), the link
        /// to the graph, the link from it, `hold` if it is held.
        read points = |a, _| Ok(a.state.text()),
        /// What came for access points, one a line: the link to the graph, packets, and how many of them wait.
        read came = |a, env| Ok(a.state.came(&env.links)),
        /// Number of access points.
        read count = |a, _| Ok(a.state.rows.len().to_string()),
        /// Changes access points: `- POINT` and `+ POINT TO FROM`, one a line, in this order, all or none; a point is a VLAN or tunnel
        /// as in `points`. With `hold` at the end of a line that adds one, what comes for it waits.
        write change = |a, value, env| a.state.change(a.by, value, &mut env.links),
    }
    state Points;
}

/// By what packets of access points are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Vlan,
    Vni,
    Key,
}

impl FromArg for By {
    const SYNTAX: &'static str = "VLAN, VNI or KEY";
    fn from_arg(text: &str) -> Result<By, String> {
        match text.trim() {
            "VLAN" => Ok(By::Vlan),
            "VNI" => Ok(By::Vni),
            "KEY" => Ok(By::Key),
            other => Err(format!("'{other}' is nothing to distinguish packets by: write VLAN, VNI or KEY")),
        }
    }
}

/// Largest VNI: it has 24 bits (RFC 7348, section 5).
const MAX_VNI: u32 = 0xff_ffff;

impl By {
    /// A part of packets, as handlers write it.
    fn part(self, word: &str) -> Result<Part, String> {
        match self {
            By::Vlan => match word.parse() {
                _ if word == "-" => Ok(Part::Rest),
                _ if word.contains(':') => {
                    word.parse().map(Part::Ports).map_err(|e| format!("'{word}': {e}"))
                }
                Ok(id @ 1..=4094) => Ok(Part::Vlan(id)),
                _ => Err(format!(
                    "'{word}' is no VLAN: give 1 to 4094, ports of an address, or - for all others"
                )),
            },
            By::Vni | By::Key => {
                let wrong =
                    || format!("'{word}' is no tunnel: give its other end and number, as 10.0.0.2/42");
                let (remote, id) = word.split_once('/').ok_or_else(wrong)?;
                let remote = remote.parse().map_err(|_| wrong())?;
                let id = match (self, id) {
                    (By::Key, "-") => None,
                    _ => {
                        Some(id.parse().ok().filter(|n| self == By::Key || *n <= MAX_VNI).ok_or_else(wrong)?)
                    }
                };
                Ok(Part::Tunnel { remote, id })
            }
        }
    }
}

/// The links of an access point.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    to: String,
    to_id: usize,
    from: String,
    from_id: usize,
    held: bool,
}

/// The links of the ports of an address.
#[derive(Debug, Default)]
struct Shared {
    /// By protocol and first port: the last one, and the link.
    ports: BTreeMap<(u8, u16), (u16, usize)>,
    /// By their Ethernet addresses.
    answers: HashMap<EtherAddr, usize>,
}

impl Shared {
    fn link_of(&self, protocol: u8, port: u16) -> Option<usize> {
        let (_, (last, link)) = self.ports.range((protocol, 0)..=(protocol, port)).next_back()?;
        (port <= *last).then_some(*link)
    }

    fn fate_of(&self, wanted: Wanted) -> Fate {
        let (link, reason) = match wanted {
            Wanted::Who => return Fate::Answer,
            Wanted::Port(protocol, port) => (self.link_of(protocol, port), WRONG_PORT),
            Wanted::Answer(mac) => (self.answers.get(&mac).copied(), Reason::NO_MATCH),
            Wanted::Fragment => (None, FRAGMENT),
            Wanted::Nothing => (None, WRONG_PORT),
        };
        link.map_or(Fate::Drop(reason), |link| Fate::Link(link, false))
    }
}

/// What is done with a packet.
enum Fate {
    /// It goes over a link, and loses its tag or not.
    Link(usize, bool),
    /// It asks by ARP who has a shared address.
    Answer,
    Drop(Reason),
}

#[derive(Debug, Default)]
struct Points {
    rows: BTreeMap<Part, Row>,
    /// The link of a VLAN and one more; empty while no access point has one.
    by_vlan: Vec<u32>,
    /// The link of all others.
    others: Option<usize>,
    /// The links of ports, by the addresses that are shared.
    by_address: HashMap<Ipv4Addr, Shared>,
    /// The link of a tunnel.
    by_tunnel: HashMap<(Ipv4Addr, Option<u32>), usize>,
    /// Where packets of links enter.
    entrance: Option<Entrance>,
}

impl Points {
    fn text(&self) -> String {
        let mut text = String::new();
        for (part, row) in &self.rows {
            let hold = if row.held { " hold" } else { "" };
            _ = writeln!(text, "{part} {} {}{hold}", row.to, row.from);
        }
        text
    }

    fn came(&self, links: &Links) -> String {
        let mut text = String::new();
        for row in self.rows.values() {
            let (packets, waiting) = links.counts(row.to_id);
            _ = writeln!(text, "{} {packets} {waiting}", row.to);
        }
        text
    }

    fn change(&mut self, by: By, text: &str, links: &mut Links) -> Result<(), String> {
        let mut next = BTreeMap::new();
        // What is not in `next` stays.
        for line in text.lines().filter(|l| !l.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["-", part] => drop(next.insert(by.part(part)?, None)),
                ["+", part, to, from] | ["+", part, to, from, "hold"] => {
                    let part = by.part(part)?;
                    let there = next.get(&part).map_or(self.rows.contains_key(&part), Option::is_some);
                    if there || self.overlaps(part, &next) {
                        return Err(format!("'{line}': there is such an access point already"));
                    }
                    let (to_id, from_id) = (links.id(to), links.id(from));
                    let elsewhere = links.entrance(from_id).is_some_and(|e| Some(e) != self.entrance);
                    if elsewhere {
                        return Err(format!("'{line}': another graph has the FromLink of '{from}' already"));
                    }
                    let held = words.len() == 5;
                    let row = Row { to: to.to_owned(), to_id, from: from.to_owned(), from_id, held };
                    next.insert(part, Some(row));
                }
                _ => {
                    return Err(format!(
                        "'{line}': write '- POINT', '+ POINT TO FROM' or '+ POINT TO FROM hold'"
                    ));
                }
            }
        }
        // All that go before any that come: an access point that is another part now has the links of before.
        let mut left = Vec::new();
        for part in next.keys() {
            if let Some(old) = self.rows.remove(part) {
                links.leave(old.from_id);
                left.push(old.to_id);
            }
            self.lead(*part, None);
        }
        let comes = |id| next.values().flatten().any(|row: &Row| row.to_id == id);
        // Nobody is going to take what waits on the others.
        left.into_iter().filter(|id| !comes(*id)).for_each(|id| links.release(id));
        for (part, row) in next.into_iter().filter_map(|(part, row)| Some((part, row?))) {
            self.lead(part, Some(row.to_id));
            match row.held {
                true => links.hold(row.to_id),
                false => links.release(row.to_id),
            }
            self.entrance.into_iter().for_each(|e| links.join(row.from_id, e, part));
            self.rows.insert(part, row);
        }
        Ok(())
    }

    /// Whether another access point has or gets some of the same ports of an address.
    fn overlaps(&self, part: Part, next: &BTreeMap<Part, Option<Row>>) -> bool {
        let Part::Ports(share) = part else { return false };
        let stays = self.rows.keys().filter(|p| !next.contains_key(p));
        let comes = next.iter().filter(|(_, row)| row.is_some()).map(|(p, _)| p);
        stays.chain(comes).any(|p| matches!(p, Part::Ports(other) if other.overlaps(&share)))
    }

    /// Says where packets of a part go.
    fn lead(&mut self, part: Part, to: Option<usize>) {
        match part {
            Part::Rest => self.others = to,
            Part::Vlan(id) => {
                self.by_vlan.resize(VLANS, 0);
                self.by_vlan[usize::from(id)] = to.map_or(0, |link| link as u32 + 1);
            }
            Part::Ports(share) => self.lead_ports(share, to),
            Part::Tunnel { remote, id } => match to {
                Some(link) => drop(self.by_tunnel.insert((remote, id), link)),
                None => drop(self.by_tunnel.remove(&(remote, id))),
            },
        }
    }

    fn lead_ports(&mut self, share: PortShare, to: Option<usize>) {
        let (first, last) = share.ports();
        let shared = self.by_address.entry(share.address()).or_default();
        for protocol in share.protocols().numbers() {
            match to {
                Some(link) => drop(shared.ports.insert((*protocol, first), (last, link))),
                None => drop(shared.ports.remove(&(*protocol, first))),
            }
        }
        match to {
            Some(link) => drop(shared.answers.insert(share.mac(), link)),
            None => drop(shared.answers.remove(&share.mac())),
        }
        if shared.ports.is_empty() {
            self.by_address.remove(&share.address());
        }
    }

    /// What becomes of a packet.
    fn fate_of(&self, by: By, packet: &Packet) -> Fate {
        if by != By::Vlan {
            return self.tunnel_link(by, packet).map_or_else(Fate::Drop, |link| Fate::Link(link, false));
        }
        if !self.by_address.is_empty()
            && let Some((address, wanted)) = wanted(packet.bytes())
            && let Some(shared) = self.by_address.get(&address)
        {
            return shared.fate_of(wanted);
        }
        let tagged = tag_of(packet).and_then(|id| self.by_vlan.get(usize::from(id)));
        match tagged {
            Some(&link) if link > 0 => Fate::Link(link as usize - 1, true),
            _ => self.others.map_or(Fate::Drop(Reason::NO_MATCH), |link| Fate::Link(link, false)),
        }
    }

    fn tunnel_link(&self, by: By, packet: &Packet) -> Result<usize, Reason> {
        let tunnel = tunnel_of(packet, by == By::Key);
        if let Some(link) = self.by_tunnel.get(&tunnel) {
            return Ok(*link);
        }
        // Anybody may send such packets: looking for the other end must not take longer the more tunnels there are.
        let part = |id| Part::Tunnel { remote: tunnel.0, id };
        let known = self.rows.range(part(None)..=part(Some(u32::MAX))).next().is_some();
        Err(match by {
            _ if !known => WRONG_REMOTE,
            By::Key => Reason::new("WrongKey"),
            By::Vlan | By::Vni => Reason::new("WrongVNI"),
        })
    }
}

impl Behavior for AccessPoints {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let mut run: Vec<Packet> = Vec::new();
        let mut last = None;
        for mut packet in packets.drain(..) {
            let (link, tagged) = match self.state.fate_of(self.by, &packet) {
                Fate::Link(link, tagged) => (link, tagged),
                Fate::Answer => {
                    answer_arp(&mut packet);
                    cx.emit(0, packet);
                    continue;
                }
                Fate::Drop(reason) => {
                    cx.drop(&reason, packet);
                    continue;
                }
            };
            if !cx.env().links.is_up(link) && !cx.env().links.is_held(link) {
                cx.drop(&LINK_DOWN, packet);
                continue;
            }
            if tagged {
                pop_tag(&mut packet);
            }
            // Packets of one access point go together.
            if let Some(before) = last.replace(link).filter(|before| *before != link) {
                self.send(before, &mut run, cx);
            }
            run.push(packet);
        }
        if let Some(link) = last {
            self.send(link, &mut run, cx);
        }
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<AccessPoints>() {
            self.state = std::mem::take(&mut old.state);
        }
    }

    fn join_links(&mut self, entrance: Entrance, links: &mut Links) {
        self.state.entrance = Some(entrance);
        self.state.rows.iter().for_each(|(part, row)| links.join(row.from_id, entrance, *part));
    }

    fn leave_links(&mut self, links: &mut Links) {
        self.state.rows.values().for_each(|row| links.leave(row.from_id));
    }

    fn on_every_worker(&self) -> bool {
        true
    }
}

/// Makes an ARP request for a shared address an answer to who sent it.
fn answer_arp(packet: &mut Packet) {
    let Some(frame) = packet.bytes_mut().get_mut(..42) else { return };
    let (mut sender, mut target) = ([0; 10], [0; 4]);
    sender.copy_from_slice(&frame[22..32]);
    target.copy_from_slice(&frame[38..42]);
    let mac = module_mac(target.into()).0;
    frame[..6].copy_from_slice(&sender[..6]);
    frame[6..12].copy_from_slice(&mac);
    frame[20..22].copy_from_slice(&[0, 2]);
    frame[22..28].copy_from_slice(&mac);
    frame[28..32].copy_from_slice(&target);
    frame[32..42].copy_from_slice(&sender);
}

impl AccessPoints {
    fn send(&self, link: usize, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let env = cx.env();
        let first = env.links.is_held(link) && env.links.counts(link).1 == 0;
        env.links.send(link, packets);
        let held = env.links.is_held(link);
        if first {
            let row = self.state.rows.values().find(|row| row.to_id == link);
            let graph = row.and_then(|row| row.to.split('/').next());
            env.notice(graph, FIRST_PACKET, "a packet waits for the graph to be started");
        }
        let reason = if held { NOT_STARTED } else { Reason::NO_SPACE };
        packets.drain(..).for_each(|p| cx.drop(&reason, p));
    }
}
