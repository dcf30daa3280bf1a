//! Connections, with TLS or without.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service;
use weir_tls::NODE_PROTOCOL;
use weir_tls::authority::{NodeName, node_of};

pub use tokio_rustls::rustls::ServerConfig;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the head of a request may take.
const HEADERS: Duration = Duration::from_secs(30);
/// How long nothing may come before it is asked whether the other end is there.
const IDLE: Duration = Duration::from_secs(30);
/// How long requests may take to end when the server ends: streams of events have no end of their own.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long nothing else is accepted when there are no descriptors left.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// Most requests at a time on a connection that was dialled: streams of many clients come by it.
const STREAMS: u32 = 2000;
/// How often each end of a node's connection makes sure of the other.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long it waits for the answer.
pub const SILENCE: Duration = Duration::from_millis(1500);

/// Where a request comes from: in the extensions of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The address.
    pub address: Option<SocketAddr>,
    /// The node whose certificate it has shown.
    pub node: Option<NodeName>,
    /// Whether it came by the connection that a node made to its controller: it is the controller.
    pub controller: bool,
}

/// A node that has dialled: on this connection it is the server.
#[derive(Debug)]
pub struct NodeConnection {
    /// Its name, by its certificate.
    pub node: NodeName,
    /// From where.
    pub address: SocketAddr,
    /// The connection.
    pub stream: TlsStream<TcpStream>,
}

/// How connections are taken.
#[derive(Debug, Clone, Default)]
pub struct Entrance {
    /// With TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// Where nodes that dial go. Without it they are refused.
    pub nodes: Option<mpsc::Sender<NodeConnection>>,
}

/// Serves until `shutdown` is done, and then until the requests that came have their answers, or for two seconds.
pub async fn serve(
    listener: TcpListener,
    entrance: Entrance,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                // One that ended before it was taken, or no descriptors are left.
                tracing::debug!("a connection was not taken: {e}");
                tokio::time::sleep(EXHAUSTED).await;
                continue;
            }
        };
        _ = stream.set_nodelay(true);
        let watcher = graceful.watcher();
        let (entrance, router) = (entrance.clone(), router.clone());
        tokio::spawn(async move {
            let peer = Peer { address: Some(address), node: None, controller: false };
            let Some(config) = entrance.tls else {
                return http(stream, router, peer, watcher).await;
            };
            let handshake = timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream)).await;
            let stream = match handshake {
                Ok(Ok(stream)) => stream,
                Ok(Err(e)) => return tracing::debug!(%address, "no TLS: {e}"),
                Err(_) => return tracing::debug!(%address, "no TLS within {} s", HANDSHAKE.as_secs()),
            };
            let (_, session) = stream.get_ref();
            let node = session.peer_certificates().and_then(<[_]>::first).and_then(node_of);
            if session.alpn_protocol() == Some(NODE_PROTOCOL) {
                if let (Some(node), Some(nodes)) = (node, entrance.nodes) {
                    _ = nodes.send(NodeConnection { node, address, stream }).await;
                }
                return;
            }
            let peer = Peer { node, ..peer };
            http(stream, router, peer, watcher).await;
        });
    }
    drop(listener);
    _ = timeout(FAREWELL, graceful.shutdown()).await;
}

/// HTTP of any version on a connection.
async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    peer: Peer,
    watcher: Watcher,
) {
    let (address, mut builder) = (peer.address, auto::Builder::new(TokioExecutor::new()));
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(IDLE).keep_alive_timeout(HANDSHAKE);
    let service = service_fn(move |request| answer(router.clone(), peer.clone(), request));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(e) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(?address, "a connection ended: {e}");
    }
}

/// The answer to a request.
async fn answer(
    mut router: Router,
    peer: Peer,
    mut request: Request<Incoming>,
) -> Result<Response, Infallible> {
    request.extensions_mut().insert(peer);
    router.call(request).await
}

/// Serves a connection that was dialled, as a node serves its controller, until either end is gone.
///
/// # Errors
/// Why the connection ended, if not in order.
pub async fn serve_dialled(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    peer: Peer,
) -> Result<(), hyper::Error> {
    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(HEARTBEAT)
        .keep_alive_timeout(SILENCE)
        .max_concurrent_streams(STREAMS)
        .serve_connection(TokioIo::new(stream), service_fn(move |r| answer(router.clone(), peer.clone(), r)))
        .await
}
