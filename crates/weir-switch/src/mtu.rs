//! MTUs of access points: what fits, and between which of them packets may be too large.
//!
//! Neither graphs nor tunnels fragment: what is too large for an access point is dropped there (`TooLong`). What the figures are, the
//! node's interfaces and routes say; what follows from them stands here.

use std::collections::{BTreeMap, BTreeSet};

use weir_model::graph::{Function, Port, PortRef, ServiceGraph};
use weir_model::value::Id;

use crate::lsi0::{Base, Part, Tunnel};

/// Most lines of warnings.
const MAX_LINES: usize = 100;

/// Smallest MTU that IPv4 has (RFC 791 section 3.2).
pub const SMALLEST: u32 = 68;

/// The MTU of an access point: the largest IP packet in a frame there, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mtu {
    /// The access point.
    pub sap: String,
    /// What it is a part of.
    pub base: Base,
    /// Which part.
    pub part: Part,
    /// The MTU of the interface, or of the route to the tunnel's other end.
    pub carrier: u32,
}

/// Bytes of a carrier's MTU that are not for IP packets of the graph: outer headers, and the inner Ethernet header.
pub fn overhead(base: &Base, part: Part) -> u32 {
    const IPV4: u32 = 20;
    const ETHERNET: u32 = 14;
    match (base, part) {
        // UDP and VXLAN have 8 bytes each.
        (Base::Vxlan { .. }, _) => IPV4 + 8 + 8 + ETHERNET,
        // WireGuard has an outer header of IPv4 and one of UDP, 16 bytes of its own, and 16 that prove who sent.
        (Base::WireGuard(_), _) => (IPV4 + 8 + 16 + 16) + IPV4 + 8 + 8 + ETHERNET,
        (Base::Gre { .. }, Part::Tunnel(Tunnel { id: Some(_), .. })) => IPV4 + 8 + ETHERNET,
        (Base::Gre { .. }, _) => IPV4 + 4 + ETHERNET,
        // A VLAN tag is not counted.
        (Base::Interface(_) | Base::Host(_), _) => 0,
    }
}

impl Mtu {
    /// The figure.
    pub fn bytes(&self) -> u32 {
        self.carrier.saturating_sub(overhead(&self.base, self.part))
    }

    /// What has the carrier's MTU, for people.
    fn carrier(&self) -> String {
        match (&self.base, self.part) {
            (_, Part::Tunnel(Tunnel { remote, .. })) => format!("the path to {remote}"),
            (Base::Host(host), _) => format!("the host's interface {}", host.name),
            (base, _) => format!("the interface {base}"),
        }
    }

    /// How the figure comes about, for people.
    fn reason(&self) -> String {
        let (carrier, mtu) = (self.carrier(), self.carrier);
        let protocol = match self.base {
            Base::Vxlan { .. } => "VXLAN",
            Base::WireGuard(_) => "VXLAN inside of WireGuard",
            Base::Gre { .. } => "GRE",
            Base::Interface(_) | Base::Host(_) => return format!("{carrier} has an MTU of {mtu}"),
        };
        let overhead = overhead(&self.base, self.part);
        format!("{protocol} takes {overhead} of the {mtu} bytes that {carrier} has")
    }

    /// Why nothing can pass, if nothing can.
    pub fn impossible(&self) -> Option<String> {
        let bytes = self.bytes();
        (bytes < SMALLEST).then(|| {
            let least = SMALLEST + overhead(&self.base, self.part);
            let (reason, carrier) = (self.reason(), self.carrier());
            format!(
                "no IP packet passes: {reason}, which leaves {bytes}, and IPv4 needs {SMALLEST}; give {carrier} an MTU of {least} or more"
            )
        })
    }
}

/// Warnings of packets that may be too large: one line for each two access points of a graph where packets of the first, as large
/// as its MTU lets them be, may have to leave by the second, and do not fit. `mtus` are those that are known.
pub fn warnings(graph: &ServiceGraph, mtus: &[Mtu]) -> Vec<String> {
    let of: BTreeMap<&str, &Mtu> = mtus.iter().map(|m| (m.sap.as_str(), m)).collect();
    let leads = Leads::of(graph);
    let mut lines = Vec::new();
    for from in mtus {
        for to in leads.reached(&from.sap).iter().filter_map(|sap| of.get(sap)) {
            let (large, small) = (from.bytes(), to.bytes());
            if large <= small {
                continue;
            }
            if lines.len() == MAX_LINES {
                lines.push("there are more such access points".to_owned());
                return lines;
            }
            let own = match from.base {
                Base::Host(_) => format!("give sap:{} 'mtu: {small}'", from.sap),
                _ => format!("give the hosts behind sap:{} an MTU of {small}", from.sap),
            };
            let wanted = large + overhead(&to.base, to.part);
            lines.push(format!(
                "packets of {} to {large} bytes from sap:{} are too large for sap:{} and are dropped there: {}, so its MTU is {small}, and {}; {own}, or {} one of {wanted}",
                small + 1,
                from.sap,
                to.sap,
                to.reason(),
                from.reason(),
                to.carrier(),
            ));
        }
    }
    lines
}

/// Where a graph's rules lead, by place; looked up once for all its access points, since documents may be large.
struct Leads<'g> {
    rules: BTreeMap<&'g PortRef, Vec<&'g PortRef>>,
    /// The places of functions' ports.
    ports: BTreeMap<&'g Id, Vec<PortRef>>,
    saps: BTreeMap<&'g str, PortRef>,
}

impl<'g> Leads<'g> {
    fn of(graph: &'g ServiceGraph) -> Leads<'g> {
        let mut rules: BTreeMap<&PortRef, Vec<&PortRef>> = BTreeMap::new();
        for rule in &graph.flowrules {
            rules.entry(&rule.matches.port_in).or_default().extend(&rule.actions.output_to_port);
        }
        let port = |f: &Function, p: &Port| PortRef::Function { function: f.id.clone(), port: p.id.clone() };
        let ports = graph.functions.iter().map(|f| (&f.id, f.ports.iter().map(|p| port(f, p)).collect()));
        let saps = graph.saps.iter().map(|s| (s.id.as_str(), PortRef::Sap(s.id.clone())));
        Leads { rules, ports: ports.collect(), saps: saps.collect() }
    }

    /// The access points by which packets that come in at one may leave, as the rules say; a function may send what it gets by any
    /// port.
    fn reached(&self, sap: &str) -> BTreeSet<&'g str> {
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut next: Vec<&PortRef> = self.saps.get(sap).into_iter().collect();
        while let Some(place) = next.pop() {
            for to in self.rules.get(place).into_iter().flatten() {
                match to {
                    PortRef::Sap(id) => drop(found.insert(id.as_str())),
                    PortRef::Function { function, .. } if seen.insert(function) => {
                        next.extend(self.ports.get(function).into_iter().flatten());
                    }
                    PortRef::Function { .. } => {}
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = "
id: g
name: g
SFs: [{id: f, name: f, ports: [{id: a}, {id: b}]}]
saps:
  - {id: lan, type: interface, interface: {if-name: eth1}}
  - {id: far, type: interface, interface: {if-name: eth2}}
  - {id: third, type: interface, interface: {if-name: eth3}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:lan'}, actions: {output_to_port: 'sf:f:a'}}
  - {id: b, priority: 1, match: {port_in: 'sf:f:b'}, actions: {output_to_port: 'sap:far'}}
  - {id: c, priority: 1, match: {port_in: 'sap:far'}, actions: {output_to_port: ['sf:f:b', 'sap:third']}}
";

    fn vxlan(sap: &str, carrier: u32) -> Mtu {
        let base = Base::Vxlan { local: [10, 0, 0, 1].into(), port: 4789 };
        let part = Part::Tunnel(Tunnel { remote: [10, 0, 0, 2].into(), id: Some(7) });
        Mtu { sap: sap.into(), base, part, carrier }
    }

    fn interface(sap: &str, carrier: u32) -> Mtu {
        Mtu { sap: sap.into(), base: Base::Interface(format!("if-{sap}")), part: Part::Rest, carrier }
    }

    #[test]
    fn tunnels_take_their_headers() {
        assert_eq!(vxlan("far", 1500).bytes(), 1450);
        let gre = |id| Mtu {
            base: Base::Gre { local: [10, 0, 0, 1].into() },
            part: Part::Tunnel(Tunnel { remote: [10, 0, 0, 2].into(), id }),
            ..vxlan("far", 1500)
        };
        assert_eq!((gre(None).bytes(), gre(Some(1)).bytes()), (1462, 1458));
    }

    #[test]
    fn what_may_be_too_large_is_told_with_the_figures() {
        let graph = ServiceGraph::parse(GRAPH).unwrap();
        let lines = warnings(&graph, &[interface("lan", 1500), vxlan("far", 1500), interface("third", 1500)]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        for part in [
            "1451 to 1500 bytes from sap:lan are too large for sap:far",
            "VXLAN takes 50 of the 1500 bytes that the path to 10.0.0.2 has",
            "give the hosts behind sap:lan an MTU of 1450",
            "the path to 10.0.0.2 one of 1550",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(warnings(&graph, &[interface("lan", 1450), vxlan("far", 1500)]).is_empty());
        assert!(warnings(&graph, &[interface("lan", 1500), vxlan("far", 1550)]).is_empty());
        let other = warnings(&graph, &[interface("lan", 1500), interface("third", 500)]);
        assert!(other.is_empty(), "nothing leads from one to the other: {other:?}");
    }

    #[test]
    fn where_nothing_passes_is_said() {
        let text = vxlan("far", 117).impossible().unwrap();
        assert!(text.contains("leaves 67") && text.contains("an MTU of 118 or more"), "{text}");
        assert_eq!(vxlan("far", 118).impossible(), None);
    }
}
