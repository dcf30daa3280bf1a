//! Events with gaps between them, for elements that are pulled.

/// How far events may be behind their time, in nanoseconds: more is not made up for.
const LATE: u64 = 20_000_000;

/// When the next event is due.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    due: Option<u64>,
}

impl Gap {
    /// Whether an event is due at `now`. The first is due at once.
    pub fn is_due(&mut self, now: u64) -> bool {
        *self.due.get_or_insert(now) <= now
    }

    /// When the next event is due, as far as that is known.
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// An event has happened at `now`: `amount` of `rate` per second.
    pub fn happened(&mut self, now: u64, amount: u64, rate: u32) {
        let gap = u128::from(amount) * 1_000_000_000 / u128::from(rate.max(1));
        let gap = u64::try_from(gap).unwrap_or(u64::MAX);
        let due = self.due.unwrap_or(now).saturating_add(gap);
        self.due = Some(due.max(now.saturating_sub(LATE)));
    }

    /// Forgets the past: the next event is due at once.
    pub fn reset(&mut self) {
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_their_pace_and_do_not_catch_up_for_long() {
        let mut gap = Gap::default();
        let mut events = |from: u64, to: u64| {
            (from..to)
                .filter(|ms| {
                    let now = ms * 1_000_000;
                    let due = gap.is_due(now);
                    if due {
                        gap.happened(now, 1, 250);
                    }
                    due
                })
                .count()
        };
        assert_eq!(events(0, 1000), 250);
        assert!(events(5000, 6000) <= 256, "four seconds without a pull are not made up for");
    }
}
