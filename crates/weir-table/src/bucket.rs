//! Token buckets: a rate and a burst kept in one 128-bit value field.

/// Takes `cost` tokens from a bucket and says whether there were enough.
///
/// `state` is the field's content: time of the last refill (ns, high half) and tokens times 10⁹ (low half). A
/// bucket of zeros is full. `rate` is tokens per second, `burst` the most it holds (at most 10⁹).
pub fn meter(state: &mut u128, now: u64, cost: u64, rate: u64, burst: u64) -> bool {
    const UNIT: u128 = 1_000_000_000;
    let full = u128::from(burst.min(1_000_000_000)) * UNIT;
    let (stamp, level) = ((*state >> 64) as u64, *state & u128::from(u64::MAX));
    let level = if *state == 0 {
        full
    } else {
        let earned = u128::from(now.saturating_sub(stamp)) * u128::from(rate);
        (level + earned).min(full)
    };
    let cost = u128::from(cost) * UNIT;
    let enough = level >= cost;
    let left = if enough { level - cost } else { level };
    *state = (u128::from(now.max(1)) << 64) | left;
    enough
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_allows_its_burst_and_then_its_rate() {
        let mut b = 0;
        let start = 5_000_000_000;
        let taken = (0..20).filter(|_| meter(&mut b, start, 1, 10, 5)).count();
        assert_eq!(taken, 5);
        assert!(!meter(&mut b, start + 99_000_000, 1, 10, 5));
        assert!(meter(&mut b, start + 100_000_000, 1, 10, 5));
        let later = (0..100).filter(|_| meter(&mut b, start + 60_000_000_000, 1, 10, 5)).count();
        assert_eq!(later, 5, "idle time earns no more than the burst");
    }
}
