//! Groups, compounds and `elementclass`.

use super::{Enclosed, Parser};
use crate::ast::{ClassExpr, CompoundExpr, Formal, Name, REST, Statement, Variant};
use crate::lexer::{Tok, Token};
use crate::source::Loc;
use crate::{MAX_FORMALS, MAX_NESTING};

impl Parser<'_> {
    /// The statements of a group whose `(` was just read.
    pub(super) fn group(&mut self, loc: Loc) -> Vec<Statement> {
        let mut statements = Vec::new();
        if self.nesting >= MAX_NESTING {
            self.give_up(loc, "maximum element group nesting depth exceeded");
            return statements;
        }
        self.nesting += 1;
        self.statements(Enclosed::Group, &mut statements);
        self.nesting -= 1;
        statements
    }

    /// A compound whose `{` was just read.
    pub(super) fn compound(&mut self, loc: Loc) -> CompoundExpr {
        let mut compound = CompoundExpr { variants: Vec::new(), extends: None };
        if self.nesting >= MAX_NESTING {
            self.give_up(loc, "maximum compound element nesting depth exceeded");
            return compound;
        }
        self.nesting += 1;
        let mut loc = loc;
        loop {
            let token = self.next();
            if token.tok == Tok::Dots {
                compound.extends = Some(token.loc);
                if compound.variants.is_empty() || !self.peek().tok.is('}') {
                    self.error(token.loc, "'...' should occur last, after one or more compounds");
                }
                loc = token.loc;
                if self.accept('}') {
                    break;
                }
                if !self.peek_bars() {
                    self.expect('}');
                    break;
                }
                continue;
            }
            self.unread(token);
            let formals = self.formals();
            let mut statements = Vec::new();
            let more = self.statements(Enclosed::Compound, &mut statements);
            compound.variants.push(Variant { formals, statements, loc });
            if !more {
                break;
            }
        }
        self.nesting -= 1;
        compound
    }

    /// Reads a `||` if there is one.
    fn peek_bars(&mut self) -> bool {
        let token = self.next();
        let found = token.tok == Tok::Bars;
        if !found {
            self.unread(token);
        }
        found
    }

    /// `$a, KEYWORD $b |`, if the compound has parameters.
    fn formals(&mut self) -> Vec<Formal> {
        let mut formals = Vec::new();
        loop {
            let token = self.next();
            let loc = token.loc;
            let (keyword, name) = match token.tok.clone() {
                Tok::Variable(name) => (None, name),
                Tok::Char('|') => break,
                Tok::Ident(keyword) => {
                    let second = self.next();
                    if let Tok::Variable(name) = second.tok {
                        (Some(keyword), name)
                    } else {
                        if !formals.is_empty() {
                            self.error(loc, "expected variable");
                        }
                        self.unread(second);
                        self.unread(token);
                        break;
                    }
                }
                _ => {
                    if !formals.is_empty() {
                        self.error(loc, "expected variable");
                    }
                    self.unread(token);
                    break;
                }
            };
            if name.is_empty() {
                self.error(loc, "expected a name after '$'");
            }
            formals.push(Formal { name, keyword, loc });
            let separator = self.next();
            if separator.tok.is('|') {
                break;
            } else if !separator.tok.is(',') {
                self.error(separator.loc, "expected ',' or '|'");
                self.unread(separator);
                break;
            }
        }
        if let Some(formal) = formals.get(MAX_FORMALS) {
            self.give_up(formal.loc, format!("more than {MAX_FORMALS} parameters"));
            formals.truncate(MAX_FORMALS);
        }
        self.check_order(&formals);
        formals
    }

    fn check_order(&mut self, formals: &[Formal]) {
        let out_of_order = formals.windows(2).find(|pair| match pair {
            [a, b] => (b.keyword.is_none() && a.keyword.is_some()) || a.keyword.as_deref() == Some(REST),
            _ => false,
        });
        if let Some([_, late]) = out_of_order {
            self.error(
                late.loc,
                "compound element parameters out of order\n(The correct order is '[positional], [keywords], [__REST__]'.)",
            );
        }
    }

    pub(super) fn element_class(&mut self, keyword: &Token, out: &mut Vec<Statement>) {
        let token = self.next();
        let name = match token.tok {
            Tok::Ident(name) => name,
            _ => {
                self.error(token.loc, "expected element type name");
                self.unread(token);
                String::new()
            }
        };
        let token = self.next();
        let class = match token.tok {
            Tok::Char('{') => ClassExpr::Compound(self.compound(keyword.loc)),
            Tok::Ident(text) => ClassExpr::Named(Name { text, loc: token.loc }),
            _ => {
                self.syntax_error(&token);
                if token.tok == Tok::End || token.tok.is('}') {
                    self.unread(token);
                }
                ClassExpr::Missing
            }
        };
        out.push(Statement::ElementClass { name, class });
    }
}
