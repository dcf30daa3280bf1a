//! Routes of Linux's tables: which of several is in use, and which are no routes of packets that pass.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use weir_model::value::IpPrefix;

use super::Note;
use super::route::{ImportedAction, ImportedHop, ImportedRoute, RoutingTable, is_link_local};

/// Types of routes that are read.
pub(super) const TYPES: &[&str] = &[
    "unicast",
    "local",
    "broadcast",
    "multicast",
    "anycast",
    "blackhole",
    "unreachable",
    "prohibit",
    "throw",
];

/// Flags of next hops that change nothing about where packets go.
pub(super) const FLAGS: &[&str] = &[
    "linkdown",
    "onlink",
    "pervasive",
    "offload",
    "trap",
    "notify",
    "unresolved",
    "offload_failed",
    "rt_offload",
    "rt_trap",
    "rt_notify",
    "rt_offload_failed",
];

/// A route as `ip route` gives it.
#[derive(Debug)]
pub(super) struct LinuxRoute<'a> {
    pub line: usize,
    /// One of [`TYPES`].
    pub kind: &'a str,
    /// `None` for the default route, which does not say of which family it is.
    pub destination: Option<IpPrefix>,
    /// It is of IPv6 for what it says beside its next hops.
    pub v6: bool,
    /// Of several routes to a prefix, the one with the lowest metric is in use.
    pub metric: u32,
    /// All next hops.
    pub hops: Vec<LinuxHop>,
    /// The source address that the system itself would use.
    pub source: Option<IpAddr>,
}

/// A next hop.
#[derive(Debug, Default)]
pub(super) struct LinuxHop {
    pub hop: ImportedHop,
    /// It is not in use.
    pub dead: bool,
    /// Its address is of another family than the route (RFC 8950).
    pub other_family: bool,
}

impl LinuxRoute<'_> {
    fn prefix(&self) -> IpPrefix {
        let is_v6 = |h: &LinuxHop| !h.other_family && h.hop.via.is_some_and(|a| a.is_ipv6());
        let v6 = self.v6 || self.hops.iter().any(is_v6);
        let any: IpAddr = if v6 { [0_u16; 8].into() } else { [0_u8; 4].into() };
        self.destination.or(IpPrefix::new(any, 0).ok()).unwrap_or(IpPrefix::host(any))
    }
}

/// Puts routes together.
#[derive(Default)]
pub(super) struct LinuxTable {
    table: RoutingTable,
    /// The place and the metric of the route to each prefix.
    places: HashMap<IpPrefix, (usize, u32)>,
}

impl LinuxTable {
    /// Adds a route, or a note why it is none.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub(super) fn add(&mut self, route: LinuxRoute<'_>) -> Result<(), (String, String)> {
        let prefix = route.prefix();
        let LinuxRoute { line, kind, metric, hops, source, .. } = route;
        let note = |reason: String| Note { line, text: format!("route to {prefix}"), reason };
        if let "broadcast" | "multicast" | "anycast" = kind {
            let reason = "routes of this type are about frames for everybody on the link";
            self.table.notes.push(note(reason.into()));
            return Ok(());
        }
        if is_link_local(&prefix) {
            self.table.notes.push(note("link-local routes hold for one interface each".into()));
            return Ok(());
        }
        let devs = hops.iter().filter_map(|h| h.hop.dev.as_ref());
        self.table.unused.extend(devs.cloned());
        if let (Some(source), [LinuxHop { hop: ImportedHop { dev: Some(dev), .. }, .. }]) =
            (source, hops.as_slice())
        {
            self.table.addresses.push((dev.clone(), source));
        }
        let action = match ImportedAction::by_word(kind) {
            Some(action) => action,
            None if kind == "throw" => {
                let reason = "such a route leads to the next table, and none is read: there is no route to these addresses";
                self.table.notes.push(note(reason.into()));
                ImportedAction::Unreachable
            }
            None if hops.is_empty() => {
                let message = format!("the route to {prefix} has no next hop");
                return Err((message, "give it a gateway, dev or nexthops".into()));
            }
            None if hops.iter().all(|h| h.dead) => {
                self.table.notes.push(note("its interface is down, so it is not in use".into()));
                return Ok(());
            }
            None => {
                let alive = hops.into_iter().filter(|h| !h.dead);
                ImportedAction::Forward(alive.map(|h| h.hop).collect())
            }
        };
        let Some((place, old)) = self.places.get(&prefix).copied() else {
            self.places.insert(prefix, (self.table.routes.len(), metric));
            self.table.routes.push(ImportedRoute { prefix, action });
            return Ok(());
        };
        let Some(first) = self.table.routes.get_mut(place) else { return Ok(()) };
        match (metric.cmp(&old), &mut first.action, action) {
            (Ordering::Equal, ImportedAction::Forward(hops), ImportedAction::Forward(more)) => {
                hops.extend(more);
            }
            (Ordering::Equal, ..) => {
                return Err((format!("a second route to {prefix} with the same metric"), "keep one".into()));
            }
            (Ordering::Greater, ..) => {
                let reason = format!("its metric is {metric}; the route with metric {old} is in use");
                self.table.notes.push(note(reason));
            }
            (Ordering::Less, action, better) => {
                let reason = format!("its metric is {old}; the route with metric {metric} is in use");
                self.table.notes.push(Note { line, text: format!("another route to {prefix}"), reason });
                *action = better;
                self.places.insert(prefix, (place, metric));
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> RoutingTable {
        let mut seen = HashSet::new();
        self.table.addresses.retain(|address| seen.insert(address.clone()));
        self.table
    }
}

/// Why the routes of a table are not read, unless they are of those that packets are asked of without a rule of their own.
pub(super) fn other_table(name: &str) -> Option<(String, String)> {
    if let "main" | "local" | "default" | "254" | "255" | "253" = name {
        return None;
    }
    let help = "rules that choose a table are not modelled: import the table that is used, by \"ip route show table NAME\"";
    Some((format!("the route is of the table {}", weir_filter::text::quote(name)), help.into()))
}
