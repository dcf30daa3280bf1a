//! Questions that intervals and the search leave open, and z3 decides; and what the packets look like that are found.

mod net;

use net::Net;
use weir_verify::Limits;
use weir_verify::checks::{Checker, Query, Verdict, can, never, only};

type Check = fn(&mut Checker<'_>, &Query) -> Verdict;

fn ask(n: &Net, check: Check, q: &Query) -> Verdict {
    check(&mut Checker::new(&n.net, Limits::default()), q)
}

fn holds(v: &Verdict) -> bool {
    matches!(v, Verdict::Holds(_))
}

/// The bytes of the first packet of a verdict that has one.
fn packet(v: &Verdict) -> &[u8] {
    match v {
        Verdict::Holds(Some(e)) | Verdict::Violated(Some(e)) => &e.packets[0],
        v => panic!("{v:?}"),
    }
}

#[test]
fn frames_of_one_type_are_not_those_of_another() {
    let mut n = Net::new("f = Classifier(12/0800)\n out = sink\n f -> out");
    for other in ["ip6", "vlan", "arp"] {
        let q = n.frames("f", "out", other);
        let v = ask(&n, never, &q);
        assert!(holds(&v), "{other}: {v:?}");
    }
    let q = n.frames("f", "out", "udp dst port 53");
    let v = ask(&n, never, &q);
    assert!(matches!(v, Verdict::Violated(Some(_))), "{v:?}");
}

#[test]
fn a_filter_behind_what_takes_the_frame_off_keeps_others_out() {
    let mut n = Net::new(
        "f = Classifier(12/0800)
         s = Strip(14)
         m = MarkIPHeader
         a = IPFilter(allow src net 10.0.0.0/8, deny all)
         u = Unstrip(14)
         out = sink
         f -> s -> m -> a -> u -> out",
    );
    let q = n.frames("f", "out", "src net 11.0.0.0/8");
    let v = ask(&n, never, &q);
    assert!(holds(&v), "{v:?}");
}

#[test]
fn what_would_be_ports_of_ipv6_is_behind_a_fragment_offset_to_ipv4() {
    let mut n = Net::new("f = IPFilter(allow udp dst port 53, deny all)\n out = sink\n f -> out");
    // Next header 6 is in the byte of the offset's high bits.
    let q = n.ipv6("f", "out", "tcp");
    let v = ask(&n, never, &q);
    assert!(holds(&v), "{v:?}");
}

#[test]
fn a_time_to_live_that_was_counted_down_is_not_the_highest() {
    let mut n = Net::new(
        "c = CheckIPHeader
         d = DecIPTTL
         out = sink
         c -> d -> out",
    );
    let q = n.query("c", "out", "ip ttl < 255");
    let v = ask(&n, only, &q);
    assert!(holds(&v), "{v:?}");
}

#[test]
fn a_witness_is_a_packet_as_readers_know_them() {
    let mut n = Net::new("c = CheckIPHeader\n out = sink\n c -> out");
    let q = n.query("c", "out", "udp dst port 53");
    let v = ask(&n, can, &q);
    let p = packet(&v);
    assert_eq!(p.len(), 28, "{p:02x?}");
    assert_eq!((p[0], p[1], p[8], p[9]), (0x45, 0, 64, 17));
    assert_eq!((&p[2..4], &p[6..8]), (&[0, 28][..], &[0, 0][..]));
    assert_eq!((&p[12..16], &p[16..20]), (&[192, 0, 2, 1][..], &[198, 51, 100, 1][..]));
    assert_eq!((&p[22..24], &p[24..26]), (&[0, 53][..], &[0, 8][..]));
}

#[test]
fn a_hash_of_what_is_fixed_goes_elsewhere_by_another_seed() {
    let mut n = Net::new(
        "s = StoreIPAddress(10.0.0.7, src)
         h = HashSwitch(12, 4)
         a = sink
         b = sink
         s -> h -> a
         h:1 -> b",
    );
    for place in ["a", "b"] {
        let q = n.query("s", place, "udp");
        let v = ask(&n, can, &q);
        assert!(holds(&v), "{place}: {v:?}");
    }
}
