use super::paint::ByteAnno;
use super::switch::emit_on;
use crate::prelude::*;

element! {
    /// Sends packets to the output that their paint annotation names.
    ///
    /// A packet of colour 255 is copied to every output. A packet whose output does not exist is dropped (`NoMatch`).
    PaintSwitch: "1/-", "h/h";
    example "Idle -> Paint(1) -> s :: PaintSwitch; s [0] -> Discard; s [1] -> Discard;";
    params {
        /// Which annotation is looked at: its offset in the annotation area, or the name of one that has a byte.
        pos anno: ByteAnno = ByteAnno(anno::PAINT) => "PAINT",
    }
}

fn program(e: &PaintSwitch, b: &mut Builder) {
    b.input(0, |b| {
        let paint = b.load_anno(W8, e.anno.0);
        let to_all = b.eq(paint, 255);
        b.when(to_all, |b| {
            for port in 1..b.outputs() {
                b.fork(|b| b.emit(port));
            }
            b.emit_or_drop(0, Reason::NO_MATCH);
        });
        emit_on(b, paint, &Reason::NO_MATCH);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    fn send(color: u8, outputs: u32) -> Vec<Outcome> {
        let mut p = weir_packet::Packet::from_bytes(b"x").unwrap();
        p.anno[crate::anno::PAINT as usize] = color;
        Harness::new("PaintSwitch", &[], 1, outputs).send_packet(0, p)
    }

    #[test]
    fn the_colour_is_the_output() {
        for color in 0..3 {
            assert_eq!(send(color, 3)[0].out().0, u32::from(color));
        }
        assert_eq!(send(3, 3)[0].reason(), "NoMatch");
    }

    #[test]
    fn colour_255_goes_everywhere() {
        let ports: Vec<_> = send(255, 3).iter().map(|o| o.out().0).collect();
        assert_eq!(ports, [0, 1, 2]);
        assert_eq!(send(255, 0)[0].reason(), "NoMatch");
        assert_eq!(send(255, 300).len(), 300);
    }
}
