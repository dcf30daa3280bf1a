//! Errors in documents: what was wrong, where, and what would be right.

use std::fmt;

pub use weir_filter::text::ValueError;
pub(crate) use weir_filter::text::quote;

/// A place in a document's text, both parts counted from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// One mistake in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocError {
    /// Path of the offending value, such as `sffg.flowrules[2].actions.output_to_port`; empty for the document as a whole.
    pub path: String,
    /// Where the value stands in the text, if the document came as text.
    pub position: Option<Position>,
    /// What was wrong.
    pub message: String,
    /// What would be right; may be empty when `message` already says so.
    pub help: String,
}

impl fmt::Display for DocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.path.is_empty() { "document" } else { &self.path })?;
        if let Some(p) = self.position {
            write!(f, " (line {}, column {})", p.line, p.column)?;
        }
        write!(f, ": {}", self.message)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for DocError {}

/// All mistakes found in one document, never empty; one line each when printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocErrors(Vec<DocError>);

impl DocErrors {
    /// At most this many errors are collected from one document; the rest is noise to a reader.
    pub const MAX: usize = 100;

    /// A single mistake of the document as a whole.
    pub fn one(position: Option<Position>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self(vec![DocError { path: String::new(), position, message: message.into(), help: help.into() }])
    }

    /// These mistakes, of which there is one at least.
    pub fn new(errors: Vec<DocError>) -> Self {
        debug_assert!(!errors.is_empty());
        Self(errors)
    }

    /// The errors, section by section in the order of the document.
    pub fn errors(&self) -> &[DocError] {
        &self.0
    }
}

impl fmt::Display for DocErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{e}")?;
        }
        Ok(())
    }
}

impl std::error::Error for DocErrors {}
