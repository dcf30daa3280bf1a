//! Errors as problem documents (RFC 9457).

use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_auth::Denied;
use weir_auth::quota::OverQuota;
use weir_model::DocErrors;

/// The media type of [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";

/// A problem, as a document (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The kind of problem.
    pub title: String,
    /// What went wrong, and what would be right.
    pub detail: String,
    /// All mistakes, where there may be several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Mistake>,
}

/// One mistake.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mistake {
    /// Where in the document, such as `sffg.flowrules[2].actions`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Line in the body, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column in the body, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub help: String,
    /// What kind of mistake it is, where a program may want to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<MistakeCode>,
}

/// The code of a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MistakeCode {
    /// The interface, VLAN or tunnel is an access point of another graph.
    AccessPointTaken,
}

impl From<String> for Mistake {
    fn from(message: String) -> Mistake {
        Mistake { message, ..Mistake::default() }
    }
}

impl Problem {
    /// A problem without a list of mistakes.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        Problem { status: status.as_u16(), title, detail: detail.into(), errors: Vec::new() }
    }

    /// What should not happen.
    pub fn internal() -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    }

    /// The same problem of one graph of many.
    #[must_use]
    pub fn of_graph(mut self, id: &str) -> Problem {
        self.detail = format!("graph '{id}': {}; nothing was changed", self.detail);
        self
    }

    /// The same problem with these mistakes.
    #[must_use]
    pub fn with(mut self, errors: impl IntoIterator<Item = Mistake>) -> Problem {
        self.errors.extend(errors);
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)?;
        for e in &self.errors {
            f.write_str("\n  ")?;
            if !e.path.is_empty() {
                write!(f, "{}", e.path)?;
                if let (Some(line), Some(column)) = (e.line, e.column) {
                    write!(f, " (line {line}, column {column})")?;
                }
                f.write_str(": ")?;
            }
            f.write_str(&e.message)?;
            if !e.help.is_empty() {
                write!(f, "; {}", e.help)?;
            }
        }
        Ok(())
    }
}

impl From<DocErrors> for Problem {
    fn from(errors: DocErrors) -> Self {
        let mistake = |e: &weir_model::DocError| Mistake {
            path: e.path.clone(),
            line: e.position.map(|p| p.line),
            column: e.position.map(|p| p.column),
            message: e.message.clone(),
            help: e.help.clone(),
            code: None,
        };
        Problem::new(StatusCode::BAD_REQUEST, "the document has mistakes")
            .with(errors.errors().iter().map(mistake))
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, denied.to_string())
    }
}

impl From<OverQuota> for Problem {
    fn from(over: OverQuota) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, over.to_string())
    }
}

/// A problem's detail, in the extensions of a response, for logs.
#[derive(Debug, Clone)]
pub struct Detail(pub String);

#[cfg(feature = "server")]
impl axum_core::response::IntoResponse for Problem {
    fn into_response(self) -> axum_core::response::Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_string(&self).unwrap_or_default();
        let kind = http::HeaderValue::from_static(MEDIA_TYPE);
        let mut response = (status, [(http::header::CONTENT_TYPE, kind)], body).into_response();
        response.extensions_mut().insert(Detail(self.detail));
        response
    }
}
