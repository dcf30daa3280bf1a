use crate::fields::{ipv4, tcp};
use crate::prelude::*;
use weir_packet::Checksum;

element! {
    /// Computes the TCP checksum of packets (RFC 9293 section 3.1).
    ///
    /// The `net` and `transport` marks have to stand on the headers (`Unmarked`). Packets of other protocols pass unchanged, and
    /// so do fragments, as the checksum is that of the whole packet. Packets that end before the length of the IP header
    /// (`Truncated`), or have no place for a TCP header in it (`BadLength`), are dropped.
    SetTCPChecksum: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> SetTCPChecksum -> Discard;";
    params {
        /// Whether a data offset that is less than 5, or beyond the end of the packet, is corrected.
        pos fixoff: bool = false,
    }
}

fn program(e: &SetTCPChecksum, b: &mut Builder) {
    b.input(0, |b| {
        require_ip(b);
        pass_others(b, proto::TCP);
        let fragment = ipv4::FRAGMENT.load(b);
        let fragment = b.and(fragment, 0x3fff);
        let fragment = b.ne(fragment, 0);
        b.when(fragment, |b| b.emit(0));
        let header = ip_header_len(b);
        let total = ipv4::LENGTH.load(b);
        let total = b.resize(W32, total);
        let least = b.add(header, 20);
        let short = b.lt(total, least);
        b.when(short, |b| b.drop(Reason::new("BadLength")));
        let len = b.sub(total, header);
        require_marked(b, Layer::Transport, 20);
        b.require(Layer::Transport, len, Reason::TRUNCATED);
        b.require(Layer::Transport, 20, Reason::TRUNCATED);
        if e.fixoff {
            fix_offset(b, len);
        }
        tcp::CHECKSUM.store_const(b, 0_u16);
        let sum = b.checksum(Layer::Transport, 0, len);
        let addresses = b.checksum(Layer::Net, 12, 20);
        let sum = b.sum16(sum, addresses);
        let sum = b.sum16(sum, u32::from(proto::TCP));
        let len16 = b.resize(W16, len);
        let sum = b.sum16(sum, len16);
        let field = b.not(sum);
        tcp::CHECKSUM.store(b, field);
        let whole = b.constant(W8, Checksum::Unknown as u8);
        b.store_meta(MetaField::Checksum, whole);
        b.emit(0);
    });
}

/// Corrects the data offset, of a segment of that length.
fn fix_offset(b: &mut Builder, len: V) {
    let byte = tcp::DATA_OFFSET.load(b);
    let words = b.shr(byte, 4);
    let low = b.and(byte, 0x0f);
    let short = b.lt(words, 5);
    let most = b.shr(len, 2);
    let wide = b.resize(W32, words);
    let beyond = b.gt(wide, most);
    let most = b.resize(W8, most);
    let words = b.select(beyond, most, words);
    let least = b.constant(W8, 5_u8);
    let words = b.select(short, least, words);
    let byte = b.shl(words, 4);
    let byte = b.or(byte, low);
    tcp::DATA_OFFSET.store(b, byte);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};

    fn packet(payload: &[u8]) -> Vec<u8> {
        tcp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), 2, 0, payload)
    }

    #[test]
    fn the_checksum_is_computed_anew() {
        let mut wrong = packet(b"hello");
        wrong[36..38].fill(0xee);
        let mut e = Harness::new("SetTCPChecksum", &[], 1, 1);
        assert_eq!(e.send_ip(0, &wrong)[0].out().1, packet(b"hello"));
        let mut partial = ip_packet(&wrong);
        partial.csum = Checksum::Partial as u8;
        let out = e.send_packet(0, partial);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!((p.bytes(), p.csum), (&packet(b"hello")[..], Checksum::Unknown as u8));
    }

    #[test]
    fn a_wrong_data_offset_is_corrected_on_request() {
        for (offset, right) in [(4, 5), (5, 5), (6, 6), (7, 6)] {
            let mut p = packet(b"four");
            p[32] = offset << 4 | 1;
            let mut e = Harness::new("SetTCPChecksum", &["true"], 1, 1);
            assert_eq!(e.send_ip(0, &p)[0].out().1[32], right << 4 | 1, "{offset}");
            let mut e = Harness::new("SetTCPChecksum", &[], 1, 1);
            assert_eq!(e.send_ip(0, &p)[0].out().1[32], offset << 4 | 1);
        }
    }

    #[test]
    fn what_is_not_a_whole_tcp_packet_stays_as_it_is() {
        for p in [udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"a payload beyond 20 bytes"), {
            let mut later = packet(b"a payload beyond 20 bytes");
            later[6..8].copy_from_slice(&[0x00, 3]);
            later
        }] {
            assert_eq!(Harness::new("SetTCPChecksum", &["true"], 1, 1).send_ip(0, &p)[0].out(), (0, &p[..]));
        }
    }

    #[test]
    fn wrong_lengths_are_dropped() {
        let mut e = Harness::new("SetTCPChecksum", &[], 1, 1);
        let p = packet(b"hello");
        for n in 0..p.len() {
            assert_eq!(e.send_ip(0, &p[..n])[0].reason(), "Truncated");
        }
        let mut short = p;
        short[3] = 39;
        assert_eq!(e.send_ip(0, &short)[0].reason(), "BadLength");
    }
}
