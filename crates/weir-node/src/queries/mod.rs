//! Queries that stand at this node: it looks itself, so that what has nothing to say costs no traffic.

pub(crate) mod core;
pub(crate) mod measure;

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use weir_api::events::Kind;
use weir_api::problem::Problem;
use weir_api::queries::{MAX_QUERIES, Measure, Query, Question, Reading, Report};
use weir_store::events::NewEvent;

use self::core::{Look, Queries, readings};
use self::measure::Meter;
use crate::connection::DataPlane;
use crate::node::Node;

/// Between the two looks that processor time and rates need, when there is one answer only.
const WINDOW: Duration = Duration::from_millis(500);
/// How long to sleep if no query stands.
const IDLE: Duration = Duration::from_secs(3600);

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

impl<D: DataPlane> Node<D> {
    pub(crate) fn queries(&self) -> MutexGuard<'_, Queries> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures once.
    pub(crate) async fn measure_once(&self, ask: Question) -> Vec<Reading> {
        let asks = [ask];
        let one = |samples: Vec<core::Samples>| samples.into_iter().next().unwrap_or_default();
        let first = one(self.measure(&asks).await);
        let [ask] = asks;
        if !matches!(ask.measure, Measure::CpuUtil | Measure::Lqm) {
            return readings(&ask, &first, None);
        }
        let begun = tokio::time::Instant::now();
        tokio::time::sleep(WINDOW).await;
        let second = one(self.measure(std::slice::from_ref(&ask)).await);
        readings(&ask, &second, Some((&first, begun.elapsed().as_secs_f64())))
    }

    /// Sets a query; it is kept, and looks at once.
    pub(crate) async fn put_query(&self, name: &str, query: Query, of_domain: bool) -> Result<(), Problem> {
        {
            let queries = self.queries();
            if queries.len() >= MAX_QUERIES && queries.get(name).is_none() {
                let text = format!("{MAX_QUERIES} queries stand here already, and no more can: delete some");
                return Err(Problem::new(StatusCode::CONFLICT, text));
            }
        }
        let (store, key, kept) = (self.store.clone(), name.to_owned(), query.clone());
        let keep = spawn_blocking(move || store.keep_query(&key, &kept, of_domain, false)).await;
        keep.map_err(|_| Problem::internal())??;
        self.queries().put(now(), name, query, of_domain, false);
        self.queried.notify_one();
        Ok(())
    }

    /// Removes a query.
    pub(crate) async fn remove_query(&self, name: &str) -> Result<(), Problem> {
        let (store, key) = (self.store.clone(), name.to_owned());
        spawn_blocking(move || store.remove_query(&key)).await.map_err(|_| Problem::internal())??;
        self.queries().remove(name);
        Ok(())
    }

    /// All queries that are due look.
    async fn look(&self) {
        let due = self.queries().due(now());
        if due.is_empty() {
            return;
        }
        let (names, asks): (Vec<String>, Vec<Question>) = due.into_iter().unzip();
        let samples = self.measure(&asks).await;
        for ((name, ask), samples) in names.into_iter().zip(asks).zip(samples) {
            let look = self.queries().look(now(), &name, samples);
            if let Some(look) = look {
                self.say_look(&name, &ask, look).await;
            }
        }
    }

    async fn say_look(&self, name: &str, ask: &Question, look: Look) {
        if look.vanished {
            let text = format!("query '{name}': there is nothing that it asks about; it goes on");
            let event = NewEvent { text, ..NewEvent::of(Kind::Query, ask.graph.as_deref()) };
            self.events.publish_all(vec![event]).await;
        }
        let Some(Report { query, readings, ended }) = look.report else { return };
        if ended {
            let (store, key) = (self.store.clone(), name.to_owned());
            match spawn_blocking(move || store.end_query(&key)).await {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::error!("query '{name}' begins again when the daemon does: {e}"),
                Err(_) => {}
            }
        }
        // Each event is of one graph: who may see the graph may see it.
        let mut by_graph: BTreeMap<Option<String>, Vec<Reading>> = BTreeMap::new();
        for reading in readings {
            by_graph.entry(reading.graph.clone()).or_default().push(reading);
        }
        if by_graph.is_empty() {
            by_graph.insert(ask.graph.clone(), Vec::new());
        }
        let event = |(graph, readings): (Option<String>, Vec<Reading>)| {
            let text = format!("query '{query}'{}", if ended { " has ended" } else { "" });
            let report = Some(Report { query: query.clone(), readings, ended });
            NewEvent { text, report, keep: look.keep, ..NewEvent::of(Kind::Query, graph.as_deref()) }
        };
        self.events.publish_all(by_graph.into_iter().map(event).collect()).await;
    }
}

/// Lets queries look when they are due, for ever.
pub(crate) async fn watch<D: DataPlane>(node: Arc<Node<D>>) {
    loop {
        node.look().await;
        let next = node.queries().next();
        let pause = next.map_or(IDLE, |next| Duration::from_millis(next.saturating_sub(now())));
        _ = timeout(pause, node.queried.notified()).await;
    }
}
