//! What is wrong with a configuration, for people and in Click's words.

use std::fmt;

use weir_click::{Diagnostic, Graph, Span};

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Its text, at a place.
    Text(Diagnostic),
    /// One of its elements.
    Element {
        /// Where the element is declared.
        span: Span,
        /// What was being done with it (`configuring`).
        doing: &'static str,
        /// The element (`q :: Queue`).
        element: String,
        /// What is wrong; may hold several lines.
        what: String,
    },
    /// Something else.
    Other(String),
}

impl Problem {
    /// A problem of an element.
    pub fn of(graph: &Graph, element: usize, doing: &'static str, what: impl Into<String>) -> Problem {
        let e = &graph.elements[element];
        let element = format!("{} :: {}", e.name, e.class);
        Problem::Element { span: e.span.clone(), doing, element, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Text(diagnostic) => diagnostic.fmt(f),
            Problem::Element { span, doing, element, what } => {
                write!(f, "{span}: While {doing} '{element}': {what}")
            }
            Problem::Other(what) => f.write_str(what),
        }
    }
}

impl From<String> for Problem {
    fn from(what: String) -> Problem {
        Problem::Other(what)
    }
}

/// Everything that is wrong with a configuration; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PlanError(pub Vec<Problem>);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&all.join("\n"))
    }
}

/// The detail in which a place is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Places {
    /// File and line, as Click does.
    Lines,
    /// The column too, and the line itself.
    Columns,
}

impl PlanError {
    /// What is wrong, one text each.
    pub fn texts(self) -> Vec<String> {
        self.0.iter().map(Problem::to_string).collect()
    }

    /// The lines that Click's driver prints: what is wrong with an element stands below a line that names it, and a last
    /// line follows unless the text itself could not be read.
    pub fn lines(&self, places: Places) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut last = String::new();
        for problem in &self.0 {
            match problem {
                Problem::Text(d) if places == Places::Columns => lines.push(d.to_string()),
                Problem::Text(d) => lines.push(d.in_click()),
                Problem::Element { span, doing, element, what } => {
                    let place = match places {
                        Places::Columns => span.to_string(),
                        Places::Lines => span.file_and_line(),
                    };
                    let head = format!("{place}: While {doing} '{element}':");
                    if head != last {
                        lines.push(head.clone());
                        last = head;
                    }
                    lines.extend(what.lines().map(|line| format!("  {line}")));
                }
                Problem::Other(what) => lines.extend(what.lines().map(str::to_owned)),
            }
        }
        if !self.0.iter().any(Problem::is_of_the_text) {
            lines.push("Router could not be initialized!".to_owned());
        }
        lines
    }
}

impl Problem {
    /// Whether the text could not be read, rather than what it says could not be made.
    fn is_of_the_text(&self) -> bool {
        const WORDS: [&str; 5] =
            ["undeclared", "syntax error", "unterminated", "redeclaration", "redefinition"];
        matches!(self, Problem::Text(d) if WORDS.iter().any(|w| d.message.contains(w)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Classes;
    use crate::plan::Plan;

    fn error(config: &str) -> PlanError {
        Plan::new(&Classes::default(), config, "f").expect_err("it is wrong")
    }

    #[test]
    fn click_names_file_and_line() {
        let e = error("a :: Idle;\n  Print -> a;\n");
        assert_eq!(
            e.lines(Places::Lines),
            ["f:2: 'Print@2 :: Print' input 0 unused", "Router could not be initialized!"]
        );
        assert_eq!(
            e.lines(Places::Columns)[0],
            "f:2:3: 'Print@2 :: Print' input 0 unused\n      Print -> a;\n      ^"
        );
        let e = error("x :: Idle;\nx :: Idle;");
        assert_eq!(
            e.lines(Places::Lines),
            ["f:2: redeclaration of element 'x'\nf:1: element 'x' previously declared here"]
        );
    }

    #[test]
    fn what_is_wrong_with_an_element_stands_below_it() {
        let e = error("Idle -> s :: Strip(1, 2, X 3) -> Discard;");
        let lines = e.lines(Places::Lines);
        assert_eq!(lines[0], "f:1: While configuring 's :: Strip':");
        assert!(lines.len() > 2 && lines[1].starts_with("  "), "{lines:?}");
        assert!(e.to_string().starts_with("f:1:9: While configuring 's :: Strip': "), "{e}");
    }
}
