//! Boxes of every kind.

use std::collections::{HashMap, HashSet};

use weir_filter::text::quote;
use weir_model::DocErrors;
use weir_model::doc::{At, Fields, Kind, Reader, did_you_mean};
use weir_model::requirement::Place;
use weir_model::value::{Id, IpPrefix};

use super::links::ports_by_use;
use super::{Context, firewall, one_or_list, router, switch, transfer};
use crate::{BoxKind, ClickBox, Endpoint, EndpointRole, MAX_BOXES, MAX_PORTS, NetBox, Owner, Platform};

const KINDS: &[&str] =
    &["host", "client", "internet", "router", "switch", "firewall", "click", "platform", "transfer"];

/// The fields of a box of this kind.
fn fields(kind: &str) -> Vec<&'static str> {
    let own: &[&str] = match kind {
        "host" | "client" | "internet" => &["owns", "sources"],
        "router" => &["interfaces", "routes", "firewall"],
        "switch" => &["ports", "macs", "unknown"],
        "firewall" => &["ports", "rules", "stateful"],
        "click" => &["ports", "config", "file"],
        "platform" => &["owns"],
        "transfer" => &["file", "stages", "out-offset"],
        _ => &[],
    };
    ["kind", "legacy", "owner"].iter().chain(own).copied().collect()
}

/// Reads the map of boxes.
pub(crate) fn read(r: &mut Reader, at: &At<'_>, context: &mut Context<'_, '_>) -> Vec<NetBox> {
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
        let Some(found) = net_box(r, &at, name, context) else { continue };
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

fn net_box(r: &mut Reader, at: &At<'_>, name: &str, context: &mut Context<'_, '_>) -> Option<NetBox> {
    let f = r.map(at, "a map with \"kind\" and what belongs to the kind")?;
    let kind_at = f.need(r, "kind", &KINDS.join(", "))?;
    let kind = r.text(&kind_at, &KINDS.join(", "))?;
    let used = context.used.get(name);
    let before = r.count();
    if KINDS.contains(&kind) {
        r.known(&f, &fields(kind));
    }
    let (box_kind, legacy) = match kind {
        "host" | "client" | "internet" => (BoxKind::Endpoint(endpoint(r, at, &f, kind, used)), false),
        "router" => (BoxKind::Router(router::router(r, at, &f, context)?), true),
        "switch" => (BoxKind::Switch(switch::switch(r, &f, used)), true),
        "firewall" => (BoxKind::Firewall(firewall::firewall(r, at, &f, context)?), true),
        "click" => (BoxKind::Click(click(r, at, &f, used, context)?), false),
        "platform" => {
            let owns = f.need(r, "owns", "addresses for its modules").map(|at| prefixes(r, &at));
            (BoxKind::Platform(Platform { owns: owns.unwrap_or_default(), ports: ports_by_use(used) }), false)
        }
        "transfer" => (BoxKind::Transfer(transfer::transfer(r, at, &f, used, context)?), true),
        _ => {
            r.error(&kind_at, format!("{} is not a kind of box", quote(kind)), did_you_mean(kind, KINDS));
            return None;
        }
    };
    let legacy = f.get("legacy").map_or(Some(legacy), |at| r.bool(&at));
    let owner = f.get("owner").and_then(|at| owner(r, &at, context.owners));
    if r.count() > before {
        return None;
    }
    let notes = std::mem::take(context.notes).into_iter();
    context.not_modelled.extend(notes.map(|note| (name.to_string(), note)));
    Some(NetBox { name: name.into(), kind: box_kind, legacy: legacy?, owner, position: at.node.position })
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
pub(crate) fn port_names(r: &mut Reader, at: &At<'_>) -> Vec<String> {
    let mut ports: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for (i, node) in r.items(at, "ports", MAX_PORTS).unwrap_or_default().iter().enumerate() {
        let at = at.index(i, node);
        if let Some(name) = r.text(&at, "a port's name").and_then(|name| port_name(r, &at, name)) {
            if !seen.insert(name.clone()) {
                r.error(&at, format!("a second port with the name {}", quote(&name)), "choose another");
            }
            ports.push(name);
        }
    }
    ports
}

/// A name that links can give.
pub(crate) fn port_name(r: &mut Reader, at: &At<'_>, name: &str) -> Option<String> {
    if matches!(format!("x:{name}").parse(), Ok(Place::Port { .. })) {
        return Some(name.to_string());
    }
    r.error(at, format!("{} is not a port's name", quote(name)), "write a word such as lan or eth0");
    None
}

fn click(
    r: &mut Reader,
    at: &At<'_>,
    f: &Fields<'_>,
    used: Option<&Vec<Option<String>>>,
    context: &mut Context<'_, '_>,
) -> Option<ClickBox> {
    let ports = match f.get("ports") {
        Some(at) => port_names(r, &at),
        None => ports_by_use(used),
    };
    let (config, file) = match (f.get("config"), f.get("file")) {
        (Some(at), None) => (r.text(&at, "a Click configuration")?.to_string(), None),
        (None, Some(at)) => {
            let name = r.text(&at, "a file's name")?;
            (file(r, &at, name, context.files)?, Some(name.to_string()))
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

/// The file that `{file: NAME}` names, which holds something to import: its name and text.
pub(crate) fn import(
    r: &mut Reader,
    at: &At<'_>,
    f: &Fields<'_>,
    context: &mut Context<'_, '_>,
) -> Option<(String, String)> {
    import_with(r, at, f, context.files)
}

/// As [`import`], by what gives the text of a file.
pub(crate) fn import_with(
    r: &mut Reader,
    at: &At<'_>,
    f: &Fields<'_>,
    files: &mut dyn FnMut(&str) -> std::io::Result<String>,
) -> Option<(String, String)> {
    let Some(file_at) = f.get("file") else {
        r.error(at, "there is no file", "add \"file\" with a file's name");
        return None;
    };
    let name = r.text(&file_at, "a file's name")?;
    Some((name.to_string(), file(r, &file_at, name, files)?))
}

/// Reports the mistakes of an imported file.
pub(crate) fn in_file(r: &mut Reader, at: &At<'_>, name: &str, errors: &DocErrors) {
    for e in errors.errors() {
        let line = e.position.map_or(String::new(), |p| format!(" line {}", p.line));
        r.error(at, format!("{name}{line}: {}", e.message), e.help.clone());
    }
}

/// The text of a file that the document names.
fn file(
    r: &mut Reader,
    at: &At<'_>,
    name: &str,
    files: &mut dyn FnMut(&str) -> std::io::Result<String>,
) -> Option<String> {
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
    pub(crate) fn has_ports_by_use(&self) -> bool {
        matches!(self.kind, BoxKind::Endpoint(_) | BoxKind::Platform(_))
    }
}

/// Whether a value is a map.
pub(crate) fn is_map(at: &At<'_>) -> bool {
    matches!(at.node.kind, Kind::Map(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_fields_that_are_read() {
        let schema = crate::Topology::json_schema();
        let variants = schema["$defs"]["Box"]["oneOf"].as_array().unwrap();
        let mut kinds = Vec::new();
        for variant in variants {
            let properties = variant["properties"].as_object().unwrap();
            let kind = properties["kind"]["const"].as_str().unwrap();
            let mut read = fields(kind);
            read.sort_unstable();
            let mut listed: Vec<&str> = properties.keys().map(String::as_str).collect();
            listed.sort_unstable();
            assert_eq!(listed, read, "{kind}");
            kinds.push(kind);
        }
        assert_eq!(kinds, KINDS);
    }
}
