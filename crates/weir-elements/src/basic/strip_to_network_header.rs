use crate::prelude::*;

element! {
    /// Removes what stands in front of the network header, which the `net` mark says.
    ///
    /// Where the mark stands in front of the packet, because the header was stripped, the header comes back. Packets
    /// without the mark are dropped (`Unmarked`).
    StripToNetworkHeader: "1/1", "a/a";
    example "Idle -> CheckIPHeader(14) -> StripToNetworkHeader -> Discard;";
}

/// A distance that is negative.
const BEHIND: u32 = 1 << 31;

fn program(_: &StripToNetworkHeader, b: &mut Builder) {
    b.input(0, |b| {
        require_marked(b, Layer::Net, 0);
        let lead = b.distance(Layer::Data, Layer::Net);
        let behind = b.ge(lead, BEHIND);
        b.if_else(
            behind,
            |b| {
                let zero = b.constant(W32, 0_u32);
                let back = b.sub(zero, lead);
                b.unpull(back);
            },
            |b| {
                b.require(Layer::Data, lead, Reason::TRUNCATED);
                b.pull(lead);
            },
        );
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use weir_packet::{Layer, Packet};

    #[test]
    fn the_packet_starts_at_the_mark() {
        let mut e = Harness::new("StripToNetworkHeader", &[], 1, 1);
        for at in 0..=6 {
            let mut p = Packet::from_bytes(b"abcdef").unwrap();
            let start = p.data();
            p.pull(3);
            p.set_layer(Layer::Net, Some(start + at));
            assert_eq!(e.send_packet(0, p)[0].out(), (0, &b"abcdef"[at as usize..]), "mark at {at}");
        }
    }

    #[test]
    fn packets_without_the_mark_are_dropped() {
        let mut e = Harness::new("StripToNetworkHeader", &[], 1, 1);
        assert_eq!(e.send(0, b"abc")[0].reason(), "Unmarked");
    }
}
