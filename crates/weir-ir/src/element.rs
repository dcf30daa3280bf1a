//! What an element is to the rest of Weir: a class with a manual page, an instance with a program and handlers.

use weir_packet::Packet;
use weir_table::{EntryRef, Table, TableSet};

use crate::builder::Builder;
use crate::program::{Program, TableId};

/// The manual page of an element class, as data. Made by the `element!` macro from the element's source.
#[derive(Debug)]
pub struct ClassInfo {
    /// Class name.
    pub name: &'static str,
    /// Manual text in Markdown; its first paragraph is the summary.
    pub doc: &'static str,
    /// Numbers of inputs and outputs in Click's notation (`1/1-2`).
    pub ports: &'static str,
    /// Push, pull or agnostic, in Click's notation (`a/ah`).
    pub processing: &'static str,
    /// Which inputs reach which outputs, in Click's notation (`x/x`).
    pub flow: &'static str,
    /// Parameters.
    pub params: &'static [ParamInfo],
    /// Handlers.
    pub handlers: &'static [HandlerInfo],
    /// Example configurations in the Click language; each is a test.
    pub examples: &'static [&'static str],
}

/// The form in which a parameter is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// By position, or by keyword.
    Positional,
    /// By keyword only.
    Keyword,
    /// All remaining arguments.
    Rest,
}

/// A parameter of an element class.
#[derive(Debug)]
pub struct ParamInfo {
    /// Keyword.
    pub name: &'static str,
    /// How it is given.
    pub kind: ParamKind,
    /// What it is when it is not given, as source text; `None`: it has to be given.
    pub default: Option<&'static str>,
    /// What is written for it (`boolean`, `IP address` …).
    pub syntax: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// A handler of an element class.
#[derive(Debug)]
pub struct HandlerInfo {
    /// Name.
    pub name: &'static str,
    /// Whether it can be read.
    pub read: bool,
    /// Whether it can be written.
    pub write: bool,
    /// What it does.
    pub doc: &'static str,
}

/// An element: an instance of a class, configured.
pub trait Element: Send + Sync {
    /// Its class.
    fn info(&self) -> &'static ClassInfo;

    /// Writes its program. [`Builder::inputs`] and [`Builder::outputs`] say which ports are connected.
    fn build(&self, b: &mut Builder);

    /// Numbers of inputs and outputs of this instance, where its configuration decides.
    fn ports(&self) -> String {
        self.info().ports.to_owned()
    }

    /// Takes what its configuration refers to by name, when all elements of the graph are configured and before
    /// [`Element::build`].
    fn resolve(&mut self, _peers: &Peers<'_>) -> Result<(), Vec<String>> {
        Ok(())
    }

    /// Answers a read handler of [`ClassInfo::handlers`].
    fn read(&self, handler: &str, _state: &State<'_>) -> Result<String, String> {
        Err(format!("no read handler '{handler}'"))
    }

    /// Carries out a write handler of [`ClassInfo::handlers`].
    fn write(&self, handler: &str, _value: &str, _state: &mut State<'_>) -> Result<(), String> {
        Err(format!("no write handler '{handler}'"))
    }

    /// A hot swap gave it what another configuration of it had left in its tables: removes what this one does not allow.
    fn adopted(&self, _state: &mut State<'_>) {}

    /// The line that an event of the program prints, if it prints one.
    fn describe(&self, _event: &str, _args: &[u128], _packet: Option<&Packet>) -> Option<String> {
        None
    }
}

/// An element as others see it that refer to it by name.
#[derive(Debug, Clone, Copy)]
pub struct Peer<'a> {
    /// Full name.
    pub name: &'a str,
    /// Class name.
    pub class: &'a str,
    /// Arguments.
    pub args: &'a [String],
}

/// The elements of a graph, from where one of them stands.
#[derive(Debug, Clone, Copy)]
pub struct Peers<'a> {
    all: &'a [Peer<'a>],
    own: &'a str,
}

impl<'a> Peers<'a> {
    /// `all` elements of the graph, seen from the element with the full name `own`.
    pub fn new(all: &'a [Peer<'a>], own: &'a str) -> Peers<'a> {
        Peers { all, own }
    }

    /// The same elements, seen from another of them.
    pub fn seen_from(&self, own: &'a str) -> Peers<'a> {
        Peers { own, ..*self }
    }

    /// Full name of the element itself.
    pub fn own(&self) -> &'a str {
        self.own
    }

    /// The element that `name` means here: the one in the innermost compound element, then in those around it.
    pub fn named(&self, name: &str) -> Option<Peer<'a>> {
        let mut scope = self.own;
        loop {
            scope = scope.rfind('/').map_or("", |i| &scope[..i]);
            let full = if scope.is_empty() { name.to_owned() } else { format!("{scope}/{name}") };
            if let Some(peer) = self.all.iter().find(|p| p.name == full) {
                return Some(*peer);
            }
            if scope.is_empty() {
                return None;
            }
        }
    }

    /// All elements of a class, in the order of the configuration.
    pub fn of_class(&self, class: &str) -> impl Iterator<Item = Peer<'a>> {
        self.all.iter().copied().filter(move |p| p.class == class)
    }
}

/// The program of an element with so many connected ports. Not yet checked.
pub fn program_of(element: &dyn Element, name: &str, inputs: u32, outputs: u32) -> Program {
    let mut b = Builder::new(name, inputs, outputs);
    element.build(&mut b);
    b.finish()
}

/// The tables of one element in a running graph, for its handlers.
#[derive(Debug)]
pub struct State<'a> {
    tables: &'a mut TableSet,
    /// Names of the element's tables and their numbers in the set.
    names: &'a [(String, TableId)],
    /// The time in nanoseconds.
    pub now: u64,
    /// What a read handler is asked about: the text behind its name (`lookup 10.0.0.1`).
    pub param: &'a str,
    warnings: Vec<String>,
}

impl<'a> State<'a> {
    /// State over the named tables of a set.
    pub fn new(tables: &'a mut TableSet, names: &'a [(String, TableId)], now: u64) -> State<'a> {
        State { tables, names, now, param: "", warnings: Vec::new() }
    }

    /// The same, for a read handler with a parameter.
    #[must_use]
    pub fn asked(self, param: &'a str) -> State<'a> {
        State { param, ..self }
    }

    /// Warns whoever writes a handler of something that is unusual, but no error.
    pub fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    /// The texts given to [`warn`](State::warn).
    pub fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    /// Number of the table with that name.
    ///
    /// # Panics
    /// If the element's program declares no such table.
    pub fn id(&self, name: &str) -> TableId {
        match self.names.iter().find(|(n, _)| n == name) {
            Some((_, id)) => *id,
            None => panic!("the element has no table '{name}'"),
        }
    }

    /// A table.
    pub fn table(&self, name: &str) -> &Table {
        self.tables.table(self.id(name).0)
    }

    /// A table, to change.
    pub fn table_mut(&mut self, name: &str) -> &mut Table {
        let id = self.id(name).0;
        self.tables.table_mut(id)
    }

    /// Removes an entry and the one linked to it. Packets that they hold are dropped.
    pub fn remove(&mut self, table: &str, slot: u32) {
        let table = self.id(table).0;
        self.tables.remove(EntryRef { table, slot });
    }

    /// All tables of the graph, for what crosses from one to another.
    pub fn set_mut(&mut self) -> &mut TableSet {
        self.tables
    }

    /// The value of a cell.
    pub fn cell(&self, name: &str) -> u128 {
        self.table(name).get(0, 0)
    }

    /// Changes a cell.
    pub fn set_cell(&mut self, name: &str, value: u128) {
        self.table_mut(name).set(0, 0, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_from_the_inside_out() {
        let names = ["rw", "a/rw", "a/b/x", "y"];
        let all: Vec<Peer<'_>> = names.iter().map(|name| Peer { name, class: "C", args: &[] }).collect();
        let named = |own: &str, name: &str| Peers::new(&all, own).named(name).map(|p| p.name.to_owned());
        assert_eq!(named("a/b/e", "rw").as_deref(), Some("a/rw"));
        assert_eq!(named("a/b/e", "x").as_deref(), Some("a/b/x"));
        assert_eq!(named("a/b/e", "y").as_deref(), Some("y"));
        assert_eq!(named("e", "rw").as_deref(), Some("rw"));
        assert_eq!(named("e", "x"), None);
        assert_eq!(named("e", "a/b/x").as_deref(), Some("a/b/x"));
    }
}
