//! Errors of the node as problem documents.

use axum::http::StatusCode;
use weir_api::problem::{Mistake, MistakeCode, Problem};
use weir_switch::lsi0::Conflict;

use crate::compute::ComputeError;
use crate::connection::CallError;
use crate::node::ApplyError;

impl From<CallError> for Problem {
    fn from(e: CallError) -> Self {
        match e {
            CallError::Refused(errors) => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the data plane refused")
                    .with(errors.into_iter().map(Mistake::from))
            }
            CallError::Lost(_) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, e.to_string()),
        }
    }
}

impl From<ComputeError> for Problem {
    fn from(e: ComputeError) -> Self {
        let status = match e {
            ComputeError::System { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Problem::new(status, e.to_string())
    }
}

impl From<ApplyError> for Problem {
    fn from(e: ApplyError) -> Self {
        let detail = e.to_string();
        match e {
            ApplyError::Exists(_) | ApplyError::Owned(_) | ApplyError::Together => {
                Problem::new(StatusCode::CONFLICT, detail)
            }
            ApplyError::Condition(_) => Problem::new(StatusCode::PRECONDITION_FAILED, detail),
            ApplyError::Twice(_) => Problem::new(StatusCode::BAD_REQUEST, detail),
            ApplyError::Denied(denied) => denied.into(),
            ApplyError::OverQuota(over) => over.into(),
            ApplyError::Missing(_) => Problem::new(StatusCode::NOT_FOUND, detail),
            ApplyError::Invalid(errors) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
                .with(errors.into_iter().map(|e| Mistake { path: e.at, ..e.what.into() })),
            ApplyError::Conflict(found) => {
                let taken = |c: &Conflict| Mistake {
                    message: c.to_string(),
                    code: Some(MistakeCode::AccessPointTaken),
                    ..Mistake::default()
                };
                Problem::new(StatusCode::CONFLICT, detail).with(found.iter().map(taken))
            }
            ApplyError::Refused(errors) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
                .with(errors.into_iter().map(Mistake::from)),
            ApplyError::Lost(_) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail),
            ApplyError::Store(e) => e.into(),
            ApplyError::Internal(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail),
        }
    }
}
