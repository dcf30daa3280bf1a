//! What rewriters do with packets of flows that they do not know: input specifications and patterns.
//!
//! Parsing is a pure function of the text; names of patterns are resolved afterwards, when all elements of a graph
//! are known ([`InputSpecs::resolve`]).

use std::fmt;
use std::net::Ipv4Addr;

use weir_ir::Peers;

use super::eviction::{self, Sharer};
use super::mapper;
use super::params::Capacity;
use crate::args::{FromArg, FromRest};

/// The class whose arguments are named patterns.
pub(super) const PATTERNS_CLASS: &str = "IPRewriterPatterns";

/// The start of the search for a free value of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// At the flow's own port if that is in the range and free, else at a random place.
    Own,
    /// At a random place (`?`).
    Random,
    /// Behind the value that was given out last (`#`).
    Sequential,
}

/// The rule for a source address or port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It stays.
    Keep,
    /// It becomes this value.
    Set(u32),
    /// It becomes a free value from the first to the second.
    OneOf(u32, u32, Order),
}

/// A pattern by which a new flow is rewritten. At most one part is a range.
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
    /// Whether it was written with ports.
    pub with_ports: bool,
}

/// The action of an input on a packet of an unknown flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputSpec {
    /// Drops it.
    Drop,
    /// Sends it to an output, unchanged.
    Pass(u32),
    /// Makes a mapping.
    Map(Rule),
    /// Makes a mapping by one of the rules of a mapper element.
    Mapper(Mapper),
}

/// A rule by which mappings are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The pattern, once it is known.
    pub pattern: Option<Pattern>,
    /// The name of the pattern, if it has one.
    pub name: Option<String>,
    /// Output of packets, and of replies.
    pub outputs: [u32; 2],
}

/// An element that chooses among rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapper {
    /// Its full name; as written until it is resolved.
    pub name: String,
    /// Its rules.
    pub rules: Vec<Rule>,
    /// How it chooses.
    pub choice: Choice,
}

/// A mapper's choice of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// One after the other.
    RoundRobin,
    /// By the source address: points of a ring in ascending order, and the rule of each.
    Ring(Vec<(u32, u32)>),
}

impl Rule {
    /// Reads a pattern or its name, and two outputs.
    pub(super) fn parse(words: &[&str]) -> Result<Rule, String> {
        let [pattern @ .., fwd, reply] = words else {
            return Err(SYNTAX.into());
        };
        let outputs = [
            output(fwd).ok_or_else(|| format!("bad forward port '{fwd}': write the number of an output"))?,
            output(reply)
                .ok_or_else(|| format!("bad reply port '{reply}': write the number of an output"))?,
        ];
        match pattern {
            [] => Err(SYNTAX.into()),
            [name] => Ok(Rule { pattern: None, name: Some((*name).to_owned()), outputs }),
            words => Ok(Rule { pattern: Some(Pattern::parse(words)?), name: None, outputs }),
        }
    }

    /// Puts the pattern in place of its name.
    fn resolve(&mut self, named: &[NamedPattern]) -> Result<(), String> {
        let (None, Some(name)) = (self.pattern, &self.name) else { return Ok(()) };
        match named.iter().find(|p| p.name == *name) {
            Some(p) => self.pattern = Some(p.pattern),
            None => {
                return Err(format!("no such pattern '{name}': define it in an {PATTERNS_CLASS} element"));
            }
        }
        Ok(())
    }
}

const SYNTAX: &str =
    "syntax error: write pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT, or pattern NAME FOUTPUT ROUTPUT";

fn output(word: &str) -> Option<u32> {
    word.parse().ok().filter(|n| *n < 65536)
}

impl Source {
    /// Whether it may become that value.
    pub(super) fn gives(self, value: u128) -> bool {
        match self {
            Source::Keep => true,
            Source::Set(v) => value == v.into(),
            Source::OneOf(lo, hi, _) => (u128::from(lo)..=hi.into()).contains(&value),
        }
    }
}

impl Pattern {
    /// The pattern that changes nothing.
    pub(super) const KEEP: Pattern =
        Pattern { src: Source::Keep, sport: Source::Keep, dst: None, dport: None, with_ports: true };

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
            src: source(src, addresses).ok_or("bad source address")?,
            sport: source(sport, ports).ok_or("bad source port")?,
            dst: single(dst, address).ok_or("bad destination address")?,
            dport: single(dport, port).ok_or("bad destination port")?,
            with_ports: words.len() > 2,
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
            _ => self.only_addresses(),
        }
    }

    /// Whether it only changes the source, as `IPEndpointRewriter` needs it.
    pub(super) fn only_source(&self) -> Result<(), String> {
        match self {
            Pattern { dst: None, dport: None, .. } => Ok(()),
            _ => Err("destination address and port must be '-' here".into()),
        }
    }

    /// Whether it changes no ports, as rewriters of addresses need it.
    pub(super) fn only_addresses(&self) -> Result<(), String> {
        match self {
            Pattern { sport: Source::Keep, dport: None, .. } => Ok(()),
            _ => Err("this element rewrites addresses only: leave the ports out of the pattern".into()),
        }
    }

    /// What an address or port becomes, if that does not depend on what is free.
    pub(super) fn fixed(source: Source) -> Option<u32> {
        match source {
            Source::Set(v) => Some(v),
            _ => None,
        }
    }
}

/// `-`, or what `read` makes of the text.
fn single(text: &str, read: fn(&str) -> Option<u32>) -> Option<Option<u32>> {
    if text == "-" { Some(None) } else { read(text).map(Some) }
}

/// `-`, a value, or a range that `#` or `?` may follow.
fn source(text: &str, read: fn(&str) -> Option<(u32, u32)>) -> Option<Source> {
    if text == "-" {
        return Some(Source::Keep);
    }
    let (range, order) = match text.as_bytes().last() {
        Some(b'#') => (&text[..text.len() - 1], Order::Sequential),
        Some(b'?') => (&text[..text.len() - 1], Order::Random),
        _ => (text, Order::Own),
    };
    match read(range)? {
        (lo, hi) if lo > hi => None,
        (0, 0) => Some(Source::Keep),
        (lo, hi) if lo == hi => Some(Source::Set(lo)),
        (lo, hi) => Some(Source::OneOf(lo, hi, order)),
    }
}

fn address(text: &str) -> Option<u32> {
    Ipv4Addr::from_arg(text).ok().map(Ipv4Addr::to_bits)
}

fn port(text: &str) -> Option<u32> {
    text.parse().ok().filter(|n| (1..=65535).contains(n))
}

fn ports(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| text.parse().ok().filter(|&n: &u32| n <= 65535);
    match text.split_once('-') {
        Some((lo, hi)) => Some((number(lo)?, number(hi)?)),
        None => port(text).map(|p| (p, p)),
    }
}

/// Addresses `A`, `A-B`, or `A/PREFIX` without the network and broadcast addresses.
fn addresses(text: &str) -> Option<(u32, u32)> {
    if let Some((lo, hi)) = text.split_once('-') {
        return Some((address(lo)?, address(hi)?));
    }
    let Some((addr, len)) = text.split_once('/') else {
        return address(text).map(|a| (a, a));
    };
    let addr = address(addr)?;
    let len: u32 = len.parse().ok().filter(|n| (1..=32).contains(n))?;
    let mask = u32::MAX << (32 - len);
    let (first, last) = (addr & mask, addr | !mask);
    Some(if len >= 31 { (first, last) } else { (first + 1, last - 1) })
}

impl fmt::Display for Pattern {
    /// As `patterns` handlers show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addr = |a: u32| Ipv4Addr::from_bits(a).to_string();
        let source = |s: Source, show: &dyn Fn(u32) -> String| match s {
            Source::Keep => "-".to_owned(),
            Source::Set(v) => show(v),
            Source::OneOf(lo, hi, _) => format!("{}-{}", show(lo), show(hi)),
        };
        let dash = |v: Option<String>| v.unwrap_or_else(|| "-".to_owned());
        let (src, dst) = (source(self.src, &addr), dash(self.dst.map(addr)));
        if !self.with_ports {
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
        match words[..] {
            ["drop" | "discard"] => Ok(InputSpec::Drop),
            ["drop" | "discard", ..] => Err(format!("syntax error, nothing follows '{}'", words[0])),
            ["pass" | "passthrough" | "nochange"] => Ok(InputSpec::Pass(0)),
            ["pass" | "passthrough" | "nochange", out] => {
                let out = output(out).ok_or_else(|| format!("'{out}' is not the number of an output"))?;
                Ok(InputSpec::Pass(out))
            }
            ["pass" | "passthrough" | "nochange", ..] => Err("syntax error, write pass OUTPUT".into()),
            ["keep", _, _] => {
                let rule = Rule::parse(&[&["-", "-", "-", "-"], &words[1..]].concat())?;
                Ok(InputSpec::Map(rule))
            }
            ["keep", ..] => Err("syntax error, write keep FOUTPUT ROUTPUT".into()),
            ["pattern" | "xpattern", ref rule @ ..] => Rule::parse(rule).map(InputSpec::Map),
            [name] => Ok(InputSpec::Mapper(Mapper {
                name: name.to_owned(),
                rules: vec![],
                choice: Choice::RoundRobin,
            })),
            _ => {
                Err("unknown specification: write drop, pass, keep, pattern, or the name of a mapper element"
                    .into())
            }
        }
    }
}

/// The input specifications of a rewriter, one for each input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpecs(pub(super) Vec<InputSpec>, pub(super) Links);

/// The demands of other elements of the graph on a rewriter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// Some element may change the length of TCP segments, so that sequence numbers shift.
    pub(super) shifts: bool,
    /// Most mappings of the rewriter whose capacity this one has too.
    pub(super) capacity: Option<u32>,
    /// Full name of this rewriter.
    pub(super) root: Option<String>,
    /// The other rewriters that have this capacity in common.
    pub(super) sharers: Vec<Sharer>,
}

impl FromRest for InputSpecs {
    const SYNTAX: &'static str = "input specifications";

    fn from_rest(args: &[String]) -> Result<InputSpecs, String> {
        if args.is_empty() {
            return Err("at least one input specification is needed (drop, pass, keep or pattern)".into());
        }
        let (mut specs, mut errors) = (Vec::new(), Vec::new());
        for (i, arg) in args.iter().enumerate() {
            match InputSpec::from_arg(arg) {
                Ok(spec) => specs.push(spec),
                Err(e) => errors.push(format!("input spec {i}: {e}")),
            }
        }
        if errors.is_empty() { Ok(InputSpecs(specs, Links::default())) } else { Err(errors.join("\n")) }
    }
}

impl InputSpecs {
    /// All rules with their inputs. Their order numbers them.
    pub(super) fn rules(&self) -> impl Iterator<Item = (usize, &Rule)> {
        self.0.iter().enumerate().flat_map(|(i, spec)| {
            let rules = match spec {
                InputSpec::Map(rule) => std::slice::from_ref(rule),
                InputSpec::Mapper(mapper) => &mapper.rules,
                InputSpec::Drop | InputSpec::Pass(_) => &[],
            };
            rules.iter().map(move |r| (i, r))
        })
    }

    /// Number of the first rule of an input.
    pub(super) fn first_rule(&self, input: usize) -> usize {
        self.rules().position(|(i, _)| i == input).unwrap_or(0)
    }

    /// What `check` has against the patterns, input by input.
    pub(super) fn check(&self, check: fn(&Pattern) -> Result<(), String>) -> Result<(), String> {
        let patterns = self.rules().filter_map(|(i, r)| Some((i, r.pattern.as_ref()?)));
        let errors: Vec<String> =
            patterns.filter_map(|(i, p)| check(p).err().map(|e| format!("input spec {i}: {e}"))).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }

    /// Puts patterns, mappers and the rewriter that says the capacity in place of their names.
    pub(super) fn resolve(&mut self, capacity: &Capacity, peers: &Peers<'_>) -> Result<(), Vec<String>> {
        let named: Vec<NamedPattern> = peers
            .of_class(PATTERNS_CLASS)
            .flat_map(|p| p.args)
            .filter_map(|a| NamedPattern::from_arg(a).ok())
            .collect();
        self.1.shifts = peers.of_class("FTPPortMapper").next().is_some();
        let mut errors = Vec::new();
        match capacity.resolve(peers) {
            Ok((n, root)) => {
                self.1.capacity = Some(n);
                self.1.sharers = eviction::sharers(&root, n, peers);
                self.1.root = Some(root);
            }
            Err(e) => errors.push(format!("MAPPING_CAPACITY: {e}")),
        }
        for (i, spec) in self.0.iter_mut().enumerate() {
            if let InputSpec::Mapper(mapper) = spec {
                match mapper::find(&mapper.name, peers) {
                    Ok(found) => *mapper = found,
                    Err(e) => errors.push(format!("input spec {i}: {e}")),
                }
            }
            let rules = match spec {
                InputSpec::Map(rule) => std::slice::from_mut(rule),
                InputSpec::Mapper(mapper) => &mut mapper.rules,
                InputSpec::Drop | InputSpec::Pass(_) => &mut [],
            };
            for rule in rules {
                errors.extend(rule.resolve(&named).err().map(|e| format!("input spec {i}: {e}")));
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
        let passed = self.0.iter().filter_map(|spec| match spec {
            InputSpec::Pass(out) => Some(*out),
            _ => None,
        });
        let mut all: Vec<u32> = self.rules().flat_map(|(_, r)| r.outputs).chain(passed).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// One line for each input, with the number of its mappings.
    pub(super) fn show(&self, counts: &[u32]) -> String {
        let line = |(i, spec): (usize, &InputSpec)| {
            let text = match spec {
                InputSpec::Drop => "<drop>".to_owned(),
                InputSpec::Pass(_) => "<nochange>".to_owned(),
                InputSpec::Mapper(_) => "<mapper>".to_owned(),
                InputSpec::Map(Rule { pattern: Some(Pattern::KEEP), name: None, .. }) => "<keep>".to_owned(),
                InputSpec::Map(Rule { pattern: Some(pattern), .. }) => pattern.to_string(),
                InputSpec::Map(Rule { name, .. }) => name.clone().unwrap_or_default(),
            };
            match counts.get(i) {
                Some(&n) if n > 0 => format!("{text} [{n}]\n"),
                _ => format!("{text}\n"),
            }
        };
        self.0.iter().enumerate().map(line).collect()
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
mod tests;
