use crate::prelude::*;

element! {
    /// Counts packets and bytes, and passes packets on unchanged.
    ///
    /// Rates follow from two readings of the counts; there are no handlers for them. With a handler to call, the element
    /// runs in the engine, outside of packet programs, which takes longer.
    Counter: "1/1", "a/a";
    example "Idle -> Counter -> Discard;";
    example "Idle -> Counter(COUNT_CALL 5 s.switch 1) -> s :: Switch -> Discard; s [1] -> Discard;";
    params {
        /// Write handler that is called when so many packets have come, before the last of them goes on: number,
        /// handler, value.
        key count_call: Option<String> = None,
        /// The same, when so many bytes have come, or more.
        key byte_count_call: Option<String> = None,
    }
    handlers {
        /// Number of packets since the last reset.
        count count,
        /// Number of bytes since the last reset.
        count byte_count,
        /// Sets both counts to 0.
        write reset = |_, s, _| reset(s),
        /// The same as `reset`.
        write reset_counts = |_, s, _| reset(s),
    }
}

fn program(_: &Counter, b: &mut Builder) {
    let packets = b.cell("count", W64, 0);
    let bytes = b.cell("byte_count", W64, 0);
    b.input(0, |b| {
        count(b, packets);
        let len = b.len();
        let len = b.resize(W64, len);
        let sum = b.read_cell(bytes);
        let sum = b.add(sum, len);
        b.write_cell(bytes, sum);
        b.emit(0);
    });
}

fn reset(state: &mut State<'_>) -> Result<(), String> {
    state.set_cell("count", 0);
    state.set_cell("byte_count", 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn packets_and_bytes_are_counted_until_a_reset() {
        let mut e = Harness::new("Counter", &[], 1, 1);
        for bytes in [&b"12345"[..], b"", b"67"] {
            assert_eq!(e.send(0, bytes)[0].out(), (0, bytes));
        }
        assert_eq!((e.read("count").as_str(), e.read("byte_count").as_str()), ("3", "7"));
        e.write("reset", "").unwrap();
        assert_eq!((e.read("count").as_str(), e.read("byte_count").as_str()), ("0", "0"));
    }
}
