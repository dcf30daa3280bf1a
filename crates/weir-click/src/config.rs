//! Configuration strings: splitting into arguments and words, quoting.
//!
//! The rules are those of Click's manual, click(5), section "Configuration strings". Parentheses matter for
//! where a configuration string ends, not for where it is split: a comma splits unless it is quoted.

use crate::scan::{at, is_angle, is_comment, is_space, skip_angle, skip_blank, skip_comment, skip_quoted};

/// Splits a configuration string at commas that are not quoted, and cleans each part as [`uncomment`] does.
/// An empty last argument is left out, so `"1, "` and `"1"` are the same; other empty arguments stay.
pub fn split_args(config: &str) -> Vec<String> {
    let mut args = Vec::new();
    let mut pos = 0;
    while pos < config.len() {
        let (arg, end) = clean(config, pos, true);
        if end < config.len() || !arg.is_empty() {
            args.push(arg);
        }
        pos = end + 1;
    }
    args
}

/// Joins arguments to a configuration string; [`split_args`] gives them back.
pub fn join_args(args: &[String]) -> String {
    let mut out = args.join(", ");
    if args.last().is_some_and(String::is_empty) {
        out.push(',');
    }
    out
}

/// Splits an argument at white space that is not quoted. Comments also separate.
pub fn split_words(arg: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = arg;
    while let Some((word, after)) = first_word(rest) {
        words.push(word.to_string());
        rest = after;
    }
    words
}

/// The first word of an argument and what follows it, without the blanks between; `None` if there is no word.
pub fn first_word(arg: &str) -> Option<(&str, &str)> {
    let s = arg.as_bytes();
    let start = skip_blank(s, 0);
    let mut end = start;
    while end < s.len() && !is_space(at(s, end)) && !is_comment(s, end) {
        end = skip_item(s, end);
    }
    if start >= s.len() {
        return None;
    }
    let end = end.min(s.len());
    Some((slice(arg, start, end), slice(arg, skip_blank(s, end), s.len())))
}

/// Removes white space at both ends, and turns each comment, with the white space around it, into one space.
/// Nothing changes inside quotes.
pub fn uncomment(text: &str) -> String {
    clean(text, 0, false).0
}

/// Removes one level of quoting: `"…"` and `'…'` become what they hold, backslash escapes are replaced inside
/// double quotes, and `\<hex digits>` also outside of quotes. The result is bytes, since escapes can name any.
pub fn unquote(text: &str) -> Vec<u8> {
    let text = uncomment(text);
    let s = text.as_bytes();
    let mut out = Vec::with_capacity(s.len());
    let mut quote = 0;
    let mut i = 0;
    while i < s.len() {
        let b = at(s, i);
        if quote == 0 && (b == b'"' || b == b'\'') {
            quote = b;
            i += 1;
        } else if quote != 0 && b == quote {
            quote = 0;
            i += 1;
        } else if b == b'\\' && (quote == b'"' || (quote == 0 && is_angle(s, i))) {
            i = escape(s, i, &mut out);
        } else {
            out.push(b);
            i += 1;
        }
    }
    out
}

/// [`unquote`] for arguments that must be text; `None` if the bytes are not UTF-8.
pub fn unquote_text(text: &str) -> Option<String> {
    String::from_utf8(unquote(text)).ok()
}

/// A double-quoted string in printable ASCII; [`unquote`] gives the bytes back.
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &b in bytes {
        match b {
            b'\\' | b'"' | b'$' => {
                out.push('\\');
                out.push(char::from(b));
            }
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            32..127 => out.push(char::from(b)),
            _ => out.push_str(&format!("\\{b:03o}")),
        }
    }
    out.push('"');
    out
}

fn slice(text: &str, from: usize, to: usize) -> &str {
    text.get(from..to).unwrap_or("")
}

/// Skips one unquoted byte or one quoted part.
fn skip_item(s: &[u8], i: usize) -> usize {
    match at(s, i) {
        b'"' | b'\'' => skip_quoted(s, i),
        _ if is_angle(s, i) => skip_angle(s, i),
        _ => i + 1,
    }
}

/// [`uncomment`] from `from` to the end, or to the first unquoted comma. Also returns where it stopped.
fn clean(text: &str, from: usize, stop_at_comma: bool) -> (String, usize) {
    let s = text.as_bytes();
    let mut out = String::new();
    let mut i = skip_blank(s, from);
    // The piece since the last comment: its start and the end of its last character that is not white space.
    let (mut start, mut end) = (i, i);
    let mut after_comment = false;
    while i < s.len() {
        if is_space(at(s, i)) {
            i += 1;
        } else if is_comment(s, i) {
            i = skip_comment(s, i);
            after_comment = true;
        } else if stop_at_comma && at(s, i) == b',' {
            break;
        } else {
            if after_comment {
                out.push_str(slice(text, start, end));
                out.push(' ');
                start = i;
                after_comment = false;
            }
            i = skip_item(s, i).min(s.len());
            end = i;
        }
    }
    out.push_str(slice(text, start, end));
    (out, i)
}

/// Reads the escape at `i` (a backslash) into `out` and returns the position after it.
fn escape(s: &[u8], i: usize, out: &mut Vec<u8>) -> usize {
    let Some(&b) = s.get(i + 1) else {
        out.push(b'\\');
        return i + 1;
    };
    let simple = match b {
        b'\n' => return i + 2,
        b'\r' => return i + if at(s, i + 2) == b'\n' { 3 } else { 2 },
        b'<' => return hex_data(s, i, out),
        b'x' => {
            let mut value = 0u8;
            let mut j = i + 2;
            while let Some(digit) = hex_digit(at(s, j)) {
                value = value.wrapping_mul(16).wrapping_add(digit);
                j += 1;
            }
            out.push(value);
            return j;
        }
        b'0'..=b'7' => {
            let mut value = 0u8;
            let mut j = i + 1;
            while j < i + 4 && matches!(at(s, j), b'0'..=b'7') {
                value = value.wrapping_mul(8).wrapping_add(at(s, j) - b'0');
                j += 1;
            }
            out.push(value);
            return j;
        }
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        other => other,
    };
    out.push(simple);
    i + 2
}

/// Reads `\<48 65 …>`: pairs of hex digits; anything else between them is skipped, as are comments.
fn hex_data(s: &[u8], i: usize, out: &mut Vec<u8>) -> usize {
    let mut high = None;
    let mut j = i + 2;
    while j < s.len() {
        let b = at(s, j);
        if b == b'>' {
            return j + 1;
        } else if is_comment(s, j) {
            j = skip_comment(s, j);
            continue;
        } else if let Some(digit) = hex_digit(b) {
            match high.take() {
                Some(h) => out.push(h * 16 + digit),
                None => high = Some(digit),
            }
        }
        j += 1;
    }
    s.len()
}

fn hex_digit(b: u8) -> Option<u8> {
    char::from(b).to_digit(16).map(|d| d as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arguments_split_at_commas_outside_quotes() {
        assert_eq!(split_args("a, b, c"), ["a", "b", "c"]);
        assert_eq!(split_args("  a /*?*/ b,  c, "), ["a b", "c"]);
        assert_eq!(split_args("\"x, y\" // ?"), ["\"x, y\""]);
        assert_eq!(split_args("'a,b', \\<2c, 2c>"), ["'a,b'", "\\<2c, 2c>"]);
        assert_eq!(split_args("(tcp, udp)"), ["(tcp", "udp)"]);
        assert_eq!(split_args(""), [] as [&str; 0]);
        assert_eq!(split_args(" , "), [""]);
        assert_eq!(split_args("a,,b"), ["a", "", "b"]);
        assert_eq!(split_args("a, // x, y\n b"), ["a", "b"]);
    }

    #[test]
    fn white_space_stays_unless_it_meets_a_comment() {
        assert_eq!(uncomment("  a   b  "), "a   b");
        assert_eq!(uncomment("  a /* Comment */       b  "), "a b");
        assert_eq!(uncomment("  \" /*???  */ \"  "), "\" /*???  */ \"");
        assert_eq!(uncomment("a // b\r\nc"), "a c");
        assert_eq!(uncomment("/* open"), "");
    }

    #[test]
    fn words_split_at_spaces_outside_quotes() {
        assert_eq!(split_words("a  b, c"), ["a", "b,", "c"]);
        assert_eq!(split_words("  'a /*?*/ b'c"), ["'a /*?*/ b'c"]);
        assert_eq!(split_words("a/*x*/b"), ["a", "b"]);
        assert_eq!(first_word("DATA \"x y\" z"), Some(("DATA", "\"x y\" z")));
        assert_eq!(first_word("  "), None);
    }

    #[test]
    fn quotes_and_escapes_go() {
        assert_eq!(unquote("\"\\n\" abc /* 123 */ '/* def */'"), b"\n abc /* def */");
        assert_eq!(unquote("\"\\<48656c6C 6f 2 /* and */ 1>\""), b"Hello!");
        assert_eq!(unquote("x\\<4f4B>'\\n'"), b"xOK\\n");
        assert_eq!(unquote("\"\\101\\x42\\377\\\"\\q\\\n\""), b"AB\xff\"q");
        assert_eq!(unquote("a\"b\"c"), b"abc");
        assert_eq!(unquote_text("\"\\xff\""), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn quote_and_unquote_are_inverse(bytes: Vec<u8>) {
            prop_assert_eq!(unquote(&quote(&bytes)), bytes);
        }

        #[test]
        fn split_arguments_join_to_what_splits_the_same(text in "[a-c,'\"/* \\n\\\\<>()é]{0,24}") {
            // A quote that is not closed would take in what follows; the language never lets such text through.
            prop_assume!(crate::lexer::config_end(&format!("{text})")).is_some());
            let args = split_args(&text);
            if crate::lexer::is_self_contained(&args) {
                prop_assert_eq!(split_args(&join_args(&args)), args);
            }
        }
    }
}
