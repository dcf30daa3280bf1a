//! `ip -json route` (iproute2): a list of objects.

use std::net::IpAddr;

use weir_filter::text::quote;
use weir_model::DocErrors;
use weir_model::doc::{At, Fields, Node, Reader};
use weir_model::value::IpPrefix;

use super::MAX_LINES;
use super::linux::{FLAGS, LinuxHop, LinuxRoute, LinuxTable, TYPES, other_table};
use super::route::{ImportedHop, RoutingTable};

/// Fields of a route that are understood. Those after the first line say nothing about where packets go.
const FIELDS: &[&str] = &[
    "dst", "type", "gateway", "via", "dev", "nexthops", "flags", "table", "prefsrc", "metric", "scope",
    "protocol", "pref", "metrics", "mtu", "advmss", "hoplimit", "expires", "cache", "nhid", "age", "ipid",
    "used", "users", "error",
];

/// Reads what `ip -json route` prints (also `ip -6 -json route`, and `table local` or `all`). Of several routes for a prefix, the one with
/// the lowest metric is in use. Routes of broadcasts, multicasts and link-local addresses, and those whose interface is down, become notes;
/// policy routing is an error.
pub fn ip_json_route(text: &str) -> Result<RoutingTable, DocErrors> {
    let root = Node::from_json(text)?;
    let mut r = Reader::default();
    let at = At::root(&root, "routes");
    let mut table = LinuxTable::default();
    for (i, node) in r.items(&at, "routes", MAX_LINES).unwrap_or_default().iter().enumerate() {
        let at = at.index(i, node);
        let Some(route) = route(&mut r, &at) else { continue };
        if let Err((message, help)) = table.add(route) {
            r.error(&at, message, help);
        }
    }
    r.finish(Some(table.finish()))
}

/// A route; `None` with a mistake.
fn route<'a>(r: &mut Reader, at: &At<'a>) -> Option<LinuxRoute<'a>> {
    let f = r.fields(at, FIELDS)?;
    let dst_at = f.need(r, "dst", "a prefix or default")?;
    let dst = r.text(&dst_at, "a prefix or default")?;
    let metric = f.get("metric").map_or(Some(0), |at| r.number(&at, "a metric", 0, u32::MAX))?;
    let kind = f.get("type").map_or(Some("unicast"), |at| r.text(&at, "a type of route"))?;
    if let Some(at) = f.get("table")
        && let Some((message, help)) = other_table(r.text(&at, "a table's name")?)
    {
        r.error(&at, message, help);
        return None;
    }
    let Some(kind) = TYPES.iter().find(|t| **t == kind) else {
        let known = format!("known here: {}", TYPES.join(", "));
        let message = format!("routes of the type {} are not modelled", quote(kind));
        r.error(f.get("type").as_ref().unwrap_or(at), message, known);
        return None;
    };
    let hops = hops(r, &f, at)?;
    let destination = match dst {
        "default" => None,
        _ => Some(r.parse::<IpPrefix>(&dst_at, "a prefix")?),
    };
    let source = match f.get("prefsrc") {
        Some(at) => Some(address(r, &at)?),
        None => None,
    };
    // Routes of IPv6 alone have a preference (RFC 4191).
    let v6 = f.get("pref").is_some();
    let line = at.node.position.map_or(0, |p| p.line);
    Some(LinuxRoute { line, kind, destination, v6, metric, hops, source })
}

fn address(r: &mut Reader, at: &At<'_>) -> Option<IpAddr> {
    let text = r.text(at, "an address")?;
    let addr = text.parse().ok();
    if addr.is_none() {
        r.error(at, format!("{} is not an address", quote(text)), "it is one such as 10.0.0.1");
    }
    addr
}

/// The next hops of a route, its own or those of `nexthops`.
fn hops(r: &mut Reader, f: &Fields<'_>, at: &At<'_>) -> Option<Vec<LinuxHop>> {
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

/// `None` for a mistake, `Some(None)` for no next hop.
fn hop(r: &mut Reader, f: &Fields<'_>) -> Option<Option<LinuxHop>> {
    let mut dead = false;
    if let Some(flags) = f.get("flags") {
        for (i, node) in r.items(&flags, "flags", 64)?.iter().enumerate() {
            let at = flags.index(i, node);
            match r.text(&at, "a flag")? {
                "dead" => dead = true,
                // Linux uses a route whose link is down, unless that makes it dead too (`ignore_routes_with_linkdown`).
                flag if FLAGS.contains(&flag) => {}
                other => {
                    let known = format!("known here: dead, {}", FLAGS.join(", "));
                    r.error(&at, format!("the flag {} is not known", quote(other)), known);
                    return None;
                }
            }
        }
    }
    let (via, other_family) = match (f.get("gateway"), f.get("via")) {
        (Some(at), _) => (Some(address(r, &at)?), false),
        (None, Some(at)) => {
            let f = r.fields(&at, &["family", "host"])?;
            (Some(f.need(r, "host", "the gateway's address").and_then(|at| address(r, &at))?), true)
        }
        (None, None) => (None, false),
    };
    let dev = match f.get("dev") {
        Some(at) => Some(r.text(&at, "an interface's name")?.to_string()),
        None => None,
    };
    Some((via.is_some() || dev.is_some()).then_some(LinuxHop {
        hop: ImportedHop { via, dev },
        dead,
        other_family,
    }))
}
