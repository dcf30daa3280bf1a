//! The lines of the format.

use std::collections::HashMap;

use weir_filter::text::quote;
use weir_model::DocErrors;
use weir_model::doc::did_you_mean;

use super::matches::Matches;
use super::target::target;
use super::{Chain, Rule, Ruleset, Table, Target};
use crate::import::{Errors, MAX_LINES, Note};

/// A mistake: what is wrong, and what would be right.
pub(super) type Mistake = (String, String);

/// Chains that the kernel has of itself, and that need no line.
fn built_in(table: &str) -> &'static [&'static str] {
    match table {
        "filter" => &["INPUT", "FORWARD", "OUTPUT"],
        "nat" => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
        _ => &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
    }
}

/// Longest line, in bytes.
const MAX_LINE: usize = 64 << 10;

pub(super) fn ruleset(text: &str) -> Result<Ruleset, DocErrors> {
    let mut reader = Reader { errors: Errors::new("rules"), ruleset: Ruleset::default(), table: None };
    for (line, number) in text.lines().zip(1..) {
        if number > MAX_LINES {
            reader.errors.add(number, "one line too many", format!("at most {MAX_LINES} are read"));
            break;
        }
        if line.len() > MAX_LINE {
            reader.errors.add(
                number,
                format!("the line has {} bytes", line.len()),
                format!("at most {MAX_LINE} are read"),
            );
            continue;
        }
        if let Err((message, help)) = reader.line(line.trim(), number) {
            reader.errors.add(number, message, help);
        }
    }
    match reader.table.take() {
        Some(open) if open.listed => reader.commit(open),
        Some(open) => {
            let message = format!("the table {} does not end", open.name);
            reader.errors.add(open.line, message, "COMMIT ends a table");
        }
        None => {}
    }
    reader.errors.finish(reader.ruleset)
}

struct Reader {
    errors: Errors,
    ruleset: Ruleset,
    table: Option<Open>,
}

/// A table that is being read. Its rules wait: they may jump to chains below.
struct Open {
    name: String,
    line: usize,
    /// It is as `iptables -S` prints it, which says neither its name nor where it ends.
    listed: bool,
    table: Table,
    chains: HashMap<String, usize>,
    rules: Vec<(usize, String)>,
}

impl Reader {
    fn line(&mut self, line: &str, number: usize) -> Result<(), Mistake> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(name) = line.strip_prefix('*') {
            if let Some(open) = self.table.take() {
                self.errors.add(
                    open.line,
                    format!("the table {} does not end", open.name),
                    "COMMIT ends a table",
                );
            }
            if !matches!(name, "filter" | "nat" | "raw" | "mangle" | "security") {
                return Err((
                    format!("{} is not a table", quote(name)),
                    "known here: filter, nat, raw, mangle, security".into(),
                ));
            }
            self.table = Some(Open::new(name, number, false));
            return Ok(());
        }
        if line == "COMMIT" {
            let Some(open) = self.table.take() else {
                return Err(("COMMIT without a table".into(), "a table begins with *filter or *nat".into()));
            };
            self.commit(open);
            return Ok(());
        }
        let listed = ["-P ", "-N ", "-A "].iter().any(|c| line.starts_with(c));
        if self.table.is_none() && listed {
            self.table = Some(Open::new("filter", number, true));
        }
        let Some(open) = &mut self.table else {
            return Err((
                format!("{} stands in no table", quote(line)),
                "a table begins with *filter or *nat".into(),
            ));
        };
        if let Some(policy) = line.strip_prefix("-P ") {
            return declare(open, policy);
        }
        if let Some(name) = line.strip_prefix("-N ") {
            return declare(open, &format!("{} -", name.trim()));
        }
        if let Some(chain) = line.strip_prefix(':') {
            return declare(open, chain);
        }
        // `[packets:bytes]` of `iptables-save -c`.
        let rule = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((_, rule)) => rule.trim_start(),
            None => line,
        };
        if rule.starts_with("-A ") {
            open.rules.push((number, rule.to_string()));
            return Ok(());
        }
        Err((
            format!("{} is not understood", quote(line)),
            "a line is \":CHAIN POLICY\", \"-A CHAIN …\" or COMMIT, or as \"iptables -S\" prints it".into(),
        ))
    }

    /// Reads the rules of a table, whose chains are all known.
    fn commit(&mut self, mut open: Open) {
        if open.listed
            && let Some(name) = listed_table(&open)
        {
            open.name = name.into();
        }
        let modelled = matches!(open.name.as_str(), "filter" | "nat");
        for (line, text) in std::mem::take(&mut open.rules) {
            if !modelled {
                let reason = format!("rules of the table {} are not modelled", open.name);
                self.ruleset.other_tables.push(line);
                self.ruleset.not_modelled.push(Note { line, text, reason });
                continue;
            }
            if let Err((message, help)) = self.rule(&mut open, line, &text) {
                self.errors.add(line, message, help);
            }
        }
        if let Some(chain) = circle(&open.table) {
            let name = open.table.chains.get(chain).map(|c| c.name.clone()).unwrap_or_default();
            self.errors.add(open.line, format!("the chain {name} jumps to itself"), "jumps never lead back");
        }
        let place = match open.name.as_str() {
            "filter" => &mut self.ruleset.filter,
            "nat" => &mut self.ruleset.nat,
            _ => return,
        };
        if place.is_some() {
            self.errors.add(open.line, format!("a second table {}", open.name), "keep one");
        }
        *place = Some(open.table);
    }

    fn rule(&mut self, open: &mut Open, line: usize, text: &str) -> Result<(), Mistake> {
        let words = words(text)?;
        let mut words = words.iter().map(String::as_str).peekable();
        words.next();
        let name = words.next().unwrap_or_default();
        if !open.chains.contains_key(name) && built_in(&open.name).contains(&name) {
            let reason = "no line says its policy; ACCEPT is taken, which is the kernel's own".into();
            self.ruleset.not_modelled.push(Note { line, text: format!("the chain {name}"), reason });
            declare(open, &format!("{name} ACCEPT"))?;
        }
        let chain = find(open, name)?;
        let mut matches = Matches::default();
        let mut done = Target::Continue;
        while let Some(word) = words.next() {
            match word {
                "-j" | "--jump" | "-g" | "--goto" => {
                    let name = words.next().ok_or_else(|| missing(word))?;
                    let to = open.chains.get(name).copied();
                    done =
                        target(name, to, word.starts_with("-g") || word == "--goto", &open.name, &mut words)?;
                    if done == Target::Unknown {
                        matches.unknown.push(format!("the target {}", quote(name)));
                    }
                }
                // `-c PACKETS BYTES` of `iptables -S -v`.
                "-c" | "--set-counters" => {
                    words.next();
                    words.next();
                }
                _ => matches.option(word, &mut words)?,
            }
        }
        for what in &matches.unknown {
            let effect = if what.starts_with("the target") {
                "what becomes of packets that fit is not known"
            } else {
                "the rule may or may not match"
            };
            let reason = format!("{what} is not modelled: {effect}");
            self.ruleset.not_modelled.push(Note { line, text: text.to_string(), reason });
        }
        let rule = Rule {
            unknown: std::mem::take(&mut matches.unknown),
            in_interface: matches.in_interface.take(),
            out_interface: matches.out_interface.take(),
            states: matches.states.take(),
            filter: matches.filter()?,
            target: done,
            line,
            text: text.to_string(),
        };
        if let Some(chain) = open.table.chains.get_mut(chain) {
            chain.rules.push(rule);
        }
        Ok(())
    }
}

pub(super) fn missing(option: &str) -> Mistake {
    (format!("a value is missing after {option}"), "write it behind the option".into())
}

impl Open {
    fn new(name: &str, line: usize, listed: bool) -> Open {
        let (table, chains, rules) = (Table::default(), HashMap::new(), Vec::new());
        Open { name: name.into(), line, listed, table, chains, rules }
    }
}

/// The table whose chains these are, if it is not filter.
fn listed_table(open: &Open) -> Option<&'static str> {
    let rules = open.rules.iter().filter_map(|(_, rule)| rule.split_whitespace().nth(1));
    let chains: Vec<&str> = rules.chain(open.chains.keys().map(String::as_str)).collect();
    let routed = chains.iter().any(|c| matches!(*c, "PREROUTING" | "POSTROUTING"));
    routed.then_some(if chains.contains(&"FORWARD") { "mangle" } else { "nat" })
}

/// `FORWARD DROP [0:0]`; a user's chain has the policy `-`.
fn declare(open: &mut Open, text: &str) -> Result<(), Mistake> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default().to_string();
    let accepts = match words.next() {
        Some("ACCEPT") => Some(true),
        Some("DROP") => Some(false),
        Some("-") => None,
        other => {
            let message = format!("{} is not a policy", quote(other.unwrap_or_default()));
            return Err((
                message,
                "a chain is \":NAME ACCEPT\", \":NAME DROP\" or, for a user's, \":NAME -\"".into(),
            ));
        }
    };
    let place = open.table.chains.len();
    if name.is_empty() || open.chains.insert(name.clone(), place).is_some() {
        return Err((format!("a second chain {}", quote(&name)), "keep one".into()));
    }
    open.table.chains.push(Chain { name, accepts, rules: Vec::new() });
    Ok(())
}

fn find(open: &Open, name: &str) -> Result<usize, Mistake> {
    open.chains.get(name).copied().ok_or_else(|| {
        let own = open.table.chains.iter().map(|c| c.name.as_str());
        let known: Vec<&str> = own.chain(built_in(&open.name).iter().copied()).collect();
        (format!("the table {} has no chain {}", open.name, quote(name)), did_you_mean(name, &known))
    })
}

/// A chain that can reach itself.
fn circle(table: &Table) -> Option<usize> {
    // Chains without jumps end; then those that jump only to chains that end, and so on. What is left goes round.
    let jumps: Vec<Vec<usize>> = table
        .chains
        .iter()
        .map(|c| {
            let to = c.rules.iter().filter_map(|r| match r.target {
                Target::Jump(to) | Target::Goto(to) => Some(to),
                _ => None,
            });
            to.collect()
        })
        .collect();
    let mut callers: Vec<Vec<usize>> = vec![Vec::new(); jumps.len()];
    let mut open: Vec<usize> = jumps.iter().map(Vec::len).collect();
    for (from, to) in jumps.iter().enumerate() {
        for &to in to {
            if let Some(callers) = callers.get_mut(to) {
                callers.push(from);
            }
        }
    }
    let mut ended: Vec<usize> = (0..jumps.len()).filter(|&i| open.get(i) == Some(&0)).collect();
    while let Some(chain) = ended.pop() {
        for &caller in callers.get(chain).into_iter().flatten() {
            if let Some(left) = open.get_mut(caller) {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    ended.push(caller);
                }
            }
        }
    }
    open.iter().position(|left| *left > 0)
}

/// Splits at spaces; `"…"` is one word, with `\` before `"` and `\`.
fn words(text: &str) -> Result<Vec<String>, Mistake> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        let mut word = String::new();
        if c != '"' {
            word.push(c);
            while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
                word.push(c);
            }
            words.push(word);
            continue;
        }
        loop {
            match chars.next() {
                None => return Err(("a string does not end".into(), "end it with \"".into())),
                Some('"') => break,
                Some('\\') => word.extend(chars.next()),
                Some(c) => word.push(c),
            }
        }
        words.push(word);
    }
    Ok(words)
}
