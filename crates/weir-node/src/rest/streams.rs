//! Routes that go on: events, traces and captures.

use std::collections::BTreeSet;
use std::convert::Infallible;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::sse::Sse;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use weir_api::events::{Event, EventList};
use weir_api::problem::Problem;
use weir_api::watch::{CaptureRequest, Captured, TraceRequest};
use weir_auth::{Action, Graph, ObservationPoint};
use weir_protocol::{Command, TraceStep};
use weir_rest::body::{Received, json};
use weir_rest::events::KeptOptions;
use weir_rest::extract::{Path, Query};
use weir_rest::login::Caller;

use super::{App, entry};
use crate::connection::EventStream;
use crate::status::{WatchedPoint, points_of};
use crate::traces::{Joining, function_ports};

/// Most packets of one trace.
const MAX_TRACE: u32 = 10_000;

/// Follows the next packets of a graph. The body is one JSON value a line for each packet.
#[utoipa::path(post, path = "/graphs/{id}/trace", tag = "watch",
    params(("id" = String, Path, description = "The graph's identifier.")),
    request_body = TraceRequest,
    responses(
        (status = 200, body = String, content_type = "application/x-ndjson", description = "One JSON value a line."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The data plane refused, for example the filter."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    ))]
pub(super) async fn trace(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    body: Received,
) -> Result<Response, Problem> {
    let request: TraceRequest = json(body)?.0;
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::Trace(ObservationPoint::Graph(e.owned())))?;
    caller.summary(format!("filter {:?}", request.filter));
    let count = request.count.clamp(1, MAX_TRACE);
    let functions = function_ports(&e.graph);
    let mut joining = Joining::default();
    for instance in &e.graph.instances {
        if let Ok(driver) = app.drivers.get(instance.spec.kind())
            && let Some(trace) = driver.trace(&instance.id, MAX_TRACE).await
        {
            joining.add(&instance.id.function, trace);
        }
    }
    let command = Command::Trace { graph: id, filter: request.filter, count, functions };
    let events = app.plane.stream(command).await?;
    // Packets go on in other graphs.
    let seen = move |graph: &str| match app.graph(graph) {
        Some(e) => caller.can(&Action::ReadGraph(e.owned())),
        None => caller.can(&Action::ReadDevices),
    };
    Ok(lines(events, Some(joining), move |event| {
        let mut event = event.clone();
        if let weir_protocol::Event::Trace { steps, .. } = &mut event {
            let graph = |step: &TraceStep| step.graph.split('/').next().unwrap_or_default().to_owned();
            steps.retain(|step| step.graph == e.graph.id || seen(&graph(step)));
        }
        vec![event]
    }))
}

/// Copies packets of a graph as they pass some places. The body is one JSON value a line for each packet.
#[utoipa::path(post, path = "/graphs/{id}/capture", tag = "watch",
    params(("id" = String, Path, description = "The graph's identifier.")),
    request_body = CaptureRequest,
    responses(
        (status = 200, body = Captured, content_type = "application/x-ndjson", description = "One of these a line."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The data plane refused, for example the filter."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    ))]
pub(super) async fn capture(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    body: Received,
) -> Result<Response, Problem> {
    let CaptureRequest { points, direction, filter, snaplen, count } = json(body)?.0;
    let e = entry(&app, &caller, &id)?;
    if points.is_empty() {
        caller.may(&Action::Capture(ObservationPoint::Graph(e.owned())))?;
    }
    for point in &points {
        let function = point.strip_prefix("sf:").and_then(|p| p.split(':').next());
        let function = function.map(|id| ObservationPoint::Function(e.function(id)));
        caller.may(&Action::Capture(function.unwrap_or(ObservationPoint::Graph(e.owned()))))?;
    }
    caller.summary(format!("{} filter {filter:?}", points.join(" ")));
    let watched = points_of(&*app.plane, &e.graph, &points, direction).await?;
    let command = Command::Capture {
        graph: id,
        points: watched.iter().map(|p| p.element.clone()).collect::<BTreeSet<_>>().into_iter().collect(),
        filter,
        snaplen,
        count,
    };
    let events = app.plane.stream(command).await?;
    Ok(lines(events, None, move |event| match event {
        weir_protocol::Event::Packet { time, length, bytes, point } => {
            let here = watched.iter().filter(|w| w.element == *point);
            let packet = |w: &WatchedPoint| Captured::Packet {
                time: *time,
                length: *length,
                bytes: bytes.clone(),
                point: w.place.clone(),
                direction: w.direction,
            };
            here.map(packet).collect()
        }
        weir_protocol::Event::Notice { what, text, .. } => {
            vec![Captured::Notice { what: what.clone(), text: text.clone() }]
        }
        _ => Vec::new(),
    }))
}

/// Events as lines, until their end or the client's.
fn lines<T: Serialize>(
    mut events: EventStream,
    joining: Option<Joining>,
    items: impl Fn(&weir_protocol::Event) -> Vec<T> + Send + Sync + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel::<Result<Vec<u8>, Infallible>>(16);
    tokio::spawn(async move {
        let text = |event: &weir_protocol::Event| {
            let mut text = Vec::new();
            for item in items(event) {
                text.append(&mut serde_json::to_vec(&item).unwrap_or_default());
                text.push(b'\n');
            }
            Ok(text)
        };
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sender.closed() => return,
            };
            match event {
                Some(weir_protocol::Event::End) => return,
                Some(mut event) => {
                    if let Some(joining) = &joining {
                        joining.join(&mut event).await;
                    }
                    if sender.send(text(&event)).await.is_err() {
                        return;
                    }
                }
                None if events.overrun() => {
                    let notice = "the reader was too slow: this ends here".to_owned();
                    let what = "overrun".to_owned();
                    _ = sender
                        .send(text(&weir_protocol::Event::Notice { graph: None, what, text: notice }))
                        .await;
                    return;
                }
                None => return,
            }
        }
    });
    let body = Body::from_stream(ReceiverStream::new(receiver));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

/// What happens on the node, as server-sent events. With `Last-Event-ID` those that were missed come first.
#[utoipa::path(get, path = "/events", tag = "watch",
    params(("Last-Event-ID" = Option<u64>, Header, description = "Number of the last event that was seen; 0: all that are kept.")),
    responses(
        (status = 200, body = Event, content_type = "text/event-stream", description = "The data of each is an Event in JSON."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "`Last-Event-ID` is no number."),
    ))]
pub(super) async fn events(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Sse<weir_rest::events::EventStream>, Problem> {
    caller.may(&Action::ReadEvents)?;
    let login = app.login.clone();
    let visible = move |event: &Event| login.is_known(caller.principal()) && seen(&caller, event);
    weir_rest::events::stream(&app.events, &headers, visible)
}

/// The newest events of those that are kept.
#[utoipa::path(get, path = "/events/kept", tag = "watch", operation_id = "kept_events", params(KeptOptions), responses(
    (status = 200, body = EventList, description = "The events, oldest first."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The query has mistakes."),
))]
pub(super) async fn kept(
    State(app): State<App>,
    caller: Caller,
    Query(options): Query<KeptOptions>,
) -> Result<Json<EventList>, Problem> {
    caller.may(&Action::ReadEvents)?;
    weir_rest::events::kept(&app.events, options, move |event| seen(&caller, event)).await.map(Json)
}

/// Whether somebody may see an event: it is of a graph that was theirs when it happened.
fn seen(caller: &Caller, event: &Event) -> bool {
    match &event.graph {
        Some(id) => caller.can(&Action::ReadGraph(Graph { id, tenant: event.tenant.as_deref() })),
        None => caller.can(&Action::ReadNodeEvents),
    }
}
