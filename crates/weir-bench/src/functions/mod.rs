//! Functions of each kind (COMPOSER paper, figures 17, 19 and 22, tables 7 and 8): what it takes to deploy them, what chains of them cost,
//! an IPsec client of some of them, and what a node takes at rest. The daemon is the program that is released, in a namespace between
//! two links.

mod ipsec;
mod rest;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::Effort;
use crate::ports::lab::Lab;
use crate::ports::load::{blast, latency};
use crate::references::process::{Folder, run};
use crate::stats::Spread;

/// How long is waited for a node.
const PATIENCE: Duration = Duration::from_secs(30);
/// Lengths of chains.
const LENGTHS: [usize; 4] = [1, 2, 4, 8];
/// Functions that are deployed in one request.
const DEPLOYED: [usize; 4] = [1, 10, 100, 500];

/// A measured value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured, and in which unit.
    pub what: String,
    /// The kind of function; empty: the node.
    pub kind: String,
    /// The figure.
    pub value: Spread,
}

/// A kind, by an image that forwards and one that filters: what a function of a graph says, and its ports.
struct Kind {
    name: &'static str,
    forwarder: (&'static str, [&'static str; 2]),
    firewall: (&'static str, [&'static str; 2]),
    /// Most functions that are tried: DPDK programs take a processor each.
    most: usize,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "click",
        forwarder: ("name: 'null'", ["left", "right"]),
        firewall: ("name: packet-filter", ["inside", "outside"]),
        most: 500,
    },
    Kind {
        name: "process",
        forwarder: ("name: 'null', kind: process", ["left", "right"]),
        firewall: ("name: packet-filter, kind: process", ["inside", "outside"]),
        most: 500,
    },
    Kind {
        name: "dpdk",
        forwarder: ("name: testpmd", ["left", "right"]),
        firewall: ("name: testpmd", ["left", "right"]),
        most: 1,
    },
    Kind {
        name: "native",
        forwarder: ("name: linux-bridge", ["p1", "p2"]),
        firewall: ("name: nft-firewall", ["inside", "outside"]),
        most: 500,
    },
    Kind {
        name: "container",
        forwarder: ("name: box-bridge", ["left", "right"]),
        firewall: ("name: box-bridge", ["left", "right"]),
        most: 500,
    },
];

/// Measures everything; says in `skipped` what could not be.
pub fn measure(effort: Effort, quick: bool, skipped: &mut Vec<String>) -> Vec<Figure> {
    let mut all = Vec::new();
    for step in [rest::measure, chains, ipsec::measure, deploy] {
        if let Err(e) = step(effort, quick, &mut all, skipped) {
            skipped.push(format!("functions: {e:#}"));
        }
    }
    all
}

fn figure(what: impl Into<String>, kind: &str, values: impl IntoIterator<Item = f64>) -> Figure {
    Figure { what: what.into(), kind: kind.to_owned(), value: Spread::of(values) }
}

/// Chains between two hosts: packets of 64 bytes a second, and the time that one takes. Where functions can send to each other
/// directly, chains do, and then once more through the switch.
fn chains(effort: Effort, _: bool, all: &mut Vec<Figure>, skipped: &mut Vec<String>) -> Result<()> {
    for kind in &KINDS {
        let node = Node::start()?;
        let lengths = LENGTHS.into_iter().filter(|n| *n <= kind.most);
        for (n, by) in lengths.flat_map(|n| [(n, ""), (n, " through the switch")]) {
            if !by.is_empty() && (n == 1 || kind.name != "process") {
                continue;
            }
            let measured = (|| {
                let direct = if by.is_empty() { "" } else { "direct-links: false\n" };
                node.apply(&[chain(kind, n) + direct])?;
                let mut rates = Vec::new();
                for _ in 0..effort.samples.min(5) {
                    rates.push(blast(&node.lab, effort.time)?);
                }
                let (median, _) = latency(&node.lab, effort.time)?;
                anyhow::Ok((rates, median))
            })();
            match measured {
                Ok((rates, median)) => {
                    all.push(figure(format!("chain of {n}{by}, million packets a second"), kind.name, rates));
                    all.push(figure(
                        format!("chain of {n}{by}, microseconds for a packet"),
                        kind.name,
                        [median],
                    ));
                }
                Err(e) => skipped.push(format!("functions: a chain of {n}{by} of kind {}: {e:#}", kind.name)),
            }
        }
    }
    Ok(())
}

/// Graphs of a firewall each, applied in one request, as long as the user waits for it.
fn deploy(_: Effort, quick: bool, all: &mut Vec<Figure>, skipped: &mut Vec<String>) -> Result<()> {
    for kind in &KINDS {
        for n in DEPLOYED.into_iter().filter(|n| *n <= kind.most && (!quick || *n <= 10)) {
            let node = Node::start()?;
            // What is done once for all: an image is fetched, a process is started that others are copies of.
            let first = node.apply(&[deployed(kind, 4000)]);
            let graphs: Vec<String> = (1..=n).map(|i| deployed(kind, i)).collect();
            match first.and_then(|_| node.apply(&graphs)) {
                Ok(time) => all.push(figure(format!("deploy {n}, s"), kind.name, [time])),
                Err(e) => skipped.push(format!("functions: {n} of kind {}: {e:#}", kind.name)),
            }
        }
    }
    Ok(())
}

fn graph(id: &str, functions: &[(&str, [&str; 2])], saps: &[String; 2]) -> String {
    let mut text = format!("id: {id}\nname: {id}\nSFs:\n");
    for (i, (says, [a, b])) in functions.iter().enumerate() {
        _ = writeln!(text, "  - {{id: f{i}, {says}, ports: [{{id: {a}}}, {{id: {b}}}]}}");
    }
    _ = writeln!(text, "saps:\n  - {{id: lan, {}}}\n  - {{id: wan, {}}}\nflowrules:", saps[0], saps[1]);
    let mut left = vec!["sap:lan".to_owned()];
    for (i, (_, [a, b])) in functions.iter().enumerate() {
        left.extend([format!("sf:f{i}:{a}"), format!("sf:f{i}:{b}")]);
    }
    left.push("sap:wan".to_owned());
    for (i, pair) in left.chunks(2).enumerate() {
        for (id, from, to) in [("a", &pair[0], &pair[1]), ("b", &pair[1], &pair[0])] {
            _ = writeln!(
                text,
                "  - {{id: {id}{i}, priority: 1, match: {{port_in: '{from}'}}, actions: {{output_to_port: '{to}'}}}}"
            );
        }
    }
    text
}

fn chain(kind: &Kind, n: usize) -> String {
    let sap = |name: &str| format!("type: interface, interface: {{if-name: {name}}}");
    graph("chain", &vec![kind.forwarder; n], &[sap("lan"), sap("wan")])
}

fn deployed(kind: &Kind, n: usize) -> String {
    let sap = |name: &str| format!("type: vlan, vlan: {{vlan-id: {n}, if-name: {name}}}");
    graph(&format!("t{n}"), &[kind.firewall], &[sap("lan"), sap("wan")])
}

/// The program that is released, beside this one.
fn program() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("weir");
    ensure!(program.exists(), "{} is not there: cargo build --release -p weir", program.display());
    Ok(program)
}

/// A daemon with its data plane between two links.
struct Node {
    child: Child,
    program: PathBuf,
    folder: Folder,
    lab: Lab,
}

impl Node {
    fn start() -> Result<Node> {
        Node::start_with(None)
    }

    /// With one more folder of images.
    fn start_with(more: Option<&Path>) -> Result<Node> {
        let (lab, program) = (Lab::new()?, program()?);
        let folder = Folder::new("functions")?;
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let images = folder.path().join("images");
        let copied =
            Command::new("cp").arg("-r").arg(repository.join("examples/container")).arg(&images).status();
        ensure!(copied?.success(), "the images cannot be copied");
        let layout = images.join("box-bridge/layout");
        run(Command::new(repository.join("scripts/busybox-image")).arg(layout), "")?;
        let mut command = within(&lab, &program);
        command
            .args(["node", "--stop-engine", "--overcommit", "--socket"])
            .arg(folder.path().join("engine.sock"));
        command.arg("--store").arg(folder.path().join("store.db"));
        command.arg("--images").arg(repository.join("images")).arg("--images").arg(images);
        command.args(more.into_iter().flat_map(|m| [Path::new("--images"), m]));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let node = Node { child, program, folder, lab };
        let until = Instant::now() + PATIENCE;
        while node.weir(&["ps"]).is_err() {
            ensure!(Instant::now() < until, "the node does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(node)
    }

    fn weir(&self, arguments: &[&str]) -> Result<String> {
        run(within(&self.lab, &self.program).args(arguments), "")
    }

    /// Applies graphs in one request; gives the seconds that the command took.
    fn apply(&self, graphs: &[String]) -> Result<f64> {
        let folder = self.folder.path().join("graphs");
        _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder)?;
        for (i, text) in graphs.iter().enumerate() {
            fs::write(folder.join(format!("{i}.yaml")), text)?;
        }
        let start = Instant::now();
        self.weir(&["apply", &folder.display().to_string()])?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// The data plane's process.
    fn engine(&self) -> Result<u32> {
        match weir_protocol::Client::connect(self.folder.path().join("engine.sock"))?
            .call(weir_protocol::Command::Hello)?
        {
            weir_protocol::Answer::Hello { pid, .. } => Ok(pid),
            other => anyhow::bail!("it answered Hello with {other:?}"),
        }
    }
}

/// A command in the namespace in the middle, and in no other mount namespace: names of namespaces that it makes stay.
fn within(lab: &Lab, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", lab.name("middle"))).arg(program);
    command
}

impl Drop for Node {
    fn drop(&mut self) {
        // Functions have namespaces of their own, which go with their graphs.
        if let Ok(list) = self.weir(&["--json", "ps"])
            && let Ok(list) = serde_json::from_str::<serde_json::Value>(&list)
        {
            let graphs = list["graphs"].as_array().or(list.as_array()).into_iter().flatten();
            for id in graphs.filter_map(|g| g["id"].as_str()) {
                _ = self.weir(&["delete", id]);
            }
        }
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        _ = self.child.wait();
    }
}

/// The figures as a table, a column for each kind; nothing if there are none.
pub fn markdown(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut out = "\n## Functions of each kind\n\nChains of functions that forward, between two links (AF_PACKET, one worker), 64-byte packets as fast as \
                   they are sent; processes send to each other directly, or through the switch; firewalls, a graph each, applied in one request, by the clock of who asks. `dpdk` takes a processor for \
                   itself. Figure 17 of the COMPOSER paper has 0.78 s for each Docker firewall.\n\n| |"
        .to_owned();
    let kinds = KINDS.iter().map(|k| k.name);
    kinds.clone().for_each(|k| _ = write!(out, " {k} |"));
    out += "\n|---|";
    kinds.clone().for_each(|_| out += "---:|");
    out.push('\n');
    let mut rows: Vec<&str> = Vec::new();
    for f in figures.iter().filter(|f| !f.kind.is_empty() && !ipsec::is_own(f) && !rest::is_own(f)) {
        if !rows.contains(&f.what.as_str()) {
            rows.push(&f.what);
        }
    }
    for row in rows {
        _ = write!(out, "| {row} |");
        for kind in kinds.clone() {
            let found = figures.iter().find(|f| f.what == row && f.kind == kind);
            _ = write!(out, " {} |", found.map_or("–".to_owned(), |f| f.value.show(2)));
        }
        out.push('\n');
    }
    out += "\n| the node | |\n|---|---:|\n";
    for f in figures.iter().filter(|f| f.kind.is_empty()) {
        _ = writeln!(out, "| {} | {} |", f.what, f.value.show(1));
    }
    out + &rest::markdown(figures) + &ipsec::markdown(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_graphs() {
        for kind in &KINDS {
            let text = chain(kind, 3);
            let graph =
                weir_model::graph::ServiceGraph::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!((graph.functions.len(), graph.flowrules.len(), graph.direct_links), (3, 8, true));
            let text = text + "direct-links: false\n";
            assert!(!weir_model::graph::ServiceGraph::parse(&text).unwrap().direct_links);
        }
    }

    #[test]
    fn kinds_stand_side_by_side() {
        let figures = [
            figure("chain of 1", "click", [2.0]),
            figure("chain of 1", "native", [1.0]),
            figure("size", "", [9.0]),
            figure("IPsec client, Mbit/s", "native", [5.0]),
        ];
        let text = markdown(&figures);
        assert!(text.contains("| chain of 1 | 2.00 (2.00–2.00) | – | – | 1.00 (1.00–1.00) | – |"), "{text}");
        assert!(text.contains("| size | 9.0"));
        assert!(text.contains("| Mbit/s | – | 5.0"), "in a table of its own: {text}");
        assert!(!text.contains("IPsec client, Mbit/s"), "{text}");
    }
}
