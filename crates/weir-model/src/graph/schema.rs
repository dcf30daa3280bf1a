//! The JSON Schema of the service graph. What derives cannot say, the spellings beside the canonical one, stands here.

use std::borrow::Cow;

use super::{Actions, GraphParts, HandlerWrite, MAX_PORTS, Port, PortRef, ServiceGraph, VlanMatch};
use crate::requirement::Requirement;
use crate::value::{HostAddress, Id, VlanId};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// The JSON Schema (draft 2020-12) of the service graph document, with or without the outer `sffg`.
///
/// The schema is for editors and generators: a document that it accepts may still have, for example, a reference that leads nowhere.
pub fn sffg_json_schema() -> serde_json::Value {
    crate::schema::Document::Graph.json_schema()
}

/// The same with each value in its canonical type only.
pub(crate) fn json_schema() -> serde_json::Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let graph = generator.subschema_for::<ServiceGraph>();
    let definitions = generator.take_definitions(true);
    serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Service Functions - Forwarding Graph",
        "type": "object",
        // Not "anyOf", whose errors only say that neither fits.
        "if": { "required": ["sffg"] },
        "then": { "properties": { "sffg": graph }, "required": ["sffg"], "additionalProperties": false },
        "else": graph,
        "$defs": definitions,
    })
}

/// A function has a name, or a capability; constraints go with a capability, and a template does not.
pub(super) fn named_or_asked_for(function: &mut Schema) {
    let there = serde_json::json!({ "not": { "type": "null" } });
    let nothing = serde_json::json!({ "type": "null" });
    function.insert(
        "if".into(),
        serde_json::json!({ "required": ["capability"], "properties": { "capability": there } }),
    );
    function.insert("then".into(), serde_json::json!({ "properties": { "template": nothing } }));
    let name =
        serde_json::json!({ "required": ["name"], "properties": { "name": there, "constraints": nothing } });
    function.insert("else".into(), name);
}

pub(super) fn ports(g: &mut SchemaGenerator) -> Schema {
    let port = g.subschema_for::<Port>();
    json_schema!({
        "type": "array",
        "maxItems": MAX_PORTS,
        "items": { "anyOf": [port, g.subschema_for::<Id>()] }
    })
}

pub(super) fn handlers(g: &mut SchemaGenerator) -> Schema {
    let write = g.subschema_for::<HandlerWrite>();
    let text = serde_json::json!({ "type": "string" });
    json_schema!({
        "anyOf": [
            { "type": "array", "items": write },
            { "type": "object", "additionalProperties": { "anyOf": [text, { "type": "array", "items": text }] } }
        ]
    })
}

pub(super) fn monitoring(_: &mut SchemaGenerator) -> Schema {
    let scalar = serde_json::json!({ "type": ["string", "number", "boolean"] });
    json_schema!({
        "anyOf": [
            { "type": "string", "maxLength": weir_measure::MAX_TEXT },
            {
                "type": "object",
                "properties": {
                    "measurements": {
                        "type": "object",
                        "maxProperties": weir_measure::MAX_MEASUREMENTS,
                        "additionalProperties": {
                            "type": "object", "properties": { "metric": { "type": "string" } },
                            "required": ["metric"], "additionalProperties": scalar
                        }
                    },
                    "zones": {
                        "type": "object",
                        "maxProperties": weir_measure::MAX_ZONES,
                        "additionalProperties": { "anyOf": [
                            { "type": "string" },
                            {
                                "type": "object",
                                "properties": { "when": { "type": "string" }, "for": { "type": "string" } },
                                "required": ["when"], "additionalProperties": false
                            }
                        ] }
                    },
                    "actions": {
                        "type": "array",
                        "maxItems": weir_measure::MAX_ACTIONS,
                        "items": {
                            "type": "object",
                            "properties": {
                                "on": { "type": "string" }, "topic": { "type": "string" }, "message": { "type": "string" }
                            },
                            "required": ["on", "topic", "message"], "additionalProperties": false
                        }
                    }
                },
                "additionalProperties": false
            },
            { "type": "null" }
        ]
    })
}

pub(super) fn actions(g: &mut SchemaGenerator) -> Schema {
    let actions = g.subschema_for::<Actions>();
    json_schema!({
        "anyOf": [
            actions,
            {
                "type": "array",
                "items": { "anyOf": [{ "enum": ["pop_vlan", "dec_ttl", "drop"] }, { "allOf": [actions], "maxProperties": 1 }] }
            }
        ]
    })
}

pub(super) fn outputs(g: &mut SchemaGenerator) -> Schema {
    let port = g.subschema_for::<PortRef>();
    json_schema!({ "anyOf": [port, { "type": "array", "items": port, "minItems": 1 }] })
}

pub(super) fn ip_proto(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0, "maximum": 255 }, { "type": "string", "pattern": "^(0x[0-9A-Fa-f]+|[0-9]+|[a-z][a-z0-9.-]*)$" }] })
}

pub(super) fn gre_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0, "maximum": u32::MAX }, { "type": "string", "pattern": "^(0x[0-9A-Fa-f]+|[0-9]+)$" }] })
}

pub(super) fn vni(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0, "maximum": 0xff_ffff }, { "type": "string", "pattern": "^(0x[0-9A-Fa-f]+|[0-9]+)$" }] })
}

pub(super) fn host_addresses(g: &mut SchemaGenerator) -> Schema {
    let address = g.subschema_for::<HostAddress>();
    json_schema!({ "anyOf": [address, { "type": "array", "items": address, "maxItems": 2 }] })
}

impl JsonSchema for ServiceGraph {
    fn schema_name() -> Cow<'static, str> {
        "ServiceGraph".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        GraphParts::json_schema(g)
    }
}

impl JsonSchema for PortRef {
    fn schema_name() -> Cow<'static, str> {
        "PortRef".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "sap:ID (or service-access-point:ID) or sf:FUNCTION:PORT",
            "type": "string", "pattern": "^((service-access-point|sap):.+|sf:[^:]+:.+)$"
        })
    }
}

impl JsonSchema for VlanMatch {
    fn schema_name() -> Cow<'static, str> {
        "VlanMatch".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let id = g.subschema_for::<VlanId>();
        json_schema!({ "anyOf": [id, { "const": "none" }] })
    }
}

impl JsonSchema for Requirement {
    fn schema_name() -> Cow<'static, str> {
        "Requirement".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "A requirement such as \"can sap:lan sap:wan tcp\".", "type": "string", "minLength": 1 })
    }
}
