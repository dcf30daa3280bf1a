use super::moving_average::{MovingAverage, rate, threshold};
use crate::prelude::*;

element! {
    /// Sends all packets to the output of the current rate in packets per second.
    ///
    /// Below the first rate packets leave on output 0, from there and below the second on output 1, and so on. The rate
    /// is an exponentially weighted moving average over about 16 ms. `RatedSplitter` splits the packets instead.
    Meter: "1/2-", "h/h";
    example "Idle -> m :: Meter(10000) -> Discard; m [1] -> Discard;";
    params {
        /// Rates in packets per second, each greater than the one before.
        rest rates: Vec<u32>,
    }
    check |e| ascending(&e.rates);
    handlers {
        /// Packets per second.
        read rate = |_, s| Ok(rate(s).to_string()),
    }
    ports |e| format!("1/{}", e.rates.len() + 1);
}

/// Refuses rates that do not grow.
pub(super) fn ascending(rates: &[u32]) -> Result<(), String> {
    if rates.is_empty() || rates.len() > 255 {
        return Err(format!("write 1 to 255 rates, not {}", rates.len()));
    }
    match rates.windows(2).position(|w| w[0] >= w[1]) {
        Some(i) => Err(format!("rate {} must be greater than rate {}", i + 2, i + 1)),
        None => Ok(()),
    }
}

/// Measures `events` (64 bits), and lets the packet leave on the output of the rate.
pub(super) fn by_rate(b: &mut Builder, average: &MovingAverage, events: V, rates: &[u32]) {
    let current = average.add(b, events);
    for (&rate, port) in rates.iter().zip(0..) {
        let below = b.lt(current, threshold(rate));
        b.when(below, |b| b.emit(port));
    }
    b.emit(rates.len() as u32);
}

fn program(e: &Meter, b: &mut Builder) {
    let average = MovingAverage::new(b);
    b.input(0, |b| {
        let one = b.constant(W64, 1_u64);
        by_rate(b, &average, one, &e.rates);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    /// The output of the last of `n` packets, `gap` microseconds apart.
    fn last(e: &mut Harness, n: u32, gap: u64) -> u32 {
        (0..n)
            .map(|_| {
                e.now += gap * 1000;
                e.send(0, b"x")[0].out().0
            })
            .last()
            .unwrap()
    }

    #[test]
    fn the_output_follows_the_rate() {
        let mut e = Harness::new("Meter", &["1000", "5000"], 1, 3);
        assert_eq!(last(&mut e, 1, 0), 0, "nothing is known before the first millisecond ends");
        assert_eq!(last(&mut e, 1000, 100), 2);
        let measured: u64 = e.read("rate").parse().unwrap();
        assert!((8_000..=10_500).contains(&measured), "{measured} packets per second instead of 10000");
        assert_eq!(last(&mut e, 1000, 500), 1);
        assert_eq!(last(&mut e, 1000, 2000), 0);
        last(&mut e, 1000, 100);
        assert_eq!(last(&mut e, 1, 10_000_000), 0, "a long pause is a low rate");
    }

    #[test]
    fn rates_grow() {
        let class = crate::class_named("Meter").unwrap();
        assert_eq!(class.configure(&["1".into(), "2".into()]).unwrap().ports(), "1/3");
        let error = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
            class.configure(&args).err().unwrap().join("")
        };
        assert!(error(&["2", "2"]).contains("rate 2 must be greater than rate 1"));
        assert!(error(&["x"]).contains("not a number") && !error(&[]).is_empty());
    }
}
