//! Digests: hashes that name content.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of some content, written `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// That of bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest::finished(Sha256::new_with_prefix(bytes))
    }

    fn finished(hash: Sha256) -> Digest {
        Digest(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
    }

    /// The hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Digest, String> {
        let hex = text.strip_prefix("sha256:").filter(|hex| {
            hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        });
        match hex {
            Some(hex) => Ok(Digest(hex.to_owned())),
            None => Err(format!("{text:?} is no digest: write sha256: and 64 hexadecimal digits")),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Digest, String> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

/// Hashes what is written through it.
#[derive(Debug)]
pub struct Sha256Writer<W> {
    inner: W,
    hash: Sha256,
    length: u64,
}

impl<W> Sha256Writer<W> {
    /// A writer in front of another.
    pub fn new(inner: W) -> Sha256Writer<W> {
        Sha256Writer { inner, hash: Sha256::new(), length: 0 }
    }

    /// The writer behind, the digest of what was written, and its length in bytes.
    pub fn finish(self) -> (W, Digest, u64) {
        (self.inner, Digest::finished(self.hash), self.length)
    }
}

impl<W: Write> Write for Sha256Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hash.update(&bytes[..n]);
        self.length += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
