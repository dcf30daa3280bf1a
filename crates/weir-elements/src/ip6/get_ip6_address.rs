use crate::ip::checks::check_offset;
use crate::prelude::*;

element! {
    /// Copies an IPv6 address from packets to their destination annotation, by which they are routed.
    ///
    /// Packets that end before the address are dropped (`Truncated`).
    GetIP6Address: "1/1", "a/a";
    example "Idle -> CheckIP6Header -> GetIP6Address(24) -> Discard;";
    params {
        /// Where the address starts, in bytes: 24 for the destination in an IPv6 packet, 8 for the source.
        pos offset: u32,
    }
    check |e| check_offset(e.offset);
}

fn program(e: &GetIP6Address, b: &mut Builder) {
    b.input(0, |b| {
        b.require(Layer::Data, e.offset + 16, Reason::TRUNCATED);
        let addr = b.load(W128, Layer::Data, e.offset);
        b.store_anno(anno::DST_IP, addr);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::samples::{addr, udp};
    use crate::testing::{Harness, Outcome};

    #[test]
    fn the_address_comes_from_where_it_is_said_to_be() {
        for (offset, n) in [("8", 1), ("24", 2)] {
            let mut e = Harness::new("GetIP6Address", &[offset], 1, 1);
            let out = e.send(0, &udp(b""));
            let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
            assert_eq!((&p.anno[..16], &p.anno[16..]), (&addr(n).octets()[..], &[0; 32][..]));
        }
        let mut e = Harness::new("GetIP6Address", &["24"], 1, 1);
        for n in 0..40 {
            assert_eq!(e.send(0, &udp(b"")[..n])[0].reason(), "Truncated");
        }
        let class = crate::class_named("GetIP6Address").unwrap();
        assert!(class.configure(&["4294967295".into()]).err().unwrap()[0].contains("OFFSET: 4294967295"));
    }
}
