//! The layer before routes, and what their handlers see of it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{FromRequestParts, OriginalUri, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use weir_api::problem::{Detail, Problem};
use weir_auth::audit::{Outcome, Record, Who};
use weir_auth::token::{TokenError, request as token_request};
use weir_auth::{Action, Principal};

use super::{CONTROLLER, Login, Refused, now_ms};
use crate::listen::Peer;

/// Longest text of a record, in characters.
const MAX_TEXT: usize = 500;

/// The author of a request, for its handler: each asks whether they [may](Caller::may) do what it does.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Arc<Principal>,
    controller: bool,
    notes: Arc<Mutex<Notes>>,
}

/// A handler's notes for the audit log.
#[derive(Debug, Clone, Default)]
struct Notes {
    action: Option<&'static str>,
    audited: bool,
    object: Option<String>,
    before: Option<String>,
    after: Option<String>,
    summary: Option<String>,
}

impl Caller {
    /// A caller who is known otherwise than by a login: [`guard`] takes it from the request's extensions.
    pub fn new(principal: Principal) -> Caller {
        Caller { principal: Arc::new(principal), controller: false, notes: Arc::default() }
    }

    /// A node's controller, which has made sure of who asks it.
    fn controller() -> Caller {
        Caller { controller: true, ..Caller::new(Principal::operator(CONTROLLER)) }
    }

    /// Whether it is the node's controller.
    pub fn is_controller(&self) -> bool {
        self.controller
    }

    /// Who it is.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// Whether they may do that. The audit log has what was asked for last.
    ///
    /// # Errors
    /// A problem with status 403.
    pub fn may(&self, action: &Action<'_>) -> Result<(), Problem> {
        let watched = matches!(action, Action::Trace(_) | Action::Capture(_) | Action::Backup);
        self.edit(|n| {
            n.action = Some(action.word());
            n.object = action.object();
            n.audited |= watched || action.changes();
        });
        self.principal.may(action).map_err(Problem::from)
    }

    /// The same, for lists: nothing of it is reported.
    pub fn can(&self, action: &Action<'_>) -> bool {
        self.principal.may(action).is_ok()
    }

    /// Records for the audit log what was there before.
    pub fn before(&self, what: impl Into<String>) {
        self.edit(|n| n.before = Some(what.into()));
    }

    /// Records for the audit log what is there now.
    pub fn after(&self, what: impl Into<String>) {
        self.edit(|n| n.after = Some(what.into()));
    }

    /// Records for the audit log what changed.
    pub fn summary(&self, what: impl Into<String>) {
        self.edit(|n| n.summary = Some(what.into()));
    }

    fn edit<T>(&self, f: impl FnOnce(&mut Notes) -> T) -> T {
        f(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Without one the route stands before the guard: let nobody in.
        parts.extensions.get::<Caller>().cloned().ok_or_else(Problem::internal)
    }
}

/// A layer for [`axum::middleware::from_fn_with_state`]: finds out who asks, and records what they change.
pub async fn guard(State(login): State<Arc<Login>>, mut request: Request, next: Next) -> Response {
    let caller = match request.extensions().get::<Caller>() {
        Some(caller) => caller.clone(),
        None if peer(&request).is_some_and(|p| p.controller) => Caller::controller(),
        None if !login.required => Caller::new(Principal::operator("local")),
        None => match authenticate(&login, &request) {
            Ok(principal) => Caller::new(principal),
            Err(refused) => {
                let address = address(&request);
                let address = address.map_or_else(|| "somewhere".to_owned(), |a| a.to_string());
                let (method, (path, _)) = (request.method(), path(&request));
                tracing::info!("{method} {path} from {address} is refused: {refused}");
                return refused.into_response();
            }
        },
    };
    request.extensions_mut().insert(caller.clone());
    request.extensions_mut().insert(login.clone());
    if !login.required {
        return next.run(request).await;
    }
    let from = address(&request).map(|a| a.to_string());
    let (method, path) = (request.method().clone(), path(&request).0);
    // What was begun is recorded, whether or not the client waits for it.
    let done = tokio::spawn(async move {
        let response = next.run(request).await;
        let notes = caller.edit(|n| n.clone());
        let status = response.status();
        if notes.audited || status == StatusCode::FORBIDDEN || (notes.action.is_none() && !method.is_safe()) {
            let detail = response.extensions().get::<Detail>().map(|d| d.0.clone());
            let short = |text: String| text.chars().take(MAX_TEXT).collect::<String>();
            let record = Record {
                id: 0,
                time: now_ms(),
                who: Who { address: from, ..Who::from(&*caller.principal) },
                method: method.to_string(),
                path: short(path),
                action: notes.action.map(str::to_owned),
                object: notes.object.map(short),
                before: notes.before.map(short),
                after: notes.after.map(short),
                summary: notes.summary.or(detail).map(short),
                outcome: Outcome::of_status(status.as_u16()),
                status: status.as_u16(),
            };
            login.record(record).await;
        }
        response
    });
    done.await.unwrap_or_else(|_| Problem::internal().into_response())
}

fn authenticate(login: &Login, request: &Request) -> Result<Principal, Refused> {
    let header = request.headers().get(header::AUTHORIZATION);
    let header = header.map(|h| h.to_str().map_err(|_| Refused::Scheme)).transpose()?;
    let (_, path_and_query) = path(request);
    login.authenticate(&token_request(request.method().as_str(), &path_and_query), header)
}

/// The path as it was asked for, and the same with the query.
fn path(request: &Request) -> (String, String) {
    let uri = request.extensions().get::<OriginalUri>().map_or_else(|| request.uri(), |uri| &uri.0);
    let whole = uri.path_and_query().map_or_else(|| uri.path(), |p| p.as_str());
    (uri.path().to_owned(), whole.to_owned())
}

fn peer(request: &Request) -> Option<&Peer> {
    request.extensions().get()
}

fn address(request: &Request) -> Option<SocketAddr> {
    peer(request)?.address
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, wait) = match &self {
            Refused::TooOften { wait, .. } => (StatusCode::TOO_MANY_REQUESTS, Some(wait.div_ceil(1000))),
            Refused::Token(TokenError::Full(wait)) => (StatusCode::SERVICE_UNAVAILABLE, Some(*wait)),
            _ => (StatusCode::UNAUTHORIZED, None),
        };
        // RFC 6750, section 3.1: without a token, no error is named.
        let challenge = match self {
            Refused::Nobody | Refused::Scheme => "Bearer realm=\"weir\"",
            _ => "Bearer realm=\"weir\", error=\"invalid_token\"",
        };
        let mut response = Problem::new(status, self.to_string()).into_response();
        if let Some(wait) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
        } else {
            let challenge = HeaderValue::from_static(challenge);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
