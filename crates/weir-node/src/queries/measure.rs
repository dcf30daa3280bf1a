//! What is measured for queries: what the data plane and the drivers of functions count.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::timeout;
use weir_api::problem::Problem;
use weir_api::queries::{Counts, Measure, Question};
use weir_protocol::{Answer, Command, GraphFigures};
use weir_rest::usage::cpu_of;

use super::core::{Sample, Samples, Target};
use crate::connection::DataPlane;
use crate::instance::{InstanceId, Kind};
use crate::metrics::Counted;
use crate::node::{Entry, Node, View};

/// How long the data plane, or a handler, may take to answer.
const TIME: Duration = Duration::from_secs(5);

/// The base of inline functions' processor time: that of the data plane, by the cycles that their elements took of those that were
/// measured.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    engine: Option<(u32, f64)>,
    cycles: HashMap<(String, String), u64>,
    seconds: HashMap<(String, String), f64>,
}

impl Meter {
    /// The data plane, process `pid`, has taken `seconds`; and this is what was measured of each function, and of switches.
    fn count(&mut self, pid: u32, seconds: f64, cycles: HashMap<(String, String), u64>) {
        let before = self.engine.replace((pid, seconds)).filter(|(p, _)| *p == pid).map(|(_, s)| s);
        let since = |function: &(String, String), now: u64| {
            let then = self.cycles.get(function).copied().unwrap_or(0);
            // What was measured begins anew with each change of a graph.
            now.checked_sub(then).unwrap_or(now)
        };
        let taken: HashMap<_, u64> = cycles.iter().map(|(f, now)| (f.clone(), since(f, *now))).collect();
        let all: u64 = taken.values().sum();
        if let (Some(before), true) = (before, all > 0) {
            let spent = (seconds - before).max(0.0);
            for (function, taken) in taken {
                *self.seconds.entry(function).or_default() += spent * taken as f64 / all as f64;
            }
        }
        self.seconds.retain(|function, _| cycles.contains_key(function));
        self.cycles = cycles;
    }

    fn seconds(&self, graph: &str, function: &str) -> f64 {
        self.seconds.get(&(graph.to_owned(), function.to_owned())).copied().unwrap_or(0.0)
    }
}

impl<D: DataPlane> Node<D> {
    /// What the data plane counts.
    async fn figures(&self) -> Vec<GraphFigures> {
        match timeout(TIME, self.plane.call(Command::Figures)).await {
            Ok(Ok(Answer::Figures { graphs })) => graphs,
            // Without a data plane there is nothing that it counts.
            _ => Vec::new(),
        }
    }

    /// Measures what is asked. What is not there is left out.
    pub(crate) async fn measure(&self, asks: &[Question]) -> Vec<Samples> {
        let view = self.view();
        let figures = match asks.iter().any(|a| !matches!(a.measure, Measure::Lqm | Measure::Handler)) {
            true => self.figures().await,
            false => Vec::new(),
        };
        let mut counted = HashMap::new();
        for figures in &figures {
            if let Some(entry) = view.graphs.get(&figures.name) {
                counted.insert(figures.name.as_str(), self.count(entry, figures).await);
            }
        }
        if asks.iter().any(|a| a.measure == Measure::CpuUtil) {
            self.count_cycles(&view, &counted);
        }
        let mut all = Vec::new();
        for ask in asks {
            all.push(match ask.measure {
                Measure::Lqm => interfaces(),
                Measure::Handler => self.say(&view, ask).await,
                _ => self.of_functions(ask, &counted),
            });
        }
        all
    }

    fn count_cycles(&self, view: &View, counted: &HashMap<&str, Counted<'_>>) {
        let pid = view.engine.split('@').next().and_then(|pid| pid.parse().ok());
        let Some((pid, spent)) = pid.and_then(|pid| Some((pid, cpu_of(pid)?))) else { return };
        let of = |(graph, c): (&&str, &Counted<'_>)| {
            let of_function =
                |(f, (_, cycles)): (&str, (u64, u64))| (((*graph).to_owned(), f.to_owned()), cycles);
            c.measured().into_iter().map(of_function).collect::<Vec<_>>()
        };
        let cycles = counted.iter().flat_map(of).collect();
        self.meter().count(pid, spent.as_secs_f64(), cycles);
    }

    fn of_functions(&self, ask: &Question, counted: &HashMap<&str, Counted<'_>>) -> Samples {
        let mut samples = Samples::new();
        let asked = |c: &&Counted<'_>| match (&ask.graph, &ask.tenant) {
            (Some(graph), _) => c.id == graph,
            (None, Some(tenant)) => c.tenant == tenant,
            (None, None) => true,
        };
        for c in counted.values().filter(asked) {
            let memory = c.memory();
            for f in c.functions.iter().filter(|f| ask.function.as_deref().is_none_or(|id| id == f.id)) {
                let sample = match ask.measure {
                    Measure::CpuUtil if f.inline => Some(Sample::Seconds(self.meter().seconds(c.id, f.id))),
                    Measure::CpuUtil => f.usage.cpu.map(|cpu| Sample::Seconds(cpu.as_secs_f64())),
                    Measure::MemUtil => {
                        let own =
                            if f.inline { memory.get(f.id).copied().or(Some(0)) } else { f.usage.memory };
                        own.map(|bytes| Sample::Bytes(bytes, self.resources.memory))
                    }
                    _ => {
                        let [(_, packets, bytes), (_, sent, bytes_sent)] = c.passed(f);
                        let received = Counts { packets, bytes };
                        Some(Sample::Counts(received, Counts { packets: sent, bytes: bytes_sent }))
                    }
                };
                let target =
                    Target { graph: Some(c.id.into()), function: Some(f.id.into()), interface: None };
                samples.extend(sample.map(|s| (target, s)));
            }
        }
        samples
    }

    /// What a handler says.
    async fn say(&self, view: &View, ask: &Question) -> Samples {
        let said = async {
            let (graph, function) = (ask.graph.as_deref()?, ask.function.as_deref()?);
            let entry = view.graphs.get(graph)?;
            let handler = ask.handler.as_deref()?;
            let text = timeout(TIME, self.read_public(entry, function, handler)).await.ok()?.ok()?;
            let (graph, function) = (Some(graph.to_owned()), Some(function.to_owned()));
            Some((Target { graph, function, interface: None }, Sample::Text(text)))
        };
        said.await.into_iter().collect()
    }

    /// Reads a public handler.
    pub(crate) async fn read_public(&self, e: &Entry, function: &str, name: &str) -> Result<String, Problem> {
        let f = crate::rest::function(e, function)?;
        let public = crate::rest::readable(f, name)?;
        if f.kind != Kind::Inline {
            return Ok(self
                .drivers
                .get(f.kind)?
                .read(&InstanceId::new(&e.graph.id, function), &public.handler)
                .await?);
        }
        let read = Command::Read { graph: e.graph.id.clone(), handler: public.handler };
        match self.plane.call(read).await? {
            Answer::Text { text } => Ok(text),
            _ => Err(Problem::internal()),
        }
    }
}

/// What the interfaces of this machine, or network namespace, count (proc(5)).
fn interfaces() -> Samples {
    parse_interfaces(&std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default())
}

fn parse_interfaces(text: &str) -> Samples {
    let sample = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts: Vec<u64> = counts.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let received = Counts { bytes: *counts.first()?, packets: *counts.get(1)? };
        let sent = Counts { bytes: *counts.get(8)?, packets: *counts.get(9)? };
        let interface = Some(name.trim().to_owned()).filter(|name| name != "lo");
        Some((Target { interface: Some(interface?), ..Target::default() }, Sample::Counts(received, sent)))
    };
    text.lines().skip(2).filter_map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_as_the_kernel_writes_them() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs\n\
            \x20   lo:  500      5    0    0    0     0          0         0      500       5    0    0    0     0       0          0\n\
            \x20  m0: 1000      10    0    0    0     0          0         0     2000      20    0    0    0     0       0          0\n";
        let samples = parse_interfaces(text);
        let (target, sample) = samples.first_key_value().unwrap();
        assert_eq!((samples.len(), target.interface.as_deref()), (1, Some("m0")));
        let (received, sent) = (Counts { packets: 10, bytes: 1000 }, Counts { packets: 20, bytes: 2000 });
        assert_eq!(*sample, Sample::Counts(received, sent));
        assert!(parse_interfaces("nonsense").is_empty() && parse_interfaces("a\nb\nc: x").is_empty());
    }

    #[test]
    fn processor_time_goes_to_functions_by_their_cycles() {
        let mut meter = Meter::default();
        let cycles = |a, b| {
            [("a", a), ("b", b)].map(|(f, c)| (("g".to_owned(), f.to_owned()), c)).into_iter().collect()
        };
        meter.count(1, 10.0, cycles(100, 100));
        meter.count(1, 12.0, cycles(400, 200));
        assert_eq!((meter.seconds("g", "a"), meter.seconds("g", "b")), (1.5, 0.5));
        // The profile began anew; nothing was measured; another process.
        meter.count(1, 13.0, cycles(10, 0));
        assert_eq!((meter.seconds("g", "a"), meter.seconds("g", "b")), (2.5, 0.5));
        meter.count(1, 20.0, cycles(10, 0));
        meter.count(2, 1.0, cycles(10, 10));
        assert_eq!((meter.seconds("g", "a"), meter.seconds("g", "none")), (2.5, 0.0));
    }
}
