//! The rate of events as an exponentially weighted moving average over milliseconds.

use super::bucket::millis;
use crate::prelude::*;

/// Binary places of the average.
const PLACES: u32 = 10;
/// The weight of a millisecond is 2 to the minus this.
const STABILITY: u32 = 4;
/// After so many milliseconds without events the average is 0.
const FORGOTTEN: u32 = 256;

/// The average as it stands in the cell, for so many events per second.
pub(super) fn threshold(rate: u32) -> u64 {
    (u64::from(rate) << PLACES) / 1000
}

/// Events per second, as a reader sees them.
pub(super) fn rate(s: &State<'_>) -> u64 {
    (s.cell("average") as u64 * 1000) >> PLACES
}

/// The cells of an average.
#[derive(Debug, Clone, Copy)]
pub(super) struct MovingAverage {
    average: TableId,
    epoch: TableId,
    sum: TableId,
}

impl MovingAverage {
    pub fn new(b: &mut Builder) -> MovingAverage {
        MovingAverage {
            average: b.cell("average", W64, 0),
            epoch: b.cell("epoch", W64, 0),
            sum: b.cell("sum", W64, 0),
        }
    }

    /// Adds events (64 bits) that happen now, and gives the average of the time before, as [`threshold`] has it.
    pub fn add(&self, b: &mut Builder, events: V) -> V {
        let now = millis(b);
        let epoch = b.read_cell(self.epoch);
        let passed = b.sub(now, epoch);
        let some = b.ne(passed, 0);
        let this = *self;
        b.when(some, |b| {
            b.write_cell(this.epoch, now);
            let sum = b.read_cell(this.sum);
            let none = b.constant(W64, 0_u64);
            b.write_cell(this.sum, none);
            let scaled = b.shl(sum, PLACES);
            let average = b.read_cell(this.average);
            let average = step(b, average, scaled);
            // The milliseconds after the first had no events.
            let long = b.gt(passed, u64::from(FORGOTTEN));
            let most = b.constant(W64, u64::from(FORGOTTEN));
            let rounds = b.select(long, most, passed);
            let end = b.repeat(FORGOTTEN, &[average, rounds], |b, round, vars| {
                let (average, left) = (vars[0], vars[1]);
                let last = b.le(left, 1);
                b.when(last, |b| round.leave(b, &[average, left]));
                let average = step(b, average, none);
                let left = b.sub(left, 1);
                round.next(b, &[average, left]);
            });
            let average = b.select(long, none, end[0]);
            b.write_cell(this.average, average);
        });
        let sum = b.read_cell(self.sum);
        let sum = b.add(sum, events);
        b.write_cell(self.sum, sum);
        b.read_cell(self.average)
    }
}

/// The average after a millisecond with `sum` events.
fn step(b: &mut Builder, average: V, sum: V) -> V {
    let round = (1_u64 << STABILITY) - 1;
    let up = b.shr(sum, STABILITY);
    let down = b.add(average, round);
    let down = b.shr(down, STABILITY);
    let kept = b.sub(average, down);
    b.add(kept, up)
}
