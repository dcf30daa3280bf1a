//! Arguments of a configuration: by position and by keyword, converted to the types of parameters.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use weir_ir::{ClassInfo, ParamKind};
use weir_net::{EtherAddr, Ipv4Prefix};

use crate::names::{NameKind, named};

/// A type that one argument is read as.
pub trait FromArg: Sized {
    /// What is written for it, as the manual calls it.
    const SYNTAX: &'static str;
    /// Reads the argument; the error says what is wrong with it.
    fn from_arg(text: &str) -> Result<Self, String>;
}

/// A type that a parameter has: one argument, or all that remain.
pub trait FromRest: Sized {
    /// What is written for it.
    const SYNTAX: &'static str;
    /// Reads the arguments that are left for the parameter. Each line of the error is one.
    fn from_rest(args: &[String]) -> Result<Self, String>;
}

impl<T: FromArg> FromRest for T {
    const SYNTAX: &'static str = T::SYNTAX;
    fn from_rest(args: &[String]) -> Result<T, String> {
        match args {
            [one] => read(one),
            _ => Err("one argument is needed".into()),
        }
    }
}

impl<T: FromArg> FromRest for Vec<T> {
    const SYNTAX: &'static str = T::SYNTAX;
    fn from_rest(args: &[String]) -> Result<Vec<T>, String> {
        args.iter()
            .enumerate()
            .map(|(i, a)| {
                read(a).map_err(|e| if args.len() > 1 { format!("argument {}: {e}", i + 1) } else { e })
            })
            .collect()
    }
}

impl<T: FromArg> FromArg for Option<T> {
    const SYNTAX: &'static str = T::SYNTAX;
    fn from_arg(text: &str) -> Result<Option<T>, String> {
        T::from_arg(text).map(Some)
    }
}

/// Reads an argument; one that is no value as it stands, and in quotation marks, without them.
fn read<T: FromArg>(text: &str) -> Result<T, String> {
    T::from_arg(text).or_else(|e| {
        let is_quoted = |mark| text.len() > 1 && text.starts_with(mark) && text.ends_with(mark);
        if is_quoted('"') || is_quoted('\'') { T::from_arg(&unquote(text)) } else { Err(e) }
    })
}

/// The arguments of one element, given to its parameters one after the other.
#[derive(Debug)]
pub struct Args {
    positional: Vec<String>,
    keywords: Vec<(String, String)>,
    errors: Vec<String>,
    /// The keywords that the class knows.
    known: Vec<String>,
}

impl Args {
    /// Sorts arguments into keywords that the class knows and the rest.
    pub fn new(args: &[String], info: &ClassInfo) -> Args {
        let named = info.params.iter().filter(|p| p.kind != ParamKind::Rest);
        let known = named.map(|p| keyword(p.name)).collect();
        let mut sorted = Args { positional: Vec::new(), keywords: Vec::new(), errors: Vec::new(), known };
        let last = args.len().wrapping_sub(1);
        for (i, arg) in args.iter().enumerate() {
            let arg = arg.trim();
            match arg.split_once(char::is_whitespace) {
                Some((word, value)) if sorted.known.iter().any(|k| k == word) => {
                    sorted.keywords.push((word.to_owned(), value.trim().to_owned()));
                }
                _ if arg.is_empty() && i == last => {}
                _ => sorted.positional.push(arg.to_owned()),
            }
        }
        sorted
    }

    /// The value of the next parameter.
    pub fn take<T: FromRest>(&mut self, field: &str, kind: ParamKind, default: Option<T>) -> Option<T> {
        let name = keyword(field);
        let mut positional = false;
        let given = if kind == ParamKind::Rest {
            let all = std::mem::take(&mut self.positional);
            let (misspelt, all) = all.into_iter().partition(|arg| self.is_misspelt(arg, true));
            self.positional = misspelt;
            let all: Vec<String> = all;
            (!all.is_empty() || default.is_none()).then_some(all)
        } else if let Some(i) = self.keywords.iter().rposition(|(k, _)| *k == name) {
            let value = self.keywords.swap_remove(i).1;
            self.keywords.retain(|(k, _)| *k != name);
            Some(vec![value])
        } else if kind == ParamKind::Positional
            && let Some(i) = self.positional.iter().position(|arg| !self.is_misspelt(arg, default.is_none()))
        {
            positional = true;
            Some(vec![self.positional.remove(i)])
        } else {
            None
        };
        match given {
            Some(args) => match T::from_rest(&args) {
                Ok(v) => Some(v),
                Err(e) if kind == ParamKind::Rest => {
                    self.errors.extend(e.lines().map(str::to_owned));
                    None
                }
                Err(e) => {
                    let misread = args.first().filter(|_| positional).and_then(|arg| self.misread(arg));
                    self.errors.push(misread.unwrap_or_else(|| format!("{name}: {e}")));
                    None
                }
            },
            None => {
                if default.is_none() {
                    self.errors.push(format!("missing mandatory {name} argument ({})", T::SYNTAX));
                }
                default
            }
        }
    }

    /// Takes note of what is wrong with the parameters together.
    pub fn check(&mut self, result: Result<(), String>) -> Option<()> {
        result.map_err(|e| self.errors.push(e)).ok()
    }

    /// Whether an argument begins with a word that looks like a keyword, and is none. What may begin with any word in capitals
    /// (`is_open`) has to be like one of the class.
    fn is_misspelt(&self, arg: &str, is_open: bool) -> bool {
        let Some(word) = first_word(arg) else { return false };
        !is_open || self.near(word).is_some()
    }

    /// The keyword that is most like a word.
    fn near(&self, word: &str) -> Option<&str> {
        weir_filter::text::closest(word, self.known.iter().map(String::as_str))
    }

    /// What is wrong with an argument that is no value where it stands, if it was meant to have a keyword.
    fn misread(&self, arg: &str) -> Option<String> {
        if self.known.iter().any(|k| k == arg) {
            return Some(format!("{arg}: the value is missing"));
        }
        let word = first_word(arg)?;
        Some(match self.near(word) {
            Some(near) => format!("{word}: unknown argument; did you mean {near}?"),
            None if self.known.is_empty() => format!("{word}: unknown argument"),
            None => format!("{word}: unknown argument; known are {}", self.known.join(", ")),
        })
    }

    /// Errors so far, and those of arguments that no parameter took.
    pub fn finish(mut self) -> Vec<String> {
        let mut extra = Vec::new();
        for arg in &self.positional {
            match self.misread(arg) {
                Some(error) => self.errors.push(error),
                None => extra.push(format!("'{arg}'")),
            }
        }
        if !extra.is_empty() {
            self.errors.push(format!("too many arguments: {}", extra.join(", ")));
        }
        self.errors
    }
}

/// The word that an argument begins with, if it looks like a keyword: in capitals, and with more behind it.
fn first_word(arg: &str) -> Option<&str> {
    let (word, _) = arg.split_once(char::is_whitespace)?;
    let is_capital = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    (word.len() > 1 && word.starts_with(|c: char| c.is_ascii_uppercase()) && word.bytes().all(is_capital))
        .then_some(word)
}

/// The keyword of a parameter whose field has this name.
pub(crate) fn keyword(field: &str) -> String {
    field.trim_start_matches("r#").to_uppercase()
}

macro_rules! integers {
    ($($t:ty: $syntax:literal;)*) => { $(
        impl FromArg for $t {
            const SYNTAX: &'static str = $syntax;
            fn from_arg(text: &str) -> Result<$t, String> {
                let v = parse_integer(text).ok_or_else(|| format!("'{text}' is not a number"))?;
                <$t>::try_from(v).map_err(|_| format!("{text} is too large; at most {}", <$t>::MAX))
            }
        }
    )* };
}
integers! {
    u8: "number below 256";
    u16: "number below 65536";
    u32: "number";
    u64: "number";
}

impl FromArg for i32 {
    const SYNTAX: &'static str = "whole number";
    fn from_arg(text: &str) -> Result<i32, String> {
        let digits = text.trim();
        let digits = digits.strip_prefix('+').unwrap_or(digits);
        let (sign, digits) = digits.strip_prefix('-').map_or((1, digits), |rest| (-1, rest));
        let v = parse_integer(digits).ok_or_else(|| format!("'{text}' is not a number"))?;
        i32::try_from(v).map(|v| sign * v).map_err(|_| format!("{text} is too large; at most {}", i32::MAX))
    }
}

/// A number in decimal, hexadecimal (`0x`) or octal (`0`), as Click reads it.
fn parse_integer(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    if text.len() > 1 && text.starts_with('0') {
        return u64::from_str_radix(&text[1..], 8).ok();
    }
    text.parse().ok()
}

impl FromArg for bool {
    const SYNTAX: &'static str = "boolean";
    fn from_arg(text: &str) -> Result<bool, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "y" | "t" => Ok(true),
            "false" | "0" | "no" | "n" | "f" => Ok(false),
            _ => Err(format!("'{text}' is not a boolean: write true or false")),
        }
    }
}

impl FromArg for String {
    const SYNTAX: &'static str = "text";
    fn from_arg(text: &str) -> Result<String, String> {
        Ok(unquote(text))
    }
}

/// Removes quotes and resolves the escapes of a Click string.
fn unquote(text: &str) -> String {
    let (mut out, mut quote) = (String::new(), None);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            ('\\', Some('"')) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (c, _) => out.push(c),
        }
    }
    out
}

impl FromArg for Ipv4Addr {
    const SYNTAX: &'static str = "IP address";
    fn from_arg(text: &str) -> Result<Ipv4Addr, String> {
        named(text, NameKind::Ip, |t| t.parse().ok())
            .ok_or_else(|| format!("'{text}' is not an IP address (like 10.0.0.1)"))
    }
}

impl FromArg for Ipv6Addr {
    const SYNTAX: &'static str = "IPv6 address";
    fn from_arg(text: &str) -> Result<Ipv6Addr, String> {
        named(text, NameKind::Ip6, |t| t.parse().ok())
            .ok_or_else(|| format!("'{text}' is not an IPv6 address (like fd00::1)"))
    }
}

impl FromArg for EtherAddr {
    const SYNTAX: &'static str = "Ethernet address";
    fn from_arg(text: &str) -> Result<EtherAddr, String> {
        named(text, NameKind::Ether, |t| t.parse().ok())
            .ok_or_else(|| format!("'{text}' is not an Ethernet address (like 02:00:00:00:00:01)"))
    }
}

impl FromArg for Ipv4Prefix {
    const SYNTAX: &'static str = "IP prefix";
    fn from_arg(text: &str) -> Result<Ipv4Prefix, String> {
        named(text, NameKind::IpPrefix, |t| t.parse().ok())
            .ok_or_else(|| format!("'{text}' is not an IP prefix (like 10.0.0.0/8)"))
    }
}

impl FromArg for Duration {
    const SYNTAX: &'static str = "time";
    /// Seconds, or a number with a unit: `300`, `0.5`, `20ms`, `5 min`, `2h`.
    fn from_arg(text: &str) -> Result<Duration, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let scale = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "s" | "sec" | "second" | "seconds" => 1.0,
            "ms" | "msec" => 1e-3,
            "us" | "usec" => 1e-6,
            "ns" | "nsec" => 1e-9,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86400.0,
            _ => {
                return Err(format!(
                    "'{text}' is not a time: write seconds, or a number with ms, s, min, h or d"
                ));
            }
        };
        let n: f64 = number.parse().map_err(|_| format!("'{text}' is not a time (like 300 or 5min)"))?;
        Duration::try_from_secs_f64(n * scale).map_err(|_| format!("'{text}' is too long"))
    }
}

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth(pub u32);

impl FromArg for Bandwidth {
    const SYNTAX: &'static str = "bandwidth";
    /// Bytes per second, or a number with a unit: `384kbps`, `1.5Mb/s`, `200Bps`, `10MB/s`.
    fn from_arg(text: &str) -> Result<Bandwidth, String> {
        let text = text.trim();
        let wrong = || {
            format!(
                "'{text}' is not a bandwidth: write bytes per second, or a number with a unit (384kbps, 10MBps)"
            )
        };
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.trim();
        let (scale, unit) = match unit.chars().next() {
            Some('k' | 'K') => (1e3, &unit[1..]),
            Some('M' | 'm') => (1e6, &unit[1..]),
            Some('G' | 'g') => (1e9, &unit[1..]),
            _ => (1.0, unit),
        };
        let bytes = match unit {
            "" | "Bps" | "B/s" => 1.0,
            "bps" | "b/s" | "baud" => 0.125,
            _ => return Err(wrong()),
        };
        let rate = number * scale * bytes;
        if rate > f64::from(u32::MAX) {
            return Err(format!("{text} is too much; at most {} bytes per second", u32::MAX));
        }
        Ok(Bandwidth(rate as u32))
    }
}

impl std::fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bits = u64::from(self.0) * 8;
        for (scale, unit) in [(1_000_000_000, "Gbps"), (1_000_000, "Mbps"), (1_000, "kbps")] {
            if bits >= scale {
                return write!(f, "{}{unit}", bits as f64 / scale as f64);
            }
        }
        write!(f, "{bits}bps")
    }
}

/// A type that a live parameter's cell holds.
pub trait CellValue: FromArg {
    /// The cell's content for a value.
    fn bits(self) -> u128;
    /// The value as text, from the cell's content.
    fn show(bits: u128) -> String;
}

impl CellValue for bool {
    fn bits(self) -> u128 {
        self.into()
    }
    fn show(bits: u128) -> String {
        (bits != 0).to_string()
    }
}

macro_rules! cell_integers {
    ($($t:ty)*) => { $(
        impl CellValue for $t {
            fn bits(self) -> u128 { self.into() }
            fn show(bits: u128) -> String { bits.to_string() }
        }
    )* };
}
cell_integers!(u8 u16 u32 u64);

impl CellValue for i32 {
    fn bits(self) -> u128 {
        self.cast_unsigned().into()
    }
    fn show(bits: u128) -> String {
        (bits as u32).cast_signed().to_string()
    }
}

impl CellValue for EtherAddr {
    fn bits(self) -> u128 {
        self.octets().iter().fold(0, |v, &o| v << 8 | u128::from(o))
    }
    fn show(bits: u128) -> String {
        let [_, _, octets @ ..] = (bits as u64).to_be_bytes();
        EtherAddr(octets).to_string()
    }
}

impl CellValue for Ipv4Addr {
    fn bits(self) -> u128 {
        u32::from(self).into()
    }
    fn show(bits: u128) -> String {
        Ipv4Addr::from(bits as u32).to_string()
    }
}

impl CellValue for Ipv6Addr {
    fn bits(self) -> u128 {
        self.into()
    }
    fn show(bits: u128) -> String {
        Ipv6Addr::from(bits).to_string()
    }
}

#[cfg(test)]
mod tests {
    use crate::class_named;

    fn errors(class: &str, args: &[&str]) -> String {
        let args: Vec<String> = args.iter().map(|&a| a.to_owned()).collect();
        class_named(class).unwrap().configure(&args).err().unwrap_or_default().join("; ")
    }

    #[test]
    fn an_unknown_keyword_is_named_and_is_no_value() {
        for (class, args, error) in [
            ("Print", &["MAXLEN 20"][..], "MAXLEN: unknown argument; did you mean MAXLENGTH?"),
            ("Print", &["label", "LENGHT 20"], "LENGHT: unknown argument; known are LABEL, MAXLENGTH"),
            ("SetIPAddress", &["ADDRESS 10.0.0.1"], "ADDRESS: unknown argument; known are IPADDR, ANNO"),
            ("Print", &["label", "CONTENTS"], "CONTENTS: the value is missing"),
            ("IPRewriter", &["drop", "MAPPING_CAPACITI 5"], "did you mean MAPPING_CAPACITY?"),
            ("Strip", &["LENGTHS 14"], "LENGTHS: unknown argument; did you mean LENGTH?"),
            ("Null", &["SOME 14"], "SOME: unknown argument"),
        ] {
            let found = errors(class, args);
            assert!(found.contains(error), "{class}({}): {found}", args.join(", "));
        }
        assert_eq!(errors("Print", &["two words"]), "", "no keyword is in small letters");
        assert_eq!(errors("Print", &["\"MAXLEN 20\""]), "");
    }

    #[test]
    fn values_may_stand_in_quotation_marks() {
        for (class, args) in [
            ("Print", &["\"label\"", "CONTENTS \"ascii\""][..]),
            ("Strip", &["\"14\""]),
            ("CheckIPHeader", &["VERBOSE 'true'"]),
            ("SetIPAddress", &["\"10.0.0.1\""]),
        ] {
            assert_eq!(errors(class, args), "", "{class}({})", args.join(", "));
        }
        assert_eq!(errors("Strip", &["\"x\""]), "LENGTH: 'x' is not a number");
    }
}
