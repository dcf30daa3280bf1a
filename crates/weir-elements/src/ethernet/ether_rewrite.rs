use crate::prelude::*;

element! {
    /// Sets source and destination of the Ethernet header that packets start with; its type stays. Packets that end
    /// within it are dropped (`Truncated`).
    EtherRewrite: "1/1", "a/a";
    example "Idle -> EtherRewrite(02:00:00:00:00:01, 02:00:00:00:00:02) -> Discard;";
    params {
        /// Source address.
        pos src: EtherAddr,
        /// Destination address.
        pos dst: EtherAddr,
    }
    handlers {
        /// Source address.
        cell src: EtherAddr,
        /// Destination address.
        cell dst: EtherAddr,
    }
}

fn program(e: &EtherRewrite, b: &mut Builder) {
    let src = b.live("src", W64, e.src.bits());
    let dst = b.live("dst", W64, e.dst.bits());
    b.input(0, |b| {
        b.require(Layer::Data, ETHER_LEN, Reason::TRUNCATED);
        for (cell, off) in [(dst, 0), (src, 6)] {
            let addr = b.read_cell(cell);
            store_ether(b, Layer::Data, off, addr);
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use weir_net::build::{DST_ETHER, SRC_ETHER, ethernet};

    #[test]
    fn the_addresses_change_and_the_rest_stays() {
        let mut e = Harness::new("EtherRewrite", &["02:00:00:00:00:02", "02:00:00:00:00:01"], 1, 1);
        let frame = ethernet(DST_ETHER, SRC_ETHER, 0x0800, b"x");
        assert_eq!(e.send(0, &frame)[0].out().1, ethernet(SRC_ETHER, DST_ETHER, 0x0800, b"x"));
        e.write("src", "02:00:00:00:00:01").unwrap();
        e.write("dst", "02:00:00:00:00:02").unwrap();
        assert_eq!(e.send(0, &frame)[0].out().1, frame);
        for n in 0..14 {
            assert_eq!(e.send(0, &frame[..n])[0].reason(), "Truncated");
        }
    }

    #[test]
    fn both_addresses_are_needed() {
        let errors = crate::class_named("EtherRewrite").unwrap().configure(&["2:0:0:0:0:1".into()]);
        assert!(errors.err().unwrap()[0].contains("missing mandatory DST"));
    }
}
