//! Routes that go on: events, traces and captures.

use std::collections::BTreeSet;
use std::convert::Infallible;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::IntoParams;
use weir_api::events::{Event, EventList};
use weir_api::problem::Problem;
use weir_api::watch::{CaptureRequest, Captured, TraceRequest};
use weir_protocol::Command;

use super::extract::{Path, Query};
use super::{App, Received, entry, json};
use crate::connection::EventStream;
use crate::status::{WatchedPoint, points_of};
use crate::store::{MAX_EVENTS, StoreError};

/// Most packets of one trace.
const MAX_TRACE: u32 = 10_000;
/// Events that are read from the store at a time.
const PAGE: u32 = 500;

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
    Path(id): Path<String>,
    body: Received,
) -> Result<Response, Problem> {
    let request: TraceRequest = json(body)?.0;
    entry(&app, &id)?;
    let count = request.count.clamp(1, MAX_TRACE);
    let events = app.plane.stream(Command::Trace { graph: id, filter: request.filter, count }).await?;
    Ok(lines(events, |event| vec![event.clone()]))
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
    Path(id): Path<String>,
    body: Received,
) -> Result<Response, Problem> {
    let CaptureRequest { points, direction, filter, snaplen, count } = json(body)?.0;
    let e = entry(&app, &id)?;
    let watched = points_of(&*app.plane, &e.graph, &points, direction).await?;
    let command = Command::Capture {
        graph: id,
        points: watched.iter().map(|p| p.element.clone()).collect::<BTreeSet<_>>().into_iter().collect(),
        filter,
        snaplen,
        count,
    };
    let events = app.plane.stream(command).await?;
    Ok(lines(events, move |event| match event {
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
                Some(event) => {
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
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Problem> {
    let last = headers.get("last-event-id").map(|v| v.to_str().ok().and_then(|v| v.trim().parse().ok()));
    let last = last.map(|number| {
        let wrong = "Last-Event-ID is the number of an event; 0 asks for all that are kept";
        number.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, wrong))
    });
    let last = last.transpose()?;
    let (sender, receiver) = mpsc::channel(64);
    // Listening begins before the store is read: nothing falls in between.
    let listener = app.events.listen();
    tokio::spawn(follow(app, listener, last, sender));
    Ok(Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default()))
}

/// Which events to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct KeptOptions {
    /// Only those of this graph.
    #[serde(default)]
    graph: Option<String>,
    /// How many at most, the newest; 100 if it is left out.
    #[serde(default = "hundred")]
    #[param(minimum = 0, maximum = 10_000, default = 100)]
    limit: u32,
}

fn hundred() -> u32 {
    100
}

/// The newest events of those that are kept.
#[utoipa::path(get, path = "/events/kept", tag = "watch", operation_id = "kept_events", params(KeptOptions), responses(
    (status = 200, body = EventList, description = "The events, oldest first."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The query has mistakes."),
))]
pub(super) async fn kept(
    State(app): State<App>,
    Query(KeptOptions { graph, limit }): Query<KeptOptions>,
) -> Result<Json<EventList>, Problem> {
    if u64::from(limit) > MAX_EVENTS {
        let detail = format!("limit: at most {MAX_EVENTS} events are kept");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let events = app.blocking(move |store| store.last_events(graph.as_deref(), limit)).await?;
    Ok(Json(EventList { events }))
}

type Sender = mpsc::Sender<Result<sse::Event, Infallible>>;

async fn follow(
    app: App,
    mut listener: tokio::sync::broadcast::Receiver<Event>,
    last: Option<u64>,
    sender: Sender,
) {
    let mut seen = last;
    if let Some(id) = last {
        match missed(&app, id, &sender).await {
            Some(id) => seen = Some(id),
            None => return,
        }
    }
    loop {
        let event = tokio::select! {
            event = listener.recv() => event,
            () = sender.closed() => return,
        };
        match event {
            Ok(event) => {
                if event.id.is_some() && event.id <= seen {
                    continue;
                }
                seen = event.id.or(seen);
                if sender.send(Ok(item(&event))).await.is_err() {
                    return;
                }
            }
            // Too slow: what was missed is in the store, if it was ever to be kept.
            Err(RecvError::Lagged(_)) => match missed(&app, seen.unwrap_or(u64::MAX), &sender).await {
                Some(id) if seen.is_some() => seen = Some(id),
                Some(_) => {}
                None => return,
            },
            Err(RecvError::Closed) => return,
        }
    }
}

/// Sends what the store has after `id`; gives the last number, or nothing if the client went.
async fn missed(app: &App, mut id: u64, sender: &Sender) -> Option<u64> {
    loop {
        let (store, from) = (app.store.clone(), id);
        let read: Result<Vec<Event>, StoreError> =
            tokio::task::spawn_blocking(move || store.events_after(from, PAGE))
                .await
                .unwrap_or(Ok(Vec::new()));
        let events = read.unwrap_or_else(|e| {
            tracing::error!("events cannot be read: {e}");
            Vec::new()
        });
        if events.is_empty() {
            return Some(id);
        }
        for event in events {
            id = event.id.unwrap_or(id);
            sender.send(Ok(item(&event))).await.ok()?;
        }
    }
}

fn item(event: &Event) -> sse::Event {
    let data = serde_json::to_string(event).unwrap_or_default();
    let item = sse::Event::default().event(event.kind.name()).data(data);
    match event.id {
        Some(id) => item.id(id.to_string()),
        None => item,
    }
}
