//! How a client knows a server.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::authority::{Identity, certificates};
use crate::{Pin, SERVER_NAME, TlsError, provider};

/// Takes the servers of the authority with this pin, by whatever name they are reached; or the one server whose certificate has it.
#[derive(Debug)]
struct Pinned {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if Pin::of(end) == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authority = others.iter().find(|c| Pin::of(c) == self.pin).ok_or(unknown)?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), self.provider.clone()).build();
        let verifier = verifier.map_err(|e| Error::General(e.to_string()))?;
        let name = ServerName::try_from(SERVER_NAME).map_err(|e| Error::General(e.to_string()))?;
        verifier.verify_server_cert(end, &[], &name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A client of servers whose certificates lead to one of these, in PEM, and are for the name or address by which they are reached; it shows who it is if it
/// has an identity.
///
/// # Errors
/// The text holds no certificates, or the identity cannot be used.
pub fn rooted(pem: &str, identity: Option<&Identity>) -> Result<ClientConfig, TlsError> {
    let failed = |e: Error| TlsError::bad("TLS")(e.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(failed)?;
    }
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(failed)?;
    let builder = builder.with_root_certificates(roots);
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => {
            let (chain, key) = identity.parts()?;
            builder.with_client_auth_cert(chain, key).map_err(failed)
        }
    }
}

/// A client of the server with this pin, which shows who it is if it has an identity.
///
/// # Errors
/// The identity cannot be used.
pub fn config(pin: Pin, identity: Option<&Identity>) -> Result<ClientConfig, TlsError> {
    let failed = |e: Error| TlsError::bad("TLS")(e.to_string());
    let provider = provider();
    let verifier = Arc::new(Pinned { pin, provider: provider.clone() });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => {
            let (chain, key) = identity.parts()?;
            builder.with_client_auth_cert(chain, key).map_err(failed)
        }
    }
}
