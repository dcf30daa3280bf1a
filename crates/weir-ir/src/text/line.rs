//! One line of text as tokens.

use super::names::{Reference, continues_word, shortened, starts_word};

/// Why a line cannot be read.
pub(super) struct Fault {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

pub(super) type Result<T> = std::result::Result<T, Fault>;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Quoted(String),
    Number(u128),
    Mark(&'static str),
    /// The line or what is said on it is over.
    End,
    /// What is no token, and why.
    Bad(String),
}

/// Longer marks before their prefixes.
const MARKS: [&str; 18] =
    ["->", "..", "(", ")", "{", "}", "[", "]", ",", ":", "=", "?", "+", "&", "/", "#", ".", "-"];

/// A cursor on a line. Reads one token ahead, so that memory does not grow with the line.
pub(super) struct Line<'a> {
    text: &'a str,
    /// Byte where the current token starts.
    start: usize,
    /// Byte after it.
    end: usize,
    token: Token<'a>,
}

impl<'a> Line<'a> {
    pub fn new(text: &'a str) -> Line<'a> {
        let mut line = Line { text, start: 0, end: 0, token: Token::End };
        line.advance();
        line
    }

    /// The current token.
    pub fn token(&self) -> &Token<'a> {
        &self.token
    }

    /// The current token if it is a word, else nothing.
    pub fn peek_word(&self) -> &'a str {
        match self.token {
            Token::Word(w) => w,
            _ => "",
        }
    }

    /// Goes to the next token.
    pub fn advance(&mut self) {
        let rest = &self.text[self.end..];
        let trimmed = rest.trim_start();
        self.start = self.end + (rest.len() - trimmed.len());
        let (token, len) = lex(trimmed);
        self.token = token;
        self.end = self.start + len;
    }

    /// Where the current token starts, for [`Line::fault_at`].
    pub fn position(&self) -> usize {
        self.start
    }

    /// An error at the current token.
    pub fn fault<T>(&self, message: impl Into<String>) -> Result<T> {
        self.fault_at(self.start, message)
    }

    /// An error at a token that was passed.
    pub fn fault_at<T>(&self, position: usize, message: impl Into<String>) -> Result<T> {
        let column = self.text[..position].chars().count() + 1;
        Err(Fault { column, message: message.into() })
    }

    /// The error that something else than the current token should be here.
    pub fn expected<T>(&self, what: &str) -> Result<T> {
        let found = match &self.token {
            Token::Word(w) => format!("'{}'", shortened(w)),
            Token::Quoted(s) => format!("the name \"{}\"", shortened(&s.escape_debug().to_string())),
            Token::Number(n) => format!("the number {n}"),
            Token::Mark(m) => format!("'{m}'"),
            Token::End => "the end of the line".into(),
            Token::Bad(message) => return self.fault(message.clone()),
        };
        self.fault(format!("expected {what}, found {found}"))
    }

    /// Steps over a mark if it is the current token.
    pub fn eat(&mut self, mark: &str) -> bool {
        let here = matches!(self.token, Token::Mark(m) if m == mark);
        if here {
            self.advance();
        }
        here
    }

    /// Steps over a word if it is the current token.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let here = self.peek_word() == word;
        if here {
            self.advance();
        }
        here
    }

    /// Steps over a mark that must be here.
    pub fn mark(&mut self, mark: &str) -> Result<()> {
        if self.eat(mark) { Ok(()) } else { self.expected(&format!("'{mark}'")) }
    }

    /// Steps over a word that must be here.
    pub fn keyword(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) { Ok(()) } else { self.expected(&format!("'{word}'")) }
    }

    /// Nothing more may be on the line.
    pub fn finish(&self) -> Result<()> {
        if self.token == Token::End { Ok(()) } else { self.expected("the end of the line") }
    }

    /// A number that fits `T`.
    pub fn number<T: TryFrom<u128>>(&mut self, what: &str) -> Result<T> {
        let Token::Number(n) = self.token else { return self.expected(what) };
        match T::try_from(n) {
            Ok(n) => {
                self.advance();
                Ok(n)
            }
            Err(_) => self.fault(format!("{n} is too large: {what} has {} bits", 8 * size_of::<T>())),
        }
    }

    /// A name, with quotes or without.
    pub fn name(&mut self, what: &str) -> Result<String> {
        let name = match &mut self.token {
            Token::Word(w) => (*w).to_owned(),
            Token::Quoted(s) => std::mem::take(s),
            _ => return self.expected(what),
        };
        self.advance();
        Ok(name)
    }

    /// A reference: `NAME`, `ELEMENT/NAME` or `#N`.
    pub fn reference(&mut self, what: &str) -> Result<Reference> {
        if self.eat("#") {
            return Ok(Reference::Number(self.number("a number after '#'")?));
        }
        let first = self.name(what)?;
        if self.eat("/") {
            return Ok(Reference::Qualified(first, self.name(what)?));
        }
        Ok(Reference::Plain(first))
    }

    /// `LETTER` and a number, written as one word: `v7`, `b3`.
    pub fn numbered(&mut self, letter: char, what: &str) -> Result<u32> {
        match numbered(self.peek_word(), letter) {
            Some(Ok(n)) => {
                self.advance();
                Ok(n)
            }
            Some(Err(())) => self.fault(format!("the number of {what} has at most 32 bits")),
            None => self.expected(what),
        }
    }

    /// A list in parentheses, with commas between the items.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Line<'a>) -> Result<T>) -> Result<Vec<T>> {
        self.mark("(")?;
        let mut items = Vec::new();
        if self.eat(")") {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(")") {
                return Ok(items);
            }
            if !self.eat(",") {
                return self.expected("',' or ')'");
            }
        }
    }
}

/// The number in a word of a letter and digits; an error if it does not fit.
pub(super) fn numbered(word: &str, letter: char) -> Option<std::result::Result<u32, ()>> {
    let digits = word.strip_prefix(letter)?;
    let all = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    all.then(|| digits.parse().map_err(|_| ()))
}

/// The first token of a text without leading space, and its length in bytes.
fn lex(text: &str) -> (Token<'_>, usize) {
    let Some(first) = text.chars().next() else { return (Token::End, 0) };
    if first == ';' {
        return (Token::End, 0);
    }
    if first == '"' {
        return lex_quoted(text);
    }
    if first.is_ascii_digit() {
        return lex_number(text);
    }
    if starts_word(first) {
        let len = word_len(text);
        return (Token::Word(&text[..len]), len);
    }
    match MARKS.into_iter().find(|m| text.starts_with(m)) {
        Some(m) => (Token::Mark(m), m.len()),
        None => (
            Token::Bad(format!("{first:?} cannot stand here; a name of such characters needs quotes")),
            first.len_utf8(),
        ),
    }
}

/// Length of the letters, digits and joining characters that `text` starts with.
fn word_len(text: &str) -> usize {
    let next = |i: usize| text[i..].chars().nth(1);
    text.char_indices().find(|&(i, c)| !continues_word(c, next(i))).map_or(text.len(), |(i, _)| i)
}

fn lex_number(text: &str) -> (Token<'_>, usize) {
    let len = word_len(text);
    let word = &text[..len];
    let parsed = match word.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u128::from_str_radix(hex, 16).ok(),
        None if word.bytes().all(|b| b.is_ascii_digit()) => word.parse().ok(),
        _ => None,
    };
    let bad = || {
        let word = shortened(word);
        Token::Bad(format!("'{word}' is no number: digits or 0x and hexadecimal digits, at most 128 bits"))
    };
    (parsed.map_or_else(bad, Token::Number), len)
}

fn lex_quoted(text: &str) -> (Token<'_>, usize) {
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return (Token::Quoted(name), i + 1),
            '\\' => match chars.next() {
                Some((_, c @ ('"' | '\\'))) => name.push(c),
                Some((_, 'u')) => {
                    let mut hex = String::new();
                    let mut closed = false;
                    if chars.next().is_some_and(|(_, c)| c == '{') {
                        for (_, c) in chars.by_ref().take(7) {
                            closed = c == '}';
                            if !c.is_ascii_hexdigit() {
                                break;
                            }
                            hex.push(c);
                        }
                    }
                    match u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32) {
                        Some(c) if closed => name.push(c),
                        _ => {
                            return (Token::Bad("\\u needs a character's number: \\u{a}".into()), text.len());
                        }
                    }
                }
                _ => return (Token::Bad("after \\ comes \\, \" or u{HEX}".into()), text.len()),
            },
            c => name.push(c),
        }
    }
    (Token::Bad("the name has no closing '\"' on this line".into()), text.len())
}
