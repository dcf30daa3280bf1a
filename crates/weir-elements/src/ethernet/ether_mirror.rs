use crate::prelude::*;

element! {
    /// Swaps the Ethernet source and destination addresses of packets, which start with an Ethernet header.
    ///
    /// Packets that are shorter than such a header are dropped (`Truncated`).
    EtherMirror: "1/1", "a/a";
    example "Idle -> EtherMirror -> Discard;";
}

fn program(_: &EtherMirror, b: &mut Builder) {
    b.input(0, |b| {
        b.require(Layer::Data, ETHER_LEN, Reason::TRUNCATED);
        // Each address with the two bytes behind it.
        let (front, back) = (b.load(W64, Layer::Data, 0), b.load(W64, Layer::Data, 6));
        let src = b.and(back, !0xffff_u64);
        let dst_start = b.shr(front, 48);
        let new_front = b.or(src, dst_start);
        let dst = b.and(front, !0xffff_u64);
        let ethertype = b.and(back, 0xffff_u32);
        let new_back = b.or(dst, ethertype);
        b.store(Layer::Data, 0, new_front);
        b.store(Layer::Data, 6, new_back);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use weir_net::build::{DST_ETHER, SRC_ETHER, ethernet};

    #[test]
    fn the_addresses_change_places() {
        let mut e = Harness::new("EtherMirror", &[], 1, 1);
        let frame = ethernet(DST_ETHER, SRC_ETHER, 0x0800, b"x");
        assert_eq!(e.send(0, &frame)[0].out().1, ethernet(SRC_ETHER, DST_ETHER, 0x0800, b"x"));
        for n in 0..14 {
            assert_eq!(e.send(0, &frame[..n])[0].reason(), "Truncated");
        }
    }
}
