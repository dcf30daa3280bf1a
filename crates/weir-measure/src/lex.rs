//! Words of a text.

use crate::error::Mistake;

/// A word.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// A name, or a number: letters, digits and `. _ - : /` between them, as in `overload.risk.rx`, `sap:lan`, `0.5`.
    Word(String),
    /// Text in quotes, which may have a backslash before each.
    Text(String),
    /// `{ } ( ) = ; , + * < > <= >= == != -> && ||` and the rest.
    Sign(&'static str),
    /// The end.
    End,
}

impl Token {
    /// What it is, for a message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Word(word) => crate::error::quote(word),
            Token::Text(text) => format!("the text {}", crate::error::quote(text)),
            Token::Sign(sign) => format!("{sign:?}"),
            Token::End => "the end".to_owned(),
        }
    }
}

/// A word and its line and column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    pub(crate) at: (usize, usize),
}

const SIGNS: &[&str] = &[
    "->", "<=", ">=", "==", "!=", "&&", "||", "{", "}", "(", ")", "=", ";", ",", "+", "-", "*", "/", "<",
    ">", "!",
];

/// Splits a text; what is no word is a mistake, and left out.
pub(crate) fn lex(text: &str, mistakes: &mut Vec<Mistake>) -> Vec<Placed> {
    let mut tokens = Vec::new();
    let (mut rest, mut line, mut column) = (text, 1, 1);
    while let Some(first) = rest.chars().next() {
        let at = (line, column);
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if first == '#' || rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '"' || rest.starts_with("\\\"") {
            let (length, text) = quoted(rest);
            match text {
                Some(text) => tokens.push(Placed { token: Token::Text(text), at }),
                None => mistakes
                    .push(Mistake::new("a text does not end on its line", "write \" at its end").at(at)),
            }
            length
        } else if first.is_alphanumeric() || first == '_' {
            let length = word(rest);
            tokens.push(Placed { token: Token::Word(rest.get(..length).unwrap_or_default().to_owned()), at });
            length
        } else if let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) {
            tokens.push(Placed { token: Token::Sign(sign), at });
            sign.len()
        } else {
            let message = format!("{} has no meaning here", crate::error::quote(&first.to_string()));
            mistakes.push(Mistake::new(message, "put texts in quotes").at(at));
            first.len_utf8()
        };
        let (taken, left) = rest.split_at_checked(length).unwrap_or((rest, ""));
        for c in taken.chars() {
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        rest = left;
    }
    tokens.push(Placed { token: Token::End, at: (line, column) });
    tokens
}

/// The length of a word: signs belong to it where a letter or digit follows; in what begins as a number, `-` and `/` are operators.
fn word(rest: &str) -> usize {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let signs = if rest.starts_with(|c: char| c.is_ascii_digit()) { ".:" } else { ".-:/" };
    let mut end = 0;
    let mut letters = rest.char_indices().peekable();
    while let Some((i, c)) = letters.next() {
        let joins = signs.contains(c) && letters.peek().is_some_and(|(_, next)| part(*next));
        if !part(c) && !joins {
            return i;
        }
        end = i + c.len_utf8();
    }
    end
}

/// The length of a text with its quotes, and what stands between them. In documents inside others each quote may have a backslash.
fn quoted(rest: &str) -> (usize, Option<String>) {
    let escaped = rest.starts_with('\\');
    let end = if escaped { "\\\"" } else { "\"" };
    let body = rest.get(end.len()..).unwrap_or_default();
    let line = body.get(..body.find('\n').unwrap_or(body.len())).unwrap_or_default();
    match line.find(end) {
        Some(i) => (end.len() * 2 + i, line.get(..i).map(str::to_owned)),
        None => (end.len() + line.len(), None),
    }
}
