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
use weir_api::usage::{GraphUsage, UsageList};
use weir_auth::{Action, Function, Graph};
use weir_rest::body::{Received, bytes};
use weir_rest::extract::Path;
use weir_rest::login::Caller;
use weir_rest::to_the_end;

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
    Ok(response.into_response())
}

fn to_read(function: Function<'_>) -> Action<'_> {
    Action::ReadHandler(function)
}

fn to_write(function: Function<'_>) -> Action<'_> {
    Action::WriteHandler(function)
}

fn to_read_log(function: Function<'_>) -> Action<'_> {
    Action::ReadLog(function)
}

fn to_enter(function: Function<'_>) -> Action<'_> {
    Action::Shell(function)
}

/// What is behind a function of a graph, at the node that has it, for who may do that with it.
pub(super) async fn function(
    app: &App,
    caller: &Caller,
    (id, name): (&str, &str),
    action: fn(Function<'_>) -> Action<'_>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let stored = app.graph_for(id, |g| caller.can(&Action::ListGraph(g)))?;
    caller.may(&action(Function { graph: stored.graph.owned(id), id: name }))?;
    let required = stored.graph.document.get("requirements").and_then(|r| r.as_array());
    let required = required.is_some_and(|r| !r.is_empty());
    if request.method() == Method::PUT && stored.graph.parts.len() > 1 && required {
        let text = "what the graph requires was proved of its document over all of its nodes, and would not be of what is written: change the document";
        return Err(Problem::new(StatusCode::CONFLICT, text));
    }
    let first = stored.graph.parts.keys().next().ok_or_else(Problem::internal)?;
    // One within a function that is made of functions is where that is.
    let outer = name.split('.').next().unwrap_or(name);
    let functions = &stored.graph.functions;
    let node = functions.get(name).or_else(|| functions.get(outer)).unwrap_or(first);
    // As it came, with what is escaped in it.
    let whole = request.uri().path();
    let path = whole.split_once("/graphs/").map_or(whole, |(_, rest)| rest).to_owned();
    forward(app, node, &format!("/graphs/{path}"), request).await
}

/// Reads a handler.
pub(super) async fn read(
    State(app): State<App>,
    caller: Caller,
    Path((id, name, _)): Path<(String, String, String)>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    function(&app, &caller, (&id, &name), to_read, request).await
}

/// Writes a handler.
pub(super) async fn write(
    State(app): State<App>,
    caller: Caller,
    Path((id, name, _)): Path<(String, String, String)>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    function(&app, &caller, (&id, &name), to_write, request).await
}

/// What a function has written.
pub(super) async fn log(
    State(app): State<App>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    function(&app, &caller, (&id, &name), to_read_log, request).await
}

/// How a program is started inside a function.
pub(super) async fn inside(
    State(app): State<App>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    function(&app, &caller, (&id, &name), to_enter, request).await
}

/// What one node says of itself.
pub(super) async fn node(
    State(app): State<App>,
    caller: Caller,
    Path((name, path)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    // A node takes the controller for an operator, so only who is one may ask it, but for counts that whoever sees all may see.
    caller.may(if path == "metrics" { &Action::ReadNodes } else { &Action::ChangeNodes })?;
    app.member(&name)?;
    let whole = request.uri().path();
    let path = whole.split_once("/v1/").map_or(path.as_str(), |(_, rest)| rest).to_owned();
    forward(&app, &name, &format!("/{path}"), request).await
}

/// What each node that is connected answers, by name.
pub(super) async fn each<T: DeserializeOwned + Send + 'static>(
    app: &App,
    path: &'static str,
) -> BTreeMap<String, T> {
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
    let mut last = Problem::new(StatusCode::NOT_FOUND, "no node is connected that could have the image");
    for node in app.fleet.names() {
        match app.fleet.call(&node, Method::GET, &format!("/images/{path}"), None).await {
            Ok(image) => return Ok(Json(image)),
            Err(e) => last = e.into(),
        }
    }
    Err(last)
}

/// Adds an image to all nodes, or changes one that was added so.
pub(super) async fn put_image(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    body: Received,
) -> Result<Json<ImageDetails>, Problem> {
    caller.may(&Action::ChangeImages)?;
    let manifest = String::from_utf8(bytes(body)?.to_vec())
        .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not UTF-8 text: {e}")))?;
    caller.summary(format!("image {name}"));
    to_the_end(async move { app.put_image(&name, manifest).await }).await.map(Json)
}

/// Removes an image that was added so.
pub(super) async fn delete_image(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.may(&Action::ChangeImages)?;
    caller.summary(format!("image {name}"));
    to_the_end(async move { app.remove_image(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
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

/// What graphs have taken, on each node that they are on.
pub(super) async fn usage(State(app): State<App>, caller: Caller) -> Result<Json<UsageList>, Problem> {
    caller.may(&Action::ReadMetrics)?;
    let lists = each::<UsageList>(&app, "/usage").await;
    let all = lists.into_values().flat_map(|list| list.graphs);
    let may =
        |g: &GraphUsage| caller.can(&Action::ReadGraph(Graph { id: &g.graph, tenant: g.tenant.as_deref() }));
    Ok(Json(UsageList { graphs: all.filter(may).collect() }))
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
