//! What a core and a MB are worth, from the demands that came so far.
//!
//! Prices x, y solve the dual of "accept as many as fit": minimise `x·C + y·M + Σ max(0, 1 - x·c_i - y·m_i)`, where C and M are what is free for
//! each demand that is still expected. A demand that costs more than 1 displaces more than one other.

use crate::random::Random;

const SAMPLE: usize = 2048;
/// Steps at a time.
const ROUNDS: usize = 4;
/// Costs around 1 that count in part.
const ROUND: f32 = 0.1;
/// If nobody says how many demands come, prices are those at which this share of them fits.
const SHARE: f64 = 0.9;

/// Prices and what they are learned from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prices {
    /// Thousandths of a core and MB of whole demands.
    sample: Vec<(f32, f32)>,
    seen: usize,
    /// In demands of mean size.
    dual: (f64, f64),
}

impl Prices {
    /// A demand came.
    pub fn see(&mut self, cpu: i64, memory: i64, random: &mut Random) {
        self.seen += 1;
        let entry = (cpu as f32, memory as f32);
        if self.sample.len() < SAMPLE {
            self.sample.push(entry);
        } else {
            let n = random.below(self.seen.min(20 * SAMPLE));
            if n < SAMPLE {
                self.sample[n] = entry;
            }
        }
    }

    /// Prices of a thousandth of a core and of a MB, if this much is free and so many demands come; none: it does not matter how many.
    pub fn solve(&mut self, cpu: f64, memory: f64, expected: Option<u64>) -> (f64, f64) {
        let n = self.sample.len() as f64;
        let sums = self.sample.iter().fold((0.0, 0.0), |s, e| (s.0 + f64::from(e.0), s.1 + f64::from(e.1)));
        let mean = ((sums.0 / n).max(1e-9), (sums.1 / n).max(1e-9));
        let fit = (cpu.max(0.0) / mean.0, memory.max(0.0) / mean.1);
        let (a, b) = match expected {
            Some(expected) => (fit.0 / expected.max(1) as f64, fit.1 / expected.max(1) as f64),
            None => {
                let least = fit.0.min(fit.1).max(1e-9);
                (SHARE * fit.0 / least, SHARE * fit.1 / least)
            }
        };
        self.minimise((a, b), (1.0 / mean.0 as f32, 1.0 / mean.1 as f32));
        (self.dual.0 / mean.0, self.dual.1 / mean.1)
    }

    /// Newton's method, on the dual with its corners rounded off.
    fn minimise(&mut self, budget: (f64, f64), scale: (f32, f32)) {
        let n = self.sample.len() as f64;
        for _ in 0..ROUNDS {
            let (x, y) = (self.dual.0 as f32 * scale.0, self.dual.1 as f32 * scale.1);
            let (mut gx, mut gy, mut xx, mut xy, mut yy) = (0.0_f32, 0.0_f32, 0.0_f32, 0.0_f32, 0.0_f32);
            for (c, m) in &self.sample {
                let (u, v) = (c * scale.0, m * scale.1);
                let accepted = ((1.0 - x * c - y * m) / ROUND + 0.5).clamp(0.0, 1.0);
                (gx, gy) = (gx + accepted * u, gy + accepted * v);
                let inner = if accepted > 0.0 && accepted < 1.0 { 1.0 / ROUND } else { 0.0 };
                (xx, xy, yy) = (xx + inner * u * u, xy + inner * u * v, yy + inner * v * v);
            }
            let of = |sum: f32| f64::from(sum) / n;
            let (gx, gy) = (budget.0 - of(gx), budget.1 - of(gy));
            // Where nothing is near the corner, the step is that of a gradient.
            let (xx, xy, yy) = (of(xx) + 0.05, of(xy), of(yy) + 0.05);
            let det = xx * yy - xy * xy;
            let step = |d: f64| d.clamp(-0.2, 0.2);
            let (dx, dy) = ((yy * gx - xy * gy) / det, (xx * gy - xy * gx) / det);
            let mut next = ((self.dual.0 - step(dx)).max(0.0), (self.dual.1 - step(dy)).max(0.0));
            // At a bound the other price moves on its own.
            if next.0 == 0.0 && self.dual.0 == 0.0 {
                next.1 = (self.dual.1 - step(gy / yy)).max(0.0);
            } else if next.1 == 0.0 && self.dual.1 == 0.0 {
                next.0 = (self.dual.0 - step(gx / xx)).max(0.0);
            }
            self.dual = next;
        }
    }
}
