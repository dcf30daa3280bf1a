//! What handlers take from a request, with problem documents for what cannot be read.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::precondition::{Precondition, Tags};
use weir_api::problem::Problem;

/// Parts of the path.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|p| Path(p.0)).map_err(|e| Problem::new(e.status(), e.body_text()))
    }
}

/// The query.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query.map(|q| Query(q.0)).map_err(|e| Problem::new(e.status(), e.body_text()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Precondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Precondition {
            fits: tags(&parts.headers, &header::IF_MATCH)?,
            differs: tags(&parts.headers, &header::IF_NONE_MATCH)?,
        })
    }
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let wrong = |what: String| Problem::new(StatusCode::BAD_REQUEST, format!("{name}: {what}"));
    let mut lines = Vec::new();
    for value in headers.get_all(name) {
        lines.push(value.to_str().map_err(|_| wrong("it is no text".into()))?);
    }
    // Several lines are one list (RFC 9110, section 5.3).
    if lines.is_empty() { Ok(None) } else { Tags::parse(&lines.join(",")).map(Some).map_err(wrong) }
}
