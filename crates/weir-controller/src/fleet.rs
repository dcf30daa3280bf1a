//! The nodes that are connected, and requests to them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http2::SendRequest;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use weir_api::BASE;
use weir_api::mark::HEADER;
use weir_api::problem::Problem;

use crate::store::Marking;

/// How long a node may take for an answer that is no stream: functions may take their time to start.
const ANSWER: Duration = Duration::from_secs(120);
/// The same where nothing is changed.
const READ: Duration = Duration::from_secs(5);
/// The same for a sign of life.
const ALIVE: Duration = Duration::from_secs(1);
/// Most bytes of an answer that is read here.
const MAX_ANSWER: usize = 64 << 20;

/// The answer to a request, or why there is none.
pub type Answer = Pin<Box<dyn Future<Output = std::result::Result<Response<Body>, String>> + Send>>;

/// A connection to a node. Requests may overtake each other.
pub trait Transport: Debug + Send + Sync {
    /// Sends a request.
    fn send(&self, request: Request<Body>) -> Answer;
}

impl Transport for SendRequest<Body> {
    fn send(&self, request: Request<Body>) -> Answer {
        let sent = self.clone().send_request(request);
        Box::pin(async { sent.await.map(|r| r.map(Body::new)).map_err(|e| e.to_string()) })
    }
}

/// A node that is connected.
#[derive(Debug, Clone)]
pub struct Connected {
    /// Distinguishes it from other connections of the same node.
    pub number: u64,
    /// Where it comes from.
    pub address: String,
    transport: Arc<dyn Transport>,
}

impl Connected {
    /// A connection.
    pub fn new(number: u64, address: String, transport: impl Transport + 'static) -> Connected {
        Connected { number, address, transport: Arc::new(transport) }
    }
}

/// A request to a node has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FleetError {
    /// It is not connected.
    #[error("node '{0}' is offline")]
    Offline(String),
    /// The connection ended, or nothing came.
    #[error("node '{node}' does not answer: {why}")]
    Silent {
        /// Which.
        node: String,
        /// Why.
        why: String,
    },
    /// It refused.
    #[error("{0}")]
    Problem(Box<Problem>),
}

impl From<FleetError> for Problem {
    fn from(e: FleetError) -> Problem {
        match e {
            FleetError::Problem(problem) => *problem,
            other => Problem::new(StatusCode::SERVICE_UNAVAILABLE, other.to_string()),
        }
    }
}

/// A segment of a path (RFC 3986, section 2.1): identifiers may have characters that mean something in addresses.
pub(crate) fn segment(text: &str) -> String {
    let mut out = String::new();
    for b in text.bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(b)),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

type Result<T> = std::result::Result<T, FleetError>;

/// The nodes that are connected, by name.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    nodes: Arc<RwLock<BTreeMap<String, Connected>>>,
    marking: Marking,
}

impl Fleet {
    /// No nodes yet. Requests to them say how far the controller has got.
    pub fn new(marking: Marking) -> Fleet {
        Fleet { nodes: Arc::default(), marking }
    }

    /// A node is connected; its connection of before is forgotten.
    pub fn insert(&self, node: &str, connected: Connected) {
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned(), connected);
    }

    /// That connection is over. Whether it was the node's present one.
    pub fn remove(&self, node: &str, number: u64) -> bool {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let present = nodes.get(node).is_some_and(|c| c.number == number);
        if present {
            nodes.remove(node);
        }
        present
    }

    /// The connection of a node.
    pub fn get(&self, node: &str) -> Option<Connected> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(node).cloned()
    }

    /// The names of those that are connected.
    pub fn names(&self) -> Vec<String> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Sends a request to a node. Its path begins behind `/v1`.
    ///
    /// # Errors
    /// The node is not connected, or gives no answer. An answer with a problem is an answer.
    pub async fn send(&self, node: &str, mut request: Request<Body>) -> Result<Response<Body>> {
        let connected = self.get(node).ok_or_else(|| FleetError::Offline(node.to_owned()))?;
        let silent = |why: String| FleetError::Silent { node: node.to_owned(), why };
        let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
        let uri =
            format!("https://node{BASE}{path}").parse().map_err(|_| silent(format!("no path: {path}")))?;
        *request.uri_mut() = uri;
        if let Some(mark) = self.marking.get() {
            let mark = HeaderValue::try_from(mark.to_string()).map_err(|e| silent(e.to_string()))?;
            request.headers_mut().insert(HEADER, mark);
        }
        // What is only read is there at once.
        let limit = if request.method() == Method::GET { READ } else { ANSWER };
        let sent = timeout(limit, connected.transport.send(request)).await;
        let sent = sent.map_err(|_| silent(format!("nothing came within {} s", limit.as_secs())))?;
        sent.map_err(silent)
    }

    /// Sends a request with a body, and reads the answer, in JSON.
    ///
    /// # Errors
    /// No answer, or a problem.
    pub async fn call<T: DeserializeOwned>(
        &self,
        node: &str,
        method: Method,
        path: &str,
        body: Option<&str>,
    ) -> Result<T> {
        let bytes = self.bytes(node, method, path, body).await?;
        let silent = |why: String| FleetError::Silent { node: node.to_owned(), why };
        let read: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(read).map_err(|e| silent(format!("its answer makes no sense: {e}")))
    }

    /// The same for an answer of any form.
    ///
    /// # Errors
    /// No answer, or a problem.
    pub async fn bytes(&self, node: &str, method: Method, path: &str, body: Option<&str>) -> Result<Bytes> {
        let silent = |why: String| FleetError::Silent { node: node.to_owned(), why };
        let kind = match body {
            Some(text) if weir_model::doc::is_json(text) => "application/json",
            _ => "application/yaml",
        };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
        let request = request.body(body.map_or_else(Body::empty, |b| Body::from(b.to_owned())));
        let response = self.send(node, request.map_err(|e| silent(e.to_string()))?).await?;
        let status = response.status();
        let body = timeout(ANSWER, Limited::new(response.into_body(), MAX_ANSWER).collect()).await;
        let body = body.map_err(|_| silent("its answer does not end".into()))?;
        let body = body.map_err(|e| silent(e.to_string()))?.to_bytes();
        // A node that is not ready says so, and says more.
        if status.is_success() || path == "/health" {
            return Ok(body);
        }
        match serde_json::from_slice(&body) {
            Ok(problem) => Err(FleetError::Problem(Box::new(problem))),
            Err(_) => Err(silent(status.to_string())),
        }
    }

    /// Whether a node that is connected is really there.
    pub async fn is_alive(&self, node: &str) -> bool {
        let asked = self.bytes(node, Method::GET, "/health", None);
        matches!(timeout(ALIVE, asked).await, Ok(Ok(_)))
    }
}
