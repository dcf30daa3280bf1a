//! `weir doctor`.

mod probes;

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;

use crate::ui::{Failure, Ui};

/// Options of `weir doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fail also if functions of this kind cannot run here, or ports of this kind (may be repeated)
    #[arg(long, value_name = "KIND", value_parser = clap::builder::PossibleValuesParser::new(USES.map(|u| u.name)))]
    need: Vec<String>,
    /// Where the node keeps its state
    #[arg(long, value_name = "DIR", default_value = "/var/lib/weir")]
    state: PathBuf,
    /// Where the sockets of the data plane are
    #[arg(long, value_name = "DIR", default_value = "/run/weir")]
    run: PathBuf,
}

/// One property of the machine, and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    /// Its name, as [`Use::wants`] has it.
    name: &'static str,
    /// Whether all is well.
    ok: bool,
    /// What was found.
    found: String,
    /// What is to be done, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// A purpose of a machine.
#[derive(Debug, Clone, Copy)]
struct Use {
    name: &'static str,
    what: &'static str,
    /// Whether a node is of no use without.
    always: bool,
    wants: &'static [&'static str],
}

const USES: [Use; 13] = [
    Use {
        name: "node",
        what: "the daemon",
        always: true,
        wants: &["state folder", "socket folder", "open files"],
    },
    Use { name: "inline", what: "functions", always: true, wants: &["processor", "packet sockets"] },
    Use {
        name: "process",
        what: "functions",
        always: false,
        wants: &[
            "network namespaces",
            "mount namespaces",
            "user namespaces",
            "control groups",
            "seccomp",
            "shared memory",
        ],
    },
    Use {
        name: "native",
        what: "functions",
        always: false,
        wants: &["network namespaces", "mount namespaces", "control groups", "nft", "ip"],
    },
    Use {
        name: "container",
        what: "functions",
        always: false,
        wants: &["network namespaces", "mount namespaces", "control groups", "seccomp", "runc"],
    },
    Use {
        name: "vm",
        what: "functions",
        always: false,
        wants: &["network namespaces", "control groups", "shared memory", "qemu"],
    },
    Use {
        name: "dpdk",
        what: "functions",
        always: false,
        wants: &["network namespaces", "control groups", "shared memory"],
    },
    Use { name: "packet", what: "ports", always: true, wants: &["packet sockets"] },
    Use { name: "xdp", what: "ports", always: false, wants: &["XDP sockets", "locked memory"] },
    Use { name: "tap", what: "ports", always: false, wants: &["TAP"] },
    Use { name: "memif", what: "ports", always: false, wants: &["shared memory"] },
    Use { name: "vhost-user", what: "ports", always: false, wants: &["shared memory"] },
    Use { name: "proofs", what: "requirements that need a solver", always: false, wants: &["z3"] },
];

/// The result of all checks for one purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Verdict {
    name: &'static str,
    what: &'static str,
    works: bool,
    /// Whether the command fails if it does not.
    needed: bool,
    /// The checks that are in its way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lacks: Vec<&'static str>,
}

/// All that was found.
#[derive(Debug, Serialize)]
struct Report {
    works: bool,
    uses: Vec<Verdict>,
    checks: Vec<Check>,
}

/// What follows of the checks. What was not looked at is in nobody's way.
fn report(checks: Vec<Check>, need: &[String]) -> Report {
    let uses: Vec<Verdict> = USES
        .iter()
        .map(|u| {
            let fails = |name: &&&'static str| checks.iter().any(|c| c.name == **name && !c.ok);
            let lacks: Vec<&'static str> = u.wants.iter().filter(fails).copied().collect();
            let needed = u.always || need.iter().any(|n| n == u.name);
            Verdict { name: u.name, what: u.what, works: lacks.is_empty(), needed, lacks }
        })
        .collect();
    Report { works: uses.iter().all(|u| u.works || !u.needed), uses, checks }
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let report = report(probes::all(&args.state, &args.run), &args.need);
    ui.print(&report, || text(&report, *ui))?;
    if report.works { Ok(()) } else { Err(Failure::Exit(1)) }
}

fn text(report: &Report, ui: Ui) -> String {
    let mut out = String::new();
    let width = |names: &mut dyn Iterator<Item = usize>| names.max().unwrap_or(0);
    let names = width(&mut report.uses.iter().map(|u| u.name.len() + u.what.len() + 1));
    for u in &report.uses {
        let name = format!("{:names$}", format!("{} {}", u.name, u.what));
        let says = match (u.works, u.needed) {
            (true, _) => ui.good("works"),
            (false, true) => ui.bad(&format!("does not work: {}", u.lacks.join(", "))),
            (false, false) => format!("not here: {}", u.lacks.join(", ")),
        };
        _ = writeln!(out, "{name}  {says}");
    }
    out.push('\n');
    let names = width(&mut report.checks.iter().map(|c| c.name.len()));
    for c in &report.checks {
        let mark = if c.ok { ui.good("ok     ") } else { ui.bad("missing") };
        _ = writeln!(out, "{mark}  {:names$}  {}", c.name, c.found);
        if let Some(remedy) = &c.remedy {
            _ = writeln!(out, "         {:names$}  {}", "", ui.bold(&format!("→ {remedy}")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Color;

    fn check(name: &'static str, ok: bool) -> Check {
        Check { name, ok, found: "found".into(), remedy: (!ok).then(|| "do this".to_owned()) }
    }

    #[test]
    fn what_is_missing_is_in_the_way_of_what_needs_it_and_of_nothing_else() {
        let checks = vec![check("packet sockets", true), check("runc", false), check("TAP", false)];
        let found = report(checks.clone(), &[]);
        assert!(found.works);
        let not: Vec<_> = found.uses.iter().filter(|u| !u.works).map(|u| (u.name, &u.lacks[..])).collect();
        assert_eq!(not, [("container", &["runc"][..]), ("tap", &["TAP"][..])]);
        // What is needed has to work.
        assert!(!report(checks.clone(), &["container".to_owned()]).works);
        assert!(report(checks, &["native".to_owned()]).works);
        assert!(!report(vec![check("packet sockets", false)], &[]).works);
    }

    #[test]
    fn what_is_missing_is_shown_with_what_to_do() {
        let found = report(vec![check("TAP", false), check("z3", true)], &[]);
        let text = text(&found, Ui::new(false, Color::Never));
        assert!(text.contains("not here: TAP\n") && text.contains("missing  TAP  found\n"), "{text}");
        assert!(text.contains("→ do this\n") && text.contains("ok       z3   found\n"), "{text}");
    }

    #[test]
    fn each_use_wants_what_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let checks = probes::all(folder.path(), folder.path());
        for u in USES {
            for name in u.wants {
                assert!(
                    checks.iter().any(|c| c.name == *name),
                    "{} wants {name}: nobody looks at it",
                    u.name
                );
            }
        }
        for c in &checks {
            assert_eq!(c.ok, c.remedy.is_none(), "{c:?}: a remedy, if and only if it is missing");
            assert!(!c.found.is_empty());
        }
    }
}
