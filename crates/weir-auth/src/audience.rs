//! For which server a token is: the host and the port that the client asked for.
//!
//! A server that named itself could name another one, and use what clients sign for it there. What the client dialled, no server can
//! choose: a token that reaches a server under a name that is not its own is refused.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// The audience of a URL such as `https://node.example:7400/`: host and port, in lower case. Nothing if it is no such URL.
pub fn of_url(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let port = match scheme.to_ascii_lowercase().as_str() {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    of_authority(authority, port)
}

/// The same of `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`, with the port that counts if there is none.
pub fn of_authority(authority: &str, default_port: u16) -> Option<String> {
    let authority = authority.rsplit('@').next().unwrap_or_default();
    if let Ok(address) = authority.parse::<SocketAddr>() {
        return Some(of_address(address));
    }
    if let Ok(ip) = authority.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Some(of_address(SocketAddr::new(ip, default_port)));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, default_port),
    };
    let good = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = !host.is_empty() && host.len() <= 253 && host.chars().all(good);
    is_name.then(|| format!("{}:{port}", host.trim_end_matches('.').to_ascii_lowercase()))
}

/// The same of an address.
pub fn of_address(address: SocketAddr) -> String {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

/// Under what a server is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audiences(BTreeSet<String>);

impl Audiences {
    /// The server is reached at this address. At a loopback address it is `localhost` as well.
    pub fn add_address(&mut self, address: SocketAddr) {
        if address.ip().is_loopback() {
            self.0.insert(format!("localhost:{}", address.port()));
        }
        self.0.insert(of_address(address));
    }

    /// The server is reached as `HOST` or `HOST:PORT`; says whether that can be.
    pub fn add_name(&mut self, name: &str, default_port: u16) -> bool {
        let audience = of_authority(name, default_port);
        audience.is_some_and(|audience| {
            self.0.insert(audience);
            true
        })
    }

    /// Whether a token is for this server.
    pub fn has(&self, audience: &str) -> bool {
        self.0.contains(audience)
    }

    /// All of them, for people.
    pub fn list(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}
