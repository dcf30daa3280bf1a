//! The risk of overload, as Ramon has it: the rate of a port is taken for log-normally distributed, with the mean and the variance that were
//! measured; the risk is the probability that it exceeds the capacity.

/// First and second moments of rates.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    // Sum of squares of differences from the mean (Welford): exact where the variance is small.
    squares: f64,
}

impl Moments {
    /// Adds a rate; one that is not finite, or negative, is left out.
    pub fn add(&mut self, rate: f64) {
        if !rate.is_finite() || rate < 0.0 {
            return;
        }
        self.count += 1;
        let before = rate - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (rate - self.mean);
    }

    /// How many rates there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Their variance, of the population.
    pub fn variance(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.squares / self.count as f64).max(0.0) }
    }

    /// The probability that the rate exceeds a capacity. Unknown without two rates.
    pub fn risk(&self, capacity: f64) -> Option<f64> {
        (self.count > 1).then(|| exceeds(self.mean, self.variance(), capacity))
    }
}

/// The probability that a log-normal variable of this mean and variance exceeds a value greater than 0.
pub fn exceeds(mean: f64, variance: f64, value: f64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    // mean = exp(mu + s/2) and variance = (exp(s) - 1) mean², s being the variance of the logarithm.
    let s = (variance / (mean * mean)).ln_1p();
    let mu = mean.ln() - s / 2.0;
    let distance = value.ln() - mu;
    if s < 1e-12 {
        return if distance < 0.0 { 1.0 } else { 0.0 };
    }
    0.5 * libm::erfc(distance / (2.0 * s).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_risk_is_that_of_the_log_normal_distribution() {
        // mu = 0, sigma = 1: mean = e^0.5, variance = (e - 1) e.
        let e = std::f64::consts::E;
        let (mean, variance) = (e.sqrt(), (e - 1.0) * e);
        // From tables of the normal distribution: 1 - Phi(0), 1 - Phi(1), 1 - Phi(-1.96).
        for (value, risk) in [(1.0, 0.5), (e, 0.158_655), ((-1.96f64).exp(), 0.975_002)] {
            assert!((exceeds(mean, variance, value) - risk).abs() < 1e-6, "{value}");
        }
    }

    #[test]
    fn constant_rates_exceed_surely_or_never() {
        assert_eq!(
            (exceeds(10.0, 0.0, 9.0), exceeds(10.0, 0.0, 11.0), exceeds(0.0, 0.0, 1.0)),
            (1.0, 0.0, 0.0)
        );
    }

    #[test]
    fn moments_are_those_of_the_rates() {
        let mut moments = Moments::default();
        for rate in [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0, f64::NAN, -1.0] {
            moments.add(rate);
        }
        assert_eq!((moments.count(), moments.mean(), moments.variance()), (8, 5.0, 4.0));
        assert_eq!(Moments::default().risk(1.0), None);
        // The same mean, more variance: more risk of a capacity above.
        let (mut calm, mut bursty) = (Moments::default(), Moments::default());
        for i in 0..100 {
            calm.add(5.0 + f64::from(i % 2));
            bursty.add(f64::from(i % 2) * 11.0);
        }
        assert!(bursty.risk(10.0).unwrap() > 0.1 && calm.risk(10.0).unwrap() < 0.001);
    }
}
