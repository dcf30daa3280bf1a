use crate::prelude::*;

element! {
    /// Sets the destination annotation, by which packets are routed, to an address.
    SetIPAddress: "1/1", "a/a";
    example "Idle -> SetIPAddress(10.0.0.1) -> Discard;";
    params {
        /// The address.
        pos ipaddr: Ipv4Addr,
        /// Which annotation is set: its offset in the annotation area, or the name of one that has 4 bytes.
        key anno: WordAnno = WordAnno(anno::DST_IP) => "DST_IP",
    }
    handlers {
        /// The address.
        cell addr: Ipv4Addr,
    }
}

/// Offset of an annotation of four bytes.
#[derive(Debug, Clone, Copy)]
pub struct WordAnno(pub(super) u32);

impl FromArg for WordAnno {
    const SYNTAX: &'static str = "annotation of four bytes";
    fn from_arg(text: &str) -> Result<WordAnno, String> {
        let last = weir_packet::ANNO_LEN as u32 - 4;
        match text.trim() {
            "DST_IP" => Ok(WordAnno(anno::DST_IP)),
            "AGGREGATE" => Ok(WordAnno(anno::AGGREGATE)),
            other => match u32::from_arg(other) {
                Ok(offset) if offset <= last => Ok(WordAnno(offset)),
                _ => Err(format!(
                    "'{text}' is not an annotation of four bytes: write an offset from 0 to {last}, DST_IP or AGGREGATE"
                )),
            },
        }
    }
}

fn program(e: &SetIPAddress, b: &mut Builder) {
    let addr = b.live("addr", W32, e.ipaddr.bits());
    b.input(0, |b| {
        let addr = b.read_cell(addr);
        b.store_anno(e.anno.0, addr);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    fn anno(e: &mut Harness) -> [u8; 48] {
        match &e.send(0, b"")[0] {
            Outcome::Out(0, p) => p.anno,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_address_is_set_and_can_change() {
        let mut e = Harness::new("SetIPAddress", &["10.0.0.1"], 1, 1);
        assert_eq!(anno(&mut e)[..5], [10, 0, 0, 1, 0]);
        e.write("addr", "10.0.0.2").unwrap();
        assert_eq!((anno(&mut e)[3], e.read("addr")), (2, "10.0.0.2".into()));
        assert!(e.write("addr", "10.0.0").unwrap_err().contains("not an IP address"));
        let mut e = Harness::new("SetIPAddress", &["10.0.0.1", "ANNO 44"], 1, 1);
        assert_eq!(anno(&mut e)[43..], [0, 10, 0, 0, 1]);
    }

    #[test]
    fn an_annotation_lies_in_the_area() {
        let class = crate::class_named("SetIPAddress").unwrap();
        for wrong in ["45", "PAINT", "-1"] {
            let errors = class.configure(&["10.0.0.1".into(), format!("ANNO {wrong}")]).err().unwrap();
            assert!(errors[0].contains("ANNO: ") && errors[0].contains("0 to 44"), "{errors:?}");
        }
    }
}
