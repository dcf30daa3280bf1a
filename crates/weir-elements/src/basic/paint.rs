use crate::prelude::*;

element! {
    /// Sets the paint annotation of packets, for `CheckPaint` and `PaintSwitch`.
    Paint: "1/1", "a/a";
    example "Idle -> Paint(3) -> CheckPaint(3) -> Discard;";
    params {
        /// Colour, 0 to 255.
        pos color: u8,
        /// Which annotation is set: its offset in the annotation area, or the name of one that has a byte.
        pos anno: ByteAnno = ByteAnno(anno::PAINT) => "PAINT",
    }
    handlers {
        /// The colour.
        cell color: u8,
    }
}

/// Offset of an annotation of one byte.
#[derive(Debug, Clone, Copy)]
pub struct ByteAnno(pub(crate) u32);

impl FromArg for ByteAnno {
    const SYNTAX: &'static str = "annotation of one byte";
    fn from_arg(text: &str) -> Result<ByteAnno, String> {
        let last = weir_packet::ANNO_LEN as u32 - 1;
        match text.trim() {
            "PAINT" => Ok(ByteAnno(anno::PAINT)),
            "ICMP_PARAMPROB" => Ok(ByteAnno(anno::ICMP_PARAM_PROB)),
            "FIX_IP_SRC" => Ok(ByteAnno(anno::FIX_IP_SRC)),
            other => match u32::from_arg(other) {
                Ok(offset) if offset <= last => Ok(ByteAnno(offset)),
                _ => Err(format!(
                    "'{text}' is not an annotation of one byte: write an offset from 0 to {last}, PAINT, ICMP_PARAMPROB or FIX_IP_SRC"
                )),
            },
        }
    }
}

fn program(e: &Paint, b: &mut Builder) {
    let color = b.live("color", W8, e.color.into());
    b.input(0, |b| {
        let color = b.read_cell(color);
        b.store_anno(e.anno.0, color);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    fn anno(e: &mut Harness, at: usize) -> u8 {
        match &e.send(0, b"x")[0] {
            Outcome::Out(0, p) => p.anno[at],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_colour_is_set_and_can_change() {
        let mut e = Harness::new("Paint", &["7"], 1, 1);
        assert_eq!(anno(&mut e, crate::anno::PAINT as usize), 7);
        e.write("color", "9").unwrap();
        assert_eq!((anno(&mut e, crate::anno::PAINT as usize), e.read("color")), (9, "9".into()));
        assert!(e.write("color", "256").is_err());
        assert_eq!(anno(&mut Harness::new("Paint", &["1", "ANNO 47"], 1, 1), 47), 1);
    }

    #[test]
    fn an_annotation_lies_in_the_area() {
        let class = crate::class_named("Paint").unwrap();
        let error = |anno: &str| class.configure(&["1".into(), anno.into()]).err().unwrap().join("");
        for wrong in ["48", "4294967295", "DST_IP"] {
            assert!(error(wrong).contains("ANNO: ") && error(wrong).contains("0 to 47"), "{}", error(wrong));
        }
        assert!(class.configure(&["256".into()]).err().unwrap()[0].contains("COLOR: 256 is too large"));
        assert!(class.configure(&[]).err().unwrap()[0].contains("missing mandatory COLOR"));
    }
}
