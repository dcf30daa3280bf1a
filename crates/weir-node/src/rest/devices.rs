//! The interfaces of the node.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use weir_api::node::{DeviceList, DeviceStatus};
use weir_api::problem::Problem;
use weir_protocol::{Answer, Command};

use super::App;
use crate::connection::{CallError, DataPlane};
use crate::reconcile::lsi0_of;

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
