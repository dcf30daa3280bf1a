//! Switches: ports, VLANs, Ethernet addresses.

use weir_model::value::VlanId;
use weir_net::EtherAddr;

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// The ports.
    pub ports: Vec<SwitchPort>,
    /// How it finds the port for a frame.
    pub forwarding: Forwarding,
}

/// A port of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchPort {
    /// Its name.
    pub name: String,
    /// What frames it takes.
    pub vlans: PortVlans,
}

/// The handling of VLAN tags at a port (IEEE 802.1Q).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortVlans {
    /// Tags mean nothing to it: frames pass as they are.
    Unaware,
    /// Frames without a tag, which belong to this VLAN.
    Access(VlanId),
    /// Tagged frames of these VLANs, and untagged ones of the native VLAN if there is one.
    Trunk {
        /// VLANs with a tag.
        tagged: Vec<VlanId>,
        /// The VLAN of frames without a tag.
        native: Option<VlanId>,
    },
}

/// How a switch finds the port for a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forwarding {
    /// It learns addresses from frames; what it has not learnt goes to all other ports of the VLAN.
    Learning,
    /// By this table; what is not in it goes to all other ports of the VLAN, or is dropped.
    Table {
        /// The entries; one for each address and VLAN.
        entries: Vec<MacEntry>,
        /// Whether unknown unicast is flooded.
        flood_unknown: bool,
    },
}

/// An entry of a switch's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacEntry {
    /// The destination address.
    pub mac: EtherAddr,
    /// In this VLAN only.
    pub vlan: Option<VlanId>,
    /// The name of the port.
    pub port: String,
}
