use crate::fields::{icmp, ipv4};
use weir_packet::Checksum;

use crate::prelude::*;

element! {
    /// Answers ICMP echo requests (RFC 792, RFC 1122 section 3.2.2.6).
    ///
    /// The reply is the request with its addresses swapped, time to live 255, and no fragmentation flags. Its destination
    /// annotation is the new destination, its paint annotation is 0, and its time stamp the current time. All other
    /// packets leave on output 1, or are dropped (`NotEchoRequest`); so do fragments, since each would be answered
    /// as if it were the whole request. Source routes are not reversed. The `net` mark has to stand on an IPv4 header.
    ICMPPingResponder: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> IPClassifier(dst host 10.0.0.1 and icmp type echo) -> ICMPPingResponder -> Discard;";
}

fn program(_: &ICMPPingResponder, b: &mut Builder) {
    let pass = |b: &mut Builder| b.emit_or_drop(1, Reason::new("NotEchoRequest"));
    b.input(0, |b| {
        b.require_or(Layer::Net, 20, pass);
        let protocol = ipv4::PROTOCOL.load(b);
        let other = b.ne(protocol, proto::ICMP);
        b.when(other, pass);
        let flags = ipv4::FRAGMENT.load(b);
        let fragment = b.and(flags, 0x3fff);
        let fragment = b.ne(fragment, 0);
        b.when(fragment, pass);
        let header_len = ip_header_len(b);
        let short = b.lt(header_len, 20);
        b.when(short, pass);
        b.require_or(Layer::Net, header_len, pass);
        b.set_mark(Layer::Transport, Layer::Net, header_len);
        let len = b.rest(Layer::Transport);
        b.require_or(Layer::Transport, len, pass);
        b.require_or(Layer::Transport, 8, pass);
        let kind = icmp::TYPE.load(b);
        let other = b.ne(kind, 8);
        b.when(other, pass);

        let (src, dst) = (ipv4::SRC.load(b), ipv4::DST.load(b));
        ipv4::SRC.store(b, dst);
        ipv4::DST.store(b, src);
        let ttl = b.load(W16, Layer::Net, 8);
        ipv4::FRAGMENT.store_const(b, 0_u16);
        ipv4::TTL.store_const(b, 255_u8);
        let new_flags = b.constant(W16, 0_u16);
        let new_ttl = b.or(ttl, 0xff00);
        update_ip_checksum(b, &[flags, ttl], &[new_flags, new_ttl]);

        let old = b.load(W16, Layer::Transport, 0);
        let new = b.constant(W16, 0_u16);
        b.store(Layer::Transport, 0, new);
        let state = b.load_meta(MetaField::Checksum);
        let partial = b.eq(state, Checksum::Partial as u8);
        b.unless(partial, |b| update_icmp_checksum(b, old, new, len));

        b.store_anno(anno::DST_IP, src);
        let zero = b.constant(W8, 0_u8);
        b.store_anno(anno::PAINT, zero);
        let now = b.now();
        b.store_meta(MetaField::Timestamp, now);
        becomes(b, Provenance::Answer);
        b.emit(0);
    });
}

/// Updates the checksum of the ICMP message of `len` bytes at `transport`.
fn update_icmp_checksum(b: &mut Builder, old: V, new: V, len: V) {
    let field = icmp::CHECKSUM.load(b);
    let updated = update_checksum(b, field, &[old], &[new]);
    icmp::CHECKSUM.store(b, updated);
    // An update cannot distinguish a message of zeros only from one that sums up to all ones; there is no pseudo header that
    // would keep the sum from being 0.
    let zero = b.eq(updated, 0);
    b.when(zero, |b| {
        let sum = b.checksum(Layer::Transport, 0, len);
        let field = b.not(sum);
        icmp::CHECKSUM.store(b, field);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, ip_packet, udp};
    use weir_net::{Ipv4, build, checksum::checksum};
    use weir_packet::Checksum;

    fn request(id: u16, payload: &[u8]) -> Vec<u8> {
        let mut p =
            build::icmp_echo([10, 0, 0, 1].into(), [10, 0, 1, 1].into(), id, 0, payload).split_off(14);
        p[6] = 0x40;
        p[8] = 3;
        Ipv4::new(&mut p[..]).unwrap().fill_checksum();
        p
    }

    #[test]
    fn the_reply_is_the_request_turned_round() {
        let mut packet = ip_packet(&request(7, b"payload"));
        packet.anno[16] = 9;
        let mut e = Harness::new("ICMPPingResponder", &[], 1, 1);
        let out = e.send_packet(0, packet);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        let mut want =
            build::icmp_echo([10, 0, 1, 1].into(), [10, 0, 0, 1].into(), 7, 0, b"payload").split_off(14);
        want[8] = 255;
        Ipv4::new(&mut want[..]).unwrap().fill_checksum();
        want[20] = 0;
        want[22..24].fill(0);
        let sum = checksum(&want[20..]);
        want[22..24].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(p.bytes(), want);
        assert_eq!((&p.anno[..4], p.anno[16], p.timestamp), (&[10, 0, 0, 1][..], 0, e.now));
    }

    #[test]
    fn the_checksum_is_that_of_a_fresh_sum_for_every_request() {
        let mut e = Harness::new("ICMPPingResponder", &[], 1, 1);
        for id in 0..=u16::MAX {
            let out = e.send_ip(0, &request(id, &[]));
            let (_, p) = out[0].out();
            let fresh = checksum(&[0, 0, 0, 0, p[24], p[25], p[26], p[27]]);
            assert_eq!(p[22..24], fresh.to_be_bytes(), "{id}");
        }
    }

    #[test]
    fn a_checksum_that_is_not_finished_is_left_alone() {
        let request = request(7, b"");
        let mut packet = ip_packet(&request);
        packet.csum = Checksum::Partial as u8;
        let out = Harness::new("ICMPPingResponder", &[], 1, 1).send_packet(0, packet);
        assert_eq!(out[0].out().1[22..24], request[22..24]);
    }

    #[test]
    fn other_packets_leave_unchanged_on_output_1_or_are_dropped() {
        let change = |at: usize, to: u8| {
            let mut p = request(1, b"");
            p[at] = to;
            p
        };
        let mut others = vec![udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), &[8; 9])];
        others.extend([change(20, 0), change(7, 1), change(6, 0x20), change(0, 0x40), change(0, 0x4f)]);
        others.extend((0..28).map(|n| request(1, b"")[..n].to_vec()));
        for p in others {
            let out = Harness::new("ICMPPingResponder", &[], 1, 2).send_ip(0, &p);
            assert_eq!(out[0].out(), (1, &p[..]));
            let out = Harness::new("ICMPPingResponder", &[], 1, 1).send_ip(0, &p);
            assert_eq!(out[0].reason(), "NotEchoRequest");
        }
    }
}
