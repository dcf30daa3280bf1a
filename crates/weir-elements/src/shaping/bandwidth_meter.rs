use super::meter::{ascending, by_rate};
use super::moving_average::{MovingAverage, rate};
use crate::prelude::*;

element! {
    /// Sends all packets to the output of the current bandwidth.
    ///
    /// Below the first rate packets leave on output 0, from there and below the second on output 1, and so on. The
    /// bandwidth is an exponentially weighted moving average over about 16 ms. `BandwidthRatedSplitter` splits the
    /// packets instead.
    BandwidthMeter: "1/2-", "h/h";
    example "Idle -> m :: BandwidthMeter(100kBps) -> Discard; m [1] -> Discard;";
    params {
        /// Bandwidths, each greater than the one before.
        rest rates: Vec<Bandwidth>,
    }
    check |e| ascending(&bytes(e));
    handlers {
        /// Bytes per second.
        read rate = |_, s| Ok(rate(s).to_string()),
    }
    ports |e| format!("1/{}", e.rates.len() + 1);
}

fn bytes(e: &BandwidthMeter) -> Vec<u32> {
    e.rates.iter().map(|r| r.0).collect()
}

fn program(e: &BandwidthMeter, b: &mut Builder) {
    let average = MovingAverage::new(b);
    b.input(0, |b| {
        let len = b.len();
        let len = b.resize(W64, len);
        by_rate(b, &average, len, &bytes(e));
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn the_output_follows_the_bandwidth() {
        let mut e = Harness::new("BandwidthMeter", &["800kbps"], 1, 2);
        for (length, want) in [(1000, 1), (20, 0)] {
            let mut port = 2;
            for _ in 0..1000 {
                e.now += 1_000_000;
                port = e.send(0, &vec![0; length])[0].out().0;
            }
            assert_eq!(port, want, "{length} bytes each millisecond");
        }
        assert!(crate::class_named("BandwidthMeter").unwrap().configure(&["5x".into()]).is_err());
    }
}
