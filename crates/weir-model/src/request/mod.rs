//! Requests for processing (CHANGE paper section 2.2.2, figure 2.2): modules as Click configurations, links between them, requirements.
//!
//! ```
//! let request = weir_model::request::Request::parse("
//! FromNetfront() ->
//! IPFilter(allow udp port 1500) ->
//! IPRewriter(pattern - - 172.16.15.133 - 0 0)
//! -> TimedUnqueue(120,100)
//! -> ToNetfront()
//!
//! REQUIRE reach 0/0 172.16.15.133 udp 1500
//! ").unwrap();
//! assert!(request.modules[0].click.contains("TimedUnqueue(120,100)"));
//! assert_eq!(request.requirements[0].goal.to_string(), "can 0.0.0.0/0 172.16.15.133 udp dst port 1500");
//! ```
//!
//! A line `NAME:` begins a module of that name; text without one is the module `module`. `A:PORT -> B:PORT` links two modules. A
//! requirement stands on a line of its own. `#` at the beginning of a line makes it a comment. All other text is Click's, which
//! `weir-click` parses: what is mistyped so badly that it is not known for a requirement is a mistake there, never lost.
//!
//! The same as YAML or JSON, which begins with its version, has what this text has no words for: images as modules, a lifetime, traffic of
//! others that a module takes.
//!
//! ```
//! let request = weir_model::request::Request::parse("
//! version: 1
//! lifetime: 3600
//! modules:
//!   filter: {image: packet-filter, params: {RULES: allow udp}}
//!   forward: {click: 'FromNetfront() -> SetIPAddress(10.0.0.9) -> ToNetfront()'}
//! links: ['filter:outside -> forward:0']
//! requirements: [can internet filter udp]
//! ").unwrap();
//! assert_eq!((request.modules.len(), request.lifetime), (2, Some(3600)));
//! ```

mod document;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::error::{DocError, DocErrors, Position, quote};
use crate::graph::{ParamValue, Start};
use crate::requirement::{self, MAX_REQUIREMENTS, Place, Requirement};
use crate::value::IpPrefix;
use weir_net::Protocols;

/// Largest request, in bytes.
pub const MAX_TEXT: usize = 4 << 20;
/// Most modules, and most links, of a request.
pub const MAX_MODULES: usize = 1_000;
/// The name of a module that has none.
pub const UNNAMED: &str = "module";

/// A request for processing. Without modules it only asks whether the requirements hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The modules, whose names differ.
    pub modules: Vec<Module>,
    /// The links between modules.
    pub links: Vec<ModuleLink>,
    /// What must hold.
    pub requirements: Vec<Requirement>,
    /// After how many seconds it ends by itself, if that is said.
    pub lifetime: Option<u64>,
    /// When the modules are started.
    pub start: Start,
    /// After how many seconds without packets they end until one comes again.
    pub idle: Option<u32>,
    /// Its one module shares an address with others: it has ports of these protocols.
    pub share: Option<Protocols>,
}

/// The JSON Schema of a request: one text, since Click's language and requirements are no values of JSON.
pub(crate) fn json_schema() -> serde_json::Value {
    let keywords = requirement::KEYWORDS.join(", ");
    serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Weir request",
        "description": format!(
            "Click configurations and requirements, line by line. NAME: begins the module of that name (without one it is {UNNAMED:?}); \
             MODULE:PORT -> MODULE:PORT links two; a line that begins with REQUIRE or one of {keywords} is a requirement; # begins a \
             comment; all else is Click. At most {MAX_MODULES} modules, as many links, and {MAX_REQUIREMENTS} requirements."
        ),
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_TEXT,
        "contentMediaType": "text/x-click",
        "examples": ["FromNetfront() -> IPFilter(allow udp port 1500) -> ToNetfront();\nREQUIRE reach 0/0 172.16.15.133 udp 1500\n"],
    })
}

/// A processing module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Its Click configuration: the request's text from `offset` on, with spaces in place of lines that are not Click's, so that
    /// positions in it are positions in the request.
    pub click: String,
    /// Where the configuration begins, in bytes from the request's beginning; at the beginning of a line.
    pub offset: usize,
    /// The number of its first line, from 1.
    pub line: usize,
    /// The image that it is made of; `click` is empty until that is known.
    pub stock: Option<Stock>,
    /// Values of `$NAME` in the configuration, without `$`.
    pub params: Vec<(String, String)>,
    /// Addresses of others whose traffic it takes, beside what is addressed to it.
    pub intercepts: Vec<IpPrefix>,
}

/// An image that a module is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stock {
    /// Its name.
    pub image: String,
    /// What it is given.
    pub params: BTreeMap<String, ParamValue>,
}

/// A link: what leaves the port `from` of a module arrives at the port `to` of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleLink {
    /// The module and port that traffic leaves by.
    pub from: (String, String),
    /// The module and port that it arrives at.
    pub to: (String, String),
    /// Where the link stands.
    pub position: Position,
}

impl Request {
    /// Reads a request. All mistakes are reported at once.
    pub fn parse(text: &str) -> Result<Self, DocErrors> {
        let mut reader = Reader::default();
        if text.len() > MAX_TEXT {
            let help = format!("at most {MAX_TEXT} are read");
            return Err(DocErrors::one(None, format!("the request has {} bytes", text.len()), help));
        }
        if document::is_one(text) {
            return document::parse(text);
        }
        let mut offset = 0;
        for (i, line) in text.split_inclusive('\n').enumerate() {
            reader.line(line, i + 1, offset);
            offset += line.len();
        }
        reader.finish()
    }
}

impl Module {
    fn at(name: &str, offset: usize, line: usize) -> Module {
        Module {
            name: name.into(),
            click: String::new(),
            offset,
            line,
            stock: None,
            params: Vec::new(),
            intercepts: Vec::new(),
        }
    }
}

/// Where the scan of Click's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Code,
    BlockComment,
    /// In a string that this character ends.
    Quoted(char),
}

#[derive(Default)]
struct Reader {
    modules: Vec<Module>,
    links: Vec<ModuleLink>,
    requirements: Vec<Requirement>,
    /// A line limits all of them to packets as hosts send them.
    well_formed: bool,
    errors: Vec<DocError>,
    state: State,
    /// Where each bracket stands that is open.
    open: Vec<(char, Position)>,
    /// Where the string or comment began that is open.
    began: Option<Position>,
    /// The module that text goes to, and whether it has any but spaces and comments.
    module: Option<(Module, bool)>,
}

impl Reader {
    fn line(&mut self, line: &str, number: usize, offset: usize) {
        let inside = self.state != State::Code || !self.open.is_empty();
        let kind = if inside { Kind::Click } else { kind(line) };
        match kind {
            Kind::Click => {
                let significant = self.scan(line, number);
                let (module, found) = self.module_at(UNNAMED, number, offset);
                module.click.push_str(line);
                *found |= significant;
                return;
            }
            Kind::Comment => {}
            Kind::Label(name) => {
                self.end_module();
                self.module_at(name, number, offset);
            }
            Kind::Link(from, to) => {
                let column = column_of_text(line);
                self.link(from, to, Position { line: number, column });
            }
            Kind::Requirement => self.requirement(line, number),
        }
        // The line is not Click's: spaces keep its place.
        if let Some((module, _)) = &mut self.module {
            module.click.extend(line.bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }));
        }
    }

    /// The module that text goes to; begins it if there is none.
    fn module_at(&mut self, name: &str, line: usize, offset: usize) -> (&mut Module, &mut bool) {
        let (module, found) = self.module.get_or_insert_with(|| (Module::at(name, offset, line), false));
        (module, found)
    }

    fn end_module(&mut self) {
        let Some((module, found)) = self.module.take() else { return };
        if !found && module.name == UNNAMED {
            return;
        }
        let position = Position { line: module.line, column: 1 };
        if !found {
            self.error(
                position,
                format!("the module {} is empty", quote(&module.name)),
                "write its Click configuration below its name",
            );
        } else if self.modules.iter().any(|m| m.name == module.name) {
            self.error(
                position,
                format!("a second module with the name {}", quote(&module.name)),
                "choose another",
            );
        } else if self.modules.len() == MAX_MODULES {
            self.error(position, "one module too many", format!("at most {MAX_MODULES} are read"));
        } else {
            self.modules.push(module);
        }
    }

    fn link(&mut self, from: (&str, &str), to: (&str, &str), position: Position) {
        let owned = |(module, port): (&str, &str)| (module.to_string(), port.to_string());
        if self.links.len() == MAX_MODULES {
            self.error(position, "one link too many", format!("at most {MAX_MODULES} are read"));
            return;
        }
        self.links.push(ModuleLink { from: owned(from), to: owned(to), position });
    }

    fn requirement(&mut self, line: &str, number: usize) {
        if self.requirements.len() == MAX_REQUIREMENTS {
            let help = format!("at most {MAX_REQUIREMENTS} are read");
            self.error(Position { line: number, column: 1 }, "one requirement too many", help);
            return;
        }
        let line = line.trim_end().trim_end_matches(';');
        if requirement::limits_all(line) {
            self.well_formed = true;
            return;
        }
        match Requirement::parse(line) {
            Ok(r) => self.requirements.push(r.at_line(number)),
            Err(e) => self.error(Position { line: number, column: e.column }, e.message, e.help),
        }
    }

    fn error(&mut self, position: Position, message: impl Into<String>, help: impl Into<String>) {
        if self.errors.len() < DocErrors::MAX {
            let (message, help) = (message.into(), help.into());
            self.errors.push(DocError { path: "request".into(), position: Some(position), message, help });
        }
    }

    /// Follows brackets, strings and comments of a line; whether it has anything but spaces and comments.
    fn scan(&mut self, line: &str, number: usize) -> bool {
        let mut significant = false;
        let mut chars = line.chars().enumerate().peekable();
        while let Some((i, c)) = chars.next() {
            let position = Position { line: number, column: i + 1 };
            let next = chars.peek().map(|(_, c)| *c);
            match self.state {
                State::BlockComment if c == '*' && next == Some('/') => {
                    chars.next();
                    self.state = State::Code;
                }
                State::BlockComment => {}
                State::Quoted('"') if c == '\\' => drop(chars.next()),
                State::Quoted(end) if c == end => self.state = State::Code,
                State::Quoted(_) => {}
                State::Code if c == '/' && next == Some('/') => break,
                State::Code if c == '/' && next == Some('*') => {
                    chars.next();
                    (self.state, self.began) = (State::BlockComment, Some(position));
                }
                State::Code => {
                    significant |= !c.is_whitespace();
                    match c {
                        // A quotation mark is one among arguments only.
                        '"' | '\'' if !self.open.is_empty() => {
                            (self.state, self.began) = (State::Quoted(c), Some(position));
                        }
                        '(' | '[' | '{' => self.open.push((c, position)),
                        ')' | ']' | '}' => drop(self.open.pop()),
                        _ => {}
                    }
                }
            }
        }
        significant
    }

    fn finish(mut self) -> Result<Request, DocErrors> {
        self.end_module();
        // An open bracket would have swallowed requirements behind it.
        match (self.state, self.began, self.open.last().copied()) {
            (State::BlockComment, Some(at), _) => {
                self.error(at, "the comment does not end", "end it with */");
            }
            (State::Quoted(c), Some(at), _) => {
                self.error(at, "the string does not end", format!("end it with {c}"));
            }
            (State::Code, _, Some((c, at))) => {
                self.error(
                    at,
                    format!("the {:?} is never closed", c.to_string()),
                    "requirements below it would be lost",
                );
            }
            _ => {}
        }
        let lost: Vec<(Position, String)> = self
            .links
            .iter()
            .flat_map(|l| [(l.position, &l.from.0), (l.position, &l.to.0)])
            .filter(|(_, name)| !self.modules.iter().any(|m| m.name == **name))
            .map(|(position, name)| (position, name.clone()))
            .collect();
        for (position, name) in lost {
            let known: Vec<&str> = self.modules.iter().map(|m| m.name.as_str()).collect();
            let help = match known.as_slice() {
                [] => "there are no modules".to_string(),
                known => crate::doc::did_you_mean(&name, known),
            };
            self.error(position, format!("no module is {}", quote(&name)), help);
        }
        if self.modules.is_empty() && self.requirements.is_empty() && self.errors.is_empty() {
            return Err(DocErrors::one(
                None,
                "the request is empty",
                "write a module, requirements, or both",
            ));
        }
        if !self.errors.is_empty() {
            return Err(DocErrors::new(self.errors));
        }
        let mut requirements = self.requirements;
        if self.well_formed {
            requirements = requirements.into_iter().map(Requirement::of_hosts).collect();
        }
        let (modules, links) = (self.modules, self.links);
        Ok(Request {
            modules,
            links,
            requirements,
            lifetime: None,
            start: Start::Now,
            idle: None,
            share: None,
        })
    }
}

/// The kind of a line that begins outside of Click's brackets, strings and comments.
enum Kind<'a> {
    Click,
    Comment,
    Label(&'a str),
    Link((&'a str, &'a str), (&'a str, &'a str)),
    Requirement,
}

fn kind(line: &str) -> Kind<'_> {
    let text = line.trim();
    if text.starts_with('#') {
        return Kind::Comment;
    }
    if is_requirement(text) {
        return Kind::Requirement;
    }
    let text = text.split("//").next().unwrap_or_default().trim_end();
    if let Some(name) = text.strip_suffix(':')
        && let Ok(Place::Node(_)) = name.parse()
    {
        return Kind::Label(name);
    }
    let ends = text.trim_end_matches(';').trim_end().split_once("->");
    let end = |word: &'_ str| matches!(word.parse(), Ok(Place::Port { .. }));
    match ends.map(|(from, to)| (from.trim(), to.trim())) {
        Some((from, to)) if end(from) && end(to) => match (from.split_once(':'), to.split_once(':')) {
            (Some(from), Some(to)) => Kind::Link(from, to),
            _ => Kind::Click,
        },
        _ => Kind::Click,
    }
}

/// Whether a line is meant as a requirement: a keyword, then a word and not Click's `->`, `::`, `(`, `[`, `,` or `;`.
fn is_requirement(text: &str) -> bool {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim_start();
    if word.eq_ignore_ascii_case("require") {
        return !rest.starts_with('(');
    }
    let word = word.trim_end_matches(';');
    let alone = ["noloops", "well-formed"].iter().any(|w| word.eq_ignore_ascii_case(w))
        && (rest.is_empty() || rest.starts_with('#'));
    let place = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        || (rest.starts_with(':') && rest.chars().nth(2).is_some_and(|c| c.is_ascii_hexdigit() || c == '/'));
    requirement::is_keyword(word) && (alone || place)
}

/// The column of a line's first character that is no space.
fn column_of_text(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count() + 1
}
