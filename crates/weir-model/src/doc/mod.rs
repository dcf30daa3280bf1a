//! A document as a tree of nodes with positions: the common form of JSON and YAML, before it is given types.

mod json;
mod read;
mod yaml;

pub use read::{At, Fields, Reader, did_you_mean, optional};

use crate::error::{DocErrors, Position};

/// Nesting limit of any document: deeper than every format here needs, shallow enough for recursive code.
const MAX_DEPTH: usize = 32;
/// Node limit of any document; 100,000 flow rules of 25 values fit.
const MAX_NODES: usize = 3_000_000;
/// Nodes that YAML aliases may add in all ("billion laughs" protection).
const MAX_ALIAS_NODES: usize = 100_000;
/// Text limit of any document, bytes. What arrives over REST is limited to less: [`crate::graph::MAX_BODY`].
pub const MAX_TEXT: usize = 32 << 20;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it stands, if it came as text.
    pub position: Option<Position>,
    /// What it is.
    pub kind: Kind,
}

/// Scalars keep their text: `0x1` as an identifier must not become the number 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A JSON number.
    Number(String),
    /// A JSON string or a quoted YAML scalar.
    Text(String),
    /// An unquoted YAML scalar: number, truth value or text, as the reader needs it.
    Plain(String),
    /// A list.
    List(Vec<Node>),
    /// Names and values; a name may come twice.
    Map(Vec<(String, Node)>),
}

/// Whether [`Node::parse`] takes a text for JSON: it begins with `{` and a name in quotes, or is empty. In YAML's flow style, names need none.
pub fn is_json(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix('{').map(str::trim_start);
    inside.is_some_and(|t| t.is_empty() || t.starts_with(['"', '}']))
}

impl Node {
    /// Parses JSON or YAML ([`is_json`]).
    pub fn parse(text: &str) -> Result<Node, DocErrors> {
        if is_json(text) { Self::from_json(text) } else { Self::from_yaml(text) }
    }

    /// Parses JSON (RFC 8259).
    pub fn from_json(text: &str) -> Result<Node, DocErrors> {
        check_size(text)?;
        json::parse(text)
    }

    /// Parses one YAML 1.2 document.
    pub fn from_yaml(text: &str) -> Result<Node, DocErrors> {
        check_size(text)?;
        yaml::parse(text)
    }

    /// The tree of a JSON value; it has no positions.
    pub fn from_value(value: &serde_json::Value) -> Result<Node, DocErrors> {
        // Through text: one path to limits and numbers.
        let mut node = json::parse(&value.to_string())?;
        node.forget_positions();
        Ok(node)
    }

    fn forget_positions(&mut self) {
        self.position = None;
        match &mut self.kind {
            Kind::List(items) => items.iter_mut().for_each(Node::forget_positions),
            Kind::Map(entries) => entries.iter_mut().for_each(|(_, n)| n.forget_positions()),
            _ => {}
        }
    }

    /// What the value is, in words for a message.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".into(),
            Kind::Bool(b) => format!("{b}"),
            _ if self.is_null() => "nothing".into(),
            Kind::Number(n) => n.chars().take(60).collect(),
            Kind::Plain(t) => crate::error::quote(t),
            Kind::Text(t) => format!("the text {}", crate::error::quote(t)),
            Kind::List(_) => "a list".into(),
            Kind::Map(_) => "a map".into(),
        }
    }

    /// The scalar's text; `None` for null, lists and maps.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Bool(true) => Some("true"),
            Kind::Bool(false) => Some("false"),
            Kind::Text(t) => Some(t),
            Kind::Number(t) => Some(t),
            Kind::Plain(t) if !self.is_null() => Some(t),
            _ => None,
        }
    }

    /// The text of a number of JSON that is whole but not written so, such as 80.0 or 1e3, which JSON Schema takes for whole.
    pub fn whole(&self) -> Option<String> {
        let Kind::Number(text) = &self.kind else { return None };
        let number: f64 = text.parse().ok()?;
        // Greater ones are not exact.
        let whole = number.fract() == 0.0 && number.abs() < 9e15;
        (whole && text.contains(['.', 'e', 'E'])).then(|| format!("{number:.0}"))
    }

    /// True for JSON `null` and YAML's spellings of it.
    pub fn is_null(&self) -> bool {
        match &self.kind {
            Kind::Null => true,
            Kind::Plain(t) => matches!(t.as_str(), "" | "~" | "null"),
            _ => false,
        }
    }

    /// The truth value, if it is one.
    pub fn bool(&self) -> Option<bool> {
        match &self.kind {
            Kind::Bool(b) => Some(*b),
            Kind::Plain(t) if t == "true" => Some(true),
            Kind::Plain(t) if t == "false" => Some(false),
            _ => None,
        }
    }
}

fn check_size(text: &str) -> Result<(), DocErrors> {
    if text.len() <= MAX_TEXT {
        return Ok(());
    }
    Err(DocErrors::one(
        None,
        format!("the document has {} bytes", text.len()),
        format!("at most {MAX_TEXT} are read"),
    ))
}

/// Counts nodes against a limit while a tree is built.
struct Budget(usize);

impl Budget {
    fn take(&mut self, nodes: usize, position: Option<Position>) -> Result<(), DocErrors> {
        match self.0.checked_sub(nodes) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(DocErrors::one(
                position,
                "the document has too many values",
                format!("at most {MAX_NODES} are read"),
            )),
        }
    }
}

fn too_deep(position: Option<Position>) -> DocErrors {
    DocErrors::one(
        position,
        "the document is nested too deeply",
        format!("at most {MAX_DEPTH} levels are read"),
    )
}
