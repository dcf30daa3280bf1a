//! A route as routing tables print it, and the text form that people write.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use weir_filter::text::quote;
use weir_model::ValueError;
use weir_model::value::IpPrefix;

use super::Note;

/// Most next hops of a route.
const MAX_HOPS: usize = 256;

/// A route of a table that was read, before it is known which interfaces the router has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedRoute {
    /// Destinations.
    pub prefix: IpPrefix,
    /// What happens to packets for them.
    pub action: ImportedAction,
}

/// The action of an imported route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportedAction {
    /// Forwards to one of these; never empty.
    Forward(Vec<ImportedHop>),
    /// Delivers to the router itself.
    Local,
    /// Drops silently.
    Blackhole,
    /// Drops and answers with ICMP "host unreachable".
    Unreachable,
    /// Drops and answers with ICMP "administratively prohibited".
    Prohibit,
}

/// A next hop: a router, an interface, or both; never neither.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportedHop {
    /// The next router.
    pub via: Option<IpAddr>,
    /// The interface.
    pub dev: Option<String>,
}

/// A routing table as a system printed it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutingTable {
    /// The routes that are in use, one a prefix, in the order of the text.
    pub routes: Vec<ImportedRoute>,
    /// Addresses of the system, by interface, as far as the table gives them.
    pub addresses: Vec<(String, IpAddr)>,
    /// Interfaces that routes name which are not in use, for example since they are down; some may be used by others.
    pub unused: Vec<String>,
    /// What was not taken over.
    pub notes: Vec<Note>,
}

impl RoutingTable {
    /// All interfaces that routes name, each once: first those of routes in use, in their order.
    pub fn interfaces(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let hops = self.routes.iter().flat_map(|r| match &r.action {
            ImportedAction::Forward(hops) => hops.as_slice(),
            _ => &[],
        });
        let devs = hops.filter_map(|h| h.dev.as_deref());
        devs.chain(self.addresses.iter().map(|(dev, _)| dev.as_str()))
            .chain(self.unused.iter().map(String::as_str))
            .filter(|dev| seen.insert(*dev))
            .collect()
    }
}

/// Whether the addresses of a prefix hold on one link each (RFC 4291, section 2.5.6): routes to them say nothing of packets that pass.
pub(super) fn is_link_local(prefix: &IpPrefix) -> bool {
    matches!(prefix.addr(), IpAddr::V6(a) if prefix.len() >= 10 && a.is_unicast_link_local())
}

impl ImportedAction {
    /// The actions that a word names.
    pub(crate) fn by_word(word: &str) -> Option<Self> {
        Some(match word {
            "local" => Self::Local,
            "blackhole" => Self::Blackhole,
            "unreachable" => Self::Unreachable,
            "prohibit" => Self::Prohibit,
            _ => return None,
        })
    }
}

/// `PREFIX|default (via ADDRESS [dev INTERFACE] | dev INTERFACE)…`, or `PREFIX blackhole|unreachable|prohibit|local`.
impl FromStr for ImportedRoute {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        const HELP: &str = "write, for example, \"10.0.0.0/8 via 192.0.2.1\", \"default via 192.0.2.1 dev wan\", \
                            \"10.1.0.0/16 dev lan\" or \"10.9.0.0/16 unreachable\"";
        let bad = |message: String| ValueError::new(message, HELP);
        let mut words = text.split_whitespace().peekable();
        let destination = words.next().ok_or_else(|| bad("the route is empty".into()))?;
        let mut hops: Vec<ImportedHop> = Vec::new();
        let mut action = None;
        while let Some(word) = words.next() {
            let value = |v: Option<&str>| {
                v.map(str::to_string).ok_or_else(|| bad(format!("something is missing after {word:?}")))
            };
            match word {
                "via" => {
                    let addr = value(words.next())?;
                    let via = addr.parse().map_err(|_| bad(format!("{} is not an address", quote(&addr))))?;
                    let dev = words.next_if_eq(&"dev").map(|_| value(words.next())).transpose()?;
                    hops.push(ImportedHop { via: Some(via), dev });
                }
                "dev" => hops.push(ImportedHop { via: None, dev: Some(value(words.next())?) }),
                _ => match ImportedAction::by_word(word) {
                    Some(found) if action.is_none() => action = Some(found),
                    _ => return Err(bad(format!("{} does not belong into a route", quote(word)))),
                },
            }
        }
        if hops.len() > MAX_HOPS {
            return Err(ValueError::new(
                format!("{} next hops", hops.len()),
                format!("at most {MAX_HOPS} are read"),
            ));
        }
        let prefix = match destination {
            "default" if hops.iter().any(|h| h.via.is_some_and(|a| a.is_ipv6())) => {
                IpPrefix::new(Ipv6Addr::UNSPECIFIED.into(), 0)?
            }
            "default" => IpPrefix::new(Ipv4Addr::UNSPECIFIED.into(), 0)?,
            prefix => prefix.parse()?,
        };
        let action = match (action, hops.is_empty()) {
            (Some(action), true) => action,
            (None, false) => ImportedAction::Forward(hops),
            (None, true) => return Err(bad(format!("the route to {prefix} leads nowhere"))),
            (Some(_), false) => return Err(bad(format!("the route to {prefix} forwards and does not"))),
        };
        Ok(Self { prefix, action })
    }
}
