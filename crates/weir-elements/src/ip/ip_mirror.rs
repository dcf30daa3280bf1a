use crate::fields::ipv4;
use crate::prelude::*;

element! {
    /// Turns IPv4 packets round: swaps source and destination address.
    ///
    /// TCP and UDP packets, and their first fragments, have their ports swapped too, and TCP packets their sequence
    /// and acknowledgement numbers, as far as these are there. No checksum changes by that. The `net` mark has to
    /// stand on an IPv4 header; packets without are dropped (`Unmarked`).
    IPMirror: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> IPMirror -> Discard;";
    params {
        /// Whether the destination annotation becomes the new destination.
        pos dst_anno: bool = true,
    }
}

fn program(e: &IPMirror, b: &mut Builder) {
    b.input(0, |b| {
        require_ip(b);
        let src = ipv4::SRC.load(b);
        if e.dst_anno {
            b.store_anno(anno::DST_IP, src);
        }
        swap(b, Layer::Net, W32, 12);
        let fragment = ipv4::FRAGMENT.load(b);
        let offset = b.and(fragment, 0x1fff);
        let later = b.ne(offset, 0);
        b.when(later, |b| b.emit(0));
        let protocol = ipv4::PROTOCOL.load(b);
        let header_len = ip_header_len(b);
        b.switch(protocol, &[proto::TCP.into(), proto::UDP.into()], |b, case| {
            let Some(case) = case else { return };
            b.require_or(Layer::Net, header_len, |b| b.emit(0));
            b.set_mark(Layer::Transport, Layer::Net, header_len);
            b.require_or(Layer::Transport, 8, |b| b.emit(0));
            swap(b, Layer::Transport, W16, 0);
            if case == 0 {
                b.require_or(Layer::Transport, 12, |b| b.emit(0));
                swap(b, Layer::Transport, W32, 4);
            }
        });
        b.emit(0);
    });
}

/// Swaps two fields that follow each other.
pub(crate) fn swap(b: &mut Builder, layer: Layer, width: Width, at: u32) {
    let next = at + width.bytes();
    let (first, second) = (b.load(width, layer, at), b.load(width, layer, next));
    b.store(layer, at, second);
    b.store(layer, next, first);
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, tcp, udp};

    fn mirrored(args: &[&str], packet: &[u8]) -> (Vec<u8>, [u8; 4]) {
        match &Harness::new("IPMirror", args, 1, 1).send_ip(0, packet)[0] {
            Outcome::Out(0, p) => (p.bytes().to_vec(), [p.anno[0], p.anno[1], p.anno[2], p.anno[3]]),
            other => panic!("{other:?}"),
        }
    }

    const A: ([u8; 4], u16) = ([10, 0, 0, 1], 1000);
    const B: ([u8; 4], u16) = ([10, 0, 1, 1], 2000);

    #[test]
    fn addresses_and_ports_are_swapped_and_checksums_stay_right() {
        assert_eq!(mirrored(&[], &udp(A, B, b"data")), (udp(B, A, b"data"), A.0));
        assert_eq!(mirrored(&["false"], &udp(A, B, b"data")), (udp(B, A, b"data"), B.0));
    }

    #[test]
    fn tcp_has_its_numbers_swapped() {
        let (got, _) = mirrored(&[], &tcp(A, B, 2, 77, b""));
        let mut want = tcp(B, A, 2, 0, b"");
        want[31] = 77;
        assert_eq!(got[..36], want[..36]);
        assert_eq!(got[36..], tcp(A, B, 2, 77, b"")[36..], "the checksum is not touched");
    }

    #[test]
    fn later_fragments_and_other_protocols_keep_their_payload() {
        for (at, value) in [(7, 1), (9, 47)] {
            let mut p = udp(A, B, b"data");
            p[at] = value;
            let (got, _) = mirrored(&[], &p);
            assert_eq!((&got[12..16], &got[16..20], &got[20..]), (&B.0[..], &A.0[..], &p[20..]));
        }
    }

    #[test]
    fn what_is_there_of_a_cut_packet_is_swapped() {
        let p = tcp(A, B, 2, 77, b"");
        for n in 0..20 {
            assert_eq!(Harness::new("IPMirror", &[], 1, 1).send_ip(0, &p[..n])[0].reason(), "Truncated");
        }
        for n in 20..p.len() {
            let (got, _) = mirrored(&[], &p[..n]);
            assert_eq!(got.get(20..24) == p[..n].get(20..24), n < 28, "{n}");
            assert_eq!(got.get(24..32) == p[..n].get(24..32), n < 32, "{n}");
        }
    }
}
