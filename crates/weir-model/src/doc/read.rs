//! Reading typed values out of nodes, collecting every mistake.

use std::fmt::Write as _;
use std::str::FromStr;

use weir_filter::text::{closest, parse_number};

use super::Node;
use crate::doc::Kind;
use crate::error::{DocError, DocErrors, ValueError, quote};

/// Collects mistakes while a document is read.
#[derive(Default)]
pub struct Reader {
    errors: Vec<DocError>,
}

/// A node together with its path from the root.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// The node.
    pub node: &'a Node,
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    /// The root; `name` begins all paths (may be empty).
    pub fn root(node: &'a Node, name: &'a str) -> Self {
        Self { node, parent: None, step: Step::Key(name) }
    }

    /// The value under a key of this node.
    pub fn key(&'a self, name: &'a str, node: &'a Node) -> At<'a> {
        At { node, parent: Some(self), step: Step::Key(name) }
    }

    /// An item of this node.
    pub fn index(&'a self, i: usize, node: &'a Node) -> At<'a> {
        At { node, parent: Some(self), step: Step::Index(i) }
    }

    fn path(&self) -> String {
        let mut path = self.parent.map(At::path).unwrap_or_default();
        match self.step {
            Step::Key("") => {}
            Step::Key(k) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(k);
            }
            Step::Index(i) => {
                let _ = write!(path, "[{i}]");
            }
        }
        path
    }
}

impl Reader {
    /// Records a mistake at `at`.
    pub fn error(&mut self, at: &At<'_>, message: impl Into<String>, help: impl Into<String>) {
        if !self.full() {
            let (message, help) = (message.into(), help.into());
            self.errors.push(DocError { path: at.path(), position: at.node.position, message, help });
        }
    }

    /// No more errors are kept: there is no point in finding words for them.
    fn full(&self) -> bool {
        self.errors.len() >= DocErrors::MAX
    }

    /// Mistakes so far; lets a caller see whether a part was read without any.
    pub fn count(&self) -> usize {
        self.errors.len()
    }

    /// The value, if there was no mistake.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, DocErrors> {
        match value {
            Some(v) if self.errors.is_empty() => Ok(v),
            _ if self.errors.is_empty() => Err(DocErrors::one(None, "the document could not be read", "")),
            _ => Err(DocErrors::new(self.errors)),
        }
    }

    fn expected(&mut self, at: &At<'_>, what: &str) {
        self.error(at, format!("found {}", at.node.describe()), format!("expected {what}"));
    }

    /// A map whose keys are all in `known`, each at most once.
    pub fn fields<'a>(&mut self, at: &'a At<'a>, known: &[&str]) -> Option<Fields<'a>> {
        let fields = self.map(at, &format!("a map with {}", list(known)))?;
        self.known(&fields, known);
        Some(fields)
    }

    /// Reports the keys of a map that are not in `known`.
    pub fn known(&mut self, fields: &Fields<'_>, known: &[&str]) {
        for (name, node) in fields.entries {
            if !known.contains(&name.as_str()) && !self.full() {
                self.error(
                    &fields.at.key(name, node),
                    format!("unknown field {}", quote(name)),
                    did_you_mean(name, known),
                );
            }
        }
    }

    /// A map with any keys, each at most once.
    pub fn map<'a>(&mut self, at: &'a At<'a>, what: &str) -> Option<Fields<'a>> {
        let Kind::Map(entries) = &at.node.kind else {
            self.expected(at, what);
            return None;
        };
        let mut seen = std::collections::HashSet::new();
        for (name, node) in entries {
            if !seen.insert(name.as_str()) {
                self.error(
                    &at.key(name, node),
                    format!("the field {} is given twice", quote(name)),
                    "keep one",
                );
            }
        }
        Some(Fields { at, entries })
    }

    /// The items of a list with at most `max` items.
    pub fn items<'a>(&mut self, at: &'a At<'a>, what: &str, max: usize) -> Option<&'a [Node]> {
        let Kind::List(items) = &at.node.kind else {
            self.expected(at, &format!("a list of {what}"));
            return None;
        };
        if items.len() > max {
            self.error(at, format!("{} {what}", items.len()), format!("at most {max} are allowed"));
            return None;
        }
        Some(items)
    }

    /// The text of a scalar.
    pub fn text<'a>(&mut self, at: &At<'a>, what: &str) -> Option<&'a str> {
        let text = at.node.text();
        if text.is_none() {
            self.expected(at, what);
        }
        text
    }

    /// A scalar in the text form of `T`.
    pub fn parse<T: FromStr<Err: Into<ValueError>>>(&mut self, at: &At<'_>, what: &str) -> Option<T> {
        let parsed = self.text(at, what)?.parse();
        let whole = if parsed.is_err() { at.node.whole() } else { None };
        match whole.map_or(parsed, |text| text.parse()) {
            Ok(v) => Some(v),
            Err(e) => {
                let e: ValueError = e.into();
                self.error(at, e.message, e.help);
                None
            }
        }
    }

    /// A whole number in `lo..=hi`: a number, or text that is one, decimal or `0x…`.
    pub fn number(&mut self, at: &At<'_>, what: &str, lo: u32, hi: u32) -> Option<u32> {
        let whole = at.node.whole();
        let number = whole.as_deref().or_else(|| at.node.text()).and_then(parse_number);
        match number {
            Some(n) if (u64::from(lo)..=u64::from(hi)).contains(&n) => u32::try_from(n).ok(),
            Some(n) => {
                self.error(at, format!("{n} is out of range"), format!("{what} is {lo} to {hi}"));
                None
            }
            None => {
                self.expected(at, &format!("{what}, {lo} to {hi}"));
                None
            }
        }
    }

    /// One scalar in the text form of `T`, or a list of at most `max` different ones.
    pub fn one_or_many<T: FromStr<Err: Into<ValueError>> + PartialEq>(
        &mut self,
        at: &At<'_>,
        what: &str,
        max: usize,
    ) -> Vec<T> {
        if at.node.text().is_some() {
            return self.parse(at, what).into_iter().collect();
        }
        let mut found: Vec<T> = Vec::new();
        for (i, node) in self.items(at, what, max).unwrap_or_default().iter().enumerate() {
            let at = at.index(i, node);
            match self.parse(&at, what) {
                Some(value) if found.contains(&value) => self.error(&at, "it is there twice", "keep one"),
                value => found.extend(value),
            }
        }
        found
    }

    /// `true` or `false`.
    pub fn bool(&mut self, at: &At<'_>) -> Option<bool> {
        let value = at.node.bool();
        if value.is_none() {
            self.expected(at, "true or false");
        }
        value
    }
}

/// The entries of a map.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    at: &'a At<'a>,
    /// Names and values, in the order of the document.
    pub entries: &'a [(String, Node)],
}

impl<'a> Fields<'a> {
    /// The value of an optional field; null counts as absent.
    pub fn get(&self, name: &'a str) -> Option<At<'a>> {
        let (_, node) = self.entries.iter().find(|(k, _)| k == name)?;
        (!node.is_null()).then(|| self.at.key(name, node))
    }

    /// The value of a field that must be there.
    pub fn need(&self, r: &mut Reader, name: &'a str, what: &str) -> Option<At<'a>> {
        let value = self.get(name);
        if value.is_none() {
            match self.entries.iter().find(|(k, _)| k == name) {
                Some((_, node)) if node.kind == Kind::Plain("null".to_owned()) => {
                    let message = format!("{name:?} is null, which is nothing in YAML");
                    r.error(&self.at.key(name, node), message, "write 'null', in quotes, if that is meant");
                }
                _ => r.error(
                    self.at,
                    format!("the field {name:?} is missing"),
                    format!("add {name:?}: {what}"),
                ),
            }
        }
        value
    }
}

/// `Some(None)` for an absent field, `None` for one with a mistake.
pub fn optional<'a, T>(at: Option<At<'a>>, read: impl FnOnce(&At<'a>) -> Option<T>) -> Option<Option<T>> {
    match at {
        None => Some(None),
        Some(at) => read(&at).map(Some),
    }
}

/// Help for an unknown word: the known one that may have been meant, else all of them.
pub fn did_you_mean(word: &str, known: &[&str]) -> String {
    match closest(word, known.iter().copied()) {
        Some(k) => format!("did you mean {k:?}?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

fn list(words: &[&str]) -> String {
    match words {
        [] => "no fields".into(),
        [one] => format!("{one:?}"),
        [head @ .., last] => {
            let head: Vec<_> = head.iter().map(|w| format!("{w:?}")).collect();
            format!("{} and {last:?}", head.join(", "))
        }
    }
}
