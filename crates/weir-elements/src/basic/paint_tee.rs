use super::paint::ByteAnno;
use crate::prelude::*;

element! {
    /// Passes packets on, and sends a copy of those whose paint annotation is `COLOR` to output 1.
    ///
    /// With `Paint` behind each device, it finds packets that leave where they came in, which get an ICMP redirect.
    PaintTee: "1/2", "a/ah";
    example "Idle -> CheckIPHeader -> Paint(1) -> t :: PaintTee(1) -> Discard; t [1] -> ICMPError(10.0.0.1, redirect, host) -> Discard;";
    params {
        /// Colour, 0 to 255.
        pos color: u8,
        /// Which annotation is looked at: its offset in the annotation area, or the name of one that has a byte.
        pos anno: ByteAnno = ByteAnno(anno::PAINT) => "PAINT",
    }
    handlers {
        /// The colour.
        cell color: u8,
    }
}

fn program(e: &PaintTee, b: &mut Builder) {
    let color = b.live("color", W8, e.color.into());
    b.input(0, |b| {
        let wanted = b.read_cell(color);
        let found = b.load_anno(W8, e.anno.0);
        let same = b.eq(found, wanted);
        b.when(same, |b| b.fork(|b| b.emit(1)));
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use weir_packet::Packet;

    fn outputs(e: &mut Harness, at: u32, color: u8) -> Vec<u32> {
        let mut p = Packet::from_bytes(b"x").unwrap();
        p.anno[at as usize] = color;
        e.send_packet(0, p)
            .iter()
            .map(|o| {
                assert_eq!(o.out().1, b"x");
                o.out().0
            })
            .collect()
    }

    #[test]
    fn packets_of_the_colour_are_copied() {
        let mut e = Harness::new("PaintTee", &["7"], 1, 2);
        assert_eq!(outputs(&mut e, crate::anno::PAINT, 7), [0, 1]);
        assert_eq!(outputs(&mut e, crate::anno::PAINT, 8), [0]);
        e.write("color", "8").unwrap();
        assert_eq!(outputs(&mut e, crate::anno::PAINT, 8), [0, 1]);
        assert_eq!(e.read("color"), "8");
        assert_eq!(outputs(&mut Harness::new("PaintTee", &["7", "ANNO 40"], 1, 2), 40, 7), [0, 1]);
    }

    #[test]
    fn the_copy_has_the_annotations() {
        let mut e = Harness::new("PaintTee", &["0"], 1, 2);
        let mut p = Packet::from_bytes(b"x").unwrap();
        p.anno[47] = 9;
        let out = e.send_packet(0, p);
        assert!(matches!(&out[1], Outcome::Out(1, p) if p.anno[47] == 9));
    }

    #[test]
    fn the_colour_is_a_byte() {
        let errors = crate::class_named("PaintTee").unwrap().configure(&["256".into()]).err().unwrap();
        assert!(errors[0].contains("COLOR: 256 is too large; at most 255"), "{errors:?}");
    }
}
