//! What the user sees: text or JSON on standard output, errors and progress on standard error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;
use weir_plan::{Places, PlanError};

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Why a command failed: the exit code follows from it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for failed or was refused: one entry an error.
    Refused(Vec<String>),
    /// A configuration is wrong, and is told of as Click does.
    Config(PlanError),
    /// The command says itself how it ended.
    Exit(u8),
    /// Something needed cannot be reached.
    Unreachable(anyhow::Error),
    /// Anything else.
    Other(anyhow::Error),
}

impl Failure {
    /// A configuration is wrong.
    pub(crate) fn plan(e: PlanError) -> Failure {
        Failure::Refused(e.texts())
    }

    /// One error.
    pub(crate) fn refused(what: impl Into<String>) -> Failure {
        Failure::Refused(vec![what.into()])
    }
}

impl From<anyhow::Error> for Failure {
    fn from(e: anyhow::Error) -> Failure {
        // Whoever reads into a closed pipe (`weir … | head`) wants no more.
        if e.chain()
            .any(|c| c.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
        {
            std::process::exit(0);
        }
        Failure::Other(e)
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        anyhow::Error::from(e).into()
    }
}

/// How to talk to the user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ui {
    /// Whether results are JSON.
    pub(crate) json: bool,
    color: Color,
}

impl Ui {
    pub(crate) fn new(json: bool, color: Color) -> Ui {
        Ui { json, color }
    }

    fn paint(self, code: &str, text: &str, terminal: bool) -> String {
        let on = match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none(),
        };
        if on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Bold text for standard output.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text, io::stdout().is_terminal())
    }

    /// Text for standard output that says that all is well.
    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text, io::stdout().is_terminal())
    }

    /// Text for standard output that says that something is not.
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("31", text, io::stdout().is_terminal())
    }

    /// Text for standard output that matters less.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text, io::stdout().is_terminal())
    }

    /// Prints a result: as JSON, or as `text` makes it.
    pub(crate) fn print(self, value: &impl Serialize, text: impl FnOnce() -> String) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, value)?;
            writeln!(out)
        } else {
            let text = text();
            write!(out, "{text}")?;
            if text.is_empty() || text.ends_with('\n') { Ok(()) } else { writeln!(out) }
        }
    }

    /// Says on standard error what is going on, on a terminal only.
    pub(crate) fn progress(self, text: &str) {
        if !self.json && io::stderr().is_terminal() {
            eprintln!("{}", self.paint("2", text, true));
        }
    }

    /// Says on standard error how something ended.
    pub(crate) fn note(self, text: &str) {
        if !self.json {
            eprintln!("{}", self.paint("2", text, io::stderr().is_terminal()));
        }
    }

    /// Prints why the command failed.
    pub(crate) fn fail(self, failure: &Failure) -> ExitCode {
        let (code, errors) = match failure {
            Failure::Exit(code) => return ExitCode::from(*code),
            Failure::Refused(list) => (1, list.clone()),
            Failure::Config(e) => (1, e.clone().texts()),
            Failure::Unreachable(e) => (3, vec![format!("{e:#}")]),
            Failure::Other(e) => (1, vec![format!("{e:#}")]),
        };
        if self.json {
            println!("{}", serde_json::json!({ "errors": errors }));
        } else if let Failure::Config(e) = failure {
            // Programs that read Click's messages find them; people see more.
            let places = if io::stderr().is_terminal() { Places::Columns } else { Places::Lines };
            e.lines(places).iter().for_each(|line| eprintln!("{line}"));
        } else {
            let mark = self.paint("31;1", "error:", io::stderr().is_terminal());
            for e in &errors {
                eprintln!("{mark} {e}");
            }
        }
        ExitCode::from(code)
    }
}

/// Columns of text, aligned; numbers in `right` are columns that are flush right.
pub(crate) fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width: Vec<usize> = (0..columns)
        .map(|c| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let pad = " ".repeat(width[c] - cell.chars().count());
            if right.contains(&c) {
                line.push_str(&pad);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&pad);
            }
            line.push_str("  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
