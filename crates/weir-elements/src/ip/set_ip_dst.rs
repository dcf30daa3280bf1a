use super::rewrite::set_address;
use crate::prelude::*;

element! {
    /// Sets the destination address of IPv4 packets, and the destination annotation with it.
    ///
    /// The checksums of the IPv4 header and of TCP and UDP are updated; fragments behind the first have none of the
    /// latter. It keeps nothing of the flow, so answers are not turned back: `IPRewriter` does that. Behind
    /// `FlowHashSwitch`, it is the back end of a load balancer. The `net` and `transport` marks have to be those of
    /// `CheckIPHeader`; packets without an IPv4 header are dropped (`Unmarked`).
    SetIPDst: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> SetIPDst(10.0.0.7) -> Discard;";
    params {
        /// The address.
        pos addr: Ipv4Addr,
        /// Whether the destination annotation is set too.
        key dst_anno: bool = true,
    }
    handlers {
        /// The address.
        cell addr: Ipv4Addr,
    }
}

fn program(e: &SetIPDst, b: &mut Builder) {
    let addr = b.live("addr", W32, e.addr.bits());
    b.input(0, |b| {
        require_ip(b);
        let addr = b.read_cell(addr);
        set_address(b, 16, addr);
        if e.dst_anno {
            b.store_anno(anno::DST_IP, addr);
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};
    use weir_net::Ipv4;
    use weir_packet::Checksum;

    const SRC: ([u8; 4], u16) = ([10, 0, 0, 1], 1000);

    fn to(dst: [u8; 4], payload: &[u8]) -> [Vec<u8>; 2] {
        [udp(SRC, (dst, 80), payload), tcp(SRC, (dst, 80), 16, 1, payload)]
    }

    #[test]
    fn the_packet_is_what_a_sender_to_that_address_would_have_made() {
        let mut e = Harness::new("SetIPDst", &["10.200.3.4"], 1, 1);
        for old in [[198, 51, 100, 1], [0; 4], [255; 4], [10, 200, 3, 4]] {
            for (before, after) in to(old, b"odd").iter().zip(to([10, 200, 3, 4], b"odd")) {
                let out = e.send_ip(0, before);
                let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
                assert_eq!((p.bytes(), &p.anno[..4]), (&after[..], &[10, 200, 3, 4][..]));
            }
        }
        e.write("addr", "1.2.3.4").unwrap();
        assert_eq!(e.send_ip(0, &to([9; 4], b"")[0])[0].out().1, to([1, 2, 3, 4], b"")[0]);
        let mut e = Harness::new("SetIPDst", &["10.200.3.4", "DST_ANNO false"], 1, 1);
        assert!(matches!(&e.send_ip(0, &to([9; 4], b"")[0])[0], Outcome::Out(0, p) if p.anno[..4] == [9; 4]));
    }

    #[test]
    fn checksums_that_are_not_there_stay_so() {
        let mut e = Harness::new("SetIPDst", &["10.200.3.4"], 1, 1);
        let mut none = udp(SRC, ([9; 4], 80), b"x");
        none[26..28].fill(0);
        assert_eq!(e.send_ip(0, &none)[0].out().1[26..28], [0, 0]);
        // Behind the first fragment, the bytes are payload.
        let mut later = none.clone();
        later[26..28].copy_from_slice(&[1, 2]);
        later[6..8].copy_from_slice(&[0, 9]);
        Ipv4::new(&mut later[..]).unwrap().fill_checksum();
        let out = e.send_ip(0, &later);
        assert_eq!(out[0].out().1[20..], later[20..]);
        assert!(Ipv4::new(out[0].out().1).unwrap().checksum_ok());
        // A kernel has summed the pseudo header only.
        let mut partial = ip_packet(&none);
        partial.csum = Checksum::Partial as u8;
        assert_ne!(e.send_packet(0, partial)[0].out().1[26..28], [0, 0]);
    }

    #[test]
    fn every_prefix_of_a_packet_ends_somewhere() {
        let mut e = Harness::new("SetIPDst", &["10.200.3.4"], 1, 1);
        for p in to([9; 4], b"x") {
            for n in 0..p.len() {
                let out = e.send_ip(0, &p[..n]);
                assert_eq!(matches!(out[0], Outcome::Drop(_)), n < 20, "{n}");
            }
        }
    }
}
