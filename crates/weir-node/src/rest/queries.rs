//! Routes of queries.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weir_api::problem::Problem;
use weir_api::queries::{Measured, Query, QueryList, Question, StandingQuery, check_name};
use weir_auth::Action;
use weir_model::nearest::nearest;
use weir_rest::body::{Received, json};
use weir_rest::extract::Path;
use weir_rest::login::Caller;
use weir_rest::to_the_end;

use super::{App, entry, function, readable};

fn refused(text: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

/// Whether somebody may ask. What is not there yet is asked for all the same, but by who may see everything.
fn allowed(app: &App, caller: &Caller, ask: &Question) -> Result<(), Problem> {
    match (&ask.graph, &ask.tenant) {
        (Some(graph), _) => {
            let graph = entry(app, caller, graph)?;
            match ask.function.as_deref().filter(|_| ask.handler.is_some()) {
                Some(id) => caller.may(&Action::ReadHandler(graph.function(id))),
                None => caller.may(&Action::ReadGraph(graph.owned())),
            }
        }
        (None, Some(tenant)) => caller.may(&Action::ReadTenant(tenant)),
        (None, None) => caller.may(&Action::ReadDevices),
    }
}

fn visible(app: &App, caller: &Caller, ask: &Question) -> bool {
    caller.can(&Action::ReadDevices) || allowed(app, caller, ask).is_ok()
}

/// Whether what is asked about is there.
fn there(app: &App, caller: &Caller, ask: &Question) -> Result<(), Problem> {
    let (Some(graph), Some(id)) = (&ask.graph, &ask.function) else { return Ok(()) };
    let graph = entry(app, caller, graph)?;
    let f = function(&graph, id)?;
    ask.handler.as_deref().map_or(Ok(()), |name| readable(f, name).map(drop))
}

/// Measures once.
#[utoipa::path(post, path = "/measure", tag = "queries", operation_id = "measure", request_body = Question, responses(
    (status = 200, body = Measured, description = "What was measured."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph, function or handler."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be asked."),
))]
pub(super) async fn measure(
    State(app): State<App>,
    caller: Caller,
    body: Received,
) -> Result<Json<Measured>, Problem> {
    let ask: Question = json(body)?.0;
    allowed(&app, &caller, &ask)?;
    ask.check().map_err(refused)?;
    there(&app, &caller, &ask)?;
    Ok(Json(Measured { readings: app.measure_once(ask).await }))
}

/// The queries that one may see.
#[utoipa::path(get, path = "/queries", tag = "queries", operation_id = "queries", responses(
    (status = 200, body = QueryList, description = "The queries, by name."),
))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<QueryList>, Problem> {
    caller.may(&Action::ReadEvents)?;
    let mut queries = app.queries().list();
    queries.retain(|q| visible(&app, &caller, &q.query.ask));
    Ok(Json(QueryList { queries }))
}

/// The query of that name, if the caller may see it.
fn query(app: &App, caller: &Caller, name: &str) -> Result<StandingQuery, Problem> {
    let found = app.queries().get(name).filter(|q| visible(app, caller, &q.query.ask));
    found.ok_or_else(|| {
        let mut known = app.queries().list();
        known.retain(|q| visible(app, caller, &q.query.ask));
        let hint = nearest(name, known.iter().map(|q| q.name.as_str()));
        Problem::new(StatusCode::NOT_FOUND, format!("there is no query '{name}'{hint}"))
    })
}

/// A query.
#[utoipa::path(get, path = "/queries/{name}", tag = "queries", operation_id = "query",
    params(("name" = String, Path, description = "The query's name.")),
    responses(
        (status = 200, body = StandingQuery, description = "The query."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such query."),
    ))]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<StandingQuery>, Problem> {
    caller.may(&Action::ReadEvents)?;
    query(&app, &caller, &name).map(Json)
}

/// Sets a query. What it has to say comes with the events, of the kind `query`. The same again changes nothing.
#[utoipa::path(put, path = "/queries/{name}", tag = "queries", operation_id = "put_query", request_body = Query,
    params(("name" = String, Path, description = "The query's name.")),
    responses(
        (status = 204, description = "It stands."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph, function or handler."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The name is taken, or there are too many."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be asked."),
    ))]
pub(super) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    body: Received,
) -> Result<StatusCode, Problem> {
    let new: Query = json(body)?.0;
    allowed(&app, &caller, &new.ask)?;
    check_name(&name).and_then(|()| new.check()).map_err(refused)?;
    there(&app, &caller, &new.ask)?;
    if app.queries().get(&name).is_some_and(|q| !visible(&app, &caller, &q.query.ask)) {
        return Err(Problem::new(StatusCode::CONFLICT, format!("there is a query '{name}' already")));
    }
    let of_domain = caller.is_controller();
    to_the_end(async move { app.put_query(&name, new, of_domain).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a query.
#[utoipa::path(delete, path = "/queries/{name}", tag = "queries", operation_id = "delete_query",
    params(("name" = String, Path, description = "The query's name.")),
    responses(
        (status = 204, description = "It is deleted."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such query."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It is the controller's."),
    ))]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.may(&Action::ReadEvents)?;
    let found = query(&app, &caller, &name)?;
    if found.of_domain && !caller.is_controller() {
        let text = format!("query '{name}' is the controller's: delete it there");
        return Err(Problem::new(StatusCode::CONFLICT, text));
    }
    to_the_end(async move { app.remove_query(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
