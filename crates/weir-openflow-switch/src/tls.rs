//! Certificates: both sides show one, of the authority that they have in common. Names do not count, as in Open vSwitch: whoever has a
//! certificate of the authority may be a controller.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};

/// Files in PEM form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// The switch's certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of the authorities that controllers have theirs from.
    pub authority: PathBuf,
}

/// Certificates are not right.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {why}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// They do not fit together.
    #[error("the certificates cannot be used: {0}")]
    Bad(String),
}

/// Certificates that were read.
#[derive(Debug, Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Reads files.
    ///
    /// # Errors
    /// One cannot be read, or they do not fit together.
    pub fn read(files: &Files) -> Result<Tls, TlsError> {
        let chain = certificates(&files.certificate)?;
        let key = || {
            let wrong = |e: rustls::pki_types::pem::Error| TlsError::File {
                file: files.key.clone(),
                why: e.to_string(),
            };
            PrivateKeyDer::from_pem_file(&files.key).map_err(wrong)
        };
        let mut roots = RootCertStore::empty();
        for authority in certificates(&files.authority)? {
            let wrong =
                |e: rustls::Error| TlsError::File { file: files.authority.clone(), why: e.to_string() };
            roots.add(authority).map_err(wrong)?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let bad = |e: &dyn std::fmt::Display| TlsError::Bad(e.to_string());
        let servers = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let verifier = AnyName { inner: servers.map_err(|e| bad(&e))? };
        let client =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let client = client
            .map_err(|e| bad(&e))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(chain.clone(), key()?);
        let clients = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
        let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let server = server
            .map_err(|e| bad(&e))?
            .with_client_cert_verifier(clients.map_err(|e| bad(&e))?)
            .with_single_cert(chain, key()?);
        Ok(Tls {
            client: Arc::new(client.map_err(|e| bad(&e))?),
            server: Arc::new(server.map_err(|e| bad(&e))?),
        })
    }

    /// The side of who dials.
    pub(crate) fn dial(&self, to: std::net::IpAddr) -> Result<rustls::Connection, rustls::Error> {
        ClientConnection::new(self.client.clone(), ServerName::from(to)).map(Into::into)
    }

    /// The side of who is dialled.
    pub(crate) fn accept(&self) -> Result<rustls::Connection, rustls::Error> {
        ServerConnection::new(self.server.clone()).map(Into::into)
    }
}

fn certificates(file: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::File { file: file.to_owned(), why };
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|e| wrong(e.to_string()))?;
    if read.is_empty() { Err(wrong("it has no certificate in PEM form".into())) } else { Ok(read) }
}

/// Takes certificates of the authority, whatever name they have.
#[derive(Debug)]
struct AnyName {
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
