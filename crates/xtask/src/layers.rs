//! The layer table of ARCHITECTURE.md against what the crates depend on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::Finding;

/// Where the table stands.
const DOCUMENT: &str = "ARCHITECTURE.md";

/// A package of the workspace, as `cargo metadata` gives it.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `None` is a normal one; `dev` or `build`.
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Package {
    /// Root files of the library and the programs: where crate-wide attributes stand.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        let shipped = |t: &&Target| t.kind.iter().any(|k| k == "lib" || k == "bin");
        self.targets.iter().filter(shipped).map(|t| t.src_path.as_path())
    }
}

/// The packages of the workspace.
pub(crate) fn packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    if !out.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    let metadata: Metadata = serde_json::from_slice(&out.stdout).context("cannot read cargo metadata")?;
    Ok(metadata.packages)
}

/// Every crate has a row and depends only on lower rows; a crate that is not shipped has the row `–`, and no other
/// crate depends on it. Dev-dependencies may look sideways.
pub(crate) fn check(root: &Path, packages: &[Package]) -> anyhow::Result<Vec<Finding>> {
    let text =
        std::fs::read_to_string(root.join(DOCUMENT)).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let mut findings = Vec::new();
    let table = table(&text, &mut findings);
    for (name, (_, line)) in &table {
        if !packages.iter().any(|p| p.name == *name) {
            findings.push(Finding::new(format!("{DOCUMENT}:{line}"), format!("there is no crate `{name}`")));
        }
    }
    for package in packages {
        let at = || format!("crates/{}/Cargo.toml", package.name);
        let folder = package.manifest_path.parent().and_then(Path::file_name);
        if folder != Some(package.name.as_ref()) {
            findings.push(Finding::new(at(), "a crate and its folder in crates/ have one name"));
        }
        let manifest = std::fs::read_to_string(&package.manifest_path)
            .with_context(|| format!("cannot read {}", package.manifest_path.display()))?;
        if !manifest.contains("[lints]\nworkspace = true") {
            findings.push(Finding::new(
                at(),
                "the workspace's lints are not used: add `[lints]`, `workspace = true`",
            ));
        }
        let Some(&(row, _)) = table.get(package.name.as_str()) else {
            let what = format!("`{}` has no row in the layer table of {DOCUMENT}", package.name);
            findings.push(Finding::new(at(), what));
            continue;
        };
        for d in package.dependencies.iter().filter(|d| d.kind.as_deref() != Some("dev")) {
            if let Some(&(below, _)) = table.get(d.name.as_str())
                && !may_use(row, below)
            {
                let (row, below) = (row_name(row), row_name(below));
                let what = format!(
                    "`{}` (row {row}) depends on `{}` (row {below}), but a crate depends only on lower rows",
                    package.name, d.name
                );
                findings.push(Finding::new(at(), what));
            }
        }
    }
    Ok(findings)
}

/// Rows as in the table; `None` is `–`, never shipped.
type Row = Option<u32>;

fn may_use(row: Row, below: Row) -> bool {
    match (row, below) {
        (Some(row), Some(below)) => below < row,
        (None, _) => true,
        (Some(_), None) => false,
    }
}

fn row_name(row: Row) -> String {
    row.map_or_else(|| "–".to_owned(), |n| n.to_string())
}

/// Row and line of each crate: lines of the form ``| 3 | `weir-elements` | … |``.
fn table<'a>(text: &'a str, findings: &mut Vec<Finding>) -> BTreeMap<&'a str, (Row, usize)> {
    let mut table = BTreeMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        let mut cells = text.split('|').map(str::trim).skip(1);
        let (Some(row), Some(name)) = (cells.next(), cells.next()) else { continue };
        let row = match row.parse() {
            Ok(n) => Some(n),
            Err(_) if row == "–" => None,
            Err(_) => continue,
        };
        let Some(name) = name.strip_prefix('`').and_then(|n| n.strip_suffix('`')) else { continue };
        if table.insert(name, (row, line)).is_some() {
            findings.push(Finding::new(
                format!("{DOCUMENT}:{line}"),
                format!("`{name}` stands in the table twice"),
            ));
        }
    }
    if table.is_empty() {
        findings
            .push(Finding::new(DOCUMENT, "no layer table: lines of the form | 3 | `weir-elements` | … |"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "| row | crate |\n|---|---|\n| 0 | `low` | x |\n| 1 | `high` | y |\n| – | `tool` | z |\n";

    fn package(name: &str, dependencies: &[(&str, Option<&str>)], root: &Path) -> Package {
        let folder = root.join("crates").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("Cargo.toml"), "[lints]\nworkspace = true\n").unwrap();
        let dependency =
            |(n, k): &(&str, Option<&str>)| Dependency { name: (*n).to_owned(), kind: k.map(str::to_owned) };
        Package {
            name: name.to_owned(),
            manifest_path: folder.join("Cargo.toml"),
            dependencies: dependencies.iter().map(dependency).collect(),
            targets: Vec::new(),
        }
    }

    #[test]
    fn what_breaks_the_layers_is_found() {
        let root = std::env::temp_dir().join(format!("weir-xtask-layers-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join(DOCUMENT), format!("{TABLE}| 2 | `gone` | |\n| 1 | `low` | |\n")).unwrap();
        let packages = [
            package("low", &[("high", Some("dev")), ("low", None), ("serde", None)], &root),
            package("high", &[("low", None), ("tool", Some("build"))], &root),
            package("tool", &[("high", None)], &root),
            package("other", &[], &root),
        ];
        let found: Vec<String> = check(&root, &packages).unwrap().iter().map(ToString::to_string).collect();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            found,
            [
                "ARCHITECTURE.md:7: `low` stands in the table twice",
                "ARCHITECTURE.md:6: there is no crate `gone`",
                "crates/low/Cargo.toml: `low` (row 1) depends on `low` (row 1), but a crate depends only on lower rows",
                "crates/high/Cargo.toml: `high` (row 1) depends on `low` (row 1), but a crate depends only on lower rows",
                "crates/high/Cargo.toml: `high` (row 1) depends on `tool` (row –), but a crate depends only on lower rows",
                "crates/other/Cargo.toml: `other` has no row in the layer table of ARCHITECTURE.md",
            ]
        );
    }

    #[test]
    fn rows() {
        assert!(may_use(Some(1), Some(0)) && may_use(None, Some(5)) && may_use(None, None));
        assert!(!may_use(Some(1), Some(1)) && !may_use(Some(1), None));
    }
}
