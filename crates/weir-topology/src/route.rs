//! Routers: interfaces and routing tables.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use weir_filter::text::quote;
use weir_model::ValueError;
use weir_model::value::{IpPrefix, VlanId};
use weir_net::EtherAddr;

use crate::import::iptables::Ruleset;

/// A router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Router {
    /// The interfaces; each is a port of the box.
    pub interfaces: Vec<Interface>,
    /// The whole table, one route a prefix, longest prefixes first: the router's own addresses ([`RouteAction::Local`]) and connected
    /// networks are in it. Every next hop's interface exists.
    pub routes: Vec<Route>,
    /// What passes, if the router filters: the interfaces are its own, and the table nat translates addresses.
    pub firewall: Option<Box<Ruleset>>,
}

/// An interface of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its addresses with their networks' lengths.
    pub addresses: Vec<InterfaceAddr>,
    /// Its Ethernet address, if that matters.
    pub mac: Option<EtherAddr>,
    /// The VLAN tag of its frames, if they have one.
    pub vlan: Option<VlanId>,
}

/// An address with the length of its network, `10.1.0.1/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceAddr {
    ip: IpAddr,
    network: IpPrefix,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Destinations.
    pub prefix: IpPrefix,
    /// What happens to packets for them.
    pub action: RouteAction,
}

/// The action of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteAction {
    /// Forwards to one of these; with several, a hash chooses, so that any may be chosen. Never empty.
    Forward(Vec<NextHop>),
    /// Delivers to the router itself.
    Local,
    /// Drops silently.
    Blackhole,
    /// Drops and answers with ICMP "host unreachable".
    Unreachable,
    /// Drops and answers with ICMP "administratively prohibited".
    Prohibit,
}

/// Where a packet goes next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// The next router; `None` if the destination is on the interface's network.
    pub via: Option<IpAddr>,
    /// The interface that the packet leaves by.
    pub interface: String,
}

impl InterfaceAddr {
    /// An address and its network's length.
    pub fn new(ip: IpAddr, len: u8) -> Result<Self, ValueError> {
        Ok(Self { ip, network: IpPrefix::containing(ip, len)? })
    }

    /// The address.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The network that the address is in.
    pub fn network(&self) -> IpPrefix {
        self.network
    }

    /// The address alone.
    pub fn host(&self) -> IpPrefix {
        IpPrefix::host(self.ip)
    }
}

impl FromStr for InterfaceAddr {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let parts = text.split_once('/').and_then(|(ip, len)| {
            let digits = len.bytes().all(|b| b.is_ascii_digit());
            Some((ip.parse().ok()?, len.parse().ok().filter(|_| digits)?))
        });
        let Some((ip, len)) = parts else {
            let message = format!("{} is not an interface's address", quote(text));
            return Err(ValueError::new(message, "write it with its network's length, such as 10.0.0.1/24"));
        };
        Self::new(ip, len)
    }
}

impl fmt::Display for InterfaceAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.network.len())
    }
}

/// As `ip route` prints it: `10.0.0.0/8 via 192.0.2.1 dev wan`.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.prefix)?;
        match &self.action {
            RouteAction::Local => f.write_str(" local"),
            RouteAction::Blackhole => f.write_str(" blackhole"),
            RouteAction::Unreachable => f.write_str(" unreachable"),
            RouteAction::Prohibit => f.write_str(" prohibit"),
            RouteAction::Forward(hops) => hops.iter().try_for_each(|hop| {
                if let Some(via) = hop.via {
                    write!(f, " via {via}")?;
                }
                write!(f, " dev {}", hop.interface)
            }),
        }
    }
}
