//! Certificates of a domain. A controller, or a node that serves REST beyond its own machine, is a certificate
//! [authority](authority::Authority) of its own: nothing is bought and nothing to set up. Clients know a server by the
//! [pin](Pin) of its authority, so it may be reached by any name or address; a controller knows its nodes by the names in the
//! certificates that it gave them.

#![forbid(unsafe_code)]

pub mod authority;
pub mod client;
pub mod files;
pub mod server;

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};

/// The protocol (ALPN, RFC 7301) of a node's connection to its controller, on which the node is the server.
pub const NODE_PROTOCOL: &[u8] = b"weir-node/1";
/// The name that every server certificate has: who has a pin need not know by which name a server is reached.
pub(crate) const SERVER_NAME: &str = "server.weir.internal";
/// How long certificates of servers hold. A server gives itself another one in time.
pub(crate) const SERVER_LIFETIME: Duration = Duration::from_secs(90 * 86_400);

/// Something is wrong with a key, a certificate or the files that hold them.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A key or a certificate cannot be made or read.
    #[error("{what}: {why}")]
    Bad {
        /// Which.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A pin is not one.
    #[error("'{0}' is no pin; it is sha256: and 64 hexadecimal digits, as the server prints at its start")]
    Pin(String),
}

impl TlsError {
    pub(crate) fn bad(what: &'static str) -> impl FnOnce(String) -> TlsError {
        move |why| TlsError::Bad { what, why }
    }
}

/// A pin: the SHA-256 of the DER form of an authority's certificate, or of one that stands alone, by which a client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pin([u8; 32]);

impl Pin {
    /// The pin of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Pin {
        Pin(Sha256::digest(certificate.as_ref()).into())
    }
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::str::FromStr for Pin {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Pin, TlsError> {
        let wrong = || TlsError::Pin(text.to_owned());
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        if digits.len() != 64 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut pin = [0; 32];
        for (i, byte) in pin.iter_mut().enumerate() {
            let pair = digits.get(2 * i..2 * i + 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Pin(pin))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_read_as_they_are_printed_and_other_text_is_refused() {
        let pin = Pin::of(&CertificateDer::from(vec![1, 2, 3]));
        assert_eq!(pin.to_string().parse::<Pin>().unwrap(), pin);
        assert_eq!(pin.to_string().trim_start_matches("sha256:").to_uppercase().parse::<Pin>().unwrap(), pin);
        for bad in ["", "sha256:", "sha256:00", &"é".repeat(32), &format!("{pin}0"), "sha1:00"] {
            assert!(bad.parse::<Pin>().unwrap_err().to_string().contains("64 hexadecimal digits"), "{bad}");
        }
    }
}
