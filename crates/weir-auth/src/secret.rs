//! Secrets that are made at random and shown once: the first operator's, and those by which nodes join. Only their hash is kept. They have
//! 256 random bits, so a hash that is slow on purpose would protect nothing.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{NoRandom, random};

/// The purpose of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Everything: the first operator's.
    Admin,
    /// That a node joins.
    Join,
    /// That metrics are read, and nothing else.
    Metrics,
}

impl Use {
    /// What its text begins with, so that people and scanners know it when they see it.
    fn prefix(self) -> &'static str {
        match self {
            Use::Admin => "weir-admin-",
            Use::Join => "weir-join-",
            Use::Metrics => "weir-metrics-",
        }
    }
}

/// A secret, for those who are to know it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    what: Use,
    text: String,
}

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn generate(what: Use) -> Result<Secret, NoRandom> {
        Ok(Secret { what, text: format!("{}{}", what.prefix(), BASE64.encode(random::<32>()?)) })
    }

    /// Reads one. Nothing if it has not the form of any.
    pub fn parse(text: &str) -> Option<Secret> {
        let what =
            [Use::Admin, Use::Join, Use::Metrics].into_iter().find(|w| text.starts_with(w.prefix()))?;
        let random = BASE64.decode(&text[what.prefix().len()..]).ok()?;
        (random.len() == 32).then(|| Secret { what, text: text.to_owned() })
    }

    /// What it is for.
    pub fn what(&self) -> Use {
        self.what
    }

    /// The text: for who is to know it.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// What is kept of it.
    pub fn hash(&self) -> SecretHash {
        let bytes: [u8; 32] = Sha256::digest(&self.text).into();
        SecretHash(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("what", &self.what).finish_non_exhaustive()
    }
}

/// The SHA-256 of a secret's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// The hash of these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> SecretHash {
        SecretHash(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether this is the hash of the secret. The time that it takes reveals nothing.
    pub fn is_of(&self, secret: &Secret) -> bool {
        self.0.ct_eq(&secret.hash().0).into()
    }
}

/// A secret by which nodes join, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinTerms {
    /// Of the secret.
    pub hash: SecretHash,
    /// Until when it is good.
    pub expires: u64,
    /// How many nodes may still join by it.
    pub uses: u32,
}

/// A node may not join by a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// There is no such secret.
    #[error("the join token is not known here; an operator makes another one")]
    Unknown,
    /// It is not good any more.
    #[error("the join token expired {0} s ago; an operator makes another one")]
    Expired(u64),
    /// As many nodes as it is for have joined.
    #[error("the join token was used as often as it may be; an operator makes another one")]
    Used,
}

impl JoinTerms {
    /// Uses the secret once.
    ///
    /// # Errors
    /// It is another one, or not good any more.
    pub fn use_once(&mut self, secret: &Secret, now: u64) -> Result<(), JoinError> {
        if secret.what != Use::Join || !self.hash.is_of(secret) {
            return Err(JoinError::Unknown);
        }
        if now >= self.expires {
            return Err(JoinError::Expired(now - self.expires));
        }
        self.uses = self.uses.checked_sub(1).ok_or(JoinError::Used)?;
        Ok(())
    }
}
