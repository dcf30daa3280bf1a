//! The samples of the last while, in bounded memory.

use std::collections::VecDeque;

use crate::expr::Function;

/// Parts of a window: what leaves it leaves by such a part.
const PARTS: u64 = 64;

/// Samples of some milliseconds of time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    begins: u64,
    last: u64,
    count: f64,
    sum: f64,
    least: f64,
    most: f64,
    newest: f64,
}

/// Samples up to an age.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Window {
    max_age: u64,
    parts: VecDeque<Part>,
}

impl Window {
    pub(crate) fn new(max_age: u64) -> Window {
        Window { max_age, parts: VecDeque::new() }
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, now: u64, value: f64) {
        self.forget(now);
        let width = (self.max_age / PARTS).max(1);
        match self.parts.back_mut().filter(|p| now.saturating_sub(p.begins) < width) {
            Some(p) => {
                p.last = now;
                p.count += 1.0;
                p.sum += value;
                p.least = p.least.min(value);
                p.most = p.most.max(value);
                p.newest = value;
            }
            None => self.parts.push_back(Part {
                begins: now,
                last: now,
                count: 1.0,
                sum: value,
                least: value,
                most: value,
                newest: value,
            }),
        }
    }

    /// Leaves out what is too old.
    pub(crate) fn forget(&mut self, now: u64) {
        while self.parts.front().is_some_and(|p| now.saturating_sub(p.last) > self.max_age) {
            self.parts.pop_front();
        }
        // A clock that is set back makes no window longer.
        while self.parts.len() as u64 > PARTS + 1 {
            self.parts.pop_front();
        }
    }

    /// What the samples come to; nothing without any.
    pub(crate) fn value(&self, function: Function) -> Option<f64> {
        let newest = self.parts.back()?;
        let values = |of: fn(&Part) -> f64| self.parts.iter().map(of);
        let value = match function {
            Function::Avg => values(|p| p.sum).sum::<f64>() / values(|p| p.count).sum::<f64>(),
            Function::Min => values(|p| p.least).fold(f64::INFINITY, f64::min),
            Function::Max => values(|p| p.most).fold(f64::NEG_INFINITY, f64::max),
            Function::Last => newest.newest,
        };
        value.is_finite().then_some(value)
    }
}
