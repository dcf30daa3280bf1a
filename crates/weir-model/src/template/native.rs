//! Native functions: programs that the node has, brought to work by scripts (COMPOSER paper, section 6.1).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::doc::{At, Fields, Reader, optional};
use crate::error::quote;
use crate::value::Size;

/// The scripts that an image may have, as executable files in its folder `scripts`, in the order of a life.
pub const SCRIPTS: [&str; 8] = ["create", "start", "run", "update", "pause", "resume", "stop", "destroy"];

/// Most private directories, and most dependencies.
pub(super) const MAX_ITEMS: usize = 100;
/// Longest name of an interface that Linux takes, in bytes.
const INTERFACE_NAME: usize = 15;
/// What a function may take without a word of its image.
pub(super) const MEMORY: u64 = 256 << 20;
pub(super) const PROCESSES: u32 = 128;
const MAX_PROCESSES: u32 = 1 << 20;

/// The needs of a native function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Native {
    /// The programs (or files, by their whole path) that the node must have, each with the Debian package that holds it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, String>,
    /// Most memory of all its processes, in bytes: a number with kB, MB or GB (powers of 1,024).
    #[schemars(with = "String", default = "memory")]
    pub memory: u64,
    /// Most processes and threads.
    #[schemars(default = "processes")]
    pub processes: u32,
    /// Most processor time, in thousandths of a processor; all, if this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Directories of which it has its own, empty at first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private: Vec<String>,
}

pub(super) fn memory() -> String {
    format!("{} MB", MEMORY >> 20)
}

pub(super) fn processes() -> u32 {
    PROCESSES
}

impl Default for Native {
    fn default() -> Native {
        Native {
            dependencies: BTreeMap::new(),
            memory: MEMORY,
            processes: PROCESSES,
            cpu: None,
            private: Vec::new(),
        }
    }
}

pub(super) fn native(r: &mut Reader, at: &At<'_>) -> Option<Native> {
    let f = r.fields(at, &["dependencies", "memory", "processes", "cpu", "private"])?;
    let mut native = Native::default();
    if let Some(at) = f.get("dependencies") {
        native.dependencies = dependencies(r, &at)?;
    }
    limits(r, &f, &mut native.memory, &mut native.processes)?;
    native.cpu = cpu(r, &f)?;
    if let Some(at) = f.get("private") {
        native.private = directories(r, &at)?;
    }
    Some(native)
}

/// Programs (or files by their whole path), each with the package that holds it.
pub(super) fn dependencies(r: &mut Reader, at: &At<'_>) -> Option<BTreeMap<String, String>> {
    let mut dependencies = BTreeMap::new();
    let map = r.map(at, "a map from programs to Debian packages")?;
    if map.entries.len() > MAX_ITEMS {
        r.error(at, format!("{} programs", map.entries.len()), format!("at most {MAX_ITEMS}"));
        return None;
    }
    for (program, node) in map.entries {
        let at = at.key(program, node);
        let package = r.text(&at, "a Debian package")?.to_owned();
        if !is_program(program) {
            let help = "give the name alone, or the whole path of a file";
            r.error(&at, format!("{} is no program's name", quote(program)), help);
        }
        dependencies.insert(program.clone(), package);
    }
    Some(dependencies)
}

/// Whether a text is a name on the search path, or a file by its whole path.
pub(super) fn is_program(text: &str) -> bool {
    !text.is_empty() && (!text.contains('/') || text.starts_with('/'))
}

/// The fields `memory` and `processes`, where they are given.
pub(super) fn limits(r: &mut Reader, f: &Fields<'_>, memory: &mut u64, processes: &mut u32) -> Option<()> {
    if let Some(at) = f.get("memory")
        && let Some(size) = r.parse::<Size>(&at, "a number with kB, MB or GB")
    {
        *memory = size.bytes();
    }
    if let Some(at) = f.get("processes") {
        let text = r.text(&at, "a whole number")?;
        match text.parse() {
            Ok(n @ 1..=MAX_PROCESSES) => *processes = n,
            _ => r.error(
                &at,
                format!("{} is no number of processes", quote(text)),
                format!("write a number from 1 to {MAX_PROCESSES}"),
            ),
        }
    }
    Some(())
}

/// The field `cpu`, if it is given.
pub(super) fn cpu(r: &mut Reader, f: &Fields<'_>) -> Option<Option<u32>> {
    optional(f.get("cpu"), |at| r.number(at, "thousandths of a processor", 10, 1_000_000))
}

/// A list of directories, each by its full path.
pub(super) fn directories(r: &mut Reader, at: &At<'_>) -> Option<Vec<String>> {
    let mut directories = Vec::new();
    for (i, node) in r.items(at, "directories", MAX_ITEMS)?.iter().enumerate() {
        let at = at.index(i, node);
        let path = r.text(&at, "a directory")?;
        if !is_full_path(path) {
            r.error(&at, format!("{} is no directory", quote(path)), "write its full path, such as /run");
        }
        directories.push(path.to_owned());
    }
    Some(directories)
}

/// Whether a path begins at the root directory and goes straight to its file.
pub(super) fn is_full_path(path: &str) -> bool {
    let plain = path.split('/').skip(1).all(|part| !part.is_empty() && part != "." && part != "..");
    path.starts_with('/') && plain
}

/// What is wrong with the name of a port that is to be one of an interface.
pub(super) fn interface_name(name: &str) -> Option<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let wrong =
        name.len() > INTERFACE_NAME || !name.chars().all(good) || name == "lo" || name.starts_with('.');
    wrong.then(|| {
        format!("use at most {INTERFACE_NAME} letters, digits, '_', '.' and '-', and not 'lo': it is an interface's name")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{Implementation, Template};

    fn native(text: &str) -> Result<Native, String> {
        let text = format!("name: f\nkind: native\nports: [a]\n{text}");
        match Template::parse(&text).map_err(|e| e.to_string())?.implementation {
            Implementation::Native { native } => Ok(native),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn what_it_needs_is_read_with_defaults() {
        let n = native(
            "native: {dependencies: {nft: nftables}, memory: 64 MB, cpu: 500, private: [/run, /var/lib/misc]}",
        );
        let n = n.unwrap();
        assert_eq!((n.memory, n.processes, n.cpu, n.private.len()), (64 << 20, PROCESSES, Some(500), 2));
        assert_eq!(n.dependencies["nft"], "nftables");
        assert_eq!(native(""), Ok(Native::default()));
    }

    #[test]
    fn mistakes_are_said_with_what_would_be_right() {
        for (text, message) in [
            ("native: {memory: 64}", "such as 64 MB"),
            ("native: {memory: 0 MB}", "such as 64 MB"),
            ("native: {processes: 0}", "from 1 to"),
            ("native: {cpu: 0}", "10 to 1000000"),
            ("native: {private: [run]}", "full path"),
            ("native: {private: [/run/../etc]}", "full path"),
            ("native: {dependencies: {bin/sh: dash}}", "whole path"),
            ("native: {memroy: 64 MB}", "memroy"),
            ("click: x", "click"),
            ("handlers: {a: x.y}", "scripts/handlers"),
        ] {
            let e = native(text).unwrap_err();
            assert!(e.contains(message), "{text}: {e}");
        }
        let e = Template::parse("name: f\nkind: native\nports: [a_port_with_a_long_name]\n").unwrap_err();
        assert!(e.to_string().contains("interface's name"), "{e}");
        let e = Template::parse("name: f\nkind: nativ\nports: [a]\n").unwrap_err();
        assert!(e.to_string().contains("native"), "{e}");
        let e = Template::parse("name: f\nports: [a]\nclick: 'in_0 -> out_0;'\nnative: {}\n").unwrap_err();
        assert!(e.to_string().contains("kind: native"), "{e}");
    }
}
