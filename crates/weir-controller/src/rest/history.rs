//! Routes of the revisions of graphs, as a node has them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use weir_api::history::{History, RevisionDetails};
use weir_api::problem::Problem;
use weir_auth::Action;
use weir_rest::extract::{Path, Query};
use weir_rest::history::{RollBackOptions, find, list as kept, note, nothing_to_confirm};
use weir_rest::login::Caller;
use weir_rest::precondition::Precondition;
use weir_rest::to_the_end;
use weir_store::history::Note;

use super::App;
use super::graphs::{apply, readable};
use crate::store::DomainGraph;

/// The revisions of a graph.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<History>, Problem> {
    let current = readable(&app, &caller, &id)?.revision;
    kept(app.store.database(), &caller, &id, current).await.map(Json)
}

/// A revision with its document.
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path((id, revision)): Path<(String, u64)>,
) -> Result<Json<RevisionDetails>, Problem> {
    let current = readable(&app, &caller, &id)?.revision;
    let history = kept(app.store.database(), &caller, &id, current).await?;
    let (revision, graph): (_, DomainGraph) = find(app.store.database(), history, Some(revision)).await?;
    let document = serde_json::json!({ "sffg": graph.shown() });
    let text = graph.secrets.is_empty().then_some(graph.text);
    Ok(Json(RevisionDetails { revision, document, text }))
}

/// Applies the document of an earlier revision again.
pub(super) async fn roll_back(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(RollBackOptions { revision, message, confirm }): Query<RollBackOptions>,
    condition: Precondition,
) -> Result<Response, Problem> {
    let stored = readable(&app, &caller, &id)?;
    caller.may(&Action::ChangeGraph(stored.graph.owned(&id)))?;
    let note = note(&caller, message, confirm)?;
    let history = kept(app.store.database(), &caller, &id, stored.revision).await?;
    let (revision, graph): (_, DomainGraph) = find(app.store.database(), history, revision).await?;
    let note = Note { same_as: Some(revision.revision), ..note };
    apply(app, caller, graph.again()?, None, true, condition, note).await
}

/// Keeps a graph that would go back by itself.
pub(super) async fn confirm(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let stored = app.graph_for(&id, |g| caller.can(&Action::ListGraph(g)))?;
    caller.may(&Action::ChangeGraph(stored.graph.owned(&id)))?;
    let name = id.clone();
    let confirmed = to_the_end(async move { app.confirm_graph(&name).await }).await?;
    let revision = confirmed.ok_or_else(|| nothing_to_confirm(&id))?;
    caller.summary(format!("revision {revision} is confirmed"));
    Ok(StatusCode::NO_CONTENT)
}
