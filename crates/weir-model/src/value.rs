//! Small values that documents and filters share: identifiers, addresses, ranges, flags.
//!
//! Each has one text form (`Display`), reads it back (`FromStr`), and serialises to it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::doc::parse_number;
use crate::error::{ValueError, quote};

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

/// An identifier in a document, such as `0x1`: 1 to 64 characters, without spaces, control characters, `:` and `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(String);

text_form!(Id, {
    "description": "An identifier such as 0x1; a number counts as its text.",
    "type": ["string", "integer"], "minLength": 1, "maxLength": 64, "pattern": "^[^\\s:/]+$"
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
    "type": ["string", "integer"], "minLength": 1, "maxLength": 128
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

/// A Linux network interface's name: 1 to 15 bytes, without spaces and `/`, not `.` or `..` (the kernel's `dev_valid_name`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(String);

text_form!(InterfaceName, {
    "description": "A Linux network interface's name.",
    "type": "string", "minLength": 1, "maxLength": 15, "pattern": "^[^\\s:/]+$"
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

/// An Ethernet address, six bytes in wire order; text form `02:00:00:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

text_form!(MacAddr, {
    "description": "An Ethernet address such as 02:00:00:00:00:01.",
    "type": "string", "pattern": "^[0-9A-Fa-f]{1,2}([:-][0-9A-Fa-f]{1,2}){5}$"
});

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

/// An IPv4 or IPv6 prefix without host bits; text form `10.0.0.0/8`, or a bare address for a full-length one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpPrefix {
    addr: IpAddr,
    len: u8,
}

text_form!(IpPrefix, {
    "description": "An IPv4 or IPv6 address or prefix such as 10.0.0.0/8.",
    "type": "string", "pattern": "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"
});

impl IpPrefix {
    /// A prefix; fails if `len` is longer than the address or `addr` has bits set beyond it.
    pub fn new(addr: IpAddr, len: u8) -> Result<Self, ValueError> {
        let bits = if addr.is_ipv4() { 32 } else { 128 };
        if len > bits {
            return Err(ValueError::new(
                format!("the prefix length {len} is too long"),
                format!("it is 0 to {bits} for {addr}"),
            ));
        }
        let network = match addr {
            IpAddr::V4(a) => {
                IpAddr::V4((u32::from(a) & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)).into())
            }
            IpAddr::V6(a) => {
                IpAddr::V6((u128::from(a) & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)).into())
            }
        };
        if network != addr {
            let message = format!("{addr}/{len} has bits set after the first {len}");
            return Err(ValueError::new(
                message,
                format!("write {network}/{len} for the network or {addr} for the one address"),
            ));
        }
        Ok(Self { addr, len })
    }

    /// The network address.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The prefix length in bits.
    #[expect(clippy::len_without_is_empty, reason = "a prefix length, not a collection's")]
    pub fn len(&self) -> u8 {
        self.len
    }
}

impl FromStr for IpPrefix {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let bad = || {
            let message = format!("{} is not an address or prefix", quote(text));
            ValueError::new(
                message,
                "write an address such as 10.0.0.1 or a prefix such as 10.0.0.0/8 or 2001:db8::/32",
            )
        };
        let (addr, len) = match text.split_once('/') {
            Some((a, l)) if !l.is_empty() && l.bytes().all(|b| b.is_ascii_digit()) => {
                (a, Some(l.parse().map_err(|_| bad())?))
            }
            Some(_) => return Err(bad()),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| bad())?;
        Self::new(addr, len.unwrap_or(if addr.is_ipv4() { 32 } else { 128 }))
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.addr, self.len) {
            (IpAddr::V4(a), 32) => write!(f, "{a}"),
            (IpAddr::V6(a), 128) => write!(f, "{a}"),
            (a, len) => write!(f, "{a}/{len}"),
        }
    }
}

/// A transport port or an inclusive range of ports; text form `80` or `1024-65535`. Serialises to a number if it is one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    lo: u16,
    hi: u16,
}

schema_form!(PortRange, {
    "description": "A port 0 to 65535 (a number, or a service's name), or a range such as 1024-65535.",
    "anyOf": [
        { "type": "integer", "minimum": 0, "maximum": 65535 },
        { "type": "string", "pattern": "^([0-9]{1,5}(-[0-9]{1,5})?|0x[0-9A-Fa-f]+|[a-z][a-z0-9-]*)$" }
    ]
});

impl PortRange {
    /// The range `lo..=hi`; `None` if it is empty.
    pub fn new(lo: u16, hi: u16) -> Option<Self> {
        (lo <= hi).then_some(Self { lo, hi })
    }

    /// The first port.
    pub fn lo(&self) -> u16 {
        self.lo
    }

    /// The last port.
    pub fn hi(&self) -> u16 {
        self.hi
    }
}

impl FromStr for PortRange {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let help = "write a port 0 to 65535, a range such as 1024-65535, or a service's name such as http";
        let one = |t: &str| parse_number(t).and_then(|n| u16::try_from(n).ok());
        let bad = || ValueError::new(format!("{} is not a port or range of ports", quote(text)), help);
        if let Some(port) = one(text).or_else(|| crate::filter::service_port(text)) {
            return Ok(Self { lo: port, hi: port });
        }
        let (lo, hi) = text.split_once('-').ok_or_else(bad)?;
        match (one(lo), one(hi)) {
            (Some(lo), Some(hi)) if lo > hi => {
                Err(ValueError::new(format!("the range {lo}-{hi} is empty"), format!("write {hi}-{lo}")))
            }
            (Some(lo), Some(hi)) => Ok(Self { lo, hi }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lo == self.hi { write!(f, "{}", self.lo) } else { write!(f, "{}-{}", self.lo, self.hi) }
    }
}

impl Serialize for PortRange {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.lo == self.hi { s.serialize_u16(self.lo) } else { s.collect_str(self) }
    }
}

/// A VLAN identifier that traffic may carry, 1 to 4094 (IEEE 802.1Q reserves 0 and 4095).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanId(u16);

impl VlanId {
    /// The identifier, or `None` outside of 1 to 4094.
    pub fn new(id: u16) -> Option<Self> {
        (1..=4094).contains(&id).then_some(Self(id))
    }

    /// The identifier as a number.
    pub fn get(self) -> u16 {
        self.0
    }
}

schema_form!(VlanId, {
    "description": "A VLAN identifier, 1 to 4094, as a number or as text.",
    "anyOf": [{ "type": "integer", "minimum": 1, "maximum": 4094 }, { "type": "string", "pattern": "^([0-9]{1,4}|0x[0-9A-Fa-f]+)$" }]
});

impl Serialize for VlanId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u16(self.0)
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An EtherType, 0x0600 to 0xffff (IEEE 802.3); text form `0x0800`. The names `ipv4`, `ipv6` and `arp` are read too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(u16);

text_form!(EtherType, {
    "description": "An EtherType such as 0x0800, or ipv4, ipv6 or arp.",
    "type": ["string", "integer"], "pattern": "^(0x[0-9A-Fa-f]+|[0-9]+|ipv4|ip|ipv6|ip6|arp)$", "minimum": 1536, "maximum": 65535
});

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);

    /// The number on the wire.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl FromStr for EtherType {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "ipv4" | "ip" => Ok(Self::IPV4),
            "ipv6" | "ip6" => Ok(Self::IPV6),
            "arp" => Ok(Self::ARP),
            _ => match parse_number(text).and_then(|n| u16::try_from(n).ok()) {
                Some(n) if n >= 0x600 => Ok(Self(n)),
                _ => {
                    let message = format!("{} is not an EtherType", quote(text));
                    Err(ValueError::new(message, "write ipv4, ipv6, arp or a number from 0x0600 to 0xffff"))
                }
            },
        }
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// TCP flags that must be set and flags that must be clear; text form as in Open vSwitch: `+syn-ack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcpFlags {
    set: u8,
    clear: u8,
}

text_form!(TcpFlags, {
    "description": "TCP flags that must be set (+) and clear (-), such as +syn-ack.",
    "type": "string", "pattern": "^[+-]?(fin|syn|rst|psh|ack|urg|ece|cwr)([+-](fin|syn|rst|psh|ack|urg|ece|cwr))*$"
});

/// TCP flag names by bit, lowest first (RFC 9293 section 3.1).
pub(crate) const TCP_FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

impl TcpFlags {
    /// Flags that must be set, as in byte 13 of the TCP header.
    pub fn set(self) -> u8 {
        self.set
    }

    /// Flags that must be clear, as in byte 13 of the TCP header.
    pub fn clear(self) -> u8 {
        self.clear
    }
}

impl FromStr for TcpFlags {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let help = format!("write flags as +syn-ack, out of {}", TCP_FLAGS.join(", "));
        let (mut set, mut clear) = (0u8, 0u8);
        let signed = if text.starts_with(['+', '-']) { text.to_string() } else { format!("+{text}") };
        let mut rest = signed.as_str();
        while let Some(sign) = rest.chars().next() {
            let word = rest.get(1..).unwrap_or_default();
            let end = word.find(['+', '-']).unwrap_or(word.len());
            let (flag, next) = word.split_at(end);
            let Some(bit) = TCP_FLAGS.iter().position(|f| *f == flag) else {
                return Err(ValueError::new(format!("{} is not a TCP flag", quote(flag)), help));
            };
            *(if sign == '+' { &mut set } else { &mut clear }) |= 1 << bit;
            rest = next;
        }
        if set & clear != 0 {
            return Err(ValueError::new(format!("{} wants a flag both set and clear", quote(text)), help));
        }
        Ok(Self { set, clear })
    }
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, name) in TCP_FLAGS.iter().enumerate() {
            if self.set >> bit & 1 != 0 {
                write!(f, "+{name}")?;
            } else if self.clear >> bit & 1 != 0 {
                write!(f, "-{name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(mac.parse::<MacAddr>().unwrap().to_string(), mac);
        }
        for bad in ["02:00:00:00:00", "02:00:00:00:00:01:02", "g2:00:00:00:00:01", "+2:00:00:00:00:01", ""] {
            assert!(bad.parse::<MacAddr>().is_err(), "{bad}");
        }
        assert_eq!("+syn-ack".parse::<TcpFlags>().unwrap(), TcpFlags { set: 2, clear: 16 });
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
