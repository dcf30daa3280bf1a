//! What a node is to others (COMPOSER paper, section 5.1.2): one big switch with end points, what it can do, and what it has left.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The description of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Domain {
    /// The interfaces at which graphs can have access points, by name.
    pub endpoints: Vec<Endpoint>,
    /// The tunnels whose ends are access points of graphs.
    pub tunnels: Vec<TunnelUse>,
    /// What functions can be asked for, by word.
    pub capabilities: Vec<Capability>,
    /// The images that functions can be made from, by name.
    #[serde(default)]
    pub images: Vec<DomainImage>,
    /// The kinds of function, and whether the node can run them.
    pub kinds: Vec<KindStatus>,
    /// What graphs may come to take altogether.
    pub resources: ResourceUse,
    /// Where it is, as it was started (`--region`): graphs may ask for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The public key of the node's ends of encrypted tunnels (WireGuard), in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wireguard: Option<String>,
}

/// An interface at which graphs can have access points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Endpoint {
    /// The interface.
    pub interface: String,
    /// Whether it is up.
    pub up: bool,
    /// Its Ethernet address, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its largest IP packet, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Its addresses, with their prefix lengths. GRE and VXLAN tunnels can end at those of IPv4.
    pub addresses: Vec<String>,
    /// The graph that has the interface itself: all of its traffic that no VLAN takes. Without one it is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// The VLANs that graphs have; all others are free.
    pub vlans: Vec<VlanUse>,
    /// Nodes of the same domain whose probes come in here, as these say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Neighbour>,
}

/// A node whose probes come in at an interface. Whoever is there can send some that say anything: a link is one where both ends hear each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct Neighbour {
    /// Its name.
    pub node: String,
    /// The interface that it sends them from.
    pub interface: String,
    /// The Ethernet address that they are from.
    pub mac: String,
}

/// A VLAN that a graph has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VlanUse {
    /// Its number.
    pub vlan: u16,
    /// The graph.
    pub graph: String,
}

/// A tunnel that a graph has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TunnelUse {
    /// `gre`, `vxlan` or `wireguard` (VXLAN inside of it).
    pub kind: String,
    /// This end's address.
    pub local: String,
    /// The other end's address.
    pub remote: String,
    /// The key of GRE, or the VNI of VXLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<u32>,
    /// The graph.
    pub graph: String,
}

/// Something that functions can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capability {
    /// The word.
    pub capability: String,
    /// The images that have it, by name.
    pub images: Vec<CapableImage>,
}

/// An image that has a capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapableImage {
    /// Its name.
    pub image: String,
    /// The kind of function that it is.
    pub kind: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it has beside the usual.
    pub features: Vec<String>,
    /// Number of its ports.
    pub ports: usize,
    /// What the node lacks to run it; without it, it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
}

/// An image, and what a function of it may come to take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainImage {
    /// Its name.
    pub image: String,
    /// The kind of function that it is.
    pub kind: String,
    /// Bytes of memory; 0 for what runs inline, whose tables are counted as graphs come.
    pub memory: u64,
    /// The names of its parameters that are secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Processor time, in thousandths of a processor. Without one it takes what others leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// What the node lacks to run it; without it, it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
}

/// A kind of function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KindStatus {
    /// The word for it in `function.yaml`.
    pub kind: String,
    /// How its functions may meet the switch; empty: they are part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// What the node lacks to run functions of the kind; without it, it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
}

/// A resource: how much there is, and how much of it graphs may come to take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceUse {
    /// Bytes of memory.
    pub memory: Share,
    /// Processor time, in thousandths of a processor.
    pub cpu: Share,
    /// Whether graphs may be promised more than there is.
    pub overcommit: bool,
}

/// Of one resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    /// What graphs may be promised.
    pub total: u64,
    /// What functions that are not inline may come to take, and what the data plane has taken, in steps of 16 MB.
    pub used: u64,
}
