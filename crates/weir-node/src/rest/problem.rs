//! Errors as problem documents (RFC 9457).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_model::DocErrors;

use crate::connection::CallError;
use crate::node::ApplyError;
use crate::store::StoreError;

/// The media type of [`Problem`].
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What went wrong, as a document (RFC 9457).
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
}

impl Problem {
    /// A problem without a list of mistakes.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        Problem { status: status.as_u16(), title, detail: detail.into(), errors: Vec::new() }
    }

    /// What should not happen.
    pub(super) fn internal() -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    }

    /// The same problem of one graph of many.
    pub(super) fn of_graph(mut self, id: &str) -> Problem {
        self.detail = format!("graph '{id}': {}; nothing was changed", self.detail);
        self
    }

    fn with(mut self, errors: impl IntoIterator<Item = Mistake>) -> Problem {
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

fn plain(message: impl Into<String>) -> Mistake {
    Mistake { message: message.into(), ..Mistake::default() }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        response
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
        };
        Problem::new(StatusCode::BAD_REQUEST, "the document has mistakes")
            .with(errors.errors().iter().map(mistake))
    }
}

impl From<StoreError> for Problem {
    fn from(e: StoreError) -> Self {
        let status = match e {
            StoreError::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, e.to_string())
    }
}

impl From<CallError> for Problem {
    fn from(e: CallError) -> Self {
        match e {
            CallError::Refused(errors) => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the data plane refused")
                    .with(errors.into_iter().map(plain))
            }
            CallError::Lost(_) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, e.to_string()),
        }
    }
}

impl From<ApplyError> for Problem {
    fn from(e: ApplyError) -> Self {
        let detail = e.to_string();
        match e {
            ApplyError::Exists(_) | ApplyError::Together => Problem::new(StatusCode::CONFLICT, detail),
            ApplyError::Condition(_) => Problem::new(StatusCode::PRECONDITION_FAILED, detail),
            ApplyError::Twice(_) => Problem::new(StatusCode::BAD_REQUEST, detail),
            ApplyError::Missing(_) => Problem::new(StatusCode::NOT_FOUND, detail),
            ApplyError::Invalid(errors) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
                .with(errors.into_iter().map(|e| Mistake { path: e.at, ..plain(e.what) })),
            ApplyError::Conflict(found) => {
                Problem::new(StatusCode::CONFLICT, detail).with(found.iter().map(|c| plain(c.to_string())))
            }
            ApplyError::Refused(errors) => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).with(errors.into_iter().map(plain))
            }
            ApplyError::Lost(_) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail),
            ApplyError::Store(e) => e.into(),
            ApplyError::Internal(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail),
        }
    }
}
