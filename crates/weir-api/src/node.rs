//! The node itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::members::ControllerLink;
use crate::status::DropCount;

/// How the node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// The daemon's version.
    pub version: String,
    /// Whether the data plane can be reached and was brought to the desired state.
    pub ready: bool,
    /// What is wrong with the data plane, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The node's controller, if it has joined one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerLink>,
    /// Number of graphs.
    pub graphs: usize,
    /// Number of graphs that cannot run.
    pub failed: usize,
}

/// The interfaces that the access points of graphs are at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceList {
    /// By name.
    pub devices: Vec<DeviceStatus>,
}

/// An interface. Counts are since the data plane opened it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceStatus {
    /// Its name.
    pub name: String,
    /// `up`, or what is wrong with it.
    pub state: String,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets that came, and for which there was no space.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_dropped: u64,
    /// Why packets ended between the interface, or the address of tunnels, and the graphs: those of no access point, and those that
    /// could not be sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<DropCount>,
}

impl From<weir_protocol::DeviceStatus> for DeviceStatus {
    fn from(d: weir_protocol::DeviceStatus) -> DeviceStatus {
        DeviceStatus {
            name: d.name,
            state: d.state,
            rx_packets: d.rx_packets,
            rx_bytes: d.rx_bytes,
            rx_dropped: d.rx_dropped,
            tx_packets: d.tx_packets,
            tx_bytes: d.tx_bytes,
            tx_dropped: d.tx_dropped,
            drops: Vec::new(),
        }
    }
}
