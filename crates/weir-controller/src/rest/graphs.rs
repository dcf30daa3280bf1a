//! Routes of graphs, as a node has them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use weir_api::BASE;
use weir_api::graphs::{AppliedGraph, AppliedList, GraphSummary, ListOutcome, RemovedLater};
use weir_api::plan::Plan;
use weir_api::problem::{Mistake, Problem};
use weir_api::status::{GraphStatus, State as Life};
use weir_auth::{Action, Graph, Principal};
use weir_model::value::Id;
use weir_rest::body::{Document, Listed, Received, document, documents, without_scripts};
use weir_rest::extract::{Path, Query};
use weir_rest::history::note;
use weir_rest::login::Caller;
use weir_rest::precondition::Precondition;
use weir_rest::to_the_end;
use weir_store::history::{Confirm, Note};

use super::App;
use super::whole::{self, add, badness, join_links};
use crate::changes::tag;
use crate::facts::without_others;
use crate::fleet::{FleetError, segment};
use crate::requests;
use crate::store::Stored;

/// Where, and how, a graph is applied.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// The node.
    node: Option<String>,
    /// Of a list: each by itself.
    #[serde(default)]
    each: bool,
    /// Taken for the sake of nodes' clients: handler writes beside the document are the node's.
    #[serde(default)]
    #[allow(dead_code, reason = "a graph that is as asked for is left alone")]
    again: bool,
    /// Why.
    message: Option<String>,
    /// It goes back after so many seconds, unless it is confirmed.
    confirm: Option<u32>,
}

/// What the nodes say of their graphs, by graph.
async fn said(app: &App) -> BTreeMap<String, Vec<(String, GraphSummary)>> {
    let mut asked = tokio::task::JoinSet::new();
    for node in app.fleet.names() {
        let fleet = app.fleet.clone();
        asked.spawn(async move {
            let list: Result<Vec<GraphSummary>, _> = fleet.call(&node, Method::GET, "/graphs", None).await;
            (node, list)
        });
    }
    let mut said: BTreeMap<String, Vec<(String, GraphSummary)>> = BTreeMap::new();
    while let Some(answer) = asked.join_next().await {
        let Ok((node, Ok(list))) = answer else { continue };
        for graph in list {
            said.entry(graph.id.clone()).or_default().push((node.clone(), graph));
        }
    }
    said
}

/// All graphs.
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Vec<GraphSummary>>, Problem> {
    caller.may(&Action::ListGraphs)?;
    let (said, view) = (said(&app).await, app.view());
    let summary = |(id, stored): (&String, &Stored)| {
        let of: Vec<&(String, GraphSummary)> = said.get(id).into_iter().flatten().collect();
        let parts: Vec<(&String, Option<&GraphSummary>)> = stored
            .graph
            .parts
            .keys()
            .map(|node| (node, of.iter().find(|(n, _)| n == node).map(|(_, g)| g)))
            .collect();
        let text = |key: &str| stored.graph.document.get(key)?.as_str().map(str::to_owned);
        let functions = stored.graph.document.get("SFs").and_then(Value::as_array).map_or(0, Vec::len);
        GraphSummary {
            id: id.clone(),
            name: text("name").unwrap_or_default(),
            tenant: stored.graph.tenant.clone(),
            revision: stored.revision,
            tag: tag(stored),
            node: Some(stored.graph.parts.keys().cloned().collect::<Vec<_>>().join(", ")),
            owner: None,
            functions,
            state: state(&app, id, &parts),
            drift: parts.iter().filter_map(|(_, g)| g.map(|g| g.drift)).sum(),
            zones: parts.iter().filter_map(|(_, g)| *g).flat_map(|g| g.zones.clone()).collect(),
        }
    };
    let seen = view.graphs.iter().filter(|(id, g)| caller.can(&Action::ListGraph(g.graph.owned(id))));
    Ok(Json(seen.map(summary).collect()))
}

/// The state of a graph from those of its parts: the worst of them.
fn state(app: &App, id: &str, parts: &[(&String, Option<&GraphSummary>)]) -> Life {
    let part = |(node, said): &(&String, Option<&GraphSummary>)| match said {
        None if app.fleet.get(node).is_none() => offline(app, id, node),
        None => Life::Failed { reason: format!("node '{node}' does not have it") },
        Some(g) if parts.len() == 1 => g.state.clone(),
        Some(g) => match &g.state {
            Life::Degraded { reason } => Life::Degraded { reason: format!("node '{node}': {reason}") },
            Life::Failed { reason } => Life::Failed { reason: format!("node '{node}': {reason}") },
            other => other.clone(),
        },
    };
    parts.iter().map(part).max_by_key(badness).unwrap_or(Life::Stopped)
}

/// The state of a part whose node is not there.
fn offline(app: &App, id: &str, node: &str) -> Life {
    let reason = match app.why_not_replaced(id) {
        Some(why) => format!("node '{node}' is lost, and the graph cannot be placed anew: {why}"),
        None => format!("node '{node}' is offline; as far as is known it goes on there"),
    };
    Life::Degraded { reason }
}

/// Creates a graph and runs it.
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Query(options): Query<Options>,
    condition: Precondition,
    headers: HeaderMap,
    body: Received,
) -> Result<Response, Problem> {
    let note = note(&caller, options.message, options.confirm)?;
    apply(app, caller, document(&headers, body)?, options.node, false, condition, note).await
}

/// Creates a graph, or changes it while it runs.
pub(super) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(options): Query<Options>,
    condition: Precondition,
    headers: HeaderMap,
    body: Received,
) -> Result<Response, Problem> {
    let note = note(&caller, options.message, options.confirm)?;
    let document = document(&headers, body)?;
    if document.graph.id.as_str() != id {
        let message =
            format!("the document is of graph '{}', the address of graph '{id}'", document.graph.id);
        let help = "use the same identifier in both".into();
        let mistake = Mistake { path: "sffg.id".into(), message, help, ..Mistake::default() };
        return Err(Problem::new(StatusCode::BAD_REQUEST, "the document has mistakes").with([mistake]));
    }
    apply(app, caller, document, options.node, true, condition, note).await
}

fn to_change(graph: Graph<'_>) -> Action<'_> {
    Action::ChangeGraph(graph)
}

fn to_plan(graph: Graph<'_>) -> Action<'_> {
    Action::PlanGraph(graph)
}

/// A document, as one of who brings it, if they may do that with its graph.
fn owned(
    app: &App,
    caller: &Caller,
    document: Document,
    action: fn(Graph<'_>) -> Action<'_>,
) -> Result<Document, Problem> {
    let (id, named) = (document.graph.id.to_string(), document.graph.tenant.as_ref().map(Id::as_str));
    let tenant = caller.principal().tenant_of_document(&id, named)?;
    if let Some(there) = app.view().graphs.get(&id) {
        caller.may(&action(there.graph.owned(&id)))?;
    }
    caller.may(&action(Graph { id: &id, tenant: tenant.as_deref() }))?;
    if caller.principal().tenant().is_some() {
        without_scripts(&document.graph)?;
    }
    if requests::is_request(&id) {
        let text = format!("'{id}' is the graph of a request: 'weir request' makes and ends such graphs");
        return Err(Problem::new(StatusCode::CONFLICT, text));
    }
    let graph = document.graph.clone().of_tenant(tenant.and_then(|t| t.parse().ok()));
    Ok(Document { graph, ..document })
}

/// What is wrong, without what nodes and others have, for those who may not know it.
fn discreet(knows_others: bool, problem: Problem) -> Problem {
    if knows_others { problem } else { without_others(problem) }
}

pub(super) async fn apply(
    app: App,
    caller: Caller,
    document: Document,
    node: Option<String>,
    change: bool,
    condition: Precondition,
    note: Note,
) -> Result<Response, Problem> {
    let document = owned(&app, &caller, document, to_change)?;
    let id = document.graph.id.to_string();
    if let Some(before) = app.view().graphs.get(&id) {
        caller.before(tag(before));
    }
    let (changing, by) = (app.clone(), caller.principal().clone());
    let knows_others = caller.can(&Action::ReadNodes);
    let put = async move { changing.put(document, node.as_deref(), change, &condition, &by, &note).await };
    let (changed, created) = to_the_end(put).await.map_err(|p| discreet(knows_others, p))?;
    caller.summary(match (created, changed.unchanged) {
        (true, _) => "created",
        (false, false) => "changed",
        (false, true) => "unchanged",
    });
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let revision = changed.revision;
    let mut response = (status, Json(changed)).into_response();
    if created && let Ok(location) = format!("{BASE}/graphs/{id}").parse() {
        response.headers_mut().insert(header::LOCATION, location);
    }
    // Another change may have come in between: its tag is not of what this request made.
    if let Ok(stored) = app.graph(&id)
        && stored.revision == revision
    {
        caller.after(tag(&stored));
        response.headers_mut().insert(header::ETAG, tag_header(&stored)?);
    }
    Ok(response)
}

fn tag_header(stored: &Stored) -> Result<HeaderValue, Problem> {
    HeaderValue::try_from(format!("\"{}\"", tag(stored))).map_err(|_| Problem::internal())
}

/// Creates or changes many graphs. All or none is done by taking back what was done before the one that failed.
pub(super) async fn put_list(
    State(app): State<App>,
    caller: Caller,
    Query(options): Query<Options>,
    headers: HeaderMap,
    body: Received,
) -> Result<Response, Problem> {
    let note = note(&caller, options.message, options.confirm)?;
    let own = |(id, document): Listed| (id, document.and_then(|d| owned(&app, &caller, d, to_change)));
    let items: Vec<Listed> = documents(&headers, body)?.into_iter().map(own).collect();
    let ids: Vec<&str> = items.iter().map(|(id, _)| id.as_str()).collect();
    caller.summary(format!("{} graphs: {}", ids.len(), ids.join(", ")));
    let by = caller.principal().clone();
    let (each, knows_others) = (options.each, caller.can(&Action::ReadNodes));
    if let Some(problem) =
        items.iter().find_map(|(id, d)| d.as_ref().err().map(|p| p.clone().of_graph(id))).filter(|_| !each)
    {
        return Err(problem);
    }
    to_the_end(async move {
        // Nothing else changes while a list is applied, or taken back.
        let _changing = app.at_rest(None).await;
        let before = app.view();
        let unconfirmed = app.blocking(|s| s.database().unconfirmed()).await?;
        let mut graphs: Vec<AppliedGraph> = Vec::new();
        for (id, document) in items {
            let put = match document {
                Ok(d) => {
                    let always = Precondition::default();
                    app.put_alone(d, options.node.as_deref(), true, &always, &by, &note).await
                }
                Err(problem) => Err(problem),
            };
            match put.map_err(|p| discreet(knows_others, p)) {
                Ok((changed, created)) => graphs.push(AppliedGraph {
                    outcome: match (created, changed.unchanged) {
                        (true, _) => ListOutcome::Created,
                        (false, true) => ListOutcome::Unchanged,
                        (false, false) => ListOutcome::Changed,
                    },
                    id,
                    revision: Some(changed.revision),
                    problem: None,
                    warnings: changed.warnings,
                }),
                Err(problem) if each => graphs.push(AppliedGraph {
                    id,
                    outcome: ListOutcome::Refused,
                    revision: None,
                    problem: Some(problem),
                    warnings: Vec::new(),
                }),
                Err(problem) => {
                    for done in graphs.iter().rev().filter(|g| g.outcome != ListOutcome::Unchanged) {
                        let confirm = unconfirmed.iter().find(|p| p.graph == done.id);
                        let confirm = confirm.map_or(Confirm::Final, |p| Confirm::As(p.unconfirmed));
                        take_back(&app, &done.id, before.graphs.get(&done.id), &by, confirm).await;
                    }
                    return Err(problem.of_graph(&id));
                }
            }
        }
        let all = graphs.iter().all(|g| g.problem.is_none());
        let status = if all { StatusCode::OK } else { StatusCode::MULTI_STATUS };
        Ok((status, Json(AppliedList { graphs })).into_response())
    })
    .await
}

/// A graph of a list becomes again what it was before.
async fn take_back(app: &App, id: &str, before: Option<&Stored>, by: &Principal, confirm: Confirm) {
    let always = Precondition::default();
    let done = match before {
        None => app.remove_alone(id, &always, by).await.map(drop),
        Some(stored) => {
            let message = Some("another graph of the list was refused".to_owned());
            let note = Note { message, same_as: Some(stored.revision), confirm, ..Note::default() };
            app.restore(id, stored, &note).await
        }
    };
    if let Err(e) = done {
        tracing::error!("graph {id} could not be taken back: {e}");
    }
}

/// The graph of that identifier, for who may read it. Of others, only those are told that the caller may know.
pub(super) fn readable(app: &App, caller: &Caller, id: &str) -> Result<Stored, Problem> {
    let stored = app.graph_for(id, |g| caller.can(&Action::ListGraph(g)))?;
    caller.may(&Action::ReadGraph(stored.graph.owned(id)))?;
    Ok(stored)
}

/// The document of a graph.
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    condition: Precondition,
) -> Result<Response, Problem> {
    let stored = readable(&app, &caller, &id)?;
    let headers = [(header::ETAG, tag_header(&stored)?)];
    if condition.differs.is_some_and(|tags| tags.fit(Some(&tag(&stored)))) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, Json(serde_json::json!({ "sffg": stored.graph.shown() }))).into_response())
}

/// The document of a graph as it was written.
pub(super) async fn written(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<String, Problem> {
    let graph = readable(&app, &caller, &id)?.graph;
    // In a text a secret cannot be told from the rest.
    let canonical = || format!("{:#}\n", serde_json::json!({ "sffg": graph.shown() }));
    Ok(if graph.secrets.is_empty() { graph.text.clone() } else { canonical() })
}

/// The configurations of a graph's nodes, in the Click language.
pub(super) async fn config(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<String, Problem> {
    let stored = readable(&app, &caller, &id)?;
    let mut whole = String::new();
    for node in stored.graph.parts.keys() {
        let path = format!("/graphs/{}/config", segment(&id));
        let part = app.fleet.bytes(node, Method::GET, &path, None).await?;
        if stored.graph.parts.len() > 1 {
            whole.push_str(&format!("// At node {node}:\n"));
        }
        whole.push_str(&String::from_utf8_lossy(&part));
    }
    Ok(whole)
}

/// Removes a graph.
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    condition: Precondition,
) -> Result<Response, Problem> {
    let left = !app.view().graphs.contains_key(&id) && caller.can(&Action::ChangeNodes);
    if left {
        to_the_end(async move { app.remove(&id, &condition, caller.principal()).await }).await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let stored = app.graph_for(&id, |g| caller.can(&Action::ListGraph(g)))?;
    caller.may(&Action::DeleteGraph(stored.graph.owned(&id)))?;
    caller.before(tag(&stored));
    let graph = id.clone();
    let removed = to_the_end(async move { app.remove(&graph, &condition, caller.principal()).await });
    Ok(match removed.await? {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(reason) => (StatusCode::ACCEPTED, Json(RemovedLater { id, reason })).into_response(),
    })
}

/// State and figures of a graph, of all its nodes together.
pub(super) async fn status(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<GraphStatus>, Problem> {
    let stored = readable(&app, &caller, &id)?;
    let mut whole: Option<GraphStatus> = None;
    let mut away = None;
    for node in stored.graph.parts.keys() {
        let path = format!("/graphs/{}/status", segment(&id));
        let status: GraphStatus = match app.fleet.call(node, Method::GET, &path, None).await {
            Err(FleetError::Offline(node)) => {
                away = Some(offline(&app, &id, &node));
                continue;
            }
            said => said?,
        };
        match &mut whole {
            None => whole = Some(status),
            Some(all) => add(all, status),
        }
    }
    let mut whole = match (whole, &away) {
        (Some(whole), _) => whole,
        (None, Some(Life::Degraded { reason })) => {
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason.as_str()));
        }
        (None, _) => return Err(Problem::internal()),
    };
    if let Some(away) = away.filter(|away| badness(away) > badness(&whole.state)) {
        whole.state = away;
    }
    whole.links = join_links(std::mem::take(&mut whole.links), &stored.graph.tunnels);
    whole.saps.retain(|s| stored.graph.saps.contains_key(&s.id));
    whole.nodes = stored.graph.parts.keys().cloned().collect();
    Ok(Json(whole))
}

/// What a document would change, and where it would go. Nothing is done.
pub(super) async fn plan(
    State(app): State<App>,
    caller: Caller,
    Query(options): Query<Options>,
    headers: HeaderMap,
    body: Received,
) -> Result<Json<Plan>, Problem> {
    let document = owned(&app, &caller, document(&headers, body)?, to_plan)?;
    let id = document.graph.id.to_string();
    let mut admission = app
        .admit(&document, options.node.as_deref(), None)
        .map_err(|p| discreet(caller.can(&Action::ReadNodes), p))?;
    if !caller.can(&Action::ReadNodes) {
        admission.placement.others.clear();
    }
    let explain = admission.explain();
    app.prove(admission.proof).await.map_err(&explain)?;
    let mut plans = Vec::new();
    for (node, part) in &admission.graph.parts {
        let plan = app.plan_part(node, &part.document).await;
        plans.push(plan.map_err(|e| explain(e.into()))?);
    }
    let view = app.view();
    let before = view.graphs.get(&id).map(|g| &g.graph);
    let mut plan = whole::plan(before, &admission.graph, plans).ok_or_else(Problem::internal)?;
    plan.warnings.extend(admission.warnings);
    plan.placement = Some(admission.placement);
    Ok(Json(plan))
}
