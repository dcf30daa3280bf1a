//! What is wrong with a text.

use std::fmt;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Line, from 1; 0 if it did not come as text.
    pub line: usize,
    /// Column in characters, from 1; 0 if it did not come as text.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl Mistake {
    /// One that is not of a text.
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Mistake {
        Mistake { line: 0, column: 0, message: message.into(), help: help.into() }
    }

    pub(crate) fn at(self, (line, column): (usize, usize)) -> Mistake {
        Mistake { line, column, ..self }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        write!(f, "{}", self.message)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

/// All mistakes of a text, never empty, in the order of the text; one line each when printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(pub(crate) Vec<Mistake>);

impl Mistakes {
    /// At most this many are kept: the rest is noise to a reader.
    pub const MAX: usize = 100;

    /// The mistakes.
    pub fn list(&self) -> &[Mistake] {
        &self.0
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.0.iter().enumerate() {
            write!(f, "{}{mistake}", if i > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistake {}
impl std::error::Error for Mistakes {}

/// Text in quotes, cut if it is long.
pub(crate) fn quote(text: &str) -> String {
    let cut: String = text.chars().take(60).collect();
    if cut.len() < text.len() { format!("{cut:?}…") } else { format!("{text:?}") }
}

/// Help for an unknown word: the known one that may have been meant, else all of them.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let limit = (word.chars().count() / 3).max(1);
    let near = known.iter().map(|k| (strsim::damerau_levenshtein(word, k), k)).min();
    match near.filter(|(distance, _)| *distance <= limit && word.len() <= crate::MAX_WORD) {
        Some((_, known)) => format!("did you mean {known:?}?"),
        None => format!("known here: {}", known.join(", ")),
    }
}
