//! Measures the data plane: nanoseconds per packet, compile times, memory per mapping. Never shipped.
//!
//! A full run writes `bench/RESULTS.md` and `bench/results.json`; every run prints its report.

#![forbid(unsafe_code)]

mod graph;
mod handwritten;
mod machine;
mod memory;
mod report;
mod runner;
mod stats;
mod workload;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use graph::{Built, Times};
use machine::Machine;
use report::{Compile, Results, Row};
use runner::{Sample, Subject, Way};
use stats::Spread;
use workload::Workload;

/// Measures the data plane.
#[derive(Debug, Parser)]
struct Args {
    /// Short samples, fewer of them; writes no files.
    #[arg(long)]
    quick: bool,
    /// Only this workload; writes no files.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// A workload under measurement.
struct Bench {
    workload: Workload,
    built: Built,
    times: Vec<Times>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let machine = Machine::this();
    let (samples, time) =
        if args.quick { (3, Duration::from_millis(20)) } else { (5, Duration::from_millis(200)) };
    let mut workloads = workload::all();
    let names: Vec<&str> = workloads.iter().map(|w| w.name).collect();
    let names = names.join(", ");
    workloads.retain(|w| args.only.as_ref().is_none_or(|only| w.name == only));
    ensure!(!workloads.is_empty(), "--only takes one of: {names}");

    let mut nat_memory = Vec::new();
    if let Some(nat) = workloads.iter().find(|w| w.name == "nat-1000") {
        let most: &[u32] = if args.quick { &[100_000] } else { &[100_000, 1_000_000] };
        for &n in most {
            nat_memory.push(memory::mappings(nat, n)?);
        }
    }

    let benches = workloads.into_iter().map(|workload| {
        let builds = (0..samples).map(|_| graph::build(&workload.text)).collect::<Result<Vec<_>>>();
        let mut builds = builds.with_context(|| format!("building {}", workload.name))?;
        let times = builds.iter().map(|b| b.times).collect();
        let built = builds.pop().context("nothing was built")?;
        Ok(Bench { workload, built, times })
    });
    let benches = benches.collect::<Result<Vec<Bench>>>()?;
    let mut subjects = Vec::new();
    for bench in &benches {
        for way in Way::of(&bench.workload) {
            let mut subject = Subject::new(way, &bench.built)?;
            let what = || format!("{}, {}", bench.workload.name, way.name());
            if way != Way::SourceToSink {
                subject.validate(&bench.workload).with_context(what)?;
            }
            subject.measure(&bench.workload.frames, time / 4).with_context(what)?;
            subjects.push((bench, way, subject, Vec::new()));
        }
    }
    for round in 0..samples {
        eprintln!("round {} of {samples}", round + 1);
        for (bench, way, subject, found) in &mut subjects {
            let sample = subject.measure(&bench.workload.frames, time);
            found.push(sample.with_context(|| format!("{}, {}", bench.workload.name, way.name()))?);
        }
    }
    let mut measured = subjects.into_iter().map(|(_, way, _, found)| (way, found));
    let mut least_share = f64::INFINITY;
    let mut reports = Vec::new();
    for bench in &benches {
        let ways: Vec<(Way, Vec<Sample>)> = measured.by_ref().take(Way::of(&bench.workload).len()).collect();
        let shares = ways.iter().flat_map(|(_, found)| found).map(Sample::share);
        least_share = shares.fold(least_share, f64::min);
        reports.push(report(bench, &ways));
    }
    let results = Results {
        machine,
        frame_len: workload::FRAME_LEN,
        samples,
        sample_seconds: time.as_secs_f64(),
        least_share,
        workloads: reports,
        nat_memory,
    };
    let text = results.markdown();
    print!("{text}");
    if !args.quick && args.only.is_none() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench");
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join("RESULTS.md"), &text)?;
        std::fs::write(dir.join("results.json"), serde_json::to_string_pretty(&results)? + "\n")?;
    }
    Ok(())
}

/// The first of `ways` is source to sink.
fn report(bench: &Bench, ways: &[(Way, Vec<Sample>)]) -> report::Workload {
    let bare: Vec<f64> = ways.iter().take(1).flat_map(|(_, found)| found).map(Sample::nanos).collect();
    let rows = ways.iter().map(|(way, found)| {
        let pairs = || found.iter().map(Sample::nanos).zip(bare.iter().copied());
        Row {
            way: way.name(),
            nanos: Spread::of(pairs().map(|(n, _)| n)),
            above: Spread::of(pairs().map(|(n, bare)| n - bare)),
            ratio: Spread::of(pairs().map(|(n, bare)| n / bare)),
        }
    });
    let step = |f: fn(&Times) -> Duration| Spread::of(bench.times.iter().map(|t| f(t).as_secs_f64() * 1e6));
    let compile = Compile {
        parse: step(|t| t.parse),
        configure: step(|t| t.configure),
        link: step(|t| t.link),
        optimise: step(|t| t.optimise),
        jit_linked: step(|t| t.jit_linked),
        jit_optimised: step(|t| t.jit_optimised),
        linked_size: bench.built.linked.size(),
        optimised_size: bench.built.optimised.size(),
    };
    report::Workload { name: bench.workload.name, about: bench.workload.about, ways: rows.collect(), compile }
}
