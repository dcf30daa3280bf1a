//! What the shell offers for words that only a node or the elements know. Nothing is offered if the node does not
//! answer at once.

use std::time::Duration;

use clap_complete::engine::CompletionCandidate;
use weir_api::client::NodeClient;
use weir_api::status::GraphStatus;

use super::remote::NodeArgs;
use super::{classes, handler};
use crate::contexts::Contexts;

/// How long a user who pressed Tab waits for a node.
const PATIENCE: Duration = Duration::from_millis(400);

/// The graphs of the node.
pub(crate) fn graphs() -> Vec<CompletionCandidate> {
    let graphs = node().and_then(|n| n.graphs().ok()).unwrap_or_default();
    graphs.into_iter().map(|g| CompletionCandidate::new(g.id).help(Some(g.name.into()))).collect()
}

/// The places of the graph that is named on the command line.
pub(crate) fn places() -> Vec<CompletionCandidate> {
    let Some(status) = status() else { return Vec::new() };
    let ends = status.links.into_iter().flat_map(|l| [l.from, l.to]);
    let places: std::collections::BTreeSet<String> = ends.collect();
    places.into_iter().map(CompletionCandidate::new).collect()
}

/// The functions of the graph that is named on the command line.
pub(crate) fn functions() -> Vec<CompletionCandidate> {
    let functions = status().map(|s| s.functions).unwrap_or_default();
    functions.into_iter().map(|f| CompletionCandidate::new(f.id)).collect()
}

/// The public handlers of the function that is named on the command line.
pub(crate) fn handlers() -> Vec<CompletionCandidate> {
    let Some(status) = status() else { return Vec::new() };
    let Some(node) = node() else { return Vec::new() };
    let found = handler::list(&node, &status.id).unwrap_or_default();
    let words: Vec<String> = std::env::args().collect();
    let of_line = found.into_iter().filter(|h| words.contains(&h.function));
    of_line.map(|h| CompletionCandidate::new(h.handler).help(Some(h.access.into()))).collect()
}

/// The images of the node.
pub(crate) fn images() -> Vec<CompletionCandidate> {
    let images = node().and_then(|n| n.images().ok()).map(|list| list.images).unwrap_or_default();
    images.into_iter().map(|i| CompletionCandidate::new(i.name).help(Some(i.description.into()))).collect()
}

/// The element classes.
pub(crate) fn elements() -> Vec<CompletionCandidate> {
    let summary = |info| weir_elements::reference::summary(info);
    let classes = classes();
    let candidate = |c: &weir_plan::AnyClass| {
        CompletionCandidate::new(c.info().name).help(Some(summary(c.info()).into()))
    };
    classes.iter().map(candidate).collect()
}

/// The first graph of the node that is a word of the command line.
fn status() -> Option<GraphStatus> {
    let node = node()?;
    let graphs = node.graphs().ok()?;
    let graph = std::env::args().find(|word| graphs.iter().any(|g| g.id == *word))?;
    node.status(&graph).ok()
}

/// The node that the command line so far asks for.
fn node() -> Option<NodeClient> {
    let words: Vec<String> = std::env::args().collect();
    of_line(&words).client_within(PATIENCE).ok()
}

/// The options of a command line that say which node is meant.
fn of_line(words: &[String]) -> NodeArgs {
    let value = |option: &str, variable: &str| {
        let after = words.iter().position(|w| w == option).and_then(|at| words.get(at + 1)).cloned();
        let joined = words.iter().find_map(|w| w.strip_prefix(option)?.strip_prefix('=').map(str::to_owned));
        joined.or(after).or_else(|| std::env::var(variable).ok())
    };
    NodeArgs { node: value("--node", "WEIR_NODE"), context: value("--context", "WEIR_CONTEXT") }
}

/// The user's contexts.
pub(crate) fn contexts() -> Vec<CompletionCandidate> {
    let contexts = Contexts::load().unwrap_or_default().contexts;
    contexts.into_iter().map(|(name, c)| CompletionCandidate::new(name).help(Some(c.url.into()))).collect()
}

/// The user's keys.
pub(crate) fn keys_of_user() -> Vec<CompletionCandidate> {
    crate::contexts::keys_of_user().into_iter().map(CompletionCandidate::new).collect()
}

#[cfg(test)]
mod tests {
    use super::of_line;

    #[test]
    fn the_node_of_the_line_is_asked() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let node = |line: &str| of_line(&words(line));
        assert_eq!(node("weir show --node http://a:1 x").node.as_deref(), Some("http://a:1"));
        assert_eq!(node("weir --node=b:2 show").node.as_deref(), Some("b:2"));
        assert_eq!(node("weir --context lab show").context.as_deref(), Some("lab"));
    }
}
