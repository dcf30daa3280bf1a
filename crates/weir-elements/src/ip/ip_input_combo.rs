use super::check_ip_header::{AddressList, InterfaceList, Sources, bad_source_table, check, lists};
use crate::prelude::*;

element! {
    /// What an IP router does with each Ethernet frame of IP that comes in: `Paint`, `Strip(14)`, `CheckIPHeader` and
    /// `GetIPAddress(16)` in one.
    ///
    /// Packets whose header is not valid are dropped with the reasons of `CheckIPHeader`.
    IPInputCombo: "1/1", "a/a";
    example "Idle -> IPInputCombo(1, INTERFACES 10.0.0.1/24) -> Discard;";
    params {
        /// The paint annotation becomes this.
        pos color: u8,
        /// Source addresses that are refused.
        pos badsrc: AddressList = AddressList(vec![]),
        /// Addresses of the router's interfaces with prefix length, as for `CheckIPHeader`.
        key interfaces: InterfaceList = InterfaceList(vec![]),
        /// Addresses that packets may come to even if their source is in BADSRC.
        key gooddst: AddressList = AddressList(vec![]),
    }
    handlers {
        /// Number of packets that were refused.
        count drops,
    }
}

fn program(e: &IPInputCombo, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    let (bad_sources, good_destinations) = &lists(&e.badsrc, &e.gooddst, &e.interfaces);
    let bad = bad_source_table(b, bad_sources);
    b.input(0, |b| {
        let color = b.constant(W8, e.color);
        b.store_anno(anno::PAINT, color);
        b.require_or(Layer::Data, ETHER_LEN, |b| {
            count(b, drops);
            b.drop(Reason::TRUNCATED);
        });
        b.pull(ETHER_LEN);
        check(b, 0, true, Sources { bad_sources, good_destinations, bad }, drops);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, udp};
    use weir_net::build::{DST_ETHER, SRC_ETHER, ethernet};
    use weir_packet::Layer;

    fn frame() -> Vec<u8> {
        ethernet(DST_ETHER, SRC_ETHER, 0x0800, &udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x"))
    }

    #[test]
    fn good_packets_are_painted_stripped_and_marked() {
        let padded = [&frame()[..], &[0; 9]].concat();
        let out = Harness::new("IPInputCombo", &["7"], 1, 1).send(0, &padded);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!((p.bytes(), p.from_layer(Layer::Net)), (&frame()[14..], &frame()[14..]));
        assert_eq!((&p.anno[..4], p.anno[16]), (&[10, 0, 1, 1][..], 7));
    }

    #[test]
    fn bad_packets_are_dropped_and_counted() {
        let mut e = Harness::new("IPInputCombo", &["7", "1.2.3.4 10.0.0.1", "GOODDST 10.0.1.2"], 1, 1);
        assert_eq!(e.send(0, &frame())[0].reason(), "BadSource");
        for n in 0..frame().len() {
            assert_eq!(e.send(0, &frame()[..n])[0].reason(), "Truncated");
        }
        let mut wrong = frame();
        wrong[24] ^= 1;
        assert_eq!(e.send(0, &wrong)[0].reason(), "BadChecksum");
        assert_eq!(e.read("drops"), (frame().len() + 2).to_string());
        let mut e = Harness::new("IPInputCombo", &["7", "10.0.0.1", "GOODDST 10.0.1.1"], 1, 1);
        assert_eq!(e.send(0, &frame())[0].out().0, 0);
    }

    #[test]
    fn a_colour_is_needed() {
        let errors = crate::class_named("IPInputCombo").unwrap().configure(&["256".into()]).err().unwrap();
        assert!(errors[0].contains("COLOR: 256 is too large"), "{errors:?}");
    }
}
