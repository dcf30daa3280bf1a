//! A token bucket in cells, as Click's: it fills every millisecond.

use super::rate::{FULL, Rate};
use crate::prelude::*;

/// The cells of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    scale: TableId,
    gain: TableId,
    fills: TableId,
    level: TableId,
    last: TableId,
}

impl Bucket {
    /// A full one.
    pub fn new(b: &mut Builder, rate: Rate) -> Bucket {
        Bucket {
            scale: b.live("scale", W64, rate.scale.into()),
            gain: b.live("gain", W64, rate.gain.into()),
            fills: b.live("fills", W64, rate.fills.into()),
            level: b.cell("level", W64, FULL.into()),
            last: b.cell("last", W64, 0),
        }
    }

    /// Fills it for the time that has passed, and does `enough` if it holds `wanted` tokens, having taken `cost`, else
    /// `over`. `wanted` and `cost` are 32-bit numbers.
    pub fn take(
        &self,
        b: &mut Builder,
        wanted: V,
        cost: V,
        enough: impl FnOnce(&mut Builder),
        over: impl FnOnce(&mut Builder),
    ) {
        let now = millis(b);
        let last = b.read_cell(self.last);
        b.write_cell(self.last, now);
        let passed = b.sub(now, last);
        let (gain, fills) = (b.read_cell(self.gain), b.read_cell(self.fills));
        let fresh = b.ge(passed, fills);
        let full = b.constant(W64, FULL);
        let none = b.constant(W64, 0_u64);
        let passed = b.select(fresh, none, passed);
        let earned = b.mul(passed, gain);
        let level = b.read_cell(self.level);
        let level = b.add(level, earned);
        let beyond = b.gt(level, FULL);
        let beyond = b.or(beyond, fresh);
        let level = b.select(beyond, full, level);
        let scale = b.read_cell(self.scale);
        let wanted = scaled(b, wanted, scale);
        let contains = b.le(wanted, level);
        let this = *self;
        b.if_else(
            contains,
            |b| {
                let cost = scaled(b, cost, scale);
                let dry = b.gt(cost, level);
                let left = b.sub(level, cost);
                let empty = b.constant(W64, 0_u64);
                let left = b.select(dry, empty, left);
                b.write_cell(this.level, left);
                enough(b);
            },
            |b| {
                b.write_cell(this.level, level);
                over(b);
            },
        );
    }
}

/// Changes the rate while it runs.
pub(super) fn set_rate(s: &mut State<'_>, rate: Rate) {
    s.set_cell("scale", rate.scale.into());
    s.set_cell("gain", rate.gain.into());
    s.set_cell("fills", rate.fills.into());
}

fn scaled(b: &mut Builder, tokens: V, scale: V) -> V {
    let tokens = b.resize(W64, tokens);
    b.mul(tokens, scale)
}

/// The time in whole milliseconds (64 bits).
pub(super) fn millis(b: &mut Builder) -> V {
    // There is no division: n / 15625 is n times its reciprocal, exact for the 58 bits that remain.
    const RECIPROCAL: u128 = (1 << 72) / 15_625 + 1;
    let now = b.now();
    let now = b.shr(now, 6);
    let now = b.resize(W128, now);
    let product = b.mul(now, RECIPROCAL);
    let quotient = b.shr(product, 72);
    b.resize(W64, quotient)
}

#[cfg(test)]
mod tests {
    #[test]
    fn milliseconds_are_whole() {
        const RECIPROCAL: u128 = (1 << 72) / 15_625 + 1;
        for ms in [0, 1, 999, 1_763_000_000_000, u64::MAX / 1_000_000 - 1] {
            for (ns, want) in [(ms * 1_000_000, ms), (ms * 1_000_000 + 999_999, ms)] {
                assert_eq!(((u128::from(ns >> 6) * RECIPROCAL) >> 72) as u64, want);
            }
        }
    }
}
