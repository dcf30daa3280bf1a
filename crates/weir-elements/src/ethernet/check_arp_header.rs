use crate::ip::checks::{check_offset, refuse};
use crate::prelude::*;

element! {
    /// Checks that packets have a valid ARP header (RFC 826), and sets the `net` mark to it.
    ///
    /// All addresses that the header announces have to be there (`Truncated`), and those of Ethernet, IPv4 and IPv6 to
    /// have the right length (`BadHeader`). Others leave on output 1, or are dropped.
    CheckARPHeader: "1/1-2", "a/ah";
    example "Idle -> CheckARPHeader(14) -> Discard;";
    params {
        /// Where the header starts, in bytes.
        pos offset: u32 = 0,
        /// Kept for Click configurations: drop reasons are always shown.
        key verbose: bool = false,
        /// Kept for Click configurations: drop reasons are always counted in detail.
        key details: bool = false,
    }
    check |e| check_offset(e.offset);
    handlers {
        /// Number of packets that were refused.
        count drops,
    }
}

fn program(e: &CheckARPHeader, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        b.require_or(Layer::Data, e.offset + 8, refuse(drops, Reason::TRUNCATED));
        b.set_mark(Layer::Cursor, Layer::Data, e.offset);
        let hardware = b.load(W16, Layer::Cursor, 0);
        let protocol = b.load(W16, Layer::Cursor, 2);
        let [hardware_len, protocol_len] = [4, 5].map(|at| b.load(W8, Layer::Cursor, at));
        let [h, p] = [hardware_len, protocol_len].map(|len| b.resize(W32, len));
        let addresses = b.add(h, p);
        let addresses = b.shl(addresses, 1);
        let len = b.add(addresses, 8);
        b.require_or(Layer::Cursor, len, refuse(drops, Reason::TRUNCATED));
        let bad = |b: &mut Builder, is: V, len: V, right: u8| {
            let wrong = b.ne(len, right);
            let bad = b.and(is, wrong);
            b.when(bad, refuse(drops, Reason::BAD_HEADER));
        };
        let ethernet = b.eq(hardware, 1);
        bad(b, ethernet, hardware_len, 6);
        let ipv4 = b.eq(protocol, ethertype::IPV4);
        bad(b, ipv4, protocol_len, 4);
        let ipv6 = b.eq(protocol, ethertype::IPV6);
        bad(b, ipv6, protocol_len, 16);
        b.set_mark(Layer::Net, Layer::Data, e.offset);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use std::net::Ipv4Addr;
    use weir_net::build::{DST_ETHER, SRC_ETHER, arp};
    use weir_packet::Layer;

    fn request() -> Vec<u8> {
        arp(1, (SRC_ETHER, Ipv4Addr::new(10, 0, 0, 1)), (DST_ETHER, Ipv4Addr::new(10, 0, 0, 2)))
    }

    #[test]
    fn a_good_header_is_marked() {
        let out = Harness::new("CheckARPHeader", &["14"], 1, 2).send(0, &request());
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!(p.from_layer(Layer::Net), &request()[14..]);
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let reason = |at: usize, to: u8| {
            let mut p = request();
            p[14 + at] = to;
            Harness::new("CheckARPHeader", &["14"], 1, 1).send(0, &p)[0].reason().to_owned()
        };
        assert_eq!(reason(4, 5), "BadHeader");
        assert_eq!(reason(5, 3), "BadHeader");
        assert_eq!(reason(4, 255), "Truncated");
        let mut e = Harness::new("CheckARPHeader", &["14"], 1, 2);
        for n in 0..42 {
            assert_eq!(e.send(0, &request()[..n])[0].out(), (1, &request()[..n]));
        }
        assert_eq!(e.read("drops"), "42");
    }

    #[test]
    fn the_offset_is_bounded() {
        let errors = crate::class_named("CheckARPHeader").unwrap().configure(&["300000".into()]);
        assert!(errors.err().unwrap()[0].contains("OFFSET: 300000 is beyond the end of any packet"));
    }
}
