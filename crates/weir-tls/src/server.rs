//! A server with an authority of its own.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{Error, RootCertStore, ServerConfig};

use crate::authority::{Authority, certificates};
use crate::{NODE_PROTOCOL, SERVER_LIFETIME, TlsError, provider};

/// The server's certificate, which is made anew before it ends.
#[derive(Debug)]
struct Renewing {
    authority: Arc<Authority>,
    names: Vec<String>,
    current: RwLock<(SystemTime, Arc<CertifiedKey>)>,
}

impl Renewing {
    fn make(authority: &Authority, names: &[String], now: SystemTime) -> Result<Arc<CertifiedKey>, TlsError> {
        let failed = |e: Error| TlsError::bad("a server's certificate")(e.to_string());
        let (chain, key) = authority.server(names, now)?.parts()?;
        CertifiedKey::from_der(chain, key, &provider()).map(Arc::new).map_err(failed)
    }
}

impl ResolvesServerCert for Renewing {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let now = SystemTime::now();
        let (made, key) = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        if now.duration_since(made).is_ok_and(|age| age < SERVER_LIFETIME / 2) {
            return Some(key);
        }
        let Ok(new) = Renewing::make(&self.authority, &self.names, now) else { return Some(key) };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (now, new.clone());
        Some(new)
    }
}

/// A server that is reached by these names and addresses. Clients may show a certificate of the authority's, as nodes do.
///
/// # Errors
/// A name cannot stand in a certificate.
pub fn config(authority: Arc<Authority>, names: Vec<String>) -> Result<ServerConfig, TlsError> {
    let bad = |e: String| TlsError::bad("TLS")(e);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority.certificate())? {
        roots.add(certificate).map_err(|e| bad(e.to_string()))?;
    }
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider())
        .allow_unauthenticated()
        .build()
        .map_err(|e| bad(e.to_string()))?;
    let now = SystemTime::now();
    let current = RwLock::new((now, Renewing::make(&authority, &names, now)?));
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(e.to_string()))?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(Renewing { authority, names, current }));
    config.alpn_protocols = vec![NODE_PROTOCOL.to_vec(), b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
