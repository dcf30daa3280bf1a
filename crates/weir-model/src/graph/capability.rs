//! Functions that are asked for by what they can do, in place of an image's name (COMPOSER paper, section 5.6).

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::MAX_PORTS;
use crate::doc::{At, Reader, did_you_mean};
use crate::error::quote;
use crate::template::{KINDS, MAX_WORDS};
use crate::value::{Id, Size, VersionRange, is_false, one_or_list};

/// What the data plane's own kind of function is called as well.
const INLINE: (&str, &str) = ("inline", "click");

/// Constraints on the image that is chosen for a function. All that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Constraints {
    /// Least number of ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_PORTS))]
    pub ports: Option<u16>,
    /// The features that the image must have, such as `ipv6`: one, or several in a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_list")]
    #[schemars(schema_with = "crate::template::words")]
    pub features: Vec<Id>,
    /// Most memory that it may take: the limit of its kind, or what the tables and queues of an inline function can come to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Most processor time that it may take, in thousandths of a processor. Inline functions take that of the data plane's workers, and
    /// so none of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub cpu: Option<u32>,
    /// Whether it must be proved: a Click script that runs inline, its programs proved to end and to stay within their packets, so that requirements can be
    /// checked through it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub proved: bool,
    /// The kinds of function that it may be: one, or several in a list. `inline` is `click`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_list")]
    #[schemars(schema_with = "kinds")]
    pub kind: Vec<String>,
    /// Which versions of it: those that are numbers with dots can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionRange>,
}

impl Constraints {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Constraints::default()
    }
}

fn kinds(_: &mut SchemaGenerator) -> Schema {
    let words: Vec<&str> = KINDS.iter().copied().chain([INLINE.0]).collect();
    json_schema!({ "anyOf": [{ "enum": words }, { "type": "array", "items": { "enum": words }, "maxItems": MAX_WORDS, "uniqueItems": true }] })
}

pub(super) fn constraints(r: &mut Reader, at: &At<'_>) -> Option<Constraints> {
    let known = ["ports", "features", "memory", "cpu", "proved", "kind", "version"];
    let f = r.fields(at, &known)?;
    let mut c = Constraints::default();
    if let Some(at) = f.get("ports") {
        c.ports = r.number(&at, "a number of ports", 1, MAX_PORTS as u32).and_then(|n| n.try_into().ok());
    }
    if let Some(at) = f.get("features") {
        c.features = r.one_or_many(&at, "features", MAX_WORDS);
    }
    if let Some(at) = f.get("memory") {
        c.memory = r.parse(&at, "an amount of memory");
    }
    if let Some(at) = f.get("cpu") {
        c.cpu = r.number(&at, "thousandths of a processor", 1, 1_000_000);
    }
    if let Some(at) = f.get("proved") {
        c.proved = r.bool(&at).unwrap_or_default();
    }
    if let Some(at) = f.get("kind") {
        let words: Vec<Id> = r.one_or_many(&at, "kinds", MAX_WORDS);
        for word in &words {
            let word = if word.as_str() == INLINE.0 { INLINE.1 } else { word.as_str() };
            if !KINDS.contains(&word) {
                r.error(&at, format!("{} is no kind of function", quote(word)), did_you_mean(word, &KINDS));
            }
            c.kind.push(word.to_owned());
        }
    }
    if let Some(at) = f.get("version") {
        c.version = r.parse(&at, "a range of versions");
    }
    Some(c)
}

#[cfg(test)]
mod tests {
    use crate::graph::ServiceGraph;

    fn function(text: &str) -> Result<ServiceGraph, String> {
        ServiceGraph::parse(&format!("id: g\nname: g\nSFs:\n  - {{id: f, {text}}}\n"))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_function_may_be_asked_for_by_what_it_can_do() {
        let graph = function(
            "capability: firewall, constraints: {ports: 3, features: ipv6, memory: 64MB, cpu: 500, proved: true, \
             kind: [inline, container], version: '>=1.2,<2'}",
        );
        let graph = graph.unwrap();
        let f = &graph.functions[0];
        assert_eq!((f.name.as_str(), f.capability.as_ref().unwrap().as_str()), ("firewall", "firewall"));
        let c = &f.constraints;
        assert_eq!(
            (c.ports, c.memory.unwrap().bytes(), c.cpu, c.proved),
            (Some(3), 64 << 20, Some(500), true)
        );
        assert_eq!((c.kind.join(" "), c.features[0].as_str()), ("click container".to_owned(), "ipv6"));
        assert_eq!(c.version.as_ref().unwrap().to_string(), ">=1.2, <2");
        assert_eq!(ServiceGraph::from_json(&graph.to_json().to_string()).unwrap(), graph);
        let named = function("capability: nat, name: the gateway").unwrap();
        assert!(
            named.functions[0].name.as_str() == "the gateway" && named.functions[0].constraints.is_empty()
        );
    }

    #[test]
    fn mistakes_are_said_with_what_would_be_right() {
        for (text, message) in [
            ("ports: [a]", "name"),
            ("capability: 'a firewall'", "identifier"),
            ("capability: firewall, template: firewall", "leave out one of them"),
            ("name: firewall, constraints: {ports: 3}", "add \"capability\""),
            ("capability: a, constraints: {ports: 0}", "1 to 256"),
            ("capability: a, constraints: {kind: containr}", "did you mean \"container\"?"),
            ("capability: a, constraints: {features: [a, a]}", "twice"),
            ("capability: a, constraints: {memory: 64}", "such as 64 MB"),
            ("capability: a, constraints: {version: new}", ">=1.2"),
            ("capability: a, constraints: {proven: true}", "did you mean \"proved\"?"),
        ] {
            let e = function(text).unwrap_err();
            assert!(e.contains(message), "{text}: {e}");
        }
    }
}
