use super::bucket::{Bucket, set_rate};
use super::rate::Spec;
use crate::prelude::*;

element! {
    /// Sends up to so many packets per second to output 0, and the rest to output 1.
    ///
    /// The rate is that of a token bucket, which holds what 20 ms bring, at least one packet, unless `BURST_DURATION` or
    /// `BURST_SIZE` say otherwise; it starts full. Without output 1 packets beyond the rate are dropped (`RateLimit`).
    RatedSplitter: "1/1-2", "h/h";
    example "Idle -> s :: RatedSplitter(2000) -> Discard; s [1] -> Discard;";
    params {
        /// Packets per second.
        pos rate: u32,
        /// How long the bucket takes to fill.
        key burst_duration: Option<Duration> = None,
        /// How many packets the bucket holds.
        key burst_size: Option<u32> = None,
    }
    check |e| spec(e, e.rate).check("BURST_SIZE");
    handlers {
        /// Packets per second.
        count rate,
        /// Changes the rate.
        write rate = |e, s, v| {
            let rate = u32::from_arg(v.trim())?;
            set_rate(s, spec(e, rate).rate());
            s.set_cell("rate", rate.into());
            Ok(())
        },
    }
}

/// Packets come faster than allowed.
pub(super) const RATE_LIMIT: Reason = Reason::new("RateLimit");

fn spec(e: &RatedSplitter, rate: u32) -> Spec {
    Spec { rate, burst_duration: e.burst_duration, burst: e.burst_size, bytes: false }
}

fn program(e: &RatedSplitter, b: &mut Builder) {
    b.live("rate", W32, e.rate.into());
    let bucket = Bucket::new(b, spec(e, e.rate).rate());
    b.input(0, |b| {
        let one = b.constant(W32, 1_u32);
        bucket.take(b, one, one, |b| b.emit(0), |b| b.emit_or_drop(1, RATE_LIMIT));
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    const MS: u64 = 1_000_000;

    /// How many of the packets that come every `gap` milliseconds for ten seconds leave on output 0.
    fn passed(e: &mut Harness, gap: u64) -> usize {
        let count = 10_000 / gap;
        (0..count)
            .filter(|_| {
                e.now += gap * MS;
                e.send(0, b"x")[0].out().0 == 0
            })
            .count()
    }

    #[test]
    fn as_many_pass_as_the_rate_and_the_burst_say() {
        // Fractions are rounded down, so that a token takes a millisecond longer than half a second.
        assert_eq!(passed(&mut Harness::new("RatedSplitter", &["2"], 1, 2), 101), 20);
        assert_eq!(passed(&mut Harness::new("RatedSplitter", &["2", "BURST_SIZE 50"], 1, 2), 100), 69);
        assert_eq!(passed(&mut Harness::new("RatedSplitter", &["2", "BURST_DURATION 25"], 1, 2), 100), 69);
        assert_eq!(passed(&mut Harness::new("RatedSplitter", &["0"], 1, 2), 100), 1);
    }

    #[test]
    fn the_rate_can_change_while_it_runs() {
        let mut e = Harness::new("RatedSplitter", &["1"], 1, 2);
        assert_eq!(passed(&mut e, 100), 10);
        e.write("rate", "1000").unwrap();
        assert_eq!((passed(&mut e, 100), e.read("rate")), (100, "1000".into()));
        assert!(e.write("rate", "fast").unwrap_err().contains("not a number"));
    }

    #[test]
    fn without_a_second_output_the_rest_is_dropped() {
        let mut e = Harness::new("RatedSplitter", &["1"], 1, 1);
        assert_eq!(e.send(0, b"x")[0].out().0, 0);
        assert_eq!(e.send(0, b"x")[0].reason(), "RateLimit");
    }

    #[test]
    fn a_burst_is_given_in_one_way() {
        let class = crate::class_named("RatedSplitter").unwrap();
        let args = ["1".into(), "BURST_SIZE 2".into(), "BURST_DURATION 1".into()];
        assert!(class.configure(&args).err().unwrap()[0].contains("both BURST_DURATION and BURST_SIZE"));
    }
}
