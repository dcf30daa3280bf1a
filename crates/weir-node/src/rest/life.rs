//! Routes of the life of functions, and of their state.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weir_api::functions::{FunctionLife, GraphLife, GraphLifeChange, Life, LifeChange};
use weir_api::problem::Problem;
use weir_auth::Action;
use weir_model::graph::{FunctionState, ServiceGraph};
use weir_protocol::{Answer, Command, MAX_STATE};
use weir_rest::body::{Document, Received, json as from_json, long_bytes};
use weir_rest::extract::Path;
use weir_rest::login::Caller;
use weir_rest::precondition::Precondition;

use super::elements::{Elements, Place};
use super::graphs::owner;
use super::{App, entry, function};
use crate::instance::Kind;
use crate::node::{ApplyError, Entry, How};

/// The document of a graph, and the number of a function in it.
pub(super) fn document(e: &Entry, name: &str) -> Result<(ServiceGraph, usize), Problem> {
    let graph = ServiceGraph::from_json(&e.graph.document.to_string())?;
    let number = graph.functions.iter().position(|f| f.id.as_str() == name);
    let inner =
        || Problem::new(StatusCode::NOT_FOUND, format!("the document has no function '{name}' itself"));
    Ok((graph, number.ok_or_else(inner)?))
}

/// What a function is to do, as its document says.
fn life_of(state: Option<FunctionState>) -> Life {
    match state {
        None | Some(FunctionState::Running) => Life::Running,
        Some(FunctionState::Stopped) => Life::Stopped,
        Some(FunctionState::Bypass) => Life::Bypass,
        // What it does at this moment is known to the data plane.
        Some(FunctionState::Moving) => Life::Stopped,
    }
}

/// What a function does with packets, and how many wait before it.
#[utoipa::path(get, path = "/graphs/{id}/functions/{function}/life", tag = "functions", operation_id = "function_life",
    params(
        ("id" = String, Path, description = "The graph's identifier."),
        ("function" = String, Path, description = "The function's identifier."),
    ),
    responses(
        (status = 200, body = FunctionLife, description = "Its life."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph or function."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    ))]
pub(super) async fn life(
    State(app): State<App>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Json<FunctionLife>, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::ReadHandler(e.function(&name)))?;
    let f = function(&e, &name)?;
    let (graph, number) = document(&e, &name)?;
    let of_document = graph.functions.get(number);
    let state = of_document.and_then(|f| f.state);
    let mut life = life_of(state);
    let (mut waiting, mut dropped) = (0_u64, 0_u64);
    if state.is_some() {
        let ports = of_document.map_or(0, |f| f.ports.len());
        let reads =
            |what: &str| (0..ports).map(|p| format!("gate_{}_{p}.{what}", f.element)).collect::<Vec<_>>();
        let reads: Vec<String> = reads("length").into_iter().chain(reads("drops")).collect();
        let mut add = |counts: Vec<u64>| {
            let (length, drops) = counts.split_at(counts.len() / 2);
            // The numbers of a worker are what it likes to say.
            waiting = length.iter().copied().fold(waiting, u64::saturating_add);
            dropped = drops.iter().copied().fold(dropped, u64::saturating_add);
        };
        let graph = Place::of_graph(&*app.plane, &id);
        if f.kind == Kind::Process {
            // Packets wait with its own data plane while it moves, and a few that were on their way there. One that is just started again has none.
            let own = Elements::of(&*app.plane, &app.drivers, &e, &name)?;
            match own.place.exchange(Vec::new(), Vec::new(), reads.clone()).await {
                Ok(counts) => add(counts),
                Err(e) if state == Some(FunctionState::Moving) => return Err(e),
                Err(_) => {}
            }
        }
        if f.kind != Kind::Process || state != Some(FunctionState::Moving) {
            add(graph.exchange(Vec::new(), Vec::new(), reads).await?);
        }
    }
    if state == Some(FunctionState::Moving) {
        let own = Elements::of(&*app.plane, &app.drivers, &e, &name)?;
        let (graph, handler) = (own.place.graph.clone(), format!("gate_{}_0.stopped", f.element));
        let stopped = own.place.call(Command::Read { graph, handler }).await?;
        if matches!(stopped, Answer::Text { text } if text.trim() == "false") {
            life = Life::Running;
        }
    }
    Ok(Json(FunctionLife { state: life, waiting, dropped }))
}

/// Stops a function, lets it go on, or leads packets past it: the same as another `state` in the document. While it is stopped packets wait, the
/// first 1,000 at each port; they are the first that go on.
#[utoipa::path(put, path = "/graphs/{id}/functions/{function}/life", tag = "functions", operation_id = "change_function_life",
    params(
        ("id" = String, Path, description = "The graph's identifier."),
        ("function" = String, Path, description = "The function's identifier."),
    ),
    request_body = LifeChange,
    responses(
        (status = 200, body = FunctionLife, description = "Its life, as it is now."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph or function."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The graph is a controller's: it is changed there."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The function cannot be so."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
    ))]
pub(super) async fn change(
    State(app): State<App>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    body: Received,
) -> Result<Json<FunctionLife>, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::ChangeGraph(e.owned()))?;
    let LifeChange { state } = from_json(body)?.0;
    function(&e, &name)?;
    let (graph, number) = document(&e, &name)?;
    caller.summary(format!("{name}: {}", json!(state).as_str().unwrap_or_default()));
    let graph = weir_rest::life::with_state(graph, number, state)?;
    let document = Document { graph, text: None, owner: owner(&app, &caller) };
    let how = How { by: caller.principal().clone(), ..How::default() };
    let node = app.clone();
    let put = tokio::spawn(async move { node.put(document, how, &Precondition::default()).await }).await;
    put.map_err(|e| ApplyError::Internal(e.to_string()))??;
    life(State(app), caller, Path((id, name))).await
}

/// Suspends a graph that its first packet starts, with the state of its inline functions on disk, or resumes it.
#[utoipa::path(put, path = "/graphs/{id}/life", tag = "graphs", operation_id = "change_graph_life",
    params(("id" = String, Path, description = "The graph's identifier.")),
    request_body = GraphLifeChange,
    responses(
        (status = 200, body = GraphLifeChange, description = "It is so."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It runs at all times, or cannot go on with the state that it was suspended with."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    ))]
pub(super) async fn change_graph(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    body: Received,
) -> Result<Json<GraphLifeChange>, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::ChangeGraph(e.owned()))?;
    let change: GraphLifeChange = from_json(body)?.0;
    caller.summary(json!(change.state).as_str().unwrap_or_default().to_owned());
    let node = app.clone();
    let done = tokio::spawn(async move {
        match change.state {
            GraphLife::Running => node.resume(&id, change.anew).await,
            GraphLife::Suspended => node.suspend(&id, false).await.map(drop),
        }?;
        Ok::<_, ApplyError>(change)
    });
    Ok(Json(done.await.map_err(|e| ApplyError::Internal(e.to_string()))??))
}

/// The state of a function that is inline, or in a process: what is in its tables, the packets that wait in it and before it, and when its timers are due.
#[utoipa::path(get, path = "/graphs/{id}/functions/{function}/snapshot", tag = "functions", operation_id = "function_snapshot",
    params(
        ("id" = String, Path, description = "The graph's identifier."),
        ("function" = String, Path, description = "The function's identifier."),
    ),
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "The state, with its version and a hash in the first line."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph or function."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It is neither inline nor in a process, or its state is too large."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    ))]
pub(super) async fn snapshot(
    State(app): State<App>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::ChangeGraph(e.owned()))?;
    let Elements { place, element: function, .. } = Elements::of(&*app.plane, &app.drivers, &e, &name)?;
    match place.call(Command::Export { graph: place.graph.clone(), function }).await? {
        Answer::Text { text } => {
            Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
        }
        _ => Err(Problem::internal()),
    }
}

/// Gives a function that is stopped, and inline or in a process, the state of one of the same image and parameters, in place of its own. What waits before it goes on
/// behind what waited there.
#[utoipa::path(put, path = "/graphs/{id}/functions/{function}/snapshot", tag = "functions", operation_id = "restore_function",
    params(
        ("id" = String, Path, description = "The graph's identifier."),
        ("function" = String, Path, description = "The function's identifier."),
    ),
    request_body(content = String, content_type = "text/plain"),
    responses(
        (status = 204, description = "It has the state."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The body is no text."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph or function."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The function is not stopped."),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The state is too large."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The state is damaged, or of another function; nothing was changed."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    ))]
pub(super) async fn restore(
    State(app): State<App>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
    body: Received,
) -> Result<StatusCode, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::ChangeGraph(e.owned()))?;
    let Elements { place, element: function, .. } = Elements::of(&*app.plane, &app.drivers, &e, &name)?;
    let (graph, number) = document(&e, &name)?;
    if graph.functions.get(number).and_then(|f| f.state) != Some(FunctionState::Stopped) {
        let detail = format!("function '{name}' is not stopped: 'weir pause {id} {name}' stops it");
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    let state = String::from_utf8(long_bytes(body, MAX_STATE + 1024)?.to_vec())
        .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not UTF-8 text: {e}")))?;
    caller.summary(format!("{name}: its state"));
    place.call(Command::Import { graph: place.graph.clone(), function, state }).await?;
    Ok(StatusCode::NO_CONTENT)
}
