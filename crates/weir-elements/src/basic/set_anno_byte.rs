use super::paint::ByteAnno;
use crate::prelude::*;

element! {
    /// Sets a byte of the annotations of each packet.
    SetAnnoByte: "1/1", "a/a";
    example "Idle -> SetAnnoByte(PAINT, 3) -> Discard;";
    params {
        /// Which: its offset in the annotation area, or the name of an annotation that has a byte.
        pos anno: ByteAnno,
        /// What it becomes, 0 to 255.
        pos value: u8,
    }
    handlers {
        /// Offset of the byte in the annotation area.
        read anno = |e, _| Ok(e.anno.0.to_string()),
        /// What the byte becomes.
        cell value: u8,
    }
}

fn program(e: &SetAnnoByte, b: &mut Builder) {
    let value = b.live("value", W8, e.value.into());
    b.input(0, |b| {
        let value = b.read_cell(value);
        b.store_anno(e.anno.0, value);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    #[test]
    fn the_byte_is_set() {
        let mut e = Harness::new("SetAnnoByte", &["40", "7"], 1, 1);
        for value in [7, 9] {
            let out = e.send(0, b"x");
            let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
            assert_eq!((p.anno[40], p.anno[..40].iter().any(|&b| b != 0)), (value, false));
            e.write("value", "9").unwrap();
        }
        assert_eq!((e.read("anno"), e.read("value")), ("40".into(), "9".into()));
    }

    #[test]
    fn a_place_outside_of_the_annotations_is_refused() {
        let class = crate::class_named("SetAnnoByte").unwrap();
        let errors = class.configure(&["48".into(), "256".into()]).err().unwrap().join("; ");
        assert!(errors.contains("ANNO: ") && errors.contains("VALUE: 256 is too large"), "{errors}");
    }
}
