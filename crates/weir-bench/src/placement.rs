//! The paper's experiment in placement (CHANGE deliverable D4.5, section 3.4): its algorithms and ours, beside its figures.

use std::fmt::Write;

use crate::runner::cpu_time;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use weir_placement::experiment::{Shape, bound, services};
use weir_placement::{Algorithm, Demand, Domain, Initial, Placer};

const SEED: u64 = 1;

/// The paper's configurations, in the order of its tables.
const PAPER: [(&str, Initial, bool); 6] = [
    ("R", Initial::Random, false),
    ("R+TS", Initial::Random, true),
    ("RR", Initial::RoundRobin, false),
    ("RR+TS", Initial::RoundRobin, true),
    ("S", Initial::FewestServers, false),
    ("S+TS", Initial::FewestServers, true),
];

/// Tables 3.3 and 3.4: delay bound, sequence number of the first service rejected, services accepted.
const TABLES: [(u32, [u32; 6], [u32; 6]); 11] = [
    (10, [2, 2, 2, 2, 2, 2], [9950, 9986, 10775, 10918, 10942, 11141]),
    (11, [2, 2, 327, 1194, 2, 2], [9957, 9975, 11894, 12500, 11142, 11659]),
    (12, [2, 2, 429, 2938, 4, 2], [9987, 9988, 12606, 12491, 11146, 11708]),
    (13, [2, 8, 429, 10157, 2, 172], [10009, 12460, 12627, 12510, 11200, 11882]),
    (14, [2, 8, 429, 10157, 8, 113], [10039, 12657, 12622, 12510, 11215, 11879]),
    (15, [2170, 5081, 10134, 10134, 58, 991], [11909, 13202, 12623, 12519, 11505, 11709]),
    (16, [10232, 10297, 10134, 10134, 8929, 11650], [13131, 13167, 12506, 12505, 11640, 11649]),
    (17, [10301, 10279, 10134, 10134, 10186, 11652], [13166, 13156, 12506, 12506, 11648, 11651]),
    (18, [10265, 10303, 10134, 10134, 11650, 11645], [13152, 13159, 12505, 12505, 11652, 11644]),
    (19, [10253, 10233, 10134, 10134, 11639, 11647], [13146, 13138, 12505, 12505, 11646, 11647]),
    (20, [10264, 10253, 10134, 10134, 11637, 11635], [13151, 13146, 12506, 12506, 11637, 11634]),
];

/// The results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Servers and services.
    pub size: (usize, usize),
    /// No more of the services than this can be placed at once.
    pub bound: f64,
    /// One a delay bound.
    pub delays: Vec<Delay>,
    /// How long decisions take.
    pub times: Vec<Times>,
    /// Told number of services, and how many of those that came were accepted.
    pub told: Vec<(u64, usize)>,
}

/// The results of all algorithms at a delay bound.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Delay {
    /// The bound.
    pub delay: u32,
    /// The paper's configurations, then ours, then ours with the number of services known: first rejected, accepted.
    pub found: Vec<(usize, usize)>,
}

/// Microseconds of the processor for a decision.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Times {
    /// Servers.
    pub servers: usize,
    /// Services.
    pub services: usize,
    /// Which algorithm.
    pub what: String,
    /// Of all that came.
    pub accepted: usize,
    /// Share of the upper bound, in percent.
    pub share: f64,
    /// Mean.
    pub mean: f64,
    /// 50 %, 99 % and 99.9 % take no longer; the longest.
    pub quantiles: [f64; 4],
}

/// A sequence on an empty domain.
struct Run {
    first: usize,
    accepted: usize,
    /// Nanoseconds.
    times: Vec<u64>,
}

/// Measures everything; a quick run has a fiftieth of the servers and services.
pub fn measure(quick: bool) -> Result<Report> {
    let shape = if quick { Shape::SMALL } else { Shape::PAPER };
    let count = if quick { 320 } else { 16_000 };
    let (network, access) = shape.build();
    let empty = Domain::new(network)?;
    let most = bound(empty.network(), &services(count, &access, 20, SEED));
    let mut delays = Vec::new();
    let mut times = Vec::new();
    for (delay, ..) in TABLES {
        let list = services(count, &access, delay, SEED);
        let mut found = Vec::new();
        for (name, initial, tabu) in PAPER {
            eprintln!("placement: delay bound {delay}, {name}");
            let ran = run(&empty, &list, Algorithm::Paper { initial, tabu }, None)?;
            found.push((ran.first, ran.accepted));
            if delay == 16 {
                times.push(Times::of(&shape, &list, most, name, ran));
            }
        }
        for (name, told) in OURS {
            let ran = run(&empty, &list, Algorithm::Fit, told.then_some(count as u64))?;
            found.push((ran.first, ran.accepted));
            if delay == 12 {
                times.push(Times::of(&shape, &list, most, name, ran));
            }
        }
        delays.push(Delay { delay, found });
    }
    let list = services(count, &access, 12, SEED);
    let mut told = Vec::new();
    for percent in [80, 90, 100, 110, 120] {
        let expected = (count * percent / 100) as u64;
        told.push((expected, run(&empty, &list, Algorithm::Fit, Some(expected))?.accepted));
    }
    if !quick {
        large(&mut times)?;
    }
    Ok(Report { size: (shape.racks * shape.servers, count), bound: most, delays, times, told })
}

/// Ours without and with the number of services known.
const OURS: [(&str, bool); 2] = [("Weir", false), ("Weir, number known", true)];

fn large(times: &mut Vec<Times>) -> Result<()> {
    let shape = Shape::TENFOLD;
    let (network, access) = shape.build();
    let empty = Domain::new(network)?;
    let list = services(160_000, &access, 12, SEED);
    let most = bound(empty.network(), &list);
    for (name, told) in OURS {
        eprintln!("placement: {} servers, {name}", shape.racks * shape.servers);
        let ran = run(&empty, &list, Algorithm::Fit, told.then_some(list.len() as u64))?;
        times.push(Times::of(&shape, &list, most, name, ran));
    }
    Ok(())
}

fn run(empty: &Domain, list: &[Demand], algorithm: Algorithm, expected: Option<u64>) -> Result<Run> {
    let mut domain = empty.clone();
    let mut placer = Placer::new(algorithm, SEED);
    placer.expect(expected);
    let mut run = Run { first: list.len() + 1, accepted: 0, times: Vec::with_capacity(list.len()) };
    for (n, demand) in list.iter().enumerate() {
        let start = cpu_time()?;
        let placed = placer.decide(&mut domain, demand).is_ok();
        run.times.push((cpu_time()? - start).as_nanos() as u64);
        run.accepted += usize::from(placed);
        if !placed {
            run.first = run.first.min(n + 1);
        }
    }
    domain.audit().map_err(anyhow::Error::msg).context("after a sequence of services")?;
    ensure!(domain.running() == run.accepted, "{} run, {} were accepted", domain.running(), run.accepted);
    Ok(run)
}

impl Times {
    fn of(shape: &Shape, list: &[Demand], most: f64, what: &str, run: Run) -> Times {
        let mut times = run.times;
        times.sort_unstable();
        let at = |q: f64| times[((times.len() as f64 * q) as usize).min(times.len() - 1)] as f64 / 1e3;
        Times {
            servers: shape.racks * shape.servers,
            services: list.len(),
            what: what.into(),
            accepted: run.accepted,
            share: run.accepted as f64 / most * 100.0,
            mean: times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e3,
            quantiles: [at(0.5), at(0.99), at(0.999), at(1.0)],
        }
    }
}

/// The report as tables; nothing if there is none.
pub fn markdown(report: Option<&Report>) -> String {
    let Some(report) = report else { return String::new() };
    let (servers, count) = report.size;
    let mut out = format!(
        "\n## Placement\n\nThe experiment of CHANGE D4.5, section 3.4: {count} services one by one on {servers} servers (the paper: 16000 on \
         10000), none leaves. In each cell the paper's figure, then this run's. No more than {:.0} can be placed at once (linear program). \
         `docs/placement.md` says what the paper leaves open. *Number known*: how many services will come is told before.\n",
        report.bound
    );
    type Of = (fn(&(usize, usize)) -> usize, fn(&(u32, [u32; 6], [u32; 6])) -> [u32; 6]);
    let tables: [(&str, Of); 2] = [
        ("Sequence number of the first service rejected (table 3.3)", (|f| f.0, |t| t.1)),
        ("Services accepted (table 3.4)", (|f| f.1, |t| t.2)),
    ];
    for (title, (ours, theirs)) in tables {
        _ = write!(out, "\n{title}:\n\n| delay bound |");
        let names = PAPER.iter().map(|p| p.0).chain(OURS.iter().map(|o| o.0));
        names.for_each(|name| _ = write!(out, " {name} |"));
        out += "\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        for delay in &report.delays {
            _ = write!(out, "| {} |", delay.delay);
            let paper = TABLES.iter().find(|t| t.0 == delay.delay).map(theirs);
            for (n, found) in delay.found.iter().map(ours).enumerate() {
                match paper.and_then(|p| p.get(n).copied()) {
                    Some(paper) => _ = write!(out, " {paper} / {found} |"),
                    None => _ = write!(out, " **{found}** |"),
                }
            }
            out.push('\n');
        }
    }
    out += "\nShare of the upper bound, and microseconds of the processor for a decision (the paper's algorithms at a delay bound of 16, \
            ours at 12):\n\n| | servers | services | accepted | of the bound | mean | 50 % | 99 % | 99.9 % | longest |\n\
            |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for t in &report.times {
        let [a, b, c, d] = t.quantiles;
        _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.1} % | {:.1} | {a:.1} | {b:.1} | {c:.1} | {d:.0} |",
            t.what, t.servers, t.services, t.accepted, t.share, t.mean
        );
    }
    out += "\nAccepted at a delay bound of 12 if the number of services that was told is wrong:\n\n| told | accepted |\n|---:|---:|\n";
    report.told.iter().for_each(|(told, accepted)| _ = writeln!(out, "| {told} | {accepted} |"));
    out
}
