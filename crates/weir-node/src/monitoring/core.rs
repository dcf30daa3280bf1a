//! Which samples are due, and what graphs' monitoring says to them: pure, with the time as input.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_api::status::{MeasurementStatus, MonitoringStatus, ZoneStatus};
use weir_measure::risk::Moments;
use weir_measure::{Alarm, Direction, Metric, Monitoring, Of, Watch};
use weir_model::graph::ServiceGraph;

use crate::desired::DesiredGraph;

/// Most alarms of a graph in [`PERIOD`]; more are counted, and that is said.
const MAX_ALARMS: u64 = 100;
/// In milliseconds.
const PERIOD: u64 = 10_000;

/// Counters that are added: elements of the graph's configuration.
type Counters = Vec<String>;

/// How a rate is made of counts.
#[derive(Debug, Clone, Default)]
struct Counted {
    counters: Counters,
    /// The time in microseconds, and the count.
    before: Option<(u64, u64)>,
    /// Of a measurement of risk: the rates since the last sample.
    rates: Moments,
}

impl Counted {
    /// What was counted a second since the look before.
    fn rate(&mut self, micros: u64, count: u64) -> Option<f64> {
        let (then, before) = self.before.replace((micros, count))?;
        // What begins anew counts from 0.
        let more = count.checked_sub(before).unwrap_or(count);
        (micros > then).then(|| more as f64 * 1e6 / (micros - then) as f64)
    }
}

/// The monitoring of a graph.
#[derive(Debug)]
struct Monitor {
    graph: Arc<DesiredGraph>,
    watch: Watch,
    /// By measurement.
    counted: BTreeMap<usize, Counted>,
    /// When the period began, and how many alarms there were in it.
    said: (u64, u64),
}

/// A measurement whose time has come.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Due {
    pub(super) graph: String,
    /// Its place in the monitoring.
    pub(super) index: usize,
    pub(super) metric: Metric,
    /// What has to be read for it, if it is made of counts.
    pub(super) counters: Counters,
}

/// Where the samples of a metric come from: each is asked apart from the others, so that none waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Counters of the data plane.
    Counters,
    /// The figures of all functions.
    Figures,
    /// Handlers, which may hang.
    Handlers,
}

impl Source {
    fn of(metric: &Metric) -> Source {
        match metric {
            Metric::Cpu(_) | Metric::Memory(_) => Source::Figures,
            Metric::Handler(..) => Source::Handlers,
            Metric::Rate(..) | Metric::Packets(..) | Metric::OverloadRisk(..) => Source::Counters,
        }
    }
}

/// A value that was measured, or what it is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sample {
    /// The value itself.
    Value(f64),
    /// A count at a time in microseconds.
    Count(u64, u64),
    /// Nothing: it is of what was sampled meanwhile, or could not be measured.
    Nothing,
}

/// The monitoring of a node's graphs.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    by_graph: BTreeMap<String, Monitor>,
    /// Whose rate is sampled next.
    turn: usize,
}

impl Monitors {
    /// Follows what graphs there are. The monitoring of one whose document says the same goes on.
    pub(super) fn follow<'a>(
        &mut self,
        now: u64,
        graphs: impl Iterator<Item = (&'a String, &'a Arc<DesiredGraph>)>,
    ) {
        let mut there = BTreeMap::new();
        for (id, graph) in graphs.filter(|(_, g)| g.document.get("monitoring").is_some()) {
            let known = self.by_graph.remove(id);
            if let Some(known) = known {
                if Arc::ptr_eq(&known.graph, graph) {
                    there.insert(id.clone(), known);
                    continue;
                }
                let same = known.graph.document.get("monitoring") == graph.document.get("monitoring");
                if let Some(monitor) = Monitor::new(now, graph) {
                    let watch = if same { known.watch } else { monitor.watch };
                    let said = known.said;
                    there.insert(id.clone(), Monitor { watch, said, ..monitor });
                }
                continue;
            }
            there.extend(Monitor::new(now, graph).map(|m| (id.clone(), m)));
        }
        self.by_graph = there;
    }

    /// When a sample of a source is due next.
    pub(super) fn next(&self, source: Source) -> Option<u64> {
        self.by_graph.values().filter_map(|m| m.watch.next(|m| Source::of(&m.metric) == source)).min()
    }

    /// The samples of a source that are due.
    pub(super) fn due(&self, now: u64, source: Source) -> Vec<Due> {
        let of_one = |(id, m): (&String, &Monitor)| {
            let due = |index: usize| {
                let metric = m.watch.monitoring().measurements().get(index)?.metric.clone();
                if Source::of(&metric) != source {
                    return None;
                }
                let counters = m.counted.get(&index).map(|c| c.counters.clone()).unwrap_or_default();
                Some(Due { graph: id.clone(), index, metric, counters })
            };
            m.watch.due(now).into_iter().filter_map(due).collect::<Vec<_>>()
        };
        self.by_graph.iter().flat_map(of_one).collect()
    }

    /// Takes samples of a graph's measurements by their places, and says what there is to say; and whether alarms are left out from
    /// now on, for this period.
    pub(super) fn take(&mut self, now: u64, graph: &str, samples: &[(usize, Sample)]) -> (Vec<Alarm>, bool) {
        let Some(m) = self.by_graph.get_mut(graph) else { return (Vec::new(), false) };
        let mut values = Vec::with_capacity(samples.len());
        for (index, sample) in samples {
            let metric = m.watch.monitoring().measurements().get(*index).map(|m| m.metric.clone());
            let counted = m.counted.get_mut(index);
            let value = match (sample, metric, counted) {
                (Sample::Value(value), ..) => Some(*value),
                (Sample::Count(micros, count), Some(metric), Some(counted)) => {
                    let bits = if matches!(metric, Metric::Rate(..)) { 8.0 } else { 1.0 };
                    counted.rate(*micros, *count).map(|rate| rate * bits)
                }
                (Sample::Nothing, Some(Metric::OverloadRisk(_, _, capacity)), Some(counted)) => {
                    std::mem::take(&mut counted.rates).risk(capacity as f64)
                }
                _ => None,
            };
            values.push((*index, value));
        }
        let mut alarms = m.watch.take(now, &values);
        if now.saturating_sub(m.said.0) >= PERIOD {
            m.said = (now, 0);
        }
        let before = m.said.1;
        m.said.1 += alarms.len() as u64;
        alarms.truncate(usize::try_from(MAX_ALARMS.saturating_sub(before)).unwrap_or(usize::MAX));
        (alarms, before <= MAX_ALARMS && m.said.1 > MAX_ALARMS)
    }

    /// The rate to be sampled now of those whose risk is measured, one after the other: its graph, place and counters.
    pub(super) fn next_rate(&mut self) -> Option<(String, usize, Counters)> {
        let of_risk = |m: &Monitor, index: &usize| {
            let metric = m.watch.monitoring().measurements().get(*index).map(|m| &m.metric);
            matches!(metric, Some(Metric::OverloadRisk(..)))
        };
        let all = self.by_graph.iter().flat_map(|(id, m)| {
            m.counted
                .iter()
                .filter(move |(index, _)| of_risk(m, index))
                .map(move |(index, c)| (id, *index, c))
        });
        let all: Vec<_> = all.collect();
        self.turn = self.turn.wrapping_add(1);
        let (id, index, counted) = all.get(self.turn.checked_rem(all.len())?)?;
        Some(((*id).clone(), *index, counted.counters.clone()))
    }

    /// A rate was sampled.
    pub(super) fn add_rate(&mut self, graph: &str, index: usize, micros: u64, count: u64) {
        let counted = self.by_graph.get_mut(graph).and_then(|m| m.counted.get_mut(&index));
        if let Some(counted) = counted
            && let Some(rate) = counted.rate(micros, count)
        {
            counted.rates.add(rate * 8.0);
        }
    }

    /// What the monitoring of a graph has measured; nothing without any.
    pub(super) fn status(&self, now: u64, graph: &str) -> Option<MonitoringStatus> {
        let m = self.by_graph.get(graph)?;
        let metrics = m.watch.monitoring().measurements().iter().map(|m| m.metric.name().to_owned());
        let measurement = |((name, value), metric): ((&str, Option<f64>), String)| MeasurementStatus {
            name: name.to_owned(),
            metric,
            value,
        };
        let zone = |s: weir_measure::State| ZoneStatus {
            name: s.zone,
            entered: s.entered,
            age: s.entered.map_or(0, |_| now.saturating_sub(s.since)),
        };
        Some(MonitoringStatus {
            measurements: m.watch.values().zip(metrics).map(measurement).collect(),
            zones: m.watch.states().into_iter().map(zone).collect(),
        })
    }

    /// The zones of a graph that are entered.
    pub(super) fn entered(&self, graph: &str) -> Vec<String> {
        let states = self.by_graph.get(graph).map(|m| m.watch.states()).unwrap_or_default();
        states.into_iter().filter(|s| s.entered == Some(true)).map(|s| s.zone).collect()
    }
}

impl Monitor {
    /// Nothing if the document has no monitoring that can be read: it could when it was applied.
    fn new(now: u64, graph: &Arc<DesiredGraph>) -> Option<Monitor> {
        let document = ServiceGraph::from_json(&graph.document.to_string()).ok()?;
        let monitoring: Monitoring = document.monitoring.clone()?;
        let mut counted = BTreeMap::new();
        for (index, m) in monitoring.measurements().iter().enumerate() {
            let (Metric::Rate(direction, of)
            | Metric::Packets(direction, of)
            | Metric::OverloadRisk(direction, of, _)) = &m.metric
            else {
                continue;
            };
            let counters = counters(graph, &document, *direction, of);
            counted.insert(index, Counted { counters, ..Counted::default() });
        }
        Some(Monitor { graph: graph.clone(), watch: Watch::new(monitoring, now), counted, said: (now, 0) })
    }
}

/// The counters of what something receives, or sends.
fn counters(graph: &DesiredGraph, document: &ServiceGraph, direction: Direction, of: &Of) -> Counters {
    let at_port = |function: &str, port: usize| {
        let f = graph.functions.iter().find(|f| f.id == function && port < f.ports)?;
        let inline = f.kind == crate::instance::Kind::Inline;
        let (sends, receives) = weir_switch::config::counters(&f.element, inline, port);
        Some(if direction == Direction::Rx { receives } else { sends })
    };
    let ports = |id: &str| {
        let f = document.functions.iter().find(|f| f.id.as_str() == id);
        f.map(|f| f.ports.iter().map(|p| p.id.as_str()).collect::<Vec<_>>()).unwrap_or_default()
    };
    match of {
        Of::Function(id) => (0..ports(id).len()).filter_map(|port| at_port(id, port)).collect(),
        Of::Port(id, port) => {
            ports(id).iter().position(|p| p == port).and_then(|port| at_port(id, port)).into_iter().collect()
        }
        Of::Sap(id) => {
            let found = graph.attachments.iter().find(|a| a.sap == *id);
            let name = |element: &String| match direction {
                Direction::Rx => element.clone(),
                Direction::Tx => format!("{element}_out"),
            };
            found.map(|a| name(&a.element)).into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{desired, wire};

    fn graph(monitoring: &str) -> Arc<DesiredGraph> {
        let text = wire("g", "eth1", "eth2");
        Arc::new(desired(&format!("{text}monitoring: '{monitoring}'\n")))
    }

    const RATE: &str = r#"measurements { m = rate.rx(sap = l, every = "100 ms"); }
        zones { z = LAST(val = m, max_age = "1 second") > 1000 for "0 ms"; }
        actions { ->z = Publish(topic = "t", message = "on"); z-> = Publish(topic = "t", message = "off"); }"#;

    /// Samples a graph that receives so many bytes in each tenth of a second.
    fn run(monitors: &mut Monitors, from: u64, bytes: &[u64]) -> Vec<(u64, String)> {
        let (mut said, mut count) = (Vec::new(), 0);
        for (i, more) in bytes.iter().enumerate() {
            let now = from + i as u64 * 100;
            count += more;
            let samples: Vec<_> = monitors
                .due(now, Source::Counters)
                .iter()
                .map(|d| (d.index, Sample::Count(now * 1000, count)))
                .collect();
            said.extend(monitors.take(now, "g", &samples).0.into_iter().map(|a| (now, a.message)));
        }
        said
    }

    #[test]
    fn rates_are_made_of_counts_and_zones_of_rates() {
        let (mut monitors, graph) = (Monitors::default(), graph(RATE));
        let id = "g".to_owned();
        monitors.follow(0, [(&id, &graph)].into_iter());
        assert!(monitors.due(0, Source::Handlers).is_empty());
        let due = monitors.due(0, Source::Counters);
        assert_eq!((due.len(), &*due[0].counters), (1, &["sap_l".to_owned()][..]));
        // 20 bytes in 100 ms are 1600 bit/s.
        assert_eq!(run(&mut monitors, 0, &[0, 20, 20, 5, 5]), [(100, "on".into()), (300, "off".into())]);
        let status = monitors.status(500, "g").unwrap();
        assert_eq!((status.measurements[0].value, &*status.measurements[0].metric), (Some(400.0), "rate.rx"));
        assert_eq!((status.zones[0].entered, status.zones[0].age), (Some(false), 200));
        assert_eq!(monitors.status(0, "other"), None);
    }

    #[test]
    fn a_changed_graph_whose_monitoring_is_the_same_stays_in_its_zones() {
        let (mut monitors, id) = (Monitors::default(), "g".to_owned());
        monitors.follow(0, [(&id, &graph(RATE))].into_iter());
        run(&mut monitors, 0, &[0, 20]);
        assert_eq!(monitors.entered("g"), ["z"]);
        monitors.follow(150, [(&id, &graph(RATE))].into_iter());
        assert_eq!(monitors.entered("g"), ["z"]);
        monitors.follow(150, [(&id, &graph(&RATE.replace("1000", "1001")))].into_iter());
        assert!(monitors.entered("g").is_empty());
        monitors.follow(150, [].into_iter());
        assert_eq!((monitors.next(Source::Counters), monitors.status(150, "g")), (None, None));
    }

    #[test]
    fn a_risk_is_of_the_rates_since_the_last_sample() {
        let text = r#"measurements { m = overload.risk.tx(sap = r, capacity = "8 Mbit/s"); n = rate.tx(sap = r); }
            zones { z = LAST(val = m, max_age = "1 second") > 0.5; }"#;
        let (mut monitors, graph, id) = (Monitors::default(), graph(text), "g".to_owned());
        monitors.follow(0, [(&id, &graph)].into_iter());
        // 1000 bytes in a millisecond are 8 Mbit/s: twice that, then half.
        for (second, bytes, risk) in [(0, 2000, 1.0), (1, 500, 0.0)] {
            let mut count = 0;
            for i in 0..100 {
                assert_eq!(monitors.next_rate(), Some((id.clone(), 0, vec!["sap_r_out".to_owned()])));
                count += bytes;
                monitors.add_rate("g", 0, second * 1_000_000 + i * 1000, count);
            }
            let now = second * 1000 + 100;
            monitors.take(now, "g", &[(0, Sample::Nothing)]);
            let value = monitors.status(now, "g").unwrap().measurements[0].value.unwrap();
            assert!((value - risk).abs() < 0.01, "{value}");
        }
        monitors.take(3000, "g", &[(0, Sample::Nothing)]);
        assert_eq!(monitors.status(3000, "g").unwrap().measurements[0].value, None, "no rates, no risk");
    }

    #[test]
    fn too_many_alarms_are_left_out_and_that_is_said_once() {
        let (mut monitors, id) = (Monitors::default(), "g".to_owned());
        let text = RATE.replace("100 ms", "10 ms");
        monitors.follow(0, [(&id, &graph(&text))].into_iter());
        let (mut said, mut notices) = (0, Vec::new());
        for i in 0..1_000 {
            let rate = if i % 2 == 0 { 2000.0 } else { 0.0 };
            let (alarms, too_many) = monitors.take(i * 9, "g", &[(0, Sample::Value(rate))]);
            said += alarms.len() as u64;
            notices.extend(too_many.then_some(i));
        }
        assert_eq!(
            (said, notices),
            (MAX_ALARMS, vec![MAX_ALARMS]),
            "said once, with the first that is left out"
        );
    }
}
