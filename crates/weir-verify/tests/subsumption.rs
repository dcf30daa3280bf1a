//! Ways that others stand for are not followed, and nothing is hidden by that.

mod net;

use std::collections::HashSet;
use std::sync::Arc;

use net::Net;
use weir_ir::{Builder, Width};
use weir_verify::checks::{Checker, Verdict, can, never};
use weir_verify::{Body, Limits, Network, NodePort, Session, SymbolicInput};

/// How many ways lead from a place to another: all, and those that are followed where it is asked what arrives.
fn ways(net: &Network, from: NodePort, to: NodePort) -> (usize, usize) {
    let watched = HashSet::from([to]);
    let mut session = Session::new(net, Limits::default());
    let enter = |s: &mut Session<'_>| {
        let blank = s.blank();
        s.packet(&blank, from, &SymbolicInput::ip()).into_iter().collect()
    };
    let traces = enter(&mut session);
    let all = session.run(traces, &watched).arrivals.len();
    let (traces, mut some) = (enter(&mut session), 0);
    session.arrivals(traces, &watched, |_| some += 1);
    assert_eq!(session.take_incomplete(), None);
    (all, some)
}

fn of(text: &str) -> (usize, usize) {
    let n = Net::new(text);
    ways(&n.net, n.port("s"), n.port("out"))
}

#[test]
fn one_of_two_ways_of_the_same_packet_is_followed() {
    let two = "s = RandomSwitch\n j = Paint(1)\n out = sink\n s:0 -> j -> out\n s:1 -> j";
    assert_eq!(of(two), (2, 1));
}

#[test]
fn annotations_count_until_they_are_written_over() {
    let between = |j: &str| {
        of(&format!(
            "s = RandomSwitch\n a = Paint(1)\n b = Paint(2)\n j = {j}\n out = sink
             s:0 -> a -> j -> out\n s:1 -> b -> j"
        ))
    };
    assert_eq!(between("Paint(3)"), (2, 1));
    assert_eq!(between("Strip(2)"), (2, 2));
    // The first way ends elsewhere.
    assert_eq!(between("CheckPaint(2)"), (1, 1));
}

#[test]
fn a_way_stands_only_for_what_it_assumes() {
    let parted =
        "s = IPClassifier(src net 10.0.0.0/8, -)\n j = Paint(1)\n out = sink\n s -> j -> out\n s:1 -> j";
    let (all, some) = of(parted);
    assert!(all == some && all > 1, "{some} of {all} ways are followed");
    let checked = "s = CheckIPHeader\n r = RandomSwitch\n j = Paint(1)\n out = sink\n s -> r";
    let (alone, _) = of(&format!("{checked}\n r:0 -> j -> out"));
    // The way by the first output is followed first.
    for (wide, narrow, stands) in [("r:0", "r:1", true), ("r:1", "r:0", false)] {
        let mut n =
            Net::new(&format!("{checked}\n f = Classifier(9/06)\n {wide} -> j -> out\n {narrow} -> f -> j"));
        let (all, some) = ways(&n.net, n.port("s"), n.port("out"));
        assert!(
            all > alone && (some == alone) == stands,
            "{some} of {all} ways are followed, {alone} are wide"
        );
        let q = n.query("s", "out", "udp");
        assert!(matches!(can(&mut Checker::new(&n.net, Limits::default()), &q), Verdict::Holds(Some(_))));
        let verdict = never(&mut Checker::new(&n.net, Limits::default()), &q);
        assert!(matches!(verdict, Verdict::Violated(Some(_))), "{verdict:?}");
    }
}

/// Draws a number, notes it in the packet if `noted`, and sends by output 0 if it is 0, else by output 1; both lead to what
/// lets through packets on which 1 is noted.
fn drawn(noted: bool) -> (Network, NodePort, NodePort) {
    let mut b = Builder::new("draw", 1, 2);
    b.input(0, |b| {
        let number = b.random();
        if noted {
            b.store_anno(0, number);
        }
        b.switch(number, &[0], |b, case| b.emit(u32::from(case.is_none())));
    });
    let mut c = Builder::new("one", 1, 1);
    c.input(0, |b| {
        if noted {
            let number = b.load_anno(Width::W32, 0);
            let other = b.ne(number, 1);
            b.when(other, |b| b.drop(weir_ir::Reason::NO_MATCH));
        }
        b.emit(0);
    });
    let mut net = Network::new();
    let draw = net.add_program("draw", &Arc::new(b.finish()), 0);
    let one = net.add_program("one", &Arc::new(c.finish()), 0);
    let out = net.add("out", Body::Sink);
    let at = |node, port| NodePort { node, port };
    net.connect(at(draw, 0), at(one, 0));
    net.connect(at(draw, 1), at(one, 0));
    net.connect(at(one, 0), at(out, 0));
    net.finish();
    (net, at(draw, 0), at(out, 0))
}

#[test]
fn what_was_drawn_counts_while_something_depends_on_it() {
    let (net, from, to) = drawn(false);
    assert_eq!(ways(&net, from, to), (2, 1));
    // The way by output 0 is followed first, and ends.
    let (net, from, to) = drawn(true);
    assert_eq!(ways(&net, from, to), (1, 1));
}

#[test]
fn a_program_that_writes_an_annotation_on_one_of_its_ways_may_leave_it_on_the_other() {
    let mark = |value: u8| {
        let mut b = Builder::new("mark", 1, 1);
        b.input(0, |b| {
            let v = b.constant(Width::W8, value);
            b.store_anno(4, v);
            b.emit(0);
        });
        Arc::new(b.finish())
    };
    let mut b = Builder::new("choose", 1, 2);
    b.input(0, |b| {
        let number = b.random();
        b.switch(number, &[0], |b, case| b.emit(u32::from(case.is_none())));
    });
    let mut j = Builder::new("sometimes", 1, 1);
    j.input(0, |b| {
        let number = b.random();
        let none = b.eq(number, 0);
        b.when(none, |b| {
            let v = b.constant(Width::W8, 9_u8);
            b.store_anno(4, v);
            b.emit(0);
        });
        b.emit(0);
    });
    let mut net = Network::new();
    let nodes = [Arc::new(b.finish()), mark(1), mark(2), Arc::new(j.finish())];
    let [choose, one, two, join] = nodes.map(|p| net.add_program("n", &p, 0));
    let out = net.add("out", Body::Sink);
    let at = |node, port| NodePort { node, port };
    for (from, to) in [
        (at(choose, 0), one),
        (at(choose, 1), two),
        (at(one, 0), join),
        (at(two, 0), join),
        (at(join, 0), out),
    ] {
        net.connect(from, at(to, 0));
    }
    net.finish();
    assert_eq!(ways(&net, at(choose, 0), at(out, 0)), (4, 4));
}
