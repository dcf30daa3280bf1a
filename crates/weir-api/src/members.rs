//! Nodes and their controller.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::{Domain, ResourceUse};
use crate::mark::Mark;

/// The controller of a node, as the node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ControllerLink {
    /// Its address.
    pub url: String,
    /// The node's name there.
    pub node: String,
    /// Whether the connection stands. Without it everything goes on as it is.
    pub connected: bool,
    /// Since when that is so, in milliseconds since the epoch.
    pub since: u64,
    /// Why there is no connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// How far the controller had got when it asked for something last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
}

/// A node asks to join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// The name that it wants: up to 63 of a to z, 0 to 9 and `-`.
    pub name: String,
    /// The secret of the token.
    pub secret: String,
    /// A request for a certificate (PKCS #10) in PEM.
    pub request: String,
}

/// A node asks for another certificate, over a connection on which it shows the one that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// A request for a certificate (PKCS #10) in PEM.
    pub request: String,
}

/// A node that has joined is about to make its connection: this says beforehand if it would not be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Its version.
    pub version: String,
}

/// The node is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Welcome {
    /// The controller's version.
    pub version: String,
}

/// A node's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Certificate {
    /// It and its authority's, in PEM.
    pub chain: String,
}

/// A request for a token by which nodes join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// How many nodes may join by it.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 10_000)]
    pub uses: u32,
    /// How long it is good, in seconds.
    #[serde(default = "hour")]
    #[schema(minimum = 1, maximum = 31_536_000)]
    pub seconds: u64,
}

fn one() -> u32 {
    1
}

fn hour() -> u64 {
    3600
}

/// A token by which nodes join. It is shown once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// The text for `weir node --join URL --token`.
    pub token: String,
    /// Until when it is good, in seconds since the epoch.
    pub expires: u64,
}

/// Whether a node is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It is connected.
    Online,
    /// It is not. What it runs goes on, as far as anybody knows.
    Offline,
}

/// A node of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeSummary {
    /// Its name.
    pub name: String,
    /// Whether it is there.
    pub state: Presence,
    /// Since when, in milliseconds since the epoch.
    pub since: u64,
    /// Whether it gets no new graphs.
    #[serde(default)]
    pub cordoned: bool,
    /// Where its connection comes from, while it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its version, while it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Graphs that it is to run.
    pub graphs: usize,
    /// What it has and has promised, as it said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceUse>,
    /// What is wrong with it, such as graphs that it cannot run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trouble: Vec<String>,
}

/// The nodes of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    /// By name.
    pub nodes: Vec<NodeSummary>,
}

/// An end of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkEnd {
    /// The node.
    pub node: String,
    /// Its interface.
    pub interface: String,
    /// The address there; empty where none is known, so that only VLANs go there.
    pub address: String,
}

/// Two nodes that reach each other: tunnels between them go there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkSummary {
    /// The end at the node that comes first by name.
    pub a: LinkEnd,
    /// The other end.
    pub b: LinkEnd,
    /// The largest IP packet that passes, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Tunnels of graphs that go there.
    pub tunnels: usize,
    /// How the nodes found it; empty if they did not, so that it is there by the operator's word alone.
    #[serde(default)]
    pub found: Vec<FoundBy>,
    /// Whether the operator said something of it.
    #[serde(default)]
    pub declared: bool,
    /// What it can carry in each direction, in kbit/s, as it was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// How long packets take, in microseconds, as it was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<u32>,
    /// How tunnels of graphs go there.
    #[serde(default)]
    pub encapsulation: Encapsulation,
    /// From the first end to the other.
    #[serde(default)]
    pub forth: LinkUse,
    /// From the other end to the first.
    #[serde(default)]
    pub back: LinkUse,
}

/// How nodes found a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FoundBy {
    /// Both have addresses of one network.
    Addresses,
    /// Each hears the other's probes: a cable, or switches, are between their interfaces.
    Probes,
}

impl std::fmt::Display for FoundBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FoundBy::Addresses => "addresses",
            FoundBy::Probes => "probes",
        })
    }
}

/// An interface of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkPort {
    /// The node.
    pub node: String,
    /// The interface.
    pub interface: String,
}

/// Interfaces of two nodes that hear each other's probes, beside the link that tunnels go by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Adjacency {
    /// The end at the node that comes first by name.
    pub a: LinkPort,
    /// The other end.
    pub b: LinkPort,
}

/// The traffic over a link in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkUse {
    /// What graphs may send there, in kbit/s, as far as they say it.
    pub promised: u64,
    /// What tunnels of graphs carried when that was looked at last, in bits a second, without what the tunnels add; none if nobody knows yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<u64>,
}

/// How tunnels of graphs go over a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// VXLAN.
    #[default]
    Vxlan,
    /// VXLAN inside of WireGuard: encrypted.
    WireGuard,
    /// GRE with a key.
    Gre,
    /// A VLAN for each tunnel, between the interfaces of the link: what is between them, if anything, has to carry these.
    Vlan,
}

impl Encapsulation {
    /// The bytes of an IP packet of the link that are not for IP packets of graphs.
    pub fn overhead(self) -> u32 {
        match self {
            Encapsulation::Vxlan => 50,
            Encapsulation::WireGuard => 110,
            Encapsulation::Gre => 42,
            Encapsulation::Vlan => 0,
        }
    }
}

impl std::fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Encapsulation::Vxlan => "vxlan",
            Encapsulation::WireGuard => "wireguard",
            Encapsulation::Gre => "gre",
            Encapsulation::Vlan => "vlan",
        })
    }
}

/// The operator's settings of the link between two nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSettings {
    /// The IPv4 address of the end at the first node, and at the other one, if the nodes are to reach each other there; without them, where they have addresses of one network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, min_items = 2, max_items = 2)]
    pub addresses: Option<[std::net::Ipv4Addr; 2]>,
    /// What it can carry in each direction, in kbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    pub capacity: Option<u64>,
    /// How long packets take, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub delay: Option<u32>,
    /// The largest IP packet that passes, in bytes, where that is less than its interfaces take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 576, maximum = 65_535)]
    pub mtu: Option<u32>,
    /// How tunnels of graphs go there; without it, as the controller was started (`--encrypt`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encapsulation: Option<Encapsulation>,
    /// With `vlan`: the first and the last VLAN that tunnels may have there. No VLAN is that of two tunnels of a domain, and documents cannot have these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<u16>>, min_items = 2, max_items = 2)]
    pub vlans: Option<[u16; 2]>,
}

/// A link that was declared, and that nodes do not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissingLink {
    /// Its nodes, by name.
    pub nodes: [String; 2],
    /// Why it is not there.
    pub reason: String,
}

/// The links of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkList {
    /// By the names of their nodes.
    pub links: Vec<LinkSummary>,
    /// Where nodes are joined as well, as their probes say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Adjacency>,
    /// Those that were declared, and are not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingLink>,
}

/// A node in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeDetails {
    /// As in the list.
    #[serde(flatten)]
    pub summary: NodeSummary,
    /// When it joined, in milliseconds since the epoch.
    pub joined: u64,
    /// Until when its certificate is good, in seconds since the epoch.
    pub certificate: u64,
    /// The graphs that it is to run, by identifier.
    pub placed: Vec<String>,
    /// Graphs that were applied at the node itself: the controller leaves them alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<String>,
    /// What it is to others, as it said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Domain>,
}

/// A change of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeChange {
    /// Whether it gets no new graphs.
    pub cordoned: bool,
}

/// The outcome of a drain for the node's graphs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drained {
    /// By identifier.
    pub graphs: Vec<DrainedGraph>,
}

/// The outcome of a drain for one graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainedGraph {
    /// The graph.
    pub id: String,
    /// The node that has it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Why it stays where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
