//! Whether a cache pays, and how large it is to be: from what lookups cost, and how often the answer was there.

/// Entries of a cache at first.
const FIRST_ENTRIES: usize = 1 << 12;
/// How much a cache grows at a time.
const GROWTH: usize = 4;
/// A cache grows to so many entries without a hit, since flows may come back later than it can remember; beyond that one
/// lookup of [`HOPE`] must hit.
const BLIND_ENTRIES: usize = 1 << 16;
const HOPE: u64 = 16;
/// Bytes of a cache at most.
const MOST_BYTES: usize = 16 << 20;
/// Nanoseconds that an answer from the cache takes.
const HIT: u64 = 3;
/// Nanoseconds that an answer takes, beside the lookup, that has to be put into the cache first.
const MISS: u64 = 8;
/// Nanoseconds that the lookups of a group cost at least for a cache to be tried.
const LEAST_COST: u64 = 8;
/// A cache grows if each lookup pays one nanosecond of so many for flows that push each other out.
const WASTE: u64 = 2;
/// Packets without the cache before it is tried again: at first, and at most.
const PAUSE: (u64, u64) = (1 << 19, 1 << 26);

/// Counts of what the lookups of a group have found since the last decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LookupCounts {
    /// Answers from the cache.
    pub hits: u64,
    /// Answers from the tables, which were put into the cache.
    pub misses: u64,
    /// Nanoseconds that the hits would have cost without the cache.
    pub spared: u64,
    /// Lookups of the leader.
    pub packets: u64,
    /// Packets whose entry pushed another flow's out.
    pub conflicts: u64,
}

/// A decision of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Go on as it is.
    Stay,
    /// Use a cache of so many entries, empty at first.
    Use(usize),
    /// Do without.
    Leave,
}

/// Decides for one group. It is asked at certain points; between them the cache is used, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    /// 0 if the cache is not used.
    entries: usize,
    most: usize,
    /// Packets until it is tried again.
    left: u64,
    /// The next pause.
    pause: u64,
}

impl Policy {
    /// For a cache that is not used yet, and may be tried at once, with entries of so many bytes.
    pub fn new(stride: usize) -> Policy {
        Policy { entries: 0, most: (MOST_BYTES / stride).max(FIRST_ENTRIES), left: 0, pause: PAUSE.0 }
    }

    /// Whether there is something to decide, after so many more packets, and so many lookups of the leader since the
    /// last decision.
    pub fn is_due(&mut self, packets: u64, lookups: u64) -> bool {
        if self.entries > 0 {
            // Fewer say little, since the first packet of each flow misses.
            return lookups >= 2 * self.entries as u64;
        }
        self.left = self.left.saturating_sub(packets);
        self.left == 0
    }

    /// Decides, when it is [due](Policy::is_due). `cost` is what all lookups of the group cost in nanoseconds.
    pub fn decide(&mut self, found: LookupCounts, cost: u64) -> Decision {
        if self.entries == 0 {
            if cost < LEAST_COST {
                self.left = PAUSE.0;
                return Decision::Stay;
            }
            self.entries = FIRST_ENTRIES;
            return Decision::Use(self.entries);
        }
        let is_wasteful = found.conflicts * (cost + MISS) * WASTE > found.packets;
        let has_hope = self.entries < BLIND_ENTRIES || found.hits * HOPE > found.hits + found.misses;
        if is_wasteful && has_hope && self.entries < self.most {
            self.entries = (self.entries * GROWTH).min(self.most);
            return Decision::Use(self.entries);
        }
        if found.spared > HIT * found.hits + MISS * found.misses {
            self.pause = PAUSE.0;
            return Decision::Stay;
        }
        self.entries = 0;
        self.left = self.pause;
        self.pause = (self.pause * 2).min(PAUSE.1);
        Decision::Leave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a cache finds if of so many packets so many hit, and the lookup costs `cost`.
    fn found(packets: u64, hits: u64, conflicts: u64, cost: u64) -> LookupCounts {
        LookupCounts { hits, misses: packets - hits, spared: hits * cost, packets, conflicts }
    }

    /// A policy that uses a cache of the largest size.
    fn grown() -> Policy {
        let mut policy = Policy::new(64);
        assert_eq!(policy.decide(LookupCounts::default(), 50), Decision::Use(FIRST_ENTRIES));
        for entries in [1 << 14, 1 << 16, 1 << 18] {
            assert_eq!(policy.decide(found(10_000, 1000, 9000, 50), 50), Decision::Use(entries));
        }
        policy
    }

    #[test]
    fn a_cache_is_tried_if_lookups_cost_something() {
        let mut policy = Policy::new(64);
        assert!(policy.is_due(1, 0));
        assert_eq!(policy.decide(LookupCounts::default(), LEAST_COST - 1), Decision::Stay);
        assert!(!policy.is_due(PAUSE.0 - 1, 0));
        assert!(policy.is_due(1, 0));
        assert_eq!(policy.decide(LookupCounts::default(), LEAST_COST), Decision::Use(FIRST_ENTRIES));
        assert!(!policy.is_due(1 << 40, 2 * FIRST_ENTRIES as u64 - 1));
        assert!(policy.is_due(1, 2 * FIRST_ENTRIES as u64));
    }

    #[test]
    fn it_grows_for_flows_that_push_each_other_out_only() {
        let mut policy = Policy::new(64);
        policy.decide(LookupCounts::default(), 50);
        assert_eq!(policy.decide(found(10_000, 5000, 0, 50), 50), Decision::Stay);
        assert_eq!(policy.decide(found(10_000, 9900, 80, 50), 50), Decision::Stay);
        assert_eq!(policy.decide(found(10_000, 9000, 1000, 50), 50), Decision::Use(4 * FIRST_ENTRIES));
        assert_eq!(grown().decide(found(10_000, 5000, 5000, 50), 50), Decision::Stay);
    }

    #[test]
    fn without_any_hit_it_grows_to_some_size_only() {
        let mut policy = Policy::new(64);
        for entries in [FIRST_ENTRIES, 1 << 14, BLIND_ENTRIES] {
            assert_eq!(policy.decide(found(10_000, 0, 10_000, 50), 50), Decision::Use(entries));
        }
        assert_eq!(policy.decide(found(10_000, 0, 10_000, 50), 50), Decision::Leave);
    }

    #[test]
    fn it_is_left_when_it_does_not_pay_and_tried_again_ever_more_seldom() {
        let mut policy = grown();
        let mut pause = PAUSE.0;
        for _ in 0..12 {
            assert_eq!(policy.decide(found(10_000, 100, 0, 50), 50), Decision::Leave);
            assert!(!policy.is_due(pause - 1, 0));
            assert!(policy.is_due(1, 0));
            pause = (2 * pause).min(PAUSE.1);
            assert_eq!(policy.decide(LookupCounts::default(), 50), Decision::Use(FIRST_ENTRIES));
        }
        assert_eq!(pause, PAUSE.1);
        // Once it pays, the next pause is short.
        assert_eq!(policy.decide(found(10_000, 9000, 0, 50), 50), Decision::Stay);
        assert_eq!(policy.decide(found(10_000, 0, 0, 50), 50), Decision::Leave);
        assert!(policy.is_due(PAUSE.0, 0));
    }

    #[test]
    fn dear_lookups_pay_at_lower_rates() {
        for (cost, hits) in [(16, 4000), (50, 1500), (250, 350)] {
            assert_eq!(grown().decide(found(10_000, hits, 0, cost), cost), Decision::Stay, "{cost}");
            assert_eq!(grown().decide(found(10_000, hits / 2, 0, cost), cost), Decision::Leave, "{cost}");
        }
    }

    #[test]
    fn traffic_without_flows_is_little_slowed_down() {
        let (mut policy, mut with, mut all) = (Policy::new(64), 0, 0);
        let (mut since, mut is_on) = (0, false);
        while all < 1 << 28 {
            all += 32;
            with += if is_on { 32 } else { 0 };
            since += if is_on { 32 } else { 0 };
            if policy.is_due(32, since) {
                let decision = policy.decide(found(since, 0, since, 50), 50);
                is_on = decision != Decision::Leave;
                since = 0;
            }
        }
        assert!(with * 100 < all, "{with} of {all}");
    }
}
