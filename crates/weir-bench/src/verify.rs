//! How long the verifier takes: generated access networks (change-d4.5.txt, section 2.5.2), long chains, a whole request.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use weir_check::{Status, World};
use weir_engine::{Classes, Plan};
use weir_model::requirement::Requirement;
use weir_model::topology::Topology;
use weir_verify::Limits;

use crate::stats::Spread;

/// Times of one network.
#[derive(Debug, Serialize, Deserialize)]
pub struct Verification {
    /// What is verified.
    pub name: String,
    /// Milliseconds from text to a network that can be asked.
    pub build: Spread,
    /// Milliseconds that the question takes.
    pub ask: Spread,
    /// Milliseconds that it must not take, if that was set.
    pub target: Option<f64>,
}

/// A network and what is asked of it, which has to hold.
struct Subject {
    name: String,
    text: String,
    is_topology: bool,
    question: String,
    target: Option<f64>,
}

/// Measures all.
pub fn measure(samples: usize, most: usize) -> Result<Vec<Verification>> {
    let sizes = [10, 100, 1000, 10_000].into_iter().filter(|&n| n <= most);
    let mut subjects: Vec<Subject> = sizes
        .map(|boxes| Subject {
            name: format!("access network of {boxes} boxes: can internet CLIENT"),
            text: access_network(boxes),
            is_topology: true,
            question: format!("can internet c{} udp dst port 1500", boxes / 2 - 1),
            target: (boxes == 1000).then_some(20.0),
        })
        .collect();
    subjects.push(Subject {
        name: "access network of 1000 boxes: only internet CLIENT".into(),
        text: access_network(1000),
        is_topology: true,
        question: "only internet c499 dst net 10.1.243.0/24".into(),
        target: Some(20.0),
    });
    subjects.push(Subject {
        name: "chain of 1000 IPClassifiers of 10 rules".into(),
        text: chain(1000),
        is_topology: false,
        question: "can in out udp".into(),
        target: Some(50.0),
    });
    subjects.push(Subject {
        name: "the paper's request: its module, one requirement".into(),
        text: "FromNetfront(in) -> IPFilter(allow udp dst port 1500, deny all) -> IPRewriter(pattern - - 172.16.15.133 - 0 0)
               -> TimedUnqueue(120, 100) -> ToNetfront(out);"
            .replace("-> TimedUnqueue", "-> Queue -> TimedUnqueue"),
        is_topology: false,
        question: "can in out udp dst port 1500".into(),
        target: Some(1.0),
    });
    subjects.iter().map(|s| s.measure(samples)).collect()
}

/// The section of the report.
pub fn markdown(list: &[Verification]) -> String {
    if list.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "\n## Verification\n\nMilliseconds, one thread: from text to a network that can be asked, and for a question about it, \
         its witness replayed.\n\n| what | build | question | at most |\n|---|---:|---:|---:|\n",
    );
    for v in list {
        let cell = |s: &Spread| format!("{:.2} ({:.2}–{:.2})", s.median, s.min, s.max);
        let target = v.target.map_or(String::new(), |t| format!("{t}"));
        let _ = writeln!(out, "| {} | {} | {} | {target} |", v.name, cell(&v.build), cell(&v.ask));
    }
    out
}

impl Subject {
    fn build(&self, classes: &Classes) -> Result<World> {
        if self.is_topology {
            let topology = Topology::parse(&self.text).map_err(|e| anyhow!("{}: {e}", self.name))?;
            World::of_topology(&topology, classes, |_, _| false)
                .map_err(|e| anyhow!("{}: {}", self.name, e.join("\n")))
        } else {
            let plan = Plan::new(classes, &self.text, "bench")?;
            Ok(World::of_click(&plan))
        }
    }

    fn measure(&self, samples: usize) -> Result<Verification> {
        let classes = Classes::default();
        let (mut build, mut ask) = (Vec::new(), Vec::new());
        for _ in 0..samples {
            let start = Instant::now();
            let mut world = self.build(&classes)?;
            build.push(start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            let requirement = Requirement::parse(&self.question).map_err(|e| anyhow!("{e}"))?;
            let question = world.question(&requirement).map_err(|e| anyhow!("{e}"))?;
            let answer = world.answer(&question, Limits { paths: 1 << 20, ..Limits::of_networks() });
            ask.push(start.elapsed().as_secs_f64() * 1e3);
            ensure!(answer.status == Status::Holds, "{}: {} ({:?})", self.name, answer.status, answer.doubt);
        }
        Ok(Verification {
            name: self.name.clone(),
            build: Spread::of(build),
            ask: Spread::of(ask),
            target: self.target,
        })
    }
}

/// A tree of routers, eight below each, with a client at each: `boxes` boxes and the internet.
fn access_network(boxes: usize) -> String {
    let n = boxes / 2;
    let children = |i: usize| (8 * i + 1..=8 * i + 8).take_while(move |&c| c < n);
    let edge = |i: usize, end: usize| {
        let n = 4 * i;
        format!("172.{}.{}.{}", 16 + (n >> 16), (n >> 8) & 255, (n & 255) + end)
    };
    let (up, down) = (|i| edge(i, 1), |i| edge(i, 2));
    let prefix = |i: usize| format!("10.{}.{}.0/24", i >> 8, i & 255);
    let mut below: Vec<Vec<usize>> = (0..n).map(|i| vec![i]).collect();
    for i in (1..n).rev() {
        let own = below[i].clone();
        below[(i - 1) / 8].extend(own);
    }
    let mut out = String::from("version: 1\nboxes:\n  internet: {kind: internet}\n");
    let mut links = String::from("links:\n  - internet - r0:up\n");
    for i in 0..n {
        let _ = write!(
            out,
            "  c{i}: {{kind: client, owns: 10.{}.{}.2}}\n  r{i}:\n    kind: router\n    interfaces: {{",
            i >> 8,
            i & 255
        );
        let _ = write!(out, "up: {}/30, lan: 10.{}.{}.1/24", down(i), i >> 8, i & 255);
        for c in children(i) {
            let _ = write!(out, ", d{c}: {}/30", up(c));
        }
        let _ = write!(out, "}}\n    routes: [default via {}", up(i));
        for c in children(i) {
            for &b in &below[c] {
                let _ = write!(out, ", {} via {}", prefix(b), down(c));
            }
        }
        out.push_str("]\n");
        let _ = writeln!(links, "  - r{i}:lan - c{i}");
        for c in children(i) {
            let _ = writeln!(links, "  - r{i}:d{c} - r{c}:up");
        }
    }
    out + &links
}

/// Classifiers that take out ten kinds of packets each.
fn chain(n: usize) -> String {
    let mut out = String::new();
    for i in 0..n {
        let ports: Vec<String> = (0..9).map(|k| format!("udp dst port {}", 10 * i + k + 1)).collect();
        let _ = writeln!(out, "c{i} :: IPClassifier({}, -);", ports.join(", "));
    }
    out.push_str("FromNetfront(in) -> CheckIPHeader -> c0;\n");
    for i in 0..n {
        for k in 0..9 {
            let _ = writeln!(out, "c{i}[{k}] -> Discard;");
        }
        let next = if i + 1 < n { format!("c{}", i + 1) } else { "ToNetfront(out)".into() };
        let _ = writeln!(out, "c{i}[9] -> {next};");
    }
    out
}
