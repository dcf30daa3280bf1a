//! Signed tokens: a client signs one for each request.
//!
//! A token is a JSON Web Token (RFC 7519) in the compact form (RFC 7515, section 7.1), signed with Ed25519 (RFC 8037, section 3.1):
//! `Authorization: Bearer HEADER.CLAIMS.SIGNATURE`. There is no other algorithm, so none can be chosen by whoever sends one. The claim
//! `req` holds the request itself, so a token is of use for nothing else.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use crate::audience::Audiences;
use crate::key::{Fingerprint, PrivateKey, PublicKey};
use crate::{NoRandom, random};

/// How long a token is good for if nothing else is said, in seconds.
pub const LIFETIME: u64 = 60;
/// The longest time that one may be good for, in seconds.
pub const MAX_LIFETIME: u64 = 300;
/// By how much the clocks of client and server may differ, in seconds.
pub const SKEW: u64 = 30;
/// The longest token, in bytes.
pub const MAX_LENGTH: usize = 8 << 10;
/// The longest `jti`, in bytes.
const MAX_ID: usize = 64;

const HEADER: &str = r#"{"alg":"EdDSA","typ":"JWT"}"#;

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The fingerprint of the key that signed it.
    pub sub: Fingerprint,
    /// For which server it is: see [`crate::audience`].
    pub aud: String,
    /// The request: [`request`].
    pub req: String,
    /// When it was made.
    pub iat: u64,
    /// Until when it is good.
    pub exp: u64,
    /// A random number, so that it counts once.
    pub jti: String,
}

/// A request, as tokens name it: the method, a space, and the path with its query.
pub fn request(method: &str, path_and_query: &str) -> String {
    format!("{method} {path_and_query}")
}

/// Signs a token for one request, good for [`LIFETIME`].
///
/// # Errors
/// There are no random numbers.
pub fn sign(key: &PrivateKey, audience: &str, request: &str, now: u64) -> Result<String, NoRandom> {
    let claims = Claims {
        sub: key.public().fingerprint(),
        aud: audience.to_owned(),
        req: request.to_owned(),
        iat: now,
        exp: now.saturating_add(LIFETIME),
        jti: BASE64.encode(random::<16>()?),
    };
    Ok(sign_claims(key, &claims))
}

/// Signs these claims, whatever they are.
pub fn sign_claims(key: &PrivateKey, claims: &Claims) -> String {
    let claims = serde_json::to_vec(claims).unwrap_or_default();
    let message = format!("{}.{}", BASE64.encode(HEADER), BASE64.encode(claims));
    let signature = BASE64.encode(key.sign(message.as_bytes()));
    format!("{message}.{signature}")
}

/// A token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is none.
    #[error("the token is no JSON Web Token: {0}")]
    Form(&'static str),
    /// It has another algorithm.
    #[error("the token's algorithm is {0:?}; only EdDSA, with an Ed25519 key, is taken")]
    Algorithm(String),
    /// The key is not known.
    #[error("the key {0} is not known here; an operator adds it with: weir key add NAME FILE.pub")]
    UnknownKey(Fingerprint),
    /// The signature is not that of the key.
    #[error("the token's signature is wrong: it was altered, or signed with another key")]
    Signature,
    /// It is for another server.
    #[error(
        "the token is for {found}, and this server is known as {known}; the option --hostname of the server adds another name"
    )]
    Audience {
        /// For whom it is.
        found: String,
        /// Who the server is.
        known: String,
    },
    /// It is for another request.
    #[error(
        "the token is for the request {found:?}, and this one is {request:?}; a client signs a token for each request"
    )]
    Request {
        /// For what it is.
        found: String,
        /// What was asked for.
        request: String,
    },
    /// It is not good any more.
    #[error("the token expired {0} s ago; make sure that the clocks of client and server are right")]
    Expired(u64),
    /// It is of later.
    #[error(
        "the token is from {0} s in the future; make sure that the clocks of client and server are right"
    )]
    Future(u64),
    /// It is of a time of which this server does not know what was used.
    #[error(
        "the token was made {0} s before this server started; try again, and make sure that the clocks of client and server are right"
    )]
    BeforeStart(u64),
    /// It is good for too long.
    #[error("the token is good for {0} s; at most {MAX_LIFETIME} s are taken, and more than none")]
    Lifetime(u64),
    /// It was used.
    #[error("the token was used before; a client signs a token for each request")]
    Replayed,
    /// Too many tokens are good at present.
    #[error("too many tokens were used lately to remember more; try again in {0} s")]
    Full(u64),
}

/// A token whose form is right, and of which nothing else is known.
#[derive(Debug, Clone)]
pub struct Unverified<'t> {
    message: &'t str,
    signature: Vec<u8>,
    claims: Claims,
}

/// The claims that a server expects of a token.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Who the server is.
    pub audiences: &'a Audiences,
    /// The request: [`request`].
    pub request: &'a str,
    /// The time.
    pub now: u64,
    /// Since when the server remembers what was used.
    pub since: u64,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

impl<'t> Unverified<'t> {
    /// Reads a token.
    ///
    /// # Errors
    /// It is none, or its algorithm is another one.
    pub fn parse(token: &'t str) -> Result<Unverified<'t>, TokenError> {
        if token.len() > MAX_LENGTH {
            return Err(TokenError::Form("it is too long"));
        }
        let parts = TokenError::Form("it has three parts, with dots between");
        let (message, signature) = token.rsplit_once('.').ok_or(parts.clone())?;
        let (header, claims) = message.split_once('.').filter(|(_, c)| !c.contains('.')).ok_or(parts)?;
        let decode = |part: &str| {
            BASE64.decode(part).map_err(|_| TokenError::Form("its parts are base64url, without padding"))
        };
        let header: Header = serde_json::from_slice(&decode(header)?)
            .map_err(|_| TokenError::Form("its header is JSON with an algorithm"))?;
        if header.alg != "EdDSA" {
            return Err(TokenError::Algorithm(header.alg.chars().take(32).collect()));
        }
        if header.crit.is_some() {
            // RFC 7515, section 4.1.11: what is critical and not known must be refused.
            return Err(TokenError::Form("it has critical extensions, and none is known here"));
        }
        let claims: Claims = serde_json::from_slice(&decode(claims)?)
            .map_err(|_| TokenError::Form("it has the claims sub, aud, req, iat, exp and jti"))?;
        if claims.jti.is_empty() || claims.jti.len() > MAX_ID {
            return Err(TokenError::Form("jti has 1 to 64 bytes"));
        }
        Ok(Unverified { message, signature: decode(signature)?, claims })
    }

    /// Who claims to have signed it: the key to verify it with.
    pub fn subject(&self) -> &Fingerprint {
        &self.claims.sub
    }

    /// Makes sure that the key's owner signed it, for this server, for this request, and not long ago. That it is used once, a
    /// [`ReplayCache`](crate::replay::ReplayCache) has to say.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify(self, key: &PublicKey, expected: &Expected<'_>) -> Result<Claims, TokenError> {
        let Unverified { message, signature, claims } = self;
        if claims.sub != key.fingerprint() || !key.verifies(message.as_bytes(), &signature) {
            return Err(TokenError::Signature);
        }
        if !expected.audiences.has(&claims.aud) {
            return Err(TokenError::Audience { found: claims.aud, known: expected.audiences.list() });
        }
        if claims.req != expected.request {
            return Err(TokenError::Request { found: claims.req, request: expected.request.to_owned() });
        }
        let Claims { iat, exp, .. } = claims;
        match exp.checked_sub(iat) {
            Some(1..=MAX_LIFETIME) => {}
            other => return Err(TokenError::Lifetime(other.unwrap_or(0))),
        }
        if iat > expected.now.saturating_add(SKEW) {
            return Err(TokenError::Future(iat - expected.now));
        }
        if exp.saturating_add(SKEW) <= expected.now {
            return Err(TokenError::Expired(expected.now - exp));
        }
        if iat < expected.since {
            return Err(TokenError::BeforeStart(expected.since - iat));
        }
        Ok(claims)
    }
}
