//! Routes of requests for processing.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_api::accounting::AccountingList;
use weir_api::problem::Problem;
use weir_api::requests::{RequestAnswer, RequestDetails, RequestList};
use weir_auth::{Action, Graph};
use weir_model::nearest::nearest;
use weir_rest::body::{Received, written};
use weir_rest::extract::{Path, Query};
use weir_rest::login::Caller;
use weir_rest::to_the_end;

use super::App;
use crate::controller::now;
use crate::requests::{Kept, id, number};

/// The options of a request.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// After so many seconds it ends by itself, whatever the request says.
    #[param(minimum = 1)]
    lifetime: Option<u64>,
}

/// The options of listing accounts.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Of this request only.
    request: Option<String>,
    /// Without modules that ended before that, in seconds since the epoch.
    #[param(minimum = 0)]
    since: Option<i64>,
}

/// A request that is not there yet.
fn new<'a>(caller: &'a Caller) -> Graph<'a> {
    Graph { id: "request", tenant: caller.principal().tenant().map(|t| t.name.as_str()) }
}

/// The request of that identifier, if the caller may know of it.
fn find(app: &App, caller: &Caller, asked: &str) -> Result<(u64, Kept), Problem> {
    let view = app.view();
    let knows = |number: u64, kept: &Kept| {
        let id = id(number);
        let graph = Graph { id: &id, tenant: kept.answer.tenant.as_deref() };
        caller.can(&Action::ListGraph(graph)) && view.graphs.contains_key(&id)
    };
    let found = number(asked).and_then(|n| Some((n, view.requests.get(&n)?)));
    let found = found.filter(|(n, kept)| knows(*n, kept) && id(*n) == asked);
    found.map(|(n, kept)| (n, kept.clone())).ok_or_else(|| {
        let ids: Vec<String> =
            view.requests.iter().filter(|(n, k)| knows(**n, k)).map(|(n, _)| id(*n)).collect();
        let hint = nearest(asked, ids.iter().map(String::as_str));
        Problem::new(StatusCode::NOT_FOUND, format!("there is no request '{asked}'{hint}"))
    })
}

/// The requests that run, as far as one may know of them.
#[utoipa::path(get, path = "/requests", tag = "requests", operation_id = "requests", responses(
    (status = 200, body = RequestList, description = "The requests, in the order in which they came."),
))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<RequestList>, Problem> {
    caller.may(&Action::ListGraphs)?;
    let view = app.view();
    let seen = view.requests.iter().filter(|(n, kept)| {
        let id = id(**n);
        let graph = Graph { id: &id, tenant: kept.answer.tenant.as_deref() };
        view.graphs.contains_key(&id) && caller.can(&Action::ListGraph(graph))
    });
    Ok(Json(RequestList { requests: seen.map(|(n, kept)| app.named(*n, kept.answer.clone())).collect() }))
}

/// A request that runs.
#[utoipa::path(get, path = "/requests/{id}", tag = "requests", operation_id = "request",
    params(("id" = String, Path, description = "The request's identifier.")),
    responses(
        (status = 200, body = RequestDetails, description = "The request, and what was answered."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such request."),
    ))]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(asked): Path<String>,
) -> Result<Json<RequestDetails>, Problem> {
    let (number, kept) = find(&app, &caller, &asked)?;
    caller.may(&Action::ReadGraph(Graph { id: &asked, tenant: kept.answer.tenant.as_deref() }))?;
    Ok(Json(RequestDetails { answer: app.named(number, kept.answer), request: kept.request }))
}

/// Asks for processing: modules that are proved, placed and run.
#[utoipa::path(post, path = "/requests", tag = "requests", operation_id = "make_request", params(Options),
    request_body(content = String, content_type = "text/plain", description = "Click configurations, links and requirements (CHANGE paper, figure 2.2), or the same as YAML."),
    responses(
        (status = 201, body = RequestAnswer, description = "It runs."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request is wrong."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The node refused its graph."),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The request is too long."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It was refused: what does not hold, on which platform."),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "Who asks has asked too often; it says when they may again."),
        (status = 501, body = Problem, content_type = "application/problem+json", description = "This controller takes no requests."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The node cannot be reached."),
    ))]
pub(super) async fn make(
    State(app): State<App>,
    caller: Caller,
    Query(options): Query<Options>,
    body: Received,
) -> Result<(StatusCode, Json<RequestAnswer>), Problem> {
    caller.may(&Action::ChangeGraph(new(&caller)))?;
    let text = written(body)?;
    let by = caller.principal().clone();
    let made = to_the_end(async move { app.request(&text, &by, options.lifetime).await }).await?;
    caller.summary(made.id.clone().unwrap_or_default());
    Ok((StatusCode::CREATED, Json(made)))
}

/// What would be answered to a request. Nothing is started.
#[utoipa::path(post, path = "/requests/query", tag = "requests", operation_id = "query_request",
    request_body(content = String, content_type = "text/plain", description = "Click configurations, links and requirements, or requirements alone."),
    responses(
        (status = 200, body = RequestAnswer, description = "What would be answered."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request is wrong."),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The request is too long."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It would be refused: what does not hold, on which platform."),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "Who asks has asked too often; it says when they may again."),
        (status = 501, body = Problem, content_type = "application/problem+json", description = "This controller takes no requests."),
    ))]
pub(super) async fn query(
    State(app): State<App>,
    caller: Caller,
    body: Received,
) -> Result<Json<RequestAnswer>, Problem> {
    caller.may(&Action::PlanGraph(new(&caller)))?;
    Ok(Json(app.query(&written(body)?, caller.principal().tenant()).await?))
}

/// Ends a request.
#[utoipa::path(delete, path = "/requests/{id}", tag = "requests", operation_id = "end_request",
    params(("id" = String, Path, description = "The request's identifier.")),
    responses(
        (status = 204, description = "It is ended."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such request."),
    ))]
pub(super) async fn end(
    State(app): State<App>,
    caller: Caller,
    Path(asked): Path<String>,
) -> Result<StatusCode, Problem> {
    let (number, kept) = find(&app, &caller, &asked)?;
    caller.may(&Action::DeleteGraph(Graph { id: &asked, tenant: kept.answer.tenant.as_deref() }))?;
    to_the_end(async move { app.end_request(number, caller.principal()).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What modules of requests have taken, those that run and those that ended in the last 400 days. Tenants get theirs.
#[utoipa::path(get, path = "/accounting", tag = "requests", operation_id = "accounting", params(Which), responses(
    (status = 200, body = AccountingList, description = "The records."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter is wrong."),
))]
pub(super) async fn accounting(
    State(app): State<App>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<AccountingList>, Problem> {
    caller.may(&Action::ListGraphs)?;
    let before = |_| {
        Problem::new(StatusCode::BAD_REQUEST, "since: it is in seconds since the epoch, and not negative")
    };
    let since = u64::try_from(which.since.unwrap_or_default()).map_err(before)?;
    let accounts = app.blocking(move |s| s.accounts_since(since)).await?;
    let at = now();
    let records = accounts.into_iter().map(|(ended, account)| account.record(ended, at));
    let seen = records.filter(|r| {
        let graph = Graph { id: &r.request, tenant: r.tenant.as_deref() };
        which.request.as_ref().is_none_or(|id| r.request == *id) && caller.can(&Action::ReadGraph(graph))
    });
    Ok(Json(AccountingList { records: seen.collect() }))
}
