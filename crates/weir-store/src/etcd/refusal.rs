//! Why a member of etcd does not do what it is asked for, in words that say what would be right.

use std::io::ErrorKind;

use rustls::{AlertDescription, CertificateError, Error as TlsError};
use serde_json::Value;
use weir_api::client::tls::fault;

use super::address::Address;

/// Why a member has not done what it was asked for.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) what: String,
    /// Whether it answered, and would again in the same manner.
    pub(super) answered: bool,
    /// Whether the token is none any more: another one may do.
    pub(super) token: bool,
}

impl Refusal {
    pub(super) fn silent(what: impl Into<String>) -> Refusal {
        Refusal { what: what.into(), answered: false, token: false }
    }

    fn said(what: String) -> Refusal {
        Refusal { what, answered: true, token: false }
    }
}

/// The other side ends the connection.
const CLOSED: [ErrorKind; 3] = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];

/// Nothing came back.
pub(super) fn of_error(error: &ureq::Error, address: &Address) -> Refusal {
    let Some(tls) = fault(error) else {
        let plain = address.members.iter().any(|m| m.starts_with("http://"));
        return Refusal::silent(match error {
            // As one that waits for TLS does; or one that ends.
            ureq::Error::Io(e) if plain && CLOSED.contains(&e.kind()) => {
                format!("{e}; if it speaks TLS, write etcds://HOST:PORT?ca=FILE")
            }
            other => other.to_string(),
        });
    };
    let of = |what: String| Refusal::said(what);
    let ca = address.ca.as_deref().unwrap_or_else(|| "ca".as_ref()).display();
    match tls {
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            of(format!("its certificate is not of the authority in ca={ca}"))
        }
        TlsError::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => of(format!("its certificate is for another name: {tls}")),
        TlsError::InvalidCertificate(_) => of(format!("its certificate does not hold: {tls}")),
        TlsError::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate,
        ) => of(match &address.certificate {
            Some(file) => format!("it does not take the certificate cert={}: {tls}", file.display()),
            None => format!("it asks for a certificate of its clients: cert=FILE&key=FILE ({tls})"),
        }),
        TlsError::InvalidMessage(_) => of(format!("it speaks no TLS: write etcd:// ({tls})")),
        _ => of(tls.to_string()),
    }
}

/// An answer that is no success.
pub(super) fn of_answer(status: u16, body: &str, address: &Address) -> Refusal {
    let json: Option<Value> = serde_json::from_str(body).ok();
    let error = json.as_ref().and_then(|j| j.get("error"));
    let said = error.and_then(|e| e.as_str().or_else(|| e.get("message")?.as_str())).unwrap_or(body.trim());
    let said = said.trim_start_matches("etcdserver: ");
    let user = address.user.as_ref();
    let name = user.map_or("", |u| &u.name);
    let refusal = |what: String| Refusal::said(what);
    if said.contains("invalid auth token") || said.contains("revision of auth store is old") {
        return Refusal { token: true, ..refusal(said.to_owned()) };
    }
    if said.contains("invalid user ID or password") {
        let file = user.map(|u| u.file.display().to_string()).unwrap_or_default();
        return refusal(format!(
            "the user '{name}' is none, or the password in password={file} is another one"
        ));
    }
    if said.contains("permission denied") {
        let grant =
            "'etcdctl role grant-permission ROLE readwrite --prefix /weir/', then 'etcdctl user grant-role'";
        return refusal(format!("the user '{name}' may not read and write what begins with /weir/: {grant}"));
    }
    if said.contains("user name is empty") {
        return refusal("it asks for a user: user=NAME&password=FILE".into());
    }
    if said.contains("authentication is not enabled") {
        return refusal(format!(
            "it knows no users, so anybody who reaches it may do anything: 'etcdctl auth enable', or leave out user={name}"
        ));
    }
    if said.contains("HTTP request to an HTTPS server") {
        return refusal("it speaks TLS: write etcds://HOST:PORT?ca=FILE".into());
    }
    // A member that is cut off from the others, comes up, or has too much to do, answers so; later it does what it is asked for.
    let later = status >= 500 || [408, 429].contains(&status);
    Refusal { answered: !later, ..refusal(format!("{status}: {said}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_etcd_says_becomes_what_is_to_be_done() {
        let address = Address::read("etcd://127.0.0.1:1").unwrap();
        let said = |status, body: &str| of_answer(status, body, &address);
        let r = said(
            403,
            r#"{"error":"etcdserver: permission denied","message":"etcdserver: permission denied","code":7}"#,
        );
        assert!(r.what.contains("grant-permission") && r.answered && !r.token, "{r:?}");
        assert!(said(401, r#"{"error":"etcdserver: invalid auth token","code":16}"#).token);
        assert!(
            said(400, r#"{"error":{"message":"etcdserver: user name is empty"}}"#).what.contains("user=NAME")
        );
        assert!(said(400, "Client sent an HTTP request to an HTTPS server.\n").what.contains("etcds://"));
        let r = said(503, r#"{"error":"etcdserver: no leader"}"#);
        assert!(!r.answered && r.what == "503: no leader", "{r:?}");
        assert_eq!(said(500, "\u{0}[").what, "500: \u{0}[");
    }
}
