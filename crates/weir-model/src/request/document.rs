//! Requests as YAML or JSON.

use std::collections::{BTreeMap, BTreeSet};

use super::{MAX_MODULES, Module, ModuleLink, Request, Stock};
use crate::doc::{At, Fields, Node, Reader, did_you_mean, optional};
use crate::error::{DocErrors, Position, quote};
use crate::graph::{param_value, read};
use crate::requirement::{MAX_REQUIREMENTS, Place, Requirement, limits_all};
use crate::value::IpPrefix;
use weir_net::Protocols;

/// Longest lifetime, in seconds: ten years.
const LONGEST: u32 = 315_360_000;
/// Most addresses and prefixes whose traffic a module takes.
const MAX_INTERCEPTS: usize = 1_000;
const A_MODULE: &str = "a map with \"click\" or \"image\"";

/// Whether a text is such a document and no Click: it begins with its version, or as JSON does.
pub(super) fn is_one(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with('#') && *l != "---");
    let Some(first) = first else { return false };
    let version = first.strip_prefix("version:").is_some_and(|rest| !rest.trim().is_empty());
    version
        || first.strip_prefix('{').is_some_and(|rest| rest.is_empty() || rest.trim_start().starts_with('"'))
}

pub(super) fn parse(text: &str) -> Result<Request, DocErrors> {
    let node = Node::parse(text)?;
    let mut r = Reader::default();
    let at = At::root(&node, "request");
    let request = request(&mut r, &at, text);
    r.finish(request)
}

fn request(r: &mut Reader, at: &At<'_>, text: &str) -> Option<Request> {
    let f =
        r.fields(at, &["version", "lifetime", "start", "idle", "share", "modules", "links", "requirements"])?;
    let version = f.need(r, "version", "1").and_then(|at| r.number(&at, "the version of this format", 1, 1));
    let lifetime = optional(f.get("lifetime"), |at| r.number(at, "a lifetime in seconds", 1, LONGEST));
    let (start, idle) = read::start(r, &f);
    let mut modules = Vec::new();
    if let Some(at) = f.get("modules")
        && let Some(map) = r.map(&at, "a map from the modules' names to modules")
    {
        if map.entries.len() > MAX_MODULES {
            r.error(&at, format!("{} modules", map.entries.len()), format!("at most {MAX_MODULES} are read"));
            return None;
        }
        for (name, node) in map.entries {
            let at = at.key(name, node);
            if !matches!(name.parse(), Ok(Place::Node(_))) {
                r.error(
                    &at,
                    format!("{} is no name of a module", quote(name)),
                    "use letters, digits, '-' and '_'",
                );
            }
            modules.extend(module(r, &at, name, text));
        }
    }
    let share = match f.get("share") {
        None => None,
        Some(at) => Some(share(r, &at, &modules)?),
    };
    let names: BTreeSet<&str> = modules.iter().map(|m: &Module| m.name.as_str()).collect();
    let links = links(r, &f, &names);
    let requirements = requirements(r, &f);
    if modules.is_empty() && requirements.is_empty() && r.count() == 0 {
        r.error(at, "the request is empty", "write modules, requirements, or both");
    }
    version?;
    let lifetime = lifetime?.map(u64::from);
    Some(Request { modules, links, requirements, lifetime, start: start?, idle: idle?, share })
}

/// The protocols of ports of an address that others share: of one module.
fn share(r: &mut Reader, at: &At<'_>, modules: &[Module]) -> Option<Protocols> {
    const WORDS: [&str; 3] = ["all", "tcp", "udp"];
    let word = r.text(at, "all, tcp or udp")?;
    let Ok(protocols) = word.parse() else {
        r.error(at, format!("{} is no protocol of ports", quote(word)), did_you_mean(word, &WORDS));
        return None;
    };
    if modules.len() > 1 || modules.iter().any(|m| !m.intercepts.is_empty()) {
        let help = "leave \"share\" out, or ask for each module by itself";
        r.error(
            at,
            "one module has ports of an address that others share, and takes no traffic of others",
            help,
        );
    }
    Some(protocols)
}

fn module(r: &mut Reader, at: &At<'_>, name: &str, whole: &str) -> Option<Module> {
    let f = r.fields(at, &["click", "image", "params", "intercepts"])?;
    let click = optional(f.get("click"), |at| r.text(at, "a Click configuration").map(str::to_owned))?;
    let image = optional(f.get("image"), |at| r.text(at, "an image's name").map(str::to_owned))?;
    let mut params = BTreeMap::new();
    if let Some(at) = f.get("params")
        && let Some(map) = r.map(&at, "a map from parameters to values")
    {
        for (name, node) in map.entries {
            params.extend(param_value(r, &at.key(name, node)).map(|v| (name.clone(), v)));
        }
        if image.is_none() {
            r.error(&at, "only images have parameters", "write the values into the Click configuration");
        }
    }
    let intercepts = match f.get("intercepts") {
        Some(at) => {
            r.one_or_many::<IpPrefix>(&at, "addresses and prefixes whose traffic it takes", MAX_INTERCEPTS)
        }
        None => Vec::new(),
    };
    let (click, stock) = match (click, image) {
        (Some(click), None) if click.trim().is_empty() => {
            r.error(
                at,
                "the Click configuration is empty",
                "write at least \"FromNetfront() -> ToNetfront()\"",
            );
            return None;
        }
        (Some(click), None) => (click, None),
        (None, Some(image)) => (String::new(), Some(Stock { image, params })),
        (Some(_), Some(_)) => {
            r.error(at, "a module has a Click configuration and an image", "leave out one of them");
            return None;
        }
        (None, None) => {
            r.error(at, "there is nothing to run", format!("expected {A_MODULE}"));
            return None;
        }
    };
    // Lines of the script are those of the document, if it stands there as it is.
    let position = f.get("click").and_then(|at| at.node.position).map_or(1, |p| p.line);
    let first = click.lines().position(|l| !l.trim().is_empty()).unwrap_or(0);
    let text = click.lines().nth(first).unwrap_or_default().trim_end();
    let near = whole.lines().enumerate().skip(position - 1).take(first + 2);
    let found = near.filter(|(_, l)| !text.is_empty() && l.contains(text)).map(|(i, _)| i).next();
    let line = found.map_or(position, |i| i + 1).saturating_sub(first).max(1);
    let click = if stock.is_some() { click } else { "\n".repeat(line - 1) + &click };
    Some(Module { name: name.to_owned(), click, offset: 0, line: 1, stock, params: Vec::new(), intercepts })
}

fn links(r: &mut Reader, f: &Fields<'_>, names: &BTreeSet<&str>) -> Vec<ModuleLink> {
    let Some(at) = f.get("links") else { return Vec::new() };
    let mut links = Vec::new();
    for (i, node) in r.items(&at, "links", MAX_MODULES).unwrap_or_default().iter().enumerate() {
        let at = at.index(i, node);
        let what = "a link such as \"a:0 -> b:0\"";
        let Some(text) = r.text(&at, what) else { continue };
        let end = |text: &str| match text.trim().parse() {
            Ok(Place::Port { node, port }) => Some((node, port)),
            _ => None,
        };
        let ends = text.split_once("->").and_then(|(a, b)| Some((end(a)?, end(b)?)));
        let Some((from, to)) = ends else {
            r.error(
                &at,
                format!("{} is no link", quote(text)),
                format!("write {what}: MODULE:PORT -> MODULE:PORT"),
            );
            continue;
        };
        for (module, _) in [&from, &to] {
            if !names.contains(module.as_str()) {
                let known: Vec<&str> = names.iter().copied().collect();
                r.error(&at, format!("no module is {}", quote(module)), did_you_mean(module, &known));
            }
        }
        let position = node.position.unwrap_or(Position { line: 1, column: 1 });
        links.push(ModuleLink { from, to, position });
    }
    links
}

fn requirements(r: &mut Reader, f: &Fields<'_>) -> Vec<Requirement> {
    let Some(at) = f.get("requirements") else { return Vec::new() };
    let (mut all, mut limits) = (Vec::new(), false);
    for (i, node) in r.items(&at, "requirements", MAX_REQUIREMENTS).unwrap_or_default().iter().enumerate() {
        let at = at.index(i, node);
        let Some(text) = r.text(&at, "a requirement such as \"can internet client tcp\"") else { continue };
        if limits_all(text) {
            limits = true;
            continue;
        }
        match Requirement::parse(text) {
            Ok(requirement) => all.push(Requirement { position: node.position, ..requirement }),
            Err(e) => r.error(&at, format!("column {}: {}", e.column, e.message), e.help),
        }
    }
    if limits { all.into_iter().map(Requirement::of_hosts).collect() } else { all }
}
