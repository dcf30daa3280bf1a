use super::chain::{require_ip6, walk};
use crate::fields::ipv6;
use crate::ip::ip_mirror::swap;
use crate::prelude::*;

element! {
    /// Turns IPv6 packets round: swaps source and destination address.
    ///
    /// TCP and UDP packets, and their first fragments, have their ports swapped too, as far as these are there. No
    /// checksum changes by that. The destination annotation becomes the new destination. The `net` mark has to stand on
    /// an IPv6 header; packets without are dropped (`Unmarked`).
    IP6Mirror: "1/1", "a/a";
    example "Idle -> CheckIP6Header -> IP6Mirror -> Discard;";
}

fn program(_: &IP6Mirror, b: &mut Builder) {
    b.input(0, |b| {
        require_ip6(b);
        let src = ipv6::SRC.load(b);
        b.store_anno(anno::DST_IP, src);
        swap(b, Layer::Net, W128, 8);
        let protocol = walk(b, |b, _| b.emit(0));
        b.switch(protocol, &[proto::TCP.into(), proto::UDP.into()], |b, case| {
            if case.is_some() {
                b.require_or(Layer::Transport, 4, |b| b.emit(0));
                swap(b, Layer::Transport, W16, 0);
            }
        });
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::samples::{addr, packet, sent, udp};
    use crate::testing::{Harness, Outcome};

    fn mirrored(p: &[u8]) -> Vec<u8> {
        let out = sent(&mut Harness::new("IP6Mirror", &[], 1, 1), p);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!(p.anno[..16], addr(1).octets());
        p.bytes().to_vec()
    }

    #[test]
    fn addresses_and_ports_are_swapped() {
        let back = |next, payload: &[u8]| packet(addr(2), addr(1), next, payload);
        assert_eq!(mirrored(&udp(b"x")), back(17, &[0, 2, 0, 1, 0, 9, 0, 0, b'x']));
        for (next, payload, turned) in [
            (6, &[0, 1, 0, 2, 9][..], &[0, 2, 0, 1, 9][..]),
            (6, &[0, 1, 0], &[0, 1, 0]),
            (47, &[0, 1, 0, 2], &[0, 1, 0, 2]),
            (60, &[17, 0, 1, 4, 0, 0, 0, 0, 0, 1, 0, 2], &[17, 0, 1, 4, 0, 0, 0, 0, 0, 2, 0, 1]),
            (44, &[17, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0, 2], &[17, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0, 2]),
            (60, &[17, 9, 1, 4, 0, 0, 0, 0], &[17, 9, 1, 4, 0, 0, 0, 0]),
        ] {
            assert_eq!(mirrored(&packet(addr(1), addr(2), next, payload)), back(next, turned));
        }
        let mut e = Harness::new("IP6Mirror", &[], 1, 1);
        for n in 0..40 {
            assert_eq!(sent(&mut e, &udp(b"")[..n])[0].reason(), "Truncated");
        }
    }
}
