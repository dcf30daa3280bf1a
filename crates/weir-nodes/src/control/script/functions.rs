//! Functions of scripts: text in, text out.

use std::cmp::Ordering;

use weir_click::{first_word, split_words, unquote_text};
use weir_elements::FromArg;

use super::format::sprintf;

/// Names of the functions that need nothing but their parameter.
pub(super) const NAMES: [&str; 36] = [
    "abs", "add", "and", "div", "eq", "first", "ge", "gt", "htonl", "htons", "idiv", "if", "in", "le",
    "length", "lt", "max", "min", "mod", "mul", "nand", "ne", "neg", "nor", "not", "ntohl", "ntohs", "or",
    "rem", "sprintf", "sub", "unquote", "cat", "catq", "kill", "random",
];

/// A number: exact as long as all that went in was.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    Integer(i64),
    Real(f64),
}

impl Number {
    fn parse(word: &str) -> Option<Number> {
        integer(word).map(Number::Integer).or_else(|| real(word).map(Number::Real))
    }

    fn real(self) -> f64 {
        match self {
            Number::Integer(i) => i as f64,
            Number::Real(r) => r,
        }
    }

    fn text(self) -> String {
        match self {
            Number::Integer(i) => i.to_string(),
            Number::Real(r) => real_text(r),
        }
    }
}

/// An integer: decimal, `0x` hexadecimal, `0` octal; with sign.
pub(super) fn integer(word: &str) -> Option<i64> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word.strip_prefix('+').unwrap_or(word)),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

fn real(word: &str) -> Option<f64> {
    // What Rust reads beside numbers (`inf`, `nan`) is text in a script.
    let number = word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))
        && word.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    if number { word.parse().ok() } else { None }
}

/// A number with twelve significant digits, without zeros at the end (C's `%.12g`).
pub(super) fn real_text(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string().to_lowercase() };
    }
    let scientific = format!("{value:.11e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |t: &str| match t.contains('.') {
        true => t.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => t.to_owned(),
    };
    if (-4..12).contains(&exponent) {
        trim(&format!("{value:.*}", (11 - exponent).max(0) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    }
}

fn boolean(word: &str) -> Result<bool, String> {
    bool::from_arg(word).map_err(|_| format!("'{word}' is not a boolean"))
}

/// Calls a function of [`NAMES`]. `random` gives random numbers.
pub(super) fn call(name: &str, arg: &str, random: &mut dyn FnMut() -> u32) -> Result<String, String> {
    let words = split_words(arg);
    let truth = |b: bool| Ok(b.to_string());
    match name {
        "add" | "sub" | "min" | "max" | "mul" | "div" | "idiv" => arithmetic(name, &words),
        "mod" | "rem" => remainder(name, &words),
        "neg" | "abs" => {
            let number = Number::parse(arg.trim()).ok_or("expected one number")?;
            let negate = name == "neg" || number.real() < 0.0;
            Ok(match number {
                Number::Integer(i) if negate => Number::Integer(i.wrapping_neg()),
                Number::Real(r) if negate => Number::Real(-r),
                n => n,
            }
            .text())
        }
        "eq" | "ne" | "lt" | "gt" | "le" | "ge" => {
            let [a, b] = &words[..] else { return Err("expected two numbers".to_owned()) };
            let order = compare(a, b);
            truth(match name {
                "eq" => order == Ordering::Equal,
                "ne" => order != Ordering::Equal,
                "lt" => order == Ordering::Less,
                "gt" => order == Ordering::Greater,
                "le" => order != Ordering::Greater,
                _ => order != Ordering::Less,
            })
        }
        "not" => truth(!boolean(arg.trim())?),
        "and" | "nand" | "or" | "nor" => {
            let all = matches!(name, "and" | "nand");
            let mut value = all;
            for word in &words {
                value = boolean(word)?;
                if value != all {
                    break;
                }
            }
            truth(value != matches!(name, "nand" | "nor"))
        }
        "if" => {
            let word = |i: usize| words.get(i).cloned().unwrap_or_default();
            Ok(if boolean(&word(0))? { word(1) } else { word(2) })
        }
        "in" => {
            let plain = |w: &String| unquote_text(w).unwrap_or_default();
            let mut rest = words.iter().map(plain);
            let wanted = rest.next().unwrap_or_default();
            truth(rest.any(|w| w == wanted))
        }
        "first" => Ok(first_word(arg).map_or(String::new(), |(w, _)| w.to_owned())),
        "length" => Ok(arg.len().to_string()),
        "unquote" => Ok(unquoted(arg)),
        "sprintf" => sprintf(&words),
        "random" => random_number(&words, random),
        "htons" | "ntohs" | "htonl" | "ntohl" => {
            let number = integer(arg.trim()).ok_or("expected one number")?;
            Ok(match name {
                "htons" | "ntohs" => (number as u16).to_be().to_string(),
                _ => (number as u32).to_be().to_string(),
            })
        }
        "cat" | "catq" => {
            let file = unquoted(arg);
            let bytes = std::fs::read(&file).map_err(|e| format!("{file}: {e}"))?;
            match name {
                "cat" => Ok(String::from_utf8_lossy(&bytes).into_owned()),
                _ => Ok(weir_click::quote(&bytes)),
            }
        }
        "kill" => kill(&words),
        _ => Err(format!("no function '{name}'")),
    }
}

/// A text without one layer of quotes.
pub(super) fn unquoted(text: &str) -> String {
    String::from_utf8_lossy(&weir_click::unquote(text)).into_owned()
}

fn arithmetic(name: &str, words: &[String]) -> Result<String, String> {
    let mut result: Option<Number> = None;
    for word in words {
        let number = Number::parse(word).ok_or("expected list of numbers")?;
        let exact = !matches!(name, "div" | "idiv");
        result = Some(match (result, number) {
            (None, n) if exact => n,
            (None, n) => Number::Real(n.real()),
            (Some(Number::Integer(a)), Number::Integer(b)) => Number::Integer(match name {
                "add" => a.wrapping_add(b),
                "sub" => a.wrapping_sub(b),
                "min" => a.min(b),
                "max" => a.max(b),
                _ => a.wrapping_mul(b),
            }),
            (Some(a), b) => {
                let (a, b) = (a.real(), b.real());
                Number::Real(match name {
                    "add" => a + b,
                    "sub" => a - b,
                    "min" => a.min(b),
                    "max" => a.max(b),
                    "mul" => a * b,
                    _ => a / b,
                })
            }
        });
    }
    let empty = Number::Integer(i64::from(!matches!(name, "add" | "sub")));
    Ok(match (name, result.unwrap_or(empty)) {
        ("idiv", n) => (n.real() as i64).to_string(),
        (_, n) => n.text(),
    })
}

fn remainder(name: &str, words: &[String]) -> Result<String, String> {
    let wrong = || "expected two numbers".to_owned();
    let [a, b] = words else { return Err(wrong()) };
    match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Integer(_)), Some(Number::Integer(0))) => Err("division by zero".to_owned()),
        (Some(Number::Integer(a)), Some(Number::Integer(b))) => Ok(a.wrapping_rem(b).to_string()),
        (Some(a), Some(b)) if name == "rem" => Ok(real_text(a.real() % b.real())),
        _ => Err(wrong()),
    }
}

/// As numbers, or else as text.
fn compare(a: &str, b: &str) -> Ordering {
    match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Integer(a)), Some(Number::Integer(b))) => a.cmp(&b),
        (Some(a), Some(b)) => a.real().partial_cmp(&b.real()).unwrap_or(Ordering::Greater),
        _ => unquoted(a).as_bytes().cmp(unquoted(b).as_bytes()),
    }
}

fn random_number(words: &[String], random: &mut dyn FnMut() -> u32) -> Result<String, String> {
    let number = |w: &String| u32::from_arg(w).map_err(|e| format!("bad N: {e}"));
    let (from, to) = match words {
        [] => (0, i32::MAX as u32),
        [n] => (0, number(n)?.checked_sub(1).ok_or("bad N: 0; at least 1 is possible")?),
        [a, b] => (number(a)?, number(b)?),
        _ => return Err("expected at most two numbers".to_owned()),
    };
    let span = u64::from(to.checked_sub(from).ok_or("bad N: the second is less than the first")?) + 1;
    let picked = (u64::from(random()) * span) >> 32;
    Ok((u64::from(from) + picked).to_string())
}

fn kill(words: &[String]) -> Result<String, String> {
    use nix::sys::signal::{Signal, kill};
    let (signal, processes) = words.split_first().ok_or("bad SIGNO")?;
    let number = super::parse::signal(signal).ok_or_else(|| format!("bad SIGNO '{signal}'"))?;
    let signal = Signal::try_from(number).map_err(|e| format!("bad SIGNO: {e}"))?;
    for process in processes {
        let id: i32 = process.parse().map_err(|_| format!("bad PID '{process}'"))?;
        kill(nix::unistd::Pid::from_raw(id), signal).map_err(|e| format!("kill({id}, {number}): {e}"))?;
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(name: &str, arg: &str) -> String {
        call(name, arg, &mut || 1 << 31).unwrap_or_else(|e| format!("! {e}"))
    }

    #[test]
    fn numbers_stay_exact_until_one_is_not() {
        assert_eq!(is("add", "10 5 2"), "17");
        assert_eq!(is("sub", "10 5 2"), "3");
        assert_eq!(is("mul", "9007199254740993 1"), "9007199254740993");
        assert_eq!(is("div", "75 2.5 5"), "6");
        assert_eq!(is("div", "1 3"), "0.333333333333");
        assert_eq!(is("idiv", "7 2"), "3");
        assert_eq!(is("min", "10 6 20"), "6");
        assert_eq!(is("max", "-1 6.5 3"), "6.5");
        assert_eq!(is("add", ""), "0");
        assert_eq!(is("add", "1 x"), "! expected list of numbers");
        assert_eq!(is("mod", "7 3"), "1");
        assert_eq!(is("mod", "7 0"), "! division by zero");
        assert_eq!(is("rem", "7.5 2"), "1.5");
        assert_eq!(is("neg", "0x10"), "-16");
        assert_eq!(is("abs", "-2.5"), "2.5");
        assert_eq!(is("abs", "-9223372036854775808"), "-9223372036854775808");
    }

    #[test]
    fn real_numbers_have_twelve_digits() {
        assert_eq!(real_text(1e12), "1e+12");
        assert_eq!(real_text(123_456_789_012.5), "123456789012");
        assert_eq!(real_text(0.0001), "0.0001");
        assert_eq!(real_text(0.00001), "1e-05");
        assert_eq!(real_text(-2.50), "-2.5");
    }

    #[test]
    fn comparisons_are_of_numbers_if_both_are() {
        assert_eq!(is("eq", "10 0xA"), "true");
        assert_eq!(is("le", "9 8"), "false");
        assert_eq!(is("lt", "9 10"), "true");
        assert_eq!(is("lt", "9x 10x"), "false");
        assert_eq!(is("eq", "10x \"10x\""), "true");
        assert_eq!(is("ne", "1 1.0"), "false");
        assert_eq!(is("eq", "1"), "! expected two numbers");
    }

    #[test]
    fn truth() {
        assert_eq!(is("not", "false"), "true");
        assert_eq!(is("and", "true true false x"), "false");
        assert_eq!(is("or", "false true x"), "true");
        assert_eq!(is("nand", "true true"), "false");
        assert_eq!(is("nor", "false false"), "true");
        assert_eq!(is("if", "true a b"), "a");
        assert_eq!(is("if", "false a"), "");
        assert_eq!(is("in", "foo bar 'foo'"), "true");
        assert_eq!(is("in", "foo"), "false");
    }

    #[test]
    fn text_and_chance() {
        assert_eq!(is("length", "abcde"), "5");
        assert_eq!(is("unquote", "\"a b\""), "a b");
        assert_eq!(is("first", "'a b' c"), "'a b'");
        assert_eq!(is("random", "10"), "5");
        assert_eq!(is("random", "10 20"), "15");
        assert!(is("random", "0").starts_with("! bad N"));
        assert_eq!(is("htons", "1"), "256");
        assert_eq!(is("htonl", &is("ntohl", "6")), "6");
        assert!(is("kill", "NOSIG 1").starts_with("! bad SIGNO"));
        assert!(is("cat", "/nonexistent/file").starts_with("! /nonexistent/file"));
    }
}
