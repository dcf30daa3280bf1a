//! What a run found, as data.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::graph::{Built, Times};
use crate::machine::Machine;
use crate::memory::Mappings;
use crate::ports::Figure;
use crate::references::Reference;
use crate::runner::{Sample, Variant};
use crate::stats::Spread;
use crate::verify::Verification;
use crate::workload::Entry;

/// Everything that a run found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// What it was measured on.
    pub machine: Machine,
    /// Number of samples that each median is of.
    pub samples: usize,
    /// Shortest time of a sample in seconds of the processor.
    pub sample_seconds: f64,
    /// Most entries of a table, if those of the large workloads were cut.
    pub most_entries: Option<usize>,
    /// The smallest share of a sample's time in which the thread had its processor.
    pub least_share: f64,
    /// How long the whole run took, in seconds.
    pub run_seconds: f64,
    /// Workload by workload.
    pub workloads: Vec<Workload>,
    /// Graphs of many elements.
    pub compile: Vec<GraphTimes>,
    /// Memory of source NAT.
    pub nat_memory: Vec<Mappings>,
    /// Other programs in the same run.
    pub references: Vec<Reference>,
    /// Interfaces, beside the kernel and others.
    #[serde(default)]
    pub ports: Vec<Figure>,
    /// Functions of each kind.
    #[serde(default)]
    pub functions: Vec<crate::functions::Figure>,
    /// Functions that end connections.
    #[serde(default)]
    pub vnf: Vec<crate::functions::Figure>,
    /// Functions that move between nodes.
    #[serde(default)]
    pub migration: Vec<crate::migration::Case>,
    /// Many nodes and their controller.
    #[serde(default)]
    pub domain: Vec<crate::functions::Figure>,
    /// A switch that obeys a controller.
    #[serde(default)]
    pub apps: Vec<crate::functions::Figure>,
    /// A node with many graphs.
    #[serde(default)]
    pub node: Vec<crate::node::Figure>,
    /// Graphs that their first packet starts.
    #[serde(default)]
    pub requests: Vec<crate::node::Figure>,
    /// Services on servers.
    #[serde(default)]
    pub placement: Option<crate::placement::Report>,
    /// The verifier.
    #[serde(default)]
    pub verify: Vec<Verification>,
    /// What was not measured, and why.
    pub skipped: Vec<String>,
    /// Groups that were measured by themselves, later than all else, and on what.
    #[serde(default)]
    pub later: BTreeMap<String, Machine>,
}

impl Results {
    /// These, with what a later run of some groups found in their place.
    pub fn with(mut self, part: Results) -> Results {
        let mut groups: Vec<&str> = Vec::new();
        replace(&mut self.compile, part.compile, "compile", &mut groups);
        replace(&mut self.nat_memory, part.nat_memory, "memory", &mut groups);
        replace(&mut self.verify, part.verify, "verify", &mut groups);
        replace(&mut self.references, part.references, "references", &mut groups);
        replace(&mut self.ports, part.ports, "ports", &mut groups);
        replace(&mut self.functions, part.functions, "functions", &mut groups);
        replace(&mut self.vnf, part.vnf, "vnf", &mut groups);
        replace(&mut self.migration, part.migration, "migration", &mut groups);
        replace(&mut self.domain, part.domain, "domain", &mut groups);
        replace(&mut self.apps, part.apps, "apps", &mut groups);
        replace(&mut self.node, part.node, "node", &mut groups);
        replace(&mut self.requests, part.requests, "requests", &mut groups);
        if part.placement.is_some() {
            self.placement = part.placement;
            groups.push("placement");
        }
        for new in &part.workloads {
            match self.workloads.iter_mut().find(|w| w.name == new.name) {
                Some(old) => *old = new.clone(),
                None => self.workloads.push(new.clone()),
            }
            groups.push(&new.name);
        }
        self.skipped.retain(|s| !groups.iter().any(|g| s.starts_with(&format!("{g}:"))));
        self.skipped.extend(part.skipped);
        self.later.extend(groups.into_iter().map(|g| (g.to_owned(), part.machine.clone())));
        self
    }
}

/// Takes what a group found, if it was measured.
fn replace<T>(old: &mut Vec<T>, new: Vec<T>, group: &'static str, groups: &mut Vec<&str>) {
    if !new.is_empty() {
        *old = new;
        groups.push(group);
    }
}

/// Results of a workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// What it is.
    pub about: String,
    /// Nanoseconds for a packet that it must not exceed.
    pub target: Option<f64>,
    /// The best figure of another system on this kind of machine, and which.
    pub peer: Option<(f64, String)>,
    /// The curve it is a point of, and the number of entries of its table.
    pub curve: Option<(String, usize)>,
    /// Time for a packet, variant by variant.
    pub variants: Vec<Row>,
    /// Times from text to machine code; none for source to sink.
    pub compile: Option<Compile>,
}

impl Workload {
    /// The row of a variant.
    pub fn variant(&self, variant: Variant) -> Option<&Row> {
        self.variants.iter().find(|r| r.variant == variant.name())
    }

    /// The variant that users have: machine code of the optimised program.
    pub fn total(&self) -> Option<Spread> {
        self.variant(Variant::JitOptimised).or_else(|| self.variant(Variant::SourceToSink)).map(|r| r.nanos)
    }

    /// Whether the target is reached, if there is one.
    pub fn reached(&self) -> Option<bool> {
        Some(self.total()?.median <= self.target?)
    }
}

/// The measurement of one variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub variant: String,
    /// Nanoseconds for a packet, from source to sink.
    pub nanos: Spread,
    /// What remains above source to sink, round by round.
    pub above: Spread,
}

/// Microseconds that each step takes, and the size of programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Compile {
    /// From text until a first packet is through, by the interpreter: parsing, configuration, checks, linking, tables.
    pub until_first_packet: Spread,
    /// All passes.
    pub optimise: Spread,
    /// Machine code of the program after all passes.
    pub jit: Spread,
    /// Afterwards: what works out keys of large tables ahead.
    pub ahead: Spread,
    /// Blocks and operations as linked.
    pub linked_size: (usize, usize),
    /// Blocks and operations after all passes.
    pub optimised_size: (usize, usize),
}

/// The same for a graph of many elements.
#[derive(Debug, Serialize, Deserialize)]
pub struct GraphTimes {
    /// Number of elements.
    pub elements: usize,
    /// Each step.
    pub steps: Compile,
    /// Passes and machine code together, in microseconds.
    pub until_compiled: Spread,
}

/// A measured workload: the first of `variants` is source to sink.
pub fn workload(
    entry: &Entry,
    variants: &[(Variant, Vec<Sample>)],
    built: Option<(&Built, &[Times])>,
) -> Workload {
    let bare: Vec<f64> = variants.iter().take(1).flat_map(|(_, found)| found).map(Sample::nanos).collect();
    let rows = variants.iter().map(|(variant, found)| {
        let pairs = || found.iter().map(Sample::nanos).zip(bare.iter().copied());
        Row {
            variant: variant.name().into(),
            nanos: Spread::of(pairs().map(|(n, _)| n)),
            above: Spread::of(pairs().map(|(n, bare)| n - bare)),
        }
    });
    Workload {
        name: entry.name.clone(),
        group: entry.group().into(),
        about: entry.about.clone(),
        target: entry.target,
        peer: entry.peer.map(|(ns, who)| (ns, who.into())),
        curve: entry.curve.map(|(name, n)| (name.into(), n)),
        variants: rows.collect(),
        compile: built.map(|(built, times)| compile(built, times)),
    }
}

/// How long several builds of a graph took.
pub fn compile(built: &Built, times: &[Times]) -> Compile {
    Compile {
        until_first_packet: micros(times, Times::until_first_packet),
        optimise: micros(times, |t| t.optimise),
        jit: micros(times, |t| t.jit_optimised),
        ahead: micros(times, |t| t.ahead),
        linked_size: built.linked.size(),
        optimised_size: built.optimised.size(),
    }
}

/// How long a step of several builds took, in microseconds.
pub fn micros(times: &[Times], step: impl Fn(&Times) -> Duration) -> Spread {
    Spread::of(times.iter().map(|t| step(t).as_secs_f64() * 1e6))
}
