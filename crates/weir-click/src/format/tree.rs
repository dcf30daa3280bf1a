//! A configuration as words in the order of the text, grouped as far as the layout needs.

use crate::lexer::Tok;

/// A comment, or a line directive.
#[derive(Debug)]
pub(super) struct Remark {
    pub text: String,
    /// A line directive, which must stand at the start of a line.
    pub directive: bool,
    /// A line ends between what is before and this.
    pub own_line: bool,
    /// An empty line stands before it.
    pub blank: bool,
    /// A line ends between this and what is next.
    pub ends_line: bool,
}

/// A token and what stands before it.
#[derive(Debug)]
pub(super) struct Word {
    pub remarks: Vec<Remark>,
    pub tok: Tok,
    pub text: String,
    /// A line ends before the token or one of its remarks.
    pub new_line: bool,
    /// An empty line stands between the last remark, or what is before, and the token.
    pub blank: bool,
}

/// A part of a configuration string between commas.
#[derive(Debug)]
pub(super) struct Arg {
    pub before: Vec<Remark>,
    /// From the first to the last character of the argument, as written.
    pub text: String,
    pub blank: bool,
    /// Comments after it, and those between the comma and the end of its line.
    pub after: Vec<Remark>,
}

/// A configuration string with its parentheses.
#[derive(Debug)]
pub(super) struct Config {
    pub open: Word,
    pub args: Vec<Arg>,
    /// The last argument has a comma after it that must stay.
    pub last_comma: bool,
    /// An argument begins on a line of its own.
    pub lines: bool,
    /// The string as written, if nothing in it may be moved.
    pub verbatim: Option<String>,
}

/// One of the definitions of a compound, or the inside of a group.
#[derive(Debug)]
pub(super) struct Variant {
    pub bars: Option<Word>,
    /// The parameters with their commas and the `|`, or the `...`.
    pub formals: Vec<Word>,
    pub statements: Vec<Statement>,
}

/// A compound or a group with its brackets.
#[derive(Debug)]
pub(super) struct Body {
    pub open: Word,
    pub variants: Vec<Variant>,
    pub close: Word,
    /// A statement begins on a line of its own.
    pub lines: bool,
}

#[derive(Debug)]
pub(super) enum Part {
    Word(Word),
    Config(Config),
    Body(Body),
}

/// A list of nodes and the arrow before it.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub arrow: Option<Word>,
    pub parts: Vec<Part>,
}

/// A chain, of one link if nothing is connected, or a directive.
#[derive(Debug, Default)]
pub(super) struct Statement {
    pub links: Vec<Link>,
}

#[derive(Debug)]
pub(super) struct File {
    pub statements: Vec<Statement>,
    pub end: Word,
}

impl Part {
    /// The part's first word.
    pub fn first(&self) -> &Word {
        match self {
            Part::Word(word) => word,
            Part::Config(config) => &config.open,
            Part::Body(body) => &body.open,
        }
    }
}

impl Statement {
    /// The statement's first word.
    pub fn first(&self) -> Option<&Word> {
        self.links.iter().find_map(|link| link.arrow.as_ref().or(link.parts.first().map(Part::first)))
    }

    /// Whether it ends with the body of an `elementclass`, after which a `;` is not usual.
    pub fn is_class(&self) -> bool {
        let parts = self.links.first().map(|link| link.parts.as_slice());
        matches!(parts, Some([Part::Word(word), .., Part::Body(_)]) if word.tok == Tok::Keyword("elementclass"))
    }
}
