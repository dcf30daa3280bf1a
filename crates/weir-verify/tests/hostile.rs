//! Networks and requirements that are made to be hard. An answer comes, and it is the right one or says that it is not
//! known: never that something holds which does not, or which could not be looked at as a whole.

mod net;

use std::collections::HashSet;

use net::Net;
use weir_verify::checks::{Checker, Doubt, Query, Verdict, all, can, never, only};
use weir_verify::{Limits, Session, SymbolicInput};

fn ask(n: &Net, check: impl Fn(&mut Checker<'_>, &Query) -> Verdict, q: &Query) -> &'static str {
    match check(&mut Checker::new(&n.net, Limits::of_networks()), q) {
        Verdict::Holds(_) => "holds",
        Verdict::Violated(Some(_)) => "violated by a packet",
        Verdict::Violated(None) => "violated",
        Verdict::Inconclusive(why) => {
            assert!(!why.to_string().is_empty());
            "not known"
        }
    }
}

/// Elements in a row, each of whose two outputs leads to the next: twice as many ways with each.
fn diamonds(count: usize, element: impl Fn(usize) -> String, last: &str) -> String {
    let nodes: String = (0..count).map(|i| format!("e{i} = {}\n", element(i))).collect();
    let wire = |i: usize| format!("e{i}:0 -> e{}\ne{i}:1 -> e{}\n", i + 1, i + 1);
    format!("{nodes}e{count} = {last}\n{}", (0..count).map(wire).collect::<String>())
}

/// Asks for one bit behind the fixed header.
fn bit(i: usize) -> String {
    format!("Classifier({}/{:02x}%{:02x}, -)", 20 + i / 8, 1 << (i % 8), 1 << (i % 8))
}

#[test]
fn two_to_the_64_ways_by_masks() {
    let mut n = Net::new(&diamonds(64, bit, "sink"));
    let any = n.query("e0", "e64", "");
    let udp = n.query("e0", "e64", "udp");
    let none = n.query("e0", "e64", "udp and tcp");
    assert_eq!(ask(&n, never, &udp), "violated by a packet");
    assert_eq!(ask(&n, can, &udp), "holds");
    assert_eq!(ask(&n, only, &udp), "violated by a packet");
    assert_eq!(ask(&n, never, &none), "holds");
    assert_eq!(ask(&n, can, &none), "not known");
    assert_eq!(ask(&n, |c, q| all(c, q, false).0, &any), "not known");
}

#[test]
fn ways_that_are_given_up_before_they_end_are_counted_too() {
    let mut n = Net::new(&diamonds(64, bit, "sink"));
    let q = n.query("e0", "e64", "");
    for check in [never, can, only] {
        let v = check(&mut Checker::new(&n.net, Limits { steps: 60, ..Limits::default() }), &q);
        assert!(matches!(v, Verdict::Inconclusive(Doubt::Incomplete(_))), "{v:?}");
    }
}

#[test]
fn a_thousand_ways_within_a_thousand() {
    let mut text = "a = HashSwitch(12, 4)\nb = HashSwitch(16, 4)\nout = sink\n".to_owned();
    for i in 0..1000 {
        text += &format!("a:{i} -> b\nb:{i} -> out\n");
    }
    let mut n = Net::new(&text);
    let udp = n.query("a", "out", "udp");
    let any = n.query("a", "out", "");
    assert_eq!(ask(&n, never, &udp), "violated by a packet");
    assert_eq!(ask(&n, |c, q| all(c, q, false).0, &any), "not known");
}

#[test]
fn rules_whose_masks_leave_nothing_or_little() {
    // Every other bit of the source, by one filter after the other: together they want all ones and, of the last, a zero.
    let filters = |last: &str| {
        let mut text =
            format!("out = sink\nf16 = IPFilter(allow ip[12:4] & 0x{last} = 0x100, deny all)\nf16 -> out\n");
        for i in (0..16).rev() {
            let mask = 0x0001_0001u32 << i | 0x8000_0000u32 >> i;
            text += &format!("f{i} = IPFilter(allow ip[12:4] & 0x{mask:x} = 0x{mask:x}, deny all)\n");
            text += &format!("f{i} -> f{}\n", i + 1);
        }
        text
    };
    let mut n = Net::new(&filters("10100"));
    let q = n.query("f0", "out", "");
    let answer = ask(&n, never, &q);
    assert!(["holds", "not known"].contains(&answer), "nothing passes: {answer}");
    let mut n = Net::new(&filters("100"));
    let q = n.query("f0", "out", "");
    assert_eq!(ask(&n, never, &q), "violated by a packet");
}

#[test]
fn what_contradicts_itself_is_asked_as_it_stands() {
    let mut n = Net::new("c = CheckIPHeader\n out = sink\n c -> out");
    let q = n.query("c", "out", "tcp and udp");
    assert_eq!(ask(&n, can, &q), "violated");
    assert_eq!(ask(&n, never, &q), "holds");
    assert_eq!(ask(&n, only, &q), "violated by a packet");
    assert_eq!(ask(&n, |c, q| all(c, q, true).0, &q), "holds");
}

#[test]
fn explorations_of_a_session_share_a_limit() {
    let net = Net::new("s = RandomSwitch\n a = Paint(1)\n b = Paint(2)\n s:0 -> a\n s:1 -> b");
    let mut session = Session::new(&net.net, Limits { paths: 4, ..Limits::of_networks() });
    let mut explored = 0;
    while session.take_incomplete().is_none() && explored < 1000 {
        let traces = session.packet(&session.blank(), net.port("s"), &SymbolicInput::ip());
        session.run(traces.into_iter().collect(), &HashSet::new());
        explored += 1;
    }
    // None of them has more than four paths.
    assert!((20..1000).contains(&explored), "given up after {explored}");
}
