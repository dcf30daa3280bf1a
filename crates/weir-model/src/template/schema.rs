//! What the schema that is derived from a template does not say: the spellings beside the canonical one.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{Container, Dpdk, Handler, MAX_WORDS, Native, Process, SubGraph, TemplatePort, Vm};
use crate::value::Id;

pub(super) fn ports(g: &mut SchemaGenerator) -> Schema {
    let port = g.subschema_for::<TemplatePort>();
    json_schema!({ "type": "array", "items": { "anyOf": [port, g.subschema_for::<Id>()] } })
}

/// One word, or several in a list.
pub(crate) fn words(g: &mut SchemaGenerator) -> Schema {
    let word = g.subschema_for::<Id>();
    json_schema!({ "anyOf": [word, { "type": "array", "items": word, "maxItems": MAX_WORDS, "uniqueItems": true }] })
}

pub(super) fn handlers(g: &mut SchemaGenerator) -> Schema {
    let handler = g.subschema_for::<Handler>();
    json_schema!({ "type": "object", "additionalProperties": { "anyOf": [handler, { "type": "string" }] } })
}

/// The fields that say what runs a function.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is asked for")]
pub(super) struct Fields {
    /// What runs the function: `click` (the data plane, inline), `process` (a data plane of its own, in a process
    /// without privileges), `native` (programs of the node), `dpdk` (a DPDK program), `vm`
    /// (a virtual machine), `container` or `graph` (other functions).
    #[schemars(default = "click")]
    kind: Kind,
    /// Of kinds `click` and `process`: the script; it may stand beside the document instead, in `function.click`.
    #[schemars(default)]
    click: String,
    /// Of kind `process`: what it may take.
    #[schemars(default)]
    process: Process,
    /// Of kind `native`: what it needs. Its scripts stand beside the document, in the folder `scripts`.
    #[schemars(default)]
    native: Native,
    /// Of kind `dpdk`, and needed there: which program, and how it runs.
    #[schemars(default)]
    dpdk: Option<Dpdk>,
    /// Of kind `vm`, and needed there: what runs in it, and how.
    #[schemars(default)]
    vm: Option<Vm>,
    /// Of kind `container`, and needed there: which container image, and how it runs.
    #[schemars(default)]
    container: Option<Container>,
    /// Of kind `graph`, and needed there: the functions that it is made of, and the rules between them.
    #[schemars(default)]
    graph: Option<SubGraph>,
}

/// A kind of function.
#[derive(JsonSchema, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is asked for")]
enum Kind {
    Click,
    Process,
    Native,
    Dpdk,
    Vm,
    Container,
    Graph,
}

fn click() -> Kind {
    Kind::Click
}
