//! Timers: adding one and finding the next cost the same however many there are.

/// Microseconds since some fixed time.
pub(crate) type Micros = u64;

/// Microseconds of a tick.
const TICK: Micros = 1000;
const LEVELS: usize = 4;
const SLOTS: usize = 64;

/// A hierarchical timing wheel. A slot of level n covers 64ⁿ ticks; its entries go down a level when its time comes. What is far away
/// (above four hours) waits in the last slot of the last level.
///
/// A timer fires up to a tick late, never early, and cannot be taken back: who adds it knows what it is worth when it fires.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    /// Ticks that are over.
    now: u64,
    levels: [Level<T>; LEVELS],
}

#[derive(Debug)]
struct Level<T> {
    /// Which slots have entries.
    filled: u64,
    slots: [Vec<(u64, T)>; SLOTS],
}

impl<T> Wheel<T> {
    pub(crate) fn new(now: Micros) -> Self {
        let level = |_| Level { filled: 0, slots: std::array::from_fn(|_| Vec::new()) };
        Self { now: now / TICK, levels: std::array::from_fn(level) }
    }

    /// Has `what` come out of [`Wheel::advance`] when it is `at`.
    pub(crate) fn add(&mut self, at: Micros, what: T) {
        self.insert(at.div_ceil(TICK).max(self.now + 1), what);
    }

    fn insert(&mut self, tick: u64, what: T) {
        // An entry is as high as the highest digit (of 64) in which its time differs from now.
        let differs = (tick ^ self.now).max(1).ilog2() as usize / 6;
        let (level, slot) = if differs < LEVELS {
            (differs, (tick >> (6 * differs)) as usize % SLOTS)
        } else {
            let shift = 6 * (LEVELS - 1);
            let ahead = ((tick >> shift) - (self.now >> shift)).min(SLOTS as u64 - 1);
            (LEVELS - 1, ((self.now >> shift) + ahead) as usize % SLOTS)
        };
        let level = &mut self.levels[level];
        level.filled |= 1 << slot;
        level.slots[slot].push((tick, what));
    }

    /// Calls `fire` for all timers whose time has come.
    pub(crate) fn advance(&mut self, now: Micros, mut fire: impl FnMut(T)) {
        let end = now / TICK;
        while let Some(tick) = self.next_tick().filter(|&t| t <= end) {
            self.now = tick;
            // From above, so that what comes down is found in this round.
            for n in (0..LEVELS).rev() {
                let slot = (tick >> (6 * n)) as usize % SLOTS;
                if n > 0 && tick.trailing_zeros() < 6 * n as u32 {
                    continue;
                }
                let level = &mut self.levels[n];
                level.filled &= !(1 << slot);
                for (at, what) in std::mem::take(&mut level.slots[slot]) {
                    if at <= tick { fire(what) } else { self.insert(at, what) }
                }
            }
        }
        self.now = self.now.max(end);
    }

    /// When [`Wheel::advance`] has something to do next; it may be to move entries down only.
    pub(crate) fn next(&self) -> Option<Micros> {
        self.next_tick().map(|tick| tick * TICK)
    }

    fn next_tick(&self) -> Option<u64> {
        let mut next: Option<u64> = None;
        for (n, level) in self.levels.iter().enumerate() {
            if level.filled == 0 {
                continue;
            }
            let at = self.now >> (6 * n);
            // Slots behind the one of now; that one itself is a whole round away.
            let ahead = level.filled.rotate_right((at as u32 + 1) % 64).trailing_zeros();
            let tick = (at + 1 + u64::from(ahead)) << (6 * n);
            next = Some(next.map_or(tick, |n| n.min(tick)));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each timer fires once, at its time or at the first look behind it, and by `next` one looks in time.
        #[test]
        fn timers_fire_once_and_in_time(
            timers in prop::collection::vec((0u64..20_000_000_000, 0u64..100_000), 1..60),
            begin in 0u64..1_000_000_000_000,
        ) {
            let mut wheel = Wheel::new(begin);
            let mut now = begin;
            let mut waiting = Vec::new();
            for (id, &(delay, pass)) in timers.iter().enumerate() {
                wheel.add(now + delay, id);
                waiting.push((now + delay, id));
                now += pass;
                wheel.advance(now, |id| {
                    let at = waiting.iter().position(|w| w.1 == id).expect("it fires once");
                    assert!(waiting.swap_remove(at).0 <= now, "not early");
                });
                prop_assert!(waiting.iter().all(|w| w.0 + TICK > now), "not late");
            }
            while let Some(next) = wheel.next() {
                prop_assert!(next > now);
                now = next;
                wheel.advance(now, |id| {
                    let at = waiting.iter().position(|w| w.1 == id).expect("it fires once");
                    let due = waiting.swap_remove(at).0;
                    assert!(due <= now && now < due + 2 * TICK, "in time: {due}, {now}");
                });
            }
            prop_assert!(waiting.is_empty());
        }
    }
}
