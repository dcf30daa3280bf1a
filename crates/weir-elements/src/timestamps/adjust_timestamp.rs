use crate::prelude::*;

element! {
    /// Adds to the time of packets. Packets without a time (0) keep that.
    AdjustTimestamp: "1/1", "a/a";
    example "Idle -> AdjustTimestamp(-1.5) -> Discard;";
    params {
        /// What is added, in seconds; it may be negative.
        pos time: Time,
        /// Whether it is added to the first timestamp annotation instead.
        key first: bool = false,
        /// Whether it is added to a time of 0 as well.
        key all: bool = false,
    }
    handlers {
        /// What is added.
        cell time: Time,
    }
}

fn program(e: &AdjustTimestamp, b: &mut Builder) {
    let delta = b.live("time", W64, e.time.bits());
    b.input(0, |b| {
        let time =
            if e.first { b.load_anno(W64, anno::FIRST_TIMESTAMP) } else { b.load_meta(MetaField::Timestamp) };
        let delta = b.read_cell(delta);
        let mut sum = b.add(time, delta);
        if !e.all {
            let none = b.eq(time, 0u64);
            sum = b.select(none, time, sum);
        }
        if e.first {
            b.store_anno(anno::FIRST_TIMESTAMP, sum);
        } else {
            b.store_meta(MetaField::Timestamp, sum);
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use weir_packet::Packet;

    fn time(e: &mut Harness, time: u64) -> u64 {
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.timestamp = time;
        packet.anno[32..40].copy_from_slice(&time.to_be_bytes());
        match e.send_packet(0, packet).remove(0) {
            Outcome::Out(0, p) => p.timestamp,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_time_moves_but_zero_stays() {
        let mut e = Harness::new("AdjustTimestamp", &["1.5"], 1, 1);
        assert_eq!(time(&mut e, 500_000_000), 2_000_000_000);
        assert_eq!(time(&mut e, 0), 0);
        e.write("time", "-0.5").unwrap();
        assert_eq!(e.read("time"), "-0.500000");
        assert_eq!(time(&mut e, 400_000_000), 100_000_000u64.wrapping_neg());
        assert_eq!(time(&mut Harness::new("AdjustTimestamp", &["1", "ALL true"], 1, 1), 0), 1_000_000_000);
        assert_eq!(time(&mut Harness::new("AdjustTimestamp", &["1", "FIRST true"], 1, 1), 7), 7);
    }
}
