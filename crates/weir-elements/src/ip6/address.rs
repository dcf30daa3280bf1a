//! Addresses and prefixes as arguments.

use std::net::Ipv6Addr;

use crate::prelude::*;
use crate::routes::Prefix;

/// An IPv6 network: an address whose bits behind the prefix are zero, and the length of the prefix, 0 to 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Prefix {
    pub(super) addr: u128,
    pub(super) len: u8,
}

impl Prefix for Ipv6Prefix {
    type Addr = Ipv6Addr;
    const WIDTH: Width = W128;
    const EXAMPLE: &'static str = "fd00:1::/64 fd00:2::1 2";

    fn key(self) -> KeyMatch {
        KeyMatch::Prefix(self.addr, self.len.into())
    }

    fn of_key(key: &KeyMatch) -> Option<Ipv6Prefix> {
        let KeyMatch::Prefix(addr, len) = *key else { return None };
        Some(Ipv6Prefix { addr, len: u8::try_from(len).ok()? })
    }

    fn bits(addr: Ipv6Addr) -> u128 {
        addr.into()
    }

    fn addr(bits: u128) -> Ipv6Addr {
        bits.into()
    }
}

impl std::fmt::Display for Ipv6Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv6Addr::from(self.addr), self.len)
    }
}

impl FromArg for Ipv6Prefix {
    const SYNTAX: &'static str = "IPv6 prefix";
    /// `fd00::/8`, `fd00::/ff00::`, or an address alone (128 bits). Bits behind the prefix are cleared.
    fn from_arg(text: &str) -> Result<Ipv6Prefix, String> {
        let wrong = || format!("'{text}' is not an IPv6 prefix (like fd00::/8)");
        let (addr, len) = text.trim().split_once('/').unwrap_or((text, "128"));
        let len = match (len.parse::<u8>(), len.parse::<Ipv6Addr>()) {
            (Ok(len @ 0..=128), _) => len,
            (_, Ok(mask)) => {
                let mask = u128::from(mask);
                let len = mask.leading_ones();
                if mask.checked_shl(len).unwrap_or(0) != 0 {
                    return Err(wrong());
                }
                len as u8
            }
            _ => return Err(wrong()),
        };
        let addr = u128::from(Ipv6Addr::from_arg(addr).map_err(|_| wrong())?);
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        Ok(Ipv6Prefix { addr: addr & mask, len })
    }
}

/// Space-separated addresses.
#[derive(Debug)]
pub struct AddressList(pub(super) Vec<u128>);

impl FromArg for AddressList {
    const SYNTAX: &'static str = "space-separated IPv6 addresses";
    fn from_arg(text: &str) -> Result<AddressList, String> {
        let mut list = text
            .split_whitespace()
            .map(|w| Ipv6Addr::from_arg(w).map(u128::from))
            .collect::<Result<Vec<_>, _>>()?;
        list.sort_unstable();
        list.dedup();
        Ok(AddressList(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_have_a_length_or_a_mask() {
        for (text, shown) in [
            ("fd00:1::5/32", "fd00:1::/32"),
            ("::0/0", "::/0"),
            ("::/::", "::/0"),
            ("0::ffff:0:0/96", "::ffff:0.0.0.0/96"),
            ("fd00::1", "fd00::1/128"),
            ("fd00::1/ffff:ffff::", "fd00::/32"),
        ] {
            assert_eq!(Ipv6Prefix::from_arg(text).unwrap().to_string(), shown);
        }
        for wrong in ["fd00::/129", "fd00::/", "/8", "10.0.0.0/8", "fd00::/ff0f::", "fd00/8", ""] {
            assert!(Ipv6Prefix::from_arg(wrong).unwrap_err().contains("not an IPv6 prefix"), "{wrong}");
        }
    }
}
