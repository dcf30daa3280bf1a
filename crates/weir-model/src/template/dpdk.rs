//! DPDK programs: unmodified, on shared memory (COMPOSER paper, section 6.1).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::native::{self, MAX_ITEMS, PROCESSES, cpu, dependencies, is_program, limits};
use crate::doc::{At, Reader};
use crate::error::quote;

/// What a program may take without a word of its image.
const MEMORY: u64 = 512 << 20;
/// Bytes of that which are not DPDK's own heap, and bytes of each of its threads. DPDK programs lock all they have in memory: also the
/// stacks of threads, and the files of their libraries, of which Debian's take 56 MB and count for the first program that reads them.
const OTHER_MEMORY: u64 = 112 << 20;
const THREAD_MEMORY: u64 = 8 << 20;
const LEAST_HEAP: u64 = 64 << 20;
const THREADS: u32 = 2;

/// Which DPDK program, and how it runs. In `arguments`, `$NAME` or `${NAME}` stands for the value of a parameter, and `$$` for `$`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Dpdk {
    /// The program: its name, or its whole path.
    pub program: String,
    /// Its own arguments: those behind `--`. The node gives those of DPDK's environment (memory, threads, ports); ports are those of
    /// `net_memif`, in the order of the image's, and there are no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The programs (or files, by their whole path) that the node must have, each with the Debian package that holds it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, String>,
    /// Threads of DPDK (lcores). They share the node's processors with all else.
    #[schemars(default = "threads")]
    pub threads: u32,
    /// Most memory of all its processes, in bytes: a number with kB, MB or GB (powers of 1,024). All but 112 MB, and 8 MB for each thread, is DPDK's own heap.
    #[schemars(with = "String", default = "memory")]
    pub memory: u64,
    /// Most processes and threads.
    #[schemars(default = "native::processes")]
    pub processes: u32,
    /// Most processor time, in thousandths of a processor; all, if this is left out. DPDK's threads never sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

impl Dpdk {
    /// Bytes of its own heap.
    pub fn heap(&self) -> u64 {
        self.memory.saturating_sub(self.other())
    }

    /// Bytes of what is not its heap.
    fn other(&self) -> u64 {
        OTHER_MEMORY + u64::from(self.threads) * THREAD_MEMORY
    }
}

fn memory() -> String {
    format!("{} MB", MEMORY >> 20)
}

fn threads() -> u32 {
    THREADS
}

pub(super) fn dpdk(r: &mut Reader, at: &At<'_>) -> Option<Dpdk> {
    let known = ["program", "arguments", "dependencies", "threads", "memory", "processes", "cpu"];
    let f = r.fields(at, &known)?;
    let program = f.need(r, "program", "the DPDK program").and_then(|at| {
        let text = r.text(&at, "a program")?;
        if !is_program(text) {
            let help = "give the name alone, or the whole path of a file";
            r.error(&at, format!("{} is no program's name", quote(text)), help);
        }
        Some(text.to_owned())
    });
    let mut dpdk = Dpdk {
        program: program?,
        arguments: Vec::new(),
        dependencies: BTreeMap::new(),
        threads: THREADS,
        memory: MEMORY,
        processes: PROCESSES,
        cpu: None,
    };
    if let Some(at) = f.get("arguments") {
        for (i, node) in r.items(&at, "arguments", MAX_ITEMS)?.iter().enumerate() {
            dpdk.arguments.push(r.text(&at.index(i, node), "an argument")?.to_owned());
        }
    }
    if let Some(at) = f.get("dependencies") {
        dpdk.dependencies = dependencies(r, &at)?;
    }
    if let Some(at) = f.get("threads") {
        dpdk.threads = r.number(&at, "DPDK's threads", 1, 64)?;
    }
    limits(r, &f, &mut dpdk.memory, &mut dpdk.processes)?;
    let least = dpdk.other() + LEAST_HEAP;
    if let Some(at) = f.get("memory").or_else(|| f.get("threads")).filter(|_| dpdk.memory < least) {
        let help = format!("give \"memory\" of at least {} MB", least >> 20);
        r.error(&at, "DPDK does not start with so little memory", help);
    }
    dpdk.cpu = cpu(r, &f)?;
    Some(dpdk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{Implementation, Template};

    fn parse(text: &str) -> Result<Dpdk, String> {
        let text = format!("name: f\nkind: dpdk\nports: [a]\n{text}");
        match Template::parse(&text).map_err(|e| e.to_string())?.implementation {
            Implementation::Dpdk { dpdk } => Ok(dpdk),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn it_is_a_program_with_arguments_and_limits() {
        let d = parse(
            "dpdk: {program: dpdk-testpmd, arguments: [--auto-start], dependencies: {dpdk-testpmd: dpdk-dev}, memory: 256 MB, cpu: 1000}",
        );
        let d = d.unwrap();
        assert_eq!(
            (d.program.as_str(), d.heap(), d.cpu, d.threads),
            ("dpdk-testpmd", 128 << 20, Some(1000), THREADS)
        );
    }

    #[test]
    fn mistakes_are_said_with_what_would_be_right() {
        for (text, message) in [
            ("", "which program"),
            ("dpdk: {}", "program"),
            ("dpdk: {program: bin/x}", "whole path"),
            ("dpdk: {program: x, memory: 64 MB}", "at least 192 MB"),
            ("dpdk: {program: x, threads: 64}", "at least 688 MB"),
            ("dpdk: {program: x, threads: 0}", "1 to 64"),
            ("dpdk: {program: x}\nhandlers: {a: b.c}", "has no handlers"),
            ("dpdk: {program: x}\nclick: y", "click"),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.contains(message), "{text}: {e}");
        }
    }
}
