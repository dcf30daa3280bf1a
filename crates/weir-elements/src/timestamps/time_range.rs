use crate::prelude::*;

element! {
    /// Keeps the earliest and the latest time of the packets, which pass unchanged. Packets without a time (0) do not
    /// count.
    TimeRange: "1/1", "a/a";
    example "Idle -> TimeRange -> Discard;";
    params {
        /// Whether packets come in the order of their times, so that the last is the latest.
        key simple: bool = false,
    }
    handlers {
        /// The earliest time, in seconds since 1970; 0 before the first packet.
        read first = |_, s| Ok(Time::show(s.cell("first"))),
        /// The latest time.
        read last = |_, s| Ok(Time::show(s.cell("last"))),
        /// The earliest and the latest time.
        read range = |_, s| Ok(format!("{} {}", Time::show(s.cell("first")), Time::show(s.cell("last")))),
        /// The seconds between them.
        read interval = |_, s| Ok(Time::show(s.cell("last") - s.cell("first"))),
        /// Forgets them.
        write reset = |_, s, _| {
            s.set_cell("first", 0);
            s.set_cell("last", 0);
            Ok(())
        },
    }
}

fn program(e: &TimeRange, b: &mut Builder) {
    let first = b.cell("first", W64, 0);
    let last = b.cell("last", W64, 0);
    b.input(0, |b| {
        let time = b.load_meta(MetaField::Timestamp);
        let timed = b.ne(time, 0u64);
        b.when(timed, |b| {
            let seen = b.read_cell(first);
            let none = b.eq(seen, 0u64);
            let earlier = b.lt(time, seen);
            let earlier = if e.simple { none } else { b.or(none, earlier) };
            let earliest = b.select(earlier, time, seen);
            b.write_cell(first, earliest);
            let seen = b.read_cell(last);
            let later = b.lt(seen, time);
            let latest = if e.simple { time } else { b.select(later, time, seen) };
            b.write_cell(last, latest);
        });
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use weir_packet::Packet;

    fn range(args: &[&str], times: &[u64]) -> String {
        let mut e = Harness::new("TimeRange", args, 1, 1);
        for time in times {
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.timestamp = time * 1_000_000_000;
            assert_eq!(e.send_packet(0, packet)[0].out(), (0, &b"x"[..]));
        }
        let range = format!("{} {}", e.read("range"), e.read("interval"));
        e.write("reset", "").unwrap();
        assert_eq!(e.read("range"), "0.000000 0.000000");
        range
    }

    #[test]
    fn the_range_covers_all_times() {
        assert_eq!(range(&[], &[5, 0, 3, 9, 4]), "3.000000 9.000000 6.000000");
        assert_eq!(range(&["SIMPLE true"], &[3, 4, 9]), "3.000000 9.000000 6.000000");
        assert_eq!(range(&[], &[]), "0.000000 0.000000 0.000000");
    }
}
