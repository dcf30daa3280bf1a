//! Documents: links lead somewhere, and the index of decisions is complete.

use std::path::{Component, Path, PathBuf};

use crate::Finding;
use crate::sources::File;

/// Where decisions are written down.
const DECISIONS: &str = "docs/decisions/";

/// All checks of documents.
pub(crate) fn check(root: &Path, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|f| f.path.ends_with(".md")) {
        links(root, file, &mut findings);
    }
    decisions(files, &mut findings);
    findings
}

/// Relative links lead to a file or folder of the repository.
fn links(root: &Path, file: &File, findings: &mut Vec<Finding>) {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    for (n, line) in (1..).zip(file.text.lines()) {
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            let at = || format!("{}:{n}", file.path);
            match normal(&folder.join(path)) {
                Some(path) if root.join(&path).exists() => {}
                Some(path) => {
                    let what = format!("the link leads to {}, which is not there", path.display());
                    findings.push(Finding::new(at(), what));
                }
                None => {
                    findings.push(Finding::new(at(), format!("the link {link} leads out of the repository")));
                }
            }
        }
    }
}

/// The path without `.` and `..`; `None` if it leads out.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            _ => return None,
        }
    }
    Some(out)
}

/// Decisions are numbered from 1 without gaps, and the index names each.
fn decisions(files: &[File], findings: &mut Vec<Finding>) {
    let index_path = format!("{DECISIONS}README.md");
    let Some(index) = files.iter().find(|f| f.path == index_path) else {
        findings.push(Finding::new(index_path, "the index of decisions is missing"));
        return;
    };
    let names = files.iter().filter_map(|f| f.path.strip_prefix(DECISIONS)).filter(|n| *n != "README.md");
    for (number, name) in (1..).zip(names) {
        let at = format!("{DECISIONS}{name}");
        if !name.starts_with(&format!("{number:04}-")) {
            findings.push(Finding::new(&at, format!("the next decision has the number {number:04}")));
        }
        if !index.text.contains(&format!("]({name})")) {
            findings.push(Finding::new(&at, format!("{index_path} does not link to it")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut findings = Vec::new();
        let text = "[a](main.rs) [b](../Cargo.toml#x) [c](none.rs)\n[d](https://example.org/x) [e](#here) [f](../../x)";
        links(root, &file("src/a.md", text), &mut findings);
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "src/a.md:1: the link leads to src/none.rs, which is not there",
                "src/a.md:2: the link ../../x leads out of the repository",
            ]
        );
    }

    #[test]
    fn decisions_without_index_or_number_are_found() {
        let index = "[1](0001-a.md)";
        let files = ["0001-a.md", "0003-b.md"].map(|n| file(&format!("{DECISIONS}{n}"), ""));
        let mut all: Vec<File> = files.into();
        all.push(file(&format!("{DECISIONS}README.md"), index));
        let mut findings = Vec::new();
        decisions(&all, &mut findings);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].what.contains("0002") && findings[1].what.contains("does not link"));
    }
}
