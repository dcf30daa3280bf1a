//! The interfaces of the node.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_engine::protocol::{self, Answer, Command};

use super::{App, Problem};
use crate::connection::{CallError, DataPlane};
use crate::reconcile::lsi0_of;

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
    /// Packets that came, and for which there was no room.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_dropped: u64,
}

impl From<protocol::DeviceStatus> for DeviceStatus {
    fn from(d: protocol::DeviceStatus) -> DeviceStatus {
        DeviceStatus {
            name: d.name,
            state: d.state,
            rx_packets: d.rx_packets,
            rx_bytes: d.rx_bytes,
            rx_dropped: d.rx_dropped,
            tx_packets: d.tx_packets,
            tx_bytes: d.tx_bytes,
            tx_dropped: d.tx_dropped,
        }
    }
}

/// The interfaces that the data plane uses, with their counts.
#[utoipa::path(get, path = "/devices", tag = "node", operation_id = "devices", responses(
    (status = 200, body = DeviceList, description = "The interfaces."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<DeviceList>, Problem> {
    let view = app.view();
    let places = view.graphs.values().flat_map(|e| &e.graph.attachments);
    let interfaces: BTreeSet<String> = places.map(|p| p.interface.clone()).collect();
    let mut devices = Vec::new();
    for interface in interfaces {
        match app.plane.call(Command::Status { graph: lsi0_of(&interface) }).await {
            Ok(Answer::Status { status }) => devices.extend(status.devices),
            // It is not open.
            Ok(_) | Err(CallError::Refused(_)) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let mut devices: Vec<DeviceStatus> = devices.into_iter().map(DeviceStatus::from).collect();
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Json(DeviceList { devices }))
}
