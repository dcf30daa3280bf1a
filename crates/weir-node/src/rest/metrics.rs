//! Metrics for Prometheus, and what graphs take for accounts.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use weir_api::problem::Problem;
use weir_api::usage::UsageList;
use weir_auth::Action;
use weir_rest::login::Caller;
use weir_rest::metrics::CONTENT_TYPE;

use super::App;

/// Counts of graphs, functions, access points, tables and interfaces, and of the node itself, in the text format of Prometheus. Who may
/// read some graphs only gets theirs. Also at `/metrics`, without `/v1`.
#[utoipa::path(get, path = "/metrics", tag = "node", operation_id = "metrics", responses(
    (status = 200, body = String, content_type = "text/plain", description = "The metrics, in version 0.0.4 of the format."),
))]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
) -> Result<([(HeaderName, &'static str); 1], String), Problem> {
    caller.may(&Action::ReadMetrics)?;
    let graphs = |graph: weir_auth::Graph<'_>| caller.can(&Action::ReadGraph(graph));
    let text = app.metrics(graphs, caller.can(&Action::ReadDevices)).await;
    Ok(([CONTENT_TYPE], text))
}

/// What graphs have taken: packets and bytes that passed their `Counter` elements, processor time, memory. Who may read some graphs only gets theirs.
#[utoipa::path(get, path = "/usage", tag = "node", operation_id = "usage", responses(
    (status = 200, body = UsageList, description = "What they have taken since the data plane began."),
    (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
))]
pub(super) async fn usage(State(app): State<App>, caller: Caller) -> Result<Json<UsageList>, Problem> {
    caller.may(&Action::ReadMetrics)?;
    Ok(Json(app.usage(|graph| caller.can(&Action::ReadGraph(graph))).await?))
}
