//! Routes of the domain itself: its nodes, how they join, what happens.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::response::sse::Sse;
use axum::{Extension, Json};
use std::time::SystemTime;
use weir_api::events::{Event, EventList, Kind};
use weir_api::members::{
    Certificate, Drained, DrainedGraph, Hello, JoinRequest, NodeChange, NodeDetails, NodeList, NodeSummary,
    Presence, RenewRequest, Token, TokenRequest, Welcome,
};
use weir_api::node::Health;
use weir_api::problem::Problem;
use weir_auth::secret::{JoinTerms, Secret, Use};
use weir_auth::{Action, Graph};
use weir_rest::body::{Received, json};
use weir_rest::events::{EventStream, KeptOptions};
use weir_rest::extract::{Path, Query};
use weir_rest::listen::Peer;
use weir_rest::login::Caller;
use weir_rest::to_the_end;
use weir_tls::authority::{NodeName, check_name};

use super::App;
use crate::controller::{now, now_ms};
use crate::store::{Member, TokenError};

/// Most nodes that may join by one token, and the longest time that it is good, in seconds.
const TOKEN: (u32, u64) = (10_000, 365 * 86_400);

/// The nodes of the domain.
#[utoipa::path(get, path = "/nodes", tag = "nodes", operation_id = "nodes", responses(
    (status = 200, body = NodeList, description = "The nodes, by name."),
))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<NodeList>, Problem> {
    caller.may(&Action::ReadNodes)?;
    let view = app.view();
    let nodes = view.members.iter().map(|(name, member)| app.summary(&view, name, member)).collect();
    Ok(Json(NodeList { nodes }))
}

/// A node in full.
#[utoipa::path(get, path = "/nodes/{name}", tag = "nodes", operation_id = "node", params(("name" = String, Path, description = "The node's name.")), responses(
    (status = 200, body = NodeDetails, description = "The node."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such node."),
))]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<NodeDetails>, Problem> {
    caller.may(&Action::ReadNodes)?;
    app.details(&name).map(Json)
}

/// Says whether a node gets new graphs.
#[utoipa::path(put, path = "/nodes/{name}", tag = "nodes", operation_id = "change_node", params(("name" = String, Path, description = "The node's name.")),
    request_body = NodeChange, responses(
    (status = 200, body = NodeSummary, description = "The node as it is now."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such node."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn change(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    body: Received,
) -> Result<Json<NodeSummary>, Problem> {
    caller.may(&Action::ChangeNodes)?;
    let NodeChange { cordoned } = json(body)?.0;
    caller.summary(format!("{name}: cordoned {cordoned}"));
    app.member(&name)?;
    let (node, changed) = (name.clone(), app.clone());
    to_the_end(async move { changed.cordon(&node, cordoned).await }).await?;
    Ok(Json(app.summary(&app.view(), &name, &app.member(&name)?)))
}

/// Forgets a node: its connection and its certificate are not taken any more.
#[utoipa::path(delete, path = "/nodes/{name}", tag = "nodes", operation_id = "delete_node", params(("name" = String, Path, description = "The node's name.")), responses(
    (status = 204, description = "It is forgotten."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such node."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "Graphs are to run there."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.may(&Action::ChangeNodes)?;
    caller.summary(format!("{name}: forgotten"));
    to_the_end(async move { app.remove_node(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Cordons a node, and moves its graphs to other nodes that can take them. State of functions does not move with them.
#[utoipa::path(post, path = "/nodes/{name}/drain", tag = "nodes", operation_id = "drain_node", params(("name" = String, Path, description = "The node's name.")), responses(
    (status = 200, body = Drained, description = "What became of each of its graphs."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such node."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn drain(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Drained>, Problem> {
    caller.may(&Action::ChangeNodes)?;
    caller.summary(format!("{name}: drained"));
    app.member(&name)?;
    to_the_end(async move {
        app.cordon(&name, true).await?;
        let mut graphs = Vec::new();
        for id in app.details(&name)?.placed {
            let moved = app.move_away(&id, &name).await;
            let (node, reason) = match moved {
                Ok(node) => (Some(node), None),
                Err(problem) => (None, Some(problem.to_string())),
            };
            graphs.push(DrainedGraph { id, node, reason });
        }
        Ok::<_, Problem>(Json(Drained { graphs }))
    })
    .await
}

/// Makes a token by which nodes join. It is told once.
#[utoipa::path(post, path = "/tokens", tag = "nodes", operation_id = "create_token", request_body = TokenRequest, responses(
    (status = 201, body = Token, description = "The token."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn token(
    State(app): State<App>,
    caller: Caller,
    body: Received,
) -> Result<impl IntoResponse, Problem> {
    caller.may(&Action::MakeJoinTokens)?;
    if body.as_ref().is_ok_and(axum::body::Bytes::is_empty) {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "the body says what the token is for; {} is for one node and an hour",
        ));
    }
    let TokenRequest { uses, seconds } = json(body)?.0;
    let (most, longest) = TOKEN;
    if !(1..=most).contains(&uses) || !(1..=longest).contains(&seconds) {
        let text = format!("a token is for 1 to {most} nodes, and good for 1 to {longest} seconds");
        return Err(Problem::new(StatusCode::BAD_REQUEST, text));
    }
    let secret = Secret::generate(Use::Join).map_err(|_| Problem::internal())?;
    let now = now();
    let terms = JoinTerms { hash: secret.hash(), expires: now + seconds, uses };
    let expires = terms.expires;
    app.blocking(move |s| s.keep_token(&terms, now)).await?;
    let token = Token { token: format!("{}@{}", secret.reveal(), app.authority.pin()), expires };
    Ok((StatusCode::CREATED, Json(token)))
}

/// A node joins: it gets its certificate.
#[utoipa::path(post, path = "/nodes/join", tag = "nodes", operation_id = "join", request_body = JoinRequest, responses(
    (status = 200, body = Certificate, description = "It has joined."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "The token is not good."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "There is a node of this name."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn join(State(app): State<App>, body: Received) -> Result<Json<Certificate>, Problem> {
    let JoinRequest { name, secret, request } = json(body)?.0;
    let wrong = |text: String| Problem::new(StatusCode::BAD_REQUEST, text);
    check_name(&name).map_err(wrong)?;
    let refused = |text: String| Problem::new(StatusCode::FORBIDDEN, text);
    let secret = Secret::parse(&secret).ok_or_else(|| refused("the join token is none".into()))?;
    let node_name = NodeName::new(&name).map_err(|_| Problem::internal())?;
    let chain = app.authority.node(&request, &node_name, SystemTime::now(), app.certificates);
    let chain = chain.map_err(|e| wrong(e.to_string()))?;
    let certificate = now() + app.certificates.as_secs();
    let member = Member { number: node_name.number.clone(), joined: now_ms(), certificate, cordoned: false };
    let (node, kept) = (name.clone(), member.clone());
    let joined = app.blocking(move |s| Ok::<_, Problem>(s.join(&secret, now(), &node, &kept))).await?;
    match joined {
        Ok(()) => {}
        Err(TokenError::Refused(e)) => return Err(refused(e.to_string())),
        Err(TokenError::Taken) => {
            let text = format!(
                "there is a node '{name}' already; choose another --name, or remove that one first (weir forget {name})"
            );
            return Err(Problem::new(StatusCode::CONFLICT, text));
        }
        Err(TokenError::Store(e)) => return Err(e.into()),
    }
    app.edit(|v| v.members.insert(name.clone(), member));
    app.tell(Kind::NodeJoined, Some(&name), None, "").await;
    Ok(Json(Certificate { chain }))
}

/// The node that has shown its certificate.
fn shown(app: &App, peer: &Peer) -> Result<(NodeName, Member), Problem> {
    let refused = |text: &str| Problem::new(StatusCode::FORBIDDEN, text);
    let node = peer.node.clone().ok_or_else(|| refused("this is for nodes, which show their certificate"))?;
    let name = node.name.clone();
    // One of the same name that joined later is another one.
    let member = app.view().members.get(&name).filter(|m| m.number == node.number).cloned();
    let member = member.ok_or_else(|| {
        refused(&format!(
            "node '{name}' was removed from the domain; start it with a token (weir node --join … --token) to join again"
        ))
    })?;
    Ok((node, member))
}

/// A node gets another certificate before its one is over.
#[utoipa::path(post, path = "/nodes/renew", tag = "nodes", operation_id = "renew", request_body = RenewRequest, responses(
    (status = 200, body = Certificate, description = "The certificate."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "No node asks."),
    (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
))]
pub(super) async fn renew(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    body: Received,
) -> Result<Json<Certificate>, Problem> {
    let (node, _) = shown(&app, &peer)?;
    let RenewRequest { request } = json(body)?.0;
    let chain = app.authority.node(&request, &node, SystemTime::now(), app.certificates);
    let chain = chain.map_err(|e| Problem::new(StatusCode::BAD_REQUEST, e.to_string()))?;
    app.renewed(&node.name, now() + app.certificates.as_secs()).await?;
    Ok(Json(Certificate { chain }))
}

/// A node says that it is about to make its connection, and hears if it would not be taken.
#[utoipa::path(post, path = "/nodes/hello", tag = "nodes", operation_id = "hello", request_body = Hello, responses(
    (status = 200, body = Welcome, description = "It would be taken."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
    (status = 403, body = Problem, content_type = "application/problem+json", description = "No node asks, or it was removed."),
    (status = 409, body = Problem, content_type = "application/problem+json", description = "The node is connected already."),
))]
pub(super) async fn hello(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    body: Received,
) -> Result<Json<Welcome>, Problem> {
    let (NodeName { name, .. }, _) = shown(&app, &peer)?;
    let Hello { version } = json(body)?.0;
    let own = env!("CARGO_PKG_VERSION");
    // Before 1.0 anything may change with the second number.
    let series = |v: &str| v.split('.').take(2).map(str::to_owned).collect::<Vec<_>>();
    if series(&version) != series(own) {
        let text = format!(
            "node '{name}' has version {version}, and this controller {own}: bring both to one series"
        );
        return Err(Problem::new(StatusCode::CONFLICT, text));
    }
    if let Some(connected) = app.fleet.get(&name)
        && app.fleet.is_alive(&name).await
    {
        let text = format!(
            "node '{name}' is connected already, from {}: two machines have its certificate",
            connected.address
        );
        return Err(Problem::new(StatusCode::CONFLICT, text));
    }
    Ok(Json(Welcome { version: own.to_owned() }))
}

/// How the controller is.
pub(super) async fn health(State(app): State<App>) -> Json<Health> {
    let view = app.view();
    let summaries = view.members.iter().map(|(name, member)| app.summary(&view, name, member));
    let failed = summaries.filter(|n| n.state == Presence::Online).map(|n| n.trouble.len()).sum();
    Json(Health {
        version: env!("CARGO_PKG_VERSION").into(),
        ready: true,
        trouble: None,
        controller: None,
        graphs: view.graphs.len(),
        failed,
    })
}

/// What happens in the domain, as far as the caller may see it.
pub(super) async fn events(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Sse<EventStream>, Problem> {
    caller.may(&Action::ReadEvents)?;
    let login = app.login.clone();
    let visible = move |event: &Event| login.is_known(caller.principal()) && seen(&caller, event);
    weir_rest::events::stream(&app.events, &headers, visible)
}

/// The newest events of those that are kept.
pub(super) async fn kept(
    State(app): State<App>,
    caller: Caller,
    Query(options): Query<KeptOptions>,
) -> Result<Json<EventList>, Problem> {
    caller.may(&Action::ReadEvents)?;
    weir_rest::events::kept(&app.events, options, move |event| seen(&caller, event)).await.map(Json)
}

/// Whether somebody may see an event: it is of a graph that was theirs when it happened.
fn seen(caller: &Caller, event: &Event) -> bool {
    match &event.graph {
        Some(id) => caller.can(&Action::ReadGraph(Graph { id, tenant: event.tenant.as_deref() })),
        None => caller.can(&Action::ReadNodeEvents),
    }
}
