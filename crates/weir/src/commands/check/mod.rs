//! `weir check`.

mod change;
mod compare;
mod document;
mod pcap;
mod placement;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use weir_check::report::{Coverage, Finding, Report};
use weir_check::{Answer, Matching, Question, Status, World};
use weir_model::requirement::Requirement;
use weir_verify::Limits;

use super::config::ConfigArgs;
use super::read;
use crate::ui::{Failure, Ui};
use change::Change;
use document::{Document, Size};

/// Options of `weir check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    images: crate::commands::images::ImageArgs,
    /// What must hold (as 'never lan wan tcp dst port 22'); may be repeated
    #[arg(short, long = "require", value_name = "REQUIREMENT")]
    require: Vec<String>,
    /// File of requirements, one a line; may be repeated
    #[arg(long = "requirements", value_name = "FILE")]
    requirements: Vec<PathBuf>,
    /// Check a topology as if this were so: 'link A - B down' or 'box A down'; may be repeated
    #[arg(long = "what-if", value_name = "CHANGE", value_parser = Change::from_str)]
    what_if: Vec<Change>,
    /// The file is a request: try its modules on each platform of this topology
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Report what packets can and cannot reach: ports, rules and routes that are dead, reasons of drops, and whether
    /// the configuration may be consolidated with others; 'packets' shows a packet for each drop
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "short",
          conflicts_with = "topology")]
    coverage: Option<Detail>,
    /// Who asks, by the name that the topology's `owners` has: check the security rules for their modules
    #[arg(long, value_name = "NAME", requires = "topology")]
    owner: Option<String>,
    /// Most time for each requirement, in seconds: what is not known by then is inconclusive; 0 for no limit
    #[arg(long = "time-limit", value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    time: Seconds,
    /// Write the packets that show what holds or does not to this file (pcapng)
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

/// A time; none for 0.
type Seconds = Option<Duration>;

fn seconds(text: &str) -> Result<Seconds, String> {
    let wrong = || format!("'{text}' is no number of seconds: write one, such as 10 or 0.5");
    let seconds = text.parse().ok().filter(|s: &f64| *s >= 0.0).ok_or_else(wrong)?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    Ok(Some(time).filter(|_| seconds > 0.0))
}

impl Args {
    /// How far is looked for each answer.
    fn limits(&self) -> Limits {
        Limits { time: self.time, ..Limits::of_networks() }
    }

    /// Ends the program if something is asked for that means nothing where two documents are compared.
    fn assert_comparison(&self) {
        let given = [
            (!self.require.is_empty(), "--require"),
            (!self.requirements.is_empty(), "--requirements"),
            (!self.what_if.is_empty(), "--what-if"),
            (self.topology.is_some(), "--topology"),
            (self.coverage.is_some(), "--coverage"),
        ];
        if let Some((_, option)) = given.iter().find(|(given, _)| *given) {
            super::config::wrong_usage(&format!(
                "{option} does not go with two documents, which are compared; values for parameters are written NAME=VALUE"
            ));
        }
    }
}

/// How much is told about what packets reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Detail {
    /// In a line each
    Short,
    /// With a packet for each drop, and its path
    Packets,
}

/// A report, and what packets reach.
#[derive(Serialize)]
struct Both<'a> {
    #[serde(flatten)]
    report: Option<&'a Report>,
    coverage: &'a Coverage,
}

/// The text about a document without requirements.
#[derive(Serialize)]
struct Summary<'a> {
    file: &'a str,
    #[serde(flatten)]
    size: Size,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let (source, new) = args.config.some()?;
    if let Some(new) = &new {
        args.assert_comparison();
        return compare::run(args, (&source, new), ui);
    }
    let given = given(args)?;
    if let Some(topology) = &args.topology {
        return placement::run(args, topology, &given, ui);
    }
    let Document { name, mut world, requirements, size } =
        document::load(&source, &args.images, &args.what_if, ui)?;
    let all: Vec<Requirement> = requirements.into_iter().chain(given).collect();
    if let Some(detail) = args.coverage {
        return with_coverage((&name, world), &all, (detail, args), ui);
    }
    if all.is_empty() {
        ui.print(&Summary { file: &name, size }, || format!("{name}: {} ({size})", ui.good("ok")))?;
        return Ok(());
    }
    let report = if args.what_if.is_empty() {
        let answers = ask(&mut world, &all, args.limits(), ui)?;
        Report::new(&name, &world, &answers)
    } else {
        let without = document::load(&source, &args.images, &[], ui)?.world;
        ask_what_if(&name, (without, &mut world), &all, args.limits(), ui)?
    };
    if let Some(file) = &args.pcap {
        capture(file, runs_of(&report))?;
    }
    ui.print(&report, || painted(&report, ui))?;
    exit(report.verdict)
}

/// Tells what packets reach, after the report on requirements, if there are any.
fn with_coverage(
    (name, mut world): (&str, World),
    all: &[Requirement],
    (detail, args): (Detail, &Args),
    ui: &Ui,
) -> Result<(), Failure> {
    ui.progress("what packets can reach");
    let found = Coverage::of(name, &world, args.limits());
    let report = if all.is_empty() {
        None
    } else {
        let answers = ask(&mut world, all, args.limits(), ui)?;
        Some(Report::new(name, &world, &answers))
    };
    if let Some(file) = &args.pcap {
        let drop = |node: &str, reason: &str| format!("dropped at {node}: {reason}");
        let drops = found.drops.iter().map(|d| (drop(&d.node, &d.reason), d.time, d.packets.as_slice()));
        capture(file, report.iter().flat_map(runs_of).chain(drops))?;
    }
    let found = if detail == Detail::Packets { found } else { found.short() };
    ui.print(&Both { report: report.as_ref(), coverage: &found }, || {
        let text = report.as_ref().map(|r| painted(r, ui) + "\n").unwrap_or_default();
        text + &found.to_string()
    })?;
    exit(report.map_or(Status::Holds, |r| r.verdict))
}

/// The runs of a report, as a capture takes them.
fn runs_of(report: &Report) -> impl Iterator<Item = pcap::Run<'_>> {
    let comment = |f: &Finding| format!("{} ({})", f.requirement, f.verdict);
    report.findings.iter().map(move |f| (comment(f), f.time, f.packets.as_slice()))
}

fn capture<'a>(file: &Path, runs: impl Iterator<Item = pcap::Run<'a>>) -> Result<(), Failure> {
    pcap::write(file, runs).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}

fn exit(verdict: Status) -> Result<(), Failure> {
    match verdict {
        Status::Holds => Ok(()),
        Status::Violated => Err(Failure::Exit(1)),
        Status::Inconclusive => Err(Failure::Exit(2)),
    }
}

/// Asks all requirements of a network.
fn ask(world: &mut World, all: &[Requirement], limits: Limits, ui: &Ui) -> Result<Vec<Answer>, Failure> {
    let questions = questions(world, all)?;
    Ok(answers(world, &questions, limits, ui))
}

/// Asks them of a network without and with a change; what does not depend on the change is asked once.
fn ask_what_if(
    name: &str,
    (mut without, with): (World, &mut World),
    all: &[Requirement],
    limits: Limits,
    ui: &Ui,
) -> Result<Report, Failure> {
    let (before, after) = (questions(&mut without, all)?, questions(with, all)?);
    let old = answers(&without, &before, limits, ui);
    let matching = Matching::new(&without, with);
    let known: Vec<Status> = old.iter().map(|a| a.status).collect();
    let asked = before.iter().zip(old).zip(&after);
    let again = asked.map(|(was, q)| with.again(q, was, &matching, limits));
    let answers: Vec<Answer> = again.collect();
    let mut report = Report::new(name, with, &answers);
    for (finding, before) in report.findings.iter_mut().zip(known) {
        finding.without_change = Some(before);
    }
    Ok(report)
}

fn questions(world: &mut World, all: &[Requirement]) -> Result<Vec<Question>, Failure> {
    let mut questions: Vec<Question> = Vec::new();
    let mut errors = Vec::new();
    for r in all {
        match world.question(r) {
            Ok(q) => questions.push(q),
            Err(e) => errors.push(e.to_string()),
        }
    }
    if !errors.is_empty() {
        return Err(Failure::Refused(errors));
    }
    world.net.finish();
    Ok(questions)
}

fn answers(world: &World, questions: &[Question], limits: Limits, ui: &Ui) -> Vec<Answer> {
    world.answers(questions, limits, &|q| ui.progress(&format!("trying {}", q.requirement.text)))
}

/// The requirements of the command line and of files.
fn given(args: &Args) -> Result<Vec<Requirement>, Failure> {
    let mut all = Vec::new();
    let mut errors = Vec::new();
    for file in &args.requirements {
        match Requirement::parse_all(&read(file)?) {
            Ok(list) => all.extend(list),
            Err(e) => errors.extend(e.to_string().lines().map(|l| format!("{}: {l}", file.display()))),
        }
    }
    for text in &args.require {
        match Requirement::parse(text) {
            Ok(r) => all.push(Requirement { position: None, ..r }),
            Err(e) => errors.push(format!("--require '{text}': {e}")),
        }
    }
    if errors.is_empty() { Ok(all) } else { Err(Failure::Refused(errors)) }
}

/// The report with its verdicts in colour.
fn painted(report: &Report, ui: &Ui) -> String {
    let paint = |line: &str| match line.split_once(": ") {
        Some(("holds", rest)) => format!("{}: {rest}\n", ui.good("holds")),
        Some(("violated", rest)) => format!("{}: {rest}\n", ui.bad("violated")),
        Some(("inconclusive", rest)) => format!("{}: {rest}\n", ui.bold("inconclusive")),
        _ => format!("{line}\n"),
    };
    report.to_string().lines().map(paint).collect()
}
