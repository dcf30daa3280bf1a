//! Timers of table entries: a hierarchical timer wheel (Varghese and Lauck, SOSP 1987, scheme 7).
//!
//! A tick is 2^20 ns. A bucket of level 0 is one tick wide, one of level 1 is 1024 ticks wide, and so on; each level
//! is a ring of 1024 buckets, and five hold every `u64` time. A timer lies at the lowest level whose ring, from the
//! tick reached, extends to it. When the wheel reaches a bucket of a higher level, its timers move down. Bitmaps
//! find the next occupied bucket, so any stretch without timers is crossed in one step. With rings this long, a
//! timeout below 18 minutes moves once, together with no more than about a second's worth of others.
//!
//! Exact to the nanosecond: the timers of a bucket of level 0 are sorted when its tick is reached. Those armed for
//! that tick or before it later wait in a heap beside them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A tick is `1 << TICK` ns.
const TICK: u32 = 20;
/// Bits of a tick that one level resolves.
const BITS: u32 = 10;
/// Buckets of a level.
const BUCKETS: usize = 1 << BITS;
/// Timers of a chunk: with its other fields it fills four cache lines, less the allocator's own word.
const CHUNK: usize = 14;

/// One armed timer; the order is that in which timers are given.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Timer {
    when: u64,
    slot: u32,
}

/// Some timers of one bucket. All chunks of a bucket but the first are full.
#[derive(Debug)]
struct Chunk {
    next: Option<Box<Chunk>>,
    /// Earliest time in this chunk and those behind it.
    first: u64,
    len: usize,
    timers: [Timer; CHUNK],
}

impl Drop for Chunk {
    /// Drops the chunks behind it one by one: by recursion, a long list would exhaust the stack.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut chunk) = next {
            next = chunk.next.take();
        }
    }
}

/// Buckets of one level, with a bit for each that holds timers.
#[derive(Debug)]
struct Level {
    occupied: [u64; BUCKETS / 64],
    buckets: Box<[Option<Box<Chunk>>]>,
}

impl Level {
    fn new() -> Self {
        Self { occupied: [0; BUCKETS / 64], buckets: (0..BUCKETS).map(|_| None).collect() }
    }

    /// The first bucket that holds timers, going round the ring from `from`.
    fn first(&self, from: usize) -> Option<usize> {
        let words = self.occupied.len();
        let ahead = u64::MAX << (from % 64);
        // The word of `from` is looked at twice: for the bits from there on, and at last for those before.
        (0..=words).find_map(|step| {
            let word = (from / 64 + step) % words;
            let mask = match step {
                0 => ahead,
                _ if step == words => !ahead,
                _ => u64::MAX,
            };
            let bits = self.occupied[word] & mask;
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// Adds a timer to a bucket. A new chunk comes from `free` while that has any.
    fn push(&mut self, bucket: usize, timer: Timer, free: &mut Option<Box<Chunk>>) {
        let head = &mut self.buckets[bucket];
        match head {
            Some(chunk) if chunk.len < CHUNK => {
                chunk.timers[chunk.len] = timer;
                chunk.len += 1;
                chunk.first = chunk.first.min(timer.when);
            }
            _ => {
                let mut chunk = match free.take() {
                    Some(mut chunk) => {
                        *free = chunk.next.take();
                        chunk
                    }
                    None => {
                        Box::new(Chunk { next: None, first: 0, len: 0, timers: [Timer::default(); CHUNK] })
                    }
                };
                chunk.next = head.take();
                chunk.first = chunk.next.as_ref().map_or(timer.when, |next| next.first.min(timer.when));
                chunk.timers[0] = timer;
                chunk.len = 1;
                *head = Some(chunk);
                self.occupied[bucket / 64] |= 1 << (bucket % 64);
            }
        }
    }

    /// Empties a bucket.
    fn take(&mut self, bucket: usize) -> Option<Box<Chunk>> {
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        self.buckets[bucket].take()
    }
}

/// Armed timers, each a time in nanoseconds and a slot of the table.
///
/// A slot may have several timers, and a timer cannot be taken back: the table looks at the entry when it is given
/// one, and ignores it when the entry is gone or due later. [`Wheel::retain`] drops such timers in bulk.
///
/// Memory is that of the most timers armed at once (18 bytes each), up to 256 bytes for each occupied bucket, and
/// 8 KB for each level in use.
#[derive(Default, Debug)]
pub(crate) struct Wheel {
    /// The tick reached. Timers in `levels` are later.
    tick: u64,
    /// Timers found on reaching `tick`, last first.
    ready: Vec<Timer>,
    /// Timers armed since then, for `tick` or before it.
    late: BinaryHeap<Reverse<Timer>>,
    /// Levels used so far, lowest first.
    levels: Vec<Level>,
    /// Empty chunks, to use again.
    free: Option<Box<Chunk>>,
    len: usize,
}

impl Wheel {
    /// A wheel without timers; takes no memory until one is armed.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Timers armed and not given yet.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Arms a timer at `when` ns; one in the past is due at once. Constant time, except within the tick reached
    /// or before (logarithmic in the number of such timers).
    pub(crate) fn arm(&mut self, when: u64, slot: u32) {
        self.len += 1;
        self.place(Timer { when, slot });
    }

    /// Takes the earliest timer with a time of at most `now` ns, as time and slot; of equal times, the lower slot.
    ///
    /// To be called until it gives `None`. `now` should never be less than at an earlier call; if it is, timers
    /// are still given neither early nor out of order.
    #[inline]
    pub(crate) fn next_due(&mut self, now: u64) -> Option<(u64, u32)> {
        loop {
            match self.waiting() {
                Some(timer) if timer.when > now => return None,
                Some(timer) => {
                    if self.ready.last() == Some(&timer) {
                        self.ready.pop();
                    } else {
                        self.late.pop();
                    }
                    self.len -= 1;
                    return Some((timer.when, timer.slot));
                }
                None if self.tick >= now >> TICK || !self.advance(now >> TICK) => return None,
                None => {}
            }
        }
    }

    /// Time of the earliest timer, exactly.
    pub(crate) fn next_at(&self) -> Option<u64> {
        if let Some(timer) = self.waiting() {
            return Some(timer.when);
        }
        let firsts = self.levels.iter().zip(0..).filter_map(|(level, number)| {
            let from = (self.tick >> (number * BITS)) as usize + 1;
            let chunk = level.buckets[level.first(from % BUCKETS)?].as_ref();
            chunk.map(|chunk| chunk.first)
        });
        firsts.min()
    }

    /// Keeps only the timers for which `keep` (of time and slot) says so. Looks at every timer, in no order.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u64, u32) -> bool) {
        self.ready.retain(|timer| keep(timer.when, timer.slot));
        self.late.retain(|Reverse(timer)| keep(timer.when, timer.slot));
        let mut kept = self.ready.len() + self.late.len();
        for level in &mut self.levels {
            for word in 0..level.occupied.len() {
                let mut bits = level.occupied[word];
                while bits != 0 {
                    let bucket = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let mut rest = level.take(bucket);
                    while let Some(mut chunk) = rest {
                        rest = chunk.next.take();
                        for timer in &chunk.timers[..chunk.len] {
                            if keep(timer.when, timer.slot) {
                                level.push(bucket, *timer, &mut self.free);
                                kept += 1;
                            }
                        }
                        chunk.next = self.free.take();
                        self.free = Some(chunk);
                    }
                }
            }
        }
        self.len = kept;
    }

    /// Drops all timers and gives the memory back; time may begin anew.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Puts a timer where the module's comment says.
    fn place(&mut self, timer: Timer) {
        let tick = timer.when >> TICK;
        if tick <= self.tick {
            self.late.push(Reverse(timer));
            return;
        }
        // At most a whole ring ahead: that is the bucket of the tick reached, which is empty when reached.
        let level = (tick - self.tick).ilog2() / BITS;
        let bucket = (tick >> (level * BITS)) as usize % BUCKETS;
        while self.levels.len() <= level as usize {
            self.levels.push(Level::new());
        }
        self.levels[level as usize].push(bucket, timer, &mut self.free);
    }

    /// The earliest timer of the tick reached or before it. All in `levels` are later.
    fn waiting(&self) -> Option<Timer> {
        match (self.ready.last(), self.late.peek()) {
            (Some(ready), Some(Reverse(late))) => Some(*ready.min(late)),
            (Some(timer), None) | (None, Some(Reverse(timer))) => Some(*timer),
            (None, None) => None,
        }
    }

    /// The first tick after the one reached at which an occupied bucket, of any level, begins.
    fn next_start(&self) -> Option<u64> {
        let starts = self.levels.iter().zip(0..).filter_map(|(level, number)| {
            let shift = number * BITS;
            let next = (self.tick >> shift) + 1;
            let from = next as usize % BUCKETS;
            let ahead = (level.first(from)? + BUCKETS - from) % BUCKETS;
            Some((next + ahead as u64) << shift)
        });
        starts.min()
    }

    /// Moves towards the tick `target`, up to the first tick with timers. True if there is one.
    ///
    /// To be called when no timers of the tick reached are left.
    fn advance(&mut self, target: u64) -> bool {
        while self.tick < target {
            let Some(start) = self.next_start().filter(|start| *start <= target) else {
                self.tick = target;
                break;
            };
            self.tick = start;
            for number in 0..self.levels.len() {
                let shift = number as u32 * BITS;
                if start >> shift << shift == start {
                    self.open(number, (start >> shift) as usize % BUCKETS);
                }
            }
            if !self.ready.is_empty() {
                self.ready.sort_unstable_by(|a, b| b.cmp(a));
                return true;
            }
        }
        false
    }

    /// Moves the timers of a bucket that begins at the tick reached to where they belong.
    fn open(&mut self, level: usize, bucket: usize) {
        let mut rest = self.levels[level].take(bucket);
        while let Some(mut chunk) = rest {
            rest = chunk.next.take();
            for timer in &chunk.timers[..chunk.len] {
                if timer.when >> TICK == self.tick {
                    self.ready.push(*timer);
                } else {
                    self.place(*timer);
                }
            }
            chunk.next = self.free.take();
            self.free = Some(chunk);
        }
    }
}

#[cfg(test)]
mod tests;
