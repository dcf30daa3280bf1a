//! What a controller of several does with requests and with nodes: it answers them if it leads, and else passes requests on to the one that does. Nodes go there themselves.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::{mpsc, watch};
use tower_service::Service;
use weir_api::problem::Problem;
use weir_rest::dial::{connect, host_and_port};
use weir_rest::listen::NodeConnection;
use weir_tls::{Pin, client};

/// Says that a request was passed on once.
static PASSED_ON: HeaderName = HeaderName::from_static("weir-passed-on");
/// What nodes ask with their certificates, which cannot be passed on.
const OF_NODES: [&str; 2] = ["/v1/nodes/hello", "/v1/nodes/renew"];
/// How long until it is worth to ask again, in seconds.
const AGAIN: HeaderValue = HeaderValue::from_static("2");

/// The present role of this controller.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    /// The leader: that is its interface, and there go nodes that dial.
    Leads(Router, mpsc::Sender<NodeConnection>),
    /// Another one leads.
    Follows(String),
    /// Nobody leads, as far as is known.
    Waits,
}

/// The server at a controller's address, whatever its role is.
#[derive(Debug, Clone)]
pub(super) struct Front {
    standing: Arc<watch::Sender<Standing>>,
    pin: Pin,
}

impl Front {
    pub(super) fn new(pin: Pin) -> Front {
        Front { standing: Arc::new(watch::Sender::new(Standing::Waits)), pin }
    }

    pub(super) fn set(&self, standing: Standing) {
        self.standing.send_replace(standing);
    }

    fn get(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Waits until another controller leads than that one.
    async fn another_leads(&self, url: &str) {
        let another = |standing: &Standing| match standing {
            Standing::Leads(..) => true,
            Standing::Follows(now) => now != url,
            Standing::Waits => false,
        };
        // It is sent to as long as `self` is there.
        _ = self.standing.subscribe().wait_for(another).await;
    }

    pub(super) fn router(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    /// Takes nodes that dial, for ever. Without the lead the connection ends, and the node tries the next controller.
    pub(super) async fn take(self, mut dialled: mpsc::Receiver<NodeConnection>) {
        while let Some(node) = dialled.recv().await {
            if let Standing::Leads(_, nodes) = self.get() {
                _ = nodes.send(node).await;
            }
        }
    }
}

fn later(text: impl Into<String>) -> Response {
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, text);
    ([(header::RETRY_AFTER, AGAIN)], problem).into_response()
}

async fn answer(State(front): State<Front>, request: Request) -> Response {
    let url = match front.get() {
        Standing::Leads(mut router, _) => return router.call(request).await.unwrap_or_else(|e| match e {}),
        Standing::Waits => return later("no controller leads at present; one will within seconds"),
        Standing::Follows(url) => url,
    };
    if OF_NODES.contains(&request.uri().path()) {
        return later(format!("this controller does not lead, {url} does"));
    }
    if request.headers().contains_key(&PASSED_ON) {
        return later("the controllers do not agree yet who leads");
    }
    let answered = tokio::select! {
        answered = pass_on(&url, front.pin, request) => answered,
        // One that is paused would keep the client waiting.
        () = front.another_leads(&url) => Err("another one leads by now".into()),
    };
    answered.unwrap_or_else(|why| {
        later(format!(
            "the controller that leads, {url}, does not answer: {why}; what was asked for may be done or not"
        ))
    })
}

/// Passes a request on to the leader, and its answer back, both as they come.
async fn pass_on(url: &str, pin: Pin, mut request: Request) -> Result<Response, String> {
    let (host, port) = host_and_port(url, super::PORT).map_err(|e| e.to_string())?;
    let config = client::config(pin, None).map_err(|e| e.to_string())?;
    let stream = connect(&host, port, &config, b"http/1.1").await.map_err(|e| e.to_string())?;
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    let uri = request.uri().clone();
    // HTTP/2 has it in the address; whom the client meant stays so.
    if let Some(host) = uri.authority().and_then(|a| HeaderValue::try_from(a.as_str()).ok()) {
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    *request.uri_mut() = path.parse::<Uri>().map_err(|e| e.to_string())?;
    *request.version_mut() = axum::http::Version::HTTP_11;
    request.headers_mut().insert(PASSED_ON.clone(), HeaderValue::from_static("1"));
    for name in [header::CONNECTION, header::UPGRADE, header::TE] {
        request.headers_mut().remove(name);
    }
    let mut response = sender.send_request(request).await.map_err(|e| e.to_string())?;
    for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
        response.headers_mut().remove(name);
    }
    Ok(response.map(Body::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn status(front: &Front, path: &str) -> (StatusCode, String) {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let answer = front.router().call(request).await.unwrap();
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 16).await.unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn the_leader_answers_and_others_say_who_that_is() {
        let authority = weir_tls::authority::Authority::new("test", std::time::SystemTime::now()).unwrap();
        let front = Front::new(authority.pin());
        let (code, text) = status(&front, "/v1/graphs").await;
        assert!(code == 503 && text.contains("no controller leads"), "{text}");
        front.set(Standing::Follows("https://127.0.0.1:1".into()));
        let (code, text) = status(&front, "/v1/nodes/hello").await;
        assert!(code == 503 && text.contains("https://127.0.0.1:1 does"), "{text}");
        let (code, text) = status(&front, "/v1/graphs").await;
        assert!(code == 503 && text.contains("does not answer"), "{text}");
        // One that takes connections and says nothing, until another one leads.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", silent.local_addr().unwrap());
        front.set(Standing::Follows(url.clone()));
        let asked = status(&front, "/v1/graphs");
        let elects = async {
            let connection = silent.accept().await.unwrap();
            front.set(Standing::Waits);
            front.set(Standing::Follows(url));
            tokio::task::yield_now().await;
            front.set(Standing::Follows("https://127.0.0.1:1".into()));
            connection
        };
        let ((code, text), _connection) = tokio::join!(asked, elects);
        assert!(code == 503 && text.contains("another one leads by now"), "{text}");
        let (nodes, _dialled) = mpsc::channel(1);
        let own = Router::new().fallback(async |request: Request| request.uri().path().to_owned());
        front.set(Standing::Leads(own, nodes));
        assert_eq!(status(&front, "/v1/graphs").await, (StatusCode::OK, "/v1/graphs".to_owned()));
    }
}
