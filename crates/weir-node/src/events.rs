//! The stream of events: what happened on the node, numbered so that a listener can come back and miss nothing.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::broadcast;
use weir_api::events::{Event, Kind};

use crate::store::Store;

/// Events that a slow listener may lag behind before it has to come back by number.
const BACKLOG: usize = 1024;

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// What happened.
    pub kind: Kind,
    /// The graph, if one is concerned.
    pub graph: Option<String>,
    /// More, for people.
    pub text: String,
}

/// Keeps events and hands them to listeners.
#[derive(Debug)]
pub struct Events {
    store: Arc<Store>,
    sender: broadcast::Sender<Event>,
}

impl Events {
    /// Events kept in `store`.
    pub fn new(store: Arc<Store>) -> Events {
        Events { store, sender: broadcast::channel(BACKLOG).0 }
    }

    /// Tells of an event. If the store fails, listeners still hear of it.
    pub async fn publish(&self, kind: Kind, graph: Option<&str>, text: impl Into<String>) {
        self.publish_all(vec![NewEvent { kind, graph: graph.map(str::to_owned), text: text.into() }]).await;
    }

    /// Tells of several at once, which are kept all or none.
    pub async fn publish_all(&self, events: Vec<NewEvent>) {
        if events.is_empty() {
            return;
        }
        for NewEvent { kind, graph, text } in &events {
            tracing::info!(kind = kind.name(), graph, "{text}");
        }
        let unkept = {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
            let event = |n: &NewEvent| Event {
                id: None,
                time,
                kind: n.kind,
                graph: n.graph.clone(),
                text: n.text.clone(),
            };
            events.iter().map(event).collect::<Vec<_>>()
        };
        let store = self.store.clone();
        let kept = match events[..] {
            [NewEvent { kind: Kind::Print, .. }] => None,
            _ => tokio::task::spawn_blocking(move || {
                let result = store.log(&events);
                result.map_err(|e| tracing::error!("an event was not kept: {e}")).ok()
            })
            .await
            .ok()
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
