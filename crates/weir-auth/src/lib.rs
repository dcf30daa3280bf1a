//! Who may do what, for node and controller alike. Pure: no I/O and no clock; time is a parameter, in seconds since the epoch
//! where nothing else is said. Random numbers come from the operating system.
//!
//! - [`key`]: people and programs are known by Ed25519 keys, in OpenSSH's files
//! - [`token`]: what a client signs for each request; [`audience`]: for which server; [`replay`]: that it counts once
//! - [`secret`]: random secrets that are shown once, of which only a hash is kept
//! - [`principal`], [`action`]: who asks, and what for; [`Principal::may`] decides
//! - [`quota`]: how much a tenant may have, and how often it may ask
//! - [`audit`]: the record of a change
#![forbid(unsafe_code)]

pub mod action;
pub mod audience;
pub mod audit;
pub mod key;
pub mod principal;
pub mod quota;
pub mod replay;
pub mod secret;
pub mod token;

pub use action::{Action, Function, Graph, ObservationPoint};
pub use principal::{Denied, Owner, Principal, Role, Scope, TenantKind};

/// Random bytes of the operating system.
fn random<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| NoRandom(e.to_string()))?;
    Ok(bytes)
}

/// The operating system gives no random numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random numbers: {0}")]
pub struct NoRandom(String);
