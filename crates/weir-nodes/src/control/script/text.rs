//! Text with references: `$name`, `${name}`, `$(handler …)`.

use weir_click::quote;

/// How deep references may be nested; Click's limit.
const MAX_DEPTH: u32 = 10;
/// The most bytes that a text may become.
const MAX_TEXT: usize = 16 << 20;

/// A reference in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// `$name` or `${name}`.
    Variable(&'a str),
    /// `$(handler …)`.
    Handler(&'a str),
}

/// Replaces the references of a text by what `value` gives; those for which it gives nothing stay. Inside of double
/// quotes, and everywhere if `quoted`, values are written so that unquoting gives them back. Text in single quotes is
/// left alone.
pub(super) fn expand(
    text: &str,
    quoted: bool,
    value: &mut dyn FnMut(Reference<'_>) -> Option<String>,
) -> String {
    expand_at(text, quoted, value, 0)
}

fn expand_at(
    text: &str,
    quoted: bool,
    value: &mut dyn FnMut(Reference<'_>) -> Option<String>,
    depth: u32,
) -> String {
    if !text.contains('$') || depth > MAX_DEPTH {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut quote_mark = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if out.len() > MAX_TEXT {
            break;
        }
        let mut taken = c.len_utf8();
        match c {
            '\\' if quote_mark == Some('"') => taken += rest[1..].chars().next().map_or(0, char::len_utf8),
            '"' | '\'' if quote_mark.is_none() => quote_mark = Some(c),
            '"' | '\'' if quote_mark == Some(c) => quote_mark = None,
            '$' if quote_mark != Some('\'') => {
                if let Some((open, name, length)) = reference(rest) {
                    let inner = match open {
                        "$" => name.to_owned(),
                        _ => expand_at(name, false, value, depth + 1),
                    };
                    let found = match open {
                        "$(" => value(Reference::Handler(&inner)),
                        _ => value(Reference::Variable(&inner)),
                    };
                    match found {
                        Some(v) if quote_mark.is_some() => out.push_str(bare(&quote(v.as_bytes()))),
                        Some(v) if quoted => out.push_str(&quote(v.as_bytes())),
                        Some(v) => out.push_str(&v),
                        None if inner != name => {
                            out.push_str(open);
                            out.push_str(&inner);
                            out.push_str(if open == "$(" { ")" } else { "}" });
                        }
                        None => out.push_str(&rest[..length]),
                    }
                    rest = &rest[length..];
                    continue;
                }
            }
            _ => {}
        }
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

/// What stands between the quotes.
fn bare(quoted: &str) -> &str {
    quoted.strip_prefix('"').and_then(|q| q.strip_suffix('"')).unwrap_or(quoted)
}

/// The reference at the start of a text: how it opens, what it names, and how long it is in bytes.
fn reference(text: &str) -> Option<(&'static str, &str, usize)> {
    let after = text.strip_prefix('$')?;
    if let Some(inner) = after.strip_prefix('{') {
        let end = inner.find('}')?;
        return Some(("${", &inner[..end], end + 3));
    }
    if let Some(inner) = after.strip_prefix('(') {
        let end = closing(inner)?;
        return Some(("$(", &inner[..end], end + 3));
    }
    if after.starts_with(['?', '#', '$']) {
        return Some(("$", &after[..1], 2));
    }
    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
    (end > 0).then(|| ("$", &after[..end], end + 1))
}

/// Where the parenthesis ends that is open at the start.
fn closing(text: &str) -> Option<usize> {
    let (mut level, mut quote_mark) = (1, None);
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '(' if quote_mark.is_none() => level += 1,
            ')' if quote_mark.is_none() => level -= 1,
            '"' | '\'' if quote_mark.is_none() => quote_mark = Some(c),
            '"' | '\'' if quote_mark == Some(c) => quote_mark = None,
            '\\' if quote_mark != Some('\'') => _ = chars.next(),
            _ => {}
        }
        if level == 0 {
            return Some(i);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        expand(text, false, &mut |r| match r {
            Reference::Variable("x") => Some("a \"b\"".to_owned()),
            Reference::Variable("?") => Some("0".to_owned()),
            Reference::Handler(call) => Some(format!("<{call}>")),
            Reference::Variable(_) => None,
        })
    }

    #[test]
    fn variables_and_handlers_are_replaced() {
        assert_eq!(of("-$x-${x}-$?"), "-a \"b\"-a \"b\"-0");
        assert_eq!(of("$(add 1 (2))$(f \")\" y)"), "<add 1 (2)><f \")\" y>");
        assert_eq!(of("$(f $(g $?) $x)"), "<f <g 0> a \"b\">");
    }

    #[test]
    fn quotes_keep_values_together() {
        assert_eq!(of(r#""$x" '$x'"#), r#""a \"b\"" '$x'"#);
        assert_eq!(expand("$x", true, &mut |_| Some("a b".to_owned())), "\"a b\"");
        assert_eq!(of(r#""\$x""#), r#""\$x""#);
    }

    #[test]
    fn what_is_unknown_or_not_closed_stays() {
        assert_eq!(of("$y ${y} $ $( $(a ${"), "$y ${y} $ $( $(a ${");
        assert_eq!(of("${y$?}"), "${y0}");
        assert_eq!(of("é$x€"), "éa \"b\"€");
    }
}
