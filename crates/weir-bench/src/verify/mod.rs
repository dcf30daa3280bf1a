//! How long the verifier takes, and how much memory: generated access networks (change-d4.5.txt, section 2.5.2), long
//! chains, the paper's request; beside z3 where the same question can be put to it.

mod change;
mod texts;
mod z3;

use std::fmt::Write as _;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use weir_check::{Answer, Modules, Party, Status, World};
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_plan::{Classes, Plan};
use weir_topology::{Policy, Requester, Topology};
use weir_verify::Limits;

use crate::stats::Spread;
use texts::{PAPERS_NETWORK, PAPERS_REQUEST};
pub use z3::Reference;

/// Milliseconds that the runs of a sample take together, at least.
const SAMPLE: f64 = 100.0;

/// Times of one network.
#[derive(Debug, Serialize, Deserialize)]
pub struct Verification {
    /// What is verified.
    pub name: String,
    /// Milliseconds from text to a network that can be asked.
    pub build: Spread,
    /// Milliseconds that the question takes.
    pub ask: Spread,
    /// Milliseconds that it must not take, if that was set: the question, or all of it where `whole` is set.
    pub target: Option<f64>,
    /// Milliseconds for both, where the target is for that.
    #[serde(default)]
    pub whole: Option<Spread>,
    /// Milliseconds for both the first time in this process.
    #[serde(default)]
    pub first: Option<f64>,
    /// By how many megabytes a process grows that builds the network and asks once.
    #[serde(default)]
    pub peak: Option<f64>,
    /// What z3 takes for the question.
    #[serde(default)]
    pub reference: Option<Reference>,
}

/// The input that is built.
enum Text {
    Topology(String),
    Click(String),
    /// The paper's request, on a platform of its network where it can work.
    Request(Box<World>),
}

/// The paper's network, built.
fn papers_network(classes: &Classes) -> Result<Box<World>> {
    let topology = Topology::parse(PAPERS_NETWORK).map_err(|e| anyhow!("{e}"))?;
    let world = World::of_topology(&topology, classes, |_, _| false).map_err(|e| anyhow!(e.join("\n")))?;
    Ok(Box::new(world))
}

/// A network and what is asked of it, which has to hold.
struct Subject {
    name: String,
    text: Text,
    question: String,
    target: Option<f64>,
    /// The question for z3.
    script: Option<String>,
}

fn subjects(most: usize) -> Result<Vec<Subject>> {
    let sizes = [10, 100, 1000, 10_000].into_iter().filter(|&n| n <= most);
    let mut subjects: Vec<Subject> = sizes
        .map(|boxes| Subject {
            name: format!("access network of {boxes} boxes: can internet CLIENT"),
            text: Text::Topology(texts::access_network(boxes)),
            question: format!("can internet c{} udp dst port 1500", boxes / 2 - 1),
            target: (boxes == 1000).then_some(20.0),
            script: Some(texts::access_network_for_z3(boxes)),
        })
        .collect();
    subjects.push(Subject {
        name: "access network of 1000 boxes: only internet CLIENT".into(),
        text: Text::Topology(texts::access_network(1000)),
        question: texts::only(499),
        target: Some(20.0),
        script: None,
    });
    for n in [100, 1000] {
        subjects.push(Subject {
            name: format!("chain of {n} IPClassifiers of 10 rules: can in out udp"),
            text: Text::Click(texts::chain(n)),
            question: "can in out udp".into(),
            target: (n == 1000).then_some(50.0),
            script: Some(texts::chain_for_z3(n)),
        });
    }
    subjects.push(Subject {
        name: "chain of 1000 IPClassifiers of 10 rules: only in out not udp dst port 5".into(),
        text: Text::Click(texts::chain(1000)),
        question: "only in out not udp dst port 5".into(),
        target: None,
        script: None,
    });
    subjects.push(Subject {
        name: "the paper's network, before there is a request: can internet platform3".into(),
        text: Text::Topology(PAPERS_NETWORK.into()),
        question: "can internet platform3".into(),
        target: None,
        script: None,
    });
    subjects.push(Subject {
        name: "the paper's request on its network, which is known: module read and placed, a client's security rules, its requirement"
            .into(),
        text: Text::Request(papers_network(&Classes::default())?),
        question: String::new(),
        target: Some(1.0),
        script: None,
    });
    Ok(subjects)
}

/// Measures all. What is left out is added to `skipped`.
pub fn measure(samples: usize, most: usize, skipped: &mut Vec<String>) -> Result<Vec<Verification>> {
    let z3 = z3::is_there();
    if !z3 {
        skipped.push("z3 beside the verifier: it is not installed".into());
    }
    let measured = subjects(most)?.into_iter().enumerate().map(|(i, s)| {
        eprintln!("verify: {}", s.name);
        let mut found = s.measure(samples)?;
        found.peak = Some(peak_of(i)?);
        if let Some(script) = s.script.filter(|_| z3) {
            found.reference = Some(z3::measure(&script, samples)?);
        }
        Ok(found)
    });
    let mut all = measured.collect::<Result<Vec<_>>>()?;
    all.extend(change::measure(samples)?);
    Ok(all)
}

/// Builds one network, asks once, and prints by how many megabytes this process has grown at most: for a process that
/// has done nothing else, so that nothing grows into memory that others have freed.
pub fn print_peak(number: usize) -> Result<()> {
    let subject = subjects(usize::MAX)?.into_iter().nth(number).context("there is no such subject")?;
    let classes = Classes::default();
    let before = status("VmRSS:")?;
    subject.run(&classes)?;
    println!("{}", (status("VmHWM:")? - before).max(0.0) / 1024.0);
    Ok(())
}

/// Kilobytes that the kernel knows of this process.
fn status(what: &str) -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = text.lines().find_map(|l| l.strip_prefix(what)).with_context(|| format!("no {what}"))?;
    line.trim().trim_end_matches("kB").trim().parse().with_context(|| format!("{what} is no number of kB"))
}

fn peak_of(number: usize) -> Result<f64> {
    let program = std::env::current_exe().context("finding this program")?;
    let out = Command::new(program)
        .args(["--verify-peak", &number.to_string()])
        .output()
        .context("starting this program again")?;
    ensure!(out.status.success(), "memory: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().parse().context("memory is no number")
}

/// The section of the report.
pub fn markdown(list: &[Verification]) -> String {
    if list.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "\n## Verification\n\nMilliseconds, one thread: from text to a network that can be asked (where a route changes: the question before it), and for a \
         question about it, its witness replayed. A sample is the mean of as many runs as take a tenth of a second; of a changed route and an \
         imported network, one run. Memory: by how much a process grows that does both once. z3: the same question, of the fields that \
         count only, from the start of its process; of access networks by its engine for network reachability, of chains branch \
         by branch.\n\n| what | build | question | at most | MB | z3 | z3 / question |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for v in list {
        let target = match (v.target, &v.whole) {
            (Some(t), None) => format!("{t}"),
            (Some(t), Some(whole)) => {
                let first = v.first.map_or(String::new(), |ms| format!("; the first time {ms:.2}"));
                format!("{t} for both: {}{first}", whole.show(2))
            }
            (None, _) => String::new(),
        };
        let peak = v.peak.map_or(String::new(), |mb| format!("{mb:.1}"));
        let over = |r: &Reference| if r.stopped { "over " } else { "" };
        let (z3, ratio) = v.reference.as_ref().map_or((String::new(), String::new()), |r| {
            let ratio = r.time.median / v.ask.median;
            (format!("{}{}", over(r), r.time.show(0)), format!("{}{ratio:.1}", over(r)))
        });
        let _ = writeln!(
            out,
            "| {} | {} | {} | {target} | {peak} | {z3} | {ratio} |",
            v.name,
            v.build.show(2),
            v.ask.show(2)
        );
    }
    out
}

impl Subject {
    /// The network, and what is asked of it.
    fn build(&self, classes: &Classes) -> Result<(World, Vec<Requirement>)> {
        let wrong = |e: &[String]| anyhow!("{}: {}", self.name, e.join("\n"));
        let topology = |text: &str| Topology::parse(text).map_err(|e| anyhow!("{}: {e}", self.name));
        let question = || Requirement::parse(&self.question).map(|r| vec![r]).map_err(|e| anyhow!("{e}"));
        match &self.text {
            Text::Topology(text) => {
                let world = World::of_topology(&topology(text)?, classes, |_, _| false);
                Ok((world.map_err(|e| wrong(&e))?, question()?))
            }
            Text::Click(text) => Ok((World::of_click(&Plan::new(classes, text, "bench")?), question()?)),
            Text::Request(network) => {
                let request = Request::parse(PAPERS_REQUEST).map_err(|e| anyhow!("{}: {e}", self.name))?;
                let modules = Modules::new(classes, &request, "request").map_err(|e| wrong(&e))?;
                let world = network
                    .with_modules(&modules, "platform3", &Default::default())
                    .map_err(|e| wrong(&e))?;
                Ok((world, request.requirements))
            }
        }
    }

    /// Milliseconds that building and asking take.
    fn run(&self, classes: &Classes) -> Result<(f64, f64)> {
        let start = Instant::now();
        let (mut world, requirements) = self.build(classes)?;
        let build = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let mut questions = Vec::new();
        for requirement in requirements {
            questions.push(world.question(&requirement).map_err(|e| anyhow!("{e}"))?);
        }
        world.net.finish();
        for question in questions {
            let limits = Limits { paths: 1 << 20, ..Limits::of_networks() };
            self.expect(&world.answer(&question, limits))?;
        }
        if let Text::Request(_) = self.text {
            let client = Party { role: Requester::Client, registered: Vec::new(), modules: Vec::new() };
            for answer in world.security(&client, &Policy::default(), Limits::of_networks()) {
                self.expect(&answer)?;
            }
        }
        Ok((build, start.elapsed().as_secs_f64() * 1e3))
    }

    fn expect(&self, answer: &Answer) -> Result<()> {
        ensure!(answer.status == Status::Holds, "{}: {} ({:?})", self.name, answer.status, answer.doubt);
        Ok(())
    }

    /// The same, as the mean of so many runs as take [`SAMPLE`].
    fn sample(&self, classes: &Classes) -> Result<(f64, f64)> {
        let (mut build, mut ask, mut runs) = (0.0, 0.0, 0.0);
        while build + ask < SAMPLE {
            let once = self.run(classes)?;
            (build, ask, runs) = (build + once.0, ask + once.1, runs + 1.0);
        }
        Ok((build / runs, ask / runs))
    }

    fn measure(&self, samples: usize) -> Result<Verification> {
        let classes = Classes::default();
        let first = self.run(&classes)?;
        let times = (0..samples).map(|_| self.sample(&classes)).collect::<Result<Vec<_>>>()?;
        let is_whole = matches!(self.text, Text::Request(_));
        Ok(Verification {
            name: self.name.clone(),
            build: Spread::of(times.iter().map(|t| t.0)),
            ask: Spread::of(times.iter().map(|t| t.1)),
            target: self.target,
            whole: is_whole.then(|| Spread::of(times.iter().map(|t| t.0 + t.1))),
            first: Some(first.0 + first.1),
            peak: None,
            reference: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_holds_and_z3_says_the_same() {
        let classes = Classes::default();
        for boxes in [4, 40] {
            let subject = Subject {
                name: "small".into(),
                text: Text::Topology(texts::access_network(boxes)),
                question: format!("can internet c{} udp dst port 1500", boxes / 2 - 1),
                target: None,
                script: Some(texts::access_network_for_z3(boxes)),
            };
            subject.run(&classes).unwrap();
            if z3::is_there() {
                z3::measure(subject.script.as_deref().unwrap(), 1).unwrap();
            }
        }
        let chain = Subject {
            name: "small".into(),
            text: Text::Click(texts::chain(3)),
            question: "only in out not udp dst port 29".into(),
            target: None,
            script: Some(texts::chain_for_z3(3)),
        };
        chain.run(&classes).unwrap();
        if z3::is_there() {
            z3::measure(chain.script.as_deref().unwrap(), 1).unwrap();
        }
    }

    #[test]
    fn the_papers_request_may_be_placed() {
        let subject = Subject {
            name: "request".into(),
            text: Text::Request(papers_network(&Classes::default()).unwrap()),
            question: String::new(),
            target: None,
            script: None,
        };
        subject.run(&Classes::default()).unwrap();
    }

    #[test]
    fn the_report_shows_ratios_and_what_is_missing() {
        let spread = |ms| Spread { median: ms, min: ms, max: ms };
        let one = |reference| Verification {
            name: "n".into(),
            build: spread(1.0),
            ask: spread(2.0),
            target: Some(20.0),
            whole: None,
            first: None,
            peak: Some(3.0),
            reference,
        };
        let text = markdown(&[one(Some(Reference { time: spread(50.0), stopped: true })), one(None)]);
        assert!(text.contains("| 20 | 3.0 | over 50 (50–50) | over 25.0 |"), "{text}");
        assert!(text.contains("| 20 | 3.0 |  |  |"), "{text}");
    }
}
