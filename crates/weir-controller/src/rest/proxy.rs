//! What one node, or each of them, answers.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use weir_api::domain::{Capability, Domain};
use weir_api::images::{ImageDetails, ImageList};
use weir_api::node::DeviceList;
use weir_api::problem::Problem;
use weir_auth::{Action, Function, Graph};
use weir_rest::extract::Path;
use weir_rest::login::Caller;

use super::App;

/// A request goes on to a node, under that path, and its answer comes back as it is.
async fn forward(app: &App, node: &str, path: &str, request: Request<Body>) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let query = parts.uri.query().map(|q| format!("?{q}")).unwrap_or_default();
    parts.uri = format!("{path}{query}").parse::<Uri>().map_err(|_| Problem::internal())?;
    // They are about the connection that ends here (RFC 9110, section 7.6.1), or who is logged in here.
    for name in ["connection", "host", "authorization", "transfer-encoding", "upgrade", "origin"] {
        parts.headers.remove(name);
    }
    parts.extensions.clear();
    let response = app.fleet.send(node, Request::from_parts(parts, body)).await?;
    Ok(response.map(Body::new).into_response())
}

/// What is behind a graph: at the node that has the graph, or the function that the path names.
pub(super) async fn graph(
    State(app): State<App>,
    caller: Caller,
    Path((id, path)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let stored = app.graph_for(&id, |g| caller.can(&Action::ListGraph(g)))?;
    may(&caller, stored.graph.owned(&id), request.method(), &path)?;
    let whole = stored.graph.document.get("requirements").and_then(|r| r.as_array());
    if request.method() == Method::PUT && stored.graph.parts.len() > 1 && whole.is_some_and(|r| !r.is_empty())
    {
        let text = "what the graph requires was proved of its document over all of its nodes, and would not be of what is written: change the document";
        return Err(Problem::new(StatusCode::CONFLICT, text));
    }
    let first = stored.graph.parts.keys().next().ok_or_else(Problem::internal)?;
    let function = path.strip_prefix("functions/").and_then(|rest| rest.split('/').next());
    let node = function.and_then(|f| {
        // One within a function that is made of functions is where that is.
        let outer = f.split('.').next().unwrap_or(f);
        stored.graph.functions.get(f).or_else(|| stored.graph.functions.get(outer))
    });
    let node = node.unwrap_or(first);
    let whole = request.uri().path();
    // As it came, with what is escaped in it.
    let path = whole.split_once("/graphs/").map_or(path.as_str(), |(_, rest)| rest);
    forward(&app, node, &format!("/graphs/{path}"), request).await
}

/// Whether somebody may have what is behind a graph.
fn may(caller: &Caller, graph: Graph<'_>, method: &Method, path: &str) -> Result<(), Problem> {
    let parts: Vec<&str> = path.split('/').collect();
    let function = |id| Function { graph, id };
    match (method, &parts[..]) {
        (&Method::GET, ["functions", f, "handlers", _]) => caller.may(&Action::ReadHandler(function(f))),
        (&Method::PUT, ["functions", f, "handlers", _]) => caller.may(&Action::WriteHandler(function(f))),
        (&Method::GET, ["functions", f, "log"]) => caller.may(&Action::ReadLog(function(f))),
        (&Method::GET, ["functions", f, "inside"]) => caller.may(&Action::Shell(function(f))),
        _ => {
            let text = format!("there is no {method} of '{path}' of a graph");
            Err(Problem::new(StatusCode::NOT_FOUND, text))
        }
    }
}

/// What one node says of itself.
pub(super) async fn node(
    State(app): State<App>,
    caller: Caller,
    Path((name, path)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    // A node takes the controller for an operator, so only who is one may ask it.
    caller.may(&Action::ChangeNodes)?;
    app.member(&name)?;
    let whole = request.uri().path();
    let path = whole.split_once("/v1/").map_or(path.as_str(), |(_, rest)| rest).to_owned();
    forward(&app, &name, &format!("/{path}"), request).await
}

/// What each node that is connected answers, by name.
async fn each<T: DeserializeOwned + Send + 'static>(app: &App, path: &'static str) -> BTreeMap<String, T> {
    let mut asked = tokio::task::JoinSet::new();
    for node in app.fleet.names() {
        let fleet = app.fleet.clone();
        asked.spawn(async move {
            let answer = fleet.call::<T>(&node, Method::GET, path, None).await;
            (node, answer)
        });
    }
    let mut answers = BTreeMap::new();
    while let Some(done) = asked.join_next().await {
        if let Ok((node, Ok(answer))) = done {
            answers.insert(node, answer);
        }
    }
    answers
}

/// The images of all nodes.
pub(super) async fn images(State(app): State<App>, caller: Caller) -> Result<Json<ImageList>, Problem> {
    caller.may(&Action::ReadImages)?;
    let mut all = ImageList { images: Vec::new(), errors: Vec::new() };
    for (_, list) in each::<ImageList>(&app, "/images").await {
        let new: Vec<_> =
            list.images.into_iter().filter(|i| all.images.iter().all(|k| k.name != i.name)).collect();
        all.images.extend(new);
        let new: Vec<_> =
            list.errors.into_iter().filter(|i| all.errors.iter().all(|k| k.name != i.name)).collect();
        all.errors.extend(new);
    }
    all.images.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Json(all))
}

/// An image of any node.
pub(super) async fn image(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Result<Json<ImageDetails>, Problem> {
    caller.may(&Action::ReadImages)?;
    let path = request.uri().path().rsplit_once("/images/").map_or(name.as_str(), |(_, rest)| rest);
    let mut last = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no node is connected");
    for node in app.fleet.names() {
        match app.fleet.call(&node, Method::GET, &format!("/images/{path}"), None).await {
            Ok(image) => return Ok(Json(image)),
            Err(e) => last = e.into(),
        }
    }
    Err(last)
}

/// The interfaces of all nodes, as `NODE:INTERFACE`.
pub(super) async fn devices(State(app): State<App>, caller: Caller) -> Result<Json<DeviceList>, Problem> {
    caller.may(&Action::ReadDevices)?;
    let mut devices = Vec::new();
    for (node, list) in each::<DeviceList>(&app, "/devices").await {
        let named = list
            .devices
            .into_iter()
            .map(|d| weir_api::node::DeviceStatus { name: format!("{node}:{}", d.name), ..d });
        devices.extend(named);
    }
    Ok(Json(DeviceList { devices }))
}

/// What the domain is to others: one big switch, with the end points of all nodes, as `NODE:INTERFACE`.
pub(super) async fn domain(State(app): State<App>, caller: Caller) -> Result<Json<Domain>, Problem> {
    caller.may(&Action::ReadDomain)?;
    let mut whole = Domain::default();
    for (node, domain) in each::<Domain>(&app, "/domain").await {
        let named = domain.endpoints.into_iter().map(|e| {
            let interface = format!("{node}:{}", e.interface);
            weir_api::domain::Endpoint { interface, ..e }
        });
        whole.endpoints.extend(named);
        whole.tunnels.extend(domain.tunnels);
        for Capability { capability, images } in domain.capabilities {
            let at = whole.capabilities.iter().position(|c| c.capability == capability);
            match at.and_then(|at| whole.capabilities.get_mut(at)) {
                Some(known) => {
                    let new: Vec<_> = images
                        .into_iter()
                        .filter(|i| known.images.iter().all(|k| k.image != i.image))
                        .collect();
                    known.images.extend(new);
                }
                None => whole.capabilities.push(Capability { capability, images }),
            }
        }
        for kind in domain.kinds {
            match whole.kinds.iter_mut().find(|k| k.kind == kind.kind) {
                // What one node can, the domain can.
                Some(known) if kind.lack.is_none() => known.lack = None,
                Some(_) => {}
                None => whole.kinds.push(kind),
            }
        }
        for (all, one) in [
            (&mut whole.resources.memory, domain.resources.memory),
            (&mut whole.resources.cpu, domain.resources.cpu),
        ] {
            all.total += one.total;
            all.used += one.used;
        }
        whole.resources.overcommit |= domain.resources.overcommit;
    }
    Ok(Json(whole))
}
