//! The life of a function, as its document says it.

use weir_api::functions::Life;
use weir_api::problem::Problem;
use weir_model::graph::{FunctionState, ServiceGraph};

/// A graph with another state of a function, by its number.
///
/// # Errors
/// The document is wrong with it.
pub fn with_state(graph: ServiceGraph, number: usize, state: Life) -> Result<ServiceGraph, Problem> {
    let mut parts = graph.into_parts();
    if let Some(f) = parts.functions.get_mut(number) {
        // What waits goes on with one that is running again, so it stays said.
        f.state = Some(match state {
            Life::Running => FunctionState::Running,
            Life::Stopped => FunctionState::Stopped,
            Life::Bypass => FunctionState::Bypass,
        });
    }
    Ok(ServiceGraph::from_parts(&parts)?)
}
