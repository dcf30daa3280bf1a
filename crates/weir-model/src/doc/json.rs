//! JSON text to nodes. `serde_json` reads; borrowed raw values say where each value stands, since they are slices of the text.

use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Budget, Kind, MAX_DEPTH, MAX_NODES, Node, too_deep};
use crate::error::{DocErrors, Position};

/// The entries of an object in order, duplicates included, so that the reader can report them.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Entries<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        d.deserialize_map(V)
    }
}

struct Text<'a> {
    text: &'a str,
    line_starts: Vec<usize>,
    budget: Budget,
}

pub(super) fn parse(text: &str) -> Result<Node, DocErrors> {
    let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
    let mut source = Text { text, line_starts, budget: Budget(MAX_NODES) };
    let root: &RawValue = serde_json::from_str(text).map_err(|e| {
        let position = (e.line() > 0).then(|| Position { line: e.line(), column: e.column().max(1) });
        DocErrors::one(position, format!("not JSON: {}", reason(&e)), "")
    })?;
    source.node(root, 0)
}

impl<'a> Text<'a> {
    fn node(&mut self, raw: &'a RawValue, depth: usize) -> Result<Node, DocErrors> {
        let slice = raw.get();
        let position = self.position(slice);
        if depth > MAX_DEPTH {
            return Err(too_deep(position));
        }
        self.budget.take(1, position)?;
        let bad = |e: serde_json::Error| DocErrors::one(position, format!("not JSON: {}", reason(&e)), "");
        let kind = match slice.as_bytes().first() {
            Some(b'{') => {
                let entries: Entries<'a> = serde_json::from_str(slice).map_err(bad)?;
                let nodes: Result<_, _> =
                    entries.0.into_iter().map(|(k, v)| Ok((k, self.node(v, depth + 1)?))).collect();
                Kind::Map(nodes?)
            }
            Some(b'[') => {
                let items: Vec<&'a RawValue> = serde_json::from_str(slice).map_err(bad)?;
                Kind::List(items.into_iter().map(|v| self.node(v, depth + 1)).collect::<Result<_, _>>()?)
            }
            Some(b'"') => Kind::Text(serde_json::from_str(slice).map_err(bad)?),
            Some(b't') => Kind::Bool(true),
            Some(b'f') => Kind::Bool(false),
            Some(b'n') => Kind::Null,
            _ => Kind::Number(slice.to_string()),
        };
        Ok(Node { position, kind })
    }

    /// Where a slice of the text begins.
    fn position(&self, slice: &str) -> Option<Position> {
        let offset = (slice.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize)?;
        let line = self.line_starts.partition_point(|&s| s <= offset);
        let start = *self.line_starts.get(line.checked_sub(1)?)?;
        Some(Position { line, column: self.text.get(start..offset)?.chars().count() + 1 })
    }
}

/// The parser's reason without its own position, which stands in [`Position`] already.
fn reason(e: &serde_json::Error) -> String {
    let text = e.to_string();
    match text.rfind(" at line ") {
        Some(i) => text[..i].to_string(),
        None => text,
    }
}
