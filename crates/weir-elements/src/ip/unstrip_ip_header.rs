use crate::prelude::*;

element! {
    /// Brings back the IP header that `StripIPHeader` removed: the packet starts at the `net` mark.
    ///
    /// Packets that still have it pass unchanged. Packets without the mark are dropped (`Unmarked`).
    UnstripIPHeader: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> StripIPHeader -> UnstripIPHeader -> Discard;";
}

fn program(_: &UnstripIPHeader, b: &mut Builder) {
    b.input(0, |b| {
        let gone = b.distance(Layer::Net, Layer::Data);
        let unset = b.eq(gone, u32::MAX);
        b.when(unset, |b| require_marked(b, Layer::Net, 0));
        // A distance that is negative: the header is still there.
        let there = b.ge(gone, 1_u32 << 31);
        b.when(there, |b| b.emit(0));
        b.unpull(gone);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, udp};
    use weir_packet::{Layer, Packet};

    #[test]
    fn a_stripped_header_comes_back() {
        let p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x");
        let Some(Outcome::Out(0, stripped)) = Harness::new("StripIPHeader", &[], 1, 1).send_ip(0, &p).pop()
        else {
            panic!("it leaves")
        };
        let mut e = Harness::new("UnstripIPHeader", &[], 1, 1);
        assert_eq!(e.send_packet(0, stripped)[0].out().1, p);
        assert_eq!(e.send_ip(0, &p)[0].out().1, p, "it is still there");
        let mut further = Packet::from_bytes(b"abc").unwrap();
        further.set_layer(Layer::Net, Some(further.data() + 1));
        assert_eq!(e.send_packet(0, further)[0].out().1, b"abc");
    }

    #[test]
    fn packets_without_the_mark_are_dropped() {
        assert_eq!(Harness::new("UnstripIPHeader", &[], 1, 1).send(0, b"abc")[0].reason(), "Unmarked");
    }
}
