//! Parameter substitution: `$x`, `${x}`, `${x-default}`, `${x[2]}` in configuration strings.

use std::collections::HashMap;
use std::rc::Rc;

use crate::config::{first_word, quote};
use crate::scan::{at, is_comment, is_word_byte, skip_blank, skip_comment, skip_while};

/// How deep values may refer to other parameters; as in Click, deeper references stay as they are.
const MAX_DEPTH: u32 = 10;

/// The parameters of one scope; scopes are nested lexically.
#[derive(Debug, Default)]
pub(crate) struct Env {
    parent: Option<Rc<Env>>,
    /// How many scopes enclose this one.
    depth: usize,
    values: HashMap<String, String>,
}

impl Env {
    pub fn global(values: HashMap<String, String>) -> Env {
        Env { parent: None, depth: 0, values }
    }

    /// A scope of lexical depth `depth`, used from within `user`. Its parent is the scope around its definition:
    /// the one around `user` (or `user` itself) that is less deep.
    pub fn inside(user: &Rc<Env>, depth: usize) -> Env {
        let mut parent = Some(user.clone());
        while let Some(env) = &parent
            && env.depth >= depth
        {
            parent = env.parent.clone();
        }
        Env { parent, depth, values: HashMap::new() }
    }

    pub fn set(&mut self, name: &str, value: String) {
        self.values.insert(name.to_string(), value);
    }

    fn get(&self, name: &str) -> Option<&str> {
        let mut env = Some(self);
        while let Some(e) = env {
            if let Some(value) = e.values.get(name) {
                return Some(value);
            }
            env = e.parent.as_deref();
        }
        None
    }
}

/// The text that substitution may still produce; keeps `$a` = `$b$b`, `$b` = `$c$c`, … from growing without end.
#[derive(Debug)]
pub(crate) struct Budget(pub usize);

/// The budget was used up.
#[derive(Debug, PartialEq)]
pub(crate) struct TooLong;

impl Budget {
    fn take(&mut self, n: usize) -> Result<(), TooLong> {
        self.0 = self.0.checked_sub(n).ok_or(TooLong)?;
        Ok(())
    }
}

/// Replaces the parameters in `text`. Inside double quotes a value is inserted as the contents of a double-quoted
/// string; nothing is replaced inside single quotes and comments. Parameters without a value stay as they are.
pub(crate) fn expand(text: &str, env: &Env, budget: &mut Budget) -> Result<String, TooLong> {
    expand_at(text, env, budget, 0)
}

/// How a parameter is written.
enum Form {
    /// `$name`
    Plain,
    /// `${name…}`
    Braces,
    /// `$(name)`
    Parens,
}

fn expand_at(text: &str, env: &Env, budget: &mut Budget, depth: u32) -> Result<String, TooLong> {
    // Empty texts also take work.
    budget.take(text.len() + 16)?;
    if depth > MAX_DEPTH || !text.contains('$') {
        return Ok(text.to_string());
    }
    let s = text.as_bytes();
    let mut out = String::new();
    let mut copied = 0;
    let mut quoted = 0;
    let mut i = 0;
    while i < s.len() {
        match at(s, i) {
            b'\\' if quoted == b'"' => i += 2,
            b @ (b'\'' | b'"') => {
                if quoted == 0 {
                    quoted = b;
                } else if quoted == b {
                    quoted = 0;
                }
                i += 1;
            }
            b'/' if quoted == 0 && is_comment(s, i) => i = skip_comment(s, i),
            b'$' if quoted != b'\'' => {
                let Some((form, name, end)) = reference(text, i) else {
                    i += 1;
                    continue;
                };
                out.push_str(text.get(copied..i).unwrap_or(""));
                copied = end;
                let nested = name.contains('$');
                let name = if nested { expand_at(name, env, budget, depth + 1)? } else { name.to_string() };
                match (lookup(&name, &form, env, budget, depth)?, form) {
                    (Some(value), _) if quoted == b'"' => {
                        let value = quote_keeping_text(&value);
                        budget.take(value.len())?;
                        out.push_str(&value);
                    }
                    (Some(value), _) => out.push_str(&value),
                    (None, Form::Braces) if nested => out.push_str(&format!("${{{name}}}")),
                    (None, Form::Parens) if nested => out.push_str(&format!("$({name})")),
                    (None, _) => copied = i,
                }
                i = end;
            }
            _ => i += 1,
        }
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    budget.take(out.len())?;
    Ok(out)
}

/// Reads the parameter at `i` (a dollar sign): its form, the text that names it, and the position after it.
fn reference(text: &str, i: usize) -> Option<(Form, &str, usize)> {
    let s = text.as_bytes();
    let (form, close) = match at(s, i + 1) {
        b'{' => (Form::Braces, skip_while(s, i + 2, |b| b != b'}')),
        b'(' => (Form::Parens, matching_paren(s, i + 2)),
        b if is_word_byte(b) => {
            let end = skip_while(s, i + 1, is_word_byte);
            return Some((Form::Plain, text.get(i + 1..end)?, end));
        }
        _ => return None,
    };
    if close >= s.len() {
        return None;
    }
    Some((form, text.get(i + 2..close)?, close + 1))
}

/// Position of the parenthesis that closes the one before `i`, or the end of the text.
fn matching_paren(s: &[u8], mut i: usize) -> usize {
    let mut level = 1u32;
    let mut quoted = 0;
    while i < s.len() {
        match at(s, i) {
            b'(' if quoted == 0 => level = level.saturating_add(1),
            b')' if quoted == 0 => {
                level -= 1;
                if level == 0 {
                    return i;
                }
            }
            b @ (b'"' | b'\'') if quoted == 0 => quoted = b,
            b if b == quoted => quoted = 0,
            b'\\' if quoted != b'\'' => i += 1,
            _ => {}
        }
        i += 1;
    }
    s.len()
}

fn lookup(
    reference: &str,
    form: &Form,
    env: &Env,
    budget: &mut Budget,
    depth: u32,
) -> Result<Option<String>, TooLong> {
    let mut name = reference;
    let mut index = None;
    let mut default = None;
    if matches!(form, Form::Braces) {
        let s = reference.as_bytes();
        let start = skip_while(s, 0, crate::scan::is_space);
        let end = skip_while(s, start, is_word_byte);
        name = reference.get(start..end).unwrap_or("");
        let mut rest = skip_while(s, end, crate::scan::is_space);
        if at(s, rest) == b'[' {
            let close = skip_while(s, rest, |b| b != b']');
            let number = reference.get(rest + 1..close).unwrap_or("").trim();
            if let Ok(n) = number.parse::<usize>() {
                index = Some(n);
                rest = skip_while(s, close + 1, crate::scan::is_space);
            }
        }
        if at(s, rest) == b'-' {
            default = reference.get(rest + 1..);
        }
    }
    let value = match (env.get(name), default) {
        (Some(value), _) => expand_at(value, env, budget, depth + 1)?,
        (None, Some(default)) => return expand_at(default, env, budget, depth + 1).map(Some),
        (None, None) => return Ok(None),
    };
    Ok(Some(match index {
        Some(n) => nth_word(&value, n).to_string(),
        None => value,
    }))
}

fn nth_word(mut text: &str, n: usize) -> &str {
    for _ in 0..n {
        match first_word(text) {
            Some((_, rest)) => text = rest,
            None => return "",
        }
    }
    first_word(text).map_or("", |(word, _)| word)
}

/// `value` as the inside of a double-quoted string. Unlike [`quote`] keeps characters beyond ASCII readable.
fn quote_keeping_text(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if c.is_ascii() {
            let quoted = quote(&[c as u8]);
            out.push_str(quoted.get(1..quoted.len() - 1).unwrap_or(""));
        } else {
            out.push(c);
        }
    }
    out
}

/// The name in a `define` argument or formal, if `word` is one: `$` and at least one letter, digit or `_`.
pub(crate) fn variable_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix('$')?;
    (!name.is_empty() && name.bytes().all(is_word_byte)).then_some(name)
}

/// Reads `KEYWORD value`: the value, if `arg` begins with `keyword` as a word of its own.
pub(crate) fn keyword_value<'a>(arg: &'a str, keyword: &str) -> Option<&'a str> {
    let s = arg.as_bytes();
    let end = skip_blank(s, 0);
    let rest = arg.get(end..)?.strip_prefix(keyword)?;
    let value = skip_blank(rest.as_bytes(), 0);
    (value > 0 || rest.is_empty()).then(|| rest.get(value..).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(values: &[(&str, &str)]) -> Env {
        Env::global(values.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
    }

    fn run(text: &str, values: &[(&str, &str)]) -> String {
        expand(text, &env(values), &mut Budget(1 << 16)).unwrap()
    }

    #[test]
    fn parameters_are_replaced_in_each_form() {
        let v = [("a", "A B C"), ("n", "2"), ("q", "say \"hi\" $x")];
        assert_eq!(run("1, $a, 3", &v), "1, A B C, 3");
        assert_eq!(run("x${a}y$(n)", &v), "xA B Cy2");
        assert_eq!(run("${a[0]} ${a[2]}|${a[3]}", &v), "A C|");
        assert_eq!(run("${a[$n]}", &v), "C");
        assert_eq!(run("${z-none} ${z} $z ${n-none}", &v), "none ${z} $z 2");
        assert_eq!(run("\"$q\" '$q'", &v), "\"say \\\"hi\\\" \\$x\" '$q'");
        assert_eq!(run("\"\\$a\" /* $a */ $ $", &v), "\"\\$a\" /* $a */ $ $");
        assert_eq!(run("${a", &v), "${a");
        assert_eq!(run("\"$é\"", &[("é", "no")]), "\"$é\"");
        assert_eq!(run("${y$n}", &v), "${y2}");
    }

    #[test]
    fn values_may_refer_to_values_up_to_a_depth() {
        assert_eq!(run("$a", &[("a", "$b"), ("b", "<$c>"), ("c", "1")]), "<1>");
        assert_eq!(run("$a", &[("a", "$a")]), "$a");
        let grow = [("a", "$a$a$a$a$a$a$a$a$a$a")];
        assert_eq!(expand("$a", &env(&grow), &mut Budget(1 << 16)), Err(TooLong));
    }

    #[test]
    fn keywords_are_words() {
        assert_eq!(keyword_value("TWO  x y", "TWO"), Some("x y"));
        assert_eq!(keyword_value("TWO", "TWO"), Some(""));
        assert_eq!(keyword_value("TWOX y", "TWO"), None);
    }
}
