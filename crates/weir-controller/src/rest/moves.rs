//! Routes of the life of functions, and of moving them to other nodes.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Request};
use axum::response::Response;
use weir_api::functions::{FunctionLife, GraphLifeChange, LifeChange, MoveRequest, Moved};
use weir_api::problem::Problem;
use weir_auth::{Action, Function};
use weir_model::graph::ServiceGraph;
use weir_rest::body::{Document, Received, json};
use weir_rest::extract::Path;
use weir_rest::login::Caller;
use weir_rest::precondition::Precondition;
use weir_rest::to_the_end;
use weir_store::history::{Confirm, Note};

use super::{App, proxy};
use crate::fleet::segment;
use crate::migrate::How;

fn to_change(function: Function<'_>) -> Action<'_> {
    Action::ChangeGraph(function.graph)
}

fn to_read(function: Function<'_>) -> Action<'_> {
    Action::ReadHandler(function)
}

/// What a function does with packets.
pub(super) async fn life(
    State(app): State<App>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    proxy::function(&app, &caller, (&id, &name), to_read, request).await
}

/// Stops a function, lets it go on, or leads packets past it.
pub(super) async fn change(
    State(app): State<App>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    body: Received,
) -> Result<Json<FunctionLife>, Problem> {
    let stored = app.graph_for(&id, |g| caller.can(&Action::ListGraph(g)))?;
    caller.may(&Action::ChangeGraph(stored.graph.owned(&id)))?;
    let LifeChange { state } = json(body)?.0;
    caller.summary(format!("{name}: {state:?}"));
    let (app, by) = (app.clone(), caller.principal().clone());
    to_the_end(async move {
        let stored = app.graph(&id)?;
        let graph = ServiceGraph::from_json(&stored.graph.document.to_string())?;
        let number = app.function_number(&graph, &name)?;
        let graph = weir_rest::life::with_state(graph, number, state)?;
        let document = Document { graph, text: None, owner: None };
        let note = Note { confirm: Confirm::AsBefore, ..Note::default() };
        app.put(document, None, true, &Precondition::default(), &by, &note).await?;
        let node = app.graph(&id)?.graph.functions.get(&name).cloned().ok_or_else(Problem::internal)?;
        let path = format!("/graphs/{}/functions/{}/life", segment(&id), segment(&name));
        Ok::<_, Problem>(Json(app.fleet.call(&node, Method::GET, &path, None).await?))
    })
    .await
}

/// Suspends a graph that its first packet starts, or resumes it, at each node that has a part of it.
pub(super) async fn change_graph(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    body: Received,
) -> Result<Json<GraphLifeChange>, Problem> {
    let stored = app.graph_for(&id, |g| caller.can(&Action::ListGraph(g)))?;
    caller.may(&Action::ChangeGraph(stored.graph.owned(&id)))?;
    let change: GraphLifeChange = json(body)?.0;
    caller.summary(format!("{:?}", change.state));
    let app = app.clone();
    to_the_end(async move {
        let path = format!("/graphs/{}/life", segment(&id));
        for node in stored.graph.parts.keys() {
            let body = serde_json::to_string(&change).map_err(|_| Problem::internal())?;
            let _: GraphLifeChange = app.fleet.call(node, Method::PUT, &path, Some(&body)).await?;
        }
        Ok::<_, Problem>(Json(change))
    })
    .await
}

/// The state of a function, or another one for it.
pub(super) async fn snapshot(
    State(app): State<App>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    proxy::function(&app, &caller, (&id, &name), to_change, request).await
}

/// Moves a function to another node while it works: with its state, and no packet is lost, doubled or put behind a later one of its flow as long as not more have
/// to wait than there is space for. If the move fails, or somebody ends on the way, the function goes on at one of the two nodes.
#[utoipa::path(post, path = "/graphs/{id}/functions/{function}/move", tag = "functions", operation_id = "move_function",
    params(
        ("id" = String, Path, description = "The graph's identifier."),
        ("function" = String, Path, description = "The function's identifier."),
    ),
    request_body = MoveRequest, responses(
    (status = 200, body = Moved, description = "It has moved, or what a move would be."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph, function or node."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "It is there already, or a function of the graph is on its way."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be there, and why; it goes on where it is."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "A node is offline, or went."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn migrate(
    State(app): State<App>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    body: Received,
) -> Result<Json<Moved>, Problem> {
    let stored = app.graph_for(&id, |g| caller.can(&Action::ListGraph(g)))?;
    caller.may(&Action::ChangeGraph(stored.graph.owned(&id)))?;
    let MoveRequest { to, kind, image, leave, plan } = json(body)?.0;
    let how = How { kind: kind.map(Into::into), image, leave, plan };
    if plan {
        return app.plan_move(&id, &name, &to, &how).await.map(Json);
    }
    caller.summary(format!("{name}: to node {to}"));
    let app = app.clone();
    to_the_end(async move { app.migrate(&id, &name, &to, &how).await }).await.map(Json)
}
