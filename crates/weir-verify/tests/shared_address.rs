//! The rules of `SharedAddress`, proved: whatever comes from either side, a graph neither gets nor sends what is of other ports of the address.

mod net;

use net::{Net, element, holds};
use std::sync::Arc;
use weir_ir::{Builder, Layer, Program, V, Width};
use weir_net::{PortShare, Protocols};
use weir_verify::checks::{Checker, Framing, Query, Start, Verdict, never};
use weir_verify::{Limits, NodePort, SymbolicInput};

/// The shares whose rules are proved.
const SHARES: [&str; 4] =
    ["10.0.0.9:20000-20015", "10.0.0.9:443-443/tcp", "10.0.0.9:1-65535/udp", "192.0.2.1:65535-65535"];

/// Which side a frame goes to, as the number of input and output.
const GRAPH: u32 = 0;
const NETWORK: u32 = 1;

fn eq48(b: &mut Builder, at: u32, mac: [u8; 6]) -> V {
    let mut all = b.constant(Width::W1, 1_u8);
    for (i, byte) in (0..).zip(mac) {
        let found = b.load(Width::W8, Layer::Data, at + i);
        let is = b.eq(found, byte);
        all = b.and(all, is);
    }
    all
}

fn all(b: &mut Builder, parts: &[V]) -> V {
    parts[1..].iter().fold(parts[0], |all, part| b.and(all, *part))
}

fn good(b: &mut Builder, is: V) {
    b.when(is, |b| b.emit(0));
    b.emit(1);
}

/// Whether a protocol and a port (of echoes, their identifier) are the share's.
fn is_its(b: &mut Builder, share: PortShare, proto: V, port: V) -> V {
    let (first, last) = share.ports();
    let (low, high) = (b.ge(port, first), b.le(port, last));
    let mut of = b.constant(Width::W1, 0_u8);
    for number in share.protocols().numbers() {
        let is = b.eq(proto, *number);
        of = b.or(of, is);
    }
    all(b, &[low, high, of])
}

/// A program that lets out on output 1 what breaks the rule for frames to a side.
fn judge(share: PortShare, to: u32) -> Program {
    let mut b = Builder::new("rule", 1, 2);
    let address = u32::from(share.address());
    b.input(0, |b| {
        b.require_or(Layer::Data, 34, |b| b.emit(1));
        let kind = b.load(Width::W16, Layer::Data, 12);
        let mac = eq48(b, if to == GRAPH { 0 } else { 6 }, share.mac().0);
        let arp = b.eq(kind, 0x0806_u16);
        b.when(arp, |b| {
            b.require_or(Layer::Data, 42, |b| b.emit(1));
            let operation = b.load(Width::W16, Layer::Data, 20);
            let operation = b.eq(operation, if to == GRAPH { 2_u16 } else { 1 });
            let own = b.load(Width::W32, Layer::Data, if to == GRAPH { 38 } else { 28 });
            let own = b.eq(own, address);
            let mut is = all(b, &[mac, operation, own]);
            if to == NETWORK {
                let sender = eq48(b, 22, share.mac().0);
                is = b.and(is, sender);
            }
            good(b, is);
        });
        let ip = b.eq(kind, 0x0800_u16);
        b.unless(ip, |b| b.emit(1));
        let first = b.load(Width::W8, Layer::Data, 14);
        let version = b.shr(first, 4);
        let four = b.eq(version, 4);
        b.unless(four, |b| b.emit(1));
        if to == NETWORK {
            let plain = b.eq(first, 0x45);
            let both = b.and(plain, mac);
            b.unless(both, |b| b.emit(1));
        }
        let own = b.load(Width::W32, Layer::Data, 14 + if to == GRAPH { 16 } else { 12 });
        let own = b.eq(own, address);
        let fragment = b.load(Width::W16, Layer::Data, 20);
        let fragment = b.and(fragment, 0x3fff_u16);
        let whole = b.eq(fragment, 0);
        let both = b.and(own, whole);
        b.unless(both, |b| b.emit(1));
        let words = b.and(first, 0x0f);
        let bytes = b.shl(words, 2);
        let bytes = b.resize(Width::W32, bytes);
        let bytes = b.add(bytes, 14);
        b.require_or(Layer::Data, bytes, |b| b.emit(1));
        b.set_mark(Layer::Cursor, Layer::Data, bytes);
        let proto = b.load(Width::W8, Layer::Data, 23);
        let icmp = b.eq(proto, 1);
        b.unless(icmp, |b| {
            b.require_or(Layer::Cursor, 4, |b| b.emit(1));
            let port = b.load(Width::W16, Layer::Cursor, if to == GRAPH { 2 } else { 0 });
            let its = is_its(b, share, proto, port);
            good(b, its);
        });
        b.require_or(Layer::Cursor, 8, |b| b.emit(1));
        let kind = b.load(Width::W8, Layer::Cursor, 0);
        let echo = b.eq(kind, if to == GRAPH { 0 } else { 8 });
        b.when(echo, |b| {
            let id = b.load(Width::W16, Layer::Cursor, 4);
            let its = is_its(b, share, proto, id);
            good(b, its);
        });
        // What is left is an error about a packet of the share's that went the other way.
        let kinds = [3, 11, 12].map(|k| b.eq(kind, k));
        let some = b.or(kinds[0], kinds[1]);
        let some = b.or(some, kinds[2]);
        b.unless(some, |b| b.emit(1));
        b.require_or(Layer::Cursor, 36, |b| b.emit(1));
        let plain = b.load(Width::W8, Layer::Cursor, 8);
        let plain = b.eq(plain, 0x45);
        let offset = b.load(Width::W16, Layer::Cursor, 14);
        let offset = b.and(offset, 0x1fff_u16);
        let whole = b.eq(offset, 0);
        let own = b.load(Width::W32, Layer::Cursor, if to == GRAPH { 20 } else { 24 });
        let mut own = b.eq(own, address);
        if to == NETWORK {
            let (sender, receiver) =
                (b.load(Width::W32, Layer::Cursor, 20), b.load(Width::W32, Layer::Data, 30));
            let back = b.eq(sender, receiver);
            own = b.and(own, back);
        }
        let about = b.load(Width::W8, Layer::Cursor, 17);
        let about_icmp = b.eq(about, 1);
        let port = b.load(Width::W16, Layer::Cursor, 28 + if to == GRAPH { 0 } else { 2 });
        let id = b.load(Width::W16, Layer::Cursor, 32);
        let port = b.select(about_icmp, id, port);
        let its = is_its(b, share, about, port);
        let is = all(b, &[plain, whole, own, its]);
        good(b, is);
    });
    b.finish()
}

/// Whether no frame whatever on an input of the element comes to where the rule is broken on the output of the same number.
fn keeps(of: &str, rule: Program, to: u32) -> bool {
    let mut n = Net::new("sink = sink\nother = sink\nbroken = sink");
    let program = element("share", &format!("SharedAddress({of})"), (2, 2));
    let share = n.net.add_program("share", &program, 0);
    let rule = n.net.add_program("rule", &Arc::new(rule), 1);
    let port = |node, port| NodePort { node, port };
    n.net.connect(port(share, to), port(rule, 0));
    n.net.connect(port(share, 1 - to), n.port("other"));
    n.net.connect(port(rule, 0), n.port("sink"));
    n.net.connect(port(rule, 1), n.port("broken"));
    n.net.finish();
    let from = vec![Start::new(port(share, to), Framing::Ethernet, SymbolicInput::frame())];
    let q = Query { from, others: Vec::new(), ..n.frames("sink", "broken", "true") };
    let mut c = Checker::new(&n.net, Limits::default());
    let verdict = never(&mut c, &q);
    assert!(holds(&verdict) || matches!(verdict, Verdict::Violated(_)), "{verdict:?}");
    holds(&verdict)
}

#[test]
fn a_graph_gets_and_sends_what_is_its_own_only() {
    for text in SHARES {
        let share: PortShare = text.parse().unwrap();
        for to in [GRAPH, NETWORK] {
            assert!(keeps(text, judge(share, to), to), "{text} to {to}");
        }
    }
}

/// The rule is no rule that nothing breaks: whoever has one port more, or another protocol or address, breaks it.
#[test]
fn a_neighbour_breaks_the_rule() {
    let share: PortShare = "10.0.0.9:20000-20015/udp".parse().unwrap();
    assert_eq!(share.protocols(), Protocols::Udp);
    for other in [
        "10.0.0.9:20000-20016/udp",
        "10.0.0.9:19999-20015/udp",
        "10.0.0.9:20000-20015",
        "10.0.0.8:20000-20015/udp",
    ] {
        for to in [GRAPH, NETWORK] {
            assert!(!keeps(other, judge(share, to), to), "{other} to {to}");
        }
    }
}
