//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

use crate::text::{ValueError, quote};

/// An Ethernet address, six bytes in wire order; text form `02:00:00:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl serde::Serialize for MacAddr {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for MacAddr {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MacAddr".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "An Ethernet address such as 02:00:00:00:00:01.",
            "type": "string", "pattern": "^[0-9A-Fa-f]{1,2}([:-][0-9A-Fa-f]{1,2}){5}$"
        })
    }
}

impl FromStr for MacAddr {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        let fits = bytes.iter_mut().all(|byte| {
            let part = parts
                .next()
                .filter(|p| (1..=2).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_hexdigit()));
            part.and_then(|p| u8::from_str_radix(p, 16).ok()).map(|b| *byte = b).is_some()
        });
        if !fits || parts.next().is_some() {
            let message = format!("{} is not an Ethernet address", quote(text));
            return Err(ValueError::new(message, "write six hexadecimal bytes, such as 02:00:00:00:00:01"));
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
