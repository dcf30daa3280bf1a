//! The rate of a token bucket, as Click's: it fills every millisecond, and fractions of a token are rounded down.

use std::time::Duration;

/// A bucket that is full.
pub const FULL: u64 = u32::MAX as u64;
/// Tokens that a bucket of bytes has beyond its burst, so that it can pass a packet whose length is not known yet.
pub const THRESHOLD: u32 = 131_072;

/// The rate at which a token bucket fills. Its level is a fraction of the capacity, of which [`FULL`] is all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Level of one token.
    pub scale: u64,
    /// What the level gains in a millisecond.
    pub gain: u64,
    /// Milliseconds that fill an empty bucket.
    pub fills: u64,
}

/// Rate and burst as arguments say.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Tokens per second.
    pub rate: u32,
    /// How long the bucket takes to fill.
    pub burst_duration: Option<Duration>,
    /// How many tokens it holds; without both, as many as 20 ms bring.
    pub burst: Option<u32>,
    /// Whether tokens are bytes.
    pub bytes: bool,
}

impl Spec {
    /// What is wrong with it; `burst` is the keyword of the burst in tokens.
    pub fn check(&self, burst: &str) -> Result<(), String> {
        if self.burst.is_some() && self.burst_duration.is_some() {
            return Err(format!("cannot specify both BURST_DURATION and {burst}"));
        }
        Ok(())
    }

    /// How fast the bucket fills.
    pub fn rate(&self) -> Rate {
        let per_ms = self.burst_duration.map_or(20, |d| d.as_millis());
        let earned = (u128::from(self.rate) * per_ms / 1000).min(u32::MAX.into()) as u32;
        let burst = self.burst.unwrap_or(earned);
        let capacity = if self.bytes { burst.saturating_add(THRESHOLD) } else { burst }.max(1);
        // What comes in within a millisecond has to fit.
        let capacity = u64::from(capacity.max(self.rate.div_ceil(1000)));
        let scale = FULL / capacity;
        let gain = u64::from(self.rate) * scale / 1000;
        let gain = if self.rate > 0 { gain.max(1) } else { 0 };
        let fills = FULL.checked_div(gain).map_or(u64::MAX, |n| n + 1);
        Rate { scale, gain, fills }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_fits_its_bucket() {
        let spec = |rate, burst| Spec { rate, burst_duration: None, burst, bytes: false }.rate();
        assert_eq!(spec(2, None).fills, 501, "one token, and fractions are rounded down");
        assert_eq!(spec(0, None).gain, 0);
        assert!(spec(u32::MAX, Some(1)).gain <= FULL, "what a millisecond brings fits");
    }
}
