//! Requirements: what must be so for traffic between two places (CHANGE paper section 2.2.2), one a line.
//!
//! | form | holds when |
//! |---|---|
//! | `can SRC DST [via N, …] FILTER` | some packet that leaves SRC arrives at DST matching FILTER there |
//! | `only SRC DST FILTER` | every packet from SRC that arrives at DST matches FILTER there |
//! | `all SRC DST [strict] [via N, …] FILTER` | every packet that leaves SRC matching FILTER arrives at DST |
//! | `never SRC DST FILTER` | no packet from SRC that matches FILTER at SRC arrives at DST |
//! | `invariant SRC DST FIELD, …` | on every path, each field has at DST the value that it had at SRC |
//! | `return SRC DST FILTER` | as `can`, and the reply reaches SRC again |
//! | `noloops` | no packet returns to a port in a state that it had there before (but for its TTL) |
//!
//! `well-formed` before any of them limits it to packets as hosts send them; alone on a line it is meant for all of a document.
//!
//! SRC and DST are a node, a node's port (`fw:lan`) or an address prefix. FILTER is a [filter](weir_filter) and runs to the end
//! of the line; without it, any packet is meant. `#` begins a comment. The user manual is `docs/requirements.md`.
//!
//! The paper's own words are read too: `REACH SRC DST FILTER` is `can`, `REACH SRC DST allow … deny …` is `only`,
//! `INVARIANT SRC DST FIELD…` is `invariant`, each with or without `REQUIRE` before it.
//!
//! ```
//! use weir_model::requirement::{Goal, Requirement};
//!
//! let all = Requirement::parse_all("
//!     can internet client via nat udp dst port 1500   # notifications
//!     invariant client internet proto && dst port && payload
//! ").unwrap();
//! let Goal::Can { via, filter, .. } = &all[0].goal else { panic!() };
//! assert_eq!((via[0].to_string(), filter.to_string()), ("nat".into(), "udp dst port 1500".into()));
//!
//! let error = Requirement::parse("never internet fw:lan tcp prot 22").unwrap_err();
//! assert_eq!(error.to_string(), "column 27: \"prot\" is not known; did you mean \"proto\"?");
//! ```

mod field;
mod paper;
mod parse;
mod place;

#[cfg(test)]
mod tests;

use std::fmt;

pub use field::{Bits, FieldLayer, HeaderField, KeptField};
pub use place::Place;

pub(crate) use parse::{KEYWORDS, is_keyword};

use crate::error::{DocError, DocErrors, Position};
use weir_filter::Expr;

/// Most requirements in a document.
pub const MAX_REQUIREMENTS: usize = 10_000;
/// The word that limits a requirement to packets as hosts send them.
const WELL_FORMED: &str = "well-formed";
/// Most places after `via`.
pub const MAX_VIA: usize = 64;

/// A requirement and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// What must hold.
    pub goal: Goal,
    /// It speaks only of packets as hosts send them.
    pub well_formed: bool,
    /// The line as written, without comment and outer spaces.
    pub text: String,
    /// Where its first character stands in its document, if it came from one.
    pub position: Option<Position>,
}

/// A condition that must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// Some packet that leaves `from` arrives at `to` and matches `filter` there, having passed the places of `via` in this order
    /// (others may lie between).
    Can {
        /// Where the packet begins.
        from: Place,
        /// Where it arrives.
        to: Place,
        /// What it passes, in this order.
        via: Vec<Place>,
        /// What it matches on arrival.
        filter: Expr,
    },
    /// Every packet from `from` that arrives at `to` matches `filter` there.
    Only {
        /// Where packets begin.
        from: Place,
        /// Where they arrive.
        to: Place,
        /// What they match on arrival.
        filter: Expr,
    },
    /// Every packet that leaves `from` and matches `filter` there arrives at `to`, having passed the places of `via` in this order.
    All {
        /// Where packets begin.
        from: Place,
        /// Where they arrive.
        to: Place,
        /// What they pass, in this order.
        via: Vec<Place>,
        /// What they match when they leave.
        filter: Expr,
        /// Losses for want of resources (a full queue, an empty port pool, a full table) count too.
        strict: bool,
    },
    /// No packet that leaves `from` and matches `filter` there arrives at `to`.
    Never {
        /// Where packets begin.
        from: Place,
        /// Where they must not arrive.
        to: Place,
        /// What they match when they leave.
        filter: Expr,
    },
    /// On every path from `from` to `to`, each of `fields` has at `to` the value that it had at `from`.
    Invariant {
        /// Where packets begin.
        from: Place,
        /// Where they arrive.
        to: Place,
        /// What is kept; never empty.
        fields: Vec<KeptField>,
    },
    /// As `Can`, and the reply (addresses and ports swapped; for TCP a SYN/ACK) reaches `from` again.
    Return {
        /// Where the request begins.
        from: Place,
        /// Where it arrives.
        to: Place,
        /// What it matches on arrival.
        filter: Expr,
    },
    /// No packet returns to a port in a state that it had there before (but for its TTL).
    NoLoops,
}

/// A line that is no requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequirementError {
    /// Where, in characters from 1; one past the end if something is missing there.
    pub column: usize,
    /// What was wrong.
    pub message: String,
    /// What would be right; may be empty.
    pub help: String,
}

impl fmt::Display for RequirementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, "; {}", self.help) }
    }
}

impl std::error::Error for RequirementError {}

impl Requirement {
    /// Parses one line; it may end in a comment, and its position is line 1.
    pub fn parse(line: &str) -> Result<Self, RequirementError> {
        parse::line(line)
    }

    /// Parses requirements, one a line; empty lines and comments are skipped. All mistakes are reported at once.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, DocErrors> {
        let mut all = Vec::new();
        let mut errors = Vec::new();
        let mut limits = false;
        for (i, line) in text.lines().enumerate() {
            if errors.len() >= DocErrors::MAX {
                break;
            }
            if parse::without_comment(line).trim().is_empty() {
                continue;
            }
            if limits_all(line) {
                limits = true;
                continue;
            }
            if all.len() == MAX_REQUIREMENTS {
                let help = format!("at most {MAX_REQUIREMENTS} are read");
                errors.push(error_at(Position { line: i + 1, column: 1 }, "one requirement too many", help));
                break;
            }
            match Self::parse(line) {
                Ok(r) => all.push(r.at_line(i + 1)),
                Err(e) => {
                    errors.push(error_at(Position { line: i + 1, column: e.column }, e.message, e.help));
                }
            }
        }
        if limits {
            all = all.into_iter().map(Self::of_hosts).collect();
        }
        if errors.is_empty() { Ok(all) } else { Err(DocErrors::new(errors)) }
    }

    /// The same requirement of packets as hosts send them only.
    #[must_use]
    pub fn of_hosts(self) -> Self {
        if self.well_formed {
            return self;
        }
        Requirement { well_formed: true, text: format!("{WELL_FORMED} {}", self.text), ..self }
    }

    /// The same requirement on another line of its document.
    pub(crate) fn at_line(mut self, line: usize) -> Self {
        self.position = self.position.map(|p| Position { line, ..p });
        self
    }

    /// All places that the requirement names, in the order of its text.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        let (ends, via): (Option<[&Place; 2]>, &[Place]) = match &self.goal {
            Goal::Can { from, to, via, .. } | Goal::All { from, to, via, .. } => (Some([from, to]), via),
            Goal::Only { from, to, .. }
            | Goal::Never { from, to, .. }
            | Goal::Invariant { from, to, .. }
            | Goal::Return { from, to, .. } => (Some([from, to]), &[]),
            Goal::NoLoops => (None, &[]),
        };
        ends.into_iter().flatten().chain(via)
    }
}

/// Whether a line limits all requirements of its document to packets as hosts send them.
pub fn limits_all(line: &str) -> bool {
    let mut words = parse::without_comment(line).split_whitespace().peekable();
    words.next_if(|w| w.eq_ignore_ascii_case("require"));
    words.next().is_some_and(|w| w.trim_end_matches(';').eq_ignore_ascii_case(WELL_FORMED))
        && words.next().is_none()
}

/// A mistake in a text of requirements.
fn error_at(position: Position, message: impl Into<String>, help: impl Into<String>) -> DocError {
    DocError {
        path: "requirement".into(),
        position: Some(position),
        message: message.into(),
        help: help.into(),
    }
}

/// The canonical text, which [`Requirement::parse`] reads back to the same goal.
impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filtered = |f: &mut fmt::Formatter<'_>, filter: &Expr| match filter {
            Expr::True => Ok(()),
            filter => write!(f, " {filter}"),
        };
        let passed = |f: &mut fmt::Formatter<'_>, via: &[Place]| {
            for (i, place) in via.iter().enumerate() {
                write!(f, "{} {place}", if i == 0 { " via" } else { "," })?;
            }
            Ok(())
        };
        match self {
            Goal::Can { from, to, via, filter } => {
                write!(f, "can {from} {to}")?;
                passed(f, via)?;
                filtered(f, filter)
            }
            Goal::Only { from, to, filter } => {
                write!(f, "only {from} {to}")?;
                filtered(f, filter)
            }
            Goal::All { from, to, via, filter, strict } => {
                write!(f, "all {from} {to}{}", if *strict { " strict" } else { "" })?;
                passed(f, via)?;
                filtered(f, filter)
            }
            Goal::Never { from, to, filter } => {
                write!(f, "never {from} {to}")?;
                filtered(f, filter)
            }
            Goal::Invariant { from, to, fields } => {
                write!(f, "invariant {from} {to}")?;
                for (i, field) in fields.iter().enumerate() {
                    write!(f, "{} {field}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Goal::Return { from, to, filter } => {
                write!(f, "return {from} {to}")?;
                filtered(f, filter)
            }
            Goal::NoLoops => f.write_str("noloops"),
        }
    }
}

/// The line as written.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// As its text.
impl serde::Serialize for Requirement {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.text)
    }
}
