//! Ports of addresses that modules share: what is left of the operator's pools, and a request with what it got. Pure.

use std::net::Ipv4Addr;

use serde::Deserialize;
use weir_net::{PortShare, Protocols};

use super::offer::Access;

/// How many ports a module gets, unless the operator says another number.
const EACH: u16 = 16;

/// An address whose ports are for modules of several.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pool {
    /// The address.
    pub address: Ipv4Addr,
    /// The interface where packets for it come.
    pub if_name: String,
    /// The first and the last port.
    pub ports: [u16; 2],
    /// How many ports a module gets.
    #[serde(default = "each")]
    pub each: u16,
}

fn each() -> u16 {
    EACH
}

impl Pool {
    /// Why it cannot be used.
    pub fn mistake(&self) -> Option<String> {
        let [first, last] = self.ports;
        if PortShare::new(self.address, Protocols::All, first, last).is_none() {
            return Some(format!("{}:{first}-{last} are no ports of a host", self.address));
        }
        let most = u32::from(last - first) + 1;
        (self.each == 0 || u32::from(self.each) > most).then(|| {
            format!("each module gets {} of {most} ports: it is 1 at least, and not more than all", self.each)
        })
    }

    /// The access points of modules on it, in order.
    fn access(&self, protocols: Protocols) -> impl Iterator<Item = Access> {
        let [first, last] = self.ports.map(u32::from);
        let starts = (first..=last).step_by(self.each.max(1).into());
        starts.filter_map(move |start| {
            let end = start + u32::from(self.each) - 1;
            let ports = (u16::try_from(start).ok()?, u16::try_from(end).ok().filter(|_| end <= last)?);
            let share = PortShare::new(self.address, protocols, ports.0, ports.1);
            Some(Access { if_name: self.if_name.clone(), vlan: None, share: Some(share?) })
        })
    }
}

/// The first ports that are left.
pub fn free<'a>(
    pools: &'a [Pool],
    protocols: Protocols,
    taken: &'a [PortShare],
) -> impl Iterator<Item = Access> + use<'a> {
    let is_free = |a: &Access| a.share.is_some_and(|s| !taken.iter().any(|t| t.overlaps(&s)));
    pools.iter().flat_map(move |p| p.access(protocols)).filter(is_free)
}

/// A request with its address for `$ADDRESS`, its ports for `$PORTS`, and the first of these for `$PORT`.
pub fn filled(text: &str, share: PortShare) -> String {
    let (first, last) = share.ports();
    text.replace("$ADDRESS", &share.address().to_string())
        .replace("$PORTS", &format!("{first}-{last}"))
        .replace("$PORT", &first.to_string())
}

/// What stands for the ports of a request until it has some.
pub fn example(protocols: Protocols) -> Option<PortShare> {
    PortShare::new(Ipv4Addr::new(192, 0, 2, 1), protocols, 1, EACH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_in_order_and_to_nobody_twice() {
        let pool =
            Pool { address: [10, 0, 0, 9].into(), if_name: "lan".into(), ports: [65_530, 65_535], each: 2 };
        assert_eq!(pool.mistake(), None);
        let (pools, mut taken) = ([pool], Vec::new());
        let mut given = Vec::new();
        for protocols in [Protocols::Udp, Protocols::All, Protocols::Tcp, Protocols::Udp, Protocols::All] {
            let found = free(&pools, protocols, &taken).next().and_then(|a| a.share);
            given.extend(found.map(|s| s.to_string()));
            taken.extend(found);
        }
        assert_eq!(
            given,
            [
                "10.0.0.9:65530-65531/udp",
                "10.0.0.9:65532-65533",
                "10.0.0.9:65530-65531/tcp",
                "10.0.0.9:65534-65535/udp"
            ]
        );
        let all = Pool { ports: [1, 65_535], each: 65_535, ..pools[0].clone() };
        assert_eq!(free(&[all], Protocols::All, &[]).count(), 1);
        for (ports, each) in [([0, 9], 1), ([9, 1], 1), ([1, 9], 0), ([1, 9], 10)] {
            assert!(Pool { ports, each, ..pools[0].clone() }.mistake().is_some());
        }
    }

    #[test]
    fn a_request_knows_what_it_got() {
        let text = filled("$ADDRESS $PORT $PORTS $PORTAL", "10.0.0.9:7-9".parse().unwrap());
        assert_eq!(text, "10.0.0.9 7 7-9 7AL");
    }
}
