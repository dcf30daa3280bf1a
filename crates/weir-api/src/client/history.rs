//! The revisions of graphs.

use http::Method;

use super::{NodeClient, Result, encode};
use crate::graphs::Changed;
use crate::history::{History, RevisionDetails};

impl NodeClient {
    /// The revisions of a graph that are kept.
    pub fn history(&self, graph: &str) -> Result<History> {
        self.get(&format!("/graphs/{}/revisions", encode(graph)))
    }

    /// A revision of a graph with its document.
    pub fn revision(&self, graph: &str, revision: u64) -> Result<RevisionDetails> {
        self.get(&format!("/graphs/{}/revisions/{revision}", encode(graph)))
    }

    /// Applies the document of an earlier revision again; without a number that of the one before the current one.
    pub fn roll_back(&self, graph: &str, revision: Option<u64>) -> Result<Changed> {
        let revision = revision.map(|r| r.to_string());
        let revision: Vec<(&str, &str)> = revision.iter().map(|r| ("revision", r.as_str())).collect();
        let path = format!("/graphs/{}/rollback{}", encode(graph), self.change_query(&revision));
        self.document(Method::POST, &path, "")
    }

    /// Keeps a graph that would go back by itself.
    pub fn confirm(&self, graph: &str) -> Result<()> {
        self.send(Method::POST, &format!("/graphs/{}/confirm", encode(graph)), "", "").map(drop)
    }
}
