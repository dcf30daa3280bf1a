//! Which of an element's rules, patterns or routes decided about a packet.

use weir_elements::FromArg;
use weir_filter::{Expr, PacketView};
use weir_switch::rule::FlowRule;
use weir_verify::Hop;

use crate::click::Label;

/// The rule, pattern or route, if the element has a list of them.
pub(super) fn decided(label: &Label, hop: &Hop, output: Option<u32>) -> Vec<String> {
    let net = hop.net.unwrap_or(0);
    let ip = hop.before.get(net..).unwrap_or(&[]);
    let found = match label.class.as_str() {
        "IPFilter" => rule(&label.args, &PacketView::ipv4(&hop.before, net)),
        "IP6Filter" => rule(&label.args, &PacketView::ipv6_followed(&hop.before, net)),
        "Classifier" | "IPClassifier" | "IP6Classifier" => output.and_then(|port| {
            let pattern = label.args.get(port as usize)?;
            Some(format!("pattern {} '{pattern}'", port + 1))
        }),
        "FlowTable" => flow_rule(&label.args, hop),
        "Firewall" => firewall_rule(&label.args, hop),
        "Router" => any_route(&label.args, ip),
        class if class.ends_with("IPLookup") || class.ends_with("IP6Route") || class == "RadixIPLookup" => {
            output.and_then(|port| route(&label.args, ip, port))
        }
        _ => None,
    };
    found.into_iter().collect()
}

/// The first rule that a packet matches: an action and an expression.
fn rule(args: &[String], packet: &PacketView<'_>) -> Option<String> {
    (1..).zip(args).find_map(|(n, arg)| {
        let (_, expr) = arg.trim().split_once(char::is_whitespace)?;
        let expr = if expr.trim() == "-" { Expr::True } else { Expr::parse_click(expr).ok()? };
        expr.matches(packet).then(|| format!("rule {n} '{arg}'"))
    })
}

fn flow_rule(args: &[String], hop: &Hop) -> Option<String> {
    let frame = PacketView::ethernet(&hop.before);
    let rules = (1..).zip(args).filter_map(|(n, arg)| Some((n, arg, FlowRule::from_arg(arg).ok()?)));
    let matching = rules.filter(|(_, _, r)| r.input == hop.place.port && r.filter.matches(&frame));
    // Of equal priorities the first counts.
    let best = matching.max_by_key(|(n, _, r)| (r.priority, std::cmp::Reverse(*n)));
    best.map(|(n, arg, _)| format!("rule {n} '{arg}'"))
}

/// Of a firewall: names of the two ports, then rules, `allow|deny [from PORT] FILTER`.
fn firewall_rule(args: &[String], hop: &Hop) -> Option<String> {
    let (ports, rules) = args.split_at_checked(2)?;
    let here = ports.get(hop.place.port as usize)?;
    let packet = PacketView::ip_at(&hop.before, hop.net.unwrap_or(0));
    let matches = |rule: &str| {
        let (_, rest) = rule.trim().split_once(char::is_whitespace)?;
        let rest = rest.trim_start();
        let filter = match rest.strip_prefix("from ") {
            Some(rest) => {
                let (port, filter) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
                (port == here.as_str()).then_some(filter)?
            }
            None => rest,
        };
        let expr = if filter.trim().is_empty() { Expr::True } else { Expr::parse(filter).ok()? };
        expr.matches(&packet).then_some(())
    };
    (1..).zip(rules).find(|(_, rule)| matches(rule).is_some()).map(|(n, rule)| format!("rule {n} '{rule}'"))
}

/// The longest route for the packet's destination.
fn any_route(args: &[String], ip: &[u8]) -> Option<String> {
    let dst = destination(ip)?;
    let best = args.iter().filter_map(|arg| Some((prefix_len(arg.split_whitespace().next()?, dst)?, arg)));
    best.max_by_key(|(len, _)| *len).map(|(_, arg)| format!("route '{arg}'"))
}

/// The destination, and whether it is an IPv4 address.
fn destination(ip: &[u8]) -> Option<(u128, bool)> {
    Some(match ip.first()? >> 4 {
        4 => (u32::from_be_bytes(*ip.get(16..)?.first_chunk()?).into(), true),
        _ => (u128::from_be_bytes(*ip.get(24..)?.first_chunk()?), false),
    })
}

/// The longest route for the packet's destination that leads to an output.
fn route(args: &[String], ip: &[u8], port: u32) -> Option<String> {
    let dst = destination(ip)?;
    let best = args.iter().filter_map(|arg| {
        let mut words = arg.split_whitespace();
        let prefix = words.next()?;
        let leads = words.next_back()?.parse().ok() == Some(port);
        let len = prefix_len(prefix, dst)?;
        leads.then_some((len, arg))
    });
    best.max_by_key(|(len, _)| *len).map(|(_, arg)| format!("route '{arg}'"))
}

/// Length of a prefix that an address lies in.
fn prefix_len(text: &str, (dst, v4): (u128, bool)) -> Option<u32> {
    let (addr, len) = text.split_once('/').unwrap_or((text, ""));
    let addr = if addr == "0" { "0.0.0.0" } else { addr };
    let (addr, bits) = match addr.parse().ok()? {
        std::net::IpAddr::V4(a) if v4 => (u128::from(u32::from(a)), 32),
        std::net::IpAddr::V6(a) if !v4 => (u128::from(a), 128),
        _ => return None,
    };
    let len = match len.parse::<std::net::Ipv4Addr>() {
        Ok(mask) => u32::from(mask).count_ones(),
        Err(_) if len.is_empty() => bits,
        Err(_) => len.parse().ok().filter(|n| *n <= bits)?,
    };
    let same = |shift: u32| addr.checked_shr(shift).unwrap_or(0) == dst.checked_shr(shift).unwrap_or(0);
    same(bits - len).then_some(len)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_net::build;
    use weir_verify::NodePort;

    use super::*;

    fn says(class: &str, args: &[&str], output: Option<u32>, net: Option<usize>) -> Vec<String> {
        let frame = build::udp4(([10, 0, 0, 1].into(), 5), ([10, 1, 0, 2].into(), 53), b"x");
        let before = if net == Some(0) { frame[14..].to_vec() } else { frame };
        let place = NodePort { node: 0, port: 0 };
        let hop = Hop { packet: 0, place, before, net, lookups: Vec::new(), after: Vec::new() };
        let args: Arc<[String]> = args.iter().map(|a| (*a).to_owned()).collect();
        decided(&Label { class: class.into(), args, hidden: false }, &hop, output)
    }

    #[test]
    fn the_rule_pattern_or_route_that_decided_is_named() {
        let rules = ["allow tcp", "deny udp dst port 53", "allow all"];
        assert_eq!(says("IPFilter", &rules, None, Some(0)), ["rule 2 'deny udp dst port 53'"]);
        assert_eq!(says("IPFilter", &rules, None, Some(14)), ["rule 2 'deny udp dst port 53'"]);
        assert_eq!(says("Classifier", &["12/0806", "-"], Some(1), None), ["pattern 2 '-'"]);
        let routes = ["0.0.0.0/0 10.9.9.9 1", "10.1.0.0/16 1", "10.1.0.2 0", "10.0.0.0/255.0.0.0 2"];
        assert_eq!(says("RadixIPLookup", &routes, Some(1), Some(0)), ["route '10.1.0.0/16 1'"]);
        assert_eq!(says("StaticIPLookup", &routes, Some(0), Some(0)), ["route '10.1.0.2 0'"]);
        let flows = ["1 in 0 => output 1", "5 in 0 udp => output 2", "9 in 1 => drop"];
        assert_eq!(says("FlowTable", &flows, Some(2), None), ["rule 2 '5 in 0 udp => output 2'"]);
        assert_eq!(says("Counter", &[], Some(0), None), Vec::<String>::new());
    }
}
