//! The paper's own words: `REACH prefix|port prefix|port (rule)*` (CHANGE paper section 2.2.2).

use weir_filter::{Dir, Expr, FilterError, Ports, Prim};

use super::parse::Line;
use super::place::with_port;
use super::{Goal, Place, RequirementError};

/// Most rules after one `REACH`.
const MAX_RULES: usize = 1_000;

/// Reads what follows `REACH`: a filter makes it `can`; `allow … deny …` make it `only`, where as in `IPFilter` the first rule that
/// matches decides, and what none matches is denied.
pub(super) fn reach(line: &mut Line<'_>) -> Result<Goal, RequirementError> {
    let (from, from_port) = place(line, "where the traffic begins")?;
    let (to, to_port) = place(line, "where it arrives")?;
    let port = |dir, port: Option<u16>| {
        port.map(|p| Expr::from(Prim::Port { dir, lo: p, hi: p, proto: Ports::Any }))
    };
    let ports = [port(Dir::Src, from_port), port(Dir::Dst, to_port)];
    let with_ports = |filter| Expr::and(ports.into_iter().flatten().chain([filter]));
    if matches!(line.peek(), Some("allow" | "deny" | "drop")) {
        return Ok(Goal::Only { from, to, filter: with_ports(rules(line)?) });
    }
    let rest = line.rest();
    let filter = if rest.is_empty() { Expr::True } else { filter(rest, line.column())? };
    Ok(Goal::Can { from, to, via: Vec::new(), filter: with_ports(filter) })
}

/// A place; an address may have a transport port, as in `172.16.15.133:1500`.
fn place(line: &mut Line<'_>, what: &str) -> Result<(Place, Option<u16>), RequirementError> {
    let word = line.peek().unwrap_or_default();
    if let Some((place, port)) = with_port(word) {
        line.take();
        return Ok((place, Some(port)));
    }
    if word.is_empty() {
        let help = "write a prefix such as 0/0, a node such as client, or a node's port such as platform2:if";
        return Err(line.error(format!("a place is missing: {what}"), help));
    }
    let place = word.parse().map_err(|e: crate::error::ValueError| line.error(e.message, e.help))?;
    line.take();
    Ok((place, None))
}

/// `allow FILTER deny FILTER …` as the filter that holds what is allowed.
fn rules(line: &mut Line<'_>) -> Result<Expr, RequirementError> {
    let start = line.clone();
    let mut rules = Vec::new();
    while let Some(word) = line.take() {
        let allow = word == "allow";
        let at = line.clone();
        let mut end = line.clone();
        while !matches!(line.peek(), None | Some("allow" | "deny" | "drop")) {
            let separator = line.take() == Some(",");
            if !separator {
                end = line.clone();
            }
        }
        let (from, after) = (at.rest(), end.rest());
        let text = from.get(..from.len().saturating_sub(after.len())).unwrap_or_default().trim_end();
        let text = text.trim_end_matches(',').trim_end();
        if text.is_empty() {
            return Err(at.error(
                format!("a filter is missing after {word:?}"),
                format!("write, for example, \"{word} tcp port 80\" or \"{word} all\""),
            ));
        }
        if rules.len() == MAX_RULES {
            return Err(at.error("one rule too many", format!("at most {MAX_RULES} are read")));
        }
        rules.push((allow, filter(text, at.column())?));
    }
    let mut allowed = Expr::False;
    for (i, (allow, filter)) in rules.into_iter().rev().enumerate() {
        allowed = match allow {
            true => Expr::or([filter, allowed]),
            false => Expr::and([filter.not(), allowed]),
        };
        // Each change between allow and deny nests, and what nests deeper than the language allows could not be shown.
        if i % 32 == 31 {
            readable(&allowed, &start)?;
        }
    }
    readable(&allowed, &start)?;
    Ok(allowed)
}

fn readable(filter: &Expr, at: &Line<'_>) -> Result<(), RequirementError> {
    match Expr::parse(&filter.to_string()) {
        Ok(_) => Ok(()),
        Err(_) => Err(at.error(
            "the rules nest too deeply, since allow and deny change too often",
            "write them as several requirements",
        )),
    }
}

/// A filter. Figure 2.2 writes `udp 1500` for `udp dst port 1500`, so a number right after a protocol with ports is that.
fn filter(text: &str, column: usize) -> Result<Expr, RequirementError> {
    Expr::parse(text).or_else(|e: FilterError| {
        let with_ports = with_port_words(text).and_then(|t| Expr::parse(&t).ok());
        with_ports.ok_or(RequirementError { column: column + e.column - 1, message: e.message, help: e.help })
    })
}

/// The text with `dst port` before numbers that stand right after a protocol; `None` if there are none.
fn with_port_words(text: &str) -> Option<String> {
    let mut out: Vec<&str> = Vec::new();
    let mut found = false;
    for word in text.split_whitespace() {
        let number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        if number && matches!(out.last(), Some(&("tcp" | "udp" | "sctp" | "dccp" | "udplite"))) {
            out.push("dst port");
            found = true;
        }
        out.push(word);
    }
    found.then(|| out.join(" "))
}
