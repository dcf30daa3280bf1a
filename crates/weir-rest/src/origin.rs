//! Pages of other sites do not reach a daemon through a user's browser.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use weir_api::problem::Problem;

use crate::login::Login;

/// A layer for [`axum::middleware::from_fn_with_state`].
///
/// # Errors
/// The request comes from a page that is not this server's.
pub async fn same_origin(
    State(login): State<Arc<Login>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    check_request(&request, login.is_required())?;
    Ok(next.run(request).await)
}

fn check_request(request: &Request, login: bool) -> Result<(), Problem> {
    let text = |name| request.headers().get(name).and_then(|v| v.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
    // HTTP/2 has it in the address (RFC 9113, section 8.3.1).
    let host =
        request.uri().authority().map(axum::http::uri::Authority::as_str).or_else(|| text(header::HOST));
    check_origin(origin, host.unwrap_or_default(), login)
}

/// Refuses requests that a web page of somewhere else makes through a user's browser: those that say so, and those
/// to a name that was made to point here. With a login, such a page has nothing to show: browsers send none by themselves.
fn check_origin(origin: &str, host: &str, login: bool) -> Result<(), Problem> {
    let forbidden = |detail: String| Err(Problem::new(StatusCode::FORBIDDEN, detail));
    if origin.split_once("://").map(|(_, h)| h) != Some(host) {
        return forbidden(format!("requests from web pages of {origin} are not taken"));
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_ok();
    if !address && name != "localhost" && !login {
        return forbidden(format!("web pages reach this node by its address or localhost, not as {name}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_asks_its_own_server_and_by_a_name_only_where_a_login_is_asked_for() {
        let taken = |origin, host, login| check_origin(origin, host, login).is_ok();
        assert!(taken("http://127.0.0.1:7400", "127.0.0.1:7400", false));
        assert!(taken("http://[::1]:7400", "[::1]:7400", false));
        assert!(taken("http://localhost", "localhost", false));
        assert!(!taken("http://evil.example", "127.0.0.1:7400", true));
        assert!(!taken("null", "127.0.0.1:7400", true));
        assert!(!taken("https://node.example", "", true));
        assert!(!taken("http://evil.example:7400", "evil.example:7400", false));
        assert!(taken("https://node.example:7400", "node.example:7400", true));
    }
}
