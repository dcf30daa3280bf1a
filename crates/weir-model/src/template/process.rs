//! Functions in processes of their own: a Click script, run by a data plane without privileges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::native::{cpu, limits};
use crate::doc::{At, Reader};

/// What a function may take without a word of its image. The threads are those of its data plane.
const MEMORY: u64 = 128 << 20;
const THREADS: u32 = 64;

/// The limits of a function in a process of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Process {
    /// Most memory, in bytes: a number with kB, MB or GB (powers of 1,024).
    #[schemars(with = "String", default = "memory")]
    pub memory: u64,
    /// Most threads.
    #[schemars(default = "threads")]
    pub processes: u32,
    /// Most processor time, in thousandths of a processor; all, if this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

fn memory() -> String {
    format!("{} MB", MEMORY >> 20)
}

fn threads() -> u32 {
    THREADS
}

impl Default for Process {
    fn default() -> Process {
        Process { memory: MEMORY, processes: THREADS, cpu: None }
    }
}

pub(super) fn process(r: &mut Reader, at: &At<'_>) -> Option<Process> {
    let f = r.fields(at, &["memory", "processes", "cpu"])?;
    let mut process = Process::default();
    limits(r, &f, &mut process.memory, &mut process.processes)?;
    process.cpu = cpu(r, &f)?;
    Some(process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::RunAs;
    use crate::template::{Implementation, Template};

    fn parse(text: &str) -> Result<Template, String> {
        Template::parse(&format!("name: f\nports: [a]\nclick: 'c :: Counter; in_0 -> c -> out_0;'\n{text}"))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn it_is_a_click_script_with_limits() {
        let t = parse("kind: process\nprocess: {memory: 32 MB, cpu: 500}\nhandlers: {n: c.count}").unwrap();
        assert!(!t.is_inline() && t.click().unwrap().text.contains("Counter"));
        let Implementation::Process { process, .. } = t.implementation else { panic!("another kind") };
        assert_eq!(process, Process { memory: 32 << 20, processes: THREADS, cpu: Some(500) });
        let again = serde_json::to_string(&parse("kind: process").unwrap()).unwrap();
        assert!(again.contains(r#""kind":"process""#) && again.contains("Counter"), "{again}");
    }

    #[test]
    fn mistakes_are_said_with_what_would_be_right() {
        for (text, message) in [
            ("kind: process\nprocess: {cpu: 0}", "10 to 1000000"),
            ("kind: process\nprocess: {memory: 1}", "such as 64 MB"),
            ("kind: process\nprocess: {dependencies: {}}", "dependencies"),
            ("process: {}", "kind: process"),
            ("kind: process\nnative: {}", "kind: native"),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.contains(message), "{text}: {e}");
        }
    }

    #[test]
    fn a_graph_may_choose_it_for_an_inline_image() {
        let inline = parse("").unwrap();
        let process = inline.run_as(RunAs::Process).unwrap();
        assert_eq!((process.is_inline(), process.click()), (false, inline.click()));
        assert_eq!(inline.run_as(RunAs::Inline).unwrap(), inline);
        let e = parse("kind: process").unwrap().run_as(RunAs::Inline).unwrap_err();
        assert!(e.contains("of kind process"), "{e}");
        let long =
            Template::parse("name: f\nports: [a_port_with_a_long_name]\nclick: 'in_0 -> out_0;'").unwrap();
        assert!(long.run_as(RunAs::Process).unwrap_err().contains("a_port_with_a_long_name"));
    }
}
