//! A blocking client of the REST interface, for the command line.

mod access;
mod credentials;
mod history;
mod members;
pub mod tls;

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::{Method, Request, Response};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};

use crate::BASE;
use crate::domain::Domain;
use crate::events::{Event, EventList};
use crate::functions::{FunctionLife, GraphLifeChange, Inside, Life, MoveRequest, Moved};
use crate::graphs::{AppliedList, Changed, GraphSummary, RemovedLater};
use crate::images::{ImageDetails, ImageList};
use crate::node::{DeviceList, Health};
use crate::plan::Plan;
use crate::problem::Problem;
use crate::status::GraphStatus;
use crate::watch::{CaptureRequest, Captured, TraceRequest};

pub use credentials::Credentials;

/// Most bytes of one answer that is not a stream.
const MAX_ANSWER: u64 = 64 << 20;

/// A request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The node said what is wrong.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// No node was reached.
    #[error("no node answers at {url}; is 'weir node' running there{}?", tls_hint(url))]
    Unreachable {
        /// Where.
        url: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// The connection ended before the answer.
    #[error("the connection to {url} ended before the answer; what was asked for may have been done, or not")]
    Interrupted {
        /// Where.
        url: String,
    },
    /// The server is not who it was to be.
    #[error(
        "{url} is not trusted: its certificate is not the one that is known of it, or it speaks no TLS; a node that was set up anew has \
         another fingerprint, which it prints at its start"
    )]
    Untrusted {
        /// Where.
        url: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// The request cannot be made as the client is to make it.
    #[error("{url} is not asked: {what}")]
    Credentials {
        /// Where.
        url: String,
        /// Why.
        what: String,
    },
    /// Something answered, but not as a node does.
    #[error("{url} does not answer as a node: {what}")]
    Protocol {
        /// Where.
        url: String,
        /// What came.
        what: String,
    },
}

type Result<T> = std::result::Result<T, ClientError>;

/// A client of one node.
#[derive(Debug, Clone)]
pub struct NodeClient {
    url: String,
    agent: Agent,
    on: Option<String>,
    message: Option<String>,
    confirm: Option<u32>,
    credentials: Credentials,
    time: Option<Duration>,
    trusts: bool,
}

impl NodeClient {
    /// A client of the node at `url`, such as `http://127.0.0.1:8080`. Nothing is sent yet.
    pub fn new(url: &str) -> NodeClient {
        let url = url.trim_end_matches('/');
        // Schemes are the same in any case (RFC 3986, section 3.1); what follows looks for them in this one.
        let url = match url.split_once("://") {
            Some((scheme, rest)) => format!("{}://{rest}", scheme.to_ascii_lowercase()),
            None => format!("http://{url}"),
        };
        NodeClient {
            url,
            agent: agent(None, None),
            credentials: Credentials::None,
            time: None,
            trusts: false,
            on: None,
            message: None,
            confirm: None,
        }
    }

    /// One that gives up each request after `time`.
    pub fn with_timeout(url: &str, time: Duration) -> NodeClient {
        NodeClient { agent: agent(Some(time), None), time: Some(time), ..NodeClient::new(url) }
    }

    /// One that knows a server at `https` by this: see [`weir_tls::client`].
    #[must_use]
    pub fn with_tls(self, config: ClientConfig) -> NodeClient {
        NodeClient { agent: agent(self.time, Some(config)), trusts: true, ..self }
    }

    /// One that asks as somebody.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> NodeClient {
        self.credentials = credentials;
        self
    }

    /// One that says why it changes graphs, and after how many seconds they go back unless they are confirmed.
    #[must_use]
    pub fn noting(mut self, message: Option<&str>, confirm: Option<u32>) -> NodeClient {
        (self.message, self.confirm) = (message.map(str::to_owned), confirm);
        self
    }

    /// One by which graphs are put on this node of a domain.
    #[must_use]
    pub fn on(mut self, node: Option<&str>) -> NodeClient {
        self.on = node.map(str::to_owned);
        self
    }

    /// What a change is asked for with, and more.
    fn change_query(&self, more: &[(&str, &str)]) -> String {
        let confirm = self.confirm.map(|seconds| seconds.to_string());
        let own = [("node", &self.on), ("message", &self.message), ("confirm", &confirm)];
        let own = own.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let all: Vec<String> = own
            .chain(more.iter().copied())
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
    }

    /// All graphs.
    pub fn graphs(&self) -> Result<Vec<GraphSummary>> {
        self.get("/graphs")
    }

    /// The document of a graph.
    pub fn graph(&self, id: &str) -> Result<Value> {
        self.get(&format!("/graphs/{}", encode(id)))
    }

    /// The document of a graph as it was written.
    pub fn written(&self, id: &str) -> Result<String> {
        self.text(&format!("/graphs/{}/document", encode(id)))
    }

    /// Creates a graph from a document in JSON or YAML.
    pub fn create(&self, document: &str) -> Result<Changed> {
        self.document(Method::POST, "/graphs", document)
    }

    /// Creates or changes a graph; the flag says whether it is new.
    pub fn put(&self, id: &str, document: &str) -> Result<(Changed, bool)> {
        self.put_to(&format!("/graphs/{}{}", encode(id), self.change_query(&[])), document)
    }

    fn put_to(&self, path: &str, document: &str) -> Result<(Changed, bool)> {
        let response = self.send(Method::PUT, path, kind(document), document)?;
        let new = response.status() == 201;
        Ok((self.read(path, response)?, new))
    }

    /// The same for a graph that may be as asked for already.
    pub fn put_again(&self, id: &str, document: &str) -> Result<(Changed, bool)> {
        self.put_to(&format!("/graphs/{}{}", encode(id), self.change_query(&[("again", "true")])), document)
    }

    /// Creates or changes many graphs: a list of documents, or of their texts, in JSON. `each`: each by itself, otherwise all or none.
    pub fn put_list(&self, documents: &str, each: bool, again: bool) -> Result<AppliedList> {
        let (each, again) = (each.to_string(), again.to_string());
        let path = format!("/graphs{}", self.change_query(&[("each", &each), ("again", &again)]));
        let response = self.send(Method::PUT, &path, "application/json", documents)?;
        self.read(&path, response)
    }

    /// Removes a graph; says if it goes later, and why.
    pub fn delete(&self, id: &str) -> Result<Option<RemovedLater>> {
        let path = format!("/graphs/{}", encode(id));
        let response = self.send(Method::DELETE, &path, "", "")?;
        if response.status() == ureq::http::StatusCode::ACCEPTED {
            self.read(&path, response).map(Some)
        } else {
            Ok(None)
        }
    }

    /// State and figures of a graph.
    pub fn status(&self, id: &str) -> Result<GraphStatus> {
        self.get(&format!("/graphs/{}/status", encode(id)))
    }

    /// The configuration of a graph, in the Click language.
    pub fn config(&self, id: &str) -> Result<String> {
        self.text(&format!("/graphs/{}/config", encode(id)))
    }

    /// What a document would change.
    pub fn plan(&self, document: &str) -> Result<Plan> {
        let on = self.on.as_ref().map_or(String::new(), |node| format!("?node={}", encode(node)));
        self.document(Method::POST, &format!("/plan{on}"), document)
    }

    /// Reads a public handler.
    pub fn read_handler(&self, graph: &str, function: &str, name: &str) -> Result<String> {
        self.text(&handler(graph, function, name))
    }

    /// Writes a public handler.
    pub fn write_handler(&self, graph: &str, function: &str, name: &str, value: &str) -> Result<()> {
        self.send(Method::PUT, &handler(graph, function, name), "text/plain", value).map(drop)
    }

    /// What a function does with packets.
    pub fn life(&self, graph: &str, function: &str) -> Result<FunctionLife> {
        self.get(&of_function(graph, function, "life"))
    }

    /// Stops a function, lets it go on, or leads packets past it.
    pub fn set_life(&self, graph: &str, function: &str, state: Life) -> Result<FunctionLife> {
        let body = json!({ "state": state }).to_string();
        self.document(Method::PUT, &of_function(graph, function, "life"), &body)
    }

    /// Suspends a graph that its first packet starts, or resumes it.
    pub fn set_graph_life(&self, graph: &str, change: &GraphLifeChange) -> Result<GraphLifeChange> {
        self.document(Method::PUT, &format!("/graphs/{}/life", encode(graph)), &json!(change).to_string())
    }

    /// Moves a function of a domain to another node, or says what that would be.
    pub fn move_function(&self, graph: &str, function: &str, request: &MoveRequest) -> Result<Moved> {
        let body = json!(request).to_string();
        self.document(Method::POST, &of_function(graph, function, "move"), &body)
    }

    /// The output of a function that is not inline, and what it writes later if that is to be followed.
    pub fn log(&self, graph: &str, function: &str, follow: bool) -> Result<Box<dyn Read + Send>> {
        let (graph, function) = (encode(graph), encode(function));
        let path = format!("/graphs/{graph}/functions/{function}/log?follow={follow}");
        let response = self.send(Method::GET, &path, "", "")?;
        Ok(Box::new(response.into_body().into_reader()))
    }

    /// How a program is started inside a function that is not inline.
    pub fn inside(&self, graph: &str, function: &str) -> Result<Inside> {
        self.get(&format!("/graphs/{}/functions/{}/inside", encode(graph), encode(function)))
    }

    /// The images of the node.
    pub fn images(&self) -> Result<ImageList> {
        self.get("/images")
    }

    /// An image in full.
    pub fn image(&self, name: &str) -> Result<ImageDetails> {
        self.get(&format!("/images/{}", encode(name)))
    }

    /// The interfaces of the node.
    pub fn devices(&self) -> Result<DeviceList> {
        self.get("/devices")
    }

    /// What the node is to others.
    pub fn domain(&self) -> Result<Domain> {
        self.get("/domain")
    }

    /// How the node is, also when it is not ready.
    pub fn health(&self) -> Result<Health> {
        let response = self.request(Method::GET, "/health", "", "", &[])?;
        self.read("/health", response)
    }

    /// The OpenAPI description.
    pub fn openapi(&self) -> Result<Value> {
        self.get("/openapi.json")
    }

    /// Follows packets; the iterator waits for each.
    pub fn trace(&self, graph: &str, request: &TraceRequest) -> Result<Lines<weir_protocol::Event>> {
        self.stream(&format!("/graphs/{}/trace", encode(graph)), request)
    }

    /// Captures packets; the iterator waits for each.
    pub fn capture(&self, graph: &str, request: &CaptureRequest) -> Result<Lines<Captured>> {
        self.stream(&format!("/graphs/{}/capture", encode(graph)), request)
    }

    /// The newest events of those that are kept, of a graph or of all.
    pub fn kept_events(&self, graph: Option<&str>, limit: u32) -> Result<EventList> {
        let graph = graph.map_or(String::new(), |g| format!("&graph={}", encode(g)));
        self.get(&format!("/events/kept?limit={limit}{graph}"))
    }

    /// Events, beginning after the one with the number `last` (0: with all that are kept), or now.
    pub fn events(&self, last: Option<u64>) -> Result<Lines<Event>> {
        let last = last.map(|id| id.to_string());
        let headers: Vec<_> = last.iter().map(|id| ("last-event-id", id.as_str())).collect();
        let response = self.request(Method::GET, "/events", "", "", &headers)?;
        self.lines("/events", "data:", self.check(response)?)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let response = self.send(Method::GET, path, "", "")?;
        self.read(path, response)
    }

    fn document<T: DeserializeOwned>(&self, method: Method, path: &str, document: &str) -> Result<T> {
        let response = self.send(method, path, kind(document), document)?;
        self.read(path, response)
    }

    fn put_json<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        let body = serde_json::to_string(body).map_err(|e| self.unexpected(path, e.to_string()))?;
        let response = self.send(Method::PUT, path, "application/json", &body)?;
        self.read(path, response)
    }

    fn text(&self, path: &str) -> Result<String> {
        let response = self.send(Method::GET, path, "", "")?;
        self.body(response)
    }

    fn stream<T: DeserializeOwned>(&self, path: &str, request: &impl Serialize) -> Result<Lines<T>> {
        let body = serde_json::to_string(request).map_err(|e| self.unexpected(path, e.to_string()))?;
        let response = self.send(Method::POST, path, "application/json", &body)?;
        self.lines(path, "", response)
    }

    #[expect(clippy::unnecessary_wraps, reason = "reads well where it is used")]
    fn lines<T>(&self, path: &str, prefix: &'static str, response: Response<ureq::Body>) -> Result<Lines<T>> {
        let reader: Box<dyn Read + Send> = Box::new(response.into_body().into_reader());
        let url = format!("{}{BASE}{path}", self.url);
        Ok(Lines { reader: BufReader::new(reader), prefix, url, item: PhantomData })
    }

    fn send(&self, method: Method, path: &str, kind: &str, body: &str) -> Result<Response<ureq::Body>> {
        let response = self.request(method, path, kind, body, &[])?;
        self.check(response)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response<ureq::Body>> {
        let method_name = method.as_str().to_owned();
        let mut request = Request::builder().method(method).uri(format!("{}{BASE}{path}", self.url));
        if !kind.is_empty() {
            request = request.header("content-type", kind);
        }
        let login = self.credentials.header(&self.url, &method_name, &format!("{BASE}{path}"));
        let login = login.map_err(|what| ClientError::Credentials { url: self.url.clone(), what })?;
        if let Some(login) = login {
            request = request.header("authorization", login);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let failed = |source: ureq::Error| {
            let (url, untrusted) = (self.url.clone(), tls::fault(&source).is_some());
            let cut = match &source {
                ureq::Error::Io(e) => matches!(
                    e.kind(),
                    ErrorKind::UnexpectedEof
                        | ErrorKind::ConnectionReset
                        | ErrorKind::ConnectionAborted
                        | ErrorKind::BrokenPipe
                ),
                _ => false,
            };
            let source = Box::new(source);
            if cut {
                return ClientError::Interrupted { url };
            }
            if untrusted {
                ClientError::Untrusted { url, source }
            } else {
                ClientError::Unreachable { url, source }
            }
        };
        if self.url.starts_with("https://") && !self.trusts {
            let what = "nothing says by which certificate it is known; 'weir context add' does, with --fingerprint or --ca";
            return Err(ClientError::Credentials { url: self.url.clone(), what: what.into() });
        }
        if body.is_empty() {
            self.agent.run(request.body(()).map_err(|e| failed(e.into()))?).map_err(failed)
        } else {
            self.agent.run(request.body(body).map_err(|e| failed(e.into()))?).map_err(failed)
        }
    }

    /// The response, if it is no problem.
    fn check(&self, response: Response<ureq::Body>) -> Result<Response<ureq::Body>> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(response)?;
        match serde_json::from_str(&body) {
            Ok(problem) => Err(ClientError::Problem(problem)),
            Err(_) => {
                Err(self.unexpected("", format!("{status} {}", body.chars().take(200).collect::<String>())))
            }
        }
    }

    fn body(&self, response: Response<ureq::Body>) -> Result<String> {
        let body = response.into_body().into_with_config().limit(MAX_ANSWER).read_to_string();
        body.map_err(|e| self.unexpected("", e.to_string()))
    }

    fn read<T: DeserializeOwned>(&self, path: &str, response: Response<ureq::Body>) -> Result<T> {
        let body = self.body(response)?;
        serde_json::from_str(&body).map_err(|e| self.unexpected(path, e.to_string()))
    }

    fn unexpected(&self, path: &str, what: String) -> ClientError {
        ClientError::Protocol { url: format!("{}{BASE}{path}", self.url), what }
    }
}

/// The items of a stream, each of them waited for.
pub struct Lines<T> {
    reader: BufReader<Box<dyn Read + Send>>,
    prefix: &'static str,
    url: String,
    item: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for Lines<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("url", &self.url).finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned> Iterator for Lines<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let unexpected =
            |url: &str, what: String| Some(Err(ClientError::Protocol { url: url.to_owned(), what }));
        loop {
            let mut line = String::new();
            match (&mut self.reader).take(MAX_ANSWER).read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(e) => return unexpected(&self.url, e.to_string()),
            }
            // Lines without the prefix are other fields of server-sent events.
            let Some(text) = line.trim().strip_prefix(self.prefix).filter(|t| !t.is_empty()) else {
                continue;
            };
            return match serde_json::from_str(text) {
                Ok(item) => Some(Ok(item)),
                Err(e) => unexpected(&self.url, e.to_string()),
            };
        }
    }
}

/// That nodes speak TLS beyond their own machine.
fn tls_hint(url: &str) -> &'static str {
    if credentials::is_private(url) {
        ""
    } else {
        ", and does it speak http? Beyond its own machine it speaks https"
    }
}

fn agent(time: Option<Duration>, tls: Option<ClientConfig>) -> Agent {
    // Nodes are near: a proxy for the web is not meant for them.
    let config = Agent::config_builder().http_status_as_error(false).proxy(None).timeout_global(time).build();
    match tls {
        None => config.new_agent(),
        Some(tls) => {
            let connector = TcpConnector::default().chain(tls::Tls(Arc::new(tls)));
            Agent::with_parts(config, connector, DefaultResolver::default())
        }
    }
}

fn kind(document: &str) -> &'static str {
    if weir_model::doc::is_json(document) { "application/json" } else { "application/yaml" }
}

fn handler(graph: &str, function: &str, name: &str) -> String {
    format!("/graphs/{}/functions/{}/handlers/{}", encode(graph), encode(function), encode(name))
}

/// A path segment (RFC 3986, section 2.1).
fn encode(segment: &str) -> String {
    let mut out = String::new();
    for b in segment.bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(b)),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

fn of_function(graph: &str, function: &str, what: &str) -> String {
    format!("/graphs/{}/functions/{}/{what}", encode(graph), encode(function))
}
