//! What queries say, and when: pure, with the time as input.

use std::collections::{BTreeMap, BTreeSet};

use weir_api::queries::{Counts, Measure, Query, Question, Rate, Reading, Report, StandingQuery};

/// Of what something is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) graph: Option<String>,
    pub(crate) function: Option<String>,
    pub(crate) interface: Option<String>,
}

/// A measured value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Sample {
    /// What was received and sent, from some beginning on.
    Counts(Counts, Counts),
    /// Processor time, in seconds from some beginning on.
    Seconds(f64),
    /// Bytes of memory, of so many.
    Bytes(u64, u64),
    /// What a handler says.
    Text(String),
}

/// The measured values of one moment.
pub(crate) type Samples = BTreeMap<Target, Sample>;

/// Readings of what was measured, with what was before, so many seconds ago.
pub(crate) fn readings(ask: &Question, samples: &Samples, before: Option<(&Samples, f64)>) -> Vec<Reading> {
    let reading = |(target, sample): (&Target, &Sample)| {
        let before = before.filter(|(_, seconds)| *seconds > 0.0);
        let before = before.and_then(|(samples, seconds)| Some((samples.get(target)?, seconds)));
        let Target { graph, function, interface } = target.clone();
        let mut reading = Reading { graph, function, interface, ..Reading::default() };
        match sample {
            Sample::Counts(received, sent) => {
                reading.received = Some(*received);
                reading.sent = Some(*sent);
                if let Some((Sample::Counts(a, b), seconds)) = before {
                    reading.receive_rate = Some(rate(*a, *received, seconds));
                    reading.send_rate = Some(rate(*b, *sent, seconds));
                }
                let rates = reading.receive_rate.zip(reading.send_rate);
                reading.value = match ask.measure {
                    Measure::Lqm => rates.map(|(a, b)| 8.0 * (a.bytes + b.bytes)),
                    Measure::BytesCount => Some((received.bytes + sent.bytes) as f64),
                    _ => Some((received.packets + sent.packets) as f64),
                };
            }
            Sample::Seconds(now) => {
                if let Some((Sample::Seconds(then), seconds)) = before {
                    // What began anew counts from 0.
                    let taken = if now >= then { now - then } else { *now };
                    reading.value = Some(100.0 * taken / seconds);
                }
            }
            Sample::Bytes(bytes, of) => {
                reading.bytes = Some(*bytes);
                reading.value = Some(100.0 * *bytes as f64 / (*of).max(1) as f64);
            }
            Sample::Text(text) => {
                reading.value = text.trim().parse().ok().filter(|v: &f64| v.is_finite());
                reading.text = Some(text.clone());
            }
        }
        reading
    };
    samples.iter().map(reading).collect()
}

fn rate(then: Counts, now: Counts, seconds: f64) -> Rate {
    let per_second = |then: u64, now: u64| now.checked_sub(then).unwrap_or(now) as f64 / seconds;
    Rate { packets: per_second(then.packets, now.packets), bytes: per_second(then.bytes, now.bytes) }
}

/// A query, and what it has seen.
#[derive(Debug, Clone)]
struct Standing {
    query: Query,
    of_domain: bool,
    ended: bool,
    /// When it looks next.
    due: u64,
    before: Option<(u64, Samples)>,
    /// Of what the condition holds, as far as it is known.
    holds: BTreeSet<Target>,
    reports: u64,
    /// Whether there was nothing to measure.
    nothing: bool,
}

/// The results of one evaluation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Look {
    /// What is to be said, if anything.
    pub(crate) report: Option<Report>,
    /// Whether it is to be kept: it is not said again.
    pub(crate) keep: bool,
    /// Whether what was asked for vanished, or was never there.
    pub(crate) vanished: bool,
}

/// The queries of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queries {
    by_name: BTreeMap<String, Standing>,
}

impl Queries {
    /// Sets a query, which looks at once. One that is the same goes on; whether it does not.
    pub(crate) fn put(&mut self, now: u64, name: &str, query: Query, of_domain: bool, ended: bool) -> bool {
        if let Some(known) = self.by_name.get_mut(name)
            && known.query == query
        {
            known.of_domain = of_domain;
            return false;
        }
        let standing = Standing {
            query,
            of_domain,
            ended,
            due: now,
            before: None,
            holds: BTreeSet::new(),
            reports: 0,
            nothing: false,
        };
        self.by_name.insert(name.to_owned(), standing);
        true
    }

    /// Removes a query; whether there was one.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.by_name.remove(name).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// A query by its name.
    pub(crate) fn get(&self, name: &str) -> Option<StandingQuery> {
        self.by_name.get(name).map(|s| shown(name, s))
    }

    /// All of them.
    pub(crate) fn list(&self) -> Vec<StandingQuery> {
        self.by_name.iter().map(|(name, s)| shown(name, s)).collect()
    }

    /// When any looks next.
    pub(crate) fn next(&self) -> Option<u64> {
        self.by_name.values().filter(|s| !s.ended).map(|s| s.due).min()
    }

    /// Those that look now.
    pub(crate) fn due(&self, now: u64) -> Vec<(String, Question)> {
        let due = self.by_name.iter().filter(|(_, s)| !s.ended && s.due <= now);
        due.map(|(name, s)| (name.clone(), s.query.ask.clone())).collect()
    }

    /// A query has looked.
    pub(crate) fn look(&mut self, now: u64, name: &str, samples: Samples) -> Option<Look> {
        let s = self.by_name.get_mut(name).filter(|s| !s.ended)?;
        // Looks that were missed are not made up for.
        s.due = (s.due + s.query.every).max(now + 1);
        let vanished = samples.is_empty() && !s.nothing;
        s.nothing = samples.is_empty();
        let before =
            s.before.as_ref().map(|(then, samples)| (samples, now.saturating_sub(*then) as f64 / 1000.0));
        let mut all = readings(&s.query.ask, &samples, before);
        let ends = |c: &weir_api::queries::Condition| all.iter().any(|r| r.value.is_some_and(|v| c.holds(v)));
        s.ended = s.query.until.as_ref().is_some_and(ends);
        if let Some(when) = s.query.when {
            let mut holding = BTreeSet::new();
            all.retain(|r| {
                let target = Target {
                    graph: r.graph.clone(),
                    function: r.function.clone(),
                    interface: r.interface.clone(),
                };
                let Some(value) = r.value else {
                    // Nothing is known: what held goes on.
                    holding.extend(s.holds.get(&target).cloned());
                    return false;
                };
                let holds = when.holds(value);
                let begins = holds && !s.holds.contains(&target);
                if holds {
                    holding.insert(target);
                }
                begins
            });
            s.holds = holding;
        }
        s.before = Some((now, samples));
        let mut report =
            (!all.is_empty()).then(|| Report { query: name.to_owned(), readings: all, ended: false });
        if report.is_some() {
            s.reports += 1;
            s.ended |= s.query.times.is_some_and(|times| s.reports >= times);
        }
        if s.ended {
            let last = report.get_or_insert_with(|| Report {
                query: name.to_owned(),
                readings: Vec::new(),
                ended: true,
            });
            last.ended = true;
        }
        Some(Look { keep: s.query.when.is_some() || s.ended, report, vanished })
    }
}

fn shown(name: &str, s: &Standing) -> StandingQuery {
    StandingQuery { name: name.to_owned(), query: s.query.clone(), ended: s.ended, of_domain: s.of_domain }
}

#[cfg(test)]
mod tests;
