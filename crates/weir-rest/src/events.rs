//! What happens on a daemon: kept, and handed to those who listen, numbered so that a listener can come back and miss nothing.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use utoipa::IntoParams;
use weir_api::events::{Event, EventList, Kind};
use weir_api::problem::Problem;
use weir_store::Database;
use weir_store::events::{MAX_EVENTS, NewEvent};

use crate::blocking;

/// Events that a slow listener may lag behind before it has to come back by number.
const BACKLOG: usize = 1024;
/// Events that are read from the store at a time.
const PAGE: u32 = 500;

/// Whose a graph is.
type OwnerOf = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Keeps events and hands them to listeners.
pub struct Events {
    store: Arc<Database>,
    sender: broadcast::Sender<Event>,
    owner: OnceLock<OwnerOf>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Events {
    /// Events kept in `store`.
    pub fn new(store: Arc<Database>) -> Events {
        Events { store, sender: broadcast::channel(BACKLOG).0, owner: OnceLock::new() }
    }

    /// Says whose graphs are: an event of a graph has its tenant, unless it comes with it. To be called once.
    pub fn set_owner(&self, owner: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
        _ = self.owner.set(Box::new(owner));
    }

    /// Reports an event. If the store fails, listeners still hear of it.
    pub async fn publish(&self, kind: Kind, graph: Option<&str>, text: impl Into<String>) {
        self.publish_all(vec![NewEvent { text: text.into(), ..NewEvent::of(kind, graph) }]).await;
    }

    /// Reports several at once, which are kept all or none.
    pub async fn publish_all(&self, mut events: Vec<NewEvent>) {
        if events.is_empty() {
            return;
        }
        for e in events.iter_mut().filter(|e| e.tenant.is_none()) {
            e.tenant = e.graph.as_deref().and_then(|graph| self.owner.get()?(graph));
        }
        for NewEvent { kind, node, graph, text, .. } in &events {
            tracing::info!(kind = kind.name(), node, graph, "{text}");
        }
        let unkept = {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
            let event = |n: &NewEvent| Event {
                id: None,
                time,
                kind: n.kind,
                node: n.node.clone(),
                graph: n.graph.clone(),
                tenant: n.tenant.clone(),
                text: n.text.clone(),
                report: n.report.clone(),
                alarm: n.alarm.clone(),
            };
            events.iter().map(event).collect::<Vec<_>>()
        };
        let store = self.store.clone();
        let kept = match events.iter().any(|e| e.keep) {
            false => None,
            true => blocking(&self.store, move || {
                let result = store.log(&events);
                result.map_err(|e| tracing::error!("an event was not kept: {e}")).ok()
            })
            .await
            .flatten(),
        };
        for event in kept.unwrap_or(unkept) {
            // An error only says that nobody listens.
            _ = self.sender.send(event);
        }
    }

    /// Events from now on.
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}

/// Events for a client.
pub type EventStream = sse::KeepAliveStream<ReceiverStream<Result<sse::Event, Infallible>>>;

/// A stream of events as they happen, as server-sent events: with a header `Last-Event-ID`, those that were missed come first.
/// `visible` says which of them the listener may see.
///
/// # Errors
/// The header is no number.
pub fn stream(
    events: &Events,
    headers: &HeaderMap,
    visible: impl Fn(&Event) -> bool + Send + Sync + 'static,
) -> Result<Sse<EventStream>, Problem> {
    let last = headers.get("last-event-id").map(|v| v.to_str().ok().and_then(|v| v.trim().parse().ok()));
    let last = last.map(|number| {
        let wrong = "Last-Event-ID is the number of an event; 0 asks for all that are kept";
        number.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, wrong))
    });
    let last = last.transpose()?;
    let (sender, receiver) = mpsc::channel(64);
    // Listening begins before the store is read: nothing falls in between.
    let listening = events.listen();
    let listener = Listener { store: events.store.clone(), sender, visible: Box::new(visible) };
    tokio::spawn(listener.follow(listening, last));
    Ok(Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default()))
}

/// Which events to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct KeptOptions {
    /// Only those of this graph.
    #[serde(default)]
    pub graph: Option<String>,
    /// How many at most, the newest; 100 if it is left out.
    #[serde(default = "hundred")]
    #[param(minimum = 0, maximum = 10_000, default = 100)]
    pub limit: u32,
}

fn hundred() -> u32 {
    100
}

/// The newest events of those that are kept; `visible` says which of them the reader may see.
///
/// # Errors
/// Too many are asked for, or the store cannot be read.
pub async fn kept(
    events: &Events,
    options: KeptOptions,
    visible: impl Fn(&Event) -> bool + Send + 'static,
) -> Result<EventList, Problem> {
    let KeptOptions { graph, limit } = options;
    if u64::from(limit) > MAX_EVENTS {
        let detail = format!("limit: at most {MAX_EVENTS} events are kept");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let store = events.store.clone();
    let read = move || store.last_events(graph.as_deref(), limit, visible);
    let read = tokio::task::spawn_blocking(read).await;
    Ok(EventList { events: read.map_err(|_| Problem::internal())?? })
}

/// One that listens.
struct Listener {
    store: Arc<Database>,
    sender: mpsc::Sender<Result<sse::Event, Infallible>>,
    visible: Box<dyn Fn(&Event) -> bool + Send + Sync>,
}

impl Listener {
    async fn follow(self, mut events: broadcast::Receiver<Event>, last: Option<u64>) {
        let mut seen = last;
        if let Some(id) = last {
            match self.missed(id).await {
                Some(id) => seen = Some(id),
                None => return,
            }
        }
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = self.sender.closed() => return,
            };
            match event {
                Ok(event) => {
                    if event.id.is_some() && event.id <= seen {
                        continue;
                    }
                    seen = event.id.or(seen);
                    if self.send(&event).await.is_none() {
                        return;
                    }
                }
                // Too slow: what was missed is in the store, if it was ever to be kept.
                Err(RecvError::Lagged(_)) => match self.missed(seen.unwrap_or(u64::MAX)).await {
                    Some(id) if seen.is_some() => seen = Some(id),
                    Some(_) => {}
                    None => return,
                },
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Sends what the store has after `id`; gives the last number, or nothing if the client went.
    async fn missed(&self, mut id: u64) -> Option<u64> {
        loop {
            let (store, from) = (self.store.clone(), id);
            let read = tokio::task::spawn_blocking(move || store.events_after(from, PAGE)).await;
            let events = read.unwrap_or(Ok(Vec::new())).unwrap_or_else(|e| {
                tracing::error!("events cannot be read: {e}");
                Vec::new()
            });
            if events.is_empty() {
                return Some(id);
            }
            for event in events {
                id = event.id.unwrap_or(id);
                self.send(&event).await?;
            }
        }
    }

    async fn send(&self, event: &Event) -> Option<()> {
        if !(self.visible)(event) {
            return Some(());
        }
        self.sender.send(Ok(item(event))).await.ok()
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
