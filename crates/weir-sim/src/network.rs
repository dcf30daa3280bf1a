//! Requests and answers on their way between the controller and its nodes. A connection delivers all or ends; requests that were under way when it ended may be lost,
//! or arrive later all the same: the node had them already.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::http::{Method, Request, Response};
use http_body_util::BodyExt;
use tokio::sync::oneshot;
use weir_api::BASE;
use weir_api::mark::{HEADER, Mark};
use weir_controller::fleet::{Answer, Transport};

use crate::node::Said;

/// A request on its way.
#[derive(Debug)]
pub struct Asked {
    /// The node.
    pub node: String,
    /// The connection.
    pub connection: u64,
    /// What is asked.
    pub method: Method,
    /// Behind `/v1`.
    pub path: String,
    /// How far the controller has got.
    pub mark: Option<Mark>,
    /// The body.
    pub body: String,
    /// Where the answer goes, while the connection stands.
    pub answer: Option<oneshot::Sender<Said>>,
}

/// All that is on its way.
#[derive(Debug, Default)]
pub struct InFlight {
    /// To nodes.
    pub requests: Vec<Asked>,
    /// To the controller, with the connection.
    pub answers: Vec<(u64, oneshot::Sender<Said>, Said)>,
}

/// The network.
#[derive(Debug, Clone, Default)]
pub struct Network(Arc<Mutex<InFlight>>);

impl Network {
    /// What is on its way.
    pub fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to a node.
    pub fn connection(&self, node: &str, number: u64) -> Connection {
        Connection { network: self.clone(), node: node.to_owned(), number }
    }

    /// A connection ends. Of the requests, those arrive later of which `late` says so.
    pub fn end(&self, connection: u64, mut late: impl FnMut() -> bool) {
        let mut all = self.in_flight();
        all.answers.retain(|(of, ..)| *of != connection);
        all.requests.retain_mut(|r| {
            if r.connection != connection || r.answer.is_none() {
                return true;
            }
            r.answer = None;
            late()
        });
    }
}

/// A connection to a node.
#[derive(Debug, Clone)]
pub struct Connection {
    network: Network,
    node: String,
    number: u64,
}

impl Transport for Connection {
    fn send(&self, request: Request<Body>) -> Answer {
        let connection = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|e| e.to_string())?.to_bytes();
            let path = parts.uri.path();
            let mark = parts.headers.get(HEADER).and_then(|h| h.to_str().ok()?.parse().ok());
            let (answer, answered) = oneshot::channel();
            connection.network.in_flight().requests.push(Asked {
                node: connection.node,
                connection: connection.number,
                method: parts.method,
                path: path.strip_prefix(BASE).unwrap_or(path).to_owned(),
                mark,
                body: String::from_utf8_lossy(&body).into_owned(),
                answer: Some(answer),
            });
            let (status, body) = answered.await.map_err(|_| "the connection ended".to_owned())?;
            Response::builder().status(status).body(Body::from(body)).map_err(|e| e.to_string())
        })
    }
}
