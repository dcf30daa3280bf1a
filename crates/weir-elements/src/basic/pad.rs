use crate::prelude::*;

element! {
    /// Extends packets with zero bytes to at least so many bytes.
    ///
    /// Without a length, packets grow by their extra length annotation, which `Truncate` and summary dumps set. The
    /// annotation is 0 afterwards. Packets that have no space for so many bytes are dropped (`NoSpace`).
    Pad: "1/1", "a/a";
    example "Idle -> Pad(60) -> Discard;";
    example "Idle -> Truncate(20) -> Pad -> Discard;";
    params {
        /// Least length in bytes; 0 stands for the annotation.
        pos length: u32 = 0,
        /// Kept for Click configurations: the bytes are always zero.
        key zero: bool = true,
    }
}

fn program(e: &Pad, b: &mut Builder) {
    b.input(0, |b| {
        let more = if e.length == 0 {
            b.load_anno(W32, anno::EXTRA_LENGTH)
        } else {
            let len = b.len();
            let wanted = b.constant(W32, e.length);
            let more = b.sub(wanted, len);
            let short = b.lt(len, wanted);
            b.select(short, more, 0)
        };
        let none = b.eq(more, 0);
        b.unless(none, |b| b.put(more));
        let zero = b.constant(W32, 0_u32);
        b.store_anno(anno::EXTRA_LENGTH, zero);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use weir_packet::Packet;

    fn with_extra(n: u32) -> Packet {
        let mut p = Packet::from_bytes(b"abc").unwrap();
        p.anno[28..32].copy_from_slice(&n.to_be_bytes());
        p
    }

    #[test]
    fn packets_grow_to_the_length_or_by_the_annotation() {
        let mut e = Harness::new("Pad", &["5"], 1, 1);
        assert_eq!(e.send(0, b"abc")[0].out().1, b"abc\0\0");
        assert_eq!(e.send(0, b"abcdef")[0].out().1, b"abcdef");
        let out = Harness::new("Pad", &[], 1, 1).send_packet(0, with_extra(4));
        assert_eq!(out[0].out().1, b"abc\0\0\0\0");
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!(p.anno[28..32], [0; 4]);
        assert_eq!(Harness::new("Pad", &[], 1, 1).send(0, b"abc")[0].out().1, b"abc");
    }

    #[test]
    fn more_than_a_packet_holds_is_dropped() {
        assert_eq!(Harness::new("Pad", &["4294967295"], 1, 1).send(0, b"abc")[0].reason(), "NoSpace");
        let out = Harness::new("Pad", &[], 1, 1).send_packet(0, with_extra(u32::MAX));
        assert_eq!(out[0].reason(), "NoSpace");
    }

    #[test]
    fn a_bad_length_is_refused() {
        let errors = crate::class_named("Pad").unwrap().configure(&["long".into()]).err().unwrap();
        assert!(errors[0].contains("LENGTH: 'long' is not a number"), "{errors:?}");
    }
}
