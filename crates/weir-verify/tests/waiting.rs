//! `all`, where packets wait in tables until others let them go.

mod net;

use std::sync::Arc;

use net::{Net, checker, holds, shown};
use weir_ir::program::{Layer, MetaField, Width};
use weir_ir::{Builder, Reason, TableDecl};
use weir_packet::Provenance;
use weir_table::Kind;
use weir_verify::checks::{Assumptions, Doubt, Verdict, all, can, never};
use weir_verify::{Incomplete, NodePort};

/// What comes on input 0 waits, and leaves by output 0 when something comes on input 1, which leaves by output 1. What is
/// done before it leaves is `then`.
fn gate(copies: bool, then: fn(&mut Builder)) -> Arc<weir_ir::Program> {
    let mut b = Builder::new("gate", 2, 2);
    let decl = TableDecl::new("waiting", Kind::Exact, &[("key", Width::W8)], &[], 4).holding(2);
    let waiting = b.table(decl, Vec::new());
    b.input(0, |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        if copies {
            b.fork(|b| b.drop(Reason::DISCARDED));
        }
        let key = b.load(Width::W8, Layer::Net, 1);
        let full = |b: &mut Builder| b.drop(Reason::FULL);
        b.lookup(
            waiting,
            &[key],
            |b, e| b.hold(e, full),
            |b| {
                let e = b.insert(waiting, &[key], full);
                b.hold(e, full);
            },
        );
    });
    b.input(1, |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let key = b.load(Width::W8, Layer::Net, 1);
        let e = b.find(waiting, &[key], |b| b.drop(Reason::NO_MATCH));
        b.release(e, &[], |b, _| {
            then(b);
            if !b.ended() {
                b.emit(0);
            }
        });
        b.emit(1);
    });
    Arc::new(b.finish())
}

fn unless_short_lived(b: &mut Builder) {
    b.require(Layer::Net, 20, Reason::TRUNCATED);
    let ttl = b.load(Width::W8, Layer::Net, 8);
    let short = b.lt(ttl, 5);
    b.when(short, |b| b.drop(Reason::DENIED));
}

/// Packets of `a` go through the gate to `out` by `behind`, those of `c` open it and go to `gone`.
fn network(gate: &Arc<weir_ir::Program>, behind: &str) -> Net {
    let mut n = Net::new(&format!(
        "a = pass
         c = pass
         gone = sink
         out = sink
         {behind}"
    ));
    let gate = n.net.add_program("gate", gate, 0);
    let [a, c, out, gone] = ["a", "c", "behind", "gone"].map(|name| n.port(name));
    n.net.connect(a, NodePort { node: gate, port: 0 });
    n.net.connect(c, NodePort { node: gate, port: 1 });
    n.net.connect(NodePort { node: gate, port: 0 }, out);
    n.net.connect(NodePort { node: gate, port: 1 }, gone);
    n.net.finish();
    n
}

fn ask(mut n: Net, filter: &str, others: &str) -> (Verdict, Assumptions) {
    let q = n.query("a", "out", filter);
    let q = n.others(q, others);
    all(&mut checker(&n), &q, false)
}

const STRAIGHT: &str = "behind = pass\n behind -> out";

#[test]
fn what_waits_arrives_if_it_does_whenever_it_is_let_go() {
    for copies in [false, true] {
        let (v, assumptions) = ask(network(&gate(copies, |_| ()), STRAIGHT), "ip hl 5", "a c");
        assert!(holds(&v), "{v:?}");
        assert_eq!(assumptions.waiting, ["gate"]);
        let (v, _) = ask(network(&gate(copies, |_| ()), STRAIGHT), "ip hl 5", "a");
        shown(&v, false);
    }
}

#[test]
fn what_is_dropped_when_it_is_let_go_does_not_arrive() {
    let (v, _) = ask(network(&gate(false, unless_short_lived), STRAIGHT), "ip hl 5", "a c");
    let Verdict::Violated(Some(e)) = v else { panic!("{v:?}") };
    assert_eq!(e.packets.len(), 2, "the packet, and the one that lets it go");
    assert!(e.packets[0][8] < 5 && e.packets[0][1] == e.packets[1][1]);
    let (v, _) = ask(network(&gate(false, unless_short_lived), STRAIGHT), "ip hl 5 and ip ttl > 9", "a c");
    assert!(holds(&v), "{v:?}");
    let (v, _) = ask(network(&gate(false, |b| b.drop(Reason::DENIED)), STRAIGHT), "ip hl 5", "a c");
    shown(&v, false);
}

#[test]
fn what_becomes_an_answer_when_it_is_let_go_does_not_arrive() {
    let answers = |b: &mut Builder| {
        let answer = b.constant(Width::W8, Provenance::Answer as u128);
        b.store_meta(MetaField::Provenance, answer);
    };
    let (v, _) = ask(network(&gate(false, answers), STRAIGHT), "ip hl 5", "a c");
    assert!(!holds(&v), "{v:?}");
}

/// What a packet finds in a table before it waits may be something else when it goes on.
#[test]
fn what_was_read_before_a_packet_waited_is_read_again() {
    let mut b = Builder::new("twice", 3, 3);
    let decl = TableDecl::new("cell", Kind::Array, &[("index", Width::W32)], &[("shut", Width::W8)], 1);
    let cell = b.table(decl, Vec::new());
    let is_shut = move |b: &mut Builder| {
        let e = b.index(cell, 0);
        let says = b.get(e, "shut");
        b.eq(says, 1)
    };
    // In front of the gate: what finds it shut goes round it; behind: what finds it shut is dropped.
    b.input(0, |b| {
        let shut = is_shut(b);
        b.when(shut, |b| b.emit(1));
        b.emit(0);
    });
    b.input(1, |b| {
        let shut = is_shut(b);
        b.when(shut, |b| b.drop(Reason::DENIED));
        b.emit(1);
    });
    b.input(2, |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let e = b.index(cell, 0);
        let says = b.load(Width::W8, Layer::Net, 8);
        b.set(e, "shut", says);
        b.emit(2);
    });
    let twice = Arc::new(b.finish());
    let mut n = Net::new("a = pass\n c = pass\n d = pass\n gone = sink\n out = sink");
    let gate = n.net.add_program("gate", &gate(false, |_| ()), 0);
    let twice = n.net.add_program("twice", &twice, 0);
    let [a, c, d, out, gone] = ["a", "c", "d", "out", "gone"].map(|name| n.port(name));
    let at = |node, port| NodePort { node, port };
    for (from, to) in [
        (a, at(twice, 0)),
        (c, at(gate, 1)),
        (d, at(twice, 2)),
        (at(twice, 0), at(gate, 0)),
        (at(gate, 0), at(twice, 1)),
        (at(gate, 1), gone),
        (at(twice, 1), out),
        (at(twice, 2), gone),
    ] {
        n.net.connect(from, to);
    }
    n.net.finish();
    let (v, _) = ask(n, "ip hl 5", "a c d");
    assert!(!holds(&v), "{v:?}");
}

/// Packets on input 1 leave an entry for packets like them; those on input 0 are dropped where it says 1.
fn door(says: u8) -> Arc<weir_ir::Program> {
    let mut b = Builder::new("door", 2, 2);
    let decl = TableDecl::new("shut", Kind::Exact, &[("key", Width::W8)], &[("shut", Width::W8)], 4);
    let shut = b.table(decl, Vec::new());
    b.input(0, |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let key = b.load(Width::W8, Layer::Net, 1);
        let look = |b: &mut Builder, e| {
            let says = b.get(e, "shut");
            let is_shut = b.eq(says, 1);
            b.when(is_shut, |b| b.drop(Reason::DENIED));
        };
        b.lookup(shut, &[key], look, |_| ());
        b.emit(0);
    });
    b.input(1, |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let key = b.load(Width::W8, Layer::Net, 1);
        let e = b.insert(shut, &[key], |b| b.drop(Reason::FULL));
        b.set(e, "shut", u128::from(says));
        b.emit(1);
    });
    Arc::new(b.finish())
}

#[test]
fn what_depends_on_tables_behind_the_gate_is_not_taken_to_arrive() {
    let ask_with = |says| {
        let mut n = network(&gate(false, |_| ()), STRAIGHT);
        let door = n.net.add_program("door", &door(says), 0);
        let [behind, gone, out] = ["behind", "gone", "out"].map(|name| n.port(name));
        let gate = n.net.nodes().iter().position(|node| node.name == "gate").unwrap() as u32;
        n.net.connect(behind, NodePort { node: door, port: 0 });
        n.net.connect(NodePort { node: gate, port: 1 }, NodePort { node: door, port: 1 });
        n.net.connect(NodePort { node: door, port: 0 }, out);
        n.net.connect(NodePort { node: door, port: 1 }, gone);
        n.net.finish();
        ask(n, "ip hl 5", "a c").0
    };
    // What lets the packet go shuts the door first.
    shown(&ask_with(1), false);
    // The door is never shut; but that is not found out where anything may stand in its table.
    let v = ask_with(2);
    let Verdict::Inconclusive(why) = v else { panic!("{v:?}") };
    assert_eq!(why, Doubt::Incomplete(Incomplete::Waiting));
}

/// What somebody else left waiting, and the packet lets go, is not the packet.
#[test]
fn what_a_packet_lets_go_is_another_packet() {
    let mut n = network(&gate(false, |_| ()), STRAIGHT);
    let q = n.query("c", "out", "ip hl 5");
    let q = n.others(q, "a c");
    assert!(!holds(&all(&mut checker(&n), &q, false).0), "what arrives is the packet that waited");
    assert!(matches!(can(&mut checker(&n), &q), Verdict::Violated(None)));
    // But it comes of it.
    shown(&never(&mut checker(&n), &q), false);
}
