//! From a document's nodes to a topology, collecting every mistake on the way.

mod boxes;
mod firewall;
mod links;
mod router;
mod switch;
mod transfer;

use std::io;

use super::{MAX_ENTRIES, Owner, Policy, Requester, Topology};
use crate::import::Note;
use weir_filter::text::quote;
use weir_model::DocErrors;
use weir_model::doc::optional;
use weir_model::doc::{At, Kind, Node, Reader};
use weir_model::requirement::{MAX_REQUIREMENTS, Place, Requirement, limits_all};

const FIELDS: &[&str] = &["version", "name", "boxes", "links", "owners", "policy", "requirements"];
/// Most owners.
const MAX_OWNERS: usize = 100_000;

/// Gives the text of a file that the document names.
pub(crate) type Files<'f> = &'f mut dyn FnMut(&str) -> io::Result<String>;

/// The context in which boxes are read.
pub(crate) struct Context<'c, 'f> {
    /// The ports that links give to boxes.
    used: &'c links::Used,
    owners: &'c [Owner],
    files: &'c mut (dyn FnMut(&str) -> io::Result<String> + 'f),
    /// What is not modelled of the box at hand, and of all before it.
    notes: &'c mut Vec<Note>,
    not_modelled: &'c mut Vec<(String, Note)>,
}

/// Reads the whole document.
pub(crate) fn document(text: &str, files: Files<'_>) -> Result<Topology, DocErrors> {
    let root = Node::parse(text)?;
    let mut r = Reader::default();
    let topology = topology(&mut r, &At::root(&root, ""), files);
    r.finish(topology)
}

fn topology(r: &mut Reader, at: &At<'_>, files: Files<'_>) -> Option<Topology> {
    let f = r.fields(at, FIELDS)?;
    if let Some(at) = f.get("version")
        && let Some(version) = r.number(&at, "the format's version", 0, u32::MAX)
        && version != Topology::VERSION
    {
        let message = format!("the format's version {version} is not known");
        r.error(&at, message, format!("write {} and see the manual for its fields", Topology::VERSION));
    }
    let name = optional(f.get("name"), |at| r.parse(at, "a name"));
    let owners = f.get("owners").map(|at| owners(r, &at)).unwrap_or_default();
    let policy = f.get("policy").map(|at| policy(r, &at)).unwrap_or_default();
    let mut links = f.get("links").map(|at| links::read(r, &at)).unwrap_or_default();
    let before = r.count();
    let used = links::ports_used(&mut links);
    let mut not_modelled = Vec::new();
    let boxes = f.need(r, "boxes", "the boxes by their names").map(|at| {
        boxes::read(
            r,
            &at,
            &mut Context {
                used: &used,
                owners: &owners,
                files,
                notes: &mut Vec::new(),
                not_modelled: &mut not_modelled,
            },
        )
    });
    let boxes = boxes.unwrap_or_default();
    // What a box that was not read offers is not known: links to it are not its mistake.
    let lost = r.count() > before;
    let index = links::Index::new(&boxes, lost);
    let mut links = f.get("links").map(|at| links::resolve(r, &at, links, &index)).unwrap_or_default();
    links.extend(f.get("links").map(|at| links::imported(r, &at, &index, files)).unwrap_or_default());
    let requirements = f.get("requirements").map(|at| requirements(r, &at, &index)).unwrap_or_default();
    Some(Topology { name: name?, boxes, links, owners, policy, requirements, not_modelled })
}

/// One value, or a list of them; what could be read.
fn one_or_list<T>(
    r: &mut Reader,
    at: &At<'_>,
    what: &str,
    mut read: impl FnMut(&mut Reader, &At<'_>) -> Option<T>,
) -> Vec<T> {
    if !matches!(at.node.kind, Kind::List(_)) {
        return read(r, at).into_iter().collect();
    }
    let items = r.items(at, what, MAX_ENTRIES).unwrap_or_default();
    items.iter().enumerate().filter_map(|(i, node)| read(r, &at.index(i, node))).collect()
}

fn owners(r: &mut Reader, at: &At<'_>) -> Vec<Owner> {
    let mut owners = Vec::new();
    let Some(map) = r.map(at, "a map from owners' names to what they are") else { return owners };
    if map.entries.len() > MAX_OWNERS {
        r.error(at, format!("{} owners", map.entries.len()), format!("at most {MAX_OWNERS} are read"));
        return owners;
    }
    for (name, node) in map.entries {
        let at = at.key(name, node);
        let id = name.parse().map_err(|e: weir_model::ValueError| r.error(&at, e.message, e.help)).ok();
        let Some(f) = r.fields(&at, &["role", "registered"]) else { continue };
        let role = f
            .need(r, "role", "third-party, client or operator")
            .and_then(|at| r.parse::<Requester>(&at, "third-party, client or operator"));
        let registered = f.get("registered").map(|at| {
            one_or_list(r, &at, "prefixes", |r, at| {
                r.parse(at, "a destination such as 10.0.0.1 or 10.0.0.0/8")
            })
        });
        if let (Some(name), Some(role)) = (id, role) {
            owners.push(Owner { name, role, registered: registered.unwrap_or_default() });
        }
    }
    owners
}

/// The paper's policy, with what the document says instead.
fn policy(r: &mut Reader, at: &At<'_>) -> Policy {
    let mut policy = Policy::default();
    let names = Requester::ALL.map(Requester::name);
    let Some(f) = r.fields(at, &names) else { return policy };
    for who in Requester::ALL {
        let Some(at) = f.get(who.name()) else { continue };
        let Some(f) = r.fields(&at, &["receive", "send-from", "send-to", "inconclusive"]) else { continue };
        let rules = policy.rules_mut(who);
        if let Some(at) = f.get("receive") {
            rules.receive =
                one_or_list(r, &at, "what may be received", |r, at| r.parse(at, "module or anything"));
        }
        if let Some(at) = f.get("send-from") {
            rules.send_from = one_or_list(r, &at, "sources", |r, at| {
                r.parse(at, "module, unchanged, anything or a prefix")
            });
        }
        if let Some(at) = f.get("send-to") {
            rules.send_to = one_or_list(r, &at, "destinations", |r, at| {
                r.parse(at, "registered, own-modules, answered, anything or a prefix")
            });
        }
        if let Some(at) = f.get("inconclusive")
            && let Some(what) = r.parse(&at, "refuse or sandbox")
        {
            rules.inconclusive = what;
        }
    }
    policy
}

/// A list of requirements, or a text with one a line.
fn requirements(r: &mut Reader, at: &At<'_>, index: &links::Index<'_>) -> Vec<Requirement> {
    let mut all: Vec<Requirement> = Vec::new();
    if matches!(at.node.kind, Kind::List(_)) {
        let mut limits = false;
        let items = r.items(at, "requirements", MAX_REQUIREMENTS).unwrap_or_default();
        for (i, node) in items.iter().enumerate() {
            let at = at.index(i, node);
            let Some(text) = r.text(&at, "a requirement such as \"can internet client tcp\"") else {
                continue;
            };
            if limits_all(text) {
                limits = true;
                continue;
            }
            match Requirement::parse(text) {
                Ok(requirement) => {
                    places_exist(r, &at, &requirement, "", index);
                    all.push(Requirement { position: node.position, ..requirement });
                }
                Err(e) => r.error(&at, format!("column {}: {}", e.column, e.message), e.help),
            }
        }
        if limits {
            all = all.into_iter().map(Requirement::of_hosts).collect();
        }
        return all;
    }
    let Some(text) = r.text(at, "a list of requirements, or a text with one a line") else { return all };
    match Requirement::parse_all(text) {
        Ok(read) => {
            for requirement in &read {
                let line = requirement.position.map_or(String::new(), |p| format!("line {}: ", p.line));
                places_exist(r, at, requirement, &line, index);
            }
            all = read;
        }
        Err(errors) => {
            for e in errors.errors() {
                let place =
                    e.position.map_or(String::new(), |p| format!("line {}, column {}: ", p.line, p.column));
                r.error(at, format!("{place}{}", e.message), e.help.clone());
            }
        }
    }
    all
}

/// Reports places of a requirement that the topology does not have.
fn places_exist(
    r: &mut Reader,
    at: &At<'_>,
    requirement: &Requirement,
    line: &str,
    index: &links::Index<'_>,
) {
    for place in requirement.places() {
        match place {
            Place::Node(node) | Place::Port { node, .. } if index.is_inside_click(node) => {}
            Place::Node(node) => drop(index.node(r, at, line, node)),
            Place::Port { node, port } => {
                if let Some(found) = index.node(r, at, line, node)
                    && !index.has_port(found, port)
                {
                    index.no_port(r, at, line, found, port);
                }
            }
            Place::Prefix(prefix) if !index.is_owned(*prefix) => {
                let message = format!("{line}nobody owns an address of {}", quote(&prefix.to_string()));
                r.error(at, message, "give it to a box with \"owns\", or add a box of the kind internet");
            }
            Place::Prefix(_) => {}
        }
    }
}
