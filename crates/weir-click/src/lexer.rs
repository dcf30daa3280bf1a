//! Tokens. Configuration strings are not tokens: the parser asks for one after it has read `(`.

use std::sync::Arc;

use crate::config::{join_args, split_args, unquote};
use crate::diagnostic::Report;
use crate::scan::{
    at, is_angle, is_comment, is_space, is_word_byte, skip_angle, skip_comment, skip_quoted, skip_while,
};
use crate::source::{LineMark, Loc};

/// A kind of token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tok {
    /// Letters, digits, `_`, `@` and inner slashes. Also numbers.
    Ident(String),
    /// `$name`, without the dollar sign; the name may be empty.
    Variable(String),
    /// `->`
    Arrow,
    /// `=>`
    DoubleArrow,
    /// `::`
    Colons,
    /// `||`
    Bars,
    /// `...`
    Dots,
    /// A reserved word: `elementclass`, `require`, `provide`, `define`.
    Keyword(&'static str),
    /// Any other character.
    Char(char),
    /// The end of the text.
    End,
}

impl Tok {
    pub fn is(&self, c: char) -> bool {
        *self == Tok::Char(c)
    }

    pub fn is_arrow(&self) -> bool {
        matches!(self, Tok::Arrow | Tok::DoubleArrow)
    }

    /// The token as an error message shows it.
    pub fn shown(&self) -> String {
        match self {
            Tok::Ident(name) => format!("'{name}'"),
            Tok::Variable(name) => format!("'${name}'"),
            Tok::Arrow => "'->'".into(),
            Tok::DoubleArrow => "'=>'".into(),
            Tok::Colons => "'::'".into(),
            Tok::Bars => "'||'".into(),
            Tok::Dots => "'...'".into(),
            Tok::Keyword(word) => format!("'{word}'"),
            Tok::Char(c) => format!("'{}'", c.escape_debug()),
            Tok::End => "end of file".into(),
        }
    }
}

/// A token and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub tok: Tok,
    pub loc: Loc,
}

const KEYWORDS: [&str; 4] = ["elementclass", "require", "provide", "define"];

pub(crate) struct Lexer {
    text: Arc<str>,
    source: u32,
    pos: usize,
    /// The line directives read so far.
    pub marks: Vec<LineMark>,
}

fn is_ident_byte(b: u8) -> bool {
    is_word_byte(b) || b == b'@'
}

impl Lexer {
    pub fn new(text: Arc<str>, source: u32) -> Lexer {
        Lexer { text, source, pos: 0, marks: Vec::new() }
    }

    fn slice(&self, from: usize, to: usize) -> &str {
        self.text.get(from..to).unwrap_or("")
    }

    fn loc(&self, offset: usize) -> Loc {
        Loc { source: self.source, offset: offset as u32 }
    }

    /// How far the text has been read, in bytes.
    pub fn pos(&self) -> usize {
        self.pos
    }

    /// Goes to the end of the text: nothing more will be read.
    pub fn stop(&mut self) {
        self.pos = self.text.len();
    }

    pub fn next(&mut self, report: &mut Report) -> Token {
        self.skip_to_token(report);
        let text = self.text.clone();
        let s = text.as_bytes();
        let start = self.pos;
        let token = |tok| Token { tok, loc: Loc { source: self.source, offset: start as u32 } };
        let b = at(s, start);
        let symbol = match (b, at(s, start + 1), at(s, start + 2)) {
            (b'-', b'>', _) => Some((Tok::Arrow, 2)),
            (b'=', b'>', _) => Some((Tok::DoubleArrow, 2)),
            (b':', b':', _) => Some((Tok::Colons, 2)),
            (b'|', b'|', _) => Some((Tok::Bars, 2)),
            (b'.', b'.', b'.') => Some((Tok::Dots, 3)),
            _ => None,
        };
        if let Some((tok, len)) = symbol {
            self.pos += len;
            return token(tok);
        }
        if is_ident_byte(b) {
            let end = ident_end(s, start);
            self.pos = end;
            let word = self.slice(start, end);
            return token(match KEYWORDS.iter().find(|k| **k == word) {
                Some(keyword) => Tok::Keyword(keyword),
                None => Tok::Ident(word.to_string()),
            });
        }
        if b == b'$' {
            let end = skip_while(s, start + 1, is_word_byte);
            self.pos = end;
            return token(Tok::Variable(self.slice(start + 1, end).to_string()));
        }
        match text.get(start..).and_then(|rest| rest.chars().next()) {
            Some(c) => {
                self.pos += c.len_utf8();
                token(Tok::Char(c))
            }
            None => token(Tok::End),
        }
    }

    /// Reads a configuration string up to its closing parenthesis, which stays unread. Line directives in it are
    /// obeyed and cut out.
    pub fn config(&mut self, report: &mut Report) -> String {
        let text = self.text.clone();
        let s = text.as_bytes();
        let mut out = String::new();
        let mut copied = self.pos;
        let mut depth = 1u32;
        while self.pos < s.len() {
            let i = self.pos;
            match step(s, i, &mut depth) {
                Step::Close => break,
                Step::Directive => {
                    out.push_str(self.slice(copied, i));
                    self.line_directive(report);
                    copied = self.pos;
                }
                Step::To(next) => self.pos = next,
            }
        }
        self.pos = self.pos.min(s.len());
        out.push_str(self.slice(copied, self.pos));
        out
    }

    fn skip_to_token(&mut self, report: &mut Report) {
        let text = self.text.clone();
        let s = text.as_bytes();
        while self.pos < s.len() {
            if is_space(at(s, self.pos)) {
                self.pos += 1;
            } else if is_comment(s, self.pos) {
                self.pos = skip_comment(s, self.pos);
            } else if starts_directive(s, self.pos) {
                self.line_directive(report);
            } else {
                break;
            }
        }
    }

    /// Reads `# 12 "file"` or `#line 12 "file"` and stops at the end of its line.
    fn line_directive(&mut self, report: &mut Report) {
        let text = self.text.clone();
        let s = text.as_bytes();
        let blank = |i| skip_while(s, i, |b| b == b' ' || b == b'\t');
        let line_end = skip_while(s, self.pos, |b| b != b'\n' && b != b'\r');
        let mut i = blank(self.pos + 1);
        let after_word = i + 4;
        if self.slice(i, after_word) == "line" && matches!(at(s, after_word), b' ' | b'\t') {
            i = blank(after_word);
        }
        let number_end = skip_while(s, i, |b| b.is_ascii_digit());
        if number_end == i {
            report.error(self.loc(self.pos), "unknown preprocessor directive");
            self.pos = line_end;
            return;
        }
        let line = self.slice(i, number_end).parse().unwrap_or(u32::MAX);
        i = blank(number_end);
        let mut file = self.marks.last().and_then(|m| m.file.clone());
        if at(s, i) == b'"' {
            let end = skip_quoted(s, i).min(line_end);
            let name = String::from_utf8_lossy(&unquote(self.slice(i, end))).into_owned();
            // An empty name means the text's own.
            file = (!name.is_empty()).then(|| name.into());
        }
        let crlf = at(s, line_end) == b'\r' && at(s, line_end + 1) == b'\n';
        let from = (line_end + if crlf { 2 } else { 1 }).min(s.len());
        self.marks.push(LineMark { from: from as u32, line, file });
        self.pos = line_end;
    }
}

fn ident_end(s: &[u8], start: usize) -> usize {
    let mut end = skip_while(s, start, is_ident_byte);
    while at(s, end) == b'/' && is_ident_byte(at(s, end + 1)) {
        end = skip_while(s, end + 1, is_ident_byte);
    }
    end
}

fn starts_directive(s: &[u8], i: usize) -> bool {
    at(s, i) == b'#' && (i == 0 || matches!(at(s, i - 1), b'\n' | b'\r'))
}

/// A lexical unit of a configuration string.
enum Step {
    /// The parenthesis that ends it.
    Close,
    /// A line directive.
    Directive,
    /// Anything else, which goes up to this position.
    To(usize),
}

fn step(s: &[u8], i: usize, depth: &mut u32) -> Step {
    match at(s, i) {
        b'(' => *depth = depth.saturating_add(1),
        b')' => {
            *depth -= 1;
            if *depth == 0 {
                return Step::Close;
            }
        }
        b'"' | b'\'' => return Step::To(skip_quoted(s, i)),
        b'#' if i > 0 && starts_directive(s, i) => return Step::Directive,
        _ if is_comment(s, i) => return Step::To(skip_comment(s, i)),
        _ if is_angle(s, i) => return Step::To(skip_angle(s, i)),
        _ => {}
    }
    Step::To(i + 1)
}

/// Where the configuration string that starts `text` ends: the position of its closing parenthesis. `None` if it
/// has none or if a part of it would be read as a line directive.
pub(crate) fn config_end(text: &str) -> Option<usize> {
    let s = text.as_bytes();
    let mut depth = 1;
    let mut i = 0;
    while i < s.len() {
        match step(s, i, &mut depth) {
            Step::Close => return Some(i),
            Step::Directive => return None,
            Step::To(next) => i = next,
        }
    }
    None
}

/// Whether these arguments, written between parentheses, are read as these arguments.
pub(crate) fn is_self_contained(args: &[String]) -> bool {
    let text = format!("{})", join_args(args));
    config_end(&text).is_some_and(|end| end + 1 == text.len())
        && text.strip_suffix(')').is_some_and(|config| split_args(config) == args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut report = Report::new(10);
        let mut lexer = Lexer::new(text.into(), 0);
        let mut out = Vec::new();
        loop {
            let token = lexer.next(&mut report);
            if token.tok == Tok::End {
                return out;
            }
            out.push(token.tok.shown());
        }
    }

    #[test]
    fn slashes_join_identifiers_but_two_begin_a_comment() {
        assert_eq!(tokens("an/id//too/many\nb/ c@1"), ["'an/id'", "'b'", "'/'", "'c@1'"]);
        assert_eq!(tokens("a/*x*/b"), ["'a'", "'b'"]);
    }

    #[test]
    fn symbols_take_the_longest_form() {
        assert_eq!(
            tokens("a->b=>c::d||e|...é$x1-"),
            [
                "'a'", "'->'", "'b'", "'=>'", "'c'", "'::'", "'d'", "'||'", "'e'", "'|'", "'...'", "'é'",
                "'$x1'", "'-'"
            ]
        );
    }

    #[test]
    fn a_configuration_string_ends_at_its_own_parenthesis() {
        for (text, want) in [
            ("simple string) x", "simple string"),
            ("with (balanced parens)) x", "with (balanced parens)"),
            ("with \")quoted\" paren) x", "with \")quoted\" paren"),
            ("// end-of-line comment)\n still going!) x", "// end-of-line comment)\n still going!"),
            ("/* slash-star ) */ and backslash \\) x", "/* slash-star ) */ and backslash \\"),
            ("\\<28 /* > */ 29>) x", "\\<28 /* > */ 29>"),
            ("\"\\\\\") x", "\"\\\\\""),
        ] {
            let mut lexer = Lexer::new(text.into(), 0);
            assert_eq!(lexer.config(&mut Report::new(10)), want);
            assert_eq!(lexer.next(&mut Report::new(10)).tok, Tok::Char(')'));
        }
    }

    #[test]
    fn arguments_that_would_be_read_otherwise_are_found() {
        let args = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(is_self_contained(&args(&["a", "", "(x", "y)"])));
        assert!(is_self_contained(&[]));
        assert!(!is_self_contained(&args(&["a)"])));
        assert!(!is_self_contained(&args(&["(a"])));
        assert!(!is_self_contained(&args(&["a,b"])));
        assert!(!is_self_contained(&args(&["\"open"])));
    }
}
