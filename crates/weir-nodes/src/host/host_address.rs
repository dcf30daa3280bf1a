//! The address of the kernel on a virtual interface: an argument of elements that make one.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_elements::FromArg;
use weir_net::Ipv4Prefix;

/// An address and the length of its prefix: `10.0.0.1/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostAddress(pub Ipv4Addr, pub u8);

impl FromArg for HostAddress {
    const SYNTAX: &'static str = "IP address with prefix";

    fn from_arg(text: &str) -> Result<HostAddress, String> {
        let wrong = || format!("'{text}' is not an IP address with its prefix (like 10.0.0.1/8)");
        let Some((address, prefix)) = text.trim().split_once('/') else {
            // A name has its prefix with it, an address has not.
            let named = Ipv4Addr::from_arg(text).ok().filter(|_| text.trim().parse::<Ipv4Addr>().is_err());
            let prefix = Ipv4Prefix::from_arg(text).ok();
            let (address, prefix) = named.zip(prefix).ok_or_else(wrong)?;
            return Ok(HostAddress(address, prefix.len()));
        };
        let address = address.parse().map_err(|_| wrong())?;
        let length = match prefix.parse::<Ipv4Addr>() {
            Ok(mask) => {
                let mask = mask.to_bits();
                (mask.leading_ones() == mask.count_ones()).then(|| mask.leading_ones() as u8)
            }
            Err(_) => prefix.parse().ok().filter(|&n: &u8| n <= 32),
        };
        Ok(HostAddress(address, length.ok_or_else(wrong)?))
    }
}

impl HostAddress {
    /// Whether an address is in the same prefix.
    pub fn reaches(self, other: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.1)).unwrap_or(0);
        (self.0.to_bits() ^ other.to_bits()) & mask == 0
    }
}

/// An IPv6 address and the length of its prefix: `fd00::1/64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostAddress6(pub Ipv6Addr, pub u8);

impl FromArg for HostAddress6 {
    const SYNTAX: &'static str = "IPv6 address with prefix";

    fn from_arg(text: &str) -> Result<HostAddress6, String> {
        let wrong = || format!("'{text}' is not an IPv6 address with its prefix (like fd00::1/64)");
        let (address, prefix) = text.trim().split_once('/').ok_or_else(wrong)?;
        let prefix = prefix.parse().ok().filter(|&n: &u8| n <= 128).ok_or_else(wrong)?;
        Ok(HostAddress6(address.parse().map_err(|_| wrong())?, prefix))
    }
}

/// A gateway has to be reachable; 0.0.0.0 stands for none.
pub(crate) fn gateway(gateway: Ipv4Addr, of: Option<HostAddress>) -> Result<Option<Ipv4Addr>, String> {
    if gateway.is_unspecified() {
        return Ok(None);
    }
    match of {
        Some(address) if !address.reaches(gateway) => {
            let HostAddress(address, prefix) = address;
            Err(format!("GATEWAY {gateway}: it has to be in the network of {address}/{prefix}"))
        }
        _ => Ok(Some(gateway)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_lengths_or_masks() {
        let ten = Ipv4Addr::new(10, 0, 0, 1);
        assert_eq!(HostAddress::from_arg("10.0.0.1/8"), Ok(HostAddress(ten, 8)));
        assert_eq!(HostAddress::from_arg("10.0.0.1/255.255.0.0"), Ok(HostAddress(ten, 16)));
        for wrong in ["10.0.0.1", "10.0.0.1/33", "10.0.0.1/255.0.255.0", "10.0.0/8", "/8", ""] {
            assert!(HostAddress::from_arg(wrong).unwrap_err().contains("like 10.0.0.1/8"), "{wrong}");
        }
        assert_eq!(HostAddress6::from_arg("fd00::1/64"), Ok(HostAddress6("fd00::1".parse().unwrap(), 64)));
        assert!(HostAddress6::from_arg("fd00::1/129").is_err());
        let names: std::rc::Rc<weir_elements::Names> = std::rc::Rc::new(|name, kind| match (name, kind) {
            ("me", weir_elements::NameKind::Ip) => Some("10.0.0.1".to_owned()),
            ("me", weir_elements::NameKind::IpPrefix) => Some("10.0.0.0/8".to_owned()),
            _ => None,
        });
        weir_elements::with_names(names, || {
            assert_eq!(HostAddress::from_arg("me"), Ok(HostAddress(ten, 8)));
            assert!(HostAddress::from_arg("you").is_err());
        });
    }

    #[test]
    fn a_gateway_is_a_neighbour() {
        let address = Some(HostAddress(Ipv4Addr::new(10, 1, 0, 1), 16));
        assert_eq!(gateway(Ipv4Addr::UNSPECIFIED, address), Ok(None));
        let near = Ipv4Addr::new(10, 1, 9, 9);
        assert_eq!(gateway(near, address), Ok(Some(near)));
        assert!(gateway(Ipv4Addr::new(10, 2, 0, 1), address).unwrap_err().contains("network of 10.1.0.1/16"));
    }
}
