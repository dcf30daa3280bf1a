//! What rewriters do with packets of flows that they do not know: input specifications and patterns.
//!
//! Parsing is a pure function of the text; names of patterns are resolved afterwards, when all elements of a graph
//! are known ([`InputSpecs::resolve`]).

use std::fmt;
use std::net::Ipv4Addr;

use crate::args::{FromArg, FromRest};

/// The class whose arguments are named patterns.
pub(super) const PATTERNS_CLASS: &str = "IPRewriterPatterns";

/// Where the search for a free value of a range starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// At the flow's own port if that is in the range and free, else at a random place.
    Own,
    /// At a random place (`?`).
    Random,
    /// Behind the value that was given out last (`#`).
    Sequential,
}

/// What becomes of a source address or port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It stays.
    Keep,
    /// It becomes this value.
    Set(u32),
    /// It becomes a free value from the first to the second.
    OneOf(u32, u32, Order),
}

/// How a new flow is rewritten. At most one part is a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Source address.
    pub src: Source,
    /// Source port.
    pub sport: Source,
    /// Destination address, if it changes.
    pub dst: Option<u32>,
    /// Destination port, if it changes.
    pub dport: Option<u32>,
}

/// What an input does with a packet of an unknown flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputSpec {
    /// Drops it.
    Drop,
    /// Sends it to an output, unchanged.
    Pass(u32),
    /// Makes a mapping; packets leave on the first output, replies on the second.
    Map(Rewrite, [u32; 2]),
}

/// How a mapping rewrites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewrite {
    /// By a pattern; if it has a name, the name.
    By(Pattern, Option<String>),
    /// By the pattern of this name, not yet resolved.
    Named(String),
}

impl Pattern {
    /// The pattern that changes nothing.
    pub(super) const KEEP: Pattern =
        Pattern { src: Source::Keep, sport: Source::Keep, dst: None, dport: None };

    /// Reads `SADDR SPORT DADDR DPORT`, or the forms without destination port (`SADDR DADDR SPORT`) or without any
    /// port (`SADDR DADDR`).
    pub(super) fn parse(words: &[&str]) -> Result<Pattern, String> {
        let (src, sport, dst, dport) = match *words {
            [src, sport, dst, dport] => (src, sport, dst, dport),
            [src, dst, sport] => (src, sport, dst, "-"),
            [src, dst] => (src, "-", dst, "-"),
            _ => {
                return Err(format!(
                    "'{}' is not a pattern: write SADDR SPORT DADDR DPORT, or the name of a pattern",
                    words.join(" ")
                ));
            }
        };
        let pattern = Pattern {
            src: source(src, addresses).map_err(|e| format!("bad source address '{src}': {e}"))?,
            sport: source(sport, ports).map_err(|e| format!("bad source port '{sport}': {e}"))?,
            dst: single(dst, address).map_err(|e| format!("bad destination address '{dst}': {e}"))?,
            dport: single(dport, port).map_err(|e| format!("bad destination port '{dport}': {e}"))?,
        };
        if matches!(pattern.src, Source::OneOf(..)) && words.len() != 2 {
            return Err(format!(
                "a range of addresses such as '{src}' has no ports beside it: write SADDR DADDR"
            ));
        }
        Ok(pattern)
    }

    /// Whether it gives out values one after the other.
    pub(super) fn is_sequential(&self) -> bool {
        [self.src, self.sport].iter().any(|s| matches!(s, Source::OneOf(_, _, Order::Sequential)))
    }

    /// Whether it only changes the source address, as `IPAddrRewriter` needs it.
    pub(super) fn only_source_address(&self) -> Result<(), String> {
        match self {
            Pattern { dst: Some(_), .. } => Err("the destination address must be '-' here".into()),
            Pattern { sport: Source::Keep, dport: None, .. } => Ok(()),
            _ => Err("this element rewrites addresses only: leave the ports out of the pattern".into()),
        }
    }
}

/// `-`, or what `read` makes of the text.
fn single(text: &str, read: fn(&str) -> Result<u32, String>) -> Result<Option<u32>, String> {
    if text == "-" { Ok(None) } else { read(text).map(Some) }
}

/// `-`, a value, or a range that `#` or `?` may follow.
fn source(text: &str, read: fn(&str) -> Result<(u32, u32), String>) -> Result<Source, String> {
    if text == "-" {
        return Ok(Source::Keep);
    }
    let (range, order) = match text.as_bytes().last() {
        Some(b'#') => (&text[..text.len() - 1], Order::Sequential),
        Some(b'?') => (&text[..text.len() - 1], Order::Random),
        _ => (text, Order::Own),
    };
    match read(range)? {
        (lo, hi) if lo > hi => Err("the range ends before it starts".into()),
        (lo, hi) if lo == hi => Ok(Source::Set(lo)),
        (lo, hi) => Ok(Source::OneOf(lo, hi, order)),
    }
}

fn address(text: &str) -> Result<u32, String> {
    match Ipv4Addr::from_arg(text)?.to_bits() {
        0 => Err("0.0.0.0 cannot be written into packets; write '-' to keep the address".into()),
        bits => Ok(bits),
    }
}

fn port(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n @ 1..=65535) => Ok(n),
        _ => Err("a port is a number from 1 to 65535, or '-'".into()),
    }
}

fn ports(text: &str) -> Result<(u32, u32), String> {
    match text.split_once('-') {
        Some((lo, hi)) => Ok((port(lo)?, port(hi)?)),
        None => port(text).map(|p| (p, p)),
    }
}

/// Addresses `A`, `A-B`, or `A/PREFIX` without the network and broadcast addresses.
fn addresses(text: &str) -> Result<(u32, u32), String> {
    if let Some((lo, hi)) = text.split_once('-') {
        return Ok((address(lo)?, address(hi)?));
    }
    let Some((addr, len)) = text.split_once('/') else { return address(text).map(|a| (a, a)) };
    let addr = address(addr)?;
    let len = len.parse().ok().filter(|len| (1..=32).contains(len));
    let len: u32 = len.ok_or("a prefix has 1 to 32 bits")?;
    let mask = u32::MAX << (32 - len);
    let (first, last) = (addr & mask, addr | !mask);
    Ok(if len >= 31 { (first, last) } else { (first + 1, last - 1) })
}

impl fmt::Display for Pattern {
    /// As `patterns` handlers show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addr = |a: u32| Ipv4Addr::from_bits(a).to_string();
        let source = |s: Source, show: &dyn Fn(u32) -> String| match s {
            Source::Keep => "-".to_owned(),
            Source::Set(v) => show(v),
            Source::OneOf(lo, hi, order) => {
                let mark = match order {
                    Order::Own => "",
                    Order::Random => "?",
                    Order::Sequential => "#",
                };
                format!("{}-{}{mark}", show(lo), show(hi))
            }
        };
        let dash = |v: Option<String>| v.unwrap_or_else(|| "-".to_owned());
        let (src, dst) = (source(self.src, &addr), dash(self.dst.map(addr)));
        if matches!(self.src, Source::OneOf(..)) {
            return write!(f, "{src} {dst}");
        }
        let sport = source(self.sport, &|p| p.to_string());
        write!(f, "{src} {sport} {dst} {}", dash(self.dport.map(|p| p.to_string())))
    }
}

impl FromArg for InputSpec {
    const SYNTAX: &'static str = "input specification";

    fn from_arg(text: &str) -> Result<InputSpec, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let output = |word: &str| {
            word.parse::<u32>()
                .ok()
                .filter(|n| *n < 65536)
                .ok_or_else(|| format!("'{word}' is not the number of an output"))
        };
        match words[..] {
            ["drop" | "discard"] => Ok(InputSpec::Drop),
            ["drop" | "discard", ..] => Err(format!("'{text}': nothing follows '{}'", words[0])),
            ["pass" | "passthrough" | "nochange"] => Ok(InputSpec::Pass(0)),
            ["pass" | "passthrough" | "nochange", out] => output(out).map(InputSpec::Pass),
            ["pass" | "passthrough" | "nochange", ..] => Err(format!("'{text}': write pass OUTPUT")),
            ["keep", fwd, reply] => {
                Ok(InputSpec::Map(Rewrite::By(Pattern::KEEP, None), [output(fwd)?, output(reply)?]))
            }
            ["keep", ..] => Err(format!("'{text}': write keep FOUTPUT ROUTPUT")),
            ["pattern" | "xpattern", ref pattern @ .., fwd, reply] if !pattern.is_empty() => {
                let outputs = [output(fwd)?, output(reply)?];
                let rewrite = match pattern {
                    [name] => Rewrite::Named((*name).to_owned()),
                    words => Rewrite::By(Pattern::parse(words)?, None),
                };
                Ok(InputSpec::Map(rewrite, outputs))
            }
            ["pattern" | "xpattern", ..] => Err(format!(
                "'{text}': write pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT, or pattern NAME FOUTPUT ROUTPUT"
            )),
            _ => Err(format!("'{text}' is not an input specification: write drop, pass, keep or pattern")),
        }
    }
}

/// The input specifications of a rewriter, one for each input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpecs(pub(super) Vec<InputSpec>);

impl FromRest for InputSpecs {
    const SYNTAX: &'static str = "input specifications";

    fn from_rest(args: &[String]) -> Result<InputSpecs, String> {
        if args.is_empty() {
            return Err("at least one input specification is needed (drop, pass, keep or pattern)".into());
        }
        Vec::from_rest(args).map(InputSpecs)
    }
}

impl InputSpecs {
    /// The patterns that are known, with their input.
    fn patterns(&self) -> impl Iterator<Item = (usize, &Pattern)> {
        self.0.iter().enumerate().filter_map(|(i, spec)| match spec {
            InputSpec::Map(Rewrite::By(pattern, _), _) => Some((i, pattern)),
            _ => None,
        })
    }

    /// What `check` has against the patterns, input by input.
    pub(super) fn check(&self, check: fn(&Pattern) -> Result<(), String>) -> Result<(), String> {
        self.patterns().try_for_each(|(i, p)| check(p).map_err(|e| format!("argument {}: {e}", i + 1)))
    }

    /// Puts named patterns in place of their names. `named` are the arguments of all `IPRewriterPatterns`.
    pub(super) fn resolve(&mut self, named: &[String]) -> Result<(), Vec<String>> {
        let mut errors = Vec::new();
        for (i, spec) in self.0.iter_mut().enumerate() {
            let InputSpec::Map(rewrite @ Rewrite::Named(_), _) = spec else { continue };
            let Rewrite::Named(name) = rewrite else { continue };
            let found = named
                .iter()
                .map(|a| NamedPattern::from_arg(a))
                .find_map(|p| p.ok().filter(|p| p.name == *name));
            match found {
                Some(p) => *rewrite = Rewrite::By(p.pattern, Some(p.name)),
                None => errors.push(format!(
                    "argument {}: no such pattern '{name}': define it in an {PATTERNS_CLASS} element",
                    i + 1
                )),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Port counts: one input for each specification, and outputs up to the highest that is named.
    pub(super) fn ports(&self) -> String {
        let outputs = self.outputs().last().map_or(1, |&last| last + 1);
        format!("{}/{outputs}-", self.0.len())
    }

    /// The outputs that specifications name, in order.
    pub(super) fn outputs(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self
            .0
            .iter()
            .flat_map(|spec| match spec {
                InputSpec::Drop => vec![],
                InputSpec::Pass(out) => vec![*out],
                InputSpec::Map(_, outputs) => outputs.to_vec(),
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// One line for each input.
    pub(super) fn show(&self) -> String {
        let line = |spec: &InputSpec| match spec {
            InputSpec::Drop => "<drop>\n".to_owned(),
            InputSpec::Pass(_) => "<nochange>\n".to_owned(),
            InputSpec::Map(Rewrite::By(Pattern::KEEP, None), _) => "<keep>\n".to_owned(),
            InputSpec::Map(Rewrite::By(pattern, _), _) => format!("{pattern}\n"),
            InputSpec::Map(Rewrite::Named(name), _) => format!("{name}\n"),
        };
        self.0.iter().map(line).collect()
    }
}

/// A pattern with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPattern {
    /// The name.
    pub name: String,
    /// The pattern.
    pub pattern: Pattern,
}

impl FromArg for NamedPattern {
    const SYNTAX: &'static str = "name and pattern";

    fn from_arg(text: &str) -> Result<NamedPattern, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [name, ref pattern @ ..] if !pattern.is_empty() => Pattern::parse(pattern)
                .map(|pattern| NamedPattern { name: name.to_owned(), pattern })
                .map_err(|e| format!("pattern '{name}': {e}")),
            _ => Err(format!("'{text}': write NAME SADDR SPORT DADDR DPORT")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Pattern, String> {
        Pattern::parse(&text.split_whitespace().collect::<Vec<_>>())
    }

    const A: u32 = 0x0100_0001;

    #[test]
    fn every_form_of_a_pattern() {
        let all = |src, sport, dst, dport| Pattern { src, sport, dst, dport };
        for (text, want) in [
            ("- - - -", Pattern::KEEP),
            ("1.0.0.1 20 - -", all(Source::Set(A), Source::Set(20), None, None)),
            ("- - 1.0.0.1 80", all(Source::Keep, Source::Keep, Some(A), Some(80))),
            (
                "1.0.0.1 1024-65535 - -",
                all(Source::Set(A), Source::OneOf(1024, 65535, Order::Own), None, None),
            ),
            ("- 1-2# - -", all(Source::Keep, Source::OneOf(1, 2, Order::Sequential), None, None)),
            ("- 1-2? - -", all(Source::Keep, Source::OneOf(1, 2, Order::Random), None, None)),
            ("- 7-7 - -", all(Source::Keep, Source::Set(7), None, None)),
            ("1.0.0.1 -", all(Source::Set(A), Source::Keep, None, None)),
            ("1.0.0.1 1.0.0.1 9", all(Source::Set(A), Source::Set(9), Some(A), None)),
            ("1.0.0.1-1.0.0.9# -", all(Source::OneOf(A, A + 8, Order::Sequential), Source::Keep, None, None)),
            ("1.0.0.0/24 -", all(Source::OneOf(A, A + 253, Order::Own), Source::Keep, None, None)),
            ("1.0.0.1/32 -", all(Source::Set(A), Source::Keep, None, None)),
            ("1.0.0.1/31 -", all(Source::OneOf(A - 1, A, Order::Own), Source::Keep, None, None)),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn a_pattern_is_shown_as_it_is_written() {
        for text in
            ["1.0.0.1 1024-65535# - -", "- - 1.0.0.1 80", "1.0.0.1 5-6? 2.0.0.2 -", "1.0.0.1-1.0.0.9 -"]
        {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_patterns_say_what_is_wrong() {
        for (text, want) in [
            ("1.0.0.1", "'1.0.0.1' is not a pattern: write SADDR SPORT DADDR DPORT"),
            ("1.0.0 - - -", "bad source address '1.0.0': '1.0.0' is not an IP address"),
            ("0.0.0.0 - - -", "write '-' to keep the address"),
            ("- 70000 - -", "bad source port '70000': a port is a number from 1 to 65535"),
            ("- 0-5 - -", "bad source port '0-5'"),
            ("- 9-5 - -", "the range ends before it starts"),
            ("- - 1-2 -", "bad destination address '1-2'"),
            ("- - - 5-9", "bad destination port '5-9'"),
            ("1.0.0.0/33 -", "a prefix has 1 to 32 bits"),
            ("1.0.0.1-1.0.0.9 - - -", "has no ports beside it"),
            ("1.0.0.1 - -  - -", "is not a pattern"),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.contains(want), "{text}: {e}");
        }
    }

    #[test]
    fn every_form_of_an_input_specification() {
        let keep = || Rewrite::By(Pattern::KEEP, None);
        for (text, want) in [
            ("drop", InputSpec::Drop),
            ("discard", InputSpec::Drop),
            ("pass", InputSpec::Pass(0)),
            ("nochange 2", InputSpec::Pass(2)),
            ("passthrough 1", InputSpec::Pass(1)),
            ("keep 0 1", InputSpec::Map(keep(), [0, 1])),
            ("pattern - - - - 3 4", InputSpec::Map(keep(), [3, 4])),
            ("pattern nat 3 4", InputSpec::Map(Rewrite::Named("nat".into()), [3, 4])),
        ] {
            assert_eq!(InputSpec::from_arg(text), Ok(want), "{text}");
        }
        for (text, want) in [
            ("", "is not an input specification"),
            ("rewrite 1 2", "write drop, pass, keep or pattern"),
            ("drop 1", "nothing follows 'drop'"),
            ("pass x", "'x' is not the number of an output"),
            ("keep 1", "write keep FOUTPUT ROUTPUT"),
            ("pattern 1 2", "write pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT"),
            ("pattern 1.0.0.1 - - - 0", "'-' is not the number of an output"),
        ] {
            let e = InputSpec::from_arg(text).unwrap_err();
            assert!(e.contains(want), "{text}: {e}");
        }
    }

    #[test]
    fn the_port_counts_follow_from_the_specifications() {
        let ports = |list: &[&str]| {
            InputSpecs(list.iter().map(|t| InputSpec::from_arg(t).unwrap()).collect()).ports()
        };
        assert_eq!(ports(&["drop"]), "1/1-");
        assert_eq!(ports(&["pattern - - - - 0 3", "pass 1"]), "2/4-");
    }

    #[test]
    fn names_are_resolved_from_the_patterns_of_all_elements() {
        let named = ["other - - - -".to_owned(), "nat 1.0.0.1 1024-65535 - -".to_owned()];
        let mut specs = InputSpecs(vec![InputSpec::Drop, InputSpec::from_arg("pattern nat 0 1").unwrap()]);
        specs.resolve(&named).unwrap();
        assert_eq!(specs.show(), "<drop>\n1.0.0.1 1024-65535 - -\n");
        let mut specs = InputSpecs(vec![InputSpec::from_arg("pattern none 0 1").unwrap()]);
        let e = specs.resolve(&named).unwrap_err();
        assert_eq!(e, ["argument 1: no such pattern 'none': define it in an IPRewriterPatterns element"]);
    }
}
