use crate::fields::ether;
use crate::prelude::*;

element! {
    /// Makes sure that IP packets have an Ethernet header in front.
    ///
    /// A packet whose `net` mark has an Ethernet header of IP in front passes. If the packet starts at the mark and had
    /// such a header that was stripped, it comes back. Otherwise what stands in front of the mark is removed, and the
    /// header of the arguments put there. Packets without the mark pass unchanged; those without space are dropped
    /// (`NoSpace`).
    EnsureEther: "1/1", "a/a";
    example "Idle -> Strip(14) -> CheckIPHeader -> EnsureEther -> Discard;";
    params {
        /// Type of what the packet carries.
        pos ethertype: u16 = 0x0800,
        /// Source address.
        pos src: EtherAddr = EtherAddr([1; 6]) => "01:01:01:01:01:01",
        /// Destination address.
        pos dst: EtherAddr = EtherAddr([2; 6]) => "02:02:02:02:02:02",
    }
}

fn program(e: &EnsureEther, b: &mut Builder) {
    b.input(0, |b| {
        b.require_or(Layer::Net, 0, |b| b.emit(0));
        let lead = b.distance(Layer::Data, Layer::Net);
        let at_start = b.eq(lead, 0);
        b.when(at_start, |b| {
            b.unpull_or(ETHER_LEN, |b| encap(e, b));
            pass_if_ether(b);
            b.pull(ETHER_LEN);
            encap(e, b);
        });
        let behind_header = b.eq(lead, ETHER_LEN);
        b.when(behind_header, |b| {
            b.require(Layer::Data, ETHER_LEN, Reason::TRUNCATED);
            pass_if_ether(b);
        });
        // A mark in front of the packet.
        let stripped = b.ge(lead, 1_u32 << 31);
        b.when(stripped, |b| b.emit(0));
        b.require(Layer::Data, lead, Reason::TRUNCATED);
        b.pull(lead);
        encap(e, b);
    });
}

/// The packet leaves if the bytes it starts with, known to be there, are an Ethernet header of IP.
fn pass_if_ether(b: &mut Builder) {
    let kind = ether::TYPE.load(b);
    b.switch(kind, &[ethertype::IPV4.into(), ethertype::IPV6.into()], |b, case| {
        if case.is_some() {
            b.set_mark(Layer::Mac, Layer::Data, 0);
            b.emit(0);
        }
    });
}

fn encap(e: &EnsureEther, b: &mut Builder) {
    let [dst, src] = [e.dst, e.src].map(|addr| b.constant(W64, ether_bits(addr)));
    push_ether(b, dst, src, e.ethertype);
    b.emit(0);
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, udp};
    use weir_net::EtherAddr;
    use weir_net::build::{DST_ETHER, SRC_ETHER, ethernet};
    use weir_packet::{Layer, Packet};

    fn packet() -> Vec<u8> {
        udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x")
    }

    /// What becomes of bytes of which so many were stripped, with the `net` mark at an offset from the first byte.
    fn sent(bytes: &[u8], stripped: u32, net: Option<u32>) -> Vec<u8> {
        let mut p = Packet::from_bytes(bytes).unwrap();
        let start = p.data();
        p.pull(stripped);
        p.set_layer(Layer::Net, net.map(|at| start + at));
        Harness::new("EnsureEther", &[], 1, 1).send_packet(0, p)[0].out().1.to_vec()
    }

    #[test]
    fn a_header_that_is_there_stays() {
        let frame = ethernet(DST_ETHER, SRC_ETHER, 0x0800, &packet());
        assert_eq!(sent(&frame, 0, Some(14)), frame);
        assert_eq!(sent(&frame, 14, Some(14)), frame, "it was stripped");
        assert_eq!(sent(&frame, 0, None), frame, "no network header");
        assert_eq!(sent(&frame, 14, Some(10)), packet(), "the mark is in front");
    }

    #[test]
    fn others_get_one() {
        let wanted = ethernet(EtherAddr([2; 6]), EtherAddr([1; 6]), 0x0800, &packet());
        assert_eq!(sent(&packet(), 0, Some(0)), wanted);
        for kind in [0x8847, 0x0806] {
            let other = ethernet(DST_ETHER, SRC_ETHER, kind, &packet());
            assert_eq!(sent(&other, 14, Some(14)), wanted);
            assert_eq!(sent(&other, 0, Some(14)), wanted);
        }
        assert_eq!(sent(&[&[9; 4], &packet()[..]].concat(), 0, Some(4)), wanted);
    }

    #[test]
    fn bad_addresses_are_refused() {
        let errors = crate::class_named("EnsureEther").unwrap().configure(&["0x800".into(), "x".into()]);
        assert!(errors.err().unwrap()[0].contains("SRC: 'x' is not an Ethernet address"));
    }
}
