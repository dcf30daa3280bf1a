//! Pages of other sites do not reach a daemon through a user's browser.

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use weir_api::problem::Problem;

/// A layer for [`axum::middleware::from_fn`].
///
/// # Errors
/// The request comes from a page that is not this server's.
pub async fn same_origin(request: Request, next: Next) -> Result<Response, Problem> {
    check_origin(&request)?;
    Ok(next.run(request).await)
}

/// Refuses requests that a web page of somewhere else makes through a user's browser: those that say so, and those
/// to a name that was made to point here.
fn check_origin(request: &Request) -> Result<(), Problem> {
    let text = |name| request.headers().get(name).and_then(|v| v.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
    let forbidden = |detail: String| Err(Problem::new(StatusCode::FORBIDDEN, detail));
    let host = text(header::HOST).unwrap_or_default();
    if origin.split_once("://").map(|(_, h)| h) != Some(host) {
        return forbidden(format!("requests from web pages of {origin} are not taken"));
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_ok();
    if !address && name != "localhost" {
        return forbidden(format!("web pages reach this node by its address or localhost, not as {name}"));
    }
    Ok(())
}
