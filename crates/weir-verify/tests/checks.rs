//! Requirements over networks of real elements.

mod net;

use std::sync::Arc;

use net::{Net, checker, holds, shown};
use weir_ir::program::{Layer, Width};
use weir_ir::{Builder, Reason};
use weir_verify::checks::{
    Bits, Checker, Field, Query, ReturnPath, Start, Target, Verdict, all, can, invariant, never, noloops,
    only, returns,
};
use weir_verify::{Body, Limits, Network, NodePort};

const FILTER: &str = "c = CheckIPHeader
    f = IPFilter(allow udp dst port 1500, deny all)
    out = sink
    c -> f -> out";

#[test]
fn a_filter_lets_through_what_it_allows_and_nothing_else() {
    let mut n = Net::new(FILTER);
    let q = n.query("c", "out", "udp dst port 1500");
    let tcp = n.query("c", "out", "tcp");
    let low = n.query("c", "out", "udp dst port < 1500");
    let mut c = checker(&n);
    shown(&can(&mut c, &q), true);
    assert!(holds(&only(&mut c, &q)));
    assert!(holds(&never(&mut c, &tcp)));
    assert!(matches!(can(&mut c, &tcp), Verdict::Violated(None)));
    shown(&only(&mut c, &low), false);
}

#[test]
fn ports_stand_behind_options_whatever_was_written_at_a_fixed_offset() {
    // Behind one word of options these are the ports; else they are options, or stand behind the ports.
    let mut n = Net::new(
        "c = CheckIPHeader
         f = IPFilter(allow udp dst port 80, deny all)
         s = StoreIPAddress(0.80.0.53, 24)
         k = IPClassifier(dst port 53, dst port 80, -)
         one = sink
         others = sink
         none = sink
         c -> f -> s -> k -> one
         k:1 -> others
         k:2 -> none",
    );
    let [one, others, none] = ["one", "others", "none"].map(|out| n.query("c", out, ""));
    let mut c = checker(&n);
    shown(&can(&mut c, &one), true);
    shown(&can(&mut c, &others), true);
    let v = never(&mut c, &none);
    assert!(holds(&v), "{v:?}");
}

#[test]
fn bytes_that_were_cut_off_are_not_there_any_more() {
    let mut n = Net::new(
        "k = Classifier(22/0035, -)
         c = CheckIPHeader
         again = Classifier(22/0035, -)
         there = sink
         gone = sink
         others = sink
         k -> c -> again -> there
         k:1 -> others
         again:1 -> gone",
    );
    let [there, gone] = ["there", "gone"].map(|out| n.query("k", out, ""));
    let mut c = checker(&n);
    shown(&can(&mut c, &there), true);
    // Padding behind what the header says is the packet.
    shown(&can(&mut c, &gone), true);
}

#[test]
fn an_expired_packet_does_not_arrive() {
    let mut n = Net::new("c = CheckIPHeader\n d = DecIPTTL\n out = sink\n c -> d -> out");
    let q = n.query("c", "out", "udp and ip ttl > 1");
    let mut c = checker(&n);
    let (v, _) = all(&mut c, &q, false);
    // A header may be broken in other ways.
    shown(&v, false);
}

#[test]
fn an_address_that_is_rewritten_changes_and_the_rest_does_not() {
    let mut n = Net::new(
        "c = CheckIPHeader
         r = IPRewriter(pattern - - 172.16.15.133 - 0 0)
         out = sink
         c -> r -> out",
    );
    let all = n.query("c", "out", "udp and ip hl 5");
    let q = n.others(all.clone(), "");
    let mut c = checker(&n);
    let field = |offset| Field::Net { v4: Some(Bits::number(offset, Width::W32)), v6: None };
    let (src, dst) = (field(12), field(16));
    let port = Field::Transport(Bits::number(2, Width::W16));
    let v = invariant(&mut c, &q, &[src, port]);
    assert!(holds(&v), "{v:?}");
    shown(&invariant(&mut c, &q, &[dst]), false);
    let v = invariant(&mut c, &q, &[Field::Payload]);
    assert!(holds(&v), "{v:?}");
    // A packet from that address to itself opens a flow that is its own reply: the next one is answered backwards.
    shown(&invariant(&mut c, &all, &[src, port]), false);
}

const NAT: &str = "c0 = CheckIPHeader
    c1 = CheckIPHeader
    r = IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop)
    outside = sink
    inside = sink
    c0 -> r:0 -> outside
    c1 -> r:1
    r:1 -> inside";

#[test]
fn replies_come_back_through_a_nat() {
    let mut n = Net::new(NAT);
    let q = n.query("c0", "outside", "udp");
    let way =
        ReturnPath { replies: vec![(n.port("outside"), start(&n, "c1"))], home: vec![target(&n, "inside")] };
    let mut c = checker(&n);
    shown(&returns(&mut c, &q, &way), true);
}

#[test]
fn strangers_come_in_only_by_what_insiders_opened() {
    let mut n = Net::new(NAT);
    let q = n.query("c1", "inside", "");
    let alone = n.others(q.clone(), "c1");
    let with = n.others(q, "c0 c1");
    let mut c = checker(&n);
    let v = never(&mut c, &alone);
    assert!(holds(&v), "nobody opened anything: {v:?}");
    shown(&never(&mut c, &with), false);
}

#[test]
fn a_loop_is_found_and_the_time_to_live_does_not_hide_it() {
    let ring = |route: &str| {
        Net::new(&format!(
            "c = CheckIPHeader
             a = LinearIPLookup(10.0.0.0/8 0, {route})
             ta = DecIPTTL
             b = LinearIPLookup(10.0.0.0/8 0, 0.0.0.0/0 1)
             tb = DecIPTTL
             out = sink
             other = sink
             c -> a -> ta -> b -> out
             a:1 -> other
             b:1 -> tb -> a"
        ))
    };
    let looping = ring("11.0.0.0/8 0, 0.0.0.0/0 1");
    let mut bad = looping;
    let q = bad.query("c", "out", "");
    shown(&noloops(&mut checker(&bad), &q), false);
    let mut good = ring("0.0.0.0/0 1");
    let q = good.query("c", "out", "");
    let v = noloops(&mut checker(&good), &q);
    assert!(holds(&v), "{v:?}");
}

#[test]
fn a_tunnel_gives_back_what_went_in() {
    let mut n = Net::new(
        "c = CheckIPHeader
         e = IPEncap(4, 192.0.2.1, 192.0.2.2)
         k = CheckIPHeader
         d = StripIPHeader
         m = CheckIPHeader
         out = sink
         c -> e -> k -> d -> m -> out",
    );
    let q = n.query("c", "out", "");
    let mut c = checker(&n);
    let header = |offset, width: Width| Field::Net { v4: Some(Bits::number(offset, width)), v6: None };
    let fields = [header(0, Width::W64), header(8, Width::W64), header(16, Width::W32), Field::Payload];
    for field in fields {
        let v = invariant(&mut c, &q, &[field]);
        assert!(holds(&v), "{field:?}: {v:?}");
    }
}

#[test]
fn fields_of_ipv6_stand_elsewhere() {
    let mut n = Net::new(
        "d = DecIP6HLIM
         out = sink
         d -> out",
    );
    let q = n.query("d", "out", "");
    let mut c = checker(&n);
    let source =
        Field::Net { v4: Some(Bits::number(12, Width::W32)), v6: Some(Bits::number(8, Width::W128)) };
    let v = invariant(&mut c, &q, &[source]);
    assert!(holds(&v), "{v:?}");
    let ttl = Field::Net { v4: Some(Bits::number(8, Width::W8)), v6: Some(Bits::number(7, Width::W8)) };
    shown(&invariant(&mut c, &q, &[ttl]), false);
    // IPv6 has no identification, so there is none to keep.
    let id = Field::Net { v4: Some(Bits::number(4, Width::W16)), v6: None };
    let v = invariant(&mut c, &q, &[id]);
    assert!(holds(&v), "{v:?}");
}

fn start(n: &Net, place: &str) -> Start {
    let place: NodePort = n.port(place);
    Start::new(place, weir_verify::checks::Framing::Ip, weir_verify::SymbolicInput::ip())
}

fn target(n: &Net, place: &str) -> Target {
    Target::new(n.port(place), weir_verify::checks::Framing::Ip)
}

#[test]
fn a_header_that_was_right_is_right_after_a_rewrite() {
    let mut n = Net::new(
        "c = CheckIPHeader
         d = DecIPTTL
         r = IPRewriter(pattern - - 172.16.15.133 - 0 0)
         c2 = CheckIPHeader
         e = IPEncap(4, 192.0.2.1, 192.0.2.2)
         c3 = CheckIPHeader
         bad = sink
         out = sink
         c -> d -> r -> c2 -> e -> c3 -> out
         c2:1 -> bad
         c3:1 -> bad",
    );
    let q = n.query("c", "bad", "");
    let mut c = checker(&n);
    let v = never(&mut c, &q);
    // All ways in which earlier packets open flows may be too many to try, or to decide.
    assert!(!matches!(v, Verdict::Violated(_)), "{v:?}");
    let alone = n.others(q, "");
    let v = never(&mut checker(&n), &alone);
    assert!(holds(&v), "the first packet: {v:?}");
}

#[test]
fn a_full_queue_counts_where_that_is_required() {
    let mut n = Net::new("m = MarkIPHeader\n q = queue\n out = sink\n m -> q -> out");
    let q = n.query("m", "out", "ip");
    let mut c = checker(&n);
    let (v, losses) = all(&mut c, &q, false);
    assert!(holds(&v), "{v:?}");
    assert_eq!(losses.losses, ["q"]);
    let (v, losses) = all(&mut c, &q, true);
    assert_eq!(losses.losses.len(), 0, "they are counted");
    let Verdict::Violated(Some(e)) = v else { panic!("{v:?}") };
    let last = e.replay.hops.last().unwrap();
    assert_eq!((last.place, last.after.len()), (n.port("q"), 1));
    // Behind the queue, or where another copy has space, nothing is lost.
    let mut n = Net::new("t = Tee\n q = queue\n out = sink\n t:0 -> q -> out\n t:1 -> out");
    let q = n.query("t", "out", "ip");
    let (v, _) = all(&mut checker(&n), &q, true);
    assert!(holds(&v), "{v:?}");
}

#[test]
fn a_full_table_counts_where_that_is_required() {
    let mut n = Net::new("r = IPRewriter(keep 0 0, CAPACITY 1)\n out = sink\n r -> out");
    let q = n.query("r", "out", "udp and ip hl 5 and not ip frag and udp[7] = 0");
    let way = |q: &Query, strict| all(&mut checker(&n), q, strict).0;
    shown(&way(&q, true), false);
    assert!(!matches!(way(&q, false), Verdict::Violated(_)));
}

#[test]
fn what_is_written_behind_the_headers_changes_the_payload() {
    let text = |at: u32| {
        format!("c = CheckIPHeader\n s = StoreIPAddress(10.0.0.7, {at})\n out = sink\n c -> s -> out")
    };
    for (at, kept) in [(16, true), (28, false)] {
        let mut n = Net::new(&text(at));
        let q = n.query("c", "out", "udp and ip hl 5");
        let v = invariant(&mut checker(&n), &q, &[Field::Payload]);
        assert_eq!(holds(&v), kept, "{at}: {v:?}");
    }
}

#[test]
fn what_comes_back_from_elsewhere_is_no_reply() {
    let text = |back: &str| {
        format!(
            "{NAT}
             other = {back}
             home = sink
             inside2 = pass
             r:1 -> inside2 -> other -> home"
        )
    };
    for (back, comes) in [("Paint(1)", true), ("StoreIPAddress(10.9.9.9, src)", false)] {
        let mut n = Net::new(&text(back));
        let q = n.query("c0", "outside", "udp and not dst host 10.9.9.9");
        let q = n.others(q, "");
        let way = ReturnPath {
            replies: vec![(n.port("outside"), start(&n, "c1"))],
            home: vec![target(&n, "home")],
        };
        let v = returns(&mut checker(&n), &q, &way);
        assert_eq!(holds(&v), comes, "{back}: {v:?}");
    }
}

/// There are IP packets that a program sends by its first output, and others that it sends by its second.
fn sends_by_both_outputs(program: &Arc<weir_ir::Program>) {
    let mut net = Network::new();
    let node = net.add_program("program", program, 0);
    let outputs = ["first", "second"].map(|name| net.add(name, Body::Sink));
    for (port, sink) in (0..).zip(outputs) {
        net.connect(NodePort { node, port }, NodePort { node: sink, port: 0 });
    }
    net.finish();
    let framing = weir_verify::checks::Framing::Ip;
    let input = weir_verify::SymbolicInput::ip();
    let from = Start::new(NodePort { node, port: 0 }, framing, input);
    for sink in outputs {
        let to = Target::new(NodePort { node: sink, port: 0 }, framing);
        let q = Query { from: vec![from.clone()], to: vec![to], ..Query::default() };
        shown(&can(&mut Checker::new(&net, Limits::default()), &q), true);
    }
}

#[test]
fn a_packet_that_was_too_short_is_long_enough_with_more_at_its_end() {
    let mut b = Builder::new("longer", 1, 2);
    b.input(0, |b| {
        let long = |b: &mut Builder| {
            b.choose_has(Layer::Data, 60, |b| b.constant(Width::W1, 1_u8), |b| b.constant(Width::W1, 0_u8))
        };
        let at_first = long(b);
        b.when(at_first, |b| b.emit(0));
        b.put(60);
        let then = long(b);
        b.when(then, |b| b.emit(1));
        b.drop(Reason::TRUNCATED);
    });
    sends_by_both_outputs(&Arc::new(b.finish()));
}

/// Counts to three, looks at the first byte in each round, and sends packets that begin with 0x45 by output 0, others by
/// output 1: paths that differ in what they assume of the byte meet at the head of the loop.
fn rounds() -> Arc<weir_ir::Program> {
    let mut b = Builder::new("rounds", 1, 2);
    b.input(0, |b| {
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        let zero = b.constant(Width::W32, 0_u32);
        b.repeat(8, &[zero], |b, this, vars| {
            let first = b.load(Width::W8, Layer::Data, 0);
            let same = b.eq(first, 0x45);
            // The same number by either way; a question whose ways give nothing would not be asked.
            let next = b.choose(same, |b| b.add(vars[0], 1), |b| b.add(vars[0], 1));
            let done = b.eq(next, 3);
            b.when(done, |b| this.leave(b, &[next]));
            this.next(b, &[next]);
        });
        let first = b.load(Width::W8, Layer::Data, 0);
        b.switch(first, &[0x45], |b, case| b.emit(case.map_or(1, |_| 0)));
    });
    Arc::new(b.finish())
}

#[test]
fn paths_that_meet_at_the_head_of_a_loop_stand_for_each_other() {
    sends_by_both_outputs(&rounds());
}
