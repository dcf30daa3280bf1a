use super::encap::store_udp_sum;
use crate::fields::{ipv4, udp};
use crate::prelude::*;
use weir_packet::Checksum;

element! {
    /// Computes the UDP checksum of packets (RFC 768).
    ///
    /// The `net` and `transport` marks have to stand on the headers (`Unmarked`). Packets of other protocols pass unchanged.
    /// Fragments (`Fragment`) and packets that are shorter than the UDP header says (`Truncated`) leave on output 1, or are
    /// dropped.
    SetUDPChecksum: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> SetUDPChecksum -> Discard;";
}

fn program(_: &SetUDPChecksum, b: &mut Builder) {
    let refuse = |reason: Reason| move |b: &mut Builder| b.emit_or_drop(1, reason);
    b.input(0, |b| {
        let refuse_as = |b: &mut Builder, reason| b.emit_or_drop(1, reason);
        require_marked_or(b, Layer::Net, 20, refuse_as);
        pass_others(b, proto::UDP);
        let fragment = ipv4::FRAGMENT.load(b);
        let fragment = b.and(fragment, 0x3fff);
        let fragment = b.ne(fragment, 0);
        b.when(fragment, refuse(Reason::new("Fragment")));
        require_marked_or(b, Layer::Transport, 8, refuse_as);
        let len16 = udp::LENGTH.load(b);
        let len = b.resize(W32, len16);
        b.require_or(Layer::Transport, len, refuse(Reason::TRUNCATED));
        udp::CHECKSUM.store_const(b, 0_u16);
        let sum = b.checksum(Layer::Transport, 0, len);
        let addresses = b.checksum(Layer::Net, 12, 20);
        let sum = b.sum16(sum, addresses);
        let sum = b.sum16(sum, u32::from(proto::UDP));
        let sum = b.sum16(sum, len16);
        let field = b.not(sum);
        store_udp_sum(b, field);
        let whole = b.constant(W8, Checksum::Unknown as u8);
        b.store_meta(MetaField::Checksum, whole);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};

    fn packet() -> Vec<u8> {
        udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"hello")
    }

    #[test]
    fn the_checksum_is_computed_anew() {
        let mut wrong = packet();
        wrong[26..28].fill(0xee);
        let mut e = Harness::new("SetUDPChecksum", &[], 1, 2);
        assert_eq!(e.send_ip(0, &wrong)[0].out(), (0, &packet()[..]));
        let mut partial = ip_packet(&wrong);
        partial.csum = Checksum::Partial as u8;
        let out = e.send_packet(0, partial);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!((p.bytes(), p.csum), (&packet()[..], Checksum::Unknown as u8));
    }

    #[test]
    fn other_protocols_stay_as_they_are() {
        let p = tcp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), 2, 0x0102_0304, b"hello");
        assert_eq!(Harness::new("SetUDPChecksum", &[], 1, 2).send_ip(0, &p)[0].out(), (0, &p[..]));
    }

    #[test]
    fn fragments_and_cut_packets_are_refused() {
        let mut e = Harness::new("SetUDPChecksum", &[], 1, 2);
        for n in 0..packet().len() {
            assert_eq!(e.send_ip(0, &packet()[..n])[0].out(), (1, &packet()[..n]));
        }
        let mut e = Harness::new("SetUDPChecksum", &[], 1, 1);
        assert_eq!(e.send_ip(0, &packet()[..30])[0].reason(), "Truncated");
        let mut fragment = packet();
        fragment[6] = 0x20;
        assert_eq!(e.send_ip(0, &fragment)[0].reason(), "Fragment");
    }
}
