//! What the controller does with nodes that dial.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use weir_api::events::{Event, Kind};
use weir_api::node::Health;
use weir_api::queries::Report;
use weir_rest::listen::{HEARTBEAT, NodeConnection, SILENCE};
use weir_store::events::NewEvent;

use crate::controller::{Controller, now_ms};
use crate::fleet::{Connected, FleetError};

/// How often a node is looked at, beside what its events bring.
const INTERVAL: Duration = Duration::from_secs(5);
/// Bytes of a stream that may wait for their reader.
const STREAM_WINDOW: u32 = 256 << 10;
/// So many streams whose readers wait do not stop others.
const STREAMS: u32 = 512;
/// Longest line of an event.
const MAX_LINE: usize = 1 << 20;

/// Takes the nodes that dial, for ever. When it is aborted, their connections end.
pub(crate) async fn attend(controller: Arc<Controller>, mut dialled: mpsc::Receiver<NodeConnection>) {
    let mut connections = JoinSet::new();
    for number in 1.. {
        let Some(connection) = dialled.recv().await else { return };
        connections.spawn(take(controller.clone(), connection, number));
        while connections.try_join_next().is_some() {}
    }
}

/// A task that ends with who began it.
struct Task<T>(JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    fn spawn(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task(tokio::spawn(future))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One connection, from its beginning to its end.
async fn take(controller: Arc<Controller>, connection: NodeConnection, number: u64) {
    let NodeConnection { node, address, stream } = connection;
    let member = controller.view().members.get(&node.name).cloned();
    if member.is_none_or(|m| m.number != node.number) {
        return;
    }
    let node = node.name;
    if controller.fleet.get(&node).is_some() && controller.fleet.is_alive(&node).await {
        let text = format!("a second node with its certificate dialled, from {address}, and was sent away");
        return controller.tell(Kind::Notice, Some(&node), None, text).await;
    }
    let shaken = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(HEARTBEAT)
        .keep_alive_timeout(SILENCE)
        .keep_alive_while_idle(true)
        // One that reads slowly stops its own stream, and no others.
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW * STREAMS)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, running) = match shaken {
        Ok(shaken) => shaken,
        Err(e) => return tracing::debug!(node, "no HTTP/2: {e}"),
    };
    let mut running = Task::spawn(running);
    let connected = Connected::new(number, address.to_string(), sender);
    if let Err(e) = controller.arrived(&node, connected).await {
        tracing::warn!(node, "it is not taken: {e}");
        return;
    }
    let looking = Task::spawn(look(controller.clone(), node.clone(), number));
    let listening = Task::spawn(listen(controller.clone(), node.clone()));
    let ended = (&mut running.0).await;
    drop((looking, listening));
    let why = match ended {
        Ok(Err(e)) => e.to_string(),
        _ => "it went".to_owned(),
    };
    controller.left(&node, number, &why).await;
}

impl Controller {
    /// A node is connected.
    ///
    /// # Errors
    /// It does not say how far this controller had got there; it is not taken then.
    pub async fn arrived(&self, node: &str, connected: Connected) -> Result<(), FleetError> {
        self.compare(node, &connected).await?;
        let text = format!("it dialled from {}", connected.address);
        self.fleet.insert(node, connected);
        self.came_or_went(node);
        self.tell(Kind::NodeOnline, Some(node), None, text).await;
        Ok(())
    }

    fn came_or_went(&self, node: &str) {
        self.edit(|v| {
            let known = v.known.entry(node.to_owned()).or_default();
            (known.since, known.changed) = (now_ms(), Some(Instant::now()));
        });
    }

    /// A connection is over.
    pub async fn left(&self, node: &str, number: u64, why: &str) {
        // Unless the node came back meanwhile, or was removed.
        if self.fleet.remove(node, number) {
            self.came_or_went(node);
            let text = format!("no connection: {why}; what it runs goes on as far as is known");
            self.tell(Kind::NodeOffline, Some(node), None, text).await;
        }
    }
}

/// Makes the node run what it is to run, now and from time to time.
async fn look(controller: Arc<Controller>, node: String, number: u64) {
    let present = || controller.fleet.get(&node).is_some_and(|c| c.number == number);
    let mut has_images = false;
    while present() {
        if !has_images {
            has_images = controller.settle_images(&node).await;
        }
        match controller.fleet.call::<Health>(&node, Method::GET, "/health", None).await {
            Ok(health) => {
                let version = Some(health.version);
                controller.edit(|v| v.known.entry(node.clone()).or_default().version = version);
            }
            Err(e) => tracing::debug!(node, "{e}"),
        }
        if let Err(e) = controller.remove_images_left(&node).await {
            tracing::warn!(node, "images that were removed from the domain: {e}");
        }
        if let Err(e) = controller.settle(&node).await {
            tracing::warn!(node, "not in the desired state yet: {e}");
        }
        if let Err(e) = controller.measure_tunnels(&node).await {
            tracing::debug!(node, "what its tunnels carry: {e}");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Keeps what happens at the node in the log of the domain.
async fn listen(controller: Arc<Controller>, node: String) {
    loop {
        if let Err(e) = follow(&controller, &node).await {
            tracing::debug!(node, "its events: {e}");
        }
        tokio::time::sleep(HEARTBEAT).await;
    }
}

async fn follow(controller: &Controller, node: &str) -> Result<(), FleetError> {
    let silent = |why: String| FleetError::Silent { node: node.to_owned(), why };
    let request = Request::builder().uri("/events").body(Body::empty()).map_err(|e| silent(e.to_string()))?;
    let mut body = controller.fleet.send(node, request).await?.into_body();
    let mut line = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| silent(e.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        for byte in data {
            if byte != b'\n' {
                line.push(byte);
                if line.len() > MAX_LINE {
                    return Err(silent("an event without an end".into()));
                }
                continue;
            }
            let event = line.strip_prefix(b"data:").and_then(|d| serde_json::from_slice::<Event>(d).ok());
            line.clear();
            if let Some(event) = event {
                hear(controller, node, event).await;
            }
        }
    }
    Ok(())
}

/// An event of a node becomes one of the domain, but for those of which the controller tells itself.
async fn hear(controller: &Controller, node: &str, event: Event) {
    let keep = event.id.is_some();
    let Event { kind, graph, text, report, alarm, .. } = event;
    let own = matches!(
        kind,
        Kind::Applied | Kind::Changed | Kind::Removed | Kind::ControllerUp | Kind::ControllerDown
    );
    if own || kind == Kind::Print && graph.is_none() {
        return;
    }
    if kind == Kind::Domain {
        // What the node has is asked for at once; a slow node is asked again later.
        _ = timeout(INTERVAL, controller.ask_domain(node)).await;
    }
    // Whose a graph is that is not the domain's, is for the node to know.
    let view = controller.view();
    let placed = graph.as_deref().and_then(|g| view.graphs.get(g));
    let placed = placed.filter(|g| g.graph.parts.contains_key(node));
    let tenant = placed.and_then(|g| g.graph.tenant.clone());
    let (graph, text) = match (graph, placed) {
        (Some(graph), None) => (None, format!("{graph}: {text}")),
        (graph, _) => (graph, text),
    };
    let report = report.map(|r| of_node(r, node));
    let event = NewEvent { kind, node: Some(node.to_owned()), graph, tenant, text, report, alarm, keep };
    controller.events.publish_all(vec![event]).await;
}

/// What a query says of a node.
fn of_node(mut report: Report, node: &str) -> Report {
    report.readings.iter_mut().for_each(|r| r.node = Some(node.to_owned()));
    report
}
