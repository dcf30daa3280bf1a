//! Skipping over comments and quoted parts. All functions take a position and return the position after the
//! thing, or the end of the text if it is not closed; none looks at anything but ASCII bytes, so positions stay
//! on character boundaries.

/// The C locale's white space.
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// A character of a variable name.
pub(crate) fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

pub(crate) fn at(s: &[u8], i: usize) -> u8 {
    s.get(i).copied().unwrap_or(0)
}

/// Position of the first byte at or after `i` that fails `keep`.
pub(crate) fn skip_while(s: &[u8], mut i: usize, keep: impl Fn(u8) -> bool) -> usize {
    while i < s.len() && keep(at(s, i)) {
        i += 1;
    }
    i
}

pub(crate) fn is_comment(s: &[u8], i: usize) -> bool {
    at(s, i) == b'/' && matches!(at(s, i + 1), b'/' | b'*')
}

/// `i` is at a comment. A line comment includes its line end.
pub(crate) fn skip_comment(s: &[u8], i: usize) -> usize {
    let mut j = i + 2;
    if at(s, i + 1) == b'/' {
        j = skip_while(s, j, |b| b != b'\n' && b != b'\r');
        let crlf = at(s, j) == b'\r' && at(s, j + 1) == b'\n';
        return (j + if crlf { 2 } else { 1 }).min(s.len());
    }
    while j < s.len() {
        if at(s, j) == b'*' && at(s, j + 1) == b'/' {
            return j + 2;
        }
        j += 1;
    }
    s.len()
}

/// Skips white space and comments.
pub(crate) fn skip_blank(s: &[u8], mut i: usize) -> usize {
    while i < s.len() {
        if is_space(at(s, i)) {
            i += 1;
        } else if is_comment(s, i) {
            i = skip_comment(s, i);
        } else {
            break;
        }
    }
    i
}

/// `i` is at `\<`; skips to after the `>`.
pub(crate) fn skip_angle(s: &[u8], i: usize) -> usize {
    let mut j = i + 2;
    while j < s.len() {
        if at(s, j) == b'>' {
            return j + 1;
        }
        j = if is_comment(s, j) { skip_comment(s, j) } else { j + 1 };
    }
    s.len()
}

pub(crate) fn is_angle(s: &[u8], i: usize) -> bool {
    at(s, i) == b'\\' && at(s, i + 1) == b'<'
}

/// `i` is at a single or double quote; skips the quoted string.
pub(crate) fn skip_quoted(s: &[u8], i: usize) -> usize {
    let quote = at(s, i);
    let mut j = i + 1;
    while j < s.len() {
        let b = at(s, j);
        if b == quote {
            return j + 1;
        } else if b == b'\\' && quote == b'"' {
            j = if is_angle(s, j) { skip_angle(s, j) } else { j + 2 };
        } else {
            j += 1;
        }
    }
    s.len()
}
