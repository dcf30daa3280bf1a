//! JSON Schemas of the documents, for editors and generators, and the tables of the manual that are made of them.
//!
//! A document that a schema accepts may still have, for example, a reference that leads nowhere; one that a reader accepts is accepted by
//! its schema.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::value::ADDRESS;
use crate::{graph, request, template};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// A kind of document that is read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// A service graph.
    Graph,
    /// A function template, `function.yaml`.
    Function,
    /// A request for processing, which is text.
    Request,
}

impl Document {
    /// Its JSON Schema (draft 2020-12).
    pub fn json_schema(self) -> Value {
        as_read(self.plain_schema())
    }

    /// The same as its author thinks of it: numbers are numbers, and a field that may be left out is left out.
    fn plain_schema(self) -> Value {
        match self {
            Document::Graph => graph::json_schema(),
            Document::Function => of::<template::Template>("Weir function template"),
            Document::Request => request::json_schema(),
        }
    }

    /// Its fields as tables in Markdown, a section for each part of the document; headings have the third level.
    pub fn tables(self) -> String {
        let root = match self {
            Document::Graph => "ServiceGraph",
            Document::Function => "Template",
            // It has no fields.
            Document::Request => return String::new(),
        };
        let schema = self.plain_schema();
        let Some(definitions) = schema["$defs"].as_object() else { return String::new() };
        Manual { definitions, out: String::new() }.write(root)
    }
}

/// A schema that takes all spellings that readers take: numbers as text and text as numbers or truth values, and nothing where a field may
/// be left out.
pub fn as_read(mut schema: Value) -> Value {
    relax(&mut schema);
    schema
}

fn relax(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            relax_scalar(map);
            let required = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    "properties" => {
                        for (name, field) in value.as_object_mut().into_iter().flatten() {
                            relax(field);
                            if !required.iter().any(|r| r == name) {
                                or_nothing(field);
                            }
                        }
                    }
                    "enum" | "const" | "default" | "examples" | "required" => {}
                    _ => relax(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(relax),
        _ => {}
    }
}

/// The types of a schema.
fn types(schema: &Map<String, Value>) -> Vec<String> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn relax_scalar(schema: &mut Map<String, Value>) {
    let mut types = types(schema);
    let has = |types: &[String], wanted: &str| types.iter().any(|t| t == wanted);
    if schema.contains_key("enum") || schema.contains_key("const") || types.is_empty() {
        return;
    }
    if has(&types, "integer") && !has(&types, "string") {
        types.push("string".into());
        schema.insert("pattern".into(), "^([0-9]+|0x[0-9A-Fa-f]+)$".into());
    } else if schema.get("format").is_some_and(|f| f == "ip") {
        schema.insert("pattern".into(), format!("^{ADDRESS}$").into());
    } else if types == ["string"]
        && !["pattern", "format", "contentMediaType"].iter().any(|k| schema.contains_key(*k))
    {
        types.extend(["number".to_owned(), "boolean".to_owned()]);
    } else {
        return;
    }
    schema.insert("type".into(), types.into());
}

fn or_nothing(field: &mut Value) {
    let Some(map) = field.as_object_mut() else { return };
    let mut types = types(map);
    let closed = ["enum", "const", "$ref", "anyOf", "oneOf", "allOf"].iter().any(|k| map.contains_key(*k));
    if !types.is_empty() && !closed {
        if !types.iter().any(|t| t == "null") {
            types.push("null".into());
            map.insert("type".into(), types.into());
        }
        return;
    }
    let description = map.remove("description");
    let inner = std::mem::take(field);
    *field = json!({ "anyOf": [inner, { "type": "null" }] });
    if let Some(description) = description {
        field["description"] = description;
    }
}

/// The schema of a document of this type.
pub fn of<T: JsonSchema>(title: &str) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let root = generator.subschema_for::<T>();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "$defs": generator.take_definitions(true),
    });
    schema["$ref"] = root.to_value()["$ref"].take();
    schema
}

/// The manual of one document.
struct Manual<'s> {
    definitions: &'s Map<String, Value>,
    out: String,
}

impl<'s> Manual<'s> {
    fn write(mut self, root: &'s str) -> String {
        let (mut sections, mut values) = (vec![root], Vec::new());
        let mut next = 0;
        while let Some(&name) = sections.get(next) {
            next += 1;
            let Some(schema) = self.definitions.get(name) else { continue };
            self.section(name, schema);
            let mut found = Vec::new();
            references(schema, &mut found);
            for name in found {
                let list = if self.is_section(name) { &mut sections } else { &mut values };
                if !list.contains(&name) {
                    list.push(name);
                }
                // What a value is made of may have sections of its own.
                if let Some(value) = self.definitions.get(name).filter(|_| !self.is_section(name)) {
                    let mut inner = Vec::new();
                    references(value, &mut inner);
                    for name in inner.into_iter().filter(|n| self.is_section(n)) {
                        if !sections.contains(&name) {
                            sections.push(name);
                        }
                    }
                }
            }
        }
        values.sort_unstable();
        self.values(&values);
        self.out
    }

    /// Whether a definition has fields, and so a section.
    fn is_section(&self, name: &str) -> bool {
        let Some(schema) = self.definitions.get(name) else { return false };
        schema.get("properties").is_some()
            || variants(schema).is_some_and(|v| v.iter().any(|v| v.get("properties").is_some()))
    }

    fn section(&mut self, name: &str, schema: &Value) {
        let first = self.out.is_empty();
        _ = writeln!(self.out, "### {}\n", words(name));
        // What the document is as a whole, stands above the tables.
        if let Some(text) = description(schema).filter(|_| !first) {
            _ = writeln!(self.out, "{text}\n");
        }
        self.table(schema, None);
        for variant in variants(schema).into_iter().flatten() {
            let tag = variant["properties"].as_object().and_then(|p| {
                p.iter().find_map(|(field, value)| Some((field.as_str(), value.get("const")?.as_str()?)))
            });
            let Some((field, value)) = tag else { continue };
            let text = description(variant).unwrap_or_default();
            _ = writeln!(self.out, "`{field}: {value}`: {text}\n");
            self.table(variant, Some(field));
        }
    }

    /// The fields of an object but `without`.
    fn table(&mut self, schema: &Value, without: Option<&str>) {
        let Some(properties) = schema["properties"].as_object() else { return };
        let rows: Vec<_> = properties.iter().filter(|(name, _)| Some(name.as_str()) != without).collect();
        if rows.is_empty() {
            return;
        }
        self.out.push_str("| field | holds | is |\n|---|---|---|\n");
        for (name, value) in rows {
            let required = schema["required"].as_array().is_some_and(|r| r.iter().any(|n| n == name));
            let needed = if required { "; needed" } else { "" };
            let text = description(value).unwrap_or_default();
            _ = writeln!(self.out, "| `{name}` | {}{needed} | {} |", cell(&self.value(value)), cell(&text));
        }
        self.out.push('\n');
    }

    fn values(&mut self, names: &[&str]) {
        if names.is_empty() {
            return;
        }
        self.out.push_str("### Values\n\n| value | is written as |\n|---|---|\n");
        for name in names {
            let Some(schema) = self.definitions.get(*name) else { continue };
            let text = match (description(schema), self.value(schema)) {
                (Some(text), form) if variants(schema).is_some() => format!("{text} {form}."),
                (Some(text), _) => text,
                (None, form) => form,
            };
            _ = writeln!(self.out, "| {} | {} |", words(name), cell(&text));
        }
        self.out.push('\n');
    }

    /// What a value may be, in words.
    fn value(&self, schema: &Value) -> String {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next()) {
            let target = if self.is_section(name) { anchor(&words(name)) } else { "values".to_owned() };
            return format!("[{}](#{target})", words(name));
        }
        if let Some(word) = schema.get("const") {
            return format!("`{}`", word.as_str().map_or_else(|| word.to_string(), str::to_owned));
        }
        if let Some(list) = schema.get("enum").and_then(Value::as_array) {
            let list = list.iter().filter_map(Value::as_str).map(|w| format!("`{w}`"));
            return list.collect::<Vec<_>>().join(", ");
        }
        if let Some(forms) = variants(schema) {
            let mut found: Vec<String> = Vec::new();
            for form in forms.iter().map(|form| self.value(form)).filter(|form| !form.is_empty()) {
                if !found.contains(&form) {
                    found.push(form);
                }
            }
            return found.join(" or ");
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let one = |kind: &&str| match *kind {
            "string" => "text".to_owned(),
            "boolean" => "true or false".to_owned(),
            "integer" | "number" => number(schema),
            "array" => format!("list of: {}", self.value(&schema["items"])),
            "object" => match schema.get("additionalProperties") {
                Some(value @ Value::Object(_)) => format!("map from names to: {}", self.value(value)),
                _ => "map".to_owned(),
            },
            // A field that holds nothing is one that is not there.
            _ => String::new(),
        };
        types.iter().map(one).filter(|t| !t.is_empty()).collect::<Vec<_>>().join(" or ")
    }
}

/// The definitions that a schema names, in their order.
fn references<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
    match schema {
        Value::Object(map) => {
            if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next()) {
                found.push(name);
            }
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(items) => items.iter().for_each(|v| references(v, found)),
        _ => {}
    }
}

fn variants(schema: &Value) -> Option<&Vec<Value>> {
    schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array)
}

fn description(schema: &Value) -> Option<String> {
    let text = schema.get("description")?.as_str()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn number(schema: &Value) -> String {
    let bound =
        |name: &str, other: &str| schema.get(name).or_else(|| schema.get(other)).and_then(Value::as_i64);
    let most = match schema["format"].as_str() {
        Some("uint8") => Some(255),
        Some("uint16") => Some(65_535),
        _ => None,
    };
    match (bound("minimum", "exclusiveMinimum"), bound("maximum", "exclusiveMaximum").or(most)) {
        (Some(lo), Some(hi)) => format!("number, {lo} to {hi}"),
        _ => "number".to_owned(),
    }
}

/// `PortRef` as `Port ref`.
fn words(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if i > 0 && c.is_ascii_uppercase() {
            out.push(' ');
        }
        out.push(if i == 0 { c } else { c.to_ascii_lowercase() });
    }
    out
}

/// How Markdown's readers name a heading.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
