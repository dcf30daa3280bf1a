//! What every source file keeps to.

use std::path::Path;

use anyhow::Context;

use crate::Finding;
use crate::layers::Package;

/// Lines that a source file may have.
const MAX_LINES: usize = 600;

/// Crates that may use `unsafe`, each with the reason. All others forbid it.
const UNSAFE_CRATES: &[(&str, &str)] = &[
    ("weir-packet", "packets are recycled blocks of memory that compiled code addresses"),
    ("weir-table", "state tables that compiled code addresses"),
    ("weir-io", "system calls and rings shared with the kernel"),
    ("weir-jit", "runs machine code that it made"),
    ("weir-vnf-c", "pointers of C code, and calls of its functions"),
];

/// A text file of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All text files, in the order of their paths; build results are left out.
pub(crate) fn files(root: &Path) -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        for entry in std::fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type()?;
            let built = name == "target"
                || name == ".git"
                || name == "node_modules"
                // Of `web/src`, by tools.
                || path == "web/dist"
                || ["fuzz/corpus", "fuzz/artifacts"].contains(&path.as_str());
            if kind.is_dir() && !built {
                folders.push(path);
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(std::fs::read(entry.path())?)
            {
                files.push(File { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Texts that no file contains, with the reason; written in pieces so that this file does not.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "say what is missing where users look for it, or do it"),
    (concat!("FIX", "ME"), "update it, or say in the comment what is so"),
    (concat!("XX", "X:"), "update it, or say in the comment what is so"),
    (concat!("/wo", "rk/"), "a path of one machine: make it relative"),
    (concat!("crates", ".io"), "which package registry is used is for the client's configuration to say"),
    (
        concat!("registry.", "npmjs"),
        "which package registry is used is for the client's configuration to say",
    ),
    (concat!("pypi", ".org"), "which package registry is used is for the client's configuration to say"),
    (concat!("docker", ".io"), "which image registry is used is for the client's configuration to say"),
    (
        concat!("deb.", "debian.org"),
        "which package registry is used is for the client's configuration to say",
    ),
];

/// Files that tools write.
const GENERATED: &[&str] = &["Cargo.lock", "fuzz/Cargo.lock"];

/// All checks of source files.
pub(crate) fn check(files: &[File], packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|f| !GENERATED.contains(&f.path.as_str())) {
        forbidden_texts(file, &mut findings);
        if is_rust(file) {
            length(file, &mut findings);
            safety_comments(file, &mut findings);
        }
    }
    let forbids = |path: &Path| {
        std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(|l| l == "#![forbid(unsafe_code)]"))
    };
    for package in packages.iter().filter(|p| !UNSAFE_CRATES.iter().any(|(name, _)| p.name == *name)) {
        for root in package.roots().filter(|r| !forbids(r)) {
            let at = root.file_name().unwrap_or_default().to_string_lossy();
            let at = format!("crates/{}/src/{at}", package.name);
            findings.push(Finding::new(at, "the line `#![forbid(unsafe_code)]` is missing"));
        }
    }
    findings
}

fn is_rust(file: &File) -> bool {
    Path::new(&file.path).extension().is_some_and(|e| e == "rs")
}

fn forbidden_texts(file: &File, findings: &mut Vec<Finding>) {
    for (n, line) in (1..).zip(file.text.lines()) {
        for (text, why) in FORBIDDEN {
            if line.contains(text) {
                findings.push(Finding::new(format!("{}:{n}", file.path), format!("`{text}`: {why}")));
            }
        }
    }
}

fn length(file: &File, findings: &mut Vec<Finding>) {
    let lines = file.text.lines().count();
    if lines > MAX_LINES {
        let what = format!("{lines} lines; the most is {MAX_LINES}: split it by what its parts are about");
        findings.push(Finding::new(&file.path, what));
    }
}

/// How far above an unsafe block, in lines, its reason may stand: comments are long, and statements take lines.
const REASON_WITHIN: usize = 10;

/// Each unsafe block or implementation has a `SAFETY:` reason, each public unsafe function a `# Safety` section.
fn safety_comments(file: &File, findings: &mut Vec<Finding>) {
    let lines: Vec<&str> = file.text.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let wanted = match code.split_once(concat!("uns", "afe ")) {
            Some((_, rest)) if rest.starts_with('{') || rest.starts_with("impl") => "SAFETY:",
            // Of a function that implements a trait, the trait says what it needs.
            Some((before, rest)) if rest.starts_with("fn") && before.trim_start().starts_with("pub") => {
                "# Safety"
            }
            _ => continue,
        };
        let above = &lines[i.saturating_sub(REASON_WITHIN)..=i];
        if !above.iter().any(|l| l.contains(wanted)) {
            let what = format!("unsafe code without a reason: say above, behind `{wanted}`, why it is right");
            findings.push(Finding::new(format!("{}:{}", file.path, i + 1), what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        let mut findings = Vec::new();
        forbidden_texts(&file, &mut findings);
        length(&file, &mut findings);
        safety_comments(&file, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn forbidden_texts_are_found_with_their_line() {
        let text = format!("a\n// {}: later\n", FORBIDDEN[0].0);
        assert!(found("a.rs", &text)[0].starts_with("a.rs:2: "));
        assert!(found("a.rs", "all fine").is_empty());
    }

    #[test]
    fn long_files_are_found() {
        assert!(found("a.rs", &"\n".repeat(600)).is_empty());
        assert!(found("a.rs", &"\n".repeat(601))[0].contains("601 lines"));
    }

    #[test]
    fn unsafe_code_needs_a_reason() {
        let block = concat!("let x = uns", "afe { f() };");
        assert_eq!(found("a.rs", block).len(), 1);
        assert!(found("a.rs", &format!("// SAFETY: f may be called.\n{block}")).is_empty());
        assert!(found("a.rs", &format!("// {block}")).is_empty());
        let function = concat!("pub uns", "afe fn f() {}");
        assert_eq!(found("a.rs", function).len(), 1);
        assert!(found("a.rs", &format!("/// # Safety\n/// Call it once.\n{function}")).is_empty());
    }
}
