//! The parser of one line.

use weir_filter::{Expr, begins_filter};

use super::place::{is_address, with_port};
use super::{Goal, MAX_VIA, Place, Requirement, RequirementError, WELL_FORMED, field, paper};
use crate::doc::did_you_mean;
use crate::error::{Position, quote};

/// Words that a requirement begins with; the paper's are `reach` and `invariant`, and `require` may stand before any.
pub(crate) const KEYWORDS: &[&str] =
    &["can", "only", "all", "never", "invariant", "return", "noloops", "reach"];
/// Longest line that is read, in bytes.
const MAX_LINE: usize = 128 << 10;

/// Whether a word begins a requirement, in any case.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().chain([&WELL_FORMED]).any(|k| word.eq_ignore_ascii_case(k))
}

/// A line and how far it is read. Words stand between spaces; commas and `&&` are words of their own.
#[derive(Debug, Clone)]
pub(super) struct Line<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Line<'a> {
    /// What is left, without leading spaces.
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default().trim_start()
    }

    /// The next word.
    pub(super) fn peek(&self) -> Option<&'a str> {
        let rest = self.rest();
        let end = if rest.is_empty() {
            return None;
        } else if rest.starts_with("&&") {
            2
        } else if rest.starts_with(',') {
            1
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len());
            rest.get(..end).and_then(|word| word.find("&&")).unwrap_or(end)
        };
        rest.get(..end)
    }

    /// Takes the next word.
    pub(super) fn take(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at = self.text.len() - self.rest().len() + word.len();
        Some(word)
    }

    /// Up to `count` words from here, with one space between.
    pub(super) fn words(&self, count: usize) -> String {
        let mut ahead = self.clone();
        let words: Vec<&str> = std::iter::from_fn(|| ahead.take()).take(count).collect();
        words.join(" ")
    }

    /// Column of the next word, in characters from 1.
    pub(super) fn column(&self) -> usize {
        let start = self.text.len() - self.rest().len();
        self.text.get(..start).unwrap_or_default().chars().count() + 1
    }

    /// An error at the next word.
    pub(super) fn error(&self, message: impl Into<String>, help: impl Into<String>) -> RequirementError {
        RequirementError { column: self.column(), message: message.into(), help: help.into() }
    }
}

/// The line up to its comment: a `#` at its beginning or after a space.
pub(super) fn without_comment(line: &str) -> &str {
    let begins = |i: usize| {
        line.get(..i).is_none_or(|before| before.is_empty() || before.ends_with(char::is_whitespace))
    };
    let comment = line.match_indices('#').map(|(i, _)| i).find(|&i| begins(i));
    comment.and_then(|i| line.get(..i)).unwrap_or(line)
}

/// Parses one requirement.
pub(super) fn line(text: &str) -> Result<Requirement, RequirementError> {
    let several = text.trim().contains(['\n', '\r']);
    let text = without_comment(text).trim_end();
    let mut line = Line { text, at: 0 };
    if text.len() > MAX_LINE {
        return Err(
            line.error(format!("the line has {} bytes", text.len()), format!("at most {MAX_LINE} are read"))
        );
    }
    if several {
        return Err(line.error("the requirement goes over several lines", "write one requirement a line"));
    }
    let column = line.column();
    let whole = line.rest();
    if line.peek().is_some_and(|w| w.eq_ignore_ascii_case("require")) {
        line.take();
    }
    let well_formed = line.peek().is_some_and(|w| w.eq_ignore_ascii_case(WELL_FORMED));
    if well_formed {
        line.take();
    }
    let start = line.clone();
    let Some(keyword) = line.take() else {
        return Err(line.error("a requirement is missing", format!("it begins with {}", KEYWORDS.join(", "))));
    };
    let goal = match keyword.to_ascii_lowercase().as_str() {
        "can" => {
            let (from, to) = ends(&mut line)?;
            let Options { via, .. } = options(&mut line, false)?;
            Goal::Can { from, to, via, filter: filter(&line)? }
        }
        "only" => {
            let (from, to) = ends(&mut line)?;
            Goal::Only { from, to, filter: filter(&line)? }
        }
        "all" => {
            let (from, to) = ends(&mut line)?;
            let Options { via, strict } = options(&mut line, true)?;
            Goal::All { from, to, via, filter: filter(&line)?, strict }
        }
        "never" => {
            let (from, to) = ends(&mut line)?;
            Goal::Never { from, to, filter: filter(&line)? }
        }
        "invariant" => {
            let (from, to) = ends(&mut line)?;
            Goal::Invariant { from, to, fields: field::fields(&mut line)? }
        }
        "return" => {
            let (from, to) = ends(&mut line)?;
            Goal::Return { from, to, filter: filter(&line)? }
        }
        "noloops" => match line.peek() {
            None => Goal::NoLoops,
            Some(word) => {
                let message = format!("{} does not belong here", quote(word));
                return Err(line.error(message, "\"noloops\" stands alone: it is about all traffic"));
            }
        },
        "reach" => paper::reach(&mut line)?,
        _ => {
            let message = format!("{} is not a requirement", quote(keyword));
            return Err(start.error(message, did_you_mean(&keyword.to_ascii_lowercase(), KEYWORDS)));
        }
    };
    let position = Some(Position { line: 1, column });
    Ok(Requirement { goal, well_formed, text: whole.to_string(), position })
}

fn ends(line: &mut Line<'_>) -> Result<(Place, Place), RequirementError> {
    Ok((place(line, "where the traffic begins")?, place(line, "where it arrives")?))
}

/// A node, a node's port, or a prefix.
fn place(line: &mut Line<'_>, what: &str) -> Result<Place, RequirementError> {
    let Some(word) = line.peek() else {
        let help =
            "write a node such as internet, a node's port such as fw:lan, or a prefix such as 10.0.0.0/8";
        return Err(line.error(format!("a place is missing: {what}"), help));
    };
    if !is_address(word)
        && let Some((addr, port)) = with_port(word)
    {
        let help = format!("write {addr}, and \"port {port}\" with src or dst in the filter");
        return Err(line.error(format!("{} is an address with a port", quote(word)), help));
    }
    let place = word.parse().map_err(|e: crate::error::ValueError| line.error(e.message, e.help))?;
    line.take();
    Ok(place)
}

/// The options between the places and the filter.
#[derive(Default)]
struct Options {
    via: Vec<Place>,
    strict: bool,
}

fn options(line: &mut Line<'_>, may_be_strict: bool) -> Result<Options, RequirementError> {
    let mut options = Options::default();
    loop {
        match line.peek() {
            Some("via") => {
                line.take();
                via(line, &mut options.via)?;
            }
            Some("strict") if may_be_strict && !options.strict => {
                line.take();
                options.strict = true;
            }
            Some("strict") if !may_be_strict => {
                return Err(line.error("\"strict\" has no meaning here", "it goes with \"all\" only"));
            }
            _ => return Ok(options),
        }
    }
}

/// The places after `via`: with commas or spaces between, up to a word that begins a filter.
fn via(line: &mut Line<'_>, via: &mut Vec<Place>) -> Result<(), RequirementError> {
    via.push(place(line, "what the traffic passes")?);
    loop {
        match line.peek() {
            Some(",") => {
                line.take();
            }
            None | Some("via" | "strict") => return Ok(()),
            Some(word) if begins_filter(word) => return Ok(()),
            Some(_) => {}
        }
        if via.len() == MAX_VIA {
            return Err(line.error("one place too many after \"via\"", format!("at most {MAX_VIA} are read")));
        }
        via.push(place(line, "what the traffic passes")?);
    }
}

/// The filter, to the end of the line; any packet if there is none.
fn filter(line: &Line<'_>) -> Result<Expr, RequirementError> {
    let rest = line.rest();
    if rest.is_empty() {
        return Ok(Expr::True);
    }
    Expr::parse(rest).map_err(|e| RequirementError {
        column: line.column() + e.column - 1,
        message: e.message,
        help: e.help,
    })
}
