//! The node's REST interface for a whole domain, and what a domain has beside.

mod graphs;
mod history;
mod joining;
mod links;
mod metrics;
mod moves;
mod nodes;
mod policies;
mod proxy;
mod queries;
mod requests;
mod streams;
#[cfg(test)]
mod who_may;
mod whole;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post, put};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_api::BASE;
use weir_api::problem::Problem;
use weir_rest::body::MAX_LIST;
use weir_rest::login;
use weir_rest::origin::same_origin;

use crate::controller::Controller;

/// The state that handlers share.
type App = Arc<Controller>;

/// The interface of a node, of which this is a superset.
const NODE: &str = include_str!("../../../../docs/openapi.json");
/// Most bytes of what nodes send that join.
const MAX_OPEN: usize = 64 << 10;
/// Where the resources of one node stand.
const AT_A_NODE: &str = "/nodes/{name}/v1/{*path}";

/// The routes that a node has not, and that ask who asks.
fn guarded() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::get, nodes::change, nodes::delete))
        .routes(routes!(nodes::drain))
        .routes(routes!(links::list))
        .routes(routes!(links::put, links::remove))
        .routes(routes!(moves::migrate))
        .routes(routes!(nodes::token))
        .routes(routes!(requests::list, requests::make))
        .routes(routes!(requests::query))
        .routes(routes!(requests::get, requests::end))
        .routes(routes!(requests::accounting))
        .routes(routes!(policies::list))
        .routes(routes!(policies::get, policies::put, policies::remove))
}

/// Those by which nodes join, which show what they have for it themselves.
fn open() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(nodes::join))
        .routes(routes!(nodes::renew))
        .routes(routes!(nodes::hello))
}

/// The OpenAPI 3.1 description of the interface.
pub fn openapi() -> Value {
    let mut api: Value = serde_json::from_str(NODE).unwrap_or_default();
    // What a controller asks of its nodes.
    if let Some(paths) = api["paths"].as_object_mut() {
        paths.remove("/graphs/{id}/move-step");
        paths.remove("/images/{name}/tables");
    }
    api["info"]["title"] = json!("Weir controller");
    api["info"]["description"] = json!(
        "Service graphs on the nodes of a domain: what should run and where, what runs, and what happens."
    );
    let mut closed = guarded().into_openapi();
    let paths: Vec<String> = closed.paths.paths.keys().cloned().collect();
    closed.merge(open().into_openapi());
    let own = serde_json::to_value(closed).unwrap_or_default();
    for part in ["/paths", "/components/schemas"] {
        let more = own.pointer(part).and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(all) = api.pointer_mut(part).and_then(Value::as_object_mut) {
            all.extend(more);
        }
    }
    for path in paths {
        close(&mut api, &path);
    }
    // A controller always asks for a login, but for what nodes send that join.
    api["security"] = json!([{ "token": [] }]);
    for path in open().into_openapi().paths.paths.keys() {
        for (_, operation) in api["paths"][path].as_object_mut().into_iter().flatten() {
            operation["security"] = json!([]);
        }
    }
    api
}

/// Says that a path asks for a login, as the node's do.
fn close(api: &mut Value, path: &str) {
    let refused = api["paths"]["/graphs"]["get"]["responses"].clone();
    for (_, operation) in api["paths"][path].as_object_mut().into_iter().flatten() {
        for status in ["401", "403", "429"] {
            if let Some(response) = refused.get(status) {
                operation["responses"][status] = response.clone();
            }
        }
    }
}

/// The interface to a domain.
pub(crate) fn router(app: App) -> Router {
    let graph = |path: &str| format!("/graphs/{{id}}/{path}");
    let guard = from_fn_with_state(app.login.clone(), login::guard);
    let guarded = Router::from(guarded().merge(login::routes::routes()))
        .route("/graphs", get(graphs::list).post(graphs::create).put(graphs::put_list))
        .route("/graphs/{id}", get(graphs::get).put(graphs::put).delete(graphs::delete))
        .route(&graph("document"), get(graphs::written))
        .route(&graph("revisions"), get(history::list))
        .route(&graph("revisions/{revision}"), get(history::get))
        .route(&graph("rollback"), post(history::roll_back))
        .route(&graph("confirm"), post(history::confirm))
        .route(&graph("life"), put(moves::change_graph))
        .route(&graph("status"), get(graphs::status))
        .route(&graph("config"), get(graphs::config))
        .route(&graph("trace"), post(streams::trace))
        .route(&graph("capture"), post(streams::capture))
        .route(&graph("functions/{function}/handlers/{name}"), get(proxy::read).put(proxy::write))
        .route(&graph("functions/{function}/log"), get(proxy::log))
        .route(&graph("functions/{function}/inside"), get(proxy::inside))
        .route(&graph("functions/{function}/life"), get(moves::life).put(moves::change))
        .route(&graph("functions/{function}/snapshot"), get(moves::snapshot).put(moves::snapshot))
        .route("/plan", post(graphs::plan))
        .route("/images", get(proxy::images))
        .route("/images/{name}", get(proxy::image).put(proxy::put_image).delete(proxy::delete_image))
        .route("/devices", get(proxy::devices))
        .route("/domain", get(proxy::domain))
        .route("/queries", get(queries::list))
        .route("/queries/{name}", get(queries::get).put(queries::put).delete(queries::delete))
        .route("/measure", post(queries::measure))
        .route("/metrics", get(metrics::get))
        .route("/usage", get(proxy::usage))
        .route("/events", get(nodes::events))
        .route("/events/kept", get(nodes::kept))
        .route(AT_A_NODE, get(proxy::node))
        .route_layer(guard.clone());
    // Where Prometheus looks for them.
    let metrics = Router::new().route("/metrics", get(metrics::get)).route_layer(guard);
    let router = guarded
        // Who has no login has nothing long to say.
        .merge(Router::from(open()).route_layer(DefaultBodyLimit::max(MAX_OPEN)))
        .route("/health", get(nodes::health))
        .route("/openapi.json", get(|| async { axum::Json(openapi()) }));
    Router::new()
        .nest(BASE, router)
        .merge(metrics)
        .merge(weir_rest::dashboard::routes())
        .fallback(|method: Method, uri: Uri| async move {
            let text = format!("there is no {method} {}; the interface stands under {BASE}", uri.path());
            Problem::new(StatusCode::NOT_FOUND, text)
        })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            let text = format!("{} has no method {method}; see {BASE}/openapi.json", uri.path());
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, text)
        })
        .layer(DefaultBodyLimit::max(MAX_LIST))
        .layer(from_fn_with_state(app.login.clone(), same_origin))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    /// The description as it is kept for others: clients in other languages are made from it.
    const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi-controller.json");

    #[test]
    fn the_openapi_description_that_is_kept_is_this_one() {
        let text = serde_json::to_string_pretty(&super::openapi()).unwrap() + "\n";
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(KEPT, &text).unwrap();
        }
        let kept = std::fs::read_to_string(KEPT).unwrap_or_default();
        assert!(
            kept == text,
            "docs/openapi-controller.json is not up to date: BLESS=1 cargo test -p weir-controller --lib openapi"
        );
    }
}
