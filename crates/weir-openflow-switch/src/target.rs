//! Where controllers are, in the words of Open vSwitch: `tcp:10.0.0.1:6653`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The port of OpenFlow (IANA).
pub const PORT: u16 = 6653;

/// Where a controller is, or is listened for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// It is dialled; `true`: by TLS.
    Tcp(SocketAddr, bool),
    /// It is listened for; `true`: by TLS.
    Listen(SocketAddr, bool),
    /// It is dialled at a socket of this machine.
    Unix(PathBuf),
    /// It is listened for at one, which only root may use.
    ListenUnix(PathBuf),
}

/// A text is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no controller: write tcp:ADDRESS[:PORT] or tls:ADDRESS[:PORT] for one that is dialled, ptcp:[PORT][:ADDRESS] or \
     ptls:[PORT][:ADDRESS] to listen for one, unix:FILE or punix:FILE; addresses of IPv6 have brackets"
)]
pub struct BadTarget(String);

impl Target {
    /// Whether it needs certificates.
    pub fn is_tls(&self) -> bool {
        matches!(self, Target::Tcp(_, true) | Target::Listen(_, true))
    }

    /// Whether it waits for controllers.
    pub fn is_passive(&self) -> bool {
        matches!(self, Target::Listen(..) | Target::ListenUnix(_))
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Target, BadTarget> {
        let bad = || BadTarget(text.chars().take(100).collect());
        let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
        Ok(match kind {
            "tcp" => Target::Tcp(dialled(rest).ok_or_else(bad)?, false),
            "tls" | "ssl" => Target::Tcp(dialled(rest).ok_or_else(bad)?, true),
            "ptcp" => Target::Listen(listened(rest).ok_or_else(bad)?, false),
            "ptls" | "pssl" => Target::Listen(listened(rest).ok_or_else(bad)?, true),
            "unix" if !rest.is_empty() => Target::Unix(rest.into()),
            "punix" if !rest.is_empty() => Target::ListenUnix(rest.into()),
            _ => return Err(bad()),
        })
    }
}

fn address(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    match inner {
        Some(v6) => v6.parse().ok().map(IpAddr::V6),
        None => text.parse().ok().map(IpAddr::V4),
    }
}

fn dialled(text: &str) -> Option<SocketAddr> {
    match address(text) {
        Some(ip) => Some(SocketAddr::new(ip, PORT)),
        None => {
            let (ip, port) = text.rsplit_once(':')?;
            Some(SocketAddr::new(address(ip)?, port.parse().ok().filter(|p| *p > 0)?))
        }
    }
}

fn listened(text: &str) -> Option<SocketAddr> {
    let (port, ip) = text.split_once(':').unwrap_or((text, ""));
    let ip = if ip.is_empty() { Ipv4Addr::UNSPECIFIED.into() } else { address(ip)? };
    Some(SocketAddr::new(ip, if port.is_empty() { PORT } else { port.parse().ok()? }))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = |tls: &bool| if *tls { "tls" } else { "tcp" };
        match self {
            Target::Tcp(to, tls) => write!(f, "{}:{to}", kind(tls)),
            Target::Listen(at, tls) => match at.ip() {
                IpAddr::V4(ip) => write!(f, "p{}:{}:{ip}", kind(tls), at.port()),
                IpAddr::V6(ip) => write!(f, "p{}:{}:[{ip}]", kind(tls), at.port()),
            },
            Target::Unix(file) => write!(f, "unix:{}", file.display()),
            Target::ListenUnix(file) => write!(f, "punix:{}", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_open_vswitch_writes_them() {
        for (text, said) in [
            ("tcp:10.0.0.1", "tcp:10.0.0.1:6653"),
            ("ssl:[fe80::1]:6640", "tls:[fe80::1]:6640"),
            ("ptcp:", "ptcp:6653:0.0.0.0"),
            ("ptcp:6633:127.0.0.1", "ptcp:6633:127.0.0.1"),
            ("ptls::[::1]", "ptls:6653:[::1]"),
            ("punix:/run/x", "punix:/run/x"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), said);
            assert_eq!(said.parse(), Ok(target));
        }
        for text in [
            "",
            "tcp",
            "tcp:",
            "tcp:host",
            "tcp:10.0.0.1:0",
            "tcp:10.0.0.1:70000",
            "udp:1.2.3.4",
            "punix:",
            "tcp:fe80::1",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
