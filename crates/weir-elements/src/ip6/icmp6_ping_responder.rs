use crate::fields::ipv6;
use weir_packet::Checksum;

use super::chain::HEADER_LEN;
use crate::prelude::*;

element! {
    /// Answers ICMPv6 echo requests (RFC 4443 section 4.2).
    ///
    /// The reply is the request with its addresses swapped and hop limit 255. Its destination annotation is the new
    /// destination, its paint annotation is 0, and its time stamp the current time. All other packets leave on output
    /// 1, or are dropped (`NotEchoRequest`): also requests to a multicast address, and those with extension headers, as
    /// fragments have. The `net` mark has to stand on an IPv6 header.
    ICMP6PingResponder: "1/1-2", "a/ah";
    example "Idle -> CheckIP6Header -> IP6Classifier(dst host fd00::1 and icmp6) -> ICMP6PingResponder -> Discard;";
}

fn program(_: &ICMP6PingResponder, b: &mut Builder) {
    let pass = |b: &mut Builder| b.emit_or_drop(1, Reason::new("NotEchoRequest"));
    b.input(0, |b| {
        b.require_or(Layer::Net, HEADER_LEN + 8, pass);
        let protocol = ipv6::NEXT_HEADER.load(b);
        let other = b.ne(protocol, proto::ICMPV6);
        b.when(other, pass);
        let old = b.load(W16, Layer::Net, HEADER_LEN);
        let other = b.ne(old, 0x8000);
        b.when(other, pass);
        let (src, dst) = (ipv6::SRC.load(b), ipv6::DST.load(b));
        let class = b.shr(dst, 120);
        let group = b.eq(class, 0xff);
        b.when(group, pass);
        b.set_mark(Layer::Transport, Layer::Net, HEADER_LEN);

        ipv6::SRC.store(b, dst);
        ipv6::DST.store(b, src);
        ipv6::HOP_LIMIT.store_const(b, 255_u8);
        let new = b.constant(W16, 0x8100_u16);
        b.store(Layer::Net, HEADER_LEN, new);
        // A partial checksum does not cover the message.
        let state = b.load_meta(MetaField::Checksum);
        let partial = b.eq(state, Checksum::Partial as u8);
        b.unless(partial, |b| {
            let field = b.load(W16, Layer::Net, HEADER_LEN + 2);
            let updated = update_checksum(b, field, &[old], &[new]);
            b.store(Layer::Net, HEADER_LEN + 2, updated);
        });
        b.store_anno(anno::DST_IP, src);
        let zero = b.constant(W8, 0_u8);
        b.store_anno(anno::PAINT, zero);
        let now = b.now();
        b.store_meta(MetaField::Timestamp, now);
        becomes(b, Provenance::Answer);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::samples::{addr, icmp, packet, sent, udp};
    use weir_packet::Provenance;

    use crate::testing::{Harness, Outcome};

    fn echo(kind: u8, from: u16, to: u16, id: u16) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        icmp(addr(from), addr(to), &[kind, 0, 0, 0, high, low, 0, 1, b'x'])
    }

    #[test]
    fn the_reply_is_the_request_turned_round() {
        let mut e = Harness::new("ICMP6PingResponder", &[], 1, 1);
        for id in 0..=u16::MAX {
            let out = sent(&mut e, &echo(128, 1, 2, id));
            assert_eq!(out[0].provenance(), Provenance::Answer);
            let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
            let mut want = echo(129, 2, 1, id);
            want[7] = 255;
            assert_eq!((p.bytes(), &p.anno[..16]), (&want[..], &addr(1).octets()[..]));
        }
    }

    #[test]
    fn other_packets_leave_unchanged_on_output_1_or_are_dropped() {
        let request = echo(128, 1, 2, 7);
        let group = icmp(addr(1), "ff02::1".parse().unwrap(), &request[40..]);
        let fragment = packet(addr(1), addr(2), 44, &[58, 0, 0, 1, 0, 0, 0, 0, 128, 0, 0, 0]);
        let mut others = vec![udp(b"data"), echo(129, 1, 2, 7), group, fragment];
        others.extend((0..48).map(|n| request[..n].to_vec()));
        for p in others {
            assert_eq!(sent(&mut Harness::new("ICMP6PingResponder", &[], 1, 2), &p)[0].out(), (1, &p[..]));
            let mut alone = Harness::new("ICMP6PingResponder", &[], 1, 1);
            assert_eq!(sent(&mut alone, &p)[0].reason(), "NotEchoRequest");
        }
    }
}
