//! Addresses and other values of the link and network layers.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use weir_filter::text::parse_number;

use crate::error::{ValueError, quote};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A regular expression of addresses, for schemas; of IPv6 it knows the characters only.
pub(crate) const ADDRESS: &str = r"(((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*)";

/// An IPv4 or IPv6 prefix without host bits; text form `10.0.0.0/8`, or a bare address for a full-length one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpPrefix {
    addr: IpAddr,
    len: u8,
}

text_form!(IpPrefix, {
    "description": "An IPv4 or IPv6 address or prefix such as 10.0.0.0/8.",
    "type": "string", "pattern": (format!("^{ADDRESS}(/[0-9]{{1,3}})?$"))
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
        let network = network(addr, len);
        if network != addr {
            let message = format!("{addr}/{len} has bits set after the first {len}");
            return Err(ValueError::new(
                message,
                format!("write {network}/{len} for the network or {addr} for the one address"),
            ));
        }
        Ok(Self { addr, len })
    }

    /// The prefix of length `len` that `addr` lies in; fails if `len` is longer than the address.
    pub fn containing(addr: IpAddr, len: u8) -> Result<Self, ValueError> {
        Self::new(network(addr, len), len)
    }

    /// The prefix of one address.
    pub fn host(addr: IpAddr) -> Self {
        Self { addr, len: if addr.is_ipv4() { 32 } else { 128 } }
    }

    /// Whether every address of `other` is one of this prefix.
    pub fn contains(&self, other: &IpPrefix) -> bool {
        let same_family = self.addr.is_ipv4() == other.addr.is_ipv4();
        same_family
            && self.len <= other.len
            && Self::containing(other.addr, self.len).is_ok_and(|p| p == *self)
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

/// The address with all bits after the first `len` cleared.
fn network(addr: IpAddr, len: u8) -> IpAddr {
    let host_bits = |bits: u32| bits.saturating_sub(u32::from(len));
    match addr {
        IpAddr::V4(a) => IpAddr::V4((u32::from(a) & u32::MAX.checked_shl(host_bits(32)).unwrap_or(0)).into()),
        IpAddr::V6(a) => {
            IpAddr::V6((u128::from(a) & u128::MAX.checked_shl(host_bits(128)).unwrap_or(0)).into())
        }
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

/// The address of an interface, with the length of its network's prefix; text form `10.0.0.1/24`, and the address alone for a network
/// of it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostAddress {
    addr: IpAddr,
    len: u8,
}

text_form!(HostAddress, {
    "description": "The address of an interface, with its prefix length: 10.0.0.1/24. Without one it is alone in its network (/32, /128).",
    "type": "string", "pattern": (format!("^{ADDRESS}(/[0-9]{{1,3}})?$"))
});

impl HostAddress {
    /// The address.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The prefix length in bits.
    #[expect(clippy::len_without_is_empty, reason = "a prefix length, not a collection's")]
    pub fn len(&self) -> u8 {
        self.len
    }
}

impl FromStr for HostAddress {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let bad = || {
            let message = format!("{} is not the address of an interface", quote(text));
            ValueError::new(message, "write one with its prefix length, such as 10.0.0.1/24 or fd00::1/64")
        };
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| bad())?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let len = len.unwrap_or(most);
        if len == 0 || len > most || addr.is_multicast() || addr.is_unspecified() {
            return Err(bad());
        }
        Ok(Self { addr, len })
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.addr, self.len) {
            (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => write!(f, "{}", self.addr),
            (addr, len) => write!(f, "{addr}/{len}"),
        }
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
