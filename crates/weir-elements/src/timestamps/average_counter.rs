use crate::prelude::*;

/// The shortest time that a rate is given for, in nanoseconds.
const SHORTEST: u128 = 1_000_000;

element! {
    /// Counts packets and bytes, and gives their average rates between the first packet and the last.
    AverageCounter: "1/1", "a/a";
    example "Idle -> AverageCounter -> Discard;";
    params {
        /// How many seconds after the first packet are left out.
        pos ignore: u32 = 0,
    }
    handlers {
        /// Number of packets since the last reset.
        count count,
        /// Number of bytes since the last reset.
        count byte_count,
        /// Packets a second.
        read rate = |e, s| Ok(rate(e, s, s.cell("count"))),
        /// Bytes a second.
        read byte_rate = |e, s| Ok(rate(e, s, s.cell("byte_count"))),
        /// Starts anew.
        write reset = |_, s, _| {
            ["count", "byte_count", "first", "last"].into_iter().for_each(|cell| s.set_cell(cell, 0));
            Ok(())
        },
    }
}

fn ignored(e: &AverageCounter) -> u64 {
    u64::from(e.ignore) * 1_000_000_000
}

fn rate(e: &AverageCounter, s: &State<'_>, count: u128) -> String {
    let time = s.cell("last").saturating_sub(s.cell("first")).saturating_sub(ignored(e).into());
    (count * 1_000_000_000 / time.max(SHORTEST)).to_string()
}

fn program(e: &AverageCounter, b: &mut Builder) {
    let [packets, bytes, first, last] =
        ["count", "byte_count", "first", "last"].map(|name| b.cell(name, W64, 0));
    b.input(0, |b| {
        let now = b.now();
        b.write_cell(last, now);
        let seen = b.read_cell(first);
        let none = b.eq(seen, 0u64);
        let start = b.select(none, now, seen);
        b.write_cell(first, start);
        let since = b.sub(now, start);
        let early = b.lt(since, ignored(e));
        b.unless(early, |b| {
            count(b, packets);
            let len = b.len();
            let len = b.resize(W64, len);
            let sum = b.read_cell(bytes);
            let sum = b.add(sum, len);
            b.write_cell(bytes, sum);
        });
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn the_rate_is_between_first_and_last() {
        let mut e = Harness::new("AverageCounter", &[], 1, 1);
        assert_eq!(e.read("rate"), "0");
        for _ in 0..5 {
            assert_eq!(e.send(0, b"1234567890")[0].out(), (0, &b"1234567890"[..]));
            e.now += 500_000_000;
        }
        assert_eq!(["count", "byte_count", "rate", "byte_rate"].map(|h| e.read(h)), ["5", "50", "2", "25"]);
        e.write("reset", "").unwrap();
        assert_eq!(["count", "rate"].map(|h| e.read(h)), ["0", "0"]);
    }

    #[test]
    fn the_first_seconds_may_be_left_out() {
        let mut e = Harness::new("AverageCounter", &["1"], 1, 1);
        for _ in 0..5 {
            e.send(0, b"x");
            e.now += 500_000_000;
        }
        assert_eq!(["count", "rate"].map(|h| e.read(h)), ["3", "3"]);
    }
}
