//! The REST interface (COMPOSER paper, section 5.1): service graphs in, status, events, traces and captures out.

mod devices;
mod elements;
mod functions;
mod graphs;
mod history;
mod image_tables;
mod life;
mod log;
mod metrics;
mod moves;
mod openapi;
mod problem;
mod queries;
mod streams;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};
use weir_api::BASE;
use weir_api::problem::Problem;
use weir_auth::Action;
use weir_model::nearest::nearest;
use weir_rest::body::MAX_LIST;
use weir_rest::login::{self, Caller};
use weir_rest::origin::same_origin;

use crate::engine::Engine;
use crate::membership;
use crate::node::{Entry, Node};

pub(crate) use functions::{function, readable};

/// The state that handlers share.
pub(crate) type App = Arc<Node<Engine>>;

/// The routes that ask who asks.
fn guarded() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(graphs::list, graphs::create, graphs::put_list))
        .routes(routes!(graphs::get, graphs::put, graphs::delete))
        .routes(routes!(graphs::status))
        .routes(routes!(graphs::config))
        .routes(routes!(graphs::plan))
        .routes(routes!(functions::read, functions::write))
        .routes(routes!(functions::log))
        .routes(routes!(functions::inside))
        .routes(routes!(life::life, life::change))
        .routes(routes!(life::snapshot, life::restore))
        .routes(routes!(moves::step))
        .routes(routes!(life::change_graph))
        .routes(routes!(graphs::written))
        .routes(routes!(history::list))
        .routes(routes!(history::get))
        .routes(routes!(history::roll_back))
        .routes(routes!(history::confirm))
        .routes(routes!(functions::images))
        .routes(routes!(functions::image, functions::put_image, functions::delete_image))
        .routes(routes!(image_tables::tables))
        .routes(routes!(devices::list))
        .routes(routes!(devices::domain))
        .routes(routes!(metrics::get))
        .routes(routes!(metrics::usage))
        .routes(routes!(streams::events))
        .routes(routes!(streams::kept))
        .routes(routes!(streams::trace))
        .routes(routes!(streams::capture))
        .routes(routes!(queries::list))
        .routes(routes!(queries::get, queries::put, queries::delete))
        .routes(routes!(queries::measure))
        .merge(login::routes::routes())
}

/// Those for everyone: who has no login yet finds out here what to do.
fn open() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(functions::health)).routes(routes!(openapi::get))
}

/// The OpenAPI 3.1 description of the interface.
pub fn openapi() -> serde_json::Value {
    let closed: Vec<String> = guarded().into_openapi().paths.paths.into_keys().collect();
    openapi::complete(guarded().merge(open()).into_openapi(), &closed)
}

/// The interface to a node.
pub(crate) fn router(app: App) -> Router {
    // The page's scripts are part of this program: it works on a node without the Internet.
    let page = SwaggerUi::new("/docs")
        .config(Config::from("/v1/openapi.json").try_it_out_enabled(true).validator_url("none"));
    let guard = from_fn_with_state(app.login.clone(), login::guard);
    let routes = Router::from(guarded()).route_layer(guard.clone()).merge(Router::from(open()));
    // Where Prometheus looks for them.
    let metrics = Router::new().route("/metrics", get(metrics::get)).route_layer(guard);
    Router::new()
        .nest(BASE, routes)
        .merge(metrics)
        .merge(weir_rest::dashboard::routes())
        .merge(page)
        .fallback(|method: Method, uri: Uri| async move {
            Problem::new(
                StatusCode::NOT_FOUND,
                format!("there is no {method} {}; the interface stands under {BASE}, see /docs", uri.path()),
            )
        })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            let detail = format!("{} has no method {method}; see /docs", uri.path());
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
        })
        .layer(DefaultBodyLimit::max(MAX_LIST))
        .layer(from_fn_with_state(app.clone(), membership::mark))
        .layer(from_fn_with_state(app.login.clone(), same_origin))
        .with_state(app)
}

/// The graph of that identifier. Of others, only those are told that the caller may know.
fn entry(app: &App, caller: &Caller, id: &str) -> Result<Entry, Problem> {
    app.graph(id).ok_or_else(|| {
        let view = app.view();
        let known = view.graphs.values().filter(|e| caller.can(&Action::ListGraph(e.owned())));
        let hint = nearest(id, known.map(|e| e.graph.id.as_str()));
        Problem::new(StatusCode::NOT_FOUND, format!("there is no graph '{id}'{hint}"))
    })
}
