use super::tos::change_tos;
use crate::fields::ipv4;
use crate::prelude::*;

element! {
    /// Marks IPv4 packets as having met congestion (RFC 3168 section 5), and updates the header checksum.
    ///
    /// Packets whose transport is not capable of ECN are dropped (`NotECN`), as a queue would. The `net` mark has to
    /// stand on an IPv4 header; other packets are dropped (`Unmarked`).
    MarkIPCE: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> MarkIPCE -> Discard;";
    params {
        /// Whether all packets are marked, capable of ECN or not.
        pos force: bool = false,
    }
    handlers {
        /// Number of packets that were not capable of ECN.
        count drops,
    }
}

fn program(e: &MarkIPCE, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        require_ip(b);
        if !e.force {
            let tos = ipv4::TOS.load(b);
            let ecn = b.and(tos, 3);
            let not_capable = b.eq(ecn, 0);
            b.when(not_capable, |b| {
                count(b, drops);
                b.drop(Reason::new("NotECN"));
            });
        }
        change_tos(b, |b, tos| b.or(tos, 3));
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::ip::tos::tests::{each, packet};
    use crate::testing::Harness;

    #[test]
    fn capable_packets_are_marked_and_others_dropped() {
        let mut e = Harness::new("MarkIPCE", &[], 1, 1);
        for tos in [1, 2, 3, 0xb9] {
            assert_eq!(e.send_ip(0, &packet(tos))[0].out().1, packet(tos | 3));
        }
        for tos in [0, 0xb8] {
            assert_eq!(e.send_ip(0, &packet(tos))[0].reason(), "NotECN");
        }
        assert_eq!(e.read("drops"), "2");
    }

    #[test]
    fn all_are_marked_on_request() {
        each(&mut Harness::new("MarkIPCE", &["FORCE true"], 1, 1), |tos| tos | 3);
    }

    #[test]
    fn the_argument_is_a_boolean() {
        let errors = crate::class_named("MarkIPCE").unwrap().configure(&["ce".into()]).err().unwrap();
        assert!(errors[0].contains("FORCE: 'ce' is not a boolean"), "{errors:?}");
    }
}
