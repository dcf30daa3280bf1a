//! The operator's network (CHANGE paper section 2.2.2, "operator configuration"): boxes, links, who owns which addresses, what
//! requesters may do, and what must hold.
//!
//! ```
//! let topology = weir_topology::Topology::parse("
//! version: 1
//! name: access
//! boxes:
//!   internet: {kind: internet}
//!   phone: {kind: client, owns: 10.1.0.7}
//!   gw:
//!     kind: router
//!     interfaces: {wan: 192.0.2.2/30, lan: 10.1.0.1/16}
//!     routes: [default via 192.0.2.1]
//!   fw:
//!     kind: firewall
//!     ports: [lan, wan]
//!     rules: [allow from lan all, allow udp dst port 1500]
//! links:
//!   - gw:wan - internet
//!   - gw:lan - fw:wan
//!   - fw:lan - phone
//! requirements:
//!   - can internet phone udp dst port 1500
//!   - never internet phone tcp
//! ").unwrap();
//! assert_eq!(topology.boxes.len(), 4);
//! assert_eq!(topology.links[1].to_string(), "gw:lan - fw:wan");
//! ```
//!
//! A topology is well formed: names are unique, links and requirements name boxes and ports that exist, every next hop leaves by an
//! interface. The user manual is `docs/requirements.md`.

#![forbid(unsafe_code)]

pub mod import;
mod load;
mod policy;
mod read;
mod route;
mod schema;
mod switch;

#[cfg(test)]
mod tests;

use std::fmt;

pub use load::{MAX_FILE, TopologyError};
pub use policy::{Inconclusive, Policy, Receive, Requester, Rules, SendFrom, SendTo};
pub use route::{Interface, InterfaceAddr, NextHop, Route, RouteAction, Router};
pub use switch::{Forwarding, MacEntry, PortVlans, Switch, SwitchPort};

use crate::import::Note;
use crate::import::hassel::TransferFunction;
use crate::import::iptables::Ruleset;
use weir_filter::Expr;
use weir_model::requirement::Requirement;
use weir_model::value::{Id, IpPrefix, Name};
use weir_model::{DocErrors, Position};

/// The port of a router, in requirements, behind which its own addresses are.
pub const LOCAL: &str = "local";

/// Most boxes in a topology.
pub const MAX_BOXES: usize = 100_000;
/// Most links in a topology.
pub const MAX_LINKS: usize = 400_000;
/// Most ports of a box.
pub const MAX_PORTS: usize = 4_096;
/// Most routes of a router, rules of a firewall, addresses of a switch.
pub const MAX_ENTRIES: usize = 1_000_000;

/// A network of boxes and links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The network's name.
    pub name: Option<Name>,
    /// The boxes in the order of the document; names are unique.
    pub boxes: Vec<NetBox>,
    /// The links; each port is on one link at most, but for those of one direction.
    pub links: Vec<Link>,
    /// Those who may ask for processing.
    pub owners: Vec<Owner>,
    /// What requesters' modules may do.
    pub policy: Policy,
    /// What must hold; they name boxes and ports that exist.
    pub requirements: Vec<Requirement>,
    /// What imported files hold that is not modelled, with the box that it belongs to. Whoever relies on a verdict must be shown these.
    pub not_modelled: Vec<(String, Note)>,
}

/// A box of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetBox {
    /// Its name, by which links and requirements know it.
    pub name: String,
    /// What it is.
    pub kind: BoxKind,
    /// It exists already and is modelled, never instantiated. True for routers, switches and firewalls unless they say otherwise.
    pub legacy: bool,
    /// Whose it is: the name of one of the topology's owners.
    pub owner: Option<Id>,
    /// Where its name's value stands in the document.
    pub position: Option<Position>,
}

/// The kind of a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoxKind {
    /// Where traffic begins and ends.
    Endpoint(Endpoint),
    /// Forwards by destination address.
    Router(Router),
    /// Forwards by Ethernet address.
    Switch(Switch),
    /// A filter between two ports, which forwards frames as they are.
    Firewall(Firewall),
    /// Anything else, as a Click configuration.
    Click(ClickBox),
    /// Where requests are placed.
    Platform(Platform),
    /// A transfer function of header space analysis.
    Transfer(TransferBox),
}

/// A host, a customer of the operator, or the rest of the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Which of these.
    pub role: EndpointRole,
    /// Addresses it owns. Where prefixes of boxes overlap, the longest says who owns an address.
    pub owns: Vec<IpPrefix>,
    /// It sends from addresses that it owns only (somebody enforces that); otherwise from any.
    pub own_sources_only: bool,
    /// Its ports, in the order of the links; `0` if the only link names none.
    pub ports: Vec<String>,
}

/// The role of an end point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndpointRole {
    /// A host, for example a server.
    Host,
    /// A customer of the operator.
    Client,
    /// All that is outside; owns every address that nobody else owns.
    Internet,
}

/// A filter between two ports, which forwards frames as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firewall {
    /// The names of its two ports.
    pub ports: [String; 2],
    /// What passes.
    pub rules: FirewallRules,
}

/// The rules of a firewall: what passes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirewallRules {
    /// The first rule that matches decides; what none matches is denied.
    Filters {
        /// The rules in their order.
        rules: Vec<FilterRule>,
        /// Packets of the other direction of a flow that a rule allowed pass too.
        stateful: bool,
    },
    /// The rules of a Linux machine: of the chain `FORWARD`, where the two ports are interfaces. A translation of addresses (table nat)
    /// is not one of a box that forwards frames as they are: such rules are for a router.
    Iptables(Box<Ruleset>),
}

/// A box that is given by its transfer function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferBox {
    /// What it does with a packet at one of its ports.
    pub function: TransferFunction,
    /// How often a packet passes the function on its way through the box: its inner ports are outputs of one stage and inputs of the
    /// next.
    pub stages: u32,
    /// What comes in by the port N leaves, where it leaves by the same port, by the function's port N + `out_offset`.
    pub out_offset: u32,
    /// Its outer ports: numbers, in ascending order.
    pub ports: Vec<String>,
}

/// A rule of a firewall in the filter language: `allow|deny [from PORT] FILTER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterRule {
    /// Whether packets that match may pass.
    pub allow: bool,
    /// Only packets that come in by this port.
    pub from: Option<String>,
    /// Which packets.
    pub filter: Expr,
    /// The rule as written, for traces.
    pub text: String,
}

/// A Click configuration as a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClickBox {
    /// The box's ports. Packets that come in by the first leave `in_0` of the configuration, what enters `out_0` leaves by it; the
    /// next is `in_1` and `out_1`. A configuration may also name a port as a device: `FromDevice(lan)`.
    pub ports: Vec<String>,
    /// The configuration's text.
    pub config: String,
    /// The file that it came from, if it did not stand in the document.
    pub file: Option<String>,
}

/// A processing platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// Addresses for its modules.
    pub owns: Vec<IpPrefix>,
    /// Its ports, in the order of the links; `0` if the only link names none.
    pub ports: Vec<String>,
}

/// A link between two ports; written `A:port - B:port`, or `A:port -> B:port` for one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// One end.
    pub a: LinkEnd,
    /// The other end.
    pub b: LinkEnd,
    /// It leads from `a` to `b` only. Such links come from transfer functions, where a port may have several.
    pub one_way: bool,
}

/// An end of a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkEnd {
    /// The box's name.
    pub node: String,
    /// The port's name, which stands among the box's ports.
    pub port: String,
}

/// Somebody who may ask for processing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The name.
    pub name: Id,
    /// What they are to the operator.
    pub role: Requester,
    /// Destinations that they registered: their modules may send there (CHANGE paper section 2.2.4, explicit authorization).
    pub registered: Vec<IpPrefix>,
}

impl Topology {
    /// The JSON Schema (draft 2020-12) of the document.
    pub fn json_schema() -> serde_json::Value {
        weir_model::schema::as_read(weir_model::schema::of::<schema::Document>("Weir topology"))
    }

    /// The format's version that this reader reads.
    pub const VERSION: u32 = 1;

    /// Reads a topology from YAML or JSON (JSON if the text begins with `{`). Files that it names are not read: that is an error.
    pub fn parse(text: &str) -> Result<Self, DocErrors> {
        Self::parse_with(text, &mut |_| {
            Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this document may not name files"))
        })
    }

    /// Reads a topology; `read` gives the text of a file that it names.
    pub fn parse_with(
        text: &str,
        read: &mut dyn FnMut(&str) -> std::io::Result<String>,
    ) -> Result<Self, DocErrors> {
        read::document(text, read)
    }

    /// The box with this name.
    pub fn node(&self, name: &str) -> Option<&NetBox> {
        self.boxes.iter().find(|b| b.name == name)
    }

    /// The boxes that own addresses of `prefix`: those whose prefixes lie in it, and the one with the longest prefix around it.
    pub fn owners_of(&self, prefix: IpPrefix) -> Vec<&NetBox> {
        let inside = |p: &IpPrefix| prefix.contains(p);
        let mut found: Vec<&NetBox> = self.boxes.iter().filter(|b| b.owns().iter().any(inside)).collect();
        let around = |b: &NetBox| b.owns().iter().filter(|p| p.contains(&prefix)).map(IpPrefix::len).max();
        let nearest = self.boxes.iter().filter_map(|b| Some((around(b)?, b))).max_by_key(|(len, _)| *len);
        if let Some((_, nearest)) = nearest
            && !found.iter().any(|b| b.name == nearest.name)
        {
            found.push(nearest);
        }
        found
    }
}

impl NetBox {
    /// The names of its ports, in the order that numbers count them.
    pub fn ports(&self) -> Vec<&str> {
        match &self.kind {
            BoxKind::Endpoint(e) => e.ports.iter().map(String::as_str).collect(),
            BoxKind::Router(r) => r.interfaces.iter().map(|i| i.name.as_str()).collect(),
            BoxKind::Switch(s) => s.ports.iter().map(|p| p.name.as_str()).collect(),
            BoxKind::Firewall(f) => f.ports.iter().map(String::as_str).collect(),
            BoxKind::Click(c) => c.ports.iter().map(String::as_str).collect(),
            BoxKind::Platform(p) => p.ports.iter().map(String::as_str).collect(),
            BoxKind::Transfer(t) => t.ports.iter().map(String::as_str).collect(),
        }
    }

    /// The number of the port with this name; a number that is no name counts from 0.
    pub fn port(&self, name: &str) -> Option<usize> {
        let ports = self.ports();
        let number = || name.parse().ok().filter(|n| *n < ports.len() && !name.starts_with('+'));
        ports.iter().position(|p| *p == name).or_else(number)
    }

    /// The prefixes whose addresses belong to the box: of end points and platforms what they own, of routers their own addresses.
    pub fn owns(&self) -> Vec<IpPrefix> {
        match &self.kind {
            BoxKind::Endpoint(e) => e.owns.clone(),
            BoxKind::Platform(p) => p.owns.clone(),
            BoxKind::Router(r) => {
                r.interfaces.iter().flat_map(|i| &i.addresses).map(InterfaceAddr::host).collect()
            }
            BoxKind::Switch(_) | BoxKind::Firewall(_) | BoxKind::Click(_) | BoxKind::Transfer(_) => {
                Vec::new()
            }
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.a, if self.one_way { "->" } else { "-" }, self.b)
    }
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.port)
    }
}
