//! As whom a client asks.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_auth::audience::of_url;
use weir_auth::key::PrivateKey;
use weir_auth::token::{request, sign};

/// As whom a client asks.
#[derive(Clone, Default)]
pub enum Credentials {
    /// As nobody: of a server that asks for no login.
    #[default]
    None,
    /// As who has this secret: the admin token.
    Token(String),
    /// As the owner of this key, which signs a token for each request.
    Key(Arc<PrivateKey>),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::None => f.write_str("None"),
            Credentials::Token(_) => f.write_str("Token"),
            Credentials::Key(key) => write!(f, "Key({})", key.public().fingerprint()),
        }
    }
}

impl Credentials {
    /// The header `Authorization` of a request to the server at `url`.
    pub(super) fn header(&self, url: &str, method: &str, path: &str) -> Result<Option<String>, String> {
        match self {
            Credentials::None => Ok(None),
            Credentials::Token(_) if !is_private(url) => Err(
                "the token would cross the network in the clear: use https, or a key, which signs and is not sent".into(),
            ),
            Credentials::Token(token) => Ok(Some(format!("Bearer {token}"))),
            Credentials::Key(key) => {
                let audience = of_url(url).ok_or("it is no address of a server")?;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
                let token = sign(key, &audience, &request(method, path), now).map_err(|e| e.to_string())?;
                Ok(Some(format!("Bearer {token}")))
            }
        }
    }
}

/// Whether what is sent there can be read by nobody else: over TLS, or on this machine.
pub(super) fn is_private(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return true };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_sent_to_nobody_else_and_a_key_signs_for_the_server_that_is_asked() {
        let secret = Credentials::Token("weir-admin-x".into());
        for url in ["http://127.0.0.1:7400", "http://localhost", "http://[::1]:7400", "https://node.example"]
        {
            let header = secret.header(url, "GET", "/v1/graphs").unwrap();
            assert_eq!(header.as_deref(), Some("Bearer weir-admin-x"));
        }
        for url in ["http://10.0.0.1:7400", "http://localhost.example"] {
            assert!(secret.header(url, "GET", "/v1/graphs").unwrap_err().contains("https"), "{url}");
        }
        let key = Credentials::Key(Arc::new(PrivateKey::generate("").unwrap()));
        assert!(key.header("http://10.0.0.1:7400", "GET", "/v1/graphs").unwrap().is_some());
        assert!(!format!("{secret:?} {key:?}").contains("weir-admin-x"));
    }
}
