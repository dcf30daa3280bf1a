//! What a node takes without graphs (COMPOSER paper, table 7): memory of its processes, and the disk of what has to be there for
//! functions of each kind.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::{Figure, Node, figure, program};
use crate::Effort;
use crate::references::process::{Folder, run};

/// What the figures are called.
const MEMORY: &str = "memory at rest, MB";
const DISK: &str = "disk, MB";

/// A configuration of a node: its name, the Debian packages that it needs beside a plain system, and what the paper has: memory and disk, in MB.
struct Configuration {
    name: &'static str,
    packages: &'static [&'static str],
    paper: Option<[u32; 2]>,
}

const CONFIGURATIONS: [Configuration; 4] = [
    Configuration { name: "native only", packages: &["nftables"], paper: Some([31, 71]) },
    Configuration { name: "containers only", packages: &["runc"], paper: Some([46, 189]) },
    Configuration {
        name: "virtual machines only",
        packages: &["qemu-system-x86", "qemu-system-common", "qemu-system-data"],
        paper: Some([44, 131]),
    },
    Configuration {
        name: "all",
        packages: &["nftables", "runc", "qemu-system-x86", "qemu-system-common", "qemu-system-data"],
        paper: Some([63, 249]),
    },
];

/// Measures them.
pub(super) fn measure(_: Effort, _: bool, all: &mut Vec<Figure>, skipped: &mut Vec<String>) -> Result<()> {
    let node = Node::start()?;
    let parts = [("daemon", node.child.id()), ("data plane", node.engine()?)];
    let mut memory = 0.0;
    for (name, process) in parts {
        let of = share(process);
        all.push(figure(format!("{name} at rest, MB"), "", [of]));
        memory += of;
    }
    let folder = Folder::new("rest")?;
    let stripped = folder.file("weir");
    run(Command::new("strip").arg("-o").arg(&stripped).arg(program()?), "")?;
    let own = megabytes(fs::metadata(&stripped)?.len());
    all.push(figure("the program with its symbols, MB", "", [megabytes(fs::metadata(program()?)?.len())]));
    all.push(figure("the program as it is installed, MB", "", [own]));
    for c in &CONFIGURATIONS {
        // Drivers are parts of the daemon, whether or not they have something to do.
        all.push(figure(MEMORY, c.name, [memory]));
        match c.packages.iter().map(|p| installed(p)).sum::<Result<f64>>() {
            Ok(packages) => all.push(figure(DISK, c.name, [own + packages])),
            Err(e) => skipped.push(format!("functions: the disk of {}: {e:#}", c.name)),
        }
    }
    Ok(())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Megabytes of a process; of memory that it shares, its part.
fn share(process: u32) -> f64 {
    let rollup = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("smaps_rollup"));
    kilobytes(&rollup.unwrap_or_default(), "Pss:").map_or(f64::NAN, |kb| kb / 1024.0)
}

fn kilobytes(text: &str, field: &str) -> Option<f64> {
    let line = text.lines().find_map(|l| l.strip_prefix(field))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Megabytes that a Debian package takes.
fn installed(package: &str) -> Result<f64> {
    let text = run(Command::new("dpkg-query").args(["-W", "-f", "${Installed-Size}", package]), "")?;
    ensure!(!text.trim().is_empty(), "{package} is not installed");
    Ok(text.trim().parse::<f64>()? / 1024.0)
}

/// Whether a figure is one of a configuration.
pub(super) fn is_own(f: &Figure) -> bool {
    [MEMORY, DISK].contains(&f.what.as_str())
}

/// The figures as a table, a row for each configuration; nothing if there are none.
pub(super) fn markdown(figures: &[Figure]) -> String {
    if !figures.iter().any(is_own) {
        return String::new();
    }
    let mut out = "\n### At rest\n\nA node without graphs: daemon and data plane with its packets, and on disk the program (stripped) and the Debian packages that \
                   functions of the kind need beside a plain system. In brackets table 7 of the COMPOSER paper.\n\n\
                   | functions | memory, MB | disk, MB |\n|---|---:|---:|\n"
        .to_owned();
    for c in &CONFIGURATIONS {
        let cell = |what: &str, column: usize| {
            let found = figures.iter().find(|f| f.what == what && f.kind == c.name);
            let paper =
                c.paper.and_then(|p| p.get(column).copied()).map_or(String::new(), |p| format!(" ({p})"));
            found.map_or("–".to_owned(), |f| format!("{:.1}", f.value.median)) + &paper
        };
        _ = writeln!(out, "| {} | {} | {} |", c.name, cell(MEMORY, 0), cell(DISK, 1));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_stand_beside_those_of_the_paper() {
        let text = markdown(&[figure(MEMORY, "all", [55.25]), figure(DISK, "native only", [35.0])]);
        assert!(text.contains("| native only | – (31) | 35.0 (71) |"), "{text}");
        assert!(text.contains("| all | 55.2 (63) | – (249) |"), "{text}");
        assert_eq!(markdown(&[figure("else", "", [1.0])]), "");
    }

    #[test]
    fn fields_of_the_system_are_read() {
        assert_eq!(kilobytes("Rss:   9 kB\nPss:     2048 kB\n", "Pss:"), Some(2048.0));
        assert_eq!(kilobytes("Pss: many\n", "Pss:"), None);
        assert!(share(std::process::id()) > 0.1);
        assert!(share(u32::MAX).is_nan());
    }
}
