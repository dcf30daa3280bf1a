//! From a document's nodes to a service graph, collecting every mistake on the way.

mod monitoring;
mod number;
mod reference;
mod requirement;
mod rule;
mod sap;

use std::collections::{BTreeMap, HashMap};

use super::{
    Function, FunctionState, GraphParts, HandlerWrite, HostStackSap, MAX_FIFO, MAX_FUNCTIONS, MAX_IDLE,
    MAX_PORTS, MAX_RULES, MAX_SAPS, ParamValue, Port, Rule, RunAs, Sap, SapKind, ServiceGraph, Start,
};
use crate::doc::{At, Fields, Kind, Node, Reader, optional};
use crate::error::{DocErrors, quote};
use crate::graph::{capability, placement};
use crate::requirement::MAX_REQUIREMENTS;
use crate::template::MAX_FILE;
use crate::value::{Id, Name};

const GRAPH_FIELDS: &[&str] = &[
    "id",
    "name",
    "tenant",
    "node",
    "placement",
    "SFs",
    "saps",
    "flowrules",
    "requirements",
    "monitoring",
    "direct-links",
    "start",
    "idle",
];
pub(super) const A_NODE: &str = "the name of a node";
/// Most parameters, and most handler writes, of a function.
const MAX_SETTINGS: usize = 1_000;

/// Reads the whole document, with or without the outer `sffg`.
pub(super) fn document(root: &Node) -> Result<ServiceGraph, DocErrors> {
    let mut r = Reader::default();
    let bare = At::root(root, "");
    let graph = match &root.kind {
        Kind::Map(entries) if entries.iter().any(|(k, _)| k == "sffg") => {
            let outer = r.fields(&bare, &["sffg"]);
            match outer.and_then(|o| o.get("sffg")) {
                // The path of the paper's form: `sffg.flowrules[2]…`
                Some(at) => graph(&mut r, &at),
                None => {
                    r.error(&bare, "\"sffg\" holds nothing", "put the graph there");
                    None
                }
            }
        }
        _ => graph(&mut r, &bare),
    };
    r.finish(graph).map(ServiceGraph)
}

fn graph(r: &mut Reader, at: &At<'_>) -> Option<GraphParts> {
    let f = r.fields(at, GRAPH_FIELDS)?;
    let id = f.need(r, "id", "the graph's identifier").and_then(|at| r.parse(&at, "an identifier"));
    let name = f.need(r, "name", "the graph's name").and_then(|at| r.parse(&at, "a name"));
    let tenant = optional(f.get("tenant"), |at| r.parse(at, "a tenant's name"));
    let node = optional(f.get("node"), |at| r.parse(at, A_NODE));
    let direct_links = optional(f.get("direct-links"), |at| r.bool(at));
    let (start, idle) = start(r, &f);
    let before = r.count();
    let saps = list(r, f.get("saps"), "service access points", MAX_SAPS, sap::sap);
    let saps_lost = r.count() > before;
    if let Some(at) = f.get("saps") {
        unique(r, &at, "service access point", saps.iter().map(|(i, s)| (*i, s.id.as_str())));
        sap::distinct_saps(r, &at, &saps);
    }
    let saps: Vec<Sap> = saps.into_iter().map(|(_, s)| s).collect();
    let Steered { functions, functions_lost, flowrules } = steered(r, &f, (&saps, saps_lost));
    let placement =
        optional(f.get("placement"), |at| placement::placement(r, at, (&functions, functions_lost)));
    let lost = functions_lost || saps_lost;
    let mut limits = false;
    let requirements = list(r, f.get("requirements"), "requirements", MAX_REQUIREMENTS, |r, at| {
        requirement::requirement(r, at, (&functions, &saps), lost, &mut limits)
    });
    let requirements = requirements.into_iter().map(|(_, r)| if limits { r.of_hosts() } else { r }).collect();
    let monitoring =
        optional(f.get("monitoring"), |at| monitoring::monitoring(r, at, (&functions, &saps), lost));
    Some(GraphParts {
        id: id?,
        name: name?,
        tenant: tenant?,
        node: node?,
        placement: placement?.unwrap_or_default(),
        functions,
        saps,
        flowrules,
        requirements,
        monitoring: monitoring?,
        direct_links: direct_links?.unwrap_or(true),
        start: start?,
        idle: idle?,
    })
}

/// When a graph, or the graph of a request, is started, and after what time without packets it ends.
pub(crate) fn start(r: &mut Reader, f: &Fields<'_>) -> (Option<Start>, Option<Option<u32>>) {
    let start = optional(f.get("start"), |at| match r.text(at, "now or first-packet")? {
        "now" => Some(Start::Now),
        "first-packet" => Some(Start::FirstPacket),
        other => {
            r.error(at, format!("nothing starts by {}", quote(other)), "write now or first-packet");
            None
        }
    });
    let start = start.map(Option::unwrap_or_default);
    let idle = optional(f.get("idle"), |at| r.number(at, "a number of seconds", 1, MAX_IDLE));
    if let (Some(Start::Now), Some(at)) = (start, f.get("idle")) {
        r.error(&at, "only what its first packet starts ends without packets", "add start: first-packet");
    }
    (start, idle)
}

/// Functions, and the rules between them and access points.
struct Steered {
    functions: Vec<Function>,
    /// Whether some could not be read.
    functions_lost: bool,
    flowrules: Vec<Rule>,
}

fn steered(r: &mut Reader, f: &Fields<'_>, (saps, saps_lost): (&[Sap], bool)) -> Steered {
    let before = r.count();
    let functions = list(r, f.get("SFs"), "functions", MAX_FUNCTIONS, function);
    let functions_lost = r.count() > before;
    if let Some(at) = f.get("SFs") {
        unique(r, &at, "function", functions.iter().map(|(i, f)| (*i, f.id.as_str())));
    }
    let functions: Vec<Function> = functions.into_iter().map(|(_, f)| f).collect();
    let index = reference::Index {
        functions: &functions,
        saps,
        // Backwards, so that the first of two with one identifier counts.
        function_ids: functions.iter().enumerate().rev().map(|(i, f)| (f.id.as_str(), i)).collect(),
        sap_ids: saps.iter().enumerate().rev().map(|(i, s)| (s.id.as_str(), i)).collect(),
        functions_lost,
        saps_lost,
    };
    let rules = list(r, f.get("flowrules"), "flow rules", MAX_RULES, |r, at| rule::rule(r, at, &index));
    if let Some(at) = f.get("flowrules") {
        unique(r, &at, "flow rule", rules.iter().map(|(i, rule)| (*i, rule.id.as_str())));
    }
    let flowrules = rules.into_iter().map(|(_, rule)| rule).collect();
    Steered { functions, functions_lost, flowrules }
}

/// The functions and rules of a function that is made of functions. Its ports are access points of theirs.
pub(crate) fn inner(r: &mut Reader, at: &At<'_>, ports: Vec<Id>) -> Option<(Vec<Function>, Vec<Rule>)> {
    let f = r.fields(at, &["SFs", "flowrules"])?;
    // Of which kind does not matter: only rules refer to them.
    let kind = SapKind::HostStack { host_stack: HostStackSap::default() };
    let saps: Vec<Sap> =
        ports.into_iter().map(|id| Sap { id, name: None, node: None, kind: kind.clone() }).collect();
    let Steered { functions, flowrules, .. } = steered(r, &f, (&saps, false));
    Some((functions, flowrules))
}

/// The items of a list that could be read, with their positions in it; an absent list is empty.
fn list<T>(
    r: &mut Reader,
    at: Option<At<'_>>,
    what: &str,
    max: usize,
    mut read: impl FnMut(&mut Reader, &At<'_>) -> Option<T>,
) -> Vec<(usize, T)> {
    let Some(at) = at else { return Vec::new() };
    let Some(items) = r.items(&at, what, max) else { return Vec::new() };
    let mut values = Vec::with_capacity(items.len());
    for (i, node) in items.iter().enumerate() {
        if let Some(value) = read(r, &at.index(i, node)) {
            values.push((i, value));
        }
    }
    values
}

/// Reports identifiers that a list gives twice.
fn unique<'a>(r: &mut Reader, at: &At<'_>, what: &str, ids: impl Iterator<Item = (usize, &'a str)>) {
    let Kind::List(items) = &at.node.kind else { return };
    let mut seen = HashMap::new();
    for (i, id) in ids {
        let Some(node) = items.get(i) else { continue };
        match seen.get(id) {
            None => {
                seen.insert(id, i);
            }
            Some(first) => {
                let message = format!("a second {what} with the identifier {}", quote(id));
                r.error(&at.index(i, node), message, format!("item {first} has it already; choose another"));
            }
        }
    }
}

fn function(r: &mut Reader, at: &At<'_>) -> Option<Function> {
    let known = [
        "id",
        "name",
        "node",
        "ports",
        "template",
        "click",
        "kind",
        "state",
        "fifo",
        "capability",
        "constraints",
        "params",
        "handlers",
    ];
    let f = r.fields(at, &known)?;
    let id = f.need(r, "id", "the function's identifier").and_then(|at| r.parse(&at, "an identifier"));
    let capability: Option<Option<Id>> =
        optional(f.get("capability"), |at| r.parse(at, "a capability such as firewall"));
    let name = match (f.get("name"), f.get("capability"), &capability) {
        (None, Some(_), capability) => capability.iter().flatten().map(Name::from).next(),
        _ => f.need(r, "name", "the function's name").and_then(|at| r.parse(&at, "a name")),
    };
    let constraints = optional(f.get("constraints"), |at| capability::constraints(r, at));
    if let (Some(_), Some(at)) = (f.get("capability"), f.get("template")) {
        r.error(&at, "the function has a \"capability\" and a \"template\"", "leave out one of them");
    }
    if let (None, Some(at)) = (f.get("capability"), f.get("constraints")) {
        r.error(
            &at,
            "only a function that is asked for by what it can do has constraints",
            "add \"capability\"",
        );
    }
    let ports = list(r, f.get("ports"), "ports", MAX_PORTS, port);
    if let Some(at) = f.get("ports") {
        unique(r, &at, "port", ports.iter().map(|(i, p)| (*i, p.id.as_str())));
    }
    let template = optional(f.get("template"), |at| r.parse(at, "an image's name"));
    let click = optional(f.get("click"), |at| script(r, at));
    if let (Some(at), true) = (f.get("click"), f.get("capability").is_some() || f.get("template").is_some()) {
        r.error(&at, "the function has a script and an image", "leave out one of them");
    }
    let node = optional(f.get("node"), |at| r.parse(at, A_NODE));
    let kind = optional(f.get("kind"), |at| run_as(r, at));
    let state = optional(f.get("state"), |at| state(r, at));
    let fifo = optional(f.get("fifo"), |at| r.number(at, "a number of packets", 1, MAX_FIFO));
    let mut params = BTreeMap::new();
    if let Some(at) = f.get("params")
        && let Some(map) = r.map(&at, "a map from parameters to values")
    {
        if map.entries.len() > MAX_SETTINGS {
            r.error(
                &at,
                format!("{} parameters", map.entries.len()),
                format!("at most {MAX_SETTINGS} are allowed"),
            );
        }
        for (name, node) in map.entries {
            if let Some(value) = param_value(r, &at.key(name, node)) {
                params.insert(name.clone(), value);
            }
        }
    }
    let handlers = f.get("handlers").map(|at| handlers(r, &at)).unwrap_or_default();
    let ports = ports.into_iter().map(|(_, p)| p).collect();
    Some(Function {
        id: id?,
        name: name?,
        ports,
        template: template?,
        click: click?,
        node: node?,
        kind: kind?,
        state: state?,
        fifo: fifo?,
        capability: capability?,
        constraints: constraints?.unwrap_or_default(),
        params,
        handlers,
    })
}

fn script(r: &mut Reader, at: &At<'_>) -> Option<String> {
    let text = r.text(at, "a Click script")?;
    if text.is_empty() || text.len() as u64 > MAX_FILE {
        r.error(at, format!("a script of {} bytes", text.len()), format!("it has 1 to {MAX_FILE}"));
        return None;
    }
    Some(text.to_owned())
}

fn run_as(r: &mut Reader, at: &At<'_>) -> Option<RunAs> {
    match r.text(at, "inline or process")? {
        "inline" => Some(RunAs::Inline),
        "process" => Some(RunAs::Process),
        other => {
            let help = "it is inline or process, of images of kind click; leave it out for others";
            r.error(at, format!("{} is nothing that runs a Click script", quote(other)), help);
            None
        }
    }
}

fn state(r: &mut Reader, at: &At<'_>) -> Option<FunctionState> {
    match r.text(at, "running, stopped or bypass")? {
        "running" => Some(FunctionState::Running),
        "stopped" => Some(FunctionState::Stopped),
        "bypass" => Some(FunctionState::Bypass),
        "moving" => Some(FunctionState::Moving),
        other => {
            let help = "it is running, stopped or bypass; leave it out for a function that just runs";
            r.error(at, format!("{} is no state of a function", quote(other)), help);
            None
        }
    }
}

fn port(r: &mut Reader, at: &At<'_>) -> Option<Port> {
    if at.node.text().is_some() {
        return Some(Port { id: r.parse(at, "a port's identifier")?, name: None });
    }
    let f = r.fields(at, &["id", "name"])?;
    let id = f.need(r, "id", "the port's identifier").and_then(|at| r.parse(&at, "an identifier"));
    let name = optional(f.get("name"), |at| r.parse(at, "a name"));
    Some(Port { id: id?, name: name? })
}

/// A truth value, a whole number, or text.
pub(crate) fn param_value(r: &mut Reader, at: &At<'_>) -> Option<ParamValue> {
    if let Some(b) = at.node.bool() {
        return Some(ParamValue::Bool(b));
    }
    let text = r.text(at, "a value: text, a number, true or false")?;
    let quoted = matches!(at.node.kind, Kind::Text(_));
    match text.parse() {
        Ok(n) if !quoted && !text.starts_with('+') => Some(ParamValue::Int(n)),
        _ => Some(ParamValue::Text(text.to_string())),
    }
}

/// A list of `{name, value}`, or a map from names to one value or several.
fn handlers(r: &mut Reader, at: &At<'_>) -> Vec<HandlerWrite> {
    if let Kind::List(_) = at.node.kind {
        let writes = list(r, Some(*at), "handler writes", MAX_SETTINGS, |r, at| {
            let f = r.fields(at, &["name", "value"])?;
            let name = f.need(r, "name", "the handler's public name").and_then(|at| r.parse(&at, "a name"));
            let value = f
                .need(r, "value", "the text to write")
                .and_then(|at| r.text(&at, "text").map(str::to_string));
            Some(HandlerWrite { name: name?, value: value? })
        });
        return writes.into_iter().map(|(_, w)| w).collect();
    }
    let Some(map) = r.map(at, "a list of {name, value}, or a map from handlers to values") else {
        return Vec::new();
    };
    let mut writes = Vec::new();
    for (name, node) in map.entries {
        let at = at.key(name, node);
        let Ok(name) = name.parse() else {
            r.error(
                &at,
                format!("{} is not a handler's name", quote(name)),
                "use the name from the image's list",
            );
            continue;
        };
        let mut write = |r: &mut Reader, at: &At<'_>| {
            if let Some(value) = r.text(at, "the text to write") {
                writes.push(HandlerWrite { name: Clone::clone(&name), value: value.to_string() });
            }
        };
        match &node.kind {
            Kind::List(items) => items.iter().enumerate().for_each(|(i, n)| write(r, &at.index(i, n))),
            _ => write(r, &at),
        }
    }
    if writes.len() > MAX_SETTINGS {
        r.error(
            at,
            format!("{} handler writes", writes.len()),
            format!("at most {MAX_SETTINGS} are allowed"),
        );
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_filter::text::parse_number;

    #[test]
    fn a_name_that_yaml_takes_for_nothing_is_told_so() {
        let e = ServiceGraph::parse("id: g\nname: g\nSFs: [{id: f, name: null}]\n").unwrap_err();
        let e = &e.errors()[0];
        assert_eq!(
            (e.path.as_str(), e.message.as_str()),
            ("SFs[0].name", "\"name\" is null, which is nothing in YAML")
        );
        assert!(e.help.contains("'null'"), "{}", e.help);
    }

    #[test]
    fn numbers_beyond_32_bits_are_refused_not_cut() {
        assert_eq!(parse_number("4294967297"), Some(4_294_967_297));
        let text =
            r#"{"id": 1, "name": "x", "saps": [{"id": 1, "type": "vlan", "vlan": {"vlan-id": 4294967297}}]}"#;
        let errors = ServiceGraph::from_json(text).unwrap_err();
        assert!(errors.errors()[0].message.contains("out of range"), "{errors}");
    }
}
