use super::bucket::{Bucket, set_rate};
use super::rate::{Spec, THRESHOLD};
use super::rated_splitter::RATE_LIMIT;
use crate::prelude::*;

element! {
    /// Sends packets up to a bandwidth to output 0, and the rest to output 1.
    ///
    /// The bandwidth is that of a token bucket, which holds what 20 ms bring unless `BURST_DURATION` or `BURST_BYTES` say
    /// otherwise; it starts full. A packet passes if the bucket is not in debt, and may bring it into debt. Without
    /// output 1 packets beyond the bandwidth are dropped (`RateLimit`).
    BandwidthRatedSplitter: "1/1-2", "h/h";
    example "Idle -> s :: BandwidthRatedSplitter(384kbps) -> Discard; s [1] -> Discard;";
    params {
        /// Bandwidth.
        pos rate: Bandwidth,
        /// How long the bucket takes to fill.
        key burst_duration: Option<Duration> = None,
        /// How many bytes the bucket holds.
        key burst_bytes: Option<u32> = None,
    }
    check |e| spec(e, e.rate).check("BURST_BYTES");
    handlers {
        /// Bandwidth.
        read rate = |_, s| Ok(Bandwidth(s.cell("rate") as u32).to_string()),
        /// Changes the bandwidth.
        write rate = |e, s, v| {
            let rate = Bandwidth::from_arg(v)?;
            set_rate(s, spec(e, rate).rate());
            s.set_cell("rate", rate.0.into());
            Ok(())
        },
    }
}

fn spec(e: &BandwidthRatedSplitter, rate: Bandwidth) -> Spec {
    Spec { rate: rate.0, burst_duration: e.burst_duration, burst: e.burst_bytes, bytes: true }
}

fn program(e: &BandwidthRatedSplitter, b: &mut Builder) {
    b.live("rate", W32, e.rate.0.into());
    let bucket = Bucket::new(b, spec(e, e.rate).rate());
    b.input(0, |b| {
        let threshold = b.constant(W32, THRESHOLD);
        let len = b.len();
        bucket.take(b, threshold, len, |b| b.emit(0), |b| b.emit_or_drop(1, RATE_LIMIT));
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn as_many_bytes_pass_as_the_rate_and_the_burst_say() {
        for (args, want) in [
            (&["200Bps"][..], 20..=21),
            (&["1600bps", "BURST_BYTES 5000"], 70..=71),
            (&["200Bps", "BURST_DURATION 25"], 70..=71),
            (&["10kBps"], 200..=200),
        ] {
            let mut e = Harness::new("BandwidthRatedSplitter", args, 1, 2);
            let mut passed = 0;
            for _ in 0..200 {
                passed += usize::from(e.send(0, &[0; 100])[0].out().0 == 0);
                e.now += 50_000_000;
            }
            assert!(want.contains(&passed), "{args:?}: {passed}");
        }
    }

    #[test]
    fn the_rate_is_shown_with_a_unit() {
        let mut e = Harness::new("BandwidthRatedSplitter", &["384kbps"], 1, 1);
        assert_eq!(e.read("rate"), "384kbps");
        e.write("rate", "1MBps").unwrap();
        assert_eq!(e.read("rate"), "8Mbps");
        assert!(e.write("rate", "1 fortnight").unwrap_err().contains("not a bandwidth"));
        assert_eq!(e.send(0, b"x")[0].out().0, 0);
    }
}
