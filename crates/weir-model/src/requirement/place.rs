//! Places that requirements speak of.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use crate::error::{ValueError, quote};
use crate::value::IpPrefix;

/// Longest name of a node or port, in bytes.
const MAX_NAME: usize = 256;

/// Where packets begin, pass or arrive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A node: a box of a topology, an access point or function of a service graph, an element of a Click configuration.
    Node(String),
    /// One port of a node, `fw:lan` or `fw:0`; the node's name ends at the first colon.
    Port {
        /// The node.
        node: String,
        /// The port's name or number.
        port: String,
    },
    /// All places that own addresses of this prefix. `0/0`, `10/8` and `172.16/12` are read as the paper writes them.
    Prefix(IpPrefix),
}

impl Place {
    /// The node, if the place is one or its port.
    pub fn node(&self) -> Option<&str> {
        match self {
            Place::Node(node) | Place::Port { node, .. } => Some(node),
            Place::Prefix(_) => None,
        }
    }
}

impl FromStr for Place {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        if is_address(text) {
            let long = abbreviated(text);
            return long.as_deref().unwrap_or(text).parse().map(Place::Prefix);
        }
        let named = |name: &str| {
            let symbol = |c: char| c.is_whitespace() || c.is_control() || ",;()[]{}<>\"'&|!=?#:".contains(c);
            !name.is_empty() && name.len() <= MAX_NAME && !name.contains(symbol)
        };
        let place = match text.split_once(':') {
            None if named(text) => Some(Place::Node(text.into())),
            // A service graph's `sf:FUNCTION:PORT` has a second colon.
            Some((node, port)) if named(node) && port.split(':').all(named) && port.len() <= MAX_NAME => {
                Some(Place::Port { node: node.into(), port: port.into() })
            }
            _ => None,
        };
        place.ok_or_else(|| {
            ValueError::new(
                format!("{} is not a place", quote(text)),
                "write a node such as internet, a node's port such as fw:lan, or a prefix such as 10.0.0.0/8",
            )
        })
    }
}

/// Whether a word is meant as an address or prefix, right or wrong.
pub(super) fn is_address(text: &str) -> bool {
    let (addr, len) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let v4 = addr.bytes().all(|b| b.is_ascii_digit() || b == b'.') && (addr.contains('.') || len.is_some());
    let v6 = addr.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.')
        && (addr.contains("::") || addr.bytes().filter(|b| *b == b':').count() == 7);
    !addr.is_empty() && (v4 || v6)
}

/// `10/8` in full.
fn abbreviated(text: &str) -> Option<String> {
    let (addr, len) = text.split_once('/')?;
    let mut bytes = [0; 4];
    for (i, part) in addr.split('.').enumerate() {
        *bytes.get_mut(i)? = part.parse().ok()?;
    }
    Some(format!("{}/{len}", Ipv4Addr::from(bytes)))
}

/// `10.0.0.1:1500`, an address with a transport port, as the paper writes places (section 2.2.5).
pub(super) fn with_port(text: &str) -> Option<(Place, u16)> {
    let (addr, port) = text.rsplit_once(':')?;
    let addr: Ipv4Addr = addr.parse().ok()?;
    Some((Place::Prefix(IpPrefix::new(IpAddr::V4(addr), 32).ok()?), port.parse().ok()?))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Node(node) => f.write_str(node),
            Place::Port { node, port } => write!(f, "{node}:{port}"),
            Place::Prefix(prefix) => prefix.fmt(f),
        }
    }
}
