//! The images of a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_model::graph::ParamValue;
use weir_model::template::{Param, ParamType};

/// The images of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageList {
    /// Those that graphs can use.
    pub images: Vec<ImageSummary>,
    /// Those that cannot be read.
    pub errors: Vec<ImageError>,
}

/// An image that cannot be used. Others are not concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageError {
    /// The image's name, as far as it is known.
    pub name: String,
    /// The file or directory.
    pub path: String,
    /// What is wrong with it, one line each.
    pub errors: Vec<String>,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageSummary {
    /// The name that graphs ask for.
    pub name: String,
    /// What runs it: `click` (the data plane, inline) or `native`.
    pub kind: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it can be used as: graphs may ask for it by these words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// What it has beside the usual, for graphs that ask for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// What it does.
    pub description: String,
    /// Names of its ports.
    pub ports: Vec<String>,
    /// Its parameters.
    pub params: Vec<Parameter>,
    /// Names of its public handlers with `r`, `w` or `rw`.
    pub handlers: BTreeMap<String, String>,
}

/// A parameter of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub doc: String,
    /// What values it takes: `text`, `int`, `bool`, `ip`, `prefix`, `mac` or `port`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: ParamType,
    /// The same in words, with bounds.
    pub values: String,
    /// Its value, as text, if a graph gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Whether a graph must give it.
    pub required: bool,
    /// Whether it is a secret, which is shown to nobody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

impl Parameter {
    /// What a template says of one.
    pub fn new(p: &Param) -> Parameter {
        let text = |value: &ParamValue| match value {
            ParamValue::Bool(b) => b.to_string(),
            ParamValue::Int(n) => n.to_string(),
            ParamValue::Text(t) => t.clone(),
        };
        Parameter {
            name: p.name.clone(),
            doc: p.doc.clone(),
            kind: p.kind,
            secret: p.secret,
            values: p.values(),
            default: p.default.as_ref().map(text),
            required: p.default.is_none(),
        }
    }
}

/// An image in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageDetails {
    /// The name that graphs ask for.
    pub name: String,
    /// What runs it: `click` (the data plane, inline) or `native`.
    pub kind: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it can be used as: graphs may ask for it by these words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// What it has beside the usual, for graphs that ask for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// What it does.
    pub description: String,
    /// A hash of all that is in its folder: nodes that say the same have the same image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Its ports, in their order.
    pub ports: Vec<ImagePort>,
    /// Its parameters.
    pub params: Vec<Parameter>,
    /// Its public handlers.
    pub handlers: Vec<ImageHandler>,
}

/// Which tables of an image are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageTablesRequest {
    /// Values of its parameters, as in documents.
    #[schema(value_type = Object)]
    pub params: BTreeMap<String, serde_json::Value>,
}

/// The tables of a function of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageTables {
    /// Those that packets change.
    pub tables: Vec<ImageTable>,
}

/// A table of a function, as it is declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageTable {
    /// The element that it is of, within the function; or the name by which several elements share it.
    pub element: String,
    /// The element's class; empty if several share it.
    pub class: String,
    /// Its name.
    pub name: String,
    /// How entries are found: `exact`, `lpm`, `rules` or `array`.
    pub kind: String,
    /// The fields of keys.
    pub key: Vec<TableField>,
    /// The fields of values.
    pub value: Vec<TableField>,
    /// Most entries.
    pub capacity: u32,
}

/// A field of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableField {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bits: u32,
}

/// A port of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImagePort {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub doc: String,
}

/// A public handler of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageHandler {
    /// Its name.
    pub name: String,
    /// `r`, `w` or `rw`.
    pub access: String,
    /// What it is for.
    pub doc: String,
}
