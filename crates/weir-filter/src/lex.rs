//! Words and symbols of a filter.

use super::FilterError;

/// Longest filter that is read, in bytes.
const MAX_TEXT: usize = 64 << 10;

/// A word or symbol and its column, from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub text: &'a str,
    pub column: usize,
}

/// Splits a filter into tokens. Words hold letters, digits and `- . / _ :`, so that addresses are one word and the `:` of a
/// ternary must stand between spaces (as in Click). In brackets, `/` and `:` are symbols: there are no addresses. A `\` before
/// a word, by which libpcap distinguishes values from its own words, is read over.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, FilterError> {
    if text.len() > MAX_TEXT {
        let message = format!("the filter has {} bytes", text.len());
        return Err(FilterError { column: 1, message, help: format!("at most {MAX_TEXT} are read") });
    }
    let mut tokens = Vec::new();
    let mut brackets = 0_usize;
    let mut chars = text.char_indices().enumerate().peekable();
    while let Some((index, (start, c))) = chars.next() {
        let next = chars.peek().map(|&(_, (_, next))| next);
        if c.is_whitespace() || (c == '\\' && next.is_some_and(|n| n.is_ascii_alphanumeric())) {
            continue;
        }
        let mut end = start + c.len_utf8();
        let pair = text.get(start..start + 2).unwrap_or_default();
        let begins_word =
            c.is_ascii_alphanumeric() || c == '_' || (c == ':' && brackets == 0 && pair == "::");
        if matches!(pair, "&&" | "||" | "<=" | ">=" | "!=" | "==" | "<<" | ">>") {
            chars.next();
            end += 1;
        } else if begins_word {
            while let Some(&(_, (i, w))) = chars.peek() {
                if !is_word(w) || (brackets > 0 && "/:".contains(w)) {
                    break;
                }
                end = i + 1;
                chars.next();
            }
        } else if !"&|<>!=()[]?+-*/%^:".contains(c) {
            let message = format!("the character {c:?} has no meaning in a filter");
            return Err(FilterError { column: index + 1, message, help: String::new() });
        }
        match c {
            '[' => brackets += 1,
            ']' => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        tokens.push(Token { text: text.get(start..end).unwrap_or_default(), column: index + 1 });
    }
    Ok(tokens)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-./_:".contains(c)
}
