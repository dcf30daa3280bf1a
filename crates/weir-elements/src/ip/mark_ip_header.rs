use super::checks::check_offset;
use crate::prelude::*;

element! {
    /// Marks where the IPv4 header of packets starts, without a check.
    ///
    /// Sets `net`, and `transport` to the end that the header gives for itself. Packets that are too short for a
    /// header pass without marks: elements that need a header drop them. `CheckIPHeader` checks the header, cuts the
    /// packet to its length and sets the destination annotation.
    MarkIPHeader: "1/1", "a/a";
    example "Idle -> MarkIPHeader(14) -> IPPrint -> Discard;";
    params {
        /// Where the header starts, in bytes.
        pos offset: u32 = 0,
    }
    check |e| check_offset(e.offset);
}

fn program(e: &MarkIPHeader, b: &mut Builder) {
    b.input(0, |b| {
        b.if_has(
            Layer::Data,
            e.offset + 20,
            |b| {
                b.set_mark(Layer::Net, Layer::Data, e.offset);
                let len = ip_header_len(b);
                b.if_has(
                    Layer::Net,
                    len,
                    |b| b.set_mark(Layer::Transport, Layer::Net, len),
                    |b| b.clear_mark(Layer::Transport),
                );
                b.emit(0);
            },
            |b| {
                b.clear_mark(Layer::Net);
                b.clear_mark(Layer::Transport);
                b.emit(0);
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, udp};
    use weir_packet::{Layer, Packet};

    fn marks(offset: &str, bytes: &[u8]) -> (Option<u32>, Option<u32>) {
        let mut p = Packet::from_bytes(bytes).unwrap();
        let start = p.data();
        // Marks of an outer header.
        p.set_layer(Layer::Net, Some(start));
        p.set_layer(Layer::Transport, Some(start));
        let out = Harness::new("MarkIPHeader", &[offset], 1, 1).send_packet(0, p);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!(p.bytes(), bytes);
        let at = |layer| p.layer(layer).map(|at| at - p.data());
        (at(Layer::Net), at(Layer::Transport))
    }

    #[test]
    fn the_header_and_what_follows_are_marked() {
        let mut p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x");
        assert_eq!(marks("0", &p), (Some(0), Some(20)));
        p[0] = 0x46;
        assert_eq!(marks("0", &p), (Some(0), Some(24)));
        p.splice(0..0, [0; 14]);
        assert_eq!(marks("14", &p), (Some(14), Some(38)));
    }

    #[test]
    fn what_is_not_there_is_not_marked() {
        let mut p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"");
        for n in 0..20 {
            assert_eq!(marks("0", &p[..n]), (None, None));
        }
        p[0] = 0x4f;
        for n in 20..p.len() {
            assert_eq!(marks("0", &p[..n]), (Some(0), None));
        }
    }

    #[test]
    fn the_offset_is_bounded() {
        let errors = crate::class_named("MarkIPHeader").unwrap().configure(&["4294967295".into()]);
        assert!(errors.err().unwrap()[0].contains("beyond the end of any packet; at most"));
    }
}
