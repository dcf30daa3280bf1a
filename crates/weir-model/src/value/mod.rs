//! Small values that documents and filters share: identifiers, addresses, ranges, flags.
//!
//! Each has one text form (`Display`), reads it back (`FromStr`), and serialises to it.

/// Serialises a type by its `Display` form and gives it a JSON Schema.
macro_rules! text_form {
    ($type:ident, $schema:tt) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        schema_form!($type, $schema);
    };
}

macro_rules! schema_form {
    ($type:ident, $schema:tt) => {
        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

mod address;
mod key;
mod rate;
mod share;
mod size;
mod transport;
mod version;

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

pub(crate) use address::ADDRESS;
pub use address::{EtherType, HostAddress, IpPrefix, VlanId};
pub use key::PublicKey;
pub use rate::{Bandwidth, Delay};
pub use share::PortShare;
pub use size::Size;
pub use transport::{PortRange, TcpFlags};
pub use version::{Version, VersionRange};

use crate::error::{ValueError, quote};

/// Serialises a list, one item without the list.
pub(crate) fn one_or_list<T: Serialize, S: Serializer>(items: &[T], s: S) -> Result<S::Ok, S::Error> {
    match items {
        [one] => one.serialize(s),
        many => many.serialize(s),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(crate) fn is_false(b: &bool) -> bool {
    !b
}

/// An identifier in a document, such as `0x1`: 1 to 64 characters, without spaces, control characters, `:` and `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(String);

text_form!(Id, {
    "description": "An identifier such as 0x1; a number counts as its text.",
    "type": ["string", "number", "boolean"], "minLength": 1, "maxLength": 64,
    // Spaces and control characters one by one: what \s means differs between languages.
    "pattern": "^[^\\u0000-\\u0020\\u007f-\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000:/]+$"
});

impl Id {
    /// The identifier's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Id {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let help = "an identifier has 1 to 64 characters, without spaces, control characters, ':' and '/', such as \"0x1\"";
        if text.is_empty() {
            return Err(ValueError::new("the identifier is empty", help));
        }
        if text.chars().count() > 64
            || text.chars().any(|c| c.is_whitespace() || c.is_control() || c == ':' || c == '/')
        {
            return Err(ValueError::new(format!("{} is not an identifier", quote(text)), help));
        }
        Ok(Self(text.to_string()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name for people: 1 to 128 characters, no control characters, not blank.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

text_form!(Name, {
    "description": "A name for people; a number counts as its text.",
    "type": ["string", "number", "boolean"], "minLength": 1, "maxLength": 128,
    "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\u0000-\\u0020\\u007f-\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000][^\\u0000-\\u001f\\u007f-\\u009f]*$"
});

impl Name {
    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let help = "a name has 1 to 128 characters and no control characters";
        if text.trim().is_empty() {
            return Err(ValueError::new("the name is empty", help));
        }
        if text.chars().count() > 128 || text.chars().any(char::is_control) {
            return Err(ValueError::new(format!("{} is not a name", quote(text)), help));
        }
        Ok(Self(text.to_string()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&Id> for Name {
    fn from(id: &Id) -> Name {
        // Whatever is an identifier is a name.
        Name(id.0.clone())
    }
}

/// A Linux network interface's name: 1 to 15 bytes, without spaces and `/`, not `.` or `..` (the kernel's `dev_valid_name`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(String);

text_form!(InterfaceName, {
    "description": "A Linux network interface's name.",
    "type": ["string", "number", "boolean"], "minLength": 1, "maxLength": 15, "not": { "enum": [".", ".."] },
    "pattern": "^[^\\u0000-\\u0020\\u007f-\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000:/]+$"
});

impl InterfaceName {
    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InterfaceName {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let bad = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
        if text.is_empty() || text.len() > 15 || text == "." || text == ".." || text.chars().any(bad) {
            let help = "an interface name has 1 to 15 bytes, without spaces, ':' and '/', such as \"eth1\"";
            return Err(ValueError::new(format!("{} is not an interface name", quote(text)), help));
        }
        Ok(Self(text.to_string()))
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use weir_net::EtherAddr;

    use super::*;

    #[test]
    fn prefixes_have_no_host_bits() {
        assert_eq!("10.0.0.0/8".parse::<IpPrefix>().unwrap().to_string(), "10.0.0.0/8");
        assert_eq!("::/0".parse::<IpPrefix>().unwrap().to_string(), "::/0");
        assert_eq!("10.0.0.1/32".parse::<IpPrefix>().unwrap().to_string(), "10.0.0.1");
        let e = "10.0.0.1/24".parse::<IpPrefix>().unwrap_err();
        assert!(e.help.contains("10.0.0.0/24"), "{e}");
        assert!("10.0.0.0/33".parse::<IpPrefix>().is_err());
        assert!("10.0.0.0/+8".parse::<IpPrefix>().is_err());
    }

    #[test]
    fn text_forms_round_trip() {
        for mac in ["02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff"] {
            assert_eq!(mac.parse::<EtherAddr>().unwrap().to_string(), mac);
        }
        for bad in ["02:00:00:00:00", "02:00:00:00:00:01:02", "g2:00:00:00:00:01", "+2:00:00:00:00:01", ""] {
            assert!(bad.parse::<EtherAddr>().is_err(), "{bad}");
        }
        let flags: TcpFlags = "+syn-ack".parse().unwrap();
        assert_eq!((flags.set(), flags.clear()), (2, 16));
        assert_eq!("syn+ack".parse::<TcpFlags>().unwrap().to_string(), "+syn+ack");
        for bad in ["", "+", "+syn-syn", "+sin", "é"] {
            assert!(bad.parse::<TcpFlags>().is_err(), "{bad}");
        }
        assert_eq!("1024-65535".parse::<PortRange>().unwrap().to_string(), "1024-65535");
        assert_eq!("https".parse::<PortRange>().unwrap().to_string(), "443");
        assert!("2-1".parse::<PortRange>().unwrap_err().help.contains("1-2"));
        assert_eq!("arp".parse::<EtherType>().unwrap().to_string(), "0x0806");
        assert!("0x5ff".parse::<EtherType>().is_err());
    }
}
