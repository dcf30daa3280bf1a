//! `sprintf`, as far as numbers and text go.

use super::functions::{integer, unquoted};

/// Formats words as the first of them says: flags, width and precision (also `*`), the sizes `h`, `l`, `ll`, and the
/// conversions `d i u o x X s %` of C.
pub(super) fn sprintf(words: &[String]) -> Result<String, String> {
    let wrong = || "syntax error in the format or its arguments".to_owned();
    let (format, args) = words.split_first().ok_or_else(wrong)?;
    let format = unquoted(format);
    let mut args = args.iter();
    let mut chars = format.chars().peekable();
    let mut out = String::new();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = chars.next_if(|c| "0#- +".contains(*c)) {
            spec.flags.push(flag);
        }
        let mut number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| -> Result<i64, String> {
            if chars.next_if_eq(&'*').is_some() {
                return args.next().and_then(|w| integer(w)).ok_or_else(wrong);
            }
            let mut n = 0i64;
            while let Some(d) = chars.peek().and_then(|c| c.to_digit(10)) {
                n = n.saturating_mul(10).saturating_add(d.into());
                chars.next();
            }
            Ok(n)
        };
        let width = number(&mut chars)?;
        if width < 0 {
            spec.flags.push('-');
        }
        spec.width = (width.unsigned_abs() as usize).min(MAX_WIDTH);
        if chars.next_if_eq(&'.').is_some() {
            spec.precision = Some(usize::try_from(number(&mut chars)?).map_err(|_| wrong())?.min(MAX_WIDTH));
        }
        let mut short = false;
        while let Some(size) = chars.next_if(|c| "hlLq".contains(*c)) {
            short = size == 'h';
        }
        let conversion = chars.next().ok_or_else(wrong)?;
        let text = match conversion {
            '%' => "%".to_owned(),
            's' => spec.text(&unquoted(args.next().ok_or_else(wrong)?)),
            'd' | 'i' => {
                let value = args.next().and_then(|w| integer(w)).ok_or_else(wrong)?;
                let value = if short { i64::from(value as i16) } else { value };
                let sign = match value {
                    v if v < 0 => "-",
                    _ if spec.flags.contains('+') => "+",
                    _ if spec.flags.contains(' ') => " ",
                    _ => "",
                };
                spec.number(sign, &value.unsigned_abs().to_string())
            }
            'u' | 'o' | 'x' | 'X' => {
                let word = args.next().ok_or_else(wrong)?;
                let value =
                    integer(word).map(|i| i as u64).or_else(|| word.parse().ok()).ok_or_else(wrong)?;
                let value = if short { u64::from(value as u16) } else { value };
                let other = spec.flags.contains('#') && value != 0;
                match conversion {
                    'u' => spec.number("", &value.to_string()),
                    'o' => spec.number(if other { "0" } else { "" }, &format!("{value:o}")),
                    'x' => spec.number(if other { "0x" } else { "" }, &format!("{value:x}")),
                    _ => spec.number(if other { "0X" } else { "" }, &format!("{value:X}")),
                }
            }
            _ => return Err(wrong()),
        };
        out.push_str(&text);
    }
    match args.next() {
        None => Ok(out),
        Some(_) => Err(wrong()),
    }
}

/// The widest field.
const MAX_WIDTH: usize = 4096;

#[derive(Default)]
struct Spec {
    flags: String,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn number(&self, sign: &str, digits: &str) -> String {
        let mut digits = digits.to_owned();
        let least = match self.precision {
            Some(p) => p,
            None if self.flags.contains('0') && !self.flags.contains('-') => {
                self.width.saturating_sub(sign.len())
            }
            None => 0,
        };
        if digits.len() < least {
            digits = format!("{}{digits}", "0".repeat(least - digits.len()));
        }
        self.pad(format!("{sign}{digits}"))
    }

    fn text(&self, text: &str) -> String {
        self.pad(text.chars().take(self.precision.unwrap_or(usize::MAX)).collect())
    }

    fn pad(&self, text: String) -> String {
        let blanks = " ".repeat(self.width.saturating_sub(text.chars().count()));
        if self.flags.contains('-') { text + &blanks } else { blanks + &text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        sprintf(&words).unwrap_or_else(|e| format!("! {e}"))
    }

    #[test]
    fn as_c_formats() {
        assert_eq!(of(&["\"%05x|%-4d|%+d|%4s|%%\"", "127", "-3", "5", "ab"]), "0007f|-3  |+5|  ab|%");
        assert_eq!(of(&["%*.3d", "6", "7"]), "   007");
        assert_eq!(of(&["%hd-%lu-%#X-%o", "65537", "3", "255", "8"]), "1-3-0XFF-10");
        assert_eq!(of(&["%.2s", "'abc'"]), "ab");
    }

    #[test]
    fn too_few_or_too_many_arguments_are_errors() {
        for words in [&["%d"][..], &["%d", "x"], &["x", "1"], &["%"], &["%y", "1"], &[]] {
            assert!(of(words).starts_with("! syntax"), "{words:?}");
        }
        assert_eq!(of(&["%99999999999s", "a"]).len(), MAX_WIDTH);
    }
}
