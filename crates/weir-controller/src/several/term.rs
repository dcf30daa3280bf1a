//! How long a controller may take itself for the leader. Pure: times are on a clock of this machine that goes forward only.
//!
//! That is for prompt answers only: what is written is refused by etcd if the lease is over there, whatever the clocks say.

use std::time::Duration;

/// How long the lease of a controller holds that is not kept.
pub const LEASE: Duration = Duration::from_secs(3);
/// How often it is kept.
pub const KEEP: Duration = Duration::from_millis(800);

/// A lease as its holder sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    until: Duration,
}

impl Term {
    /// It was granted for so long by a request that was sent at that time.
    pub fn new(asked: Duration, life: Duration) -> Term {
        Term { until: asked + life }
    }

    /// It was kept by a request that was sent at that time: etcd counts from when the request arrived, which was not earlier.
    pub fn kept(&mut self, asked: Duration) {
        self.until = self.until.max(asked + LEASE);
    }

    /// How long it holds still.
    pub fn left(&self, now: Duration) -> Duration {
        self.until.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Requests take their time, some have no answer, and etcd's clock began at another time: who holds a lease thinks it over before etcd does.
        #[test]
        fn a_lease_is_over_for_its_holder_first(
            offset in 0u64..100_000,
            requests in proptest::collection::vec((1u64..3000, 0u64..1500, any::<bool>()), 1..20),
        ) {
            let ms = Duration::from_millis;
            let (mut now, mut term, mut there) = (0, None::<Term>, 0);
            for (pause, delay, answered) in requests {
                now += pause;
                // Over is over.
                if term.is_some() && there <= offset + now + delay {
                    break;
                }
                there = offset + now + delay + LEASE.as_millis() as u64;
                if answered {
                    term.get_or_insert(Term::new(ms(now), LEASE)).kept(ms(now));
                }
                if let Some(term) = &term {
                    prop_assert!(term.left(ms(now)) + ms(now + offset) <= ms(there));
                }
            }
        }
    }
}
