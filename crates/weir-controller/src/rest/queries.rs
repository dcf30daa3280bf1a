//! Routes of queries: those of a node, for all nodes.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weir_api::problem::Problem;
use weir_api::queries::{Measured, Query, QueryList, Question, StandingQuery, check_name};
use weir_auth::{Action, Function};
use weir_model::nearest::nearest;
use weir_rest::body::{Received, json};
use weir_rest::extract::Path;
use weir_rest::login::Caller;
use weir_rest::to_the_end;

use super::App;
use super::proxy::each;

fn refused(text: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

/// Whether somebody may ask.
fn allowed(app: &App, caller: &Caller, ask: &Question) -> Result<(), Problem> {
    match (&ask.graph, &ask.tenant) {
        (Some(id), _) => {
            let stored = app.graph_for(id, |g| caller.can(&Action::ListGraph(g)))?;
            let graph = stored.graph.owned(id);
            match ask.function.as_deref().filter(|_| ask.handler.is_some()) {
                Some(id) => caller.may(&Action::ReadHandler(Function { graph, id })),
                None => caller.may(&Action::ReadGraph(graph)),
            }
        }
        (None, Some(tenant)) => caller.may(&Action::ReadTenant(tenant)),
        (None, None) => caller.may(&Action::ReadDevices),
    }
}

fn visible(app: &App, caller: &Caller, ask: &Question) -> bool {
    caller.can(&Action::ReadDevices) || allowed(app, caller, ask).is_ok()
}

/// Measures once.
pub(super) async fn measure(
    State(app): State<App>,
    caller: Caller,
    body: Received,
) -> Result<Json<Measured>, Problem> {
    let ask: Question = json(body)?.0;
    allowed(&app, &caller, &ask)?;
    ask.check().map_err(refused)?;
    app.measure(&ask).await.map(Json)
}

/// The queries that somebody may see. One has ended if it has at each node that has it.
async fn shown(app: &App, caller: &Caller) -> Vec<StandingQuery> {
    let at_nodes = each::<QueryList>(app, "/queries").await;
    let ended = |name: &str| {
        let mut of_name = at_nodes.values().flat_map(|l| &l.queries).filter(|q| q.name == name).peekable();
        of_name.peek().is_some() && of_name.all(|q| q.ended)
    };
    let view = app.view();
    let seen = view.queries.iter().filter(|(_, q)| visible(app, caller, &q.ask));
    let standing = |(name, query): (&String, &Query)| StandingQuery {
        name: name.clone(),
        query: query.clone(),
        ended: ended(name),
        of_domain: false,
    };
    seen.map(standing).collect()
}

/// The queries that one may see.
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<QueryList>, Problem> {
    caller.may(&Action::ReadEvents)?;
    Ok(Json(QueryList { queries: shown(&app, &caller).await }))
}

/// Makes sure that the caller may see the query of that name.
fn known(app: &App, caller: &Caller, name: &str) -> Result<(), Problem> {
    let view = app.view();
    if view.queries.get(name).is_some_and(|q| visible(app, caller, &q.ask)) {
        return Ok(());
    }
    let all = view.queries.iter().filter(|(_, q)| visible(app, caller, &q.ask));
    let hint = nearest(name, all.map(|(name, _)| name.as_str()));
    Err(Problem::new(StatusCode::NOT_FOUND, format!("there is no query '{name}'{hint}")))
}

/// A query.
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<StandingQuery>, Problem> {
    caller.may(&Action::ReadEvents)?;
    known(&app, &caller, &name)?;
    let found = shown(&app, &caller).await.into_iter().find(|q| q.name == name);
    found.map(Json).ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("there is no query '{name}'")))
}

/// Sets a query.
pub(super) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    body: Received,
) -> Result<StatusCode, Problem> {
    let new: Query = json(body)?.0;
    allowed(&app, &caller, &new.ask)?;
    check_name(&name).and_then(|()| new.check()).map_err(refused)?;
    let view = app.view();
    if view.queries.get(&name).is_some_and(|q| !visible(&app, &caller, &q.ask)) {
        return Err(Problem::new(StatusCode::CONFLICT, format!("there is a query '{name}' already")));
    }
    if let (Some(graph), Some(id)) = (&new.ask.graph, &new.ask.function)
        && let Some(stored) = view.graphs.get(graph)
    {
        let functions = &stored.graph.functions;
        let outer = id.split('.').next().unwrap_or(id);
        if !functions.contains_key(id) && !functions.contains_key(outer) {
            let hint = nearest(id, functions.keys().map(String::as_str));
            let text = format!("graph '{graph}' has no function '{id}'{hint}");
            return Err(Problem::new(StatusCode::NOT_FOUND, text));
        }
    }
    to_the_end(async move { app.put_query(&name, new).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a query.
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.may(&Action::ReadEvents)?;
    known(&app, &caller, &name)?;
    to_the_end(async move { app.delete_query(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
