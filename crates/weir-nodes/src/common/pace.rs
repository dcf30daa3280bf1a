//! So many packets per second.

use crate::node::Ran;

/// Most packets that are due at a time, however late the clock is.
const MOST: u64 = 256;
const SECOND: u64 = 1_000_000_000;

/// Says how many packets are due. The first is due at once.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the series began; `None` before the first packet.
    start: Option<u64>,
    /// The rate of the series.
    rate: u32,
    /// Packets of the series so far.
    done: u64,
}

impl Pace {
    /// How many packets are due at `now`. They count as done.
    pub fn due(&mut self, now: u64, rate: u32) -> u64 {
        if self.start.is_none() || rate != self.rate {
            *self = Pace { start: Some(now), rate, done: 0 };
        }
        let passed = u128::from(now.saturating_sub(self.start.unwrap_or(now)));
        if rate == 0 {
            return 0;
        }
        let all = (passed * u128::from(rate) / u128::from(SECOND)) as u64 + 1;
        let due = all.saturating_sub(self.done);
        // Who is late by more does not catch up: a burst would not be a steady rate.
        self.done = all;
        due.min(MOST)
    }

    /// Until when there is nothing to do.
    pub fn next(&self) -> Ran {
        let Some(start) = self.start.filter(|_| self.rate > 0) else { return Ran::Idle };
        let wait = u128::from(self.done) * u128::from(SECOND);
        Ran::Until(start.saturating_add(wait.div_ceil(u128::from(self.rate)) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_brings_as_many_packets_as_the_rate_says() {
        let mut pace = Pace::default();
        let mut n = 0;
        let (mut now, start) = (5 * SECOND, 5 * SECOND);
        while now < start + SECOND {
            n += pace.due(now, 300);
            let Ran::Until(next) = pace.next() else { panic!("there is a next packet") };
            assert!(next > now);
            now = next;
        }
        assert_eq!(n, 300);
    }

    #[test]
    fn a_late_clock_does_not_bring_a_flood() {
        let mut pace = Pace::default();
        assert_eq!(pace.due(1, 1_000_000), 1);
        assert_eq!(pace.due(10 * SECOND, 1_000_000), MOST);
        assert_eq!(pace.due(10 * SECOND, 1_000_000), 0);
        assert_eq!(pace.due(10 * SECOND, 0), 0);
    }
}
