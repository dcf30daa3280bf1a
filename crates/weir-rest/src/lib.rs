//! What the REST servers of nodes and controllers share: requests are read, problems answered and events streamed in the same
//! manner by both.

#![forbid(unsafe_code)]

pub mod body;
pub mod dashboard;
pub mod dial;
pub mod events;
pub mod extract;
pub mod history;
pub mod life;
pub mod listen;
pub mod login;
pub mod metrics;
pub mod origin;
pub mod precondition;
pub mod secrets;
pub mod usage;

use axum::http::StatusCode;
use weir_api::problem::Problem;
use weir_store::Database;

/// Works with a store, which may block. None if the work panics.
pub async fn blocking<T: Send + 'static>(
    store: &Database,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if store.works_at_once() {
        return Some(work());
    }
    tokio::task::spawn_blocking(work).await.ok()
}

/// Runs a change to its end, whether or not the client waits for it.
///
/// # Errors
/// Those of the change.
pub async fn to_the_end<T: Send + 'static, E: Into<Problem> + Send + 'static>(
    change: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::spawn(change).await {
        Ok(result) => result.map_err(Into::into),
        Err(e) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("internal error: {e}"))),
    }
}
