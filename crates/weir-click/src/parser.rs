//! From tokens to statements.

mod compound;
mod directives;
mod ports;

use crate::ast::{Arrow, Chain, ClassExpr, List, Name, Node, Statement, What};
use crate::diagnostic::Report;
use crate::lexer::{Lexer, Tok, Token};
use crate::source::{Loc, Source, Sources};
use crate::{MAX_NODES_WRITTEN, MAX_PORTS_WRITTEN, Options};

/// The result of parsing all texts.
pub(crate) struct Parsed {
    pub statements: Vec<Statement>,
    pub requirements: Vec<String>,
    pub sources: Sources,
}

/// Parses `text` and the libraries that it requires. Errors go to `report`.
pub(crate) fn parse(file_name: &str, text: &str, options: &Options<'_>, report: &mut Report) -> Parsed {
    let mut sources = Sources::default();
    let source = sources.add(Source::new(file_name, text));
    let lexer = Lexer::new(text.into(), source);
    let mut parser = Parser {
        lexer,
        unread: Vec::new(),
        report,
        options,
        sources,
        libraries: Vec::new(),
        requirements: Vec::new(),
        nesting: 0,
        ports_left: MAX_PORTS_WRITTEN,
        nodes_left: MAX_NODES_WRITTEN,
        stopped: false,
    };
    let mut statements = Vec::new();
    parser.statements(Enclosed::File, &mut statements);
    let marks = std::mem::take(&mut parser.lexer.marks);
    parser.sources.set_marks(source, marks);
    Parsed { statements, requirements: parser.requirements, sources: parser.sources }
}

/// The construct around the statements that are being parsed.
#[derive(Clone, Copy, PartialEq)]
enum Enclosed {
    File,
    Compound,
    Group,
}

struct Parser<'a> {
    lexer: Lexer,
    /// Tokens that were read too early; the next one last.
    unread: Vec<Token>,
    report: &'a mut Report,
    options: &'a Options<'a>,
    sources: Sources,
    libraries: Vec<String>,
    requirements: Vec<String>,
    /// How many compounds and groups are open.
    nesting: usize,
    /// How many port numbers may still be written.
    ports_left: usize,
    /// How many elements may still be written.
    nodes_left: usize,
    /// Parsing was given up; missing brackets are not reported again.
    stopped: bool,
}

impl Parser<'_> {
    fn next(&mut self) -> Token {
        match self.unread.pop() {
            Some(token) => token,
            None => self.lexer.next(self.report),
        }
    }

    fn unread(&mut self, token: Token) {
        self.unread.push(token);
    }

    fn peek(&mut self) -> Token {
        let token = self.next();
        self.unread(token.clone());
        token
    }

    fn accept(&mut self, c: char) -> bool {
        let token = self.next();
        let found = token.tok.is(c);
        if !found {
            self.unread(token);
        }
        found
    }

    fn expect(&mut self, c: char) -> bool {
        let found = self.accept(c);
        if !found {
            let loc = self.peek().loc;
            self.error(loc, format!("expected '{c}'"));
        }
        found
    }

    fn error(&mut self, loc: Loc, message: impl Into<String>) {
        if !self.stopped {
            self.report.error(loc, message);
        }
    }

    fn syntax_error(&mut self, token: &Token) {
        self.error(token.loc, format!("syntax error near {}", token.tok.shown()));
    }

    /// Reports an error and reads no further.
    fn give_up(&mut self, loc: Loc, message: impl Into<String>) {
        self.error(loc, message);
        self.stopped = true;
        self.unread.clear();
        self.lexer.stop();
    }

    /// The configuration string after a `(` that was just read, and the `)`.
    fn config(&mut self) -> String {
        let config = self.lexer.config(self.report);
        self.expect(')');
        config
    }

    /// Parses statements up to the end of what encloses them. Returns whether `||` ended them.
    fn statements(&mut self, enclosed: Enclosed, out: &mut Vec<Statement>) -> bool {
        loop {
            let token = self.next();
            match &token.tok {
                Tok::Char(';') => {}
                Tok::Ident(_) | Tok::Arrow | Tok::DoubleArrow | Tok::Char('[' | '{' | '(') => {
                    self.unread(token);
                    self.chain(out);
                }
                Tok::Keyword("elementclass") => self.element_class(&token, out),
                Tok::Keyword("require") => self.require(&token, out),
                Tok::Keyword("define") => self.define(&token, out),
                Tok::Char('}') | Tok::Bars if enclosed == Enclosed::Compound => {
                    return token.tok == Tok::Bars;
                }
                Tok::Char(')') if enclosed == Enclosed::Group => return false,
                Tok::Char('}') | Tok::Bars if enclosed == Enclosed::Group => {
                    self.error(token.loc, format!("expected ')' before {}", token.tok.shown()));
                    self.unread(token);
                    return false;
                }
                Tok::End => {
                    match enclosed {
                        Enclosed::File => {}
                        Enclosed::Compound => self.error(token.loc, "expected '}'"),
                        Enclosed::Group => self.error(token.loc, "expected ')'"),
                    }
                    return false;
                }
                _ => self.syntax_error(&token),
            }
        }
    }

    fn chain(&mut self, out: &mut Vec<Statement>) {
        let mut lists: Vec<List> = Vec::with_capacity(1);
        let mut arrow = None;
        while let Some(nodes) = self.list(lists.is_empty()) {
            let first = lists.is_empty();
            let shared = first && !self.peek().tok.is_arrow() && shares_declaration(&nodes);
            lists.push(List { arrow, nodes, shared });
            match self.arrow() {
                Some(a) => arrow = Some(a),
                None => break,
            }
        }
        if !lists.is_empty() {
            out.push(Statement::Chain(Chain { lists }));
        }
    }

    /// The arrow to the next list, or `None` at the end of the chain.
    fn arrow(&mut self) -> Option<Arrow> {
        loop {
            let token = self.next();
            match &token.tok {
                Tok::Arrow | Tok::DoubleArrow => {
                    return Some(Arrow { double: token.tok == Tok::DoubleArrow, loc: token.loc });
                }
                Tok::Char(',') | Tok::Colons => {
                    self.syntax_error(&token);
                    continue;
                }
                Tok::Char(';') => {}
                Tok::Ident(_) | Tok::Keyword(_) | Tok::Bars | Tok::End | Tok::Char('{' | '}' | '[' | ')') => {
                    self.unread(token);
                }
                _ => {
                    self.syntax_error(&token);
                    if !matches!(token.tok, Tok::Char(_)) {
                        self.unread(token);
                    }
                }
            }
            return None;
        }
    }

    /// A list of nodes; `None` if there is not even one. `first` says that no arrow stands before it.
    fn list(&mut self, first: bool) -> Option<Vec<Node>> {
        // Most lists have one node; a text of many lists should not take space for more.
        let mut nodes = Vec::with_capacity(1);
        let mut implicit = false;
        loop {
            let inputs = self.ports();
            let token = self.next();
            let loc = token.loc;
            match self.nodes_left.checked_sub(1) {
                Some(left) => self.nodes_left = left,
                None => {
                    self.give_up(loc, format!("more than {MAX_NODES_WRITTEN} elements or uses of elements"));
                }
            }
            let what = match token.tok {
                Tok::Ident(name) => self.element(name),
                Tok::Char('{') => {
                    let compound = self.compound(loc);
                    let config = self.accept('(').then(|| self.config());
                    What::Compound { compound, config }
                }
                Tok::Char('(') => What::Group(self.group(loc)),
                _ => {
                    let found = self.is_implicit(&token.tok, first, inputs.is_some(), nodes.is_empty());
                    if !found {
                        if inputs.is_some() {
                            self.error(loc, "stranded port ignored");
                        }
                        if !nodes.is_empty() {
                            self.unread(token);
                            break;
                        }
                        if self.nesting > 0 && first {
                            self.unread(token);
                        } else {
                            if inputs.is_none() {
                                self.syntax_error(&token);
                            }
                            if matches!(token.tok, Tok::Keyword(_)) {
                                self.unread(token);
                            }
                        }
                        return None;
                    }
                    implicit = true;
                    self.unread(token);
                    if first { What::ImplicitInput } else { What::ImplicitOutput }
                }
            };
            nodes.push(match what {
                // The ports written where an input is meant are the ports that packets come from.
                What::ImplicitInput => Node { inputs: None, outputs: inputs, what, loc },
                What::ImplicitOutput => Node { inputs, outputs: None, what, loc },
                _ => Node { inputs, outputs: self.ports(), what, loc },
            });
            if !self.accept(',') {
                break;
            }
        }
        let next = self.peek();
        if implicit && !first && next.tok.is_arrow() {
            self.error(next.loc, "implicit ports used in the middle of a chain");
        }
        Some(nodes)
    }

    /// Whether a node that is not written stands before `tok`. `alone` says that it would be the first of its list.
    fn is_implicit(&self, tok: &Tok, first: bool, has_ports: bool, alone: bool) -> bool {
        if self.nesting == 0 {
            false
        } else if tok.is_arrow() {
            first && (has_ports || alone)
        } else if tok.is(',') {
            has_ports
        } else if *tok == Tok::Colons {
            false
        } else {
            !first && (has_ports || alone)
        }
    }

    /// What follows an element or class name.
    fn element(&mut self, name: String) -> What {
        let token = self.next();
        let mut class = None;
        if token.tok == Tok::Colons {
            let token = self.next();
            class = Some(match token.tok {
                Tok::Ident(text) => ClassExpr::Named(Name { text, loc: token.loc }),
                Tok::Char('{') => ClassExpr::Compound(self.compound(token.loc)),
                _ => {
                    self.error(token.loc, "missing element type in declaration");
                    self.unread(token);
                    ClassExpr::Missing
                }
            });
        } else {
            self.unread(token);
        }
        let config = self.accept('(').then(|| self.config());
        What::Element { name, class, config }
    }
}

/// Whether these nodes, which have no arrow after them, are `a, b :: Class(config)`.
fn shares_declaration(nodes: &[Node]) -> bool {
    let Some((last, others)) = nodes.split_last() else { return false };
    let bare = |node: &Node| matches!(&node.what, What::Element { class: None, config: None, .. });
    let no_ports = |node: &Node| node.inputs.is_none() && node.outputs.is_none();
    !others.is_empty()
        && others.iter().all(bare)
        && nodes.iter().all(no_ports)
        && matches!(last.what, What::Element { class: Some(_), .. })
}
