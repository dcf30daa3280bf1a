//! The links between nodes: which of them reach each other, from where to where, what passes there and how long it takes. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::Ipv4Addr;

use weir_api::domain::Domain;
use weir_api::members::{Encapsulation, FoundBy, LinkSettings, MissingLink};
use weir_model::graph::Placement;

use crate::split::Tunnel;

/// Microseconds of which the placement counts delays.
const UNIT: u32 = 10;
/// How long a link takes of which that is not known, in these: what counts is then how many there are.
const UNKNOWN: u32 = 10;

/// The links that the operator declares, by the names of their nodes in order.
pub type Declared = BTreeMap<(String, String), LinkSettings>;

/// The rates that graphs may send from a node to another, in kbit/s.
pub type Promised = BTreeMap<(String, String), u64>;

/// A node, and an interface of it.
pub type Port = (String, String);

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// The node.
    pub node: String,
    /// Its interface.
    pub interface: String,
    /// The address there, if there is one that counts.
    pub address: Option<Ipv4Addr>,
}

/// Two nodes that reach each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The end at the node that comes first by name.
    pub a: End,
    /// The other end.
    pub b: End,
    /// The largest IP packet that passes, in bytes.
    pub mtu: Option<u32>,
    /// How the nodes found it.
    pub found: BTreeSet<FoundBy>,
    /// Whether the operator said something of it.
    pub declared: bool,
    /// What it can carry in each direction, in kbit/s, if that is known.
    pub capacity: Option<u64>,
    /// How long packets take, in microseconds, if that is known.
    pub delay: Option<u32>,
    /// How tunnels go there.
    pub encapsulation: Encapsulation,
    /// The VLANs that they may have, first and last.
    pub vlans: Option<[u16; 2]>,
    /// What graphs may send forth and back, in kbit/s.
    pub promised: [u64; 2],
}

impl Link {
    /// A link of which nobody said anything.
    pub(crate) fn new(a: End, b: End, mtu: Option<u32>, found: FoundBy) -> Link {
        Link {
            a,
            b,
            mtu,
            found: BTreeSet::from([found]),
            declared: false,
            capacity: None,
            delay: None,
            encapsulation: Encapsulation::Vxlan,
            vlans: None,
            promised: [0, 0],
        }
    }

    /// Whether tunnels can go there: without addresses, only VLANs.
    fn carries(&self) -> bool {
        self.encapsulation == Encapsulation::Vlan || (self.a.address.is_some() && self.b.address.is_some())
    }

    /// The ends, seen from a node of it.
    pub fn from(&self, node: &str) -> Option<(&End, &End)> {
        match node {
            n if n == self.a.node => Some((&self.a, &self.b)),
            n if n == self.b.node => Some((&self.b, &self.a)),
            _ => None,
        }
    }

    /// What graphs may still be promised from a node of it to the other, in kbit/s, if that is known.
    pub fn left(&self, from: &str) -> Option<u64> {
        let [forth, back] = self.promised;
        let promised = if from == self.a.node { forth } else { back };
        self.capacity.map(|c| c.saturating_sub(promised))
    }

    /// How long it takes, as the placement counts it.
    pub fn weight(&self) -> u32 {
        self.delay.map_or(UNKNOWN, units)
    }
}

/// Microseconds, as the placement counts them.
pub fn units(micros: u32) -> u32 {
    micros.div_ceil(UNIT)
}

/// What graphs may send from node to node: each of their tunnels as much as the graph says.
pub fn promised<'t>(graphs: impl Iterator<Item = (u64, &'t [Tunnel])>) -> Promised {
    let mut all = Promised::new();
    for (kbits, tunnels) in graphs {
        for t in tunnels {
            let sum = all.entry((t.from.clone(), t.to.clone())).or_default();
            *sum = sum.saturating_add(kbits);
        }
    }
    all
}

/// The links that a graph may use which asks for this.
pub fn usable<'l>(links: &'l [Link], asked: &Placement) -> Vec<&'l Link> {
    let has = |l: &&Link| {
        let bandwidth = asked.bandwidth.is_none_or(|b| {
            [&l.a, &l.b].iter().all(|end| l.left(&end.node).is_none_or(|left| left >= b.kbits()))
        });
        l.carries() && bandwidth && (asked.max_delay.is_none() || l.delay.is_some())
    };
    links.iter().filter(has).collect()
}

/// The nodes on the shortest path, both ends included, and how long it takes, as the placement counts it.
pub fn path(links: &[&Link], from: &str, to: &str) -> Option<(Vec<String>, u32)> {
    let mut next = BinaryHeap::from([Reverse((0, vec![from]))]);
    let mut seen = BTreeSet::new();
    while let Some(Reverse((delay, nodes))) = next.pop() {
        let node = nodes.last().copied()?;
        if node == to {
            return Some((nodes.into_iter().map(str::to_owned).collect(), delay));
        }
        if !seen.insert(node) {
            continue;
        }
        for link in links {
            let Some((_, other)) = link.from(node) else { continue };
            if !seen.contains(other.node.as_str()) {
                let nodes = nodes.iter().copied().chain([other.node.as_str()]).collect();
                next.push(Reverse((delay + link.weight(), nodes)));
            }
        }
    }
    None
}

/// An address with its network.
fn network(text: &str) -> Option<(Ipv4Addr, Ipv4Addr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (Ipv4Addr, u8) = (address.parse().ok()?, length.parse().ok()?);
    // Point-to-point addresses and whole hosts share no network that could be told by its prefix.
    if !(1..=30).contains(&length) || address.is_link_local() || address.is_loopback() {
        return None;
    }
    let mask = u32::MAX << (32 - u32::from(length));
    Some((address, Ipv4Addr::from(u32::from(address) & mask), length))
}

/// The ends in a network, each with its largest packet.
type Ends = Vec<(End, Option<u32>)>;

/// Nodes that have addresses of one network are taken to reach each other there. Of several networks the one with the largest packets
/// counts, then the first.
pub fn found<'d>(domains: impl Iterator<Item = (&'d str, &'d Domain)>) -> Vec<Link> {
    let mut networks: BTreeMap<(Ipv4Addr, u8), Ends> = BTreeMap::new();
    for (node, domain) in domains {
        for e in domain.endpoints.iter().filter(|e| e.up) {
            for (address, network, length) in e.addresses.iter().filter_map(|a| network(a)) {
                let end =
                    End { node: node.to_owned(), interface: e.interface.clone(), address: Some(address) };
                networks.entry((network, length)).or_default().push((end, e.mtu));
            }
        }
    }
    let mut links: BTreeMap<(String, String), Link> = BTreeMap::new();
    for mut ends in networks.into_values() {
        ends.sort();
        // A network of which two nodes have the same address is one of each node's own, as container engines make them.
        let mut seen = BTreeMap::new();
        if ends.iter().any(|(e, _)| seen.insert(e.address, &e.node).is_some_and(|node| *node != e.node)) {
            continue;
        }
        for (i, (a, mtu)) in ends.iter().enumerate() {
            for (b, other) in ends.iter().skip(i + 1).filter(|(b, _)| b.node != a.node) {
                let mtu = [*mtu, *other].into_iter().flatten().min();
                let link = Link::new(a.clone(), b.clone(), mtu, FoundBy::Addresses);
                let key = (a.node.clone(), b.node.clone());
                match links.get(&key) {
                    Some(known) if known.mtu >= link.mtu => {}
                    _ => _ = links.insert(key, link),
                }
            }
        }
    }
    links.into_values().collect()
}

/// Interfaces of two nodes that hear each other's probes, the node first that comes first by name. One alone proves nothing: whoever is at an interface can
/// send probes in anybody's name.
pub fn adjacent(domains: &BTreeMap<&str, &Domain>) -> BTreeSet<[Port; 2]> {
    let hears = |a: &Port, b: &Port| {
        let end = domains.get(a.0.as_str())?.endpoints.iter().find(|e| e.interface == a.1)?;
        end.neighbours.iter().find(|n| n.node == b.0 && n.interface == b.1).filter(|_| end.up)
    };
    let mut found = BTreeSet::new();
    for (node, domain) in domains {
        for e in &domain.endpoints {
            for n in e.neighbours.iter().filter(|n| n.node.as_str() > *node) {
                let a = ((*node).to_owned(), e.interface.clone());
                let b = (n.node.clone(), n.interface.clone());
                if hears(&a, &b).is_some() && hears(&b, &a).is_some() {
                    found.insert([a, b]);
                }
            }
        }
    }
    found
}

/// The interface of a node whose name is that.
pub(crate) fn port(end: &End) -> Port {
    (end.node.clone(), end.interface.clone())
}

/// The links of nodes that only probes found, between the first interfaces that they did for each two nodes.
fn by_probes<'p>(
    ports: impl Iterator<Item = &'p [Port; 2]>,
    domains: &BTreeMap<&str, &Domain>,
    links: &mut BTreeMap<(String, String), Link>,
) {
    let mtu = |(node, interface): &Port| {
        let ends = domains.get(node.as_str()).map(|d| &d.endpoints[..]).unwrap_or_default();
        ends.iter().find(|e| e.interface == *interface).and_then(|e| e.mtu)
    };
    let end =
        |(node, interface): &Port| End { node: node.clone(), interface: interface.clone(), address: None };
    for [a, b] in ports {
        let mtu = [mtu(a), mtu(b)].into_iter().flatten().min();
        let new = || Link::new(end(a), end(b), mtu, FoundBy::Probes);
        links.entry((a.0.clone(), b.0.clone())).or_insert_with(new);
    }
}

/// The links that there are, with what the operator says of them and what graphs may send there; and those that are not. Tunnels are encrypted where
/// that is not said if `encrypts`.
pub fn all(
    domains: &BTreeMap<&str, &Domain>,
    declared: &Declared,
    encrypts: bool,
    promised: &Promised,
) -> (Vec<Link>, Vec<MissingLink>) {
    let found = found(domains.iter().map(|(name, d)| (*name, *d)));
    let mut links: BTreeMap<(String, String), Link> =
        found.into_iter().map(|l| ((l.a.node.clone(), l.b.node.clone()), l)).collect();
    let adjacent = adjacent(domains);
    by_probes(adjacent.iter(), domains, &mut links);
    let mut missing = Vec::new();
    for ((a, b), settings) in declared {
        let key = (a.clone(), b.clone());
        let link = match settings.addresses {
            Some(addresses) => between((a.as_str(), b.as_str()), addresses, domains),
            None => links.remove(&key).ok_or_else(|| {
                let away = [a, b].into_iter().find(|n| !domains.contains_key(n.as_str()));
                match away {
                    Some(node) => format!("node '{node}' is offline"),
                    None => "the nodes have no addresses of one network; say at which they reach each other"
                        .to_owned(),
                }
            }),
        };
        match link {
            Ok(link) => {
                let mtu = match (link.mtu, settings.mtu) {
                    (Some(found), Some(said)) => Some(found.min(said)),
                    (found, said) => said.or(found),
                };
                let LinkSettings { capacity, delay, .. } = *settings;
                _ = links.insert(key, Link { mtu, declared: true, capacity, delay, ..link });
            }
            Err(reason) => {
                links.remove(&key);
                missing.push(MissingLink { nodes: [a.clone(), b.clone()], reason });
            }
        }
    }
    for ((a, b), link) in &mut links {
        let said = declared.get(&(a.clone(), b.clone()));
        let usual = if encrypts { Encapsulation::WireGuard } else { Encapsulation::Vxlan };
        link.encapsulation = said.and_then(|s| s.encapsulation).unwrap_or(usual);
        link.vlans = said.and_then(|s| s.vlans);
        if adjacent.contains(&[port(&link.a), port(&link.b)]) {
            link.found.insert(FoundBy::Probes);
        }
        if said.is_some() && !link.carries() {
            let reason = "the nodes hear each other's probes and have no addresses of one network: say at which they reach each other, or --encapsulation vlan";
            missing.push(MissingLink { nodes: [a.clone(), b.clone()], reason: reason.to_owned() });
        }
        let of = |from: &String, to: &String| promised.get(&(from.clone(), to.clone())).copied().unwrap_or(0);
        link.promised = [of(a, b), of(b, a)];
    }
    (links.into_values().collect(), missing)
}

/// A link between two addresses of nodes.
fn between(
    (a, b): (&str, &str),
    addresses: [Ipv4Addr; 2],
    domains: &BTreeMap<&str, &Domain>,
) -> Result<Link, String> {
    let end = |node: &str, address: Ipv4Addr| {
        let domain = domains.get(node).ok_or_else(|| format!("node '{node}' is offline"))?;
        let text = address.to_string();
        let here = |a: &String| a.split('/').next() == Some(&text);
        let end = domain.endpoints.iter().find(|e| e.up && e.addresses.iter().any(here));
        let end = end.ok_or_else(|| {
            format!("node '{node}' has not the address {address} on an interface that is up")
        })?;
        let (node, interface) = (node.to_owned(), end.interface.clone());
        Ok::<_, String>((End { node, interface, address: Some(address) }, end.mtu))
    };
    let ((a, one), (b, other)) = (end(a, addresses[0])?, end(b, addresses[1])?);
    let mtu = [one, other].into_iter().flatten().min();
    Ok(Link { found: BTreeSet::new(), declared: true, ..Link::new(a, b, mtu, FoundBy::Addresses) })
}

#[cfg(test)]
mod tests {
    use weir_api::domain::{Endpoint, Neighbour};

    use super::*;

    fn domain(ends: &[(&str, &str, u32)]) -> Domain {
        let endpoint = |(name, address, mtu): &(&str, &str, u32)| Endpoint {
            interface: (*name).to_owned(),
            up: true,
            mac: None,
            mtu: Some(*mtu),
            addresses: vec![(*address).to_owned(), "fe80::1/64".into(), "172.17.0.1/16".into()],
            graph: None,
            vlans: Vec::new(),
            neighbours: Vec::new(),
        };
        Domain { endpoints: ends.iter().map(endpoint).collect(), ..Domain::default() }
    }

    fn address(end: &End) -> Ipv4Addr {
        end.address.unwrap()
    }

    #[test]
    fn nodes_with_addresses_of_one_network_are_joined_there() {
        let n1 = domain(&[("m", "10.0.0.1/24", 1500), ("big", "10.9.0.1/24", 9000)]);
        let n2 = domain(&[("m", "10.0.0.2/24", 1400), ("big", "10.9.0.2/24", 9000)]);
        let n3 = domain(&[("m", "10.0.0.3/24", 1500), ("x", "192.168.0.1/32", 1500)]);
        let n4 = domain(&[("m", "10.0.0.4/16", 1500), ("x", "192.168.0.1/32", 1500)]);
        let links = found([("n1", &n1), ("n2", &n2), ("n3", &n3), ("n4", &n4)].into_iter());
        let text: Vec<String> = links
            .iter()
            .map(|l| format!("{}:{} {}:{} {:?}", l.a.node, address(&l.a), l.b.node, address(&l.b), l.mtu))
            .collect();
        assert_eq!(
            text,
            [
                "n1:10.9.0.1 n2:10.9.0.2 Some(9000)",
                "n1:10.0.0.1 n3:10.0.0.3 Some(1500)",
                "n2:10.0.0.2 n3:10.0.0.3 Some(1400)"
            ]
        );
        assert_eq!(links[0].from("n2").unwrap().0.node, "n2");
    }

    #[test]
    fn a_link_is_found_by_probes_where_both_ends_hear_each_other() {
        let hears = |mut d: Domain, at: usize, node: &str, interface: &str| {
            d.endpoints[at].neighbours.push(Neighbour {
                node: node.into(),
                interface: interface.into(),
                mac: "02:00:00:00:00:01".into(),
            });
            d
        };
        let one = |node| domain(&[("m", node, 1500), ("x", "192.168.0.1/32", 1400)]);
        let n1 = hears(hears(one("10.0.0.1/24"), 0, "n2", "m"), 1, "n2", "x");
        let n2 = hears(hears(one("10.0.0.2/24"), 0, "n1", "m"), 1, "n1", "x");
        // Somebody says at n1 that he is n3, which hears nobody but n2.
        let n1 = hears(n1, 1, "n3", "x");
        let n3 = hears(domain(&[("x", "10.9.0.1/24", 1500)]), 0, "n2", "x");
        let n2 = hears(n2, 1, "n3", "x");
        let domains = BTreeMap::from([("n1", &n1), ("n2", &n2), ("n3", &n3)]);
        let found = |declared: &Declared| all(&domains, declared, false, &Promised::new());
        let said = |links: &[Link]| -> Vec<String> {
            let by = |l: &Link| l.found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            links.iter().map(|l| format!("{} {} {}: {}", l.a.node, l.b.node, l.a.interface, by(l))).collect()
        };
        let (links, missing) = found(&Declared::new());
        assert_eq!(said(&links), ["n1 n2 m: addresses, probes", "n2 n3 x: probes"]);
        assert_eq!((links[1].mtu, missing.len(), adjacent(&domains).len()), (Some(1400), 0, 3));
        // Without addresses there is nothing but VLANs that could go there, and these only when the operator says so.
        assert_eq!(usable(&links, &Placement::default()).len(), 1);
        let (links, missing) = found(&declared("n2", "n3", LinkSettings::default()));
        assert_eq!(usable(&links, &Placement::default()).len(), 1);
        assert!(missing[0].reason.contains("--encapsulation vlan"), "{missing:?}");
        let (encapsulation, vlans) = (Some(Encapsulation::Vlan), Some([10, 20]));
        let vlan = LinkSettings { encapsulation, vlans, ..LinkSettings::default() };
        let (links, missing) = found(&declared("n2", "n3", vlan));
        assert_eq!((usable(&links, &Placement::default()).len(), missing.len()), (2, 0));
    }

    fn declared(a: &str, b: &str, settings: LinkSettings) -> Declared {
        BTreeMap::from([((a.to_owned(), b.to_owned()), settings)])
    }

    #[test]
    fn what_the_operator_says_of_links_counts() {
        let n1 = domain(&[("m", "10.0.0.1/24", 1500), ("far", "10.1.0.1/24", 1500)]);
        let n2 = domain(&[("m", "10.0.0.2/24", 1500)]);
        let n3 = domain(&[("far", "10.2.0.3/24", 1400)]);
        let domains = BTreeMap::from([("n1", &n1), ("n2", &n2), ("n3", &n3)]);
        let promises = BTreeMap::from([(("n2".to_owned(), "n1".to_owned()), 300)]);
        let said = LinkSettings {
            capacity: Some(1000),
            delay: Some(5000),
            mtu: Some(1300),
            ..LinkSettings::default()
        };
        let mut all_said = declared("n1", "n2", said);
        let addresses = Some([Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 3)]);
        let encapsulation = Some(Encapsulation::WireGuard);
        all_said.extend(declared(
            "n1",
            "n3",
            LinkSettings { addresses, encapsulation, ..LinkSettings::default() },
        ));
        all_said.extend(declared("n2", "n3", LinkSettings::default()));
        let (links, missing) = all(&domains, &all_said, false, &promises);
        let text: Vec<String> = links
            .iter()
            .map(|l| {
                format!(
                    "{} {} {:?} {:?} {:?} {}",
                    address(&l.a),
                    address(&l.b),
                    l.mtu,
                    l.left("n1"),
                    l.left("n2"),
                    l.encapsulation
                )
            })
            .collect();
        assert_eq!(
            text,
            [
                "10.0.0.1 10.0.0.2 Some(1300) Some(1000) Some(700) vxlan",
                "10.1.0.1 10.2.0.3 Some(1400) None None wireguard"
            ]
        );
        assert_eq!(missing.len(), 1);
        assert!(missing[0].reason.contains("no addresses of one network"), "{}", missing[0].reason);
        let gone = BTreeMap::from([("n1", &n1)]);
        let (links, missing) = all(&gone, &all_said, false, &promises);
        assert!(links.is_empty() && missing[0].reason == "node 'n2' is offline", "{missing:?}");
        // What a graph asks for rules links out.
        let (links, _) = all(&domains, &all_said, false, &promises);
        let asked = |bandwidth: &str| Placement { bandwidth: bandwidth.parse().ok(), ..Placement::default() };
        assert_eq!(usable(&links, &asked("700 kbit/s")).len(), 2);
        assert_eq!(usable(&links, &asked("701 kbit/s")).len(), 1);
        let fast = Placement { max_delay: "1 s".parse().ok(), ..Placement::default() };
        assert_eq!(usable(&links, &fast).len(), 1, "nobody knows how long the other takes");
    }

    #[test]
    fn a_path_takes_the_least_time() {
        let node = |n: &'static str| {
            let address = format!("10.0.0.{}/24", &n[1..]);
            (n, domain(&[("m", address.as_str(), 1500)]))
        };
        let nodes = ["n1", "n2", "n3"].map(node);
        let domains = nodes.iter().map(|(n, d)| (*n, d)).collect();
        let slow = declared("n1", "n3", LinkSettings { delay: Some(2000), ..LinkSettings::default() });
        let (links, _) = all(&domains, &Declared::new(), false, &Promised::new());
        let refs: Vec<&Link> = links.iter().collect();
        assert_eq!(path(&refs, "n1", "n3").unwrap().0, ["n1", "n3"]);
        let (links, _) = all(&domains, &slow, false, &Promised::new());
        let refs: Vec<&Link> = links.iter().collect();
        let (nodes, delay) = path(&refs, "n1", "n3").unwrap();
        assert_eq!((nodes, delay), (vec!["n1".to_owned(), "n2".into(), "n3".into()], 20));
        assert_eq!(path(&refs, "n1", "n9"), None);
    }
}
