use super::paint::ByteAnno;
use crate::prelude::*;

element! {
    /// Passes packets on whose paint annotation is `COLOR`; others leave on output 1, or are dropped (`WrongPaint`).
    CheckPaint: "1/1-2", "a/ah";
    example "Idle -> Paint(3) -> c :: CheckPaint(3) -> Discard; c [1] -> Discard;";
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

fn program(e: &CheckPaint, b: &mut Builder) {
    let color = b.live("color", W8, e.color.into());
    b.input(0, |b| {
        let wanted = b.read_cell(color);
        let found = b.load_anno(W8, e.anno.0);
        let differs = b.ne(found, wanted);
        b.when(differs, |b| b.emit_or_drop(1, Reason::new("WrongPaint")));
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn only_the_colour_passes() {
        let mut e = Harness::new("CheckPaint", &["3"], 1, 2);
        assert_eq!(e.send(0, b"x")[0].out().0, 1, "a new packet has paint 0");
        e.write("color", "0").unwrap();
        assert_eq!(e.send(0, b"x")[0].out().0, 0);
        assert_eq!(Harness::new("CheckPaint", &["3"], 1, 1).send(0, b"x")[0].reason(), "WrongPaint");
    }

    #[test]
    fn another_annotation_can_be_checked() {
        let mut p = weir_packet::Packet::from_bytes(b"x").unwrap();
        p.anno[40] = 5;
        let mut e = Harness::new("CheckPaint", &["5", "40"], 1, 2);
        assert_eq!(e.send_packet(0, p)[0].out().0, 0);
    }
}
