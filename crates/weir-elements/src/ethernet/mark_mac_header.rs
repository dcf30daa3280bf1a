use crate::ip::checks::check_offset;
use crate::prelude::*;

element! {
    /// Marks where the link-layer header of packets starts, and with `LENGTH` also where the network header does.
    ///
    /// Packets that end before are dropped (`Truncated`).
    MarkMACHeader: "1/1", "a/a";
    example "Idle -> MarkMACHeader(0, 14) -> IPPrint -> Discard;";
    params {
        /// Where the header starts, in bytes.
        pos offset: u32 = 0,
        /// Length of the header; 0: the `net` mark stays.
        pos length: u32 = 0,
    }
    check |e| {
        check_offset(e.offset)?;
        check_offset(e.length).map_err(|why| why.replace("OFFSET", "LENGTH"))
    };
}

fn program(e: &MarkMACHeader, b: &mut Builder) {
    b.input(0, |b| {
        b.require(Layer::Data, e.offset + e.length, Reason::TRUNCATED);
        b.set_mark(Layer::Mac, Layer::Data, e.offset);
        if e.length > 0 {
            b.set_mark(Layer::Net, Layer::Data, e.offset + e.length);
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use weir_packet::Layer;

    #[test]
    fn the_header_is_marked() {
        let out = Harness::new("MarkMACHeader", &["1", "2"], 1, 1).send(0, b"abcd");
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!((p.from_layer(Layer::Mac), p.from_layer(Layer::Net)), (&b"bcd"[..], &b"d"[..]));
        let out = Harness::new("MarkMACHeader", &[], 1, 1).send(0, b"abcd");
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!((p.from_layer(Layer::Mac), p.layer(Layer::Net)), (&b"abcd"[..], None));
    }

    #[test]
    fn packets_that_end_before_are_dropped() {
        let mut e = Harness::new("MarkMACHeader", &["1", "2"], 1, 1);
        for n in 0..3 {
            assert_eq!(e.send(0, &b"abc"[..n])[0].reason(), "Truncated");
        }
        let errors = crate::class_named("MarkMACHeader").unwrap().configure(&["0".into(), "300000".into()]);
        assert!(errors.err().unwrap()[0].contains("LENGTH: 300000 is beyond"));
    }
}
