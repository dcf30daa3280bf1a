//! Routes of the revisions of graphs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use weir_api::graphs::Changed;
use weir_api::history::{History, RevisionDetails};
use weir_api::problem::Problem;
use weir_auth::Action;
use weir_rest::extract::{Path, Query};
use weir_rest::history::{RollBackOptions, find, list as kept, note, nothing_to_confirm};
use weir_rest::login::Caller;
use weir_rest::precondition::Precondition;
use weir_rest::to_the_end;
use weir_store::history::Note;

use super::{App, entry};
use crate::desired::DesiredGraph;
use crate::node::How;
use crate::rest::graphs::{apply, owner, readable};

/// The revisions of a graph that are kept, newest first: who applied them, when and why.
#[utoipa::path(get, path = "/graphs/{id}/revisions", tag = "graphs", operation_id = "history", params(("id" = String, Path, description = "The graph's identifier.")), responses(
    (status = 200, body = History, description = "The revisions."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph."),
))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<History>, Problem> {
    let current = readable(&app, &caller, &id)?.revision;
    kept(app.store.database(), &caller, &id, current).await.map(Json)
}

/// A revision of a graph with its document.
#[utoipa::path(get, path = "/graphs/{id}/revisions/{revision}", tag = "graphs", operation_id = "revision",
    params(("id" = String, Path, description = "The graph's identifier."), ("revision" = u64, Path, description = "The revision's number.")), responses(
    (status = 200, body = RevisionDetails, description = "The revision."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "That is no number."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph, or no such revision is kept."),
))]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path((id, revision)): Path<(String, u64)>,
) -> Result<Json<RevisionDetails>, Problem> {
    let current = readable(&app, &caller, &id)?.revision;
    let history = kept(app.store.database(), &caller, &id, current).await?;
    let (revision, graph): (_, DesiredGraph) = find(app.store.database(), history, Some(revision)).await?;
    let document = serde_json::json!({ "sffg": graph.shown() });
    let text = graph.text.filter(|_| graph.secrets.is_empty());
    Ok(Json(RevisionDetails { revision, document, text }))
}

/// Applies the document of an earlier revision again, as a new revision; it is checked as any other.
#[utoipa::path(post, path = "/graphs/{id}/rollback", tag = "graphs", operation_id = "roll_back",
    params(("id" = String, Path, description = "The graph's identifier."), RollBackOptions,
    ("If-Match" = Option<String>, Header, description = "Only if the graph has one of these entity tags (in quotes, with commas between; `*`: if it is there).")), responses(
    (status = 200, body = Changed, description = "It was changed, or was so already.", headers(("ETag" = String, description = "The entity tag of the graph that runs now."))),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The query cannot be read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph, or no such revision is kept."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Another graph has an access point of it."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "The condition of the request does not hold. Nothing was changed."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "This node cannot run it any more; what ran before goes on."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn roll_back(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(RollBackOptions { revision, message, confirm }): Query<RollBackOptions>,
    condition: Precondition,
) -> Result<Response, Problem> {
    let e = readable(&app, &caller, &id)?;
    caller.may(&Action::ChangeGraph(e.owned()))?;
    let note = note(&caller, message, confirm)?;
    let history = kept(app.store.database(), &caller, &id, e.revision).await?;
    let (revision, graph): (_, DesiredGraph) = find(app.store.database(), history, revision).await?;
    let document = graph.again(owner(&app, &caller))?;
    let note = Note { same_as: Some(revision.revision), ..note };
    apply(app, caller, document, How { note, ..How::default() }, condition).await
}

/// Keeps a graph that would go back by itself.
#[utoipa::path(post, path = "/graphs/{id}/confirm", tag = "graphs", operation_id = "confirm", params(("id" = String, Path, description = "The graph's identifier.")), responses(
    (status = 204, description = "It stays."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "It would have stayed anyway: it was not applied with a time to confirm it, or that is over."),
))]
pub(super) async fn confirm(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::ChangeGraph(e.owned()))?;
    let name = id.clone();
    let confirmed = to_the_end(async move { app.confirm_graph(&name).await }).await?;
    let revision = confirmed.ok_or_else(|| nothing_to_confirm(&id))?;
    caller.summary(format!("revision {revision} is confirmed"));
    Ok(StatusCode::NO_CONTENT)
}
