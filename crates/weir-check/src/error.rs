//! What is wrong with a requirement in a world that does not have what it names.

use weir_model::requirement::Requirement;

/// A requirement that cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}'{requirement}': {what}; {help}", at(*.line))]
pub struct Error {
    /// The requirement's line, if it stands in a document.
    pub line: Option<usize>,
    /// The requirement as written.
    pub requirement: String,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub help: String,
}

impl Error {
    pub(crate) fn new(r: &Requirement, what: impl Into<String>, help: impl Into<String>) -> Error {
        let line = r.position.map(|p| p.line);
        Error { line, requirement: r.text.clone(), what: what.into(), help: help.into() }
    }
}

fn at(line: Option<usize>) -> String {
    line.map_or(String::new(), |n| format!("line {n}: "))
}
