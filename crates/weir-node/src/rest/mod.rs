//! The REST interface (COMPOSER paper, section 5.1): service graphs in, status, events, traces and captures out.

mod devices;
mod extract;
mod functions;
mod graphs;
mod log;
mod openapi;
mod problem;
mod streams;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Json, Router};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};
use weir_api::problem::Problem;
use weir_model::graph::{MAX_BODY, ServiceGraph};

use crate::engine::Engine;
use crate::node::{Document, Entry, Node};
use weir_model::nearest::nearest;

/// Most bytes of a list of documents.
pub const MAX_LIST: usize = 64 << 20;

/// A request's body, or why it cannot be had.
type Received = Result<Bytes, BytesRejection>;

/// What handlers get.
pub(crate) type App = Arc<Node<Engine>>;

/// The routes and their description.
fn routes() -> (Router<App>, serde_json::Value) {
    let (router, api) = OpenApiRouter::new()
        .routes(routes!(graphs::list, graphs::create, graphs::put_list))
        .routes(routes!(graphs::get, graphs::put, graphs::delete))
        .routes(routes!(graphs::status))
        .routes(routes!(graphs::config))
        .routes(routes!(graphs::plan))
        .routes(routes!(functions::read, functions::write))
        .routes(routes!(functions::log))
        .routes(routes!(functions::inside))
        .routes(routes!(graphs::written))
        .routes(routes!(functions::images))
        .routes(routes!(functions::image))
        .routes(routes!(devices::list))
        .routes(routes!(devices::domain))
        .routes(routes!(functions::health))
        .routes(routes!(streams::events))
        .routes(routes!(streams::kept))
        .routes(routes!(streams::trace))
        .routes(routes!(streams::capture))
        .routes(routes!(openapi::get))
        .split_for_parts();
    (router, openapi::complete(api))
}

/// The OpenAPI 3.1 description of the interface.
pub fn openapi() -> serde_json::Value {
    routes().1
}

/// The interface to a node.
pub(crate) fn router(app: App) -> Router {
    // The page's scripts are part of this program: it works on a node without the Internet.
    let page = SwaggerUi::new("/docs")
        .config(Config::from("/openapi.json").try_it_out_enabled(true).validator_url("none"));
    routes()
        .0
        .merge(page)
        .fallback(|method: Method, uri: Uri| async move {
            Problem::new(StatusCode::NOT_FOUND, format!("there is no {method} {}; see /docs", uri.path()))
        })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            let detail = format!("{} has no method {method}; see /docs", uri.path());
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
        })
        .layer(DefaultBodyLimit::max(MAX_LIST))
        .layer(from_fn(same_origin))
        .with_state(app)
}

async fn same_origin(request: Request, next: Next) -> Result<Response, Problem> {
    check_origin(&request)?;
    Ok(next.run(request).await)
}

/// Refuses requests that a web page of somewhere else makes through a user's browser: those that say so, and those
/// to a name that was made to point here.
fn check_origin(request: &Request) -> Result<(), Problem> {
    let text = |name| request.headers().get(name).and_then(|v| v.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
    let forbidden = |detail: String| Err(Problem::new(StatusCode::FORBIDDEN, detail));
    let host = text(header::HOST).unwrap_or_default();
    if origin.split_once("://").map(|(_, h)| h) != Some(host) {
        return forbidden(format!("requests from web pages of {origin} are not taken"));
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_ok();
    if !address && name != "localhost" {
        return forbidden(format!("web pages reach this node by its address or localhost, not as {name}"));
    }
    Ok(())
}

/// A graph document of a request's body, JSON or YAML.
fn document(headers: &HeaderMap, body: Received) -> Result<Document, Problem> {
    let body = bytes(body)?;
    let text = text(&body)?;
    let graph = match format(headers) {
        Format::Json => ServiceGraph::from_json(text),
        Format::Yaml => ServiceGraph::from_yaml(text),
        Format::Unknown => ServiceGraph::parse(text),
    };
    let graph = graph.map_err(Problem::from)?;
    Ok(Document { graph, text: Some(text.to_owned()) })
}

/// A document of a list: its identifier (or its place, if it has none), and the graph or what is wrong with it.
type Listed = (String, Result<Document, Problem>);

/// The graph documents of a list in JSON, each a map, or a text in JSON or YAML.
fn documents(headers: &HeaderMap, body: Received) -> Result<Vec<Listed>, Problem> {
    let body = long_bytes(body, MAX_LIST)?;
    let wrong = |what: String| Problem::new(StatusCode::BAD_REQUEST, what);
    if format(headers) == Format::Yaml {
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "give a list of documents as JSON"));
    }
    let list: Vec<serde_json::Value> = serde_json::from_str(text(&body)?)
        .map_err(|e| wrong(format!("the body is no JSON list of documents: {e}")))?;
    let read = |(i, value): (usize, &serde_json::Value)| {
        let id = value.get("sffg").unwrap_or(value).get("id").and_then(|id| id.as_str());
        let id = id.map_or_else(|| format!("number {}", i + 1), str::to_owned);
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let graph = if text.len() > MAX_BODY {
            Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the document is too large; at most {MAX_BODY} bytes are taken"),
            ))
        } else {
            ServiceGraph::parse(&text).map_err(Problem::from)
        };
        let id = graph.as_ref().map_or(id, |g| g.id.to_string());
        (id, graph.map(|graph| Document { graph, text: Some(text) }))
    };
    Ok(list.iter().enumerate().map(read).collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Yaml,
    Unknown,
}

fn format(headers: &HeaderMap) -> Format {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.ends_with("/json") || kind.ends_with("+json") {
        Format::Json
    } else if kind.ends_with("yaml") {
        Format::Yaml
    } else {
        Format::Unknown
    }
}

fn text(body: &Bytes) -> Result<&str, Problem> {
    std::str::from_utf8(body)
        .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not UTF-8 text: {e}")))
}

fn bytes(body: Received) -> Result<Bytes, Problem> {
    long_bytes(body, MAX_BODY)
}

/// A body of at most so many bytes.
fn long_bytes(body: Received, most: usize) -> Result<Bytes, Problem> {
    let large = || {
        let text = format!("the body is too large; at most {most} bytes are taken");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    match body {
        Ok(body) if body.len() > most => Err(large()),
        Ok(body) => Ok(body),
        Err(e) if e.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(large()),
        Err(e) => Err(Problem::new(e.status(), e.body_text())),
    }
}

/// A JSON body of another kind.
fn json<T: serde::de::DeserializeOwned>(body: Received) -> Result<Json<T>, Problem> {
    let body = bytes(body)?;
    let text: &[u8] = if body.is_empty() { b"{}" } else { &body };
    serde_json::from_slice(text)
        .map(Json)
        .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not what is asked for: {e}")))
}

/// The graph of that identifier.
fn entry(app: &App, id: &str) -> Result<Entry, Problem> {
    app.graph(id).ok_or_else(|| {
        let view = app.view();
        let hint = nearest(id, view.graphs.keys().map(String::as_str));
        Problem::new(StatusCode::NOT_FOUND, format!("there is no graph '{id}'{hint}"))
    })
}

/// Runs a change to its end, whether or not the client waits for it.
async fn to_the_end<T: Send + 'static, E: Into<Problem> + Send + 'static>(
    change: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::spawn(change).await {
        Ok(result) => result.map_err(Into::into),
        Err(e) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("internal error: {e}"))),
    }
}
