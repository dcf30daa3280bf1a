//! Measures the data plane: nanoseconds per packet, compile times, memory per mapping. Never shipped.
//!
//! A full run writes `bench/RESULTS.md`, `bench/results.json` and `bench/plots/`; every run prints its report.

#![forbid(unsafe_code)]

mod apps;
mod backbone;
mod domain;
mod functions;
mod graph;
mod handwritten;
mod machine;
mod memory;
mod migration;
mod node;
mod peers;
mod placement;
mod plots;
mod ports;
mod references;
mod report;
mod requests;
mod results;
mod runner;
mod stats;
mod verify;
mod vnf;
mod workload;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;

use graph::{Built, Times};
use machine::Machine;
use results::{GraphTimes, Results};
use runner::{Sample, Subject, Variant};
use workload::catalog::{GROUPS, GROWTH, matches};
use workload::{Entry, Workload, catalog, compile};

/// As in `weir`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the data plane.
#[derive(Debug, Parser)]
struct Args {
    /// Short samples, fewer of them, tables of at most 10,000 entries; writes no files unless --out is given.
    #[arg(long)]
    quick: bool,
    /// Only workloads whose name starts with PATTERN, or is PATTERN with `*` for any characters; also `apps`, `compile`, `domain`, `functions`, `memory`, `migration`, `node`, `placement`, `ports`, `references`, `requests`, `topology`, `verify` and `vnf`. Can be repeated. Writes no files unless --out is given; what --out has of other groups stays.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Where RESULTS.md, results.json and plots go: the folder `bench` if all is measured.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Measure nothing: write the report and the plots from results.json and peers.json.
    #[arg(long, conflicts_with_all = ["quick", "only"])]
    render: bool,
    /// Minutes that packets flow through interfaces at 90 % of the no-loss rate.
    #[arg(long, value_name = "MINUTES")]
    soak: Option<f64>,
    /// Also verify this topology (of imported transfer functions, for example): from one port to all.
    #[arg(long, value_name = "FILE", env = "WEIR_BENCH_TOPOLOGY")]
    topology: Option<PathBuf>,
    /// List the workloads.
    #[arg(long)]
    list: bool,
    /// Write graph and packets of the workloads to DIR, as Click text and pcap, to measure others with them.
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    /// Print how many megabytes one of the verifier's subjects takes: this program starts itself so.
    #[arg(long, hide = true, value_name = "NUMBER")]
    verify_peak: Option<usize>,
    /// Run a data plane on this socket: this program starts itself so.
    #[arg(long, hide = true, value_name = "SOCKET")]
    engine: Option<PathBuf>,
    /// Run B of the chain A, B, C at the first port, with C at the second: this program starts itself so.
    #[arg(long, hide = true, num_args = 2, value_name = "PORT")]
    vnf_b: Vec<u16>,
    /// Send or receive the traffic of functions that move: this program starts itself so.
    #[arg(long, hide = true, num_args = 1.., value_name = "WORD")]
    move_traffic: Vec<String>,
    /// Take packets from the memif socket SOCKET: this program starts itself so.
    #[arg(long, hide = true, value_name = "SOCKET")]
    memif_sink: Option<PathBuf>,
}

impl Args {
    /// Whether a workload is wanted; a pattern that is the name of one means no other.
    fn wants(&self, name: &str, all: &[String]) -> bool {
        let fits = |p: &String| if all.contains(p) { name == p } else { matches(name, p) };
        self.only.is_empty() || self.only.iter().any(fits)
    }
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Effort {
    samples: usize,
    /// Shortest time of a sample.
    time: Duration,
    /// Most entries of a table.
    most: usize,
}

/// A graph is not built again and again when that has taken so long.
const SLOW_BUILD: Duration = Duration::from_millis(300);

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(number) = args.verify_peak {
        return verify::print_peak(number);
    }
    if let Some(socket) = &args.engine {
        return node::engine(socket);
    }
    if !args.vnf_b.is_empty() {
        return vnf::serve(&args.vnf_b);
    }
    if !args.move_traffic.is_empty() {
        return migration::traffic::run(&args.move_traffic);
    }
    if let Some(socket) = &args.memif_sink {
        return ports::memif::sink(socket);
    }
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench");
    let out = args.out.clone().unwrap_or_else(|| bench.clone());
    let peers = peers::read(&bench.join("peers.json"))?;
    if args.render {
        let text = std::fs::read_to_string(out.join("results.json")).context("reading results.json")?;
        return write(&serde_json::from_str(&text).context("results.json")?, &peers, &out);
    }
    let mut entries = catalog();
    let names: Vec<String> = entries.iter().map(|e| e.name.clone()).collect();
    entries.retain(|e| args.wants(&e.name, &names));
    if args.list {
        entries.iter().for_each(|e| println!("{:<22} {}", e.name, e.about));
        return Ok(());
    }
    let others = [
        "apps",
        "compile",
        "domain",
        "functions",
        "memory",
        "migration",
        "node",
        "placement",
        "ports",
        "references",
        "requests",
        "topology",
        "verify",
        "vnf",
    ]
    .map(|name| args.wants(name, &[]));
    let some = !entries.is_empty() || others.contains(&true) || args.topology.is_some();
    ensure!(some, "--only fits no workload; --list shows them");
    if let Some(dir) = &args.dump {
        return dump(&entries, dir);
    }
    if let Some(file) = &args.topology {
        // A mistake in it is told now, and not after all else was measured.
        backbone::load(file)?;
    }
    let (mut results, failures) = measure(&args, &entries)?;
    print!("{}", report::markdown(&results, &peers));
    // Some groups take their places among all that was measured before.
    if let (false, Ok(all)) = (args.only.is_empty(), std::fs::read_to_string(out.join("results.json"))) {
        results = serde_json::from_str::<Results>(&all).context("results.json")?.with(results);
    }
    if args.out.is_some() || (!args.quick && args.only.is_empty()) {
        write(&results, &peers, &out)?;
    }
    if !failures.is_empty() {
        bail!("not measured, because the graphs do not do their jobs:\n{}", failures.join("\n"));
    }
    Ok(())
}

fn write(results: &Results, peers: &[peers::Peer], dir: &Path) -> Result<()> {
    let plots = dir.join("plots");
    std::fs::create_dir_all(&plots)?;
    std::fs::write(dir.join("RESULTS.md"), report::markdown(results, peers))?;
    std::fs::write(dir.join("results.json"), serde_json::to_string_pretty(results)? + "\n")?;
    plots::draw(results, peers, &plots)
}

/// Writes `NAME.click`, and `NAME.pcap` with the packets, for packets on further inputs `NAME.before-INPUT.pcap`.
fn dump(entries: &[Entry], dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    for entry in entries {
        let w = entry.make(usize::MAX);
        std::fs::write(dir.join(format!("{}.click", entry.name)), &w.text)?;
        references::write_pcap(&w.frames, &dir.join(format!("{}.pcap", entry.name)))?;
        for (input, frames) in &w.before {
            references::write_pcap(frames, &dir.join(format!("{}.before-{input}.pcap", entry.name)))?;
        }
    }
    Ok(())
}

/// The results, and what failed.
fn measure(args: &Args, entries: &[Entry]) -> Result<(Results, Vec<String>)> {
    let start = Instant::now();
    let effort = if args.quick {
        Effort { samples: 3, time: Duration::from_millis(20), most: 10_000 }
    } else {
        Effort { samples: 5, time: Duration::from_millis(200), most: usize::MAX }
    };
    let mut results = Results {
        machine: Machine::this(),
        samples: effort.samples,
        sample_seconds: effort.time.as_secs_f64(),
        most_entries: Some(effort.most).filter(|_| args.quick),
        least_share: 1.0,
        run_seconds: 0.0,
        workloads: Vec::new(),
        compile: Vec::new(),
        nat_memory: Vec::new(),
        verify: Vec::new(),
        references: Vec::new(),
        ports: Vec::new(),
        functions: Vec::new(),
        vnf: Vec::new(),
        migration: Vec::new(),
        domain: Vec::new(),
        apps: Vec::new(),
        node: Vec::new(),
        requests: Vec::new(),
        placement: None,
        skipped: Vec::new(),
        later: BTreeMap::new(),
    };
    let mut failures = Vec::new();
    // First of all: tables of others would leave memory behind that these take up unseen.
    if args.wants("memory", &[]) {
        let most: &[u32] = if args.quick { &[10_000] } else { &[100_000, 1_000_000] };
        for &n in most {
            results.nat_memory.push(memory::mappings(n)?);
        }
    }
    for (group, _) in GROUPS.iter().chain([&GROWTH]) {
        let entries: Vec<&Entry> = entries.iter().filter(|e| e.group() == *group).collect();
        measure_group(&entries, effort, &mut results, &mut failures)?;
    }
    if args.wants("compile", &[]) {
        for elements in compile::ELEMENTS {
            let (built, times) = build(&compile::graph(elements), false, 2 * effort.samples)?;
            ensure!(built.forwards, "the first packet did not leave a graph of {elements} elements");
            results.compile.push(GraphTimes {
                elements,
                steps: results::compile(&built, &times),
                until_compiled: results::micros(&times, Times::until_compiled),
            });
        }
    }
    if args.wants("verify", &[]) {
        results.verify = verify::measure(effort.samples, effort.most, &mut results.skipped)?;
    }
    if let Some(file) = &args.topology {
        results.verify.extend(backbone::measure(file, effort.samples)?);
    }
    if args.wants("references", &[]) {
        results.references = references::measure(effort.samples, args.quick, &mut results.skipped);
    }
    if args.wants("ports", &[]) {
        let time = Duration::from_millis(if args.quick { 200 } else { 1000 });
        // Some seconds of the soak are part of every full run.
        let soak = args.soak.map_or(if args.quick { 0.0 } else { 10.0 }, |minutes| minutes * 60.0);
        let soak = Duration::try_from_secs_f64(soak).context("--soak")?;
        results.ports =
            ports::measure(ports::Effort { samples: effort.samples, time, soak }, &mut results.skipped);
    }
    if args.wants("functions", &[]) {
        results.functions = functions::measure(effort, args.quick, &mut results.skipped);
    }
    if args.wants("vnf", &[]) {
        let time = Duration::from_millis(if args.quick { 200 } else { 1000 });
        results.vnf = vnf::measure(effort.samples, time, &mut results.skipped);
    }
    if args.wants("migration", &[]) {
        results.migration = migration::measure(args.quick, &mut results.skipped);
    }
    if args.wants("domain", &[]) {
        results.domain = domain::measure(effort.samples, args.quick, &mut results.skipped);
    }
    if args.wants("apps", &[]) {
        let time = Duration::from_secs(if args.quick { 1 } else { 2 });
        results.apps = apps::measure(effort.samples, time, &mut results.skipped);
    }
    if args.wants("node", &[]) {
        results.node = node::measure(args.quick, &mut results.skipped);
    }
    if args.wants("requests", &[]) {
        results.requests = requests::measure(args.quick, effort.samples, &mut results.skipped);
    }
    if args.wants("placement", &[]) {
        results.placement = Some(placement::measure(args.quick)?);
    }
    results.run_seconds = start.elapsed().as_secs_f64();
    Ok((results, failures))
}

/// A workload under measurement.
struct Bench<'e> {
    entry: &'e Entry,
    workload: Workload,
    /// None for source to sink.
    built: Option<(Built, Vec<Times>)>,
}

/// Measures workloads in turns: in each round every variant of every workload once.
fn measure_group(
    entries: &[&Entry],
    effort: Effort,
    results: &mut Results,
    failures: &mut Vec<String>,
) -> Result<()> {
    let mut benches = Vec::new();
    for entry in entries {
        let missing = entry.missing();
        if !missing.is_empty() {
            results.skipped.push(format!("{}: there is no element {}", entry.name, missing.join(", ")));
            continue;
        }
        eprintln!("{}: making it", entry.name);
        let workload = entry.make(effort.most);
        let built = match workload.text.is_empty() {
            true => Ok(None),
            false => build(&workload.text, entry.all_variants, effort.samples).map(Some),
        };
        match built {
            Ok(built) => benches.push(Bench { entry, workload, built }),
            Err(e) => failures.push(format!("{}: {e:#}", entry.name)),
        }
    }
    let mut subjects = Vec::new();
    for (i, bench) in benches.iter().enumerate() {
        for variant in Variant::of(&bench.workload, bench.entry.all_variants) {
            match prepare(bench, variant) {
                Ok(subject) => subjects.push((i, variant, subject, Vec::new())),
                Err(e) => failures.push(format!("{}, {}: {e:#}", bench.entry.name, variant.name())),
            }
        }
    }
    for round in 0..effort.samples {
        if let Some(first) = entries.first() {
            eprintln!("{}: round {} of {}", first.group(), round + 1, effort.samples);
        }
        for (i, variant, subject, found) in &mut subjects {
            let bench = &benches[*i];
            let sample = subject.measure(&bench.workload.frames, effort.time);
            found.push(sample.with_context(|| format!("{}, {}", bench.entry.name, variant.name()))?);
        }
    }
    for (i, bench) in benches.iter().enumerate() {
        let mine = subjects.iter_mut().filter(|(at, ..)| *at == i);
        let variants: Vec<(Variant, Vec<Sample>)> =
            mine.map(|(_, variant, _, found)| (*variant, std::mem::take(found))).collect();
        let shares = variants.iter().flat_map(|(_, found)| found).map(Sample::share);
        results.least_share = shares.fold(results.least_share, f64::min);
        let built = bench.built.as_ref().map(|(built, times)| (built, &times[..]));
        results.workloads.push(results::workload(bench.entry, &variants, built));
    }
    Ok(())
}

/// Builds a graph several times, or once if it takes long.
fn build(text: &str, linked: bool, times: usize) -> Result<(Built, Vec<Times>)> {
    let start = Instant::now();
    let mut built = graph::build(text, linked)?;
    let mut all = vec![built.times];
    while all.len() < times && start.elapsed() < SLOW_BUILD {
        built = graph::build(text, linked)?;
        all.push(built.times);
    }
    Ok((built, all))
}

/// A variant that is ready, and does its job.
fn prepare<'b>(bench: &'b Bench<'_>, variant: Variant) -> Result<Subject<'b>> {
    let mut subject = match &bench.built {
        Some((built, _)) => Subject::new(variant, built)?,
        None => Subject::bare(),
    };
    if variant != Variant::SourceToSink {
        subject.validate(&bench.workload)?;
    }
    Ok(subject)
}
