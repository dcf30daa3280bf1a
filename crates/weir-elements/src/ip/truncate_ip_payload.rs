use crate::basic::truncate::cut;
use crate::fields::{ipv4, tcp};
use crate::prelude::*;

element! {
    /// Cuts IPv4 packets to their headers and at most so many bytes of payload.
    ///
    /// The payload starts behind the transport header of TCP, UDP and ICMP, or behind the IP header. The lengths that
    /// headers give stay. Packets without `net` mark count from their start. The extra length annotation grows by the
    /// number of bytes cut off.
    TruncateIPPayload: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> TruncateIPPayload(16) -> Discard;";
    params {
        /// Most bytes of payload that stay.
        pos length: u16 = 0,
        /// Whether the transport header is no payload.
        pos transport: bool = true,
        /// Whether the extra length annotation is changed.
        key extra_length: bool = true,
    }
}

fn program(e: &TruncateIPPayload, b: &mut Builder) {
    b.input(0, |b| {
        let lead = b.distance(Layer::Data, Layer::Net);
        b.require_or(Layer::Net, 0, |b| {
            let keep = b.constant(W32, e.length);
            let len = b.len();
            cut(b, len, keep, keep, e.extra_length);
            b.emit(0);
        });
        let headers = b.choose_has(Layer::Net, 1, ip_header_len, |b| b.constant(W32, 20_u32));
        let short = b.lt(headers, 20);
        let transport = if e.transport {
            b.choose_has(Layer::Net, 20, transport_header, |b| b.constant(W32, 0_u32))
        } else {
            b.constant(W32, 0_u32)
        };
        // Of a broken header no more is believed.
        let none = b.constant(W32, 0_u32);
        let transport = b.select(short, none, transport);
        let least = b.constant(W32, 20_u32);
        let headers = b.select(short, least, headers);
        let headers = b.add(headers, transport);
        let keep = b.add(headers, u32::from(e.length));
        let len = b.rest(Layer::Net);
        let total = b.add(lead, keep);
        cut(b, len, keep, total, e.extra_length);
        b.emit(0);
    });
}

/// Length of the transport header; 0 for protocols other than TCP, UDP and ICMP. The IP header is known to be there.
fn transport_header(b: &mut Builder) -> V {
    let protocol = ipv4::PROTOCOL.load(b);
    let tcp = b.eq(protocol, proto::TCP);
    let icmp = b.eq(protocol, proto::ICMP);
    let tcp_len = b.choose_has(
        Layer::Transport,
        13,
        |b| {
            let words = tcp::DATA_OFFSET.load(b);
            let words = b.shr(words, 4);
            let words = b.resize(W32, words);
            let len = b.shl(words, 2);
            let short = b.lt(len, 20);
            let least = b.constant(W32, 20_u32);
            b.select(short, least, len)
        },
        |b| b.constant(W32, 20_u32),
    );
    let icmp_len = b.choose_has(
        Layer::Transport,
        8,
        |b| {
            // Timestamps have three times behind the header.
            let kind = b.load(W8, Layer::Transport, 0);
            let kind = b.sub(kind, 13);
            let stamp = b.le(kind, 1);
            let long = b.constant(W32, 20_u32);
            b.select(stamp, long, 8)
        },
        |b| b.constant(W32, 0_u32),
    );
    let udp = b.eq(protocol, proto::UDP);
    let eight = b.constant(W32, 8_u32);
    let other = b.select(udp, eight, 0);
    let other = b.select(icmp, icmp_len, other);
    b.select(tcp, tcp_len, other)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, tcp, udp};

    const A: ([u8; 4], u16) = ([10, 0, 0, 1], 1);
    const B: ([u8; 4], u16) = ([10, 0, 1, 1], 2);

    fn length(args: &[&str], p: &[u8]) -> (usize, u32) {
        let out = Harness::new("TruncateIPPayload", args, 1, 1).send_ip(0, p);
        let Outcome::Out(0, q) = &out[0] else { panic!("{out:?}") };
        assert_eq!(q.bytes(), &p[..q.bytes().len()]);
        (q.bytes().len(), u32::from_be_bytes(q.anno[28..32].try_into().unwrap()))
    }

    #[test]
    fn headers_stay_and_the_payload_is_cut() {
        assert_eq!(length(&[], &udp(A, B, b"hello")), (28, 5));
        assert_eq!(length(&["2"], &udp(A, B, b"hello")), (30, 3));
        assert_eq!(length(&["9"], &udp(A, B, b"hello")), (33, 0));
        assert_eq!(length(&["0", "false"], &udp(A, B, b"hello")), (20, 13));
        assert_eq!(length(&["1"], &tcp(A, B, 2, 0, b"hello")), (41, 4));
        let mut icmp = udp(A, B, &[0; 30]);
        (icmp[9], icmp[20]) = (1, 8);
        assert_eq!(length(&[], &icmp), (28, 30));
        icmp[20] = 13;
        assert_eq!(length(&[], &icmp), (40, 18));
        icmp[9] = 99;
        assert_eq!(length(&["EXTRA_LENGTH false"], &icmp), (20, 0));
    }

    #[test]
    fn what_is_no_ip_packet_counts_from_its_start() {
        let mut e = Harness::new("TruncateIPPayload", &["3"], 1, 1);
        assert_eq!(e.send(0, b"abcde")[0].out().1, b"abc");
        let p = udp(A, B, b"hello");
        for n in 0..=p.len() {
            assert_eq!(length(&[], &p[..n]).0, n.min(28), "every prefix");
        }
        let errors = crate::class_named("TruncateIPPayload").unwrap().configure(&["65536".into()]);
        assert!(errors.err().unwrap()[0].contains("LENGTH: 65536 is too large"));
    }
}
