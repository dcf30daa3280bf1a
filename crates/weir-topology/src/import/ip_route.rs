//! `ip route` (iproute2) as people read it.

use std::iter::Peekable;
use std::net::IpAddr;

use weir_filter::text::quote;
use weir_model::DocErrors;
use weir_model::value::IpPrefix;

use super::linux::{FLAGS, LinuxHop, LinuxRoute, LinuxTable, TYPES, other_table};
use super::paste::{is_prompt, on_screen};
use super::route::RoutingTable;
use super::{Errors, MAX_LINES};

/// Words with a value that says nothing about where packets go.
const VALUES: &[&str] = &[
    "proto",
    "protocol",
    "scope",
    "nhid",
    "mtu",
    "advmss",
    "hoplimit",
    "rtt",
    "rttvar",
    "window",
    "cwnd",
    "initcwnd",
    "initrwnd",
    "ssthresh",
    "reordering",
    "rto_min",
    "quickack",
    "congctl",
    "features",
    "fastopen_no_cookie",
    "expires",
    "error",
    "realm",
    "realms",
    "weight",
    "age",
    "ipid",
    "users",
    "used",
    "ttl-propagate",
];

/// A mistake: what is wrong, and what would be right.
type Mistake = (String, String);

/// Reads what `ip route` prints (also `ip -6 route`, and `show table local` or `all`). Which routes are in use is known as by
/// [`ip_json_route`](super::ip_json_route).
pub fn ip_route(text: &str) -> Result<RoutingTable, DocErrors> {
    let mut errors = Errors::new("routes");
    let mut table = LinuxTable::default();
    // A route ends where the next begins: next hops may stand below it.
    let mut open: Option<LinuxRoute<'static>> = None;
    for (line, number) in text.lines().zip(1..) {
        if number > MAX_LINES {
            errors.add(number, "one line too many", format!("at most {MAX_LINES} are read"));
            break;
        }
        let line = on_screen(line);
        let text = line.trim();
        // What the kernel has looked up before stands below a route as "cache …".
        if text.is_empty() || text == "cache" || text.starts_with("cache ") {
            continue;
        }
        let result = if let Some(rest) = text.strip_prefix("nexthop ") {
            next_hop(rest, open.as_mut())
        } else if is_prompt(text) {
            continue;
        } else {
            end(&mut table, &mut open, &mut errors);
            route(text, number).map(|route| open = Some(route))
        };
        if let Err((message, help)) = result {
            errors.add(number, message, help);
        }
    }
    end(&mut table, &mut open, &mut errors);
    errors.finish(table.finish())
}

fn end(table: &mut LinuxTable, open: &mut Option<LinuxRoute<'static>>, errors: &mut Errors) {
    let Some(route) = open.take() else { return };
    let line = route.line;
    if let Err((message, help)) = table.add(route) {
        errors.add(line, message, help);
    }
}

/// `[TYPE] PREFIX|default [via ADDRESS] [dev INTERFACE] …`.
fn route(text: &str, line: usize) -> Result<LinuxRoute<'static>, Mistake> {
    let mut words = text.split_whitespace().peekable();
    let mut word = words.next().unwrap_or_default();
    let mut kind = "unicast";
    if let Some(found) = TYPES.iter().find(|t| **t == word) {
        kind = found;
        word = words.next().unwrap_or_default();
    } else if word == "multipath" {
        // IPv6, where next hops stand below.
        word = words.next().unwrap_or_default();
    }
    let destination: Option<IpPrefix> = match word {
        "default" => None,
        word => Some(word.parse().map_err(|_| {
            let help = "lines are as \"ip route\" prints them, such as \"10.0.0.0/8 via 192.0.2.1 dev eth0\"";
            (format!("{} is not a route", quote(text)), help.into())
        })?),
    };
    let mut route =
        LinuxRoute { line, kind, destination, v6: false, metric: 0, hops: Vec::new(), source: None };
    let mut hop = LinuxHop::default();
    while let Some(word) = words.next() {
        if hop_word(&mut hop, word, &mut words)? {
            continue;
        }
        match word {
            "src" => route.source = Some(address(value(word, &mut words)?)?),
            "metric" => {
                let text = value(word, &mut words)?;
                let bad = |_| (format!("{} is not a metric", quote(text)), "it is a number".into());
                route.metric = text.parse().map_err(bad)?;
            }
            "table" => {
                if let Some(mistake) = other_table(value(word, &mut words)?) {
                    return Err(mistake);
                }
            }
            "pref" => {
                // Routes of IPv6 alone have a preference (RFC 4191).
                value(word, &mut words)?;
                route.v6 = true;
            }
            _ => {
                return Err((
                    format!("{} in a route is not understood", quote(word)),
                    "tunnels, routes by source or type of service, and labels are not modelled".into(),
                ));
            }
        }
    }
    route.hops.extend(some(hop));
    Ok(route)
}

/// What stands behind `nexthop`, below a route or within it.
fn next_hop(text: &str, open: Option<&mut LinuxRoute<'static>>) -> Result<(), Mistake> {
    let Some(route) = open else {
        return Err((
            format!("{} belongs to no route", quote(text)),
            "a line with its destination stands before it".into(),
        ));
    };
    for text in text.split(" nexthop ") {
        let mut words = text.split_whitespace().peekable();
        let mut hop = LinuxHop::default();
        while let Some(word) = words.next() {
            if !hop_word(&mut hop, word, &mut words)? {
                let message = format!("{} in a next hop is not understood", quote(word));
                return Err((
                    message,
                    "write, for example, \"nexthop via 192.0.2.1 dev eth0 weight 1\"".into(),
                ));
            }
        }
        let hop = some(hop).ok_or_else(|| {
            (
                "a next hop leads nowhere".to_string(),
                "give it \"via ADDRESS\" or \"dev INTERFACE\"".to_string(),
            )
        })?;
        route.hops.push(hop);
    }
    Ok(())
}

/// Reads a word of a next hop with its value; `false` if it is not one.
fn hop_word<'a>(
    hop: &mut LinuxHop,
    word: &str,
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
) -> Result<bool, Mistake> {
    match word {
        "via" => {
            // The family stands there if it is not the route's.
            hop.other_family = words.next_if(|w| matches!(*w, "inet" | "inet6")).is_some();
            hop.hop.via = Some(address(value(word, words)?)?);
        }
        "dev" => hop.hop.dev = Some(value(word, words)?.to_string()),
        "dead" => hop.dead = true,
        flag if FLAGS.contains(&flag) => {}
        option if VALUES.contains(&option) => {
            if value(word, words)? == "lock" {
                value(word, words)?;
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A next hop, if it leads anywhere.
fn some(hop: LinuxHop) -> Option<LinuxHop> {
    (hop.hop.via.is_some() || hop.hop.dev.is_some()).then_some(hop)
}

fn value<'a>(word: &str, words: &mut Peekable<impl Iterator<Item = &'a str>>) -> Result<&'a str, Mistake> {
    words.next().ok_or_else(|| {
        (
            format!("something is missing after {}", quote(word)),
            "lines are as \"ip route\" prints them".into(),
        )
    })
}

fn address(text: &str) -> Result<IpAddr, Mistake> {
    text.parse()
        .map_err(|_| (format!("{} is not an address", quote(text)), "it is one such as 10.0.0.1".into()))
}
