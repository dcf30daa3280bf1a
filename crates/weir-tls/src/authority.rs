//! An authority: makes certificates for itself as a server, and for the nodes that joined.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{Pin, SERVER_LIFETIME, SERVER_NAME, TlsError, provider};

/// How long an authority's own certificate holds.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(20 * 365 * 86_400);
/// Clocks of other machines may be behind by this.
const SKEW: Duration = Duration::from_secs(300);
/// Longest name of a node.
const MAX_NAME: usize = 63;

/// A certificate with those that lead from it to its authority, and its key, all in PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, then its authority's.
    pub chain: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl Identity {
    pub(crate) fn parts(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let chain = certificates(&self.chain)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        Ok((chain, key.map_err(|e| TlsError::bad("the private key")(e.to_string()))?))
    }

    /// From when to when the certificate holds.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn validity(&self) -> Result<(SystemTime, SystemTime), TlsError> {
        let chain = certificates(&self.chain)?;
        let first = chain.first().ok_or_else(|| TlsError::bad("the certificate")("there is none".into()))?;
        let (_, read) =
            X509Certificate::from_der(first).map_err(|e| TlsError::bad("the certificate")(e.to_string()))?;
        let at = |t: x509_parser::time::ASN1Time| SystemTime::from(t.to_datetime());
        Ok((at(read.validity().not_before), at(read.validity().not_after)))
    }
}

/// The certificates of a text in PEM.
pub(crate) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let read = read.map_err(|e| TlsError::bad("a certificate")(e.to_string()))?;
    if read.is_empty() {
        return Err(TlsError::bad("a certificate")("the text holds none in PEM".into()));
    }
    Ok(read)
}

/// The pin of the last certificate of a text in PEM: that of the authority.
///
/// # Errors
/// It holds none.
pub fn pin_of(pem: &str) -> Result<Pin, TlsError> {
    let chain = certificates(pem)?;
    chain.last().map(Pin::of).ok_or_else(|| TlsError::bad("a certificate")("there is none".into()))
}

/// The name of a node in its certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName {
    /// Its name.
    pub name: String,
    /// A random number that it keeps as long as it is a member: another node that gets its name later has another one.
    pub number: String,
}

impl NodeName {
    /// A new node of this name.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn new(name: &str) -> Result<NodeName, TlsError> {
        let mut bytes = [0; 16];
        let random = provider().secure_random.fill(&mut bytes);
        random.map_err(|_| TlsError::bad("a node's number")("there is no randomness".into()))?;
        let number = bytes.iter().map(|b| format!("{b:02x}")).collect();
        Ok(NodeName { name: name.to_owned(), number })
    }
}

/// The node whose certificate this is.
pub fn node_of(certificate: &CertificateDer<'_>) -> Option<NodeName> {
    let (_, read) = X509Certificate::from_der(certificate).ok()?;
    let (name, number) = read.subject().iter_common_name().next()?.as_str().ok()?.split_once('/')?;
    Some(NodeName { name: name.to_owned(), number: number.to_owned() })
}

/// The node to whose identity a chain of certificates in PEM belongs.
///
/// # Errors
/// It is none of a node's.
pub fn node_of_chain(pem: &str) -> Result<String, TlsError> {
    let chain = certificates(pem)?;
    let name = chain.first().and_then(node_of);
    let name = name.ok_or_else(|| TlsError::bad("the certificate")("it names no node".into()))?;
    Ok(name.name)
}

/// Whether a text can be the name of a node: a label of a host name (RFC 1123, section 2.1).
///
/// # Errors
/// What would be right.
pub fn check_name(name: &str) -> Result<(), String> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edge = |b: Option<u8>| b.is_some_and(|b| inner(b) && b != b'-');
    let fits = name.len() <= MAX_NAME && name.bytes().all(inner);
    if fits && edge(name.bytes().next()) && edge(name.bytes().last()) {
        return Ok(());
    }
    Err(format!(
        "'{name}' cannot be a node's name; use up to {MAX_NAME} of a to z, 0 to 9 and -, with no - at an end"
    ))
}

/// A new key of a node, and what an authority has to sign for it, both in PEM.
///
/// # Errors
/// There is no randomness.
pub fn request() -> Result<(String, String), TlsError> {
    let failed = |e: rcgen::Error| TlsError::bad("a request for a certificate")(e.to_string());
    let key = KeyPair::generate().map_err(failed)?;
    let request = CertificateParams::default().serialize_request(&key).map_err(failed)?;
    Ok((key.serialize_pem(), request.pem().map_err(failed)?))
}

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    key: String,
    pin: Pin,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("pin", &self.pin).finish_non_exhaustive()
    }
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn new(name: &str, now: SystemTime) -> Result<Authority, TlsError> {
        let failed = |e: rcgen::Error| TlsError::bad("a certificate authority")(e.to_string());
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params(name, now, AUTHORITY_LIFETIME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(failed)?;
        Authority::load(&certificate.pem(), &key.serialize_pem())
    }

    /// One that was made before, from its certificate and its key in PEM.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn load(certificate: &str, key: &str) -> Result<Authority, TlsError> {
        let failed = |e: rcgen::Error| TlsError::bad("the certificate authority")(e.to_string());
        let pair = KeyPair::from_pem(key).map_err(failed)?;
        let issuer = Issuer::from_ca_cert_pem(certificate, pair).map_err(failed)?;
        let pin = pin_of(certificate)?;
        Ok(Authority { issuer, certificate: certificate.to_owned(), key: key.to_owned(), pin })
    }

    /// Its certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its private key, in PEM.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// What clients know it by.
    pub fn pin(&self) -> Pin {
        self.pin
    }

    /// A certificate for a server that is reached by these names and addresses.
    ///
    /// # Errors
    /// A name cannot stand in a certificate.
    pub fn server(&self, names: &[String], now: SystemTime) -> Result<Identity, TlsError> {
        let failed = |e: rcgen::Error| TlsError::bad("a server's certificate")(e.to_string());
        let key = KeyPair::generate().map_err(failed)?;
        let names = names.iter().cloned().chain([SERVER_NAME.to_owned()]).collect::<Vec<_>>();
        let with_names = CertificateParams::new(names).map_err(failed)?;
        let mut params = params("weir server", now, SERVER_LIFETIME);
        params.subject_alt_names = with_names.subject_alt_names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Identity { chain: certificate.pem() + &self.certificate, key: key.serialize_pem() })
    }

    /// The certificates for a node that [asked](request) for them, in PEM: its own, and that of this authority. Nothing but the key is
    /// taken from the request.
    ///
    /// # Errors
    /// The request is none, or not signed by its key, or the name cannot be a node's.
    pub fn node(
        &self,
        request: &str,
        node: &NodeName,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<String, TlsError> {
        let failed = |e: rcgen::Error| TlsError::bad("the request for a certificate")(e.to_string());
        check_name(&node.name).map_err(TlsError::bad("the name"))?;
        let mut request = CertificateSigningRequestParams::from_pem(request).map_err(failed)?;
        request.params = params(&format!("{}/{}", node.name, node.number), now, lifetime);
        request.params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        request.params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = request.signed_by(&self.issuer).map_err(failed)?;
        Ok(certificate.pem() + &self.certificate)
    }
}

fn params(name: &str, now: SystemTime, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = OffsetDateTime::from(now - SKEW);
    params.not_after = OffsetDateTime::from(now + lifetime);
    params.use_authority_key_identifier_extension = true;
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_the_same_after_a_restart() {
        let first = Authority::new("domain", SystemTime::now()).unwrap();
        let again = Authority::load(first.certificate(), first.key()).unwrap();
        assert_eq!(first.pin(), again.pin());
        let identity = again.server(&["10.0.0.1".into(), "host".into()], SystemTime::now()).unwrap();
        assert_eq!(pin_of(&identity.chain).unwrap(), first.pin());
        assert!(
            Authority::load("text", first.key()).is_err()
                && Authority::load(first.certificate(), "x").is_err()
        );
    }

    #[test]
    fn a_nodes_certificate_has_the_name_that_the_authority_gave() {
        let authority = Authority::new("domain", SystemTime::now()).unwrap();
        let (key, asked) = request().unwrap();
        let lifetime = Duration::from_secs(3600);
        let now = SystemTime::now();
        let n1 = NodeName::new("n1").unwrap();
        assert_ne!(n1, NodeName::new("n1").unwrap());
        let chain = authority.node(&asked, &n1, now, lifetime).unwrap();
        assert_eq!(node_of(&certificates(&chain).unwrap()[0]), Some(n1.clone()));
        let (from, to) = Identity { chain, key }.validity().unwrap();
        assert!(from < now && to > now + lifetime / 2 && to <= now + lifetime);
        for bad in ["", "N1", "a b", "-a", "a-", &"a".repeat(64), "n\n1"] {
            assert!(authority.node(&asked, &NodeName::new(bad).unwrap(), now, lifetime).is_err(), "{bad:?}");
        }
        let broken = asked.replacen('A', "B", 3);
        assert!(authority.node(&broken, &n1, now, lifetime).is_err());
        assert!(authority.node("", &n1, now, lifetime).is_err());
    }
}
