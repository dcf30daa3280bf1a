//! What resolution makes of a text: classes, and bodies of elements and wires.

use std::rc::Rc;

use crate::ast::Formal;
use crate::class::ClassInfo;
use crate::source::Loc;

/// A class in scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassId {
    /// Index in [`Program::primitives`].
    Primitive(usize),
    /// Index in [`Program::compounds`].
    Compound(usize),
    /// A class that does not exist; that was reported.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Primitive {
    pub name: String,
    pub info: Rc<ClassInfo>,
}

/// A compound class: definitions to choose from.
#[derive(Debug)]
pub(crate) struct Compound {
    pub name: String,
    /// Indices in [`Program::bodies`].
    pub variants: Vec<usize>,
    /// The class that `...` adds.
    pub extends: Option<ClassId>,
}

/// One definition of a compound, or the whole configuration.
#[derive(Debug)]
pub(crate) struct Body {
    pub loc: Loc,
    /// How many bodies enclose it.
    pub depth: usize,
    pub formals: Vec<Formal>,
    /// In the order of the text.
    pub defines: Vec<(String, String)>,
    /// The first two are `input` and `output`.
    pub items: Vec<Item>,
    pub wires: Vec<Wire>,
    pub inputs: u32,
    pub outputs: u32,
}

/// The items of every body that stand for its own ports.
pub(crate) const INPUT: usize = 0;
/// See [`INPUT`].
pub(crate) const OUTPUT: usize = 1;

#[derive(Debug)]
pub(crate) struct Item {
    pub name: String,
    pub kind: ItemKind,
    pub config: Rc<str>,
    pub loc: Loc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// The body's own `input` or `output`.
    Port,
    /// The input or output of a group; packets pass from port to equal port.
    GroupPort,
    Element(ClassId),
}

/// A connection in a body: item and port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    pub from: (usize, u32),
    pub to: (usize, u32),
    pub loc: Loc,
}

/// All that the text defines.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub primitives: Vec<Primitive>,
    pub compounds: Vec<Compound>,
    pub bodies: Vec<Body>,
    /// The body of the configuration itself.
    pub main: usize,
    /// There were errors in wires or ports, so that the flat graph would show follow-up errors.
    pub broken: bool,
}
