//! The manifest's reader.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::container::{container, program};
use super::dpdk::dpdk;
use super::graph::graph;
use super::native::{interface_name, native};
use super::process::process;
use super::vm::vm;
use super::{
    Access, Click, Handler, Implementation, Native, Origin, Param, ParamType, Process, Script, Template,
    TemplatePort,
};
use crate::doc::{At, Kind, Node, Reader, did_you_mean};
use crate::error::{DocErrors, Position, quote};
use crate::graph::MAX_PORTS;

/// Most parameters, and most handlers, of a template.
const MAX_ITEMS: usize = 1_000;
/// Most capabilities, and most features.
pub(crate) const MAX_WORDS: usize = 100;
/// The kinds of function, as manifests have them.
pub const KINDS: [&str; 7] = ["click", "process", "native", "dpdk", "vm", "container", "graph"];
/// The kinds whose functions can keep a secret: others have values of parameters in their scripts, or on command lines.
const SECRET_KINDS: [&str; 3] = ["native", "container", "graph"];
const TYPES: [(&str, ParamType); 7] = [
    ("text", ParamType::Text),
    ("int", ParamType::Int),
    ("bool", ParamType::Bool),
    ("ip", ParamType::Ip),
    ("prefix", ParamType::Prefix),
    ("mac", ParamType::Mac),
    ("port", ParamType::Port),
];

/// Reads a manifest; `script` is the text of `function.click`, if there is one, and `file` holds the script.
pub(super) fn template(text: &str, script: Option<&str>, file: Option<&Path>) -> Result<Template, DocErrors> {
    let root = Node::parse(text)?;
    let mut r = Reader::default();
    let template = manifest(&mut r, &At::root(&root, ""), script);
    let mut template = r.finish(template)?;
    if let Implementation::Click(click) | Implementation::Process { click, .. } = &mut template.implementation
    {
        if script.is_none()
            && let Kind::Map(fields) = &root.kind
            && let Some(position) =
                fields.iter().find(|(name, _)| name == "click").and_then(|(_, n)| n.position)
        {
            click.script = place(text, position, &click.text);
        }
        click.script.file = file.map(|f| f.display().to_string());
    }
    Ok(template)
}

/// Where a script stands that begins at a position, or below it as a block.
fn place(text: &str, position: Position, script: &str) -> Script {
    let Some((before, first)) = script.lines().enumerate().find(|(_, l)| !l.trim().is_empty()) else {
        return Script { line: position.line, ..Script::default() };
    };
    let lines = text.lines().enumerate().skip(position.line - 1).take(before + 2);
    let found = lines.filter_map(|(i, line)| Some((i + 1, line.find(first.trim_end())?, line))).next();
    match found {
        Some((line, at, whole)) => {
            Script { file: None, line: line.saturating_sub(before), indent: whole[..at].chars().count() }
        }
        // Its text has escapes.
        None => Script { file: None, line: position.line, indent: position.column - 1 },
    }
}

fn manifest(r: &mut Reader, at: &At<'_>, script: Option<&str>) -> Option<Template> {
    let known = [
        "name",
        "version",
        "capability",
        "features",
        "description",
        "kind",
        "ports",
        "params",
        "handlers",
        "click",
        "process",
        "native",
        "dpdk",
        "vm",
        "container",
        "graph",
    ];
    let f = r.fields(at, &known)?;
    let name = f.need(r, "name", "the name that graphs ask for").and_then(|at| r.parse(&at, "an identifier"));
    let version = match f.get("version") {
        Some(at) => r.parse(&at, "a version").map(Some),
        None => Some(None),
    };
    let description = doc(r, f.get("description"));
    let mut words = |field| f.get(field).map(|at| r.one_or_many(&at, field, MAX_WORDS)).unwrap_or_default();
    let (capability, features) = (words("capability"), words("features"));
    let kind = match f.get("kind") {
        Some(at) => {
            let word = r.text(&at, "a kind of function")?;
            if !KINDS.contains(&word) {
                r.error(&at, format!("{} is no kind of function", quote(word)), did_you_mean(word, &KINDS));
                return None;
            }
            word
        }
        None => "click",
    };
    // Only ports that are interfaces have names that the kernel has to take.
    let inline = matches!(kind, "click" | "graph");
    let ports = f.get("ports").map(|at| ports(r, &at, inline)).unwrap_or_default();
    let params = f.get("params").map(|at| params(r, &at)).unwrap_or_default();
    if let (Some(at), Some(p)) = (f.get("params"), params.iter().find(|p| p.secret))
        && !SECRET_KINDS.contains(&kind)
    {
        let what = format!(
            "the parameter {} is a secret, which a function of kind {kind} cannot keep",
            quote(&p.name)
        );
        r.error(&at, what, format!("only kinds {} have secrets", SECRET_KINDS.join(", ")));
    }
    let handlers = f.get("handlers").map(|at| handlers(r, &at, kind)).unwrap_or_default();
    // A process runs a Click script.
    for field in KINDS.iter().filter(|k| **k != kind && !(kind == "process" && **k == "click")) {
        if let Some(at) = f.get(field) {
            let what = format!("{} is of functions of kind {field}, and this one is {kind}", quote(field));
            r.error(&at, what, format!("leave it out, or say \"kind: {field}\""));
        }
    }
    let implementation = match kind {
        "native" => {
            let native = match f.get("native") {
                Some(at) => native(r, &at),
                None => Some(Native::default()),
            };
            native.map(|native| Implementation::Native { native })
        }
        "process" => {
            let process = match f.get("process") {
                Some(at) => process(r, &at),
                None => Some(Process::default()),
            };
            let click = click(r, at, f.get("click"), script);
            click.zip(process).map(|(click, process)| Implementation::Process { click, process })
        }
        "dpdk" => {
            let at = f.need(r, "dpdk", "which program, and how it runs");
            at.and_then(|at| dpdk(r, &at)).map(|dpdk| Implementation::Dpdk { dpdk })
        }
        "vm" => {
            let at = f.need(r, "vm", "what runs in the machine, and how");
            at.and_then(|at| vm(r, &at)).map(|vm| Implementation::Vm { vm })
        }
        "container" => {
            let at = f.need(r, "container", "which container image, and how it runs");
            let container = at.and_then(|at| container(r, &at, &ports, &params));
            container.map(|container| Implementation::Container { container })
        }
        "graph" => {
            let at = f.need(r, "graph", "the functions that it is made of, and the rules between them");
            let graph = at.and_then(|at| graph(r, &at, &ports, &params));
            graph.map(|graph| Implementation::Graph { graph })
        }
        _ => click(r, at, f.get("click"), script).map(Implementation::Click),
    };
    Some(Template {
        name: name?,
        version: version?,
        capability,
        features,
        description,
        ports,
        params,
        handlers,
        implementation: implementation?,
        origin: Origin::default(),
    })
}

fn click(r: &mut Reader, at: &At<'_>, field: Option<At<'_>>, script: Option<&str>) -> Option<Click> {
    let text = match (field, script) {
        (None, Some(script)) => Some(script.to_string()),
        (Some(at), None) => r.text(&at, "a Click script").map(str::to_string),
        (Some(at), Some(_)) => {
            r.error(&at, "the script stands here and in function.click", "keep one");
            None
        }
        (None, None) => {
            r.error(
                at,
                "there is no Click script",
                "add the file function.click, or the field \"click\" with the script; or say another \"kind\"",
            );
            None
        }
    };
    if text.as_deref().is_some_and(|c| c.trim().is_empty()) {
        r.error(at, "the Click script is empty", "write at least \"in_0 -> out_0;\"");
    }
    Some(Click { text: text?, script: Script { file: None, line: 1, indent: 0 } })
}

/// Free text; absent is empty.
fn doc(r: &mut Reader, at: Option<At<'_>>) -> String {
    at.and_then(|at| r.text(&at, "text").map(str::to_string)).unwrap_or_default()
}

/// Ports; those of functions that are not inline are interfaces.
fn ports(r: &mut Reader, at: &At<'_>, inline: bool) -> Vec<TemplatePort> {
    let mut ports: Vec<TemplatePort> = Vec::new();
    for (i, node) in r.items(at, "ports", MAX_PORTS).unwrap_or_default().iter().enumerate() {
        let at = at.index(i, node);
        let port = if node.text().is_some() {
            r.parse(&at, "a port's name").map(|name| TemplatePort { name, doc: String::new() })
        } else {
            r.fields(&at, &["name", "doc"]).and_then(|f| {
                let name = f.need(r, "name", "the port's name").and_then(|at| r.parse(&at, "an identifier"));
                let doc = doc(r, f.get("doc"));
                Some(TemplatePort { name: name?, doc })
            })
        };
        if let Some(help) = port.as_ref().filter(|_| !inline).and_then(|p| interface_name(p.name.as_str())) {
            r.error(&at, "the function is not inline", help);
        }
        match port {
            Some(p) if ports.iter().any(|q| q.name == p.name) => {
                r.error(
                    &at,
                    format!("a second port with the name {}", quote(p.name.as_str())),
                    "choose another",
                );
            }
            port => ports.extend(port),
        }
    }
    ports
}

fn params(r: &mut Reader, at: &At<'_>) -> Vec<Param> {
    let mut params = Vec::new();
    let mut names = HashSet::new();
    for (i, node) in r.items(at, "parameters", MAX_ITEMS).unwrap_or_default().iter().enumerate() {
        let at = at.index(i, node);
        if let Some(p) = param(r, &at) {
            if !names.insert(p.name.clone()) {
                r.error(
                    &at,
                    format!("a second parameter with the name {}", quote(&p.name)),
                    "choose another",
                );
            }
            params.push(p);
        }
    }
    params
}

fn param(r: &mut Reader, at: &At<'_>) -> Option<Param> {
    let f = r.fields(at, &["name", "type", "min", "max", "default", "secret", "doc"])?;
    let name = f.need(r, "name", "the parameter's name").and_then(|at| {
        let name = r.text(&at, "a name")?.trim_start_matches('$');
        let word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        if !word || name.is_empty() || name.len() > 64 {
            r.error(
                &at,
                format!("{} is not a parameter's name", quote(name)),
                "use up to 64 letters, digits and _, not a digit first",
            );
            return None;
        }
        Some(name.to_string())
    });
    let words: Vec<&str> = TYPES.iter().map(|(w, _)| *w).collect();
    let kind = f.need(r, "type", &words.join(", ")).and_then(|at| {
        let word = r.text(&at, "a type")?;
        let kind = TYPES.iter().find(|(w, _)| *w == word).map(|(_, k)| *k);
        if kind.is_none() {
            r.error(&at, format!("{} is not a type", quote(word)), did_you_mean(word, &words));
        }
        kind
    });
    let mut bound = |field| {
        let at = f.get(field)?;
        if kind.is_some_and(|k| k != ParamType::Int) {
            r.error(&at, format!("only a parameter of type int has {}", quote(field)), "leave it out");
        }
        let text = r.text(&at, "a whole number")?;
        let number = text.parse::<i64>().ok();
        if number.is_none() {
            r.error(&at, format!("{} is no whole number", quote(text)), "write one of 64 bits");
        }
        number
    };
    let (min, max) = (bound("min"), bound("max"));
    if min.zip(max).is_some_and(|(min, max)| min > max) {
        r.error(at, "\"min\" is above \"max\"", "no value could be given");
    }
    let doc = doc(r, f.get("doc"));
    let secret = f.get("secret").and_then(|at| r.bool(&at)).unwrap_or_default();
    let mut param = Param { name: name?, kind: kind?, min, max, default: None, secret, doc };
    if let Some(at) = f.get("default") {
        if secret && at.node.text().is_none_or(|text| !text.is_empty()) {
            r.error(&at, "everybody reads the default of a secret here", "leave it out, or let it be empty");
        }
        let value = crate::graph::param_value(r, &at)?;
        if let Err(e) = param.check(&value) {
            r.error(&at, e.message, e.help);
            return None;
        }
        param.default = Some(value);
    }
    Some(param)
}

fn handlers(r: &mut Reader, at: &At<'_>, kind: &str) -> BTreeMap<String, Handler> {
    let mut handlers = BTreeMap::new();
    let Some(map) = r.map(at, "a map from public names to handlers") else { return handlers };
    if map.entries.len() > MAX_ITEMS {
        r.error(at, format!("{} handlers", map.entries.len()), format!("at most {MAX_ITEMS} are allowed"));
        return handlers;
    }
    for (name, node) in map.entries {
        let at = at.key(name, node);
        if let Err(e) = name.parse::<crate::value::Id>() {
            r.error(&at, e.message, e.help);
        }
        if let Some(handler) = handler(r, &at, kind) {
            handlers.insert(name.clone(), handler);
        }
    }
    handlers
}

/// `{handler, access, doc}`, or just `element.handler` for one that is only read. Of a container the handler is a program; a native
/// function has `{access, doc}`.
fn handler(r: &mut Reader, at: &At<'_>, kind: &str) -> Option<Handler> {
    let inner = |r: &mut Reader, at: &At<'_>| match kind {
        "click" | "process" => inner_name(r, at),
        "container" => program(r, at),
        "graph" => {
            let help = "those of its functions are there by their names, FUNCTION.INNER: leave it out";
            r.error(at, "a function that is made of functions has no handlers of its own", help);
            None
        }
        "dpdk" | "vm" => {
            r.error(at, format!("a function of kind {kind} has no handlers"), "leave them out");
            None
        }
        _ => {
            let help =
                "write {access: r, doc: …}, and put the program into scripts/handlers, by the public name";
            r.error(at, "only a Click script has handlers of elements", help);
            None
        }
    };
    if !matches!(at.node.kind, Kind::Map(_)) {
        return Some(Handler { handler: inner(r, at)?, access: Access::Read, doc: String::new() });
    }
    let f = r.fields(at, &["handler", "access", "doc"])?;
    let handler = match f.get("handler") {
        Some(at) => inner(r, &at),
        None if kind == "native" => Some(String::new()),
        None if matches!(kind, "dpdk" | "vm" | "graph") => inner(r, at),
        None => f
            .need(
                r,
                "handler",
                if kind == "container" { "a program in the container" } else { "element.handler" },
            )
            .and(None),
    };
    let access = match f.get("access") {
        None => Some(Access::Read),
        Some(at) => match r.text(&at, "r, w or rw") {
            Some("r") => Some(Access::Read),
            Some("w") => Some(Access::Write),
            Some("rw") => Some(Access::ReadWrite),
            Some(other) => {
                r.error(&at, format!("{} is not an access", quote(other)), "it is r, w or rw");
                None
            }
            None => None,
        },
    };
    let doc = doc(r, f.get("doc"));
    Some(Handler { handler: handler?, access: access?, doc })
}

/// `element.handler`; elements of compound elements have `/` in their names.
fn inner_name(r: &mut Reader, at: &At<'_>) -> Option<String> {
    let text = r.text(at, "element.handler")?;
    let word = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || "_/@".contains(c));
    if text.len() > 256
        || !text.split_once('.').is_some_and(|(element, handler)| word(element) && word(handler))
    {
        r.error(
            at,
            format!("{} is not a handler", quote(text)),
            "write element.handler, such as filter.drops",
        );
        return None;
    }
    Some(text.to_string())
}
