//! `ip -json route` (iproute2): a list of objects.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::route::{ImportedAction, ImportedHop, ImportedRoute, RoutingTable};
use super::{MAX_LINES, Note};
use crate::doc::{At, Fields, Node, Reader};
use crate::error::{DocErrors, quote};
use crate::value::IpPrefix;

/// Fields of a route that are understood. Those after the first line say nothing about where packets go.
const FIELDS: &[&str] = &[
    "dst", "type", "gateway", "via", "dev", "nexthops", "flags", "table", "prefsrc", "metric", "scope",
    "protocol", "pref", "metrics", "mtu", "advmss", "hoplimit", "expires", "cache", "nhid", "age", "ipid",
    "used", "users", "error",
];
/// Prefixes whose routes hold for one interface each.
const LINK_LOCAL: &str = "fe80::/10";

/// Reads what `ip -json route` prints (also `ip -6 -json route`, and `table local` or `all`). Of several routes for a prefix, the one with
/// the lowest metric is in use. Routes of broadcasts, multicasts and link-local addresses become notes; policy routing is an error.
pub fn ip_json_route(text: &str) -> Result<RoutingTable, DocErrors> {
    let root = Node::from_json(text)?;
    let mut r = Reader::default();
    let at = At::root(&root, "routes");
    let mut table = RoutingTable::default();
    let mut places: HashMap<IpPrefix, (usize, u32)> = HashMap::new();
    for (i, node) in r.items(&at, "routes", MAX_LINES).unwrap_or_default().iter().enumerate() {
        let at = at.index(i, node);
        let Some((route, metric)) = route(&mut r, &at, &mut table) else { continue };
        let Some((place, old)) = places.get(&route.prefix).copied() else {
            places.insert(route.prefix, (table.routes.len(), metric));
            table.routes.push(route);
            continue;
        };
        let line = line(&at);
        let Some(first) = table.routes.get_mut(place) else { continue };
        match (metric.cmp(&old), &mut first.action, route.action) {
            (std::cmp::Ordering::Equal, ImportedAction::Forward(hops), ImportedAction::Forward(more)) => {
                hops.extend(more);
            }
            (std::cmp::Ordering::Equal, ..) => {
                r.error(&at, format!("a second route to {} with the same metric", route.prefix), "keep one");
            }
            (std::cmp::Ordering::Greater, ..) => {
                let reason = format!("its metric is {metric}; the route with metric {old} is in use");
                table.notes.push(Note { line, text: format!("route to {}", route.prefix), reason });
            }
            (std::cmp::Ordering::Less, action, better) => {
                let reason = format!("its metric is {old}; the route with metric {metric} is in use");
                table.notes.push(Note { line, text: format!("another route to {}", route.prefix), reason });
                *action = better;
                places.insert(route.prefix, (place, metric));
            }
        }
    }
    let mut seen = HashSet::new();
    table.addresses.retain(|address| seen.insert(address.clone()));
    r.finish(Some(table))
}

fn line(at: &At<'_>) -> usize {
    at.node.position.map_or(0, |p| p.line)
}

/// A route and its metric; `None` with a note, or with a mistake.
fn route(r: &mut Reader, at: &At<'_>, table: &mut RoutingTable) -> Option<(ImportedRoute, u32)> {
    let f = r.fields(at, FIELDS)?;
    let dst_at = f.need(r, "dst", "a prefix or default")?;
    let dst = r.text(&dst_at, "a prefix or default")?;
    let metric = f.get("metric").map_or(Some(0), |at| r.number(&at, "a metric", 0, u32::MAX))?;
    let kind = f.get("type").map_or(Some("unicast"), |at| r.text(&at, "a type of route"))?;
    let mut note = |reason: &str| {
        table.notes.push(Note { line: line(at), text: format!("route to {dst}"), reason: reason.into() });
    };
    if let Some(at) = f.get("table") {
        let name = r.text(&at, "a table's name")?;
        if !matches!(name, "main" | "local" | "default" | "254" | "255" | "253") {
            let help = "rules that choose a table are not modelled: import the table that is used, by \"ip -json route show table NAME\"";
            r.error(&at, format!("the route is of the table {}", quote(name)), help);
            return None;
        }
    }
    match kind {
        "broadcast" | "multicast" | "anycast" => {
            note("routes of this type are about frames for everybody on the link");
            return None;
        }
        "unicast" | "local" | "blackhole" | "unreachable" | "prohibit" => {}
        other => {
            let help = "known here: unicast, local, blackhole, unreachable, prohibit";
            r.error(
                f.get("type").as_ref().unwrap_or(at),
                format!("routes of the type {} are not modelled", quote(other)),
                help,
            );
            return None;
        }
    }
    let hops = hops(r, &f, at)?;
    let prefix = match dst {
        "default" if hops.iter().any(|h| h.via.is_some_and(|a| a.is_ipv6())) || is_v6(&f) => {
            "::/0".parse().ok()?
        }
        "default" => "0.0.0.0/0".parse().ok()?,
        _ => r.parse::<IpPrefix>(&dst_at, "a prefix")?,
    };
    if LINK_LOCAL.parse::<IpPrefix>().is_ok_and(|l| l.contains(&prefix)) {
        note("link-local routes hold for one interface each");
        return None;
    }
    if let (Some(src), Some(dev)) = (f.get("prefsrc"), f.get("dev"))
        && let (Some(src), Some(dev)) = (address(r, &src), r.text(&dev, "an interface"))
    {
        table.addresses.push((dev.to_string(), src));
    }
    let action = match ImportedAction::by_word(kind) {
        Some(action) => action,
        None if hops.is_empty() => {
            r.error(
                at,
                format!("the route to {dst} has no next hop that is alive"),
                "give it a gateway, dev or nexthops",
            );
            return None;
        }
        None => ImportedAction::Forward(hops),
    };
    Some((ImportedRoute { prefix, action }, metric))
}

/// Routes of IPv6 alone have a preference (RFC 4191).
fn is_v6(f: &Fields<'_>) -> bool {
    f.get("pref").is_some()
}

fn address(r: &mut Reader, at: &At<'_>) -> Option<IpAddr> {
    let text = r.text(at, "an address")?;
    let addr = text.parse().ok();
    if addr.is_none() {
        r.error(at, format!("{} is not an address", quote(text)), "it is one such as 10.0.0.1");
    }
    addr
}

/// The next hops of a route: its own, or those of `nexthops`.
fn hops(r: &mut Reader, f: &Fields<'_>, at: &At<'_>) -> Option<Vec<ImportedHop>> {
    let Some(list) = f.get("nexthops") else { return hop(r, f).map(|h| h.into_iter().collect()) };
    if f.get("gateway").is_some() || f.get("dev").is_some() {
        r.error(at, "next hops stand in the route and in \"nexthops\"", "keep one");
        return None;
    }
    let mut hops = Vec::new();
    for (i, node) in r.items(&list, "next hops", 1024)?.iter().enumerate() {
        let at = list.index(i, node);
        let f = r.fields(&at, &["gateway", "via", "dev", "weight", "flags", "family"])?;
        hops.extend(hop(r, &f)?);
    }
    Some(hops)
}

/// `None` for a mistake, `Some(None)` for no next hop or a dead one.
fn hop(r: &mut Reader, f: &Fields<'_>) -> Option<Option<ImportedHop>> {
    if let Some(flags) = f.get("flags") {
        for (i, node) in r.items(&flags, "flags", 64)?.iter().enumerate() {
            let at = flags.index(i, node);
            match r.text(&at, "a flag")? {
                "dead" => return Some(None),
                "linkdown" | "onlink" | "pervasive" | "offload" | "trap" | "rt_offload" | "rt_trap" => {}
                "rt_offload_failed" | "offload_failed" | "notify" | "rt_notify" => {}
                other => {
                    r.error(
                        &at,
                        format!("the flag {} is not known", quote(other)),
                        "known here: dead, linkdown, onlink, pervasive, offload, trap",
                    );
                    return None;
                }
            }
        }
    }
    let via = match (f.get("gateway"), f.get("via")) {
        (Some(at), _) => Some(address(r, &at)?),
        (None, Some(at)) => {
            let f = r.fields(&at, &["family", "host"])?;
            Some(f.need(r, "host", "the gateway's address").and_then(|at| address(r, &at))?)
        }
        (None, None) => None,
    };
    let dev = match f.get("dev") {
        Some(at) => Some(r.text(&at, "an interface's name")?.to_string()),
        None => None,
    };
    Some((via.is_some() || dev.is_some()).then_some(ImportedHop { via, dev }))
}
