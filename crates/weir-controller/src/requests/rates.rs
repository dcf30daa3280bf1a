//! How often one may ask. Pure: the time is a parameter.

use std::collections::BTreeMap;

/// The token buckets of requesters: as many requests as `burst` at once, then `rate` a second.
#[derive(Debug, Clone, Default)]
pub struct Rates {
    /// What was left, and when, in seconds.
    left: BTreeMap<String, (f64, f64)>,
}

impl Rates {
    /// Takes one at a time in seconds, which never goes back.
    ///
    /// # Errors
    /// In how many seconds there is one again.
    pub fn take(&mut self, who: &str, rate: u32, now: f64) -> Result<(), f64> {
        let rate = f64::from(rate.max(1));
        // Who has all again is as one who never asked.
        self.left.retain(|_, (left, at)| *left + (now - *at) * rate < rate);
        let (left, at) = self.left.get(who).copied().unwrap_or((rate, now));
        let left = (left + (now - at).max(0.0) * rate).min(rate);
        if left < 1.0 {
            return Err((1.0 - left) / rate);
        }
        self.left.insert(who.to_owned(), (left - 1.0, now));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn who_waits_as_long_as_is_said_may_ask() {
        let mut rates = Rates::default();
        assert!((0..3).all(|_| rates.take("a", 3, 0.0).is_ok()));
        let wait = rates.take("a", 3, 0.0).unwrap_err();
        assert!(rates.take("a", 3, wait / 2.0).is_err());
        assert!(rates.take("a", 3, wait + 1e-9).is_ok());
    }

    proptest! {
        #[test]
        fn nobody_gets_more_and_nobody_is_harmed(
            asked in proptest::collection::vec((0_u64..2000, 0..3_usize), 1..300),
            rate in 1_u32..20,
        ) {
            let mut asked = asked;
            asked.sort_unstable();
            let (mut rates, mut got) = (Rates::default(), [Vec::new(), Vec::new(), Vec::new()]);
            let mut last = [None; 3];
            for (at, who) in asked {
                let now = at as f64 / 100.0;
                let taken = rates.take(["a", "b", "c"][who], rate, now).is_ok();
                // Who let a second pass gets one, whatever others do.
                let waited = last[who].is_none_or(|l: f64| now - l >= 1.0);
                prop_assert!(taken || !waited);
                last[who] = Some(now);
                if taken {
                    got[who].push(now);
                }
            }
            for times in got {
                for (i, from) in times.iter().enumerate() {
                    let within = times[i..].iter().filter(|t| **t - from < 1.0).count();
                    prop_assert!(within <= 2 * rate as usize, "{within} in a second");
                }
            }
        }
    }
}
