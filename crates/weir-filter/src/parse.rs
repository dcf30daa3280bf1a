//! The parser. Grammar (after Click's `IPFilter`):
//!
//! ```text
//! expr   = or [ "?" expr ":" expr ]
//! or     = term { ("or" | "||") term }
//! term   = factor { ["and" | "&&"] factor }
//! factor = ("not" | "!") factor | "(" expr ")" | "tags" (NUMBER | "all") factor
//!        | "true" | "any" | "all" | "false" | "none" | relation | primitive
//! ```
//!
//! As libpcap reads, `and` and `or` have one rank instead: `or = factor { ["and" | "&&" | "or" | "||"] factor }`. Comparisons
//! of bytes are in [`super::relation`], primitives in [`super::primitive`] and [`super::link`].

use super::lex::{Token, tokens};
use super::primitive::Primitive;
use super::{Dialect, Expr, FilterError, Tags};

/// How deeply parentheses and ternaries may nest.
const MAX_DEPTH: usize = 64;
/// Largest expression, counted in nodes: a ternary doubles its condition, so that a short text could mean a huge one.
const MAX_NODES: usize = 1 << 16;

/// The tokens, and how far they are read.
pub(super) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    end_column: usize,
    depth: usize,
    /// What an unqualified value repeats, as in `src port 80 or 81`.
    pub(super) previous: Primitive,
    nodes: usize,
    pub(super) dialect: Dialect,
    /// What is looked for from here on: behind these tags.
    pub(super) at: Decoding,
}

/// Where libpcap looks for headers from a word on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoding {
    Behind(Tags),
    /// Behind what this word is about, which is not followed here.
    Within(&'static str),
}

/// How far the tokens are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position(usize);

pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Expr, FilterError> {
    let tokens = tokens(text)?;
    let mut p = Parser {
        tokens,
        next: 0,
        end_column: text.chars().count() + 1,
        depth: 0,
        previous: Primitive::default(),
        nodes: 0,
        dialect,
        at: Decoding::Behind(Tags::NONE),
    };
    match p.tokens.as_slice() {
        [] => return Err(p.error("the filter is empty", "write \"true\" to match every packet")),
        [only] if only.text == "-" => return Ok(Expr::True),
        _ => {}
    }
    let expr = p.expr()?;
    match p.peek() {
        None => Ok(expr),
        Some(")") => Err(p.error("\")\" without \"(\"", "remove it")),
        Some(word) => Err(p.error(format!("{word:?} does not belong here"), "join terms with and, or")),
    }
}

impl<'a> Parser<'a> {
    /// The next token's text.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.peek_at(0)
    }

    /// The text of the token `ahead` of the next one.
    pub(super) fn peek_at(&self, ahead: usize) -> Option<&'a str> {
        self.tokens.get(self.next + ahead).map(|t| t.text)
    }

    /// Takes the next token's text.
    pub(super) fn take(&mut self) -> Option<&'a str> {
        let text = self.peek()?;
        self.next += 1;
        Some(text)
    }

    /// Takes the next token if it is one of `words`.
    pub(super) fn accept(&mut self, words: &[&str]) -> bool {
        let found = self.peek().is_some_and(|t| words.contains(&t));
        self.next += usize::from(found);
        found
    }

    /// Column of the next token.
    pub(super) fn column(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end_column, |t| t.column)
    }

    /// An error at the next token.
    pub(super) fn error(&self, message: impl Into<String>, help: impl Into<String>) -> FilterError {
        FilterError { column: self.column(), message: message.into(), help: help.into() }
    }

    pub(super) fn position(&self) -> Position {
        Position(self.next)
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// Goes back to where the parser was, and to how much it had read then.
    pub(super) fn go_back(&mut self, to: Position, nodes: usize) {
        (self.next, self.nodes) = (to.0, nodes);
    }

    /// A test, where headers are looked for at this place of the filter.
    pub(super) fn leaf(&self, expr: Expr) -> Result<Expr, FilterError> {
        match self.at {
            Decoding::Behind(tags) => Ok(expr.behind(tags)),
            Decoding::Within(_) if !expr.looks_behind_type() => Ok(expr),
            Decoding::Within(word) => Err(self.error(
                format!("what stands behind {word:?} is looked for within it, which is not done here"),
                format!("write it before {word:?} if it is about the frame itself"),
            )),
        }
    }

    pub(super) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        if self.depth == MAX_DEPTH {
            return Err(
                self.error("the filter is nested too deeply", format!("at most {MAX_DEPTH} levels are read"))
            );
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    pub(super) fn count(&mut self, nodes: usize) -> Result<(), FilterError> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(
                self.error("the filter is too large", "split it; note that each \"?\" repeats its condition")
            );
        }
        Ok(())
    }

    fn expr(&mut self) -> Result<Expr, FilterError> {
        let condition = self.or()?;
        if !self.accept(&["?"]) {
            return Ok(condition);
        }
        self.nested(|p| {
            let then = p.expr()?;
            if !p.accept(&[":"]) {
                return Err(p.error(
                    "\":\" is missing",
                    "write \"condition ? then : else\", the colon between spaces",
                ));
            }
            let otherwise = p.expr()?;
            p.count(condition.size())?;
            Ok(Expr::or([Expr::and([condition.clone(), then]), Expr::and([condition.not(), otherwise])]))
        })
    }

    fn or(&mut self) -> Result<Expr, FilterError> {
        let mut left = self.term()?;
        let mut arms = Vec::new();
        while self.accept(&["or", "||"]) {
            arms.push(left);
            left = match self.dialect {
                Dialect::Click => self.term()?,
                Dialect::Libpcap => self.factor()?,
            };
            if self.dialect == Dialect::Libpcap && !self.ends_term() {
                // What follows goes with all that was read so far.
                arms.push(left);
                let so_far = Expr::or(std::mem::take(&mut arms));
                left = self.rest_of_term(so_far)?;
            }
        }
        arms.push(left);
        Ok(Expr::or(arms))
    }

    fn term(&mut self) -> Result<Expr, FilterError> {
        let first = self.factor()?;
        self.rest_of_term(first)
    }

    /// What is joined to a factor by `and`, or by nothing.
    fn rest_of_term(&mut self, first: Expr) -> Result<Expr, FilterError> {
        let mut arms = vec![first];
        loop {
            let more = self.accept(&["and", "&&"]);
            if !more && self.ends_term() {
                return Ok(Expr::and(arms));
            }
            arms.push(self.factor()?);
        }
    }

    fn ends_term(&self) -> bool {
        matches!(self.peek(), None | Some(")" | "or" | "||" | "?" | ":"))
    }

    fn factor(&mut self) -> Result<Expr, FilterError> {
        let mut negated = false;
        while self.accept(&["not", "!"]) {
            negated = !negated;
        }
        self.count(2)?;
        if let Some(relation) = self.relation()? {
            self.previous = Primitive::default();
            return Ok(if negated { relation.not() } else { relation });
        }
        let expr = match self.peek() {
            None => {
                return Err(
                    self.error("the filter ends where a term should stand", "write a term such as \"tcp\"")
                );
            }
            Some(word @ (")" | "or" | "||" | "and" | "&&" | "?" | ":")) => {
                return Err(
                    self.error(format!("a term is missing before {word:?}"), "write a term such as \"tcp\"")
                );
            }
            Some("true" | "any" | "all") => {
                self.next += 1;
                Expr::True
            }
            Some("false" | "none") => {
                self.next += 1;
                Expr::False
            }
            Some("tags") => {
                self.next += 1;
                let tags = self.tags()?;
                let before = std::mem::replace(&mut self.at, Decoding::Behind(tags));
                let inner = self.nested(Self::factor)?;
                self.at = before;
                inner
            }
            Some("(") => {
                let open = self.column();
                self.next += 1;
                let inner = self.nested(Self::expr)?;
                if !self.accept(&[")"]) {
                    return Err(self.error(format!("\")\" is missing for the \"(\" in column {open}"), ""));
                }
                inner
            }
            Some(_) => self.primitive()?,
        };
        Ok(if negated { expr.not() } else { expr })
    }
}
