//! Addresses and prefixes with their text forms.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The text is not an Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an Ethernet address; write six bytes such as 02:00:00:00:00:01")]
pub struct EtherAddrError(pub String);

/// The text is not an IPv4 prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The part before the slash is not an IPv4 address.
    #[error("`{0}` does not start with an IPv4 address; write for example 10.0.0.0/8")]
    Address(String),
    /// The part behind the slash is neither a length nor a mask.
    #[error("`{0}` has no valid prefix length or mask; write /0 to /32, or a mask such as /255.255.0.0")]
    Mask(String),
}

/// An Ethernet address, six bytes in wire order; text form `02:00:00:00:00:01`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EtherAddr(pub [u8; 6]);

impl EtherAddr {
    /// All hosts of the link.
    pub const BROADCAST: EtherAddr = EtherAddr([0xff; 6]);

    /// The six bytes.
    pub fn octets(self) -> [u8; 6] {
        self.0
    }

    /// Whether this is a group address (broadcast included).
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether this is the broadcast address.
    pub fn is_broadcast(self) -> bool {
        self == EtherAddr::BROADCAST
    }
}

impl fmt::Display for EtherAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for EtherAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for EtherAddr {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for EtherAddr {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EtherAddr".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "An Ethernet address such as 02:00:00:00:00:01.",
            "type": "string", "pattern": "^[0-9A-Fa-f]{1,2}([:-][0-9A-Fa-f]{1,2}){5}$"
        })
    }
}

impl FromStr for EtherAddr {
    type Err = EtherAddrError;

    /// Six hexadecimal bytes of one or two digits, separated by `:` or `-`.
    fn from_str(text: &str) -> Result<EtherAddr, EtherAddrError> {
        let wrong = || EtherAddrError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(wrong)?;
            // `from_str_radix` alone would take a sign.
            if part.len() > 2 || !part.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(EtherAddr(bytes)) }
    }
}

/// An IPv4 network: an address whose bits behind the prefix are zero, and the prefix length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ipv4Prefix {
    addr: u32,
    len: u8,
}

impl Ipv4Prefix {
    /// All addresses.
    pub const ALL: Ipv4Prefix = Ipv4Prefix { addr: 0, len: 0 };

    /// The network of `len` bits that contains `addr`; `None` if `len` is above 32.
    pub fn new(addr: Ipv4Addr, len: u8) -> Option<Ipv4Prefix> {
        (len <= 32).then(|| Ipv4Prefix { addr: addr.to_bits() & mask_of(len), len })
    }

    /// The first address.
    pub fn addr(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.addr)
    }

    /// The last address.
    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.addr | !mask_of(self.len))
    }

    /// Length in bits, 0 to 32.
    #[expect(clippy::len_without_is_empty, reason = "the length of a prefix is not that of a collection")]
    pub fn len(self) -> u8 {
        self.len
    }

    /// The mask.
    pub fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(mask_of(self.len))
    }

    /// Whether the address lies in this network.
    pub fn contains(self, addr: Ipv4Addr) -> bool {
        addr.to_bits() & mask_of(self.len) == self.addr
    }

    /// Whether every address of `other` lies in this network.
    pub fn covers(self, other: Ipv4Prefix) -> bool {
        other.len >= self.len && self.contains(other.addr())
    }
}

impl fmt::Display for Ipv4Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr(), self.len)
    }
}

impl fmt::Debug for Ipv4Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Ipv4Addr> for Ipv4Prefix {
    fn from(addr: Ipv4Addr) -> Ipv4Prefix {
        Ipv4Prefix { addr: addr.to_bits(), len: 32 }
    }
}

impl FromStr for Ipv4Prefix {
    type Err = PrefixError;

    /// `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, or an address alone (32 bits). Before a slash, missing octets are zero
    /// (`10/8`, `0/0`). Bits behind the prefix are cleared.
    fn from_str(text: &str) -> Result<Ipv4Prefix, PrefixError> {
        let Some((addr, mask)) = text.split_once('/') else {
            let addr: Ipv4Addr = text.parse().map_err(|_| PrefixError::Address(text.to_owned()))?;
            return Ok(addr.into());
        };
        let missing = 3usize.saturating_sub(addr.matches('.').count());
        let addr: Ipv4Addr = format!("{addr}{}", ".0".repeat(missing))
            .parse()
            .map_err(|_| PrefixError::Address(text.to_owned()))?;
        let len = match mask.parse::<Ipv4Addr>() {
            Ok(mask) => {
                let len = mask.to_bits().leading_ones() as u8;
                (mask.to_bits() == mask_of(len)).then_some(len)
            }
            Err(_) if mask.bytes().all(|c| c.is_ascii_digit()) => mask.parse().ok(),
            Err(_) => None,
        };
        len.and_then(|len| Ipv4Prefix::new(addr, len)).ok_or_else(|| PrefixError::Mask(text.to_owned()))
    }
}

fn mask_of(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ether_addresses_are_read_and_written() {
        let a: EtherAddr = "00:A:ff:01:02:03".parse().unwrap();
        assert_eq!(a.to_string(), "00:0a:ff:01:02:03");
        assert_eq!("00-0a-ff-01-02-03".parse(), Ok(a));
        for wrong in
            ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "1:2:3:4:5:100", "1:2:3:4:5:+6", "1:2:3:4:5:", "g:2:3:4:5:6"]
        {
            assert!(wrong.parse::<EtherAddr>().is_err(), "{wrong}");
        }
        assert!(EtherAddr::BROADCAST.is_multicast() && !a.is_multicast());
    }

    #[test]
    fn prefixes_take_lengths_masks_and_short_forms() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("10/8", "10.0.0.0/8"),
            ("0/0", "0.0.0.0/0"),
            ("1.2.3.4/0.0.0.0", "0.0.0.0/0"),
        ] {
            assert_eq!(text.parse::<Ipv4Prefix>().unwrap().to_string(), shown);
        }
        for wrong in
            ["", "10", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0.0/255.0.255.0", "1.2.3.4.5/8"]
        {
            assert!(wrong.parse::<Ipv4Prefix>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_prefix_contains_its_range_and_nothing_else(addr: u32, len in 0u8..=32, other: u32) {
            let p = Ipv4Prefix::new(addr.into(), len).unwrap();
            prop_assert_eq!(p.to_string().parse(), Ok(p));
            let inside = (p.addr().to_bits()..=p.last().to_bits()).contains(&other);
            prop_assert_eq!(p.contains(other.into()), inside);
            prop_assert!(p.contains(addr.into()) && Ipv4Prefix::ALL.covers(p));
        }
    }
}
