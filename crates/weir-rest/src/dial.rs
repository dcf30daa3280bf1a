//! Requests over TLS from within a daemon, and connections that it makes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error};
use weir_api::problem::Problem;

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 1 << 20;

/// Why there is no connection, or no answer.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The address is none.
    #[error("'{0}' is no address of a server; write https://HOST:PORT")]
    Address(String),
    /// It cannot be reached.
    #[error("{address} cannot be reached: {why}")]
    Unreachable {
        /// Which.
        address: String,
        /// Why.
        why: String,
    },
    /// It is not who it should be, or refuses this machine's certificate.
    #[error("{address}: {why}")]
    Tls {
        /// Which.
        address: String,
        /// Why.
        why: String,
    },
    /// It refused the request.
    #[error("{0}")]
    Problem(Problem),
    /// Its answer makes no sense.
    #[error("{address} does not answer as a controller: {why}")]
    Protocol {
        /// Which.
        address: String,
        /// What came.
        why: String,
    },
}

/// The host and port of an address such as `https://host:7443`.
///
/// # Errors
/// It is none.
pub fn host_and_port(url: &str, port: u16) -> Result<(String, u16), DialError> {
    let wrong = || DialError::Address(url.to_owned());
    let rest = match url.split_once("://") {
        Some(("https", rest)) => rest,
        Some(_) => return Err(wrong()),
        None => url,
    };
    let authority: axum::http::uri::Authority = rest.trim_end_matches('/').parse().map_err(|_| wrong())?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || authority.as_str().contains('@') {
        return Err(wrong());
    }
    match (authority.port_u16(), authority.as_str() == authority.host()) {
        (Some(port), _) => Ok((host.to_owned(), port)),
        (None, true) => Ok((host.to_owned(), port)),
        (None, false) => Err(wrong()),
    }
}

/// A connection with TLS, on which that protocol (ALPN) is spoken.
///
/// # Errors
/// There is none.
pub async fn connect(
    host: &str,
    port: u16,
    config: &ClientConfig,
    protocol: &[u8],
) -> Result<TlsStream<TcpStream>, DialError> {
    let address = format!("{host}:{port}");
    let unreachable = |why: String| DialError::Unreachable { address: address.clone(), why };
    let stream = timeout(CONNECT, TcpStream::connect((host, port))).await;
    let stream = stream.map_err(|_| unreachable("it does not answer".into()))?;
    let stream = stream.map_err(|e| unreachable(e.to_string()))?;
    _ = stream.set_nodelay(true);
    let mut config = config.clone();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from(host.to_owned()).map_err(|_| DialError::Address(host.to_owned()))?;
    let handshake = timeout(CONNECT, TlsConnector::from(Arc::new(config)).connect(name, stream)).await;
    let stream = handshake.map_err(|_| unreachable("it does not answer with TLS".into()))?;
    stream.map_err(|e| DialError::Tls { address, why: reason(&e) })
}

/// Why there is no TLS, for people.
fn reason(e: &std::io::Error) -> String {
    let tls = e.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match tls {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "it is another server than the token, or this node's certificate, is from: its authority has another pin".into()
        }
        _ => e.to_string(),
    }
}

/// Sends a document in JSON, and reads the one that comes back.
///
/// # Errors
/// No answer, or a problem.
pub async fn post<T: DeserializeOwned>(
    host: &str,
    port: u16,
    config: &ClientConfig,
    path: &str,
    document: &impl Serialize,
) -> Result<T, DialError> {
    let address = format!("{host}:{port}");
    let unexpected = |why: String| DialError::Protocol { address: address.clone(), why };
    let stream = connect(host, port, config, b"http/1.1").await?;
    let exchange = async {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| unexpected(e.to_string()))?;
        let running = tokio::spawn(connection);
        let body = serde_json::to_vec(document).map_err(|e| unexpected(e.to_string()))?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(
                header::HOST,
                if host.contains(':') { format!("[{host}]:{port}") } else { address.clone() },
            )
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| unexpected(e.to_string()))?;
        let response = sender.send_request(request).await.map_err(|e| unexpected(e.to_string()))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        running.abort();
        let body = body.map_err(|e| unexpected(e.to_string()))?.to_bytes();
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|e| unexpected(e.to_string()));
        }
        match serde_json::from_slice(&body) {
            Ok(problem) => Err(DialError::Problem(problem)),
            Err(_) => Err(unexpected(status.to_string())),
        }
    };
    timeout(ANSWER, exchange).await.map_err(|_| unexpected("no answer came".into()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_https_with_or_without_the_word_and_the_port() {
        let read = |text| host_and_port(text, 7443).ok();
        let is = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(read("https://ctl.example:9000/"), is("ctl.example", 9000));
        assert_eq!(read("10.0.0.1"), is("10.0.0.1", 7443));
        assert_eq!(read("[fe80::1]:1"), is("fe80::1", 1));
        for bad in ["http://a:1", "https://", "", "https://a/b", "a:99999", "u@h"] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
