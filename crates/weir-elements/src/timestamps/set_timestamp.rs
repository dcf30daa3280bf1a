use crate::prelude::*;

element! {
    /// Sets the time of packets.
    SetTimestamp: "1/1", "a/a";
    example "Idle -> SetTimestamp -> Discard;";
    example "Idle -> SetTimestamp(1.5, FIRST true) -> Discard;";
    params {
        /// The time, in seconds since 1970. Default: when the packet comes here.
        pos timestamp: Option<Time> = None,
        /// Whether the first timestamp annotation is set instead.
        key first: bool = false,
    }
}

fn program(e: &SetTimestamp, b: &mut Builder) {
    b.input(0, |b| {
        let time = match e.timestamp {
            Some(time) => b.constant(W64, time.bits()),
            None => b.now(),
        };
        if e.first {
            b.store_anno(anno::FIRST_TIMESTAMP, time);
        } else {
            b.store_meta(MetaField::Timestamp, time);
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    fn sent(args: &[&str]) -> (u64, Vec<u8>) {
        match Harness::new("SetTimestamp", args, 1, 1).send(0, b"x").remove(0) {
            Outcome::Out(0, p) => (p.timestamp, p.anno[32..40].to_vec()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_time_is_that_of_the_clock_or_of_the_argument() {
        assert_eq!(sent(&[]).0, 1_000_000_000);
        assert_eq!(sent(&["2.5"]).0, 2_500_000_000);
        let (time, first) = sent(&["2.5", "FIRST true"]);
        assert_eq!((time, first), (0, 2_500_000_000u64.to_be_bytes().to_vec()));
    }

    #[test]
    fn a_wrong_time_is_told() {
        let class = crate::class_named("SetTimestamp").unwrap();
        let error = class.configure(&["soon".into()]).err().unwrap().join("");
        assert!(error.contains("TIMESTAMP: 'soon' is not a time"), "{error}");
    }
}
