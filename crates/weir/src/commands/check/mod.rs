//! `weir check`.

mod change;
mod document;
mod pcap;
mod placement;

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use serde::Serialize;
use weir_check::report::Report;
use weir_check::{Answer, Question, Status, World};
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
    /// Who asks, by the name that the topology's `owners` has: check the security rules for their modules
    #[arg(long, value_name = "NAME", requires = "topology")]
    owner: Option<String>,
    /// Write the packets that show what holds or does not to this file (pcapng)
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

/// What is printed about a document without requirements.
#[derive(Serialize)]
struct Summary<'a> {
    file: &'a str,
    #[serde(flatten)]
    size: Size,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let given = given(args)?;
    if let Some(topology) = &args.topology {
        return placement::run(args, topology, &given, ui);
    }
    let Document { name, mut world, requirements, size } =
        document::load(&args.config, &args.images, &args.what_if, ui)?;
    let all: Vec<Requirement> = requirements.into_iter().chain(given).collect();
    if all.is_empty() {
        ui.print(&Summary { file: &name, size }, || format!("{name}: {} ({size})", ui.good("ok")))?;
        return Ok(());
    }
    let answers = ask(&mut world, &all, ui)?;
    let report = Report::new(&name, &world, &answers);
    if let Some(file) = &args.pcap {
        pcap::write(file, &report).with_context(|| format!("cannot write {}", file.display()))?;
    }
    ui.print(&report, || painted(&report, ui))?;
    exit(report.verdict)
}

fn exit(verdict: Status) -> Result<(), Failure> {
    match verdict {
        Status::Holds => Ok(()),
        Status::Violated => Err(Failure::Exit(1)),
        Status::Inconclusive => Err(Failure::Exit(2)),
    }
}

/// Asks all requirements of a network.
fn ask(world: &mut World, all: &[Requirement], ui: &Ui) -> Result<Vec<Answer>, Failure> {
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
    let mut answers: Vec<Answer> = Vec::new();
    for q in &questions {
        ui.progress(&q.requirement.text);
        answers.push(world.answer(q, Limits::of_networks()));
    }
    Ok(answers)
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
