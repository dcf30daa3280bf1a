//! LSI-0: the switch between what the node is joined to and the graphs (COMPOSER paper, section 5.2).
//!
//! Each service access point of a graph is a part of what comes by something that several graphs may share, its [`Base`]: an interface,
//! one VLAN of it, ports of an address on it, one tunnel of those at an address; or an interface of the host that the node makes for this graph. LSI-0 looks at
//! nothing but the interface and the VLAN tag, or the tunnel's other end and its number, so tenants cannot reach each other through
//! it, whatever addresses they use. Where tenants share an address, it looks at that address and the port, and each graph has an element before it (`SharedAddress`)
//! that is proved to let through nothing else, in both directions. It takes tags and outer headers off what arrives, and puts them on what leaves: a graph sees none, and
//! cannot write one.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_model::graph::VXLAN_PORT;
use weir_net::{PortShare, WireGuardKey};

use crate::hash::hash;

/// The base of access points. Each has an LSI-0 of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Base {
    /// An interface of the node.
    Interface(String),
    /// The VXLAN tunnels at an address of the node.
    Vxlan {
        /// The address.
        local: Ipv4Addr,
        /// The UDP port of both ends.
        port: u16,
    },
    /// The VXLAN tunnels to one other node inside of WireGuard.
    WireGuard(WireGuard),
    /// The GRE tunnels at an address of the node.
    Gre {
        /// The address.
        local: Ipv4Addr,
    },
    /// An interface of the host that is there for one access point.
    Host(HostInterface),
}

/// An interface that the host gets for an access point, and loses with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostInterface {
    /// Its name.
    pub name: String,
    /// The host's address on it, and the length of its prefix.
    pub ip: Option<(Ipv4Addr, u8)>,
    /// The same of IPv6.
    pub ip6: Option<(Ipv6Addr, u8)>,
    /// Largest IP packet in bytes.
    pub mtu: u32,
}

/// Encryption of the traffic to another node. The VXLAN tunnels inside have their usual port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WireGuard {
    /// The address of this node.
    pub local: Ipv4Addr,
    /// WireGuard's UDP port of both ends.
    pub port: u16,
    /// The address of the other node.
    pub remote: Ipv4Addr,
    /// The other node's key.
    pub peer: WireGuardKey,
}

/// Which packets of a [`Base`] are those of an access point. Its text is that of the element [`ACCESS_POINTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Those of no other access point.
    Rest,
    /// Those of a VLAN.
    Vlan(u16),
    /// Those of a tunnel.
    Tunnel(Tunnel),
    /// Those of ports of an address.
    Ports(PortShare),
}

/// A tunnel among those at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tunnel {
    /// Its other end.
    pub remote: Ipv4Addr,
    /// Its VNI or key; a GRE tunnel may have none.
    pub id: Option<u32>,
}

/// A service access point of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its name among the graph's elements.
    pub element: String,
    /// What it is a part of.
    pub base: Base,
    /// Which part.
    pub part: Part,
    /// Link by which the graph gets what arrives, as the graph calls it.
    pub to_graph: String,
    /// Link by which it sends, as the graph calls it.
    pub from_graph: String,
    /// Identifier of the service access point.
    pub sap: String,
    /// The graph, for messages.
    pub graph: String,
}

/// Two graphs want the same traffic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is an access point of graph '{holder}' already; graph '{other}' cannot have it too")]
pub struct Conflict {
    /// `interface eth1`, `VLAN 25 of interface eth1`, or a tunnel.
    pub what: String,
    /// The graph that has it.
    pub holder: String,
    /// The graph that wants it.
    pub other: String,
}

/// Attachments that want what another has: the later one is refused.
pub fn conflicts<'a>(attachments: impl IntoIterator<Item = &'a Attachment>) -> Vec<Conflict> {
    let mut taken: BTreeMap<(String, Part), &str> = BTreeMap::new();
    // A host's interface has no parts: who has it, or any part of it.
    let mut devices: BTreeMap<String, (bool, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    for a in attachments {
        let device = a.base.device();
        let alone = matches!(a.base, Base::Host(_));
        let other = devices.get(&device).filter(|(other, _)| alone || *other).map(|(_, graph)| *graph);
        let near = shared(&taken, &device, a.part);
        let holder = taken.insert((device.clone(), a.part), &a.graph).or(near).or(other);
        devices.entry(device).or_insert((alone, &a.graph));
        if let Some(holder) = holder {
            found.push(Conflict { what: a.place(), holder: holder.to_owned(), other: a.graph.clone() });
        }
    }
    found
}

/// Who has some of the same ports of an address already.
fn shared<'a>(taken: &BTreeMap<(String, Part), &'a str>, device: &str, part: Part) -> Option<&'a str> {
    let Part::Ports(share) = part else { return None };
    let same = |((d, p), _): &(&(String, Part), &&str)| {
        d == device && matches!(p, Part::Ports(p) if p.overlaps(&share))
    };
    taken.iter().find(same).map(|(_, graph)| *graph)
}

/// The element of LSI-0 that has the access points.
pub const ACCESS_POINTS: &str = "lsi";

/// The configuration of LSI-0. It names no access points: these are rows of its element [`ACCESS_POINTS`], which come and go while it
/// runs. Nor need the interface or address be there: it is taken when it comes.
pub fn lsi0(base: &Base) -> String {
    let dispatch = |what: &str, by: &str| format!("// LSI-0: dispatches {what} to graphs.\n{by}");
    match base {
        Base::Interface(interface) => {
            let dev = element_name("dev", interface);
            let device = argument(interface);
            dispatch(
                &format!("the VLANs of {interface}"),
                &format!(
                    "{dev}_in :: FromDevice({device}, PROMISC true, WAIT true) -> {ACCESS_POINTS} :: AccessPoints\n\
                     -> {dev}_queue :: Queue(1000) -> {dev}_out :: ToDevice({device}, WAIT true);\n"
                ),
            )
        }
        Base::Vxlan { local, port } => dispatch(
            &format!("the VXLAN tunnels at {local} port {port}"),
            &format!(
                "socket :: TunnelSocket(UDP, {local}, {port}, WAIT true) -> check :: CheckIPHeader\n\
                 -> decap :: VXLANDecap(DPORT {port}, ENDS true) -> {ACCESS_POINTS} :: AccessPoints(VNI)\n\
                 -> finish :: FinishOffloads -> encap :: VXLANEncap({local}, ANNO, ANNO, DPORT {port})\n\
                 -> queue :: Queue(1000) -> socket;\n"
            ),
        ),
        Base::WireGuard(WireGuard { local, port, remote, peer }) => dispatch(
            &format!("the VXLAN tunnels between {local} and {remote} inside of WireGuard's"),
            &format!(
                "socket :: WireGuardSocket({local}, {port}, {remote}, {}, WAIT true) -> check :: CheckIPHeader\n\
                 -> decap :: VXLANDecap(DPORT {VXLAN_PORT}, ENDS true) -> {ACCESS_POINTS} :: AccessPoints(VNI)\n\
                 -> finish :: FinishOffloads -> encap :: VXLANEncap({local}, ANNO, ANNO, DPORT {VXLAN_PORT})\n\
                 -> queue :: Queue(1000) -> socket;\n",
                argument(&peer.to_string())
            ),
        ),
        Base::Gre { local } => dispatch(
            &format!("the GRE tunnels at {local}"),
            &format!(
                "socket :: TunnelSocket(GRE, {local}, WAIT true) -> check :: CheckIPHeader\n\
                 -> decap :: GREDecap({TRANSPARENT_ETHERNET}, ENDS true) -> {ACCESS_POINTS} :: AccessPoints(KEY)\n\
                 -> finish :: FinishOffloads -> keyed :: PaintSwitch;\n\
                 keyed [0] -> encap :: GREEncap({local}, ANNO, {TRANSPARENT_ETHERNET}) -> queue :: Queue(1000) -> socket;\n\
                 keyed [1] -> encap_key :: GREEncap({local}, ANNO, {TRANSPARENT_ETHERNET}, KEY ANNO) -> queue;\n"
            ),
        ),
        Base::Host(host) => {
            let HostInterface { name, ip, ip6, mtu } = host;
            let mut arguments = argument(name);
            ip.iter().for_each(|(ip, len)| _ = write!(arguments, ", {ip}/{len}"));
            ip6.iter().for_each(|(ip, len)| _ = write!(arguments, ", DST6 {ip}/{len}"));
            // Of nodes in one network, some may have interfaces of one name, and none the same address.
            if ip.is_some() || ip6.is_some() {
                let ether = ether(&arguments);
                _ = write!(arguments, ", ETHER {ether}");
            }
            _ = write!(arguments, ", MTU {mtu}");
            format!(
                "// LSI-0: joins the host's interface {name} to a graph.\n\
                 host_in :: FromHost({arguments}) -> {ACCESS_POINTS} :: AccessPoints -> host_out :: ToHost({});\n",
                argument(name)
            )
        }
    }
}

/// A text as an argument of an element: in quotes, unless it is plain. Names of interfaces may have commas and parentheses, and base64 has
/// `//`, which begins a comment.
fn argument(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    if plain { text.to_owned() } else { weir_click::quote(text.as_bytes()) }
}

/// The type of Ethernet frames in GRE (RFC 1701, "transparent Ethernet bridging").
const TRANSPARENT_ETHERNET: &str = "0x6558";

/// The Ethernet address of a host's interface with these addresses, always the same one: hosts remember it.
fn ether(interface: &str) -> String {
    let digits: Vec<char> = hash(&["ether", interface]).chars().take(10).collect();
    let rest: Vec<String> = digits.chunks(2).map(|pair| pair.iter().collect()).collect();
    format!("02:{}", rest.join(":"))
}

/// The name of the interface that the host gets for an access point, if its graph gives it none.
pub fn host_interface(graph: &str, sap: &str) -> String {
    let digits: String = hash(&["host", graph, sap]).chars().take(12).collect();
    format!("wh{digits}")
}

/// Whether a name is one that interfaces have which the node makes.
pub fn is_own_interface(name: &str) -> bool {
    let digits = name.strip_prefix("wh").or_else(|| name.strip_prefix("wf"));
    digits.is_some_and(|d| d.len() == 12 && d.chars().all(|c| c.is_ascii_hexdigit()))
}

/// A name by which no two bases are called. That of an interface is the interface's: names of interfaces have no `:`.
impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Base::Interface(name) => write!(f, "{name}"),
            Base::Vxlan { local, port } => write!(f, "vxlan:{local}:{port}"),
            Base::WireGuard(WireGuard { local, port, remote, peer }) => {
                write!(f, "wireguard:{local}:{port}:{remote}:{peer}")
            }
            Base::Gre { local } => write!(f, "gre:{local}"),
            Base::Host(host) => write!(f, "host:{}", host.name),
        }
    }
}

impl Base {
    /// The base of that name. What a name does not say of a host's interface is `host`.
    pub fn of_name(name: &str, host: Option<&HostInterface>) -> Option<Base> {
        let Some((kind, rest)) = name.split_once(':') else { return Some(Base::Interface(name.to_owned())) };
        match kind {
            "vxlan" => {
                let (local, port) = rest.split_once(':')?;
                Some(Base::Vxlan { local: local.parse().ok()?, port: port.parse().ok()? })
            }
            "wireguard" => {
                let mut parts = rest.split(':');
                let mut next = || parts.next();
                let (local, port) = (next()?.parse().ok()?, next()?.parse().ok()?);
                let (remote, peer) = (next()?.parse().ok()?, next()?.parse().ok()?);
                Some(Base::WireGuard(WireGuard { local, port, remote, peer }))
            }
            "gre" => Some(Base::Gre { local: rest.parse().ok()? }),
            "host" => host.filter(|h| h.name == rest).cloned().map(Base::Host),
            _ => None,
        }
    }

    /// The interface, or what stands for it.
    fn device(&self) -> String {
        match self {
            Base::Host(host) => host.name.clone(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Rest => write!(f, "-"),
            Part::Vlan(id) => write!(f, "{id}"),
            Part::Tunnel(Tunnel { remote, id: Some(id) }) => write!(f, "{remote}/{id}"),
            Part::Tunnel(Tunnel { remote, id: None }) => write!(f, "{remote}/-"),
            Part::Ports(share) => write!(f, "{share}"),
        }
    }
}

/// No part has that text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no VLAN, no tunnel and no ports are written so")]
pub struct NoPart;

impl FromStr for Part {
    type Err = NoPart;
    fn from_str(text: &str) -> Result<Part, NoPart> {
        if text.contains(':') {
            return text.parse().map(Part::Ports).map_err(|_| NoPart);
        }
        let Some((remote, id)) = text.split_once('/') else {
            return match text {
                "-" => Ok(Part::Rest),
                id => id.parse().map(Part::Vlan).map_err(|_| NoPart),
            };
        };
        let remote = remote.parse().map_err(|_| NoPart)?;
        let id = if id == "-" { None } else { Some(id.parse().map_err(|_| NoPart)?) };
        Ok(Part::Tunnel(Tunnel { remote, id }))
    }
}

impl Attachment {
    /// The link to the graph and the link from it, as the engine calls them.
    pub fn links(&self) -> (String, String) {
        (format!("{}/{}", self.graph, self.to_graph), format!("{}/{}", self.graph, self.from_graph))
    }

    /// What stands at it, for people.
    fn place(&self) -> String {
        let tunnel = match self.part {
            Part::Vlan(vlan) => format!("VLAN {vlan} of "),
            Part::Tunnel(Tunnel { remote, id: Some(id) }) if matches!(self.base, Base::Gre { .. }) => {
                format!("the GRE tunnel with key {id:#x} to {remote} at ")
            }
            Part::Tunnel(Tunnel { remote, id: Some(id) }) => format!("the VXLAN tunnel {id} to {remote} at "),
            Part::Tunnel(Tunnel { remote, id: None }) => {
                format!("the GRE tunnel without key to {remote} at ")
            }
            Part::Ports(share) => format!("{share} at "),
            Part::Rest => String::new(),
        };
        match &self.base {
            Base::Interface(name) => format!("{tunnel}interface {name}"),
            Base::Host(host) => format!("interface {}", host.name),
            Base::Gre { local } => format!("{tunnel}{local}"),
            Base::Vxlan { local, port } => format!("{tunnel}{local} port {port}"),
            Base::WireGuard(w) => format!("{tunnel}{} inside of WireGuard", w.local),
        }
    }
}

/// An element name that stands for `name` and for no other: what is no letter or digit becomes `_` and its code.
fn element_name(prefix: &str, name: &str) -> String {
    let mut out = format!("{prefix}_");
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else {
            _ = write!(out, "_{:x}_", u32::from(c));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(graph: &str, base: Base, part: Part) -> Attachment {
        Attachment {
            element: "sap_l".into(),
            base,
            part,
            to_graph: "l/in".into(),
            from_graph: "l/out".into(),
            sap: "l".into(),
            graph: graph.into(),
        }
    }

    fn interface(name: &str) -> Base {
        Base::Interface(name.into())
    }

    fn host(name: &str) -> Base {
        Base::Host(HostInterface {
            name: name.into(),
            ip: Some(([10, 0, 0, 1].into(), 24)),
            ip6: None,
            mtu: 1500,
        })
    }

    #[test]
    fn names_and_keys_of_any_characters_are_one_argument() {
        let key: WireGuardKey = "wsWZg7VV//L10X8GzZ686xz3NVYRgeFJ4ML4OzHs7kc=".parse().unwrap();
        for text in ["eth1", "eth1.5", "a,b", "x)", "q\"uo'te", "a;b->c", "$x", "\u{e9}", &key.to_string()] {
            let split = weir_click::split_args(&format!("{}, WAIT true", argument(text)));
            assert_eq!(split.len(), 2, "{split:?}");
            assert_eq!(weir_click::unquote_text(&split[0]).as_deref(), Some(text));
            let interfaces = lsi0(&interface(text)) + &lsi0(&host(text));
            assert_eq!(interfaces.matches(&format!("({}", argument(text))).count(), 4, "{interfaces}");
        }
        let [local, remote] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        let text = lsi0(&Base::WireGuard(WireGuard { local, port: 1, remote, peer: key }));
        assert!(text.contains(", \"wsWZg7VV//L10X8GzZ686xz3NVYRgeFJ4ML4OzHs7kc=\", WAIT true)"), "{text}");
    }

    #[test]
    fn the_configuration_depends_on_the_base_alone_and_names_stand_for_one_each() {
        let text = lsi0(&interface("eth1.5"));
        for part in ["dev_eth1_2e_5_queue :: Queue(1000)", "FromDevice(eth1.5, ", "lsi :: AccessPoints"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert_ne!(element_name("dev", "a-b"), element_name("dev", "a.b"));
        let a = attachment("g", interface("eth1"), Part::Rest);
        assert_eq!(a.links(), ("g/l/in".to_owned(), "g/l/out".to_owned()));
        let text = lsi0(&host("stack"));
        assert!(text.contains("FromHost(stack, 10.0.0.1/24, ETHER 02:"), "{text}");
    }

    #[test]
    fn names_and_parts_are_read_again() {
        let local = [10, 0, 0, 1].into();
        let peer = WireGuardKey([7; 32]);
        let wireguard = WireGuard { local, port: 51_820, remote: [10, 0, 0, 2].into(), peer };
        for base in [
            interface("eth1"),
            Base::Vxlan { local, port: 4789 },
            Base::WireGuard(wireguard),
            Base::Gre { local },
        ] {
            assert_eq!(Base::of_name(&base.to_string(), None), Some(base));
        }
        let Base::Host(stack) = host("stack") else { unreachable!() };
        assert_eq!(Base::of_name("host:stack", Some(&stack)), Some(host("stack")));
        assert_eq!(Base::of_name("host:other", Some(&stack)), None);
        let tunnel = |id| Part::Tunnel(Tunnel { remote: [10, 0, 0, 2].into(), id });
        for part in [Part::Rest, Part::Vlan(7), tunnel(None), tunnel(Some(0))] {
            assert_eq!(part.to_string().parse(), Ok(part));
        }
    }

    #[test]
    fn the_same_place_cannot_belong_to_two_graphs() {
        let found = |a: (Base, Part), b: (Base, Part)| -> Vec<String> {
            let both = [attachment("a", a.0, a.1), attachment("b", b.0, b.1)];
            conflicts(&both).iter().map(ToString::to_string).collect()
        };
        let vlan = || (interface("eth1"), Part::Vlan(25));
        assert!(found(vlan(), vlan())[0].contains("VLAN 25 of interface eth1"));
        assert!(found(vlan(), (interface("eth1"), Part::Rest)).is_empty());
        let tunnel = |id| {
            let base = Base::Gre { local: [10, 0, 0, 1].into() };
            (base, Part::Tunnel(Tunnel { remote: [10, 0, 0, 2].into(), id }))
        };
        assert!(found(tunnel(Some(1)), tunnel(Some(1)))[0].contains("key 0x1 to 10.0.0.2 at 10.0.0.1"));
        assert!(found(tunnel(Some(0)), tunnel(None)).is_empty(), "no key is not a key of 0");
        // An interface that the node makes for one graph is nobody else's, in whole or in part.
        for other in [(interface("stack"), Part::Vlan(2)), (host("stack"), Part::Rest)] {
            assert_eq!(found((host("stack"), Part::Rest), other.clone()).len(), 1);
            assert_eq!(found(other, (host("stack"), Part::Rest)).len(), 1);
        }
    }
}
