//! The dashboard: a page of files that are part of the program, so it works without the Internet. The page asks for everything over
//! REST as any client does, so the files are for everyone; `web/` has their sources.

use std::io::Read;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::read::GzDecoder;

/// Path and content of each file, gzip.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

/// Scripts and styles come from files of this server alone, and the page is nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; \
                      worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Routes of the dashboard: `/` and the files of the page.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |router, (path, packed)| {
        let path: &'static str = if *path == "/index.html" { "/" } else { path };
        router.route(path, get(move |headers: HeaderMap| async move { file(path, packed, &headers) }))
    })
}

fn file(path: &str, packed: &'static [u8], request: &HeaderMap) -> Response {
    let accepted = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    let coding = |c: &str| c.split(';').next().is_some_and(|c| c.trim().eq_ignore_ascii_case("gzip"));
    // Who takes gzip with a quality of zero is no browser; it gets what it can read.
    let gzip = accepted.flat_map(|v| v.split(',')).any(|c| coding(c) && !c.contains("q=0"));
    let mut headers = vec![
        (header::CONTENT_TYPE, media_type(path)),
        // Names of assets change with their content.
        (header::CACHE_CONTROL, if path.starts_with("/assets/") { IMMUTABLE } else { "no-cache" }),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::VARY, "accept-encoding"),
    ];
    let body = if gzip {
        headers.push((header::CONTENT_ENCODING, "gzip"));
        Bytes::from_static(packed)
    } else {
        let mut plain = Vec::new();
        if GzDecoder::new(packed).read_to_end(&mut plain).is_err() {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        plain.into()
    };
    let mut response = body.into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

const IMMUTABLE: &str = "public, max-age=31536000, immutable";

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        _ if path == "/" => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, response: &Response) -> String {
        let values: Vec<_> = response.headers().get_all(name).iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(values.len(), 1, "{name}: {values:?}");
        values[0].to_owned()
    }

    fn get_file(path: &str, accept: &[&str]) -> Response {
        let stored = if path == "/" { "/index.html" } else { path };
        let (_, packed) = FILES.iter().find(|(p, _)| *p == stored).unwrap();
        let mut request = HeaderMap::new();
        for value in accept {
            request.append(header::ACCEPT_ENCODING, value.parse().unwrap());
        }
        file(path, packed, &request)
    }

    #[test]
    fn the_page_has_a_policy_and_every_kind_of_file_its_type() {
        for (path, _) in FILES {
            let path = if *path == "/index.html" { "/" } else { path };
            let response = get_file(path, &["gzip, br"]);
            assert_eq!(headers(&header::CONTENT_ENCODING, &response), "gzip");
            assert_eq!(headers(&header::CONTENT_SECURITY_POLICY, &response), POLICY);
            assert_ne!(headers(&header::CONTENT_TYPE, &response), "application/octet-stream", "{path}");
        }
        assert_eq!(headers(&header::CONTENT_TYPE, &get_file("/", &[])), "text/html; charset=utf-8");
    }

    #[test]
    fn who_takes_no_gzip_gets_plain_text() {
        for accept in [&[][..], &["br"], &["gzip;q=0"]] {
            assert!(!get_file("/", accept).headers().contains_key(header::CONTENT_ENCODING), "{accept:?}");
        }
    }

    #[test]
    fn the_page_has_no_script_and_no_style_of_its_own() {
        let (_, packed) = FILES.iter().find(|(p, _)| *p == "/index.html").unwrap();
        let mut page = String::new();
        GzDecoder::new(*packed).read_to_string(&mut page).unwrap();
        let scripts = page.matches("<script").count();
        assert!(
            scripts > 0 && scripts == page.matches("<script type=\"module\" crossorigin src=\"").count(),
            "{page}"
        );
        assert!(!page.contains("<style") && !page.contains("style=") && !page.contains(" on"), "{page}");
    }
}
