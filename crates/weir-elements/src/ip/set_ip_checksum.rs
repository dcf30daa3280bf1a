use crate::fields::ipv4;
use crate::prelude::*;

element! {
    /// Computes the checksum of IPv4 headers.
    ///
    /// Elements that change a header update its checksum themselves: this is for packets that came with a wrong one. The
    /// header is where the `net` mark stands; a packet without the mark begins with it, and is marked. Packets that end
    /// within it (`Truncated`) or whose length is wrong (`BadHeader`) are dropped.
    SetIPChecksum: "1/1", "a/a";
    example "Idle -> MarkIPHeader -> SetIPChecksum -> Discard;";
    handlers {
        /// Number of packets without a valid header.
        count drops,
    }
}

fn program(_: &SetIPChecksum, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    let refuse = |reason: Reason| {
        move |b: &mut Builder| {
            count(b, drops);
            b.drop(reason);
        }
    };
    b.input(0, |b| {
        let place = b.distance(Layer::Net, Layer::Net);
        let unset = b.eq(place, u32::MAX);
        b.when(unset, |b| b.set_mark(Layer::Net, Layer::Data, 0));
        b.require_or(Layer::Net, 20, refuse(Reason::TRUNCATED));
        let len = ip_header_len(b);
        let short = b.lt(len, 20);
        b.when(short, refuse(Reason::BAD_HEADER));
        b.require_or(Layer::Net, len, refuse(Reason::TRUNCATED));
        ipv4::CHECKSUM.store_const(b, 0_u16);
        let sum = b.checksum(Layer::Net, 0, len);
        let field = b.not(sum);
        ipv4::CHECKSUM.store(b, field);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, udp};

    #[test]
    fn the_checksum_is_computed_anew() {
        let right = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x");
        let mut wrong = right.clone();
        wrong[10..12].fill(0xee);
        assert_eq!(Harness::new("SetIPChecksum", &[], 1, 1).send_ip(0, &wrong)[0].out().1, right);
    }

    #[test]
    fn a_packet_without_a_mark_begins_with_its_header() {
        let right = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x");
        let mut wrong = right.clone();
        wrong[10..12].fill(0xee);
        assert_eq!(Harness::new("SetIPChecksum", &[], 1, 1).send(0, &wrong)[0].out().1, right);
    }

    #[test]
    fn bad_headers_are_dropped_and_counted() {
        let mut e = Harness::new("SetIPChecksum", &[], 1, 1);
        let mut p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"");
        for n in 0..20 {
            assert_eq!(e.send_ip(0, &p[..n])[0].reason(), "Truncated");
        }
        p[0] = 0x44;
        assert_eq!(e.send_ip(0, &p)[0].reason(), "BadHeader");
        p[0] = 0x4f;
        assert_eq!(e.send_ip(0, &p)[0].reason(), "Truncated");
        assert_eq!(e.read("drops"), "22");
    }
}
