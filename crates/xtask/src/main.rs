//! `cargo run -p xtask -- tidy`: holds the repository against its own rules. `cargo test` runs it too.
//!
//! `cargo run -p xtask -- mutate [--one-in N] [PACKAGE…]`: finds that the tests notice mistakes that are made on purpose.

#![forbid(unsafe_code)]

mod docs;
mod layers;
mod mutate;
mod mutations;
mod sources;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Something that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// File and, where it helps, line.
    at: String,
    /// What is wrong, and what would be right.
    what: String,
}

impl Finding {
    fn new(at: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { at: at.into(), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((task, [])) if task == "tidy" => tidy(&root()).map(|findings| {
            findings.iter().for_each(|f| println!("{f}"));
            findings.is_empty()
        }),
        Some((task, args)) if task == "mutate" => mutate::run(&root(), args),
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy | mutate [--one-in N] [PACKAGE...]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// The directory of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All checks.
fn tidy(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let files = sources::files(root)?;
    let packages = layers::packages(root)?;
    let mut findings = layers::check(root, &packages)?;
    findings.extend(sources::check(&files, &packages));
    findings.extend(docs::check(root, &files));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let findings = tidy(&root()).unwrap();
        let list: String = findings.iter().map(|f| format!("{f}\n")).collect();
        assert!(findings.is_empty(), "{} findings:\n{list}", findings.len());
    }
}
