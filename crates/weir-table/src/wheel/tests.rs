//! The wheel against its contract and against a plain heap.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// All timers due at `now`, in the order given.
fn drain(wheel: &mut Wheel, now: u64) -> Vec<(u64, u32)> {
    std::iter::from_fn(|| wheel.next_due(now)).collect()
}

/// Chunks the wheel holds, in use or free.
fn chunks(wheel: &Wheel) -> usize {
    let buckets = wheel.levels.iter().flat_map(|level| level.buckets.iter());
    let mut count = 0;
    for mut chunk in buckets.chain([&wheel.free]) {
        while let Some(here) = chunk {
            count += 1;
            chunk = &here.next;
        }
    }
    count
}

#[test]
fn a_timer_is_given_once_and_not_a_nanosecond_early() {
    for when in [1, 1 << TICK, (1 << TICK) - 1, 1_000_000_007, 300_000_000_000, u64::MAX >> 1, u64::MAX] {
        let mut wheel = Wheel::new();
        wheel.arm(when, 7);
        assert_eq!(wheel.next_at(), Some(when));
        assert_eq!(wheel.next_due(when - 1), None, "{when}");
        assert_eq!((wheel.next_at(), wheel.len()), (Some(when), 1));
        assert_eq!(wheel.next_due(when), Some((when, 7)));
        assert_eq!(wheel.next_due(u64::MAX), None);
        assert_eq!((wheel.next_at(), wheel.len()), (None, 0));
    }
}

#[test]
fn a_timer_in_the_past_comes_in_its_order() {
    let mut wheel = Wheel::new();
    let now = 5_000_000_000;
    wheel.arm(now, 1);
    assert_eq!(wheel.next_due(now - 1), None);
    wheel.arm(now - 3_000_000_000, 2);
    wheel.arm(0, 3);
    wheel.arm(now, 0);
    let order = [(0, 3), (now - 3_000_000_000, 2), (now, 0), (now, 1)];
    assert_eq!(drain(&mut wheel, now), order);
}

#[test]
fn equal_timers_are_each_given() {
    let mut wheel = Wheel::new();
    (0..100).for_each(|_| wheel.arm(1 << 40, 9));
    assert_eq!(drain(&mut wheel, u64::MAX), [(1 << 40, 9); 100]);
}

#[test]
fn a_warm_wheel_takes_no_more_memory() {
    let mut wheel = Wheel::new();
    let timeout = 30_000_000_000;
    let mut after = Vec::new();
    for round in 0..4 {
        for slot in 0..10_000 {
            wheel.arm(round * timeout + timeout - u64::from(slot), slot);
        }
        assert_eq!(drain(&mut wheel, (round + 1) * timeout).len(), 10_000);
        after.push(chunks(&wheel));
    }
    assert!(after[0] >= 10_000 / CHUNK);
    assert_eq!(after[1], after[3]);
    wheel.clear();
    assert_eq!(chunks(&wheel), 0);
}

#[test]
fn a_short_timeout_never_lies_among_long_ones() {
    let mut wheel = Wheel::new();
    let timeout = (BUCKETS as u64 * (BUCKETS as u64 - 1)) << TICK;
    // Steps of a prime number of ticks meet every phase of the rings.
    for step in 0..10_000u64 {
        let now = step * (9973 << TICK);
        drain(&mut wheel, now);
        wheel.arm(now + timeout, 0);
        assert!(wheel.levels.len() <= 2, "step {step}");
    }
}

#[test]
fn a_wheel_full_of_equal_timers_can_be_dropped() {
    let mut wheel = Wheel::new();
    (0..2_000_000).for_each(|slot| wheel.arm(u64::MAX, slot));
    assert_eq!(wheel.len(), 2_000_000);
    drop(wheel);
}

/// A step of a sequence.
#[derive(Clone, Debug)]
enum Step {
    /// Arms at now plus so much (less, if `past`).
    Arm { delay: u64, past: bool, slot: u32 },
    /// Passes so much time and takes at most `take` timers.
    Advance { by: u64, take: usize },
    /// Passes time up to one ns before the next timer, then up to it.
    Sleep,
    /// Keeps slots that this does not divide.
    Retain { divisor: u32 },
}

/// Spans around a power of two, less than the given one, of ticks.
fn edge(bits: u32) -> impl Strategy<Value = u64> {
    (0..bits, 0..3u64, 0..3u64)
        .prop_map(|(bits, ticks, ns)| (((1 << bits) + ticks) << TICK) - (1 << TICK) + ns)
}

/// Spans of every magnitude, and often those around a bucket's edge.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..64u32, any::<u64>()).prop_map(|(bits, random)| random >> bits),
        2 => edge(44),
        1 => Just(0),
    ]
}

/// Most spans within the lowest three levels, so that a sequence does not reach the end of time at once.
fn short_span() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => span(),
        2 => edge(22),
        7 => (14..64u32, any::<u64>()).prop_map(|(bits, random)| random >> bits),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (short_span(), prop::bool::weighted(0.1), 0..20u32)
            .prop_map(|(delay, past, slot)| Step::Arm { delay, past, slot }),
        3 => (short_span(), prop_oneof![Just(usize::MAX), 0..3usize])
            .prop_map(|(by, take)| Step::Advance { by, take }),
        2 => Just(Step::Sleep),
        1 => (1..5u32).prop_map(|divisor| Step::Retain { divisor }),
    ]
}

/// The wheel beside a plain heap, which is asked the same.
#[derive(Default)]
struct Pair {
    wheel: Wheel,
    model: BinaryHeap<Reverse<(u64, u32)>>,
    now: u64,
}

impl Pair {
    /// Takes at most `take` due timers from both.
    fn take(&mut self, take: usize) {
        for _ in 0..take {
            let due = self.model.peek().is_some_and(|Reverse((when, _))| *when <= self.now);
            let wanted = if due { self.model.pop().map(|Reverse(timer)| timer) } else { None };
            assert_eq!(self.wheel.next_due(self.now), wanted, "at {}", self.now);
            if wanted.is_none() {
                break;
            }
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Arm { delay, past, slot } => {
                let when = if past { self.now.saturating_sub(delay) } else { self.now.saturating_add(delay) };
                self.wheel.arm(when, slot);
                self.model.push(Reverse((when, slot)));
            }
            Step::Advance { by, take } => {
                self.now = self.now.saturating_add(by);
                self.take(take);
            }
            Step::Sleep => {
                if let Some(next) = self.wheel.next_at().filter(|next| *next > self.now) {
                    self.now = next - 1;
                    self.take(1);
                    self.now = next;
                    self.take(usize::MAX);
                }
            }
            Step::Retain { divisor } => {
                self.wheel.retain(|when, slot| (u64::from(slot) ^ when) % u64::from(divisor) != 0);
                self.model
                    .retain(|Reverse((when, slot))| (u64::from(*slot) ^ when) % u64::from(divisor) != 0);
            }
        }
        assert_eq!(self.wheel.len(), self.model.len());
        assert_eq!(self.wheel.next_at(), self.model.peek().map(|Reverse((when, _))| *when));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_wheel_gives_what_a_heap_gives(start in span(), steps in vec(step(), 1..200)) {
        let mut pair = Pair { now: start, ..Pair::default() };
        steps.iter().for_each(|step| pair.run(step));
        pair.now = u64::MAX;
        pair.take(usize::MAX);
        prop_assert_eq!(pair.wheel.len(), 0);
    }
}
