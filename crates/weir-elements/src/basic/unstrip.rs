use crate::prelude::*;

element! {
    /// Takes back bytes in front of packets that `Strip` removed. Packets that never had so many are dropped
    /// (`NoSpace`).
    Unstrip: "1/1", "a/a";
    example "Idle -> Strip(14) -> Unstrip(14) -> Discard;";
    params {
        /// Number of bytes.
        pos length: u32,
    }
}

fn program(e: &Unstrip, b: &mut Builder) {
    b.input(0, |b| {
        b.unpull(e.length);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use weir_packet::Packet;

    #[test]
    fn what_was_stripped_comes_back_and_nothing_else() {
        let stripped = || {
            let mut p = Packet::from_bytes(b"abcde").unwrap();
            p.pull(3);
            p
        };
        let mut e = Harness::new("Unstrip", &["2"], 1, 1);
        assert_eq!(e.send_packet(0, stripped())[0].out(), (0, &b"bcde"[..]));
        let mut e = Harness::new("Unstrip", &["4"], 1, 1);
        assert_eq!(e.send_packet(0, stripped())[0].reason(), "NoSpace");
    }
}
