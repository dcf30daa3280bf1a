//! Waiting awake for the next packet: to sleep and to be woken takes the packet that comes tens of microseconds, and its sender a
//! system call.

use std::time::Duration;

/// When packets are waited for awake, and for how long.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// How long the next packet is waited for, in nanoseconds.
    most: u64,
    /// With less between two packets, in nanoseconds, traffic is dense; more is taken for `sparse`.
    dense: u64,
    sparse: u64,
    /// Mean time between two packets of late.
    gap: u64,
    /// When the last packets came.
    came_at: u64,
}

impl Default for BusyPoll {
    /// What spends no processor that sleeping would not have spent: packets that come every few microseconds.
    fn default() -> BusyPoll {
        let sparse = 50_000;
        BusyPoll { most: 20_000, dense: 5_000, sparse, gap: sparse, came_at: 0 }
    }
}

impl BusyPoll {
    /// Waits for at most this long, whenever packets come more often than that; zero: never.
    pub fn bounded(bound: Duration) -> BusyPoll {
        let most = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        let sparse = most.saturating_mul(10);
        BusyPoll { most, dense: most, sparse, gap: sparse, came_at: 0 }
    }

    /// When the last packets came, in nanoseconds.
    pub fn came_at(&self) -> u64 {
        self.came_at
    }

    /// How long to wait awake now; nothing while traffic is sparse.
    pub fn time(&self) -> Option<Duration> {
        (self.gap < self.dense).then(|| Duration::from_nanos(self.most))
    }

    /// Nothing came in that time: whoever was there has gone.
    pub fn in_vain(&mut self) {
        self.gap = self.sparse;
    }

    /// Takes note of packets that came.
    pub fn came(&mut self, n: usize, now: u64) {
        let gap = (now.saturating_sub(self.came_at) / n as u64).min(self.sparse);
        self.gap = (7 * self.gap + gap) / 8;
        self.came_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets at a pace, in nanoseconds; gives how long the next is waited for awake then.
    fn after(awake: &mut BusyPoll, start: u64, pace: u64, packets: u64) -> Option<Duration> {
        (0..packets).for_each(|i| awake.came(1, start + i * pace));
        awake.time()
    }

    #[test]
    fn dense_traffic_is_waited_for_awake_and_sparse_traffic_is_not() {
        let micros = |n| Some(Duration::from_micros(n));
        assert_eq!(BusyPoll::default().time(), None);
        assert_eq!(after(&mut BusyPoll::default(), 1_000_000_000, 1_000, 100), micros(20));
        assert_eq!(after(&mut BusyPoll::default(), 1_000_000_000, 10_000, 100), None);
    }

    #[test]
    fn the_bound_of_whoever_sets_it_decides() {
        let millis = |n| Some(Duration::from_millis(n));
        let mut awake = BusyPoll::bounded(Duration::from_millis(2));
        assert_eq!(after(&mut awake, 1_000_000_000, 1_000_000, 2), None, "two packets are no traffic");
        assert_eq!(after(&mut awake, 2_000_000_000, 1_000_000, 100), millis(2));
        awake.in_vain();
        assert_eq!(awake.time(), None, "an idle machine sleeps");
        assert_eq!(after(&mut awake, 3_000_000_000, 10_000_000, 100), None);
        let mut never = BusyPoll::bounded(Duration::ZERO);
        assert_eq!(after(&mut never, 1_000_000_000, 100, 1_000), None);
    }
}
