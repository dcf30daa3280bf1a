//! Routes of graphs.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use weir_api::BASE;
use weir_api::graphs::{AppliedGraph, AppliedList, Changed, GraphSummary, ListOutcome, RemovedLater};
use weir_api::plan::Plan;
use weir_api::problem::{Mistake, Problem};
use weir_api::status::GraphStatus;
use weir_auth::{Action, Graph};
use weir_model::value::Id;
use weir_protocol::{Answer, Command};
use weir_rest::body::{Document, Listed, Received, document, documents, without_scripts};
use weir_rest::extract::{Path, Query};
use weir_rest::history::note;
use weir_rest::login::Caller;
use weir_rest::precondition::Precondition;
use weir_rest::to_the_end;

use super::{App, entry};
use crate::connection::DataPlane;
use crate::desired::{DesiredGraph, FunctionRuntime};
use crate::expand::Composed;
use crate::instance::InstanceId;
use crate::node::{Applied, ApplyError, Entry, How, Outcome};
use crate::{mtu, plan, preflight, traffic};

/// As whom the sender of a request owns graphs: nobody, if it is not the controller.
pub(super) fn owner(app: &App, caller: &Caller) -> Option<String> {
    if caller.is_controller() { app.membership.owner() } else { None }
}

/// All graphs.
#[utoipa::path(get, path = "/graphs", tag = "graphs", responses((status = 200, body = Vec<GraphSummary>, description = "The graphs, by identifier.")))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Vec<GraphSummary>>, Problem> {
    caller.may(&Action::ListGraphs)?;
    let view = app.view();
    let mut states = app.states(view.known().map(|(id, _)| id.as_str())).await;
    let text = |document: &serde_json::Value, key: &str| document.get(key)?.as_str().map(str::to_owned);
    let summary = |(id, e): (&String, &crate::node::Entry)| GraphSummary {
        id: id.clone(),
        name: text(&e.graph.document, "name").unwrap_or_default(),
        tenant: text(&e.graph.document, "tenant"),
        revision: e.revision,
        tag: e.tag(),
        node: None,
        owner: e.graph.owner.clone(),
        functions: shown_functions(&e.graph),
        state: states.remove(id).unwrap_or(weir_api::status::State::Starting),
        drift: app.drift_of(id).len(),
        zones: app.entered_zones(id),
    };
    let seen = view.known().filter(|(_, e)| caller.can(&Action::ListGraph(e.owned())));
    Ok(Json(seen.map(summary).collect()))
}

/// How many functions run, without what stands for ports of those that are made of functions.
fn shown_functions(graph: &DesiredGraph) -> usize {
    graph.functions.iter().filter(|f| !Composed::has_port(&graph.composed, &f.id)).count()
}

/// Creates a graph and runs it.
#[utoipa::path(post, path = "/graphs", tag = "graphs", params(CreateOptions), responses(
    (status = 201, body = Changed, description = "It runs.", headers(("ETag" = String, description = "The entity tag of the graph that runs now."))),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The document has mistakes."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "There is such a graph, or another has an access point of it."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "The condition of the request does not hold. Nothing was changed."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The document is too large."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "This node cannot run it."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Query(CreateOptions { message, confirm }): Query<CreateOptions>,
    condition: Precondition,
    headers: HeaderMap,
    body: Received,
) -> Result<Response, Problem> {
    let note = note(&caller, message, confirm)?;
    let graph = Document { owner: owner(&app, &caller), ..document(&headers, body)?.on_one_node()? };
    apply(app, caller, graph, How { change: false, note, ..How::default() }, condition).await
}

/// How a new graph is applied.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CreateOptions {
    /// Why: kept with the revision.
    message: Option<String>,
    /// The graph is removed again after so many seconds, unless it is confirmed.
    #[param(minimum = 1, maximum = 86400)]
    confirm: Option<u32>,
}

/// How a list of documents is applied.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListOptions {
    /// Whether each graph is applied by itself; otherwise all are, or none.
    #[serde(default)]
    each: bool,
    /// Whether graphs are applied again that are as asked for, so that handlers that were written beside the document are
    /// as the document says.
    #[serde(default)]
    again: bool,
    /// Why: kept with the revisions.
    message: Option<String>,
    /// The graphs go back after so many seconds to what was confirmed last, each unless it is confirmed; without this they stay.
    #[param(minimum = 1, maximum = 86400)]
    confirm: Option<u32>,
}

/// Creates or changes many graphs while they run: all or none, or each by itself. The body is a list of documents.
#[utoipa::path(put, path = "/graphs", tag = "graphs", operation_id = "put_list", params(ListOptions), responses(
    (status = 200, body = AppliedList, description = "All were applied."),
    (status = 207, body = AppliedList, description = "Each was tried by itself, and some were refused."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The list, or a document of it, has mistakes."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Another graph has an access point of one of them. Nothing was changed."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The list is too large."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "This node cannot run one of them. Nothing was changed."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn put_list(
    State(app): State<App>,
    caller: Caller,
    Query(ListOptions { each, again, message, confirm }): Query<ListOptions>,
    headers: HeaderMap,
    body: Received,
) -> Result<Response, Problem> {
    let note = note(&caller, message, confirm)?;
    let owner = owner(&app, &caller);
    let own = |(id, document): Listed| {
        let document = document.and_then(Document::on_one_node);
        let document = document.map(|d| Document { owner: owner.clone(), ..d });
        (id, document.and_then(|d| owned(&app, &caller, d, change)))
    };
    let items: Vec<Listed> = documents(&headers, body)?.into_iter().map(own).collect();
    let ids: Vec<&str> = items.iter().map(|(id, _)| id.as_str()).collect();
    caller.summary(format!("{} graphs: {}", ids.len(), ids.join(", ")));
    let wrong = items.iter().find_map(|(id, d)| d.as_ref().err().map(|p| p.clone().of_graph(id)));
    if let Some(problem) = wrong.filter(|_| !each) {
        return Err(problem);
    }
    let good: Vec<Document> = items.iter().filter_map(|(_, d)| d.as_ref().ok().cloned()).collect();
    let how = How { by: caller.principal().clone(), change: true, together: !each, again, note };
    let node = app.clone();
    let done = tokio::spawn(async move { node.put_all(good, how).await }).await;
    let done = done.map_err(|e| ApplyError::Internal(e.to_string()))?;
    if !each
        && let Some(i) = done.iter().position(|o| matches!(o, Err(e) if !matches!(e, ApplyError::Together)))
    {
        let error = done.into_iter().nth(i).and_then(Result::err);
        let id = items.get(i).map_or("", |(id, _)| id);
        return Err(error.map_or_else(Problem::internal, Problem::from).of_graph(id));
    }
    let mut done = done.into_iter();
    let mut graphs = Vec::new();
    for (id, document) in items {
        let outcome =
            document.and_then(|_| done.next().unwrap_or(Err(ApplyError::Together)).map_err(Problem::from));
        graphs.push(match outcome {
            Ok(applied) => AppliedGraph {
                id,
                outcome: applied.outcome.into(),
                revision: Some(applied.revision),
                problem: None,
                warnings: Vec::new(),
            },
            Err(p) => AppliedGraph {
                id,
                outcome: ListOutcome::Refused,
                revision: None,
                problem: Some(p),
                warnings: Vec::new(),
            },
        });
    }
    for g in graphs.iter_mut().filter(|g| g.problem.is_none()) {
        g.warnings = app.graph(&g.id).map(|e| mtu::told(&e.graph)).unwrap_or_default();
    }
    let all = graphs.iter().all(|g| g.problem.is_none());
    let status = if all { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    Ok((status, Json(AppliedList { graphs })).into_response())
}

impl From<Outcome> for ListOutcome {
    fn from(outcome: Outcome) -> ListOutcome {
        match outcome {
            Outcome::Created => ListOutcome::Created,
            Outcome::Changed => ListOutcome::Changed,
            Outcome::Unchanged => ListOutcome::Unchanged,
        }
    }
}

/// How one document is applied.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PutOptions {
    /// Whether the graph is applied again even if it is as asked for, so that handlers that were written beside the
    /// document are as the document says.
    #[serde(default)]
    again: bool,
    /// Why: kept with the revision.
    message: Option<String>,
    /// The graph goes back after so many seconds to what was confirmed last, unless it is confirmed; without this it stays.
    #[param(minimum = 1, maximum = 86400)]
    confirm: Option<u32>,
}

/// Creates a graph, or changes it while it runs.
#[utoipa::path(put, path = "/graphs/{id}", tag = "graphs", params(("id" = String, Path, description = "The graph's identifier."), PutOptions,
    ("If-Match" = Option<String>, Header, description = "Only if the graph has one of these entity tags (in quotes, with commas between; `*`: if it is there)."),
    ("If-None-Match" = Option<String>, Header, description = "Only if the graph has none of these entity tags (`*`: if it is not there).")), responses(
    (status = 200, body = Changed, description = "It was changed, or was so already.", headers(("ETag" = String, description = "The entity tag of the graph that runs now."))),
    (status = 201, body = Changed, description = "It is new.", headers(("ETag" = String, description = "The entity tag of the graph that runs now."))),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The document has mistakes."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Another graph has an access point of it."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "The condition of the request does not hold. Nothing was changed."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The document is too large."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "This node cannot run it; what ran before goes on."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(PutOptions { again, message, confirm }): Query<PutOptions>,
    condition: Precondition,
    headers: HeaderMap,
    body: Received,
) -> Result<Response, Problem> {
    let note = note(&caller, message, confirm)?;
    let graph = Document { owner: owner(&app, &caller), ..document(&headers, body)?.on_one_node()? };
    if graph.graph.id.as_str() != id {
        let mut problem = Problem::new(StatusCode::BAD_REQUEST, "the document has mistakes");
        problem.errors.push(Mistake {
            path: "sffg.id".into(),
            message: format!("the document is of graph '{}', the address of graph '{id}'", graph.graph.id),
            help: "use the same identifier in both".into(),
            ..Mistake::default()
        });
        return Err(problem);
    }
    apply(app, caller, graph, How { again, note, ..How::default() }, condition).await
}

fn change(graph: Graph<'_>) -> Action<'_> {
    Action::ChangeGraph(graph)
}

fn plan_of(graph: Graph<'_>) -> Action<'_> {
    Action::PlanGraph(graph)
}

/// A document, as one of who brings it, if they may do that with its graph. Whose graph is there, is looked at again when it is changed.
fn owned(
    app: &App,
    caller: &Caller,
    document: Document,
    action: fn(Graph<'_>) -> Action<'_>,
) -> Result<Document, Problem> {
    let (id, named) = (document.graph.id.to_string(), document.graph.tenant.as_ref().map(Id::as_str));
    let tenant = caller.principal().tenant_of_document(&id, named)?;
    if let Some(there) = app.graph(&id) {
        caller.may(&action(there.owned()))?;
    }
    caller.may(&action(Graph { id: &id, tenant: tenant.as_deref() }))?;
    if caller.principal().tenant().is_some() {
        without_scripts(&document.graph)?;
    }
    let graph = document.graph.clone().of_tenant(tenant.and_then(|t| t.parse().ok()));
    Ok(Document { graph, ..document })
}

pub(super) async fn apply(
    app: App,
    caller: Caller,
    graph: Document,
    how: How,
    condition: Precondition,
) -> Result<Response, Problem> {
    let graph = owned(&app, &caller, graph, change)?;
    let how = How { by: caller.principal().clone(), ..how };
    let id = graph.graph.id.to_string();
    if let Some(before) = app.graph(&id) {
        caller.before(before.tag());
    }
    let node = app.clone();
    let applied = to_the_end(async move { node.put(graph, how, &condition).await }).await?;
    let Applied { revision, outcome } = applied;
    let created = outcome == Outcome::Created;
    caller.summary(match outcome {
        Outcome::Created => "created",
        Outcome::Changed => "changed",
        Outcome::Unchanged => "unchanged",
    });
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("{BASE}/graphs/{id}");
    let warnings = app.graph(&id).map(|e| mtu::told(&e.graph)).unwrap_or_default();
    let unchanged = outcome == Outcome::Unchanged;
    let changed = Changed { id: id.clone(), revision, unchanged, warnings };
    let mut response = (status, Json(changed)).into_response();
    if created && let Ok(location) = location.parse() {
        response.headers_mut().insert(header::LOCATION, location);
    }
    // Another change may have come in between: its tag is not of what this request made.
    if let Some(entry) = app.graph(&id).filter(|e| e.revision == revision) {
        caller.after(entry.tag());
        response.headers_mut().insert(header::ETAG, tag_header(&entry)?);
    }
    Ok(response)
}

/// The graph of that identifier, for who may read it.
pub(super) fn readable(app: &App, caller: &Caller, id: &str) -> Result<Entry, Problem> {
    let e = entry(app, caller, id)?;
    caller.may(&Action::ReadGraph(e.owned()))?;
    Ok(e)
}

fn tag_header(entry: &Entry) -> Result<HeaderValue, Problem> {
    HeaderValue::try_from(format!("\"{}\"", entry.tag())).map_err(|_| Problem::internal())
}

/// The document of a graph.
#[utoipa::path(get, path = "/graphs/{id}", tag = "graphs", params(("id" = String, Path, description = "The graph's identifier."),
    ("If-None-Match" = Option<String>, Header, description = "Entity tags of documents that the client has.")), responses(
    (status = 200, description = "The document.", headers(("ETag" = String, description = "The entity tag of the graph that runs now."))),
    (status = 304, description = "The client has it."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The condition cannot be read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph."),
))]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    condition: Precondition,
) -> Result<Response, Problem> {
    let e = readable(&app, &caller, &id)?;
    let tag = [(header::ETAG, tag_header(&e)?)];
    if condition.differs.is_some_and(|tags| tags.fit(Some(&e.tag()))) {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    let document = serde_json::json!({ "sffg": e.graph.shown() });
    Ok((tag, Json(document)).into_response())
}

/// The document of a graph as it was written when it was applied last, with its comments.
#[utoipa::path(get, path = "/graphs/{id}/document", tag = "graphs", params(("id" = String, Path, description = "The graph's identifier.")), responses(
    (status = 200, body = String, content_type = "text/plain", description = "The text, in YAML or JSON."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph."),
))]
pub(super) async fn written(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<String, Problem> {
    let graph = readable(&app, &caller, &id)?.graph;
    // Stores of earlier versions kept what it says only; and in a text a secret cannot be told from the rest.
    let canonical = || format!("{:#}\n", serde_json::json!({ "sffg": graph.shown() }));
    Ok(graph.text.clone().filter(|_| graph.secrets.is_empty()).unwrap_or_else(canonical))
}

/// Removes a graph.
#[utoipa::path(delete, path = "/graphs/{id}", tag = "graphs", params(("id" = String, Path, description = "The graph's identifier."),
    ("If-Match" = Option<String>, Header, description = "Only if the graph has one of these entity tags (in quotes, with commas between; `*`: if it is there)."),
    ("If-None-Match" = Option<String>, Header, description = "Only if the graph has none of these entity tags (`*`: if it is not there).")), responses(
    (status = 202, body = RemovedLater, description = "It is no longer wanted, and goes when the data plane can be reached again."),
    (status = 204, description = "It is removed."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The condition cannot be read."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph."),
    (status = 412, body = Problem, content_type = "application/problem+json", description = "The condition of the request does not hold. Nothing was changed."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    condition: Precondition,
) -> Result<Response, Problem> {
    // One that is applied for the first time is removed when that has ended.
    let new = app.view().proposed.get(&id).cloned();
    let e = match app.graph(&id).or(new) {
        Some(e) => e,
        None => entry(&app, &caller, &id)?,
    };
    caller.may(&Action::DeleteGraph(e.owned()))?;
    caller.before(e.tag());
    let (graph, owner) = (id.clone(), owner(&app, &caller));
    let remove = async move { app.remove(&graph, &condition, caller.principal(), owner.as_deref()).await };
    Ok(match to_the_end(remove).await? {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(reason) => (StatusCode::ACCEPTED, Json(RemovedLater { id, reason })).into_response(),
    })
}

/// State and figures of a graph. Links whose packets the data plane does not count apart are left out.
#[utoipa::path(get, path = "/graphs/{id}/status", tag = "graphs", params(("id" = String, Path, description = "The graph's identifier.")), responses(
    (status = 200, body = GraphStatus, description = "The status."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
))]
pub(super) async fn status(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<GraphStatus>, Problem> {
    let e = readable(&app, &caller, &id)?;
    let drift = app.drift_of(&id);
    let health = |f: &FunctionRuntime| app.health(&e.graph, f);
    let cores = |f: &FunctionRuntime| app.drivers.get(f.kind).ok()?.cores(&InstanceId::new(&id, &f.id));
    let drops = app.drops(&e.graph).await;
    let state = app.state(&id).await;
    let status = crate::status::status(&*app.plane, &e.graph, state, drift, &health, &cores, &drops);
    let status = status.await?;
    Ok(Json(GraphStatus { monitoring: app.monitoring_of(&id), ..status }))
}

/// The configuration that the data plane runs for a graph, in the Click language.
#[utoipa::path(get, path = "/graphs/{id}/config", tag = "graphs", params(("id" = String, Path, description = "The graph's identifier.")), responses(
    (status = 200, body = String, content_type = "text/plain", description = "The configuration."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph."),
))]
pub(super) async fn config(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<String, Problem> {
    let graph = readable(&app, &caller, &id)?.graph;
    let name = graph.document.get("name").and_then(|n| n.as_str()).unwrap_or_default();
    Ok(format!("// Graph {id}: {}\n{}", name.replace(['\n', '\r'], " "), graph.switch.config))
}

#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PlanOptions {
    /// Whether it is refused for what this machine has not at the moment: interfaces, addresses, programs.
    #[serde(default = "yes")]
    #[param(default = true)]
    machine: bool,
}

const fn yes() -> bool {
    true
}

/// What a document would change: parts, tables, and the packets between access points that would be treated differently.
/// Nothing is done.
#[utoipa::path(post, path = "/plan", tag = "graphs", params(PlanOptions), responses(
    (status = 200, body = Plan, description = "What would change."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The document has mistakes."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Another graph has an access point of it."),
    (status = 413, body = Problem, content_type = "application/problem+json", description = "The document is too large."),
    (status = 422, body = Problem, content_type = "application/problem+json", description = "This node cannot run it."),
))]
pub(super) async fn plan(
    State(app): State<App>,
    caller: Caller,
    Query(PlanOptions { machine }): Query<PlanOptions>,
    headers: HeaderMap,
    body: Received,
) -> Result<Json<Plan>, Problem> {
    let document = document(&headers, body)?.on_one_node()?;
    let document = owned(&app, &caller, document, plan_of)?;
    let graph = app.compile(document.graph).await?;
    let old = app.graph(&graph.id).map(|e| e.graph);
    let tables = match app.plane.call(Command::Status { graph: graph.id.clone() }).await {
        Ok(Answer::Status { status }) if old.is_some() => status.tables,
        // A plan for a data plane that is down has no tables to speak of.
        _ => Default::default(),
    };
    if machine {
        let (drivers, old, new) = (app.drivers.clone(), old.clone(), graph.clone());
        let refused =
            tokio::task::spawn_blocking(move || preflight::check(old.as_deref(), &new, &drivers)).await;
        let refused = refused.map_err(|e| crate::node::ApplyError::Internal(e.to_string()))?;
        if !refused.is_empty() {
            return Err(crate::node::ApplyError::Invalid(refused).into());
        }
    }
    let plan = move || Plan {
        traffic: traffic::between(old.as_deref(), &graph),
        warnings: mtu::told(&graph),
        ..plan::plan(old.as_deref(), &graph, &tables)
    };
    let plan = tokio::task::spawn_blocking(plan).await;
    plan.map(Json).map_err(|e| crate::node::ApplyError::Internal(e.to_string()).into())
}
