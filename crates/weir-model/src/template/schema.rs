//! What the schema that is derived from a template does not say: the spellings beside the canonical one.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{Handler, TemplatePort};
use crate::value::Id;

pub(super) fn ports(g: &mut SchemaGenerator) -> Schema {
    let port = g.subschema_for::<TemplatePort>();
    json_schema!({ "type": "array", "items": { "anyOf": [port, g.subschema_for::<Id>()] } })
}

pub(super) fn handlers(g: &mut SchemaGenerator) -> Schema {
    let handler = g.subschema_for::<Handler>();
    json_schema!({ "type": "object", "additionalProperties": { "anyOf": [handler, { "type": "string" }] } })
}
