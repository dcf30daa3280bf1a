//! From tokens to statements.

use crate::ast::{Arrow, Chain, ClassExpr, CompoundExpr, Formal, List, Name, Node, Ports, REST, Statement, Variant, What};
use crate::config::{first_word, split_args, split_words, unquote_text};
use crate::diagnostic::Report;
use crate::expand::variable_name;
use crate::lexer::{Lexer, Tok, Token};
use crate::source::{Loc, Source, Sources};
use crate::{MAX_NESTING, MAX_PORT, MAX_PORTS_WRITTEN, MAX_TEXT, Options};

/// What the parser found in all texts.
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
        stopped: false,
    };
    let mut statements = Vec::new();
    parser.statements(Enclosed::File, &mut statements);
    let marks = std::mem::take(&mut parser.lexer.marks);
    parser.sources.set_marks(source, marks);
    Parsed { statements, requirements: parser.requirements, sources: parser.sources }
}

/// What the statements being parsed are in.
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
    /// Parsing was given up; missing brackets are no news.
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
                Tok::Char('}') | Tok::Bars if enclosed == Enclosed::Compound => return token.tok == Tok::Bars,
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
        let mut lists: Vec<List> = Vec::new();
        let mut arrow = None;
        loop {
            let Some(nodes) = self.list(lists.is_empty()) else { break };
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

    /// A list of nodes; `None` if there is not even one. `first` tells that no arrow stands before it.
    fn list(&mut self, first: bool) -> Option<Vec<Node>> {
        let mut nodes = Vec::new();
        let mut implicit = false;
        loop {
            let inputs = self.ports();
            let token = self.next();
            let loc = token.loc;
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
                            self.syntax_error(&token);
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

    /// Whether a node that is not written stands before `tok`. `alone` tells that it would be the first of its list.
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

    fn ports(&mut self) -> Option<Ports> {
        if !self.accept('[') {
            return None;
        }
        let mut ports = Ports::default();
        let mut range_from = None;
        loop {
            let token = self.next();
            match &token.tok {
                Tok::Ident(number) => {
                    let port = self.port_number(number, token.loc);
                    let from = match range_from.take() {
                        Some(from) if from > port => {
                            self.error(token.loc, format!("syntax error: port range {from}-{port} runs backwards"));
                            port
                        }
                        Some(from) => from + 1,
                        None => port,
                    };
                    let count = (port + 1).saturating_sub(from) as usize;
                    if count > self.ports_left {
                        self.give_up(token.loc, format!("more than {MAX_PORTS_WRITTEN} port numbers"));
                        return Some(ports);
                    }
                    self.ports_left -= count;
                    ports.list.extend(from..=port);
                }
                Tok::Char(']') => {
                    if ports.list.is_empty() {
                        ports.list.push(0);
                    }
                    ports.open = true;
                    return Some(ports);
                }
                _ => {
                    self.error(token.loc, "syntax error: expected port number");
                    self.unread(token);
                    return Some(ports);
                }
            }
            let token = self.next();
            match &token.tok {
                Tok::Char(']') => return Some(ports),
                Tok::Char('-') => range_from = ports.list.last().copied(),
                Tok::Char(',') => {}
                _ => {
                    self.error(token.loc, "syntax error: expected ','");
                    self.unread(token);
                    return Some(ports);
                }
            }
        }
    }

    /// A port number: decimal, `0x…` or octal with a leading 0.
    fn port_number(&mut self, text: &str, loc: Loc) -> u32 {
        let parsed = if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            u32::from_str_radix(hex, 16)
        } else if text.len() > 1 && text.starts_with('0') {
            u32::from_str_radix(text, 8)
        } else {
            text.parse()
        };
        match parsed {
            Ok(port) if port <= MAX_PORT => port,
            Ok(_) => {
                self.error(loc, format!("port number {text} too large (the largest is {MAX_PORT})"));
                0
            }
            Err(_) => {
                self.error(loc, "syntax error: port number should be integer");
                0
            }
        }
    }

    /// The statements of a group whose `(` was just read.
    fn group(&mut self, loc: Loc) -> Vec<Statement> {
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
    fn compound(&mut self, loc: Loc) -> CompoundExpr {
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

    fn element_class(&mut self, keyword: &Token, out: &mut Vec<Statement>) {
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

    fn define(&mut self, keyword: &Token, out: &mut Vec<Statement>) {
        if !self.expect('(') {
            return;
        }
        for arg in split_args(&self.config()) {
            let (word, value) = first_word(&arg).unwrap_or(("", ""));
            match variable_name(word) {
                Some(name) => out.push(Statement::Define {
                    name: name.to_string(),
                    value: value.to_string(),
                    loc: keyword.loc,
                }),
                None if arg.is_empty() => {}
                None => self.error(keyword.loc, "bad 'define' declaration: not a variable"),
            }
        }
    }

    fn require(&mut self, keyword: &Token, out: &mut Vec<Statement>) {
        if !self.expect('(') {
            return;
        }
        for arg in split_args(&self.config()) {
            let words = split_words(&arg);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let value = |word: &str| unquote_text(word).filter(|v| !v.is_empty());
            match words.as_slice() {
                // How Click stores configuration strings in memory; without meaning here.
                [] | ["compact_config"] => {}
                ["library", file] if value(file).is_some() => {
                    self.library(&value(file).unwrap_or_default(), keyword.loc, out);
                }
                ["package", name] | [name] if value(name).is_some() && !matches!(*name, "package" | "library") => {
                    let name = value(name).unwrap_or_default();
                    if !self.requirements.contains(&name) {
                        self.requirements.push(name);
                    }
                }
                _ => self.error(keyword.loc, "syntax error at requirement"),
            }
        }
    }

    /// Parses a required library into `out`, once.
    fn library(&mut self, name: &str, loc: Loc, out: &mut Vec<Statement>) {
        if self.nesting > 0 {
            self.error(loc, "'require library' must be used at file scope");
            return;
        }
        if self.libraries.iter().any(|known| known == name) {
            return;
        }
        let Some(text) = self.options.library.and_then(|load| load(name)) else {
            self.error(loc, format!("library '{name}' not found"));
            return;
        };
        let size = text.len() + self.sources.size();
        if size > MAX_TEXT || self.libraries.len() >= MAX_NESTING {
            self.give_up(loc, format!("library '{name}': too much text or too many libraries"));
            return;
        }
        self.libraries.push(name.to_string());
        let source = self.sources.add(Source::new(name, &text));
        let lexer = Lexer::new(text.as_str().into(), source);
        let outer_lexer = std::mem::replace(&mut self.lexer, lexer);
        let outer_unread = std::mem::take(&mut self.unread);
        self.statements(Enclosed::File, out);
        let done = std::mem::replace(&mut self.lexer, outer_lexer);
        self.sources.set_marks(source, done.marks);
        self.unread = outer_unread;
        if self.stopped {
            self.unread.clear();
            self.lexer.stop();
        }
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
