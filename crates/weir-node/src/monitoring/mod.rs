//! The monitoring manager (COMPOSER paper section 5.8): measures what the documents of graphs ask for, and says on the stream of events what
//! their zones come to.

pub(crate) mod core;

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use weir_api::events::{Alarm, Kind};
use weir_api::queries::{Measure, Question};
use weir_api::status::MonitoringStatus;
use weir_measure::Metric;
use weir_protocol::{Answer, Command};
use weir_store::events::NewEvent;

use self::core::{Due, Monitors, Sample, Source};
use crate::connection::DataPlane;
use crate::node::Node;
use crate::queries::core::{Samples, readings};

/// How often graphs are looked at that may have a new document.
const LOOK: u64 = 200;
/// Between two samples of a rate whose risk is measured; with several, each has its turn.
const STEP: Duration = Duration::from_millis(1);
/// How long to wait if there is no such rate.
const IDLE: Duration = Duration::from_millis(LOOK);
/// After what time without another look what was measured is of no use: more than the longest between two samples.
const FORGET: Duration = Duration::from_secs(2 * 3600);
/// Handlers that are read at a time.
const HANDLERS_AT_A_TIME: usize = 16;
/// How long the data plane may take to say a count, and a function to answer a handler.
const TIME: Duration = Duration::from_secs(1);

/// Since this process looked at a clock first. Zones are not left because somebody sets the clock.
fn elapsed() -> Duration {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed()
}

fn now() -> u64 {
    elapsed().as_millis() as u64
}

impl<D: DataPlane> Node<D> {
    fn monitors(&self) -> MutexGuard<'_, Monitors> {
        self.monitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the monitoring of a graph has measured.
    pub(crate) fn monitoring_of(&self, graph: &str) -> Option<MonitoringStatus> {
        self.monitors().status(now(), graph)
    }

    /// The zones of a graph that are entered.
    pub(crate) fn entered_zones(&self, graph: &str) -> Vec<String> {
        self.monitors().entered(graph)
    }

    /// Measures what is due of a source; `before` is what queries gave last.
    async fn monitor(&self, source: Source, before: &mut BTreeMap<(String, usize), (Instant, Samples)>) {
        let due = {
            let view = self.view();
            let mut monitors = self.monitors();
            monitors.follow(now(), view.graphs.iter().map(|(id, e)| (id, &e.graph)));
            monitors.due(now(), source)
        };
        if due.is_empty() {
            return;
        }
        let asked: Vec<(&Due, Question)> = due.iter().filter_map(|d| Some((d, question(d)?))).collect();
        let asks: Vec<Question> = asked.iter().map(|(_, ask)| ask.clone()).collect();
        let answers = match source {
            Source::Counters => Vec::new(),
            Source::Figures => self.measure(&asks).await,
            // One that hangs is not waited for long, and the others are asked beside it.
            Source::Handlers => {
                let said = async |ask: &Question| {
                    timeout(TIME, self.measure(std::slice::from_ref(ask))).await.ok()?.pop()
                };
                let said = stream::iter(&asks).map(said).buffered(HANDLERS_AT_A_TIME);
                said.map(Option::unwrap_or_default).collect().await
            }
        };
        let mut samples: BTreeMap<&str, Vec<(usize, Sample)>> = BTreeMap::new();
        for ((d, ask), answer) in asked.iter().zip(answers) {
            let key = (d.graph.clone(), d.index);
            let at = Instant::now();
            let then = before.get(&key).map(|(then, samples)| (samples, (at - *then).as_secs_f64()));
            let value = readings(ask, &answer, then).first().and_then(|r| r.value);
            before.insert(key, (at, answer));
            // Queries give percent.
            let share = if matches!(d.metric, Metric::Handler(..)) { 1.0 } else { 100.0 };
            let sample = value.map_or(Sample::Nothing, |value| Sample::Value(value / share));
            samples.entry(&d.graph).or_default().push((d.index, sample));
        }
        for d in due.iter().filter(|d| question(d).is_none()) {
            let sample = match &d.metric {
                // It is made of what is sampled meanwhile.
                Metric::OverloadRisk(..) => Sample::Nothing,
                metric => {
                    let handler = if matches!(metric, Metric::Rate(..)) { "byte_count" } else { "count" };
                    match self.sum(&d.graph, &d.counters, handler).await {
                        Some((at, count)) => Sample::Count(at, count),
                        None => Sample::Nothing,
                    }
                }
            };
            samples.entry(&d.graph).or_default().push((d.index, sample));
        }
        // Of graphs that went.
        before.retain(|_, (at, _)| at.elapsed() < FORGET);
        for (graph, samples) in samples {
            let (alarms, too_many) = self.monitors().take(now(), graph, &samples);
            self.say_alarms(graph, alarms, too_many).await;
        }
    }

    async fn say_alarms(&self, graph: &str, alarms: Vec<weir_measure::Alarm>, too_many: bool) {
        let event = |a: weir_measure::Alarm| {
            let text = format!("{}: {} ({})", a.topic, a.message, a.on);
            let alarm = Some(Alarm { topic: a.topic, message: a.message, on: a.on });
            NewEvent { text, alarm, ..NewEvent::of(Kind::Alarm, Some(graph)) }
        };
        let mut events: Vec<NewEvent> = alarms.into_iter().map(event).collect();
        if too_many {
            let text =
                "its monitoring has too many alarms: some are left out; let its zones hold longer".to_owned();
            events.push(NewEvent { text, ..NewEvent::of(Kind::Alarm, Some(graph)) });
        }
        self.events.publish_all(events).await;
    }

    /// The sum of counts, and when they were read, in microseconds.
    async fn sum(&self, graph: &str, counters: &[String], handler: &str) -> Option<(u64, u64)> {
        let mut sum = None;
        for counter in counters {
            let read = Command::Read { graph: graph.to_owned(), handler: format!("{counter}.{handler}") };
            let Ok(Ok(Answer::Text { text })) = timeout(TIME, self.plane.call(read)).await else {
                return None;
            };
            sum = Some(text.trim().parse::<u64>().ok()?.saturating_add(sum.unwrap_or(0)));
        }
        sum.map(|sum| (elapsed().as_micros() as u64, sum))
    }
}

/// What is measured as queries measure it.
fn question(d: &Due) -> Option<Question> {
    let (measure, function, handler) = match &d.metric {
        Metric::Cpu(function) => (Measure::CpuUtil, function, None),
        Metric::Memory(function) => (Measure::MemUtil, function, None),
        Metric::Handler(function, handler) => (Measure::Handler, function, Some(handler.clone())),
        _ => return None,
    };
    let (graph, function) = (Some(d.graph.clone()), Some(function.clone()));
    Some(Question { measure, graph, function, tenant: None, handler })
}

/// Measures what is due, for ever.
pub(crate) async fn watch<D: DataPlane>(node: Arc<Node<D>>) {
    tokio::join!(
        watch_source(&node, Source::Counters),
        watch_source(&node, Source::Figures),
        watch_source(&node, Source::Handlers),
    );
}

async fn watch_source<D: DataPlane>(node: &Node<D>, source: Source) {
    let mut before = BTreeMap::new();
    loop {
        node.monitor(source, &mut before).await;
        let next = node.monitors().next(source).map_or(LOOK, |next| next.saturating_sub(now()));
        sleep(Duration::from_millis(next.clamp(1, LOOK))).await;
    }
}

/// Samples the rates whose risk is measured, for ever.
pub(crate) async fn sample<D: DataPlane>(node: Arc<Node<D>>) {
    let mut steps = interval(STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = node.monitors().next_rate();
        let Some((graph, index, counters)) = next else {
            sleep(IDLE).await;
            continue;
        };
        steps.tick().await;
        if let Some((at, count)) = node.sum(&graph, &counters, "byte_count").await {
            node.monitors().add_rate(&graph, index, at, count);
        }
    }
}
