//! Errors in a configuration: what was wrong and where.

use std::fmt;

use crate::source::{Loc, Sources, Span};

/// How many characters of a source line a diagnostic shows.
const CONTEXT_CHARS: usize = 160;

/// One error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where it is.
    pub span: Span,
    /// What is wrong, in Click's words where Click has words for it. May hold several lines.
    pub message: String,
    /// The line of the text that holds the error, cut to a readable length.
    pub context: String,
    /// Further places that explain the error, such as an earlier declaration.
    pub notes: Vec<Note>,
}

/// A further place that belongs to a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where, if it has a place of its own.
    pub span: Option<Span>,
    /// What is to be seen there.
    pub message: String,
}

impl Diagnostic {
    /// The error in one line per message and note, without the context line.
    pub fn brief(&self) -> String {
        self.text(Span::to_string)
    }

    /// The same as Click gives it: with file and line.
    pub fn in_click(&self) -> String {
        self.text(Span::file_and_line)
    }

    fn text(&self, place: impl Fn(&Span) -> String) -> String {
        let mut out = format!("{}: {}", place(&self.span), self.message);
        for note in &self.notes {
            match &note.span {
                Some(span) => out.push_str(&format!("\n{}: {}", place(span), note.message)),
                None => out.push_str(&format!("\n  {}", note.message)),
            }
        }
        out
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.span, self.message)?;
        if !self.context.is_empty() {
            // Tabs stay tabs, so that the caret stands under its character.
            let lead: String = self
                .context
                .chars()
                .take(self.span.column.saturating_sub(1) as usize)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            write!(f, "\n    {}\n    {lead}^", self.context)?;
        }
        for note in &self.notes {
            match &note.span {
                Some(span) => write!(f, "\n{span}: {}", note.message)?,
                None => write!(f, "\n  {}", note.message)?,
            }
        }
        Ok(())
    }
}

/// All errors of one parse, in the order of the text, errors of the finished graph last. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Errors {
    /// The errors, at most as many as [`crate::Options::max_errors`].
    pub list: Vec<Diagnostic>,
    /// How many more were found and left out.
    pub omitted: usize,
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.list.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{diagnostic}")?;
        }
        if self.omitted > 0 {
            write!(f, "\n{} more errors not shown", self.omitted)?;
        }
        Ok(())
    }
}

/// An error before its position is turned into a [`Span`].
#[derive(Debug)]
struct Raw {
    loc: Loc,
    message: String,
    notes: Vec<(Option<Loc>, String)>,
}

/// Collects errors up to a limit.
#[derive(Debug)]
pub(crate) struct Report {
    errors: Vec<Raw>,
    limit: usize,
    omitted: usize,
}

impl Report {
    pub fn new(limit: usize) -> Report {
        Report { errors: Vec::new(), limit: limit.max(1), omitted: 0 }
    }

    pub fn error(&mut self, loc: Loc, message: impl Into<String>) {
        self.error_with(loc, message, Vec::new());
    }

    pub fn error_with(&mut self, loc: Loc, message: impl Into<String>, notes: Vec<(Option<Loc>, String)>) {
        if self.errors.len() >= self.limit {
            self.omitted += 1;
            return;
        }
        self.errors.push(Raw { loc, message: message.into(), notes });
    }

    /// How many errors there are, counting those that were left out.
    pub fn count(&self) -> usize {
        self.errors.len() + self.omitted
    }

    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// True once no further error will be kept, so that looking for more is idle.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= self.limit
    }

    /// Puts what was found so far in the order of the text.
    pub fn sort(&mut self) {
        self.errors.sort_by_key(|raw| raw.loc);
    }

    pub fn into_errors(self, sources: &Sources) -> Errors {
        let list = self
            .errors
            .into_iter()
            .map(|raw| Diagnostic {
                span: sources.span(raw.loc),
                message: raw.message,
                context: context(sources, raw.loc),
                notes: raw
                    .notes
                    .into_iter()
                    .map(|(loc, message)| Note { span: loc.map(|l| sources.span(l)), message })
                    .collect(),
            })
            .collect();
        Errors { list, omitted: self.omitted }
    }
}

fn context(sources: &Sources, loc: Loc) -> String {
    let line = sources.get(loc.source).map_or("", |source| source.line_text(loc.offset));
    line.chars().take(CONTEXT_CHARS).collect()
}
