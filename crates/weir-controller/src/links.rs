//! The links between nodes: which of them reach each other, from where to where. Pure.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use weir_api::domain::Domain;

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// The node.
    pub node: String,
    /// Its interface.
    pub interface: String,
    /// The address there.
    pub address: Ipv4Addr,
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
}

impl Link {
    /// The ends, seen from a node of it.
    pub fn from(&self, node: &str) -> Option<(&End, &End)> {
        match node {
            n if n == self.a.node => Some((&self.a, &self.b)),
            n if n == self.b.node => Some((&self.b, &self.a)),
            _ => None,
        }
    }
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
                let end = End { node: node.to_owned(), interface: e.interface.clone(), address };
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
                let mtu = match (*mtu, *other) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (one, other) => one.or(other),
                };
                let link = Link { a: a.clone(), b: b.clone(), mtu };
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

#[cfg(test)]
mod tests {
    use weir_api::domain::Endpoint;

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
        };
        Domain { endpoints: ends.iter().map(endpoint).collect(), ..Domain::default() }
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
            .map(|l| format!("{}:{} {}:{} {:?}", l.a.node, l.a.address, l.b.node, l.b.address, l.mtu))
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
}
