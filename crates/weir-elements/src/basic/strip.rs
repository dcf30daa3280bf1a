use crate::prelude::*;

element! {
    /// Removes bytes in front of packets. Packets that have fewer are dropped (`Truncated`).
    ///
    /// `Unstrip` takes them back.
    Strip: "1/1", "a/a";
    example "Idle -> Strip(14) -> CheckIPHeader -> Discard;";
    params {
        /// Number of bytes.
        pos length: u32,
    }
}

fn program(e: &Strip, b: &mut Builder) {
    b.input(0, |b| {
        b.require(Layer::Data, e.length, Reason::TRUNCATED);
        b.pull(e.length);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn bytes_in_front_go() {
        let mut e = Harness::new("Strip", &["3"], 1, 1);
        assert_eq!(e.send(0, b"abcde")[0].out(), (0, &b"de"[..]));
        assert_eq!(e.send(0, b"abc")[0].out(), (0, &b""[..]));
        for n in 0..3 {
            assert_eq!(e.send(0, &b"abc"[..n])[0].reason(), "Truncated");
        }
    }
}
