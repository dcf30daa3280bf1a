//! A token bucket, as Click's.

use weir_elements::token_rate::{FULL, Rate};

const MILLISECOND: u64 = 1_000_000;

/// A token bucket that starts full.
#[derive(Debug)]
pub(crate) struct Bucket {
    level: u64,
    /// Milliseconds on the engine's clock.
    last: u64,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket { level: FULL, last: 0 }
    }
}

impl Bucket {
    /// Fills it for the time that has passed.
    pub fn fill(&mut self, rate: Rate, now: u64) {
        let now = now / MILLISECOND;
        let passed = now.saturating_sub(self.last);
        self.last = now;
        let earned = if passed >= rate.fills { FULL } else { passed * rate.gain };
        self.level = (self.level + earned).min(FULL);
    }

    /// Whether it holds so many tokens.
    pub fn contains(&self, rate: Rate, tokens: u32) -> bool {
        self.level >= u64::from(tokens) * rate.scale
    }

    /// Takes tokens: all, if it holds fewer.
    pub fn take(&mut self, rate: Rate, tokens: u32) {
        self.level = self.level.saturating_sub(u64::from(tokens) * rate.scale);
    }

    /// When it will hold so many tokens (nanoseconds); `None`: never.
    pub fn when(&self, rate: Rate, tokens: u32) -> Option<u64> {
        let missing = (u64::from(tokens) * rate.scale).saturating_sub(self.level);
        if missing > 0 && rate.gain == 0 {
            return None;
        }
        Some((self.last + missing.div_ceil(rate.gain.max(1))) * MILLISECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_elements::token_rate::Spec;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let rate = Spec { rate: 100, burst_duration: None, burst: Some(5), bytes: false }.rate();
        let mut bucket = Bucket::default();
        let mut now = 5_000 * MILLISECOND;
        let (start, mut taken) = (now, 0);
        while now < start + 1000 * MILLISECOND {
            bucket.fill(rate, now);
            while bucket.contains(rate, 1) {
                bucket.take(rate, 1);
                taken += 1;
            }
            now = bucket.when(rate, 1).unwrap();
        }
        assert!((100..=105).contains(&taken), "{taken}");
        let none = Spec { rate: 0, burst_duration: None, burst: None, bytes: false }.rate();
        assert_eq!((bucket.when(none, 1), bucket.when(none, 0)), (None, Some(bucket.last * MILLISECOND)));
    }
}
