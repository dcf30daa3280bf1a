//! The node's REST interface for a whole domain, and what a domain has beside.

mod graphs;
mod nodes;
mod proxy;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn;
use axum::routing::{get, post};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_api::BASE;
use weir_api::problem::Problem;
use weir_rest::body::MAX_LIST;
use weir_rest::origin::same_origin;

use crate::controller::Controller;

/// What handlers get.
type App = Arc<Controller>;

/// The interface of a node, of which this is a superset.
const NODE: &str = include_str!("../../../../docs/openapi.json");
/// Where the resources of one node stand.
const AT_A_NODE: &str = "/nodes/{name}/v1/{*path}";

/// The routes that a node has not, and their description.
fn own() -> (Router<App>, Value) {
    let (router, api) = OpenApiRouter::new()
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::get, nodes::change, nodes::delete))
        .routes(routes!(nodes::drain))
        .routes(routes!(nodes::links))
        .routes(routes!(nodes::token))
        .routes(routes!(nodes::join))
        .routes(routes!(nodes::renew))
        .routes(routes!(nodes::hello))
        .split_for_parts();
    (router, serde_json::to_value(api).unwrap_or_default())
}

/// The OpenAPI 3.1 description of the interface.
pub fn openapi() -> Value {
    let mut api: Value = serde_json::from_str(NODE).unwrap_or_default();
    api["info"]["title"] = json!("Weir controller");
    api["info"]["description"] = json!(
        "Service graphs on the nodes of a domain: what should run and where, what runs, and what happens."
    );
    let own = own().1;
    for part in ["/paths", "/components/schemas"] {
        let more = own.pointer(part).and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(all) = api.pointer_mut(part).and_then(Value::as_object_mut) {
            all.extend(more);
        }
    }
    api
}

/// The interface to a domain.
pub(crate) fn router(app: App) -> Router {
    let graph = |path: &str| format!("/graphs/{{id}}/{path}");
    let router = own()
        .0
        .route("/graphs", get(graphs::list).post(graphs::create).put(graphs::put_list))
        .route("/graphs/{id}", get(graphs::get).put(graphs::put).delete(graphs::delete))
        .route(&graph("document"), get(graphs::written))
        .route(&graph("status"), get(graphs::status))
        .route(&graph("{*path}"), get(proxy::graph).put(proxy::graph).post(proxy::graph))
        .route("/plan", post(graphs::plan))
        .route("/images", get(proxy::images))
        .route("/images/{name}", get(proxy::image))
        .route("/devices", get(proxy::devices))
        .route("/domain", get(proxy::domain))
        .route("/health", get(nodes::health))
        .route("/events", get(nodes::events))
        .route("/events/kept", get(nodes::kept))
        .route(AT_A_NODE, get(proxy::node))
        .route("/openapi.json", get(|| async { axum::Json(openapi()) }));
    Router::new()
        .nest(BASE, router)
        .fallback(|method: Method, uri: Uri| async move {
            let text = format!("there is no {method} {}; the interface stands under {BASE}", uri.path());
            Problem::new(StatusCode::NOT_FOUND, text)
        })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            let text = format!("{} has no method {method}; see {BASE}/openapi.json", uri.path());
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, text)
        })
        .layer(DefaultBodyLimit::max(MAX_LIST))
        .layer(from_fn(same_origin))
        .with_state(app)
}
