//! What an address translation that is independent of endpoints lets in.

mod net;

use net::{Net, checker, holds, shown};
use weir_verify::checks::{Verdict, can, never};

/// An address translation whose inside speaks to one server only. What comes from outside is limited by a filter.
fn nat(outside: &str, more: &str) -> Net {
    Net::new(&format!(
        "c0 = CheckIPHeader
         f0 = IPFilter(allow udp and dst host 198.51.100.1 and dst port 53 and ip hl 5, deny all)
         c1 = CheckIPHeader
         f1 = IPFilter(allow {outside}, deny all)
         r = IPEndpointRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop, {more})
         outside = sink
         inside = sink
         c0 -> f0 -> r:0 -> outside
         c1 -> f1 -> r:1
         r:1 -> inside"
    ))
}

const WHOLE: &str = "udp and ip hl 5 and ip unfrag";
const ANY: &str = "udp and ip hl 5";

#[test]
fn filtering_decides_who_comes_in_by_what_insiders_opened() {
    let [same, port, other] = [
        "src host 198.51.100.1 and src port 53",
        "src host 198.51.100.1 and src port 54",
        "src host 198.51.100.2 and src port 53",
    ];
    for (filtering, passes) in [
        ("endpoint-independent", &[same, port, other][..]),
        ("address-dependent", &[same, port]),
        ("address-and-port-dependent", &[same]),
    ] {
        for (outside, who) in [WHOLE, ANY].into_iter().flat_map(|o| [same, port, other].map(|w| (o, w))) {
            let mut n = nat(outside, &format!("FILTERING {filtering}"));
            let q = n.query("c1", "inside", who);
            let v = never(&mut checker(&n), &n.others(q.clone(), "c1"));
            assert!(holds(&v), "nobody opened anything: {filtering} {who} {v:?}");
            let v = never(&mut checker(&n), &n.others(q, "c0 c1"));
            match (passes.contains(&who), outside) {
                (true, _) => shown(&v, false),
                (false, WHOLE) => assert!(holds(&v), "{filtering} {who} {v:?}"),
                // What fragments leave behind is more than is distinguished.
                (false, _) => assert!(!matches!(v, Verdict::Violated(_)), "{filtering} {who} {v:?}"),
            }
        }
    }
}

#[test]
fn forwarded_ports_are_open_and_others_are_not() {
    for filtering in ["endpoint-independent", "address-and-port-dependent"] {
        let asked = |filter: &str| {
            let mut n = nat(WHOLE, &format!("FORWARD udp 5353 10.0.0.7 53, FILTERING {filtering}"));
            let q = n.query("c1", "inside", filter);
            never(&mut checker(&n), &n.others(q, "c1"))
        };
        shown(&asked("dst port 5353"), false);
        for filter in ["not dst port 5353", "not dst host 192.0.2.1"] {
            let v = asked(filter);
            assert!(holds(&v), "{v:?}");
        }
    }
}

#[test]
fn mappings_beside_forwarded_ports_are_found() {
    let mut n = nat(ANY, "FORWARD udp 5353 10.0.0.7 53");
    let q = n.query("c0", "outside", "src port 2000");
    shown(&can(&mut checker(&n), &q), true);
    let q = n.query("c1", "inside", "dst port 2000");
    shown(&never(&mut checker(&n), &n.others(q, "c0 c1")), false);
}
