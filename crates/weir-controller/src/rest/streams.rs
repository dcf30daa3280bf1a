//! Traces and captures of a graph over several nodes, as of one graph.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Collected};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use weir_api::problem::Problem;
use weir_api::watch::{CaptureRequest, TraceRequest};
use weir_auth::{Action, Function, ObservationPoint};
use weir_model::nearest::nearest;
use weir_protocol::Event;
use weir_rest::body::{Received, json};
use weir_rest::extract::Path;
use weir_rest::login::Caller;

use super::App;
use super::joining::Joining;
use crate::fleet::segment;
use crate::store::Stored;

/// How long a packet that left by a tunnel is waited for at its other end.
const ACROSS: Duration = Duration::from_millis(700);
/// Longest line of a stream.
const MAX_LINE: usize = 16 << 20;

/// Lines of several nodes, each with the node's name, until all have ended or nobody reads them.
type Lines = mpsc::Receiver<(String, Vec<u8>)>;

/// Asks nodes for a stream each.
async fn ask(app: &App, path: &str, bodies: Vec<(String, String)>) -> Result<Lines, Problem> {
    let (sender, lines) = mpsc::channel(64);
    for (node, body) in bodies {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|_| Problem::internal())?;
        let response = app.fleet.send(&node, request).await?;
        if !response.status().is_success() {
            let status = response.status();
            let bytes = response.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
            let problem: Option<Problem> = serde_json::from_slice(&bytes).ok();
            let problem = problem.unwrap_or_else(|| Problem::new(status, status.to_string()));
            return Err(Problem { detail: format!("node '{node}': {}", problem.detail), ..problem });
        }
        tokio::spawn(read(node, response.into_body(), sender.clone()));
    }
    Ok(lines)
}

async fn read(node: String, mut body: Body, sender: mpsc::Sender<(String, Vec<u8>)>) {
    let mut line = Vec::new();
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = sender.closed() => return,
        };
        let Some(Ok(frame)) = frame else { return };
        let Ok(data) = frame.into_data() else { continue };
        for byte in data {
            if byte != b'\n' {
                line.push(byte);
                if line.len() > MAX_LINE {
                    return;
                }
                continue;
            }
            if sender.send((node.clone(), std::mem::take(&mut line))).await.is_err() {
                return;
            }
        }
    }
}

fn answer(receiver: mpsc::Receiver<Result<Vec<u8>, Infallible>>) -> Response {
    let body = Body::from_stream(ReceiverStream::new(receiver));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

fn text(item: &impl Serialize) -> Result<Vec<u8>, Infallible> {
    let mut text = serde_json::to_vec(item).unwrap_or_default();
    text.push(b'\n');
    Ok(text)
}

/// Follows the next packets of a graph over its nodes: what leaves by a tunnel and comes out at its other end is one packet.
pub(super) async fn trace(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    body: Received,
) -> Result<Response, Problem> {
    let request: TraceRequest = json(body)?.0;
    let stored = app.graph_for(&id, |g| caller.can(&Action::ListGraph(g)))?;
    caller.may(&Action::Trace(ObservationPoint::Graph(stored.graph.owned(&id))))?;
    caller.summary(format!("filter {:?}", request.filter));
    let count = request.count.max(1) as usize;
    let body = serde_json::to_string(&request).map_err(|_| Problem::internal())?;
    let several = stored.graph.parts.len() > 1;
    let bodies = stored.graph.parts.keys().map(|node| (node.clone(), body.clone())).collect();
    let mut lines = ask(&app, &format!("/graphs/{}/trace", segment(&id)), bodies).await?;
    let (sender, receiver) = mpsc::channel(16);
    let watched = app.clone();
    tokio::spawn(async move {
        let seen = |graph: &str| match watched.view().graphs.get(graph) {
            Some(g) => caller.can(&Action::ReadGraph(g.graph.owned(graph))),
            None => caller.can(&Action::ReadDevices),
        };
        let mut joining = Joining::default();
        let mut sent = 0;
        loop {
            let deadline = joining.oldest().map_or_else(|| Instant::now() + ACROSS, |at| at + ACROSS);
            let line = tokio::select! {
                line = lines.recv() => line,
                () = sleep_until(deadline) => Some((String::new(), Vec::new())),
                () = sender.closed() => return,
            };
            let mut ready = Vec::new();
            match line {
                None => ready.extend(joining.rest()),
                Some((_, line)) if line.is_empty() => {}
                Some((node, line)) => {
                    if let Ok(mut event) = serde_json::from_slice(&line) {
                        // A node takes the controller for an operator, and tells it of all graphs that packets go on in.
                        if let Event::Trace { steps, .. } = &mut event {
                            steps.retain(|step| step.graph == id || seen(&step.graph));
                        }
                        match event {
                            Event::Trace { .. } if several => joining.add(&node, event, Instant::now()),
                            event => ready.push(event),
                        }
                    }
                }
            }
            ready.extend(joining.ready(Instant::now(), ACROSS));
            let ended = lines.is_closed() && lines.is_empty();
            for event in ready {
                let is_trace = matches!(event, Event::Trace { .. });
                if sender.send(text(&event)).await.is_err() {
                    return;
                }
                sent += usize::from(is_trace);
                if sent >= count {
                    return;
                }
            }
            if ended && joining.oldest().is_none() {
                return;
            }
        }
    });
    Ok(answer(receiver))
}

/// Copies packets of a graph as they pass places at any of its nodes. The clocks are those of the nodes.
pub(super) async fn capture(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    body: Received,
) -> Result<Response, Problem> {
    let request: CaptureRequest = json(body)?.0;
    let stored = app.graph_for(&id, |g| caller.can(&Action::ListGraph(g)))?;
    let graph = stored.graph.owned(&id);
    if request.points.is_empty() {
        caller.may(&Action::Capture(ObservationPoint::Graph(graph)))?;
    }
    for point in &request.points {
        let function = point.strip_prefix("sf:").and_then(|p| p.split(':').next());
        let function = function.map(|id| ObservationPoint::Function(Function { graph, id }));
        caller.may(&Action::Capture(function.unwrap_or(ObservationPoint::Graph(graph))))?;
    }
    caller.summary(format!("{} filter {:?}", request.points.join(" "), request.filter));
    let mut bodies = Vec::new();
    for (node, points) in points(&stored, &request.points)? {
        let body = serde_json::to_string(&CaptureRequest { points, ..request.clone() });
        bodies.push((node, body.map_err(|_| Problem::internal())?));
    }
    let mut lines = ask(&app, &format!("/graphs/{}/capture", segment(&id)), bodies).await?;
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        let mut left = request.count;
        loop {
            let line = tokio::select! {
                line = lines.recv() => line,
                () = sender.closed() => return,
            };
            let Some((_, mut line)) = line else { return };
            line.push(b'\n');
            if sender.send(Ok(line)).await.is_err() {
                return;
            }
            left = left.saturating_sub(1);
            if left == 0 && request.count > 0 {
                return;
            }
        }
    });
    Ok(answer(receiver))
}

/// The places to watch at each node: those that are asked for, or all access points of the document.
fn points(stored: &Stored, asked: &[String]) -> Result<Vec<(String, Vec<String>)>, Problem> {
    let graph = &stored.graph;
    if graph.parts.len() == 1 {
        return Ok(graph.parts.keys().map(|node| (node.clone(), asked.to_vec())).collect());
    }
    let all: Vec<String> = graph.saps.keys().map(|id| format!("sap:{id}")).collect();
    let asked = if asked.is_empty() { &all } else { asked };
    let mut by_node: Vec<(String, Vec<String>)> = Vec::new();
    for point in asked {
        let wrong = |text: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text);
        let node = match point.split_once(':') {
            Some(("sap", id)) => graph.saps.get(id).ok_or_else(|| {
                let hint = nearest(id, graph.saps.keys().map(String::as_str));
                wrong(format!("the graph has no access point '{id}'{hint}"))
            })?,
            Some(("sf", rest)) => {
                let id = rest.split(':').next().unwrap_or(rest);
                graph.functions.get(id).ok_or_else(|| {
                    let hint = nearest(id, graph.functions.keys().map(String::as_str));
                    wrong(format!("the graph has no function '{id}'{hint}"))
                })?
            }
            _ => {
                let text = format!(
                    "'{point}' names no node; of a graph over several nodes, give sap:ID or sf:FUNCTION:PORT"
                );
                return Err(wrong(text));
            }
        };
        match by_node.iter_mut().find(|(n, _)| n == node) {
            Some((_, points)) => points.push(point.clone()),
            None => by_node.push((node.clone(), vec![point.clone()])),
        }
    }
    Ok(by_node)
}
