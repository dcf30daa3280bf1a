//! From text to tree. The text is known to be well formed; other text gives some tree, never a panic.

use std::collections::VecDeque;

use super::tree::{Arg, Body, Config, File, Link, Part, Remark, Statement, Variant, Word};
use crate::diagnostic::Report;
use crate::lexer::{Lexer, Tok, config_end};
use crate::scan::{at, is_angle, is_comment, is_space, skip_angle, skip_comment, skip_quoted, skip_while};

/// Reads a configuration text.
pub(super) fn read(text: &str, report: &mut Report) -> File {
    let lexer = Lexer::new(text.into(), 0);
    let mut reader = Reader { text, lexer, report, ahead: VecDeque::new(), held: Vec::new() };
    let mut statements = Vec::new();
    loop {
        reader.statements(&mut statements);
        let end = reader.next();
        if end.tok == Tok::End {
            return File { statements, end };
        }
        statements.push(Statement { links: vec![Link { arrow: None, parts: vec![Part::Word(end)] }] });
    }
}

struct Reader<'a> {
    text: &'a str,
    lexer: Lexer,
    report: &'a mut Report,
    /// Words that were looked at already.
    ahead: VecDeque<Word>,
    /// Remarks of semicolons, for the word after them.
    held: Vec<Remark>,
}

impl Reader<'_> {
    fn lex(&mut self) -> Word {
        let from = self.lexer.pos();
        let token = self.lexer.next(self.report);
        let start = token.loc.offset as usize;
        let space = Space::read(self.text.get(from..start).unwrap_or(""), from == 0);
        let mut remarks = std::mem::take(&mut self.held);
        if let Some(last) = remarks.last_mut() {
            last.ends_line |= space.remarks.first().map_or(space.new_line, |r| r.own_line);
        }
        remarks.extend(space.remarks);
        if let (Tok::End, Some(last)) = (&token.tok, remarks.last_mut()) {
            last.ends_line = true;
        }
        let text = self.text.get(start..self.lexer.pos()).unwrap_or("").to_owned();
        Word { new_line: space.new_line, blank: space.blank, remarks, tok: token.tok, text }
    }

    fn next(&mut self) -> Word {
        match self.ahead.pop_front() {
            Some(word) => word,
            None => self.lex(),
        }
    }

    /// The token that is `n` tokens away.
    fn peek(&mut self, n: usize) -> Tok {
        while self.ahead.len() <= n {
            let word = self.lex();
            self.ahead.push_back(word);
        }
        self.ahead.get(n).map_or(Tok::End, |w| w.tok.clone())
    }

    fn statements(&mut self, out: &mut Vec<Statement>) {
        loop {
            match self.peek(0) {
                Tok::Char(';') => {
                    let word = self.next();
                    self.held.extend(word.remarks);
                }
                Tok::Char('}' | ')') | Tok::Bars | Tok::End => return,
                _ => out.push(self.statement()),
            }
        }
    }

    fn statement(&mut self) -> Statement {
        let mut link = Link::default();
        if let Tok::Keyword(keyword) = self.peek(0) {
            link.parts.push(Part::Word(self.next()));
            if keyword == "elementclass" {
                link.parts.push(Part::Word(self.next()));
                link.parts.push(self.word_or_body());
            } else {
                self.config(&mut link.parts);
            }
            return Statement { links: vec![link] };
        }
        let mut links = Vec::with_capacity(1);
        loop {
            self.list(&mut link.parts);
            let arrow = self.peek(0).is_arrow().then(|| self.next());
            if arrow.is_none() && links.is_empty() && link.parts.is_empty() {
                link.parts.push(Part::Word(self.next()));
            }
            links.push(std::mem::take(&mut link));
            link.arrow = arrow;
            if link.arrow.is_none() {
                return Statement { links };
            }
        }
    }

    /// Nodes with commas between them, perhaps none.
    fn list(&mut self, out: &mut Vec<Part>) {
        loop {
            self.ports(out);
            match self.peek(0) {
                Tok::Ident(_) => {
                    out.push(Part::Word(self.next()));
                    if self.peek(0) == Tok::Colons {
                        out.push(Part::Word(self.next()));
                        out.push(self.word_or_body());
                    }
                    self.config(out);
                    self.ports(out);
                }
                Tok::Char('{') => {
                    out.push(self.word_or_body());
                    self.config(out);
                    self.ports(out);
                }
                Tok::Char('(') => {
                    let body = self.body();
                    out.push(Part::Body(body));
                    self.ports(out);
                }
                _ => {}
            }
            if self.peek(0) != Tok::Char(',') {
                return;
            }
            out.push(Part::Word(self.next()));
        }
    }

    fn ports(&mut self, out: &mut Vec<Part>) {
        if self.peek(0) != Tok::Char('[') {
            return;
        }
        loop {
            let word = self.next();
            let last = matches!(word.tok, Tok::Char(']') | Tok::End);
            out.push(Part::Word(word));
            if last {
                return;
            }
        }
    }

    fn word_or_body(&mut self) -> Part {
        match self.peek(0) {
            Tok::Char('{') => Part::Body(self.body()),
            _ => Part::Word(self.next()),
        }
    }

    /// A compound or group, whose opening bracket is next.
    fn body(&mut self) -> Body {
        let open = self.next();
        let group = open.tok.is('(');
        let mut variants = Vec::new();
        let mut bars = None;
        loop {
            let mut variant = Variant { bars, formals: Vec::new(), statements: Vec::new() };
            if self.peek(0) == Tok::Dots {
                variant.formals.push(self.next());
            } else if !group {
                self.formals(&mut variant.formals);
            }
            self.statements(&mut variant.statements);
            variants.push(variant);
            if group || self.peek(0) != Tok::Bars {
                break;
            }
            bars = Some(self.next());
        }
        let first_lines = |v: &Variant| v.statements.first().and_then(Statement::first).map(|w| w.new_line);
        let lines = variants.iter().any(|v| first_lines(v) == Some(true));
        Body { open, variants, close: self.next(), lines }
    }

    /// `$a, KEYWORD $b |`
    fn formals(&mut self, out: &mut Vec<Word>) {
        let found = match self.peek(0) {
            Tok::Variable(_) | Tok::Char('|') => true,
            Tok::Ident(_) => matches!(self.peek(1), Tok::Variable(_)),
            _ => false,
        };
        while found && !out.last().is_some_and(|w| matches!(w.tok, Tok::Char('|') | Tok::End)) {
            out.push(self.next());
        }
    }

    /// A configuration string, if its `(` is next.
    fn config(&mut self, out: &mut Vec<Part>) {
        // Nothing behind the parenthesis may be read as a token.
        if self.peek(0) != Tok::Char('(') {
            return;
        }
        let open = self.next();
        let from = self.lexer.pos();
        self.lexer.config(self.report);
        let raw = self.text.get(from..self.lexer.pos()).unwrap_or("");
        // The closing parenthesis: remarks before it are part of the string.
        self.next();
        out.push(Part::Config(config(open, raw)));
    }
}

/// White space and comments.
#[derive(Default)]
struct Space {
    remarks: Vec<Remark>,
    new_line: bool,
    blank: bool,
}

impl Space {
    /// `text` is white space, comments and line directives; `start` says that a line begins before it.
    fn read(text: &str, start: bool) -> Space {
        let s = text.as_bytes();
        let mut space = Space::default();
        let mut lines = usize::from(start);
        let mut i = 0;
        while i < s.len() {
            let b = at(s, i);
            if b == b'\n' || (b == b'\r' && at(s, i + 1) != b'\n') {
                lines += 1;
                space.new_line = true;
            }
            if is_space(b) {
                i += 1;
                continue;
            }
            let directive = b == b'#';
            let end = if directive || at(s, i + 1) == b'/' {
                skip_while(s, i, |b| b != b'\n' && b != b'\r')
            } else {
                skip_comment(s, i)
            };
            space.end_line(lines);
            let text = text.get(i..end).unwrap_or("").trim_end().to_owned();
            let (own_line, blank) = (lines > 0, lines > 1);
            space.remarks.push(Remark { text, directive, own_line, blank, ends_line: false });
            lines = 0;
            i = end.max(i + 1);
        }
        space.end_line(lines);
        space.blank = lines > 1;
        space
    }

    fn end_line(&mut self, lines: usize) {
        if let Some(remark) = self.remarks.last_mut() {
            remark.ends_line = lines > 0;
        }
    }

    /// Takes the remarks that stand on the line that this space begins on, if that line ends before what follows.
    fn take_same_line(&mut self) -> Vec<Remark> {
        let count = same_line(&self.remarks);
        self.remarks.drain(..count).collect()
    }
}

/// How many of the remarks stand on the line of what is before them, if that line ends after one of them.
pub(super) fn same_line(remarks: &[Remark]) -> usize {
    let count = remarks.iter().take_while(|r| !r.own_line).count();
    remarks.iter().take(count).position(|r| r.ends_line).map_or(0, |last| last + 1)
}

fn config(open: Word, raw: &str) -> Config {
    let s = raw.as_bytes();
    let mut config = Config { open, args: Vec::new(), last_comma: false, lines: false, verbatim: None };
    let mut verbatim = config_end(&format!("{raw})")).is_none();
    let mut i = 0;
    loop {
        let (start, mut end) = (skip_space(s, i), skip_space(s, i));
        let mut before = Space::read(raw.get(i..start).unwrap_or(""), false);
        if let Some(last) = config.args.last_mut() {
            last.after.extend(before.take_same_line());
        }
        i = start;
        while i < s.len() && at(s, i) != b',' {
            if is_space(at(s, i)) {
                i += 1;
            } else if is_comment(s, i) {
                // The value of a parameter could join a comment that touches it.
                verbatim |= i == end && raw.contains('$');
                i = skip_comment(s, i);
            } else {
                i = match at(s, i) {
                    b'"' | b'\'' => skip_quoted(s, i),
                    _ if is_angle(s, i) => skip_angle(s, i),
                    _ => i + 1,
                };
                end = i;
            }
        }
        i = i.min(s.len());
        let after = Space::read(raw.get(end..i).unwrap_or(""), false).remarks;
        let text = raw.get(start..end).unwrap_or("").to_owned();
        let is_last = i >= s.len();
        if is_last && text.is_empty() {
            // What follows the last comma.
            let dropped = config.args.last().is_some_and(|a| !a.text.is_empty() && !a.text.contains('$'));
            config.last_comma = !config.args.is_empty() && !dropped;
            before.remarks.extend(after);
            match config.args.last_mut() {
                Some(last) if last.text.is_empty() && last.after.is_empty() => {
                    last.before.extend(before.remarks);
                }
                Some(last) => last.after.extend(before.remarks),
                None if before.remarks.is_empty() => {}
                None => config.args.push(Arg { before: before.remarks, text, blank: false, after: vec![] }),
            }
        } else {
            config.lines |= before.new_line;
            config.args.push(Arg { before: before.remarks, text, blank: before.blank, after });
        }
        if is_last {
            break;
        }
        i += 1;
    }
    config.verbatim = verbatim.then(|| raw.to_owned());
    config
}

/// Skips white space and comments; the end of the last comment or blank.
fn skip_space(s: &[u8], i: usize) -> usize {
    crate::scan::skip_blank(s, i).min(s.len())
}
