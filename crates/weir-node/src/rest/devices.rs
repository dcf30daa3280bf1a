//! The interfaces of the node, and its description.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use weir_api::domain::Domain;
use weir_api::node::{DeviceList, DeviceStatus};
use weir_api::problem::Problem;
use weir_api::status::DropCount;
use weir_auth::Action;
use weir_protocol::{Answer, Command};
use weir_rest::login::Caller;

use super::App;
use crate::connection::{CallError, DataPlane};
use crate::reconcile::lsi0_of;

/// What the node is to others: a switch with end points, what functions it can run, and what of its resources is left.
#[utoipa::path(get, path = "/domain", tag = "node", operation_id = "domain", responses(
    (status = 200, body = Domain, description = "The description. An event `domain` tells when it changes."),
))]
pub(super) async fn domain(State(app): State<App>, caller: Caller) -> Result<Json<Domain>, Problem> {
    caller.may(&Action::ReadDomain)?;
    Ok(Json(app.domain().await))
}

/// The interfaces that the data plane uses, with their counts.
#[utoipa::path(get, path = "/devices", tag = "node", operation_id = "devices", responses(
    (status = 200, body = DeviceList, description = "The interfaces."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<DeviceList>, Problem> {
    caller.may(&Action::ReadDevices)?;
    let view = app.view();
    let places = view.graphs.values().flat_map(|e| &e.graph.attachments);
    let interfaces: BTreeSet<String> = places.map(|p| p.interface.clone()).collect();
    let mut devices: Vec<DeviceStatus> = Vec::new();
    for interface in interfaces {
        match app.plane.call(Command::Status { graph: lsi0_of(&interface) }).await {
            Ok(Answer::Status { status }) => {
                let mut by_reason: BTreeMap<&String, u64> = BTreeMap::new();
                for (reason, count) in status.drops.values().flatten() {
                    *by_reason.entry(reason).or_default() += count;
                }
                let drop = |(reason, count): (&String, u64)| DropCount { reason: reason.clone(), count };
                let drops: Vec<DropCount> =
                    by_reason.into_iter().filter(|(_, count)| *count > 0).map(drop).collect();
                let device = |d| DeviceStatus { drops: drops.clone(), ..DeviceStatus::from(d) };
                devices.extend(status.devices.into_iter().map(device));
            }
            // It is not open.
            Ok(_) | Err(CallError::Refused(_)) => {}
            Err(e) => return Err(e.into()),
        }
    }
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Json(DeviceList { devices }))
}
