//! What the zones are: samples and the time in, alarms out. No clock and no I/O.

use std::collections::{BTreeMap, HashMap};

use crate::REPEAT;
use crate::expr::{Expr, Operator};
use crate::parts::{Measurement, Monitoring, Trigger};
use crate::window::Window;

/// The topic and message of an action that was due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The topic.
    pub topic: String,
    /// The message.
    pub message: String,
    /// What happened, as in the text: `calm->busy`.
    pub on: String,
}

/// A zone at some time.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Its name.
    pub zone: String,
    /// Whether it is entered; unknown until there were samples.
    pub entered: Option<bool>,
    /// Since when, in milliseconds of the time that samples come with.
    pub since: u64,
}

#[derive(Debug, Clone, Default)]
struct Zone {
    entered: Option<bool>,
    since: u64,
    /// What the condition says otherwise, and since when without a break.
    other: Option<(bool, u64)>,
}

/// Watches measurements.
#[derive(Debug, Clone)]
pub struct Watch {
    monitoring: Monitoring,
    due: Vec<u64>,
    last: Vec<Option<f64>>,
    windows: Windows,
    zones: Vec<Zone>,
    by_name: HashMap<String, usize>,
    /// Of each action: whether it waits for its second zone, and when it was taken last.
    armed: Vec<bool>,
    taken: Vec<Option<u64>>,
}

impl Watch {
    /// Watches what is measured from `now` on, in milliseconds.
    pub fn new(monitoring: Monitoring, now: u64) -> Watch {
        let mut windows = Windows::new();
        for a in monitoring.zones().iter().flat_map(|z| z.when.aggregates()) {
            let of_one = windows.entry(a.of.clone()).or_default();
            of_one.entry(a.max_age).or_insert_with(|| Window::new(a.max_age));
        }
        let by_name = monitoring.zones().iter().enumerate().map(|(i, z)| (z.name.clone(), i)).collect();
        Watch {
            due: vec![now; monitoring.measurements().len()],
            last: vec![None; monitoring.measurements().len()],
            windows,
            zones: vec![Zone::default(); monitoring.zones().len()],
            by_name,
            armed: vec![false; monitoring.actions().len()],
            taken: vec![None; monitoring.actions().len()],
            monitoring,
        }
    }

    /// What is watched.
    pub fn monitoring(&self) -> &Monitoring {
        &self.monitoring
    }

    /// When a sample is due next of the measurements of which `is` says so; never without any.
    pub fn next(&self, is: impl Fn(&Measurement) -> bool) -> Option<u64> {
        let all = self.monitoring.measurements().iter().zip(&self.due);
        all.filter(|(m, _)| is(m)).map(|(_, due)| *due).min()
    }

    /// The measurements that are due, by their places in [`Monitoring::measurements`].
    pub fn due(&self, now: u64) -> Vec<usize> {
        self.due.iter().enumerate().filter(|(_, due)| **due <= now).map(|(i, _)| i).collect()
    }

    /// The newest value of each measurement.
    pub fn values(&self) -> impl Iterator<Item = (&str, Option<f64>)> {
        self.monitoring.measurements().iter().map(|m| m.name.as_str()).zip(self.last.iter().copied())
    }

    /// The zones.
    pub fn states(&self) -> Vec<State> {
        let state = |(zone, state): (&crate::Zone, &Zone)| State {
            zone: zone.name.clone(),
            entered: state.entered,
            since: state.since,
        };
        self.monitoring.zones().iter().zip(&self.zones).map(state).collect()
    }

    /// Takes samples of measurements by their places; one that could not be measured has no value. Gives what is to be said now.
    pub fn take(&mut self, now: u64, samples: &[(usize, Option<f64>)]) -> Vec<Alarm> {
        for (i, value) in samples {
            let (Some(m), Some(due)) = (self.monitoring.measurements().get(*i), self.due.get_mut(*i)) else {
                continue;
            };
            // Samples that were missed are not made up for.
            *due = (*due + m.every).max(now + 1);
            let value = value.filter(|v| v.is_finite());
            if let Some(last) = self.last.get_mut(*i) {
                *last = value;
            }
            if let (Some(value), Some(of_one)) = (value, self.windows.get_mut(&m.name)) {
                of_one.values_mut().for_each(|window| window.add(now, value));
            }
        }
        self.windows.values_mut().flat_map(BTreeMap::values_mut).for_each(|window| window.forget(now));
        let before: Vec<Option<bool>> = self.zones.iter().map(|z| z.entered).collect();
        for (zone, state) in self.monitoring.zones().iter().zip(&mut self.zones) {
            if let Some(holds) = condition(&zone.when, &self.windows) {
                state.step(now, holds, zone.hold);
            } else {
                // Nothing is known: the zone stays, and what was about to change begins anew.
                state.other = None;
            }
        }
        self.act(now, &before)
    }

    fn act(&mut self, now: u64, before: &[Option<bool>]) -> Vec<Alarm> {
        let mut alarms = Vec::new();
        let (by_name, zones) = (&self.by_name, &self.zones);
        let is = |name: &str| {
            by_name.get(name).and_then(|i| zones.get(*i)).is_some_and(|z| z.entered == Some(true))
        };
        let was =
            |name: &str| by_name.get(name).and_then(|i| before.get(*i)).is_some_and(|z| *z == Some(true));
        for ((action, armed), taken) in
            self.monitoring.actions().iter().zip(&mut self.armed).zip(&mut self.taken)
        {
            let takes = match &action.on {
                Trigger::Between(a, b) => {
                    let follows = *armed && !is(a) && is(b);
                    *armed = (*armed && !follows) || (is(a) && !is(b));
                    follows
                }
                Trigger::Enter(a) => is(a) && !was(a),
                Trigger::Leave(a) => was(a) && !is(a),
                Trigger::In(a) => is(a) && (!was(a) || taken.is_none_or(|t| now.saturating_sub(t) >= REPEAT)),
            };
            if takes {
                *taken = Some(now);
                let (topic, message) = (action.topic.clone(), action.message.clone());
                alarms.push(Alarm { topic, message, on: action.on.to_string() });
            }
        }
        alarms
    }
}

impl Zone {
    fn step(&mut self, now: u64, holds: bool, hold: u64) {
        // A zone that is not entered counts as left, from the first sample on: only entering it takes the time.
        let is = *self.entered.get_or_insert_with(|| {
            self.since = now;
            false
        });
        if holds == is {
            self.other = None;
            return;
        }
        let (_, since) = *self.other.get_or_insert((holds, now));
        if now.saturating_sub(since) >= hold {
            *self = Zone { entered: Some(holds), since: now, other: None };
        }
    }
}

/// By measurement and age.
type Windows = HashMap<String, BTreeMap<u64, Window>>;

/// Whether a condition holds; unknown where a sample is missing that decides it.
fn condition(expr: &Expr, windows: &Windows) -> Option<bool> {
    let Expr::Two(operator, a, b) = expr else {
        return match expr {
            Expr::Not(a) => condition(a, windows).map(|holds| !holds),
            _ => None,
        };
    };
    if operator.of_conditions() {
        let (a, b) = (condition(a, windows), condition(b, windows));
        let decides = *operator == Operator::Or;
        return match (a, b) {
            (Some(x), _) | (_, Some(x)) if x == decides => Some(decides),
            (Some(_), Some(_)) => Some(!decides),
            _ => None,
        };
    }
    let (a, b) = (number(a, windows)?, number(b, windows)?);
    Some(match operator {
        Operator::Less => a < b,
        Operator::LessOrEqual => a <= b,
        Operator::Greater => a > b,
        Operator::GreaterOrEqual => a >= b,
        Operator::Equal => near(a, b),
        Operator::NotEqual => !near(a, b),
        _ => return None,
    })
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= f64::EPSILON * a.abs().max(b.abs()).max(1.0)
}

fn number(expr: &Expr, windows: &Windows) -> Option<f64> {
    let value = match expr {
        Expr::Number(number) => *number,
        Expr::Of(a) => windows.get(&a.of)?.get(&a.max_age)?.value(a.function)?,
        Expr::Two(operator, a, b) => {
            let (a, b) = (number(a, windows)?, number(b, windows)?);
            match operator {
                Operator::Add => a + b,
                Operator::Subtract => a - b,
                Operator::Multiply => a * b,
                Operator::Divide => a / b,
                _ => return None,
            }
        }
        Expr::Not(_) => return None,
    };
    // Of a division by 0 nothing is known.
    value.is_finite().then_some(value)
}
