//! What a controller has beside a node: nodes and links.

use http::Method;
use serde_json::json;

use super::{NodeClient, Result, encode};
use crate::members::{
    Drained, LinkList, LinkSettings, NodeDetails, NodeList, NodeSummary, Token, TokenRequest,
};

impl NodeClient {
    /// The nodes of the domain.
    pub fn nodes(&self) -> Result<NodeList> {
        self.get("/nodes")
    }

    /// A node in full.
    pub fn node(&self, name: &str) -> Result<NodeDetails> {
        self.get(&format!("/nodes/{}", encode(name)))
    }

    /// The links between the nodes.
    pub fn links(&self) -> Result<LinkList> {
        self.get("/links")
    }

    /// Says something of the link between two nodes.
    pub fn put_link(&self, a: &str, b: &str, settings: &LinkSettings) -> Result<()> {
        let path = format!("/links/{}/{}", encode(a), encode(b));
        let body = serde_json::to_string(settings).map_err(|e| self.unexpected(&path, e.to_string()))?;
        self.send(Method::PUT, &path, "application/json", &body).map(drop)
    }

    /// Takes back what was said of the link between two nodes.
    pub fn remove_link(&self, a: &str, b: &str) -> Result<()> {
        let path = format!("/links/{}/{}", encode(a), encode(b));
        self.send(Method::DELETE, &path, "", "").map(drop)
    }

    /// Says whether a node gets new graphs.
    pub fn cordon(&self, name: &str, cordoned: bool) -> Result<NodeSummary> {
        let body = json!({ "cordoned": cordoned }).to_string();
        self.document(Method::PUT, &format!("/nodes/{}", encode(name)), &body)
    }

    /// Moves the graphs of a node elsewhere.
    pub fn drain(&self, name: &str) -> Result<Drained> {
        self.document(Method::POST, &format!("/nodes/{}/drain", encode(name)), "{}")
    }

    /// Forgets a node.
    pub fn forget(&self, name: &str) -> Result<()> {
        self.send(Method::DELETE, &format!("/nodes/{}", encode(name)), "", "").map(drop)
    }

    /// Makes a token by which nodes join.
    pub fn join_token(&self, request: &TokenRequest) -> Result<Token> {
        let body = serde_json::to_string(request).map_err(|e| self.unexpected("/tokens", e.to_string()))?;
        self.document(Method::POST, "/tokens", &body)
    }
}
