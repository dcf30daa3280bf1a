//! Reading flow rules.

use std::collections::HashSet;

use weir_filter::{Expr, TAG_TYPES, protocol_number};

use super::number::{byte, ip, vlan, word};
use super::reference::{Index, port_ref};
use super::{list, optional};
use crate::doc::{At, Kind, Node, Reader, did_you_mean};
use crate::error::quote;
use crate::graph::{Actions, MAX_PORTS, Match, Rule, VlanMatch};

const MATCH_FIELDS: &[&str] = &[
    "port_in",
    "ether_src",
    "ether_dst",
    "ethertype",
    "vlan_id",
    "ip_src",
    "ip_dst",
    "ip_proto",
    "ip_tos",
    "ip_dscp",
    "tp_src",
    "tp_dst",
    "tcp_flags",
    "icmp_type",
    "icmp_code",
    "filter",
];
const ACTION_FIELDS: &[&str] = &[
    "pop_vlan",
    "push_vlan",
    "dec_ttl",
    "set_vlan",
    "set_ether_src",
    "set_ether_dst",
    "set_ip_src",
    "set_ip_dst",
    "set_ip_tos",
    "set_tp_src",
    "set_tp_dst",
    "output_to_port",
    "drop",
];
pub(super) fn rule(r: &mut Reader, at: &At<'_>, index: &Index<'_>) -> Option<Rule> {
    let f = r.fields(at, &["id", "priority", "match", "actions"])?;
    let id = f.need(r, "id", "the rule's identifier").and_then(|at| r.parse(&at, "an identifier"));
    let priority = f.need(r, "priority", "0 to 65535, higher wins").and_then(|at| word(r, &at, "a priority"));
    let matches = f.need(r, "match", "at least {\"port_in\": …}").and_then(|at| match_(r, &at, index));
    let actions = f
        .need(r, "actions", "at least {\"output_to_port\": …} or {\"drop\": true}")
        .and_then(|at| actions(r, &at, index));
    Some(Rule { id: id?, priority: priority?, matches: matches?, actions: actions? })
}

fn match_(r: &mut Reader, at: &At<'_>, index: &Index<'_>) -> Option<Match> {
    let before = r.count();
    let f = r.fields(at, MATCH_FIELDS)?;
    let port_in = f.need(r, "port_in", "where the packet comes from").and_then(|at| port_ref(r, &at, index));
    let ether_src = optional(f.get("ether_src"), |at| r.parse(at, "an Ethernet address"));
    let ether_dst = optional(f.get("ether_dst"), |at| r.parse(at, "an Ethernet address"));
    let ethertype = optional(f.get("ethertype"), |at| r.parse(at, "an EtherType"));
    let vlan_id = optional(f.get("vlan_id"), |at| match at.node.text() {
        Some("none") => Some(VlanMatch::None),
        _ => vlan(r, at).map(VlanMatch::Id),
    });
    let ip_src = optional(f.get("ip_src"), |at| r.parse(at, "an address or prefix"));
    let ip_dst = optional(f.get("ip_dst"), |at| r.parse(at, "an address or prefix"));
    let ip_proto = optional(f.get("ip_proto"), |at| match at.node.text().and_then(protocol_number) {
        Some(n) => Some(n),
        None => byte(r, at, "a protocol (a name such as tcp or a number)", 255),
    });
    let ip_tos = optional(f.get("ip_tos"), |at| byte(r, at, "a type of service", 255));
    let ip_dscp = optional(f.get("ip_dscp"), |at| byte(r, at, "a DSCP", 63));
    let tp_src = optional(f.get("tp_src"), |at| r.parse(at, "a port or range of ports"));
    let tp_dst = optional(f.get("tp_dst"), |at| r.parse(at, "a port or range of ports"));
    let tcp_flags = optional(f.get("tcp_flags"), |at| r.parse(at, "TCP flags such as +syn-ack"));
    let icmp_type = optional(f.get("icmp_type"), |at| byte(r, at, "an ICMP type", 255));
    let icmp_code = optional(f.get("icmp_code"), |at| byte(r, at, "an ICMP code", 255));
    let filter = optional(f.get("filter"), |at| {
        let text = r.text(at, "a filter such as \"tcp port 80\"")?;
        match Expr::parse(text) {
            Ok(expr) => Some(expr),
            Err(e) => {
                r.error(at, format!("in the filter, column {}: {}", e.column, e.message), e.help);
                None
            }
        }
    });
    let m = Match {
        port_in: port_in?,
        ether_src: ether_src?,
        ether_dst: ether_dst?,
        ethertype: ethertype?,
        vlan_id: vlan_id?,
        ip_src: ip_src?,
        ip_dst: ip_dst?,
        ip_proto: ip_proto?,
        ip_tos: ip_tos?,
        ip_dscp: ip_dscp?,
        tp_src: tp_src?,
        tp_dst: tp_dst?,
        tcp_flags: tcp_flags?,
        icmp_type: icmp_type?,
        icmp_code: icmp_code?,
        filter: filter?,
    };
    if r.count() == before
        && let Some((message, help)) = contradiction(&m)
    {
        r.error(at, message, help);
    }
    Some(m)
}

/// Fields that no packet fits, alone or together.
fn contradiction(m: &Match) -> Option<(&'static str, &'static str)> {
    let ports = m.tp_src.is_some() || m.tp_dst.is_some();
    let icmp = m.icmp_type.is_some() || m.icmp_code.is_some();
    let v4 = |p: Option<crate::value::IpPrefix>| p.map(|p| p.addr().is_ipv4());
    if m.ethertype.is_some_and(|t| TAG_TYPES.contains(&t.get())) {
        return Some((
            "ethertype is the type behind VLAN tags, so no frame fits one that is a tag's",
            "match tags with vlan_id, or with filter: vlan",
        ));
    }
    let families = [
        v4(m.ip_src),
        v4(m.ip_dst),
        m.ethertype.and_then(|t| {
            [(0x0800, true), (0x86dd, false)].into_iter().find(|(n, _)| *n == t.get()).map(|(_, v4)| v4)
        }),
        (m.ip_tos.is_some() || m.ip_dscp.is_some()).then_some(true),
    ];
    let has = |family| families.contains(&Some(family));
    if has(true) && has(false) {
        return Some(("some fields are for IPv4, others for IPv6", "write one rule for each"));
    }
    if ports && m.ip_proto.is_some_and(|p| !matches!(p, 6 | 17 | 33 | 132 | 136)) {
        return Some((
            "tp_src and tp_dst go with a protocol that has ports",
            "set ip_proto to tcp, udp, sctp, dccp or udplite",
        ));
    }
    if m.tcp_flags.is_some() && m.ip_proto.is_some_and(|p| p != 6) {
        return Some(("tcp_flags goes with TCP only", "set ip_proto to tcp, or leave it out"));
    }
    if icmp && m.ip_proto.is_some_and(|p| !matches!(p, 1 | 58)) {
        return Some(("icmp_type and icmp_code go with ICMP only", "set ip_proto to icmp or icmp6"));
    }
    if icmp && (ports || m.tcp_flags.is_some()) {
        return Some(("ICMP has neither ports nor TCP flags", "write one rule for each protocol"));
    }
    None
}

/// A map, or a list of maps with one action each, and of words for actions without an argument.
fn actions(r: &mut Reader, at: &At<'_>, index: &Index<'_>) -> Option<Actions> {
    let mut actions = Actions::default();
    let before = r.count();
    let mut seen = HashSet::new();
    if let Kind::List(items) = &at.node.kind {
        let mut last_place = 0;
        for (i, node) in items.iter().enumerate() {
            let at = at.index(i, node);
            let truth = Node { position: node.position, kind: Kind::Bool(true) };
            let (name, node) = match &node.kind {
                Kind::Map(entries) if entries.len() == 1 => {
                    entries.iter().map(|(k, n)| (k.as_str(), n)).next()?
                }
                Kind::Plain(w) | Kind::Text(w) if matches!(w.as_str(), "pop_vlan" | "dec_ttl" | "drop") => {
                    (w.as_str(), &truth)
                }
                _ => {
                    let help = "an item is a map with one action, or one of pop_vlan, dec_ttl, drop";
                    r.error(&at, format!("found {}", at.node.describe()), help);
                    continue;
                }
            };
            let place = ACTION_FIELDS.iter().position(|f| *f == name).unwrap_or(last_place);
            if !seen.insert(name) && name != "output_to_port" {
                r.error(&at, format!("the action {name:?} is given twice"), "keep one");
            } else if place < last_place {
                let help = format!(
                    "changes are made in this order, before any output: {}",
                    ACTION_FIELDS.join(", ")
                );
                r.error(&at, format!("the action {name:?} stands too late"), help);
            }
            last_place = last_place.max(place);
            action(r, &at.key(name, node), name, &mut actions, index);
        }
    } else {
        let f = r.fields(at, ACTION_FIELDS)?;
        for (name, node) in f.entries {
            if ACTION_FIELDS.contains(&name.as_str()) && !node.is_null() {
                seen.insert(name.as_str());
                action(r, &at.key(name, node), name, &mut actions, index);
            }
        }
    }
    if r.count() > before {
        return None;
    }
    let alone = Actions { drop: true, ..Actions::default() };
    if actions.drop && actions != alone {
        r.error(at, "\"drop\" stands beside other actions", "keep it alone, or remove it");
    } else if !actions.drop && !seen.contains("output_to_port") {
        r.error(at, "the packet goes nowhere", "add \"output_to_port\", or say \"drop\": true");
    }
    Some(actions)
}

fn action(r: &mut Reader, at: &At<'_>, name: &str, a: &mut Actions, index: &Index<'_>) {
    match name {
        "pop_vlan" => a.pop_vlan = r.bool(at).unwrap_or_default(),
        "push_vlan" => a.push_vlan = vlan(r, at),
        "dec_ttl" => a.dec_ttl = r.bool(at).unwrap_or_default(),
        "set_vlan" => a.set_vlan = vlan(r, at),
        "set_ether_src" => a.set_ether_src = r.parse(at, "an Ethernet address"),
        "set_ether_dst" => a.set_ether_dst = r.parse(at, "an Ethernet address"),
        "set_ip_src" => a.set_ip_src = ip(r, at),
        "set_ip_dst" => a.set_ip_dst = ip(r, at),
        "set_ip_tos" => a.set_ip_tos = byte(r, at, "a type of service", 255),
        "set_tp_src" => a.set_tp_src = word(r, at, "a port"),
        "set_tp_dst" => a.set_tp_dst = word(r, at, "a port"),
        "drop" => a.drop = r.bool(at).unwrap_or_default(),
        "output_to_port" => {
            let before = a.output_to_port.len();
            if let Kind::List(items) = &at.node.kind {
                if items.is_empty() {
                    r.error(
                        at,
                        "the list is empty",
                        "name a port, or remove \"output_to_port\" and say \"drop\": true",
                    );
                }
                let ports = list(r, Some(*at), "ports", MAX_PORTS, |r, at| port_ref(r, at, index));
                a.output_to_port.extend(ports.into_iter().map(|(_, p)| p));
            } else {
                a.output_to_port.extend(port_ref(r, at, index));
            }
            let (old, new) = a.output_to_port.split_at(before);
            let twice =
                new.iter().enumerate().find(|(i, p)| old.contains(p) || new.iter().take(*i).any(|q| q == *p));
            if let Some((_, p)) = twice {
                r.error(at, format!("{p} is given twice"), "a packet leaves by a port once; keep one");
            }
        }
        _ => {
            r.error(at, format!("unknown action {}", quote(name)), did_you_mean(name, ACTION_FIELDS));
        }
    }
}
