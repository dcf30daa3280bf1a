//! Ed25519 keys (RFC 8032) in the files of OpenSSH.

use std::fmt;
use std::str::FromStr;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use ssh_key::private::{Ed25519Keypair, Ed25519PrivateKey, KeypairData};
use ssh_key::public::{Ed25519PublicKey, KeyData};
use ssh_key::{HashAlg, LineEnding};

use crate::{NoRandom, random};

/// A key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is of another kind.
    #[error(
        "the key is of the kind {kind}, and only ssh-ed25519 is taken; make one with: ssh-keygen -t ed25519"
    )]
    Kind {
        /// What OpenSSH calls the kind.
        kind: String,
    },
    /// The private key has a passphrase.
    #[error(
        "the private key is encrypted with a passphrase, which is not asked for here; make a key without one for this use: ssh-keygen -t ed25519 -N ''"
    )]
    Encrypted,
    /// A private key stands where a public one belongs.
    #[error(
        "this is a private key, which stays with its owner; give the public one, from the file that ends with .pub"
    )]
    Private,
    /// A public key stands where a private one belongs.
    #[error("this is a public key; give the private one, from the file of the same name without .pub")]
    Public,
    /// It is no key.
    #[error("this is no key of OpenSSH's ({what}); {expected}")]
    Form {
        /// What is wrong.
        what: String,
        /// What would be right.
        expected: &'static str,
    },
}

const PUBLIC_FORM: &str = "a public key is a line such as: ssh-ed25519 AAAAC3Nza… name";
const PRIVATE_FORM: &str = "a private key begins with: -----BEGIN OPENSSH PRIVATE KEY-----";
/// Longest text of a key that is read, in bytes.
const MAX_TEXT: usize = 16 << 10;

/// The fingerprint of a public key, as `ssh-keygen -l` prints it: `SHA256:` and 43 characters of base64.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Fingerprint {
    fn from(text: String) -> Fingerprint {
        Fingerprint(text)
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PublicKey {
    bytes: [u8; 32],
    comment: String,
}

impl PublicKey {
    /// The key of these bytes (RFC 8032, section 5.1.5).
    pub fn from_bytes(bytes: [u8; 32]) -> PublicKey {
        PublicKey { bytes, comment: String::new() }
    }

    /// Its bytes (RFC 8032, section 5.1.5).
    pub fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// What stands behind the key in its file, often whose it is.
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// The fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(self.data().fingerprint(HashAlg::Sha256).to_string())
    }

    /// Whether its owner signed the message.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.bytes).verify(message, signature).is_ok()
    }

    fn data(&self) -> KeyData {
        KeyData::Ed25519(Ed25519PublicKey(self.bytes))
    }
}

/// Reads the line of a `.pub` file.
impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PublicKey, KeyError> {
        let form = |what: &str| KeyError::Form { what: what.into(), expected: PUBLIC_FORM };
        if text.len() > MAX_TEXT {
            return Err(form("it is too long"));
        }
        if text.contains("PRIVATE KEY-----") {
            return Err(KeyError::Private);
        }
        let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
        let line = lines.next().ok_or_else(|| form("it is empty"))?;
        if lines.next().is_some() {
            return Err(form("it has several lines; give one key"));
        }
        let kind = line.split_whitespace().next().unwrap_or_default();
        let known = ["ssh-", "ecdsa-", "sk-"].iter().any(|prefix| kind.starts_with(prefix));
        if known && kind != "ssh-ed25519" {
            return Err(KeyError::Kind { kind: kind.chars().take(64).collect() });
        }
        let key = ssh_key::PublicKey::from_openssh(line).map_err(|e| form(&e.to_string()))?;
        match key.key_data() {
            KeyData::Ed25519(bytes) => Ok(PublicKey { bytes: bytes.0, comment: key.comment().to_owned() }),
            other => Err(KeyError::Kind { kind: other.algorithm().to_string() }),
        }
    }
}

/// The line of a `.pub` file, without its end.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = ssh_key::PublicKey::new(self.data(), self.comment.clone());
        f.write_str(&key.to_openssh().map_err(|_| fmt::Error)?)
    }
}

/// A private key with its public one.
pub struct PrivateKey {
    seed: Ed25519PrivateKey,
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl PrivateKey {
    /// A new one.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn generate(comment: &str) -> Result<PrivateKey, NoRandom> {
        let seed = random::<32>()?;
        PrivateKey::from_seed(seed, comment).ok_or_else(|| NoRandom("the key was refused".into()))
    }

    /// The key of a seed (RFC 8032, section 5.1.5).
    fn from_seed(seed: [u8; 32], comment: &str) -> Option<PrivateKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        let bytes = pair.public_key().as_ref().try_into().ok()?;
        let public = PublicKey { bytes, comment: comment.to_owned() };
        Some(PrivateKey { seed: Ed25519PrivateKey::from_bytes(&seed), pair, public })
    }

    /// Reads a private key's file.
    ///
    /// # Errors
    /// It is none, of another kind, or has a passphrase.
    pub fn from_openssh(text: &str) -> Result<PrivateKey, KeyError> {
        let form = |what: &str| KeyError::Form { what: what.into(), expected: PRIVATE_FORM };
        if text.len() > MAX_TEXT {
            return Err(form("it is too long"));
        }
        if text.trim_start().starts_with("ssh-") {
            return Err(KeyError::Public);
        }
        let key = ssh_key::PrivateKey::from_openssh(text.trim()).map_err(|e| match e {
            ssh_key::Error::AlgorithmUnsupported { algorithm } => {
                KeyError::Kind { kind: algorithm.to_string() }
            }
            ssh_key::Error::AlgorithmUnknown => {
                KeyError::Kind { kind: "ecdsa or one that is not known".into() }
            }
            e => form(&e.to_string()),
        })?;
        if key.is_encrypted() {
            return Err(KeyError::Encrypted);
        }
        match key.key_data() {
            KeypairData::Ed25519(pair) => {
                let own = PrivateKey::from_seed(pair.private.to_bytes(), key.comment());
                // A file whose two halves differ would sign under a key that nobody has.
                own.filter(|k| k.public.bytes == pair.public.0)
                    .ok_or_else(|| form("its public and its private half do not fit"))
            }
            _ => Err(KeyError::Kind { kind: key.algorithm().to_string() }),
        }
    }

    /// The text of a private key's file. Keep it secret.
    ///
    /// # Errors
    /// It cannot be written so.
    pub fn to_openssh(&self) -> Result<String, KeyError> {
        let form = |e: ssh_key::Error| KeyError::Form { what: e.to_string(), expected: PRIVATE_FORM };
        let pair = Ed25519Keypair { public: Ed25519PublicKey(self.public.bytes), private: self.seed.clone() };
        let key = ssh_key::PrivateKey::new(KeypairData::Ed25519(pair), self.public.comment.clone());
        Ok(key.and_then(|k| k.to_openssh(LineEnding::LF)).map_err(form)?.to_string())
    }

    /// The public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message: 64 bytes.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("public", &self.public).finish_non_exhaustive()
    }
}
