//! What the parser makes of a text: statements with names still unresolved.

use crate::source::Loc;

#[derive(Debug)]
pub(crate) struct Name {
    pub text: String,
    pub loc: Loc,
}

#[derive(Debug)]
pub(crate) enum Statement {
    Chain(Chain),
    ElementClass { name: String, class: ClassExpr },
    Define { name: String, value: String, loc: Loc },
}

/// `a, b [1] -> [2] c => d`: lists of elements with arrows between them.
#[derive(Debug)]
pub(crate) struct Chain {
    pub lists: Vec<List>,
}

#[derive(Debug)]
pub(crate) struct List {
    /// The arrow before the list; `None` for the first.
    pub arrow: Option<Arrow>,
    pub nodes: Vec<Node>,
    /// `a, b :: Class(config)`: the last node's class and configuration are those of all.
    pub shared: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrow {
    /// `=>`
    pub double: bool,
    pub loc: Loc,
}

/// One member of a list: ports, an element, ports.
#[derive(Debug)]
pub(crate) struct Node {
    pub inputs: Option<Ports>,
    pub outputs: Option<Ports>,
    pub what: What,
    pub loc: Loc,
}

/// `[1, 4-6]`
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports {
    pub list: Vec<u32>,
    /// `[]` or `[1, ]`: further ports follow the last as needed.
    pub open: bool,
}

#[derive(Debug)]
pub(crate) enum What {
    /// Nothing was written where a compound's or group's input is meant.
    ImplicitInput,
    /// The same at the end of a chain.
    ImplicitOutput,
    /// `name`, `Class`, `name :: Class`, each perhaps with a configuration.
    Element { name: String, class: Option<ClassExpr>, config: Option<String> },
    /// `{ … } (config)`
    Compound { compound: CompoundExpr, config: Option<String> },
    /// `( … )`
    Group(Vec<Statement>),
}

#[derive(Debug)]
pub(crate) enum ClassExpr {
    Named(Name),
    Compound(CompoundExpr),
    /// There was an error where the class should have been.
    Missing,
}

#[derive(Debug)]
pub(crate) struct CompoundExpr {
    pub variants: Vec<Variant>,
    /// `|| ...`: where the dots stand.
    pub extends: Option<Loc>,
}

/// One of the `||` definitions of a compound.
#[derive(Debug)]
pub(crate) struct Variant {
    pub formals: Vec<Formal>,
    pub statements: Vec<Statement>,
    pub loc: Loc,
}

/// `$name` or `KEYWORD $name`
#[derive(Clone, Debug)]
pub(crate) struct Formal {
    pub name: String,
    pub keyword: Option<String>,
    pub loc: Loc,
}

/// The keyword of the parameter that takes the arguments left over.
pub(crate) const REST: &str = "__REST__";
