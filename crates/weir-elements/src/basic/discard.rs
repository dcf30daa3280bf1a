use crate::prelude::*;

element! {
    /// Drops all packets (`Discarded`).
    Discard: "1/0", "a/a";
    example "Idle -> Discard;";
    params {
        /// Kept for Click configurations: whether packets are pulled is up to the element that pulls.
        key active: bool = true,
        /// Kept for Click configurations: how many packets are pulled at a time is up to the element that pulls.
        key burst: u32 = 1,
    }
    handlers {
        /// Number of packets that were dropped.
        count count,
        /// Sets `count` to 0.
        write reset_counts = |_, s, _| { s.set_cell("count", 0); Ok(()) },
    }
}

fn program(_: &Discard, b: &mut Builder) {
    let packets = b.cell("count", W64, 0);
    b.input(0, |b| {
        count(b, packets);
        b.drop(Reason::DISCARDED);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn every_packet_is_dropped_and_counted() {
        let mut e = Harness::new("Discard", &["BURST 8"], 1, 0);
        assert_eq!(e.send(0, b"")[0].reason(), "Discarded");
        assert_eq!(e.send(0, b"x")[0].reason(), "Discarded");
        assert_eq!(e.read("count"), "2");
        e.write("reset_counts", "").unwrap();
        assert_eq!(e.read("count"), "0");
    }
}
