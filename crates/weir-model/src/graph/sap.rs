//! Service access points: where traffic enters and leaves a graph (COMPOSER paper, figure 5).

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::schema;
use crate::value::{HostAddress, Id, InterfaceName, Name, PortShare, PublicKey, VlanId, one_or_list};

/// A service access point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Sap {
    /// The identifier, unique among the graph's service access points.
    pub id: Id,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// The node of a domain that it is at: for interfaces whose name more than one node has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Id>,
    /// What it stands for.
    #[serde(flatten)]
    pub kind: SapKind,
}

/// The kind of a service access point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum SapKind {
    /// A network interface of the node: all of its traffic that no `vlan` SAP takes.
    Interface {
        /// Which interface.
        interface: InterfaceSap,
    },
    /// One VLAN: traffic arrives without the tag and leaves with it.
    Vlan {
        /// Which VLAN.
        vlan: VlanSap,
    },
    /// The end of a GRE tunnel.
    Gre {
        /// Which tunnel.
        gre: GreSap,
    },
    /// The end of a VXLAN tunnel.
    Vxlan {
        /// Which tunnel.
        vxlan: VxlanSap,
    },
    /// The node's own TCP/IP stack, by an interface that it gets with the graph and loses with it.
    HostStack {
        /// The interface.
        #[serde(default)]
        host_stack: HostStackSap,
    },
}

impl SapKind {
    /// The word for it in the document's `type` field.
    pub fn type_name(&self) -> &'static str {
        match self {
            SapKind::Interface { .. } => "interface",
            SapKind::Vlan { .. } => "vlan",
            SapKind::Gre { .. } => "gre",
            SapKind::Vxlan { .. } => "vxlan",
            SapKind::HostStack { .. } => "host-stack",
        }
    }
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct InterfaceSap {
    /// The interface's name.
    pub if_name: InterfaceName,
    /// Of its traffic, only what is for these ports of an address, and only what is from these leaves; other graphs have its other ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<PortShare>,
}

/// A VLAN on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct VlanSap {
    /// The VLAN; canonically text, as the paper prints it.
    #[serde(serialize_with = "as_text")]
    pub vlan_id: VlanId,
    /// The interface; without one, the node chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_name: Option<InterfaceName>,
}

/// A GRE tunnel of Ethernet frames (RFC 2784, with the key of RFC 2890): only what comes from its other end with its key arrives
/// here, and all that is sent here leaves so.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct GreSap {
    /// This end's address.
    pub local_ip: IpAddr,
    /// The other end's address, of the same family.
    pub remote_ip: IpAddr,
    /// The tunnel's key.
    #[serde(default, serialize_with = "as_hex", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::gre_key")]
    pub gre_key: Option<u32>,
}

/// The port that VXLAN has (RFC 7348 section 5).
pub const VXLAN_PORT: u16 = 4789;

/// A VXLAN tunnel (RFC 7348) to one other end: only what comes from there with its VNI arrives here, and all that is sent here leaves
/// so.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct VxlanSap {
    /// The VXLAN network identifier, 0 to 16777215.
    #[schemars(schema_with = "schema::vni")]
    pub vni: u32,
    /// This end's address.
    pub local_ip: IpAddr,
    /// The other end's address, of the same family.
    pub remote_ip: IpAddr,
    /// The UDP port of both ends; 4789 if it is left out.
    #[serde(default = "vxlan_port", skip_serializing_if = "is_vxlan_port")]
    #[schemars(range(min = 1))]
    pub udp_port: u16,
    /// Encrypts the tunnel: VXLAN's packets are sent inside of WireGuard's, and nothing else is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wireguard: Option<WireGuardPeer>,
}

/// The UDP port of WireGuard tunnels.
pub const WIREGUARD_PORT: u16 = 51_820;

/// Whom an encrypted tunnel leads to. This end has the node's key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct WireGuardPeer {
    /// The other end's key.
    pub public_key: PublicKey,
    /// WireGuard's UDP port of both ends; 51820 if it is left out.
    #[serde(default = "wireguard_port", skip_serializing_if = "is_wireguard_port")]
    #[schemars(range(min = 1))]
    pub udp_port: u16,
}

/// The node's TCP/IP stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct HostStackSap {
    /// The addresses that the stack gets on the interface, at most one of IPv4 and one of IPv6; canonically one without a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_list")]
    #[schemars(schema_with = "schema::host_addresses")]
    pub ip: Vec<HostAddress>,
    /// The interface's name; without one, the node makes one up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_name: Option<InterfaceName>,
    /// Largest IP packet on the interface in bytes, 1500 if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68, max = 65_521))]
    pub mtu: Option<u32>,
}

fn vxlan_port() -> u16 {
    VXLAN_PORT
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_vxlan_port(port: &u16) -> bool {
    *port == VXLAN_PORT
}

fn wireguard_port() -> u16 {
    WIREGUARD_PORT
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_wireguard_port(port: &u16) -> bool {
    *port == WIREGUARD_PORT
}

fn as_text<S: Serializer>(vlan: &VlanId, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(vlan)
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn as_hex<S: Serializer>(key: &Option<u32>, s: S) -> Result<S::Ok, S::Error> {
    match key {
        Some(key) => s.collect_str(&format_args!("{key:#x}")),
        None => s.serialize_none(),
    }
}
