//! How much time is left for an exploration.

use std::time::{Duration, Instant};

/// Says when the time is over that there is for a check. As long as it is not, nothing depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    until: Option<Instant>,
}

impl Deadline {
    /// One that starts now.
    pub(crate) fn start(time: Option<Duration>) -> Deadline {
        // What cannot be said as a time is never over.
        Deadline { until: time.and_then(|t| Instant::now().checked_add(t)) }
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// What is left, where there is a limit.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }
}
