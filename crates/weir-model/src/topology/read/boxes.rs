//! Boxes of every kind.

use std::collections::HashMap;

use super::links::{Used, ports_by_use};
use super::{Files, one_or_list, router, switch};
use crate::doc::{At, Fields, Kind, Reader, did_you_mean};
use crate::error::quote;
use crate::filter::Expr;
use crate::requirement::Place;
use crate::topology::{
    BoxKind, ClickBox, Endpoint, EndpointRole, FilterRule, Firewall, FirewallRules, MAX_BOXES, MAX_ENTRIES,
    MAX_PORTS, NetBox, Owner, Platform,
};
use crate::value::{Id, IpPrefix};

const KINDS: &[&str] = &["host", "client", "internet", "router", "switch", "firewall", "click", "platform"];
/// Fields of every box.
const COMMON: &[&str] = &["kind", "legacy", "owner"];

/// Reads the map of boxes.
pub(super) fn read(
    r: &mut Reader,
    at: &At<'_>,
    used: &Used,
    owners: &[Owner],
    files: Files<'_>,
) -> Vec<NetBox> {
    let Some(map) = r.map(at, "a map from the boxes' names to what they are") else { return Vec::new() };
    if map.entries.len() > MAX_BOXES {
        r.error(at, format!("{} boxes", map.entries.len()), format!("at most {MAX_BOXES} are read"));
        return Vec::new();
    }
    let mut boxes = Vec::with_capacity(map.entries.len());
    let mut owned: HashMap<IpPrefix, &str> = HashMap::new();
    for (name, node) in map.entries {
        let at = at.key(name, node);
        if !matches!(name.parse(), Ok(Place::Node(_))) {
            r.error(
                &at,
                format!("{} is not a box's name", quote(name)),
                "write a word such as gw or platform2",
            );
            continue;
        }
        let Some(found) = net_box(r, &at, name, used, owners, files) else { continue };
        if let BoxKind::Endpoint(_) | BoxKind::Platform(_) = found.kind {
            for prefix in found.owns() {
                if let Some(first) = owned.insert(prefix, name) {
                    let help = format!("the box {first} owns it already; give it to one of them");
                    r.error(&at, format!("a second owner of {prefix}"), help);
                }
            }
        }
        boxes.push(found);
    }
    boxes
}

fn net_box(
    r: &mut Reader,
    at: &At<'_>,
    name: &str,
    used: &Used,
    owners: &[Owner],
    files: Files<'_>,
) -> Option<NetBox> {
    let f = r.map(at, "a map with \"kind\" and what belongs to the kind")?;
    let kind_at = f.need(r, "kind", &KINDS.join(", "))?;
    let kind = r.text(&kind_at, &KINDS.join(", "))?;
    let used = used.get(name);
    let before = r.count();
    let (box_kind, legacy) = match kind {
        "host" | "client" | "internet" => {
            known(r, &f, &["owns", "sources"]);
            (BoxKind::Endpoint(endpoint(r, at, &f, kind, used)), false)
        }
        "router" => {
            known(r, &f, &["interfaces", "routes"]);
            (BoxKind::Router(router::router(r, at, &f)?), true)
        }
        "switch" => {
            known(r, &f, &["ports", "macs", "unknown"]);
            (BoxKind::Switch(switch::switch(r, &f, used)), true)
        }
        "firewall" => {
            known(r, &f, &["ports", "rules", "stateful"]);
            (BoxKind::Firewall(firewall(r, at, &f)?), true)
        }
        "click" => {
            known(r, &f, &["ports", "config", "file"]);
            (BoxKind::Click(click(r, at, &f, used, files)?), false)
        }
        "platform" => {
            known(r, &f, &["owns"]);
            let owns = f.need(r, "owns", "addresses for its modules").map(|at| prefixes(r, &at));
            (BoxKind::Platform(Platform { owns: owns.unwrap_or_default(), ports: ports_by_use(used) }), false)
        }
        _ => {
            r.error(&kind_at, format!("{} is not a kind of box", quote(kind)), did_you_mean(kind, KINDS));
            return None;
        }
    };
    let legacy = f.get("legacy").map_or(Some(legacy), |at| r.bool(&at));
    let owner = f.get("owner").and_then(|at| owner(r, &at, owners));
    if r.count() > before {
        return None;
    }
    Some(NetBox { name: name.into(), kind: box_kind, legacy: legacy?, owner, position: at.node.position })
}

/// Reports fields that a box of this kind does not have.
fn known(r: &mut Reader, f: &Fields<'_>, own: &[&str]) {
    let all: Vec<&str> = COMMON.iter().chain(own).copied().collect();
    r.known(f, &all);
}

fn owner(r: &mut Reader, at: &At<'_>, owners: &[Owner]) -> Option<Id> {
    let id: Id = r.parse(at, "an owner's name")?;
    if !owners.iter().any(|o| o.name == id) {
        let names: Vec<&str> = owners.iter().map(|o| o.name.as_str()).collect();
        let help =
            if names.is_empty() { "add it to \"owners\"".into() } else { did_you_mean(id.as_str(), &names) };
        r.error(at, format!("no owner is {}", quote(id.as_str())), help);
    }
    Some(id)
}

fn prefixes(r: &mut Reader, at: &At<'_>) -> Vec<IpPrefix> {
    one_or_list(r, at, "prefixes", |r, at| {
        r.parse(at, "an address such as 10.0.0.1 or a prefix such as 10.0.0.0/8")
    })
}

fn endpoint(
    r: &mut Reader,
    at: &At<'_>,
    f: &Fields<'_>,
    kind: &str,
    used: Option<&Vec<Option<String>>>,
) -> Endpoint {
    let role = match kind {
        "internet" => EndpointRole::Internet,
        "client" => EndpointRole::Client,
        _ => EndpointRole::Host,
    };
    let owns = match f.get("owns") {
        Some(at) => prefixes(r, &at),
        None if role == EndpointRole::Internet => {
            ["0.0.0.0/0", "::/0"].iter().filter_map(|p| p.parse().ok()).collect()
        }
        None => {
            r.error(
                at,
                format!("the {kind} owns no address"),
                "add \"owns\": an address, a prefix or a list of them",
            );
            Vec::new()
        }
    };
    let own_sources_only = match f.get("sources") {
        None => false,
        Some(at) => match r.text(&at, "own or any") {
            Some("own") => true,
            Some("any") | None => false,
            Some(other) => {
                r.error(&at, format!("{} is not known", quote(other)), "write own or any");
                false
            }
        },
    };
    Endpoint { role, owns, own_sources_only, ports: ports_by_use(used) }
}

/// Names of ports: a list, each once.
pub(super) fn port_names(r: &mut Reader, at: &At<'_>) -> Vec<String> {
    let mut ports: Vec<String> = Vec::new();
    for (i, node) in r.items(at, "ports", MAX_PORTS).unwrap_or_default().iter().enumerate() {
        let at = at.index(i, node);
        if let Some(name) = r.text(&at, "a port's name").and_then(|name| port_name(r, &at, name)) {
            if ports.contains(&name) {
                r.error(&at, format!("a second port with the name {}", quote(&name)), "choose another");
            }
            ports.push(name);
        }
    }
    ports
}

/// A name that links can give.
pub(super) fn port_name(r: &mut Reader, at: &At<'_>, name: &str) -> Option<String> {
    if matches!(format!("x:{name}").parse(), Ok(Place::Port { .. })) {
        return Some(name.to_string());
    }
    r.error(at, format!("{} is not a port's name", quote(name)), "write a word such as lan or eth0");
    None
}

fn firewall(r: &mut Reader, at: &At<'_>, f: &Fields<'_>) -> Option<Firewall> {
    let ports_at = f.need(r, "ports", "its two ports, such as [lan, wan]")?;
    let Ok(ports) = <[String; 2]>::try_from(port_names(r, &ports_at)) else {
        r.error(&ports_at, "a firewall has two ports", "write, for example, [lan, wan]");
        return None;
    };
    let stateful = f.get("stateful").map_or(Some(false), |at| r.bool(&at));
    let Some(rules_at) = f.get("rules") else {
        r.error(
            at,
            "the firewall has no rules",
            "add \"rules\": a list such as [allow from lan all, deny all]",
        );
        return None;
    };
    let mut rules = Vec::new();
    for (i, node) in r.items(&rules_at, "rules", MAX_ENTRIES).unwrap_or_default().iter().enumerate() {
        rules.extend(rule(r, &rules_at.index(i, node), &ports));
    }
    Some(Firewall { ports, rules: FirewallRules::Filters { rules, stateful: stateful? } })
}

/// `allow|deny [from PORT] FILTER`.
fn rule(r: &mut Reader, at: &At<'_>, ports: &[String; 2]) -> Option<FilterRule> {
    let text = r.text(at, "a rule such as \"allow tcp dst port 80\"")?;
    let next = |rest: &'_ str| -> (String, String) {
        let rest = rest.trim_start();
        let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        (word.to_string(), rest.trim_start().to_string())
    };
    let (verdict, mut rest) = next(text);
    let allow = match verdict.as_str() {
        "allow" => true,
        "deny" | "drop" => false,
        other => {
            let help = "a rule is \"allow FILTER\" or \"deny FILTER\", such as \"allow tcp dst port 80\"";
            r.error(at, format!("{} does not begin a rule", quote(other)), help);
            return None;
        }
    };
    let mut from = None;
    if let (word, after) = next(&rest)
        && word == "from"
    {
        let (port, after) = next(&after);
        if !ports.contains(&port) {
            let known: Vec<&str> = ports.iter().map(String::as_str).collect();
            r.error(at, format!("the firewall has no port {}", quote(&port)), did_you_mean(&port, &known));
            return None;
        }
        (from, rest) = (Some(port), after);
    }
    match Expr::parse(&rest) {
        Ok(filter) => Some(FilterRule { allow, from, filter, text: text.to_string() }),
        Err(e) => {
            let before = text.chars().count() - rest.chars().count();
            r.error(at, format!("column {}: {}", before + e.column, e.message), e.help);
            None
        }
    }
}

fn click(
    r: &mut Reader,
    at: &At<'_>,
    f: &Fields<'_>,
    used: Option<&Vec<Option<String>>>,
    files: Files<'_>,
) -> Option<ClickBox> {
    let ports = match f.get("ports") {
        Some(at) => port_names(r, &at),
        None => ports_by_use(used),
    };
    let (config, file) = match (f.get("config"), f.get("file")) {
        (Some(at), None) => (r.text(&at, "a Click configuration")?.to_string(), None),
        (None, Some(at)) => {
            let name = r.text(&at, "a file's name")?;
            (file(r, &at, name, files)?, Some(name.to_string()))
        }
        (Some(_), Some(at)) => {
            r.error(&at, "the configuration stands here and in \"config\"", "keep one");
            return None;
        }
        (None, None) => {
            r.error(
                at,
                "there is no Click configuration",
                "add \"config\" with its text, or \"file\" with its file",
            );
            return None;
        }
    };
    Some(ClickBox { ports, config, file })
}

/// The text of a file that the document names.
pub(super) fn file(r: &mut Reader, at: &At<'_>, name: &str, files: Files<'_>) -> Option<String> {
    match files(name) {
        Ok(text) => Some(text),
        Err(e) => {
            r.error(
                at,
                format!("cannot read the file {}: {e}", quote(name)),
                "name a file beside the topology's",
            );
            None
        }
    }
}

impl NetBox {
    /// Whether it has as many ports as its links need.
    pub(super) fn has_ports_by_use(&self) -> bool {
        matches!(self.kind, BoxKind::Endpoint(_) | BoxKind::Platform(_))
    }
}

/// Whether a value is a map.
pub(super) fn is_map(at: &At<'_>) -> bool {
    matches!(at.node.kind, Kind::Map(_))
}
