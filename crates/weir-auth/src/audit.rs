//! The record of a change, or of one that was refused: who did what to what, and what was before and after.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::principal::{Principal, Role};

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not allowed.
    Denied,
    /// It was wrong, or could not be done.
    Failed,
}

impl Outcome {
    /// What an HTTP status says.
    pub fn of_status(status: u16) -> Outcome {
        match status {
            100..=399 => Outcome::Done,
            401 | 403 | 429 => Outcome::Denied,
            _ => Outcome::Failed,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Denied => "denied",
            Outcome::Failed => "failed",
        }
    }
}

/// The author of an audited request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Who {
    /// The name.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The fingerprint of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Where the request came from, as `ADDRESS:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

impl From<&Principal> for Who {
    fn from(p: &Principal) -> Who {
        Who {
            name: p.name().to_owned(),
            role: p.role(),
            tenant: p.tenant().map(|t| t.name.clone()),
            fingerprint: p.fingerprint().map(ToString::to_string),
            address: None,
        }
    }
}

/// One change, or one that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Record {
    /// Its number; the log counts from 1, and has no gaps but at its beginning.
    #[serde(default)]
    pub id: u64,
    /// Milliseconds since the epoch.
    pub time: u64,
    /// Who.
    pub who: Who,
    /// The method of the request.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// What was asked for, as a word: `change-graph`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// What it was about: `graph a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// What was there before: an entity tag, or a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// What changed, or why nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// The HTTP status.
    pub status: u16,
}
