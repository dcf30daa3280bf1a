//! The stream of events: what happened on the node, numbered so that a listener can come back and miss nothing.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use utoipa::ToSchema;

use crate::store::Store;

/// Events that a slow listener may lag behind before it has to come back by number.
const BACKLOG: usize = 1024;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A new graph runs.
    Applied,
    /// A graph that runs was changed.
    Changed,
    /// A graph was removed.
    Removed,
    /// A graph cannot run, or a change was refused.
    Failed,
    /// A graph that failed runs again.
    Recovered,
    /// An interface came back.
    DeviceUp,
    /// An interface is gone or down.
    DeviceDown,
    /// The connection to the data plane stands.
    EngineUp,
    /// The data plane ended or cannot be reached.
    EngineDown,
    /// An element printed something. Not kept, and without a number.
    Print,
    /// Anything else that the data plane told.
    Notice,
}

impl Kind {
    /// The word for it, as in documents.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Applied => "applied",
            Kind::Changed => "changed",
            Kind::Removed => "removed",
            Kind::Failed => "failed",
            Kind::Recovered => "recovered",
            Kind::DeviceUp => "device-up",
            Kind::DeviceDown => "device-down",
            Kind::EngineUp => "engine-up",
            Kind::EngineDown => "engine-down",
            Kind::Print => "print",
            Kind::Notice => "notice",
        }
    }

    /// The kind of a word; a notice if it is none.
    pub fn from_name(name: &str) -> Kind {
        serde_json::from_value(serde_json::Value::String(name.to_owned())).unwrap_or(Kind::Notice)
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number, greater than those of all events before; without one it is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Milliseconds since the epoch.
    pub time: u64,
    /// What happened.
    pub kind: Kind,
    /// The graph, if one is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// More, for people.
    pub text: String,
}

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
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
    pub async fn tell(&self, kind: Kind, graph: Option<&str>, text: impl Into<String>) {
        self.tell_all(vec![News { kind, graph: graph.map(str::to_owned), text: text.into() }]).await;
    }

    /// Tells of several at once, which are kept all or none.
    pub async fn tell_all(&self, news: Vec<News>) {
        if news.is_empty() {
            return;
        }
        for News { kind, graph, text } in &news {
            tracing::info!(kind = kind.name(), graph, "{text}");
        }
        let unkept = {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
            let event = |n: &News| Event {
                id: None,
                time,
                kind: n.kind,
                graph: n.graph.clone(),
                text: n.text.clone(),
            };
            news.iter().map(event).collect::<Vec<_>>()
        };
        let store = self.store.clone();
        let kept = match news[..] {
            [News { kind: Kind::Print, .. }] => None,
            _ => tokio::task::spawn_blocking(move || {
                let result = store.log(&news);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_back_to_kinds() {
        for kind in [Kind::Applied, Kind::DeviceDown, Kind::EngineUp, Kind::Notice] {
            assert_eq!(Kind::from_name(kind.name()), kind);
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!(Kind::from_name("unheard-of"), Kind::Notice);
    }
}
