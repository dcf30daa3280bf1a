use crate::prelude::*;

element! {
    /// Sets the time of packets to a difference. Packets without a time (0) keep that.
    SetTimestampDelta: "1/1", "a/a";
    example "Idle -> SetTimestampDelta(TYPE NOW) -> Discard;";
    params {
        /// `RANGE`: since the first packet's time; `NOW`: from the packet's time until it comes here; `FIRST`: from the
        /// first timestamp annotation to the packet's time.
        key r#type: Delta = Delta::Range => "RANGE",
    }
    handlers {
        /// The time of the first packet.
        read first = |_, s| Ok(Time::show(s.cell("first"))),
        /// Forgets the time of the first packet.
        write reset = |_, s, _| { s.set_cell("first", 0); Ok(()) },
    }
}

/// From when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta {
    /// From the first packet to this one.
    Range,
    /// From the packet's time to the present.
    Now,
    /// From the annotation to the packet's time.
    First,
}

impl FromArg for Delta {
    const SYNTAX: &'static str = "RANGE, NOW or FIRST";
    fn from_arg(text: &str) -> Result<Delta, String> {
        match text.trim().to_ascii_uppercase().as_str() {
            "RANGE" => Ok(Delta::Range),
            "NOW" => Ok(Delta::Now),
            "FIRST" => Ok(Delta::First),
            _ => Err(format!("'{text}' is no type of difference: write RANGE, NOW or FIRST")),
        }
    }
}

fn program(e: &SetTimestampDelta, b: &mut Builder) {
    let first = b.cell("first", W64, 0);
    b.input(0, |b| {
        let time = b.load_meta(MetaField::Timestamp);
        let (from, to) = match e.r#type {
            Delta::Now => (time, b.now()),
            Delta::First => (b.load_anno(W64, anno::FIRST_TIMESTAMP), time),
            Delta::Range => {
                let seen = b.read_cell(first);
                let none = b.eq(seen, 0u64);
                let from = b.select(none, time, seen);
                b.write_cell(first, from);
                (from, time)
            }
        };
        let delta = b.sub(to, from);
        let none = b.eq(time, 0u64);
        let delta = b.select(none, time, delta);
        b.store_meta(MetaField::Timestamp, delta);
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
        packet.anno[39] = 3;
        match e.send_packet(0, packet).remove(0) {
            Outcome::Out(0, p) => p.timestamp,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_are_counted_from_the_first_packet_until_a_reset() {
        let mut e = Harness::new("SetTimestampDelta", &[], 1, 1);
        assert_eq!([0, 50, 70, 0].map(|t| time(&mut e, t)), [0, 0, 20, 0]);
        assert_eq!(e.read("first"), "0.000000050");
        e.write("reset", "").unwrap();
        assert_eq!([60, 70].map(|t| time(&mut e, t)), [0, 10]);
    }

    #[test]
    fn other_differences() {
        assert_eq!(time(&mut Harness::new("SetTimestampDelta", &["TYPE NOW"], 1, 1), 1), 999_999_999);
        assert_eq!(time(&mut Harness::new("SetTimestampDelta", &["TYPE FIRST"], 1, 1), 10), 7);
        let class = crate::class_named("SetTimestampDelta").unwrap();
        let error = class.configure(&["TYPE LAST".into()]).err().unwrap().join("");
        assert!(error.contains("write RANGE, NOW or FIRST"), "{error}");
    }
}
