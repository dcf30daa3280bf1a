//! YAML text to nodes, from the parser's events: scalars keep their text, aliases are copied within a budget.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::{Budget, Kind, MAX_ALIAS_NODES, MAX_DEPTH, MAX_NODES, Node, too_deep};
use crate::error::{DocErrors, Position};

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    budget: Budget,
    alias_budget: usize,
}

pub(super) fn parse(text: &str) -> Result<Node, DocErrors> {
    let mut b = Builder {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        budget: Budget(MAX_NODES),
        alias_budget: MAX_ALIAS_NODES,
    };
    let mut root = None;
    while let Some((event, position)) = b.next()? {
        match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
            _ if root.is_some() => {
                return Err(DocErrors::one(
                    position,
                    "a second YAML document begins here",
                    "write one document in a file",
                ));
            }
            event => root = Some(b.node(event, position, 0)?),
        }
    }
    root.ok_or_else(|| DocErrors::one(None, "the document is empty", ""))
}

impl<'a> Builder<'a> {
    /// The next event that is not a comment.
    fn next(&mut self) -> Result<Option<(Event<'a>, Option<Position>)>, DocErrors> {
        loop {
            match self.parser.next_event() {
                None => return Ok(None),
                Some(Err(e)) => {
                    let m = e.marker();
                    let position = Position { line: m.line(), column: m.col() + 1 };
                    return Err(DocErrors::one(Some(position), format!("not YAML: {}", e.info()), ""));
                }
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok((event, span))) => return Ok(Some((event, Some(position(&span))))),
            }
        }
    }

    fn node(
        &mut self,
        event: Event<'a>,
        position: Option<Position>,
        depth: usize,
    ) -> Result<Node, DocErrors> {
        if depth > MAX_DEPTH {
            return Err(too_deep(position));
        }
        self.budget.take(1, position)?;
        let (kind, anchor) = match event {
            Event::Alias(id) => return self.alias(id, position),
            Event::Scalar(text, style, anchor, tag) => {
                let forced_text = match tag {
                    None => false,
                    Some(t) if t.is_yaml_core_schema_tag("str") => true,
                    Some(t) => return Err(unknown_tag(&t.original(), position)),
                };
                let text = text.into_owned();
                let plain = matches!(style, ScalarStyle::Plain) && !forced_text;
                (if plain { Kind::Plain(text) } else { Kind::Text(text) }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_tag(tag.as_deref(), "seq", position)?;
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Some((Event::SequenceEnd, _)) | None => break,
                        Some((event, at)) => items.push(self.node(event, at, depth + 1)?),
                    }
                }
                (Kind::List(items), anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_tag(tag.as_deref(), "map", position)?;
                (Kind::Map(self.entries(depth)?), anchor)
            }
            _ => return Err(DocErrors::one(position, "a value is missing here", "")),
        };
        let node = Node { position, kind };
        if anchor != 0 {
            // The stored copy counts too: nested anchors would otherwise hold a document many times.
            self.budget.take(size(&node), position)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn entries(&mut self, depth: usize) -> Result<Vec<(String, Node)>, DocErrors> {
        let mut entries = Vec::new();
        loop {
            let (event, at) = match self.next()? {
                Some((Event::MappingEnd, _)) | None => return Ok(entries),
                Some(next) => next,
            };
            let key = self.node(event, at, depth + 1)?;
            let (Kind::Plain(name) | Kind::Text(name)) = key.kind else {
                return Err(DocErrors::one(at, format!("a key is {}", key.describe()), "a key is a word"));
            };
            let Some((event, value_at)) = self.next()? else { return Ok(entries) };
            let mut value = self.node(event, value_at, depth + 1)?;
            if matches!(value.kind, Kind::List(_) | Kind::Map(_)) || value.is_null() {
                // A block's own position is that of its first entry; the key's line says more.
                value.position = at;
            }
            entries.push((name, value));
        }
    }

    fn alias(&mut self, id: usize, position: Option<Position>) -> Result<Node, DocErrors> {
        let Some(target) = self.anchors.get(&id) else {
            return Err(DocErrors::one(
                position,
                "an alias refers to a value that contains it",
                "write the value out",
            ));
        };
        let nodes = size(target);
        match self.alias_budget.checked_sub(nodes) {
            Some(left) => self.alias_budget = left,
            None => {
                let message = "the aliases of this document stand for too many values";
                return Err(DocErrors::one(position, message, format!("at most {MAX_ALIAS_NODES} are read")));
            }
        }
        let mut copy = target.clone();
        copy.position = position;
        Ok(copy)
    }
}

fn size(node: &Node) -> usize {
    1 + match &node.kind {
        Kind::List(items) => items.iter().map(size).sum(),
        Kind::Map(entries) => entries.iter().map(|(_, n)| size(n)).sum(),
        _ => 0,
    }
}

fn position(span: &Span) -> Position {
    Position { line: span.start.line(), column: span.start.col() + 1 }
}

fn refuse_tag(
    tag: Option<&granit_parser::Tag>,
    allowed: &str,
    position: Option<Position>,
) -> Result<(), DocErrors> {
    match tag {
        Some(t) if !t.is_yaml_core_schema_tag(allowed) => Err(unknown_tag(&t.original(), position)),
        _ => Ok(()),
    }
}

fn unknown_tag(tag: &str, position: Option<Position>) -> DocErrors {
    DocErrors::one(
        position,
        format!("the YAML tag {} has no meaning here", crate::error::quote(tag)),
        "leave it out",
    )
}
