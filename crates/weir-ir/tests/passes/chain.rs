//! Graphs as they stand in configurations: a router's path, and a classifier with many rules.

use weir_ir::Width::{W8, W16, W32};
use weir_ir::program::EntryKind;
use weir_ir::{Builder, Layer, Program, Reason, V, Wire, check, link, retain_entries};

fn chain(programs: &[Program]) -> Program {
    let last = programs.len() - 1;
    let wire = |e: usize, port: u32| match (e, port) {
        (e, 0) if e == last => Some(Wire::Exit(0)),
        (e, 0) => Some(Wire::Input { element: e + 1, port: 0 }),
        _ => None,
    };
    let mut p = link(programs, wire, 1).unwrap();
    retain_entries(&mut p, |e| e.owner == 0 || !matches!(e.kind, EntryKind::Packet { .. }));
    assert_eq!(check(&p), Ok(()));
    p
}

fn element(name: &str, body: impl FnOnce(&mut Builder)) -> Program {
    let mut b = Builder::new(name, 1, 1);
    b.input(0, |b| {
        body(b);
        b.emit(0);
    });
    b.finish()
}

fn strip() -> Program {
    element("strip", |b| {
        b.require(Layer::Data, 14, Reason::TRUNCATED);
        b.set_mark(Layer::Mac, Layer::Data, 0);
        b.pull(14);
    })
}

fn check_ip_header() -> Program {
    element("check", |b| {
        b.require(Layer::Data, 20, Reason::TRUNCATED);
        let first = b.load(W8, Layer::Data, 0);
        let version = b.shr(first, 4);
        let wrong = b.ne(version, 4);
        b.when(wrong, |b| b.drop(Reason::BAD_HEADER));
        let words = b.and(first, 15);
        let len = b.shl(words, 2);
        let short = b.lt(len, 20);
        b.when(short, |b| b.drop(Reason::BAD_HEADER));
        let len = b.resize(W32, len);
        b.set_mark(Layer::Net, Layer::Data, 0);
        b.require(Layer::Net, len, Reason::TRUNCATED);
        let sum = b.checksum(Layer::Net, 0, len);
        let bad = b.ne(sum, 0xffff_u16);
        b.when(bad, |b| b.drop(Reason::BAD_CHECKSUM));
        b.set_mark(Layer::Transport, Layer::Net, len);
        let dst = b.load(W32, Layer::Net, 16);
        b.store_anno(0, dst);
    })
}

/// The destination annotation, for a later element.
fn get_ip_address() -> Program {
    element("get", |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let dst = b.load(W32, Layer::Net, 16);
        b.store_anno(0, dst);
    })
}

fn update(b: &mut Builder, old: V, new: V) {
    let sum = b.load(W16, Layer::Net, 10);
    let (sum, old) = (b.not(sum), b.not(old));
    let sum = b.sum16(sum, old);
    let sum = b.sum16(sum, new);
    let sum = b.not(sum);
    b.store(Layer::Net, 10, sum);
}

fn dec_ip_ttl(name: &str) -> Program {
    element(name, |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let old = b.load(W16, Layer::Net, 8);
        let ttl = b.shr(old, 8);
        let expired = b.le(ttl, 1);
        b.when(expired, |b| b.drop(Reason::TTL_EXPIRED));
        let new = b.sub(old, 0x100_u16);
        b.store(Layer::Net, 8, new);
        update(b, old, new);
    })
}

fn set_dscp() -> Program {
    element("dscp", |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let old = b.load(W16, Layer::Net, 0);
        let rest = b.and(old, 0xff03_u16);
        let new = b.or(rest, 0xb8_u16);
        b.store(Layer::Net, 0, new);
        update(b, old, new);
    })
}

fn ether_encap() -> Program {
    element("encap", |b| {
        b.push(14);
        b.set_mark(Layer::Mac, Layer::Data, 0);
        b.store_const(W32, Layer::Data, 0, 0x0202_0202_u32);
        b.store_const(W16, Layer::Data, 4, 0x0202_u16);
        b.store_const(W32, Layer::Data, 6, 0x0404_0404_u32);
        b.store_const(W16, Layer::Data, 10, 0x0404_u16);
        b.store_const(W16, Layer::Data, 12, 0x0800_u16);
    })
}

/// Strip, check, decrement, mark, encapsulate.
pub fn router() -> Program {
    let elements =
        [strip(), check_ip_header(), get_ip_address(), dec_ip_ttl("ttl"), set_dscp(), ether_encap()];
    chain(&elements)
}

/// Two routers one behind the other.
pub fn two_routers() -> Program {
    let first = [strip(), check_ip_header(), dec_ip_ttl("ttl"), ether_encap()];
    let mut second = [strip(), check_ip_header(), dec_ip_ttl("ttl2"), ether_encap()];
    for p in &mut second {
        p.elements[0].push('b');
    }
    chain(&[&first[..], &second[..]].concat())
}

/// A classifier whose rules are tried in order: protocol, source prefix, destination port.
pub fn classifier(rules: u32) -> Program {
    chain(&[element("classifier", |b| {
        for i in 0..rules {
            b.require(Layer::Data, 24, Reason::NO_MATCH);
            let proto = b.load(W8, Layer::Data, 9);
            let is = b.eq(proto, if i % 3 == 0 { 6_u8 } else { 17 });
            b.when(is, |b| {
                let src = b.load(W32, Layer::Data, 12);
                let prefix = b.and(src, 0xffff_ff00_u32);
                let is = b.eq(prefix, 0x0a00_0000 + (i << 8));
                b.when(is, |b| {
                    let port = b.load(W16, Layer::Data, 22);
                    let is = b.le(port, 1000 + i);
                    b.when(is, |b| if i % 2 == 0 { b.drop(Reason::DENIED) } else { b.emit(0) });
                });
            });
        }
    })])
}
