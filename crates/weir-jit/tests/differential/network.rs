//! Numbers that pass between packets and tables in network byte order, several at a time where they are neighbours.

use weir_ir::{Builder, Layer, Program, Reason, TableDecl, Width::*};
use weir_jit::differential::{Step, assert_same};
use weir_table::Kind;

use crate::programs::{exits, one};

/// Rewrites four numbers of a packet by a table, which the first packet with a key fills.
fn rewriter(disturbed: bool) -> Program {
    let mut b = Builder::new("Rewriter", 1, 3);
    let event = b.event("seen");
    let key = [("proto", W8), ("src", W32), ("sport", W16), ("dst", W32), ("dport", W16), ("wide", W128)];
    let value = [("src2", W32), ("sport2", W16), ("dst2", W32), ("dport2", W16), ("sum", W16), ("n", W64)];
    let flows = b.table(TableDecl::new("flows", Kind::Exact, &key, &value, 64), vec![]);
    b.input(0, |b| {
        b.require(Layer::Data, 48, Reason::TRUNCATED);
        let src = b.load(W32, Layer::Data, 12);
        let sport = b.load(W16, Layer::Data, 20);
        let dst = b.load(W32, Layer::Data, 16);
        if disturbed {
            // What is read behind a store may not be read before it.
            let other = b.load(W8, Layer::Data, 0);
            b.store(Layer::Data, 22, other);
        }
        let dport = b.load(W16, Layer::Data, 22);
        let (proto, wide) = (b.load(W8, Layer::Data, 9), b.load(W128, Layer::Data, 24));
        let key = [proto, src, sport, dst, dport, wide];
        let flow = b.find(flows, &key, |b| {
            let e = b.insert(flows, &key, |b| b.drop(Reason::FULL));
            for (name, v) in [("src2", dst), ("sport2", dport), ("dst2", src), ("dport2", sport)] {
                b.set(e, name, v);
            }
            let flipped = b.not(dport);
            let sum = b.sum16(sport, flipped);
            b.set(e, "sum", sum);
            b.emit(0);
        });
        let (new_src, new_sport) = (b.get(flow, "src2"), b.get(flow, "sport2"));
        let (new_dst, new_dport) = (b.get(flow, "dst2"), b.get(flow, "dport2"));
        b.store(Layer::Data, 12, new_src);
        b.store(Layer::Data, 16, new_dst);
        // These two are not in the order in which they were read.
        b.store(Layer::Data, 20, new_dport);
        b.store(Layer::Data, 22, new_sport);
        b.store_anno(0, new_dst);
        let old = b.load(W16, Layer::Data, 10);
        let change = b.get(flow, "sum");
        let old = b.not(old);
        let sum = b.sum16(old, change);
        let more = b.sum16(sum, new_sport);
        let more = b.sum16(more, sum);
        let sum = b.not(more);
        let is_zero = b.eq(sum, 0);
        let ones = b.constant(W16, 0xffff_u16);
        let sum = b.select(is_zero, ones, sum);
        b.store(Layer::Data, 10, sum);
        let (key_src, key_wide) = (b.key(flow, 1), b.key(flow, 5));
        let less = b.lt(new_src, key_src);
        let same = b.eq(new_src, key_src);
        let mixed = b.xor(new_src, key_src);
        let mixed = b.and(mixed, 0x00ff_00f0_u32);
        let n = b.get(flow, "n");
        let n = b.add(n, 1);
        b.set(flow, "n", n);
        b.notify(event, &[less, same, mixed, key_wide, new_dst, new_dport, sum, n]);
        b.switch(new_sport, &[0x0102, 0x0201, 0x0102], |b, case| b.emit(case.map_or(2, |i| i as u32 % 2)));
    });
    b.finish()
}

fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for i in 0..600_u32 {
        let mut bytes: Vec<u8> = (0..48).map(|k| (k * 7) as u8).collect();
        // A hundred keys for a table of 64: some find it full, and many a cell of another.
        let flow = (i * 37 % 100) as u8;
        bytes[14] = flow;
        bytes[19] = flow.wrapping_mul(3);
        let ports = if flow.is_multiple_of(3) { [1, 2, 1, 2] } else { [0, flow, 2, 1] };
        bytes[20..24].copy_from_slice(&ports);
        bytes[10..12].copy_from_slice(&[(i % 3 * 255 / 2) as u8, i as u8]);
        steps.push(Step::packet(0, &bytes, u64::from(i)));
    }
    steps
}

#[test]
fn numbers_pass_as_they_are() {
    for disturbed in [false, true] {
        let program = rewriter(disturbed);
        let seen = assert_same(&program, 5, &steps());
        assert!(exits(&seen) > 300, "{} of 600 packets leave", exits(&seen));
        let optimised = weir_ir::optimize(program);
        assert_eq!(assert_same(&optimised, 5, &steps()).len(), seen.len());
    }
}

#[test]
fn a_checksum_that_changes_by_a_constant() {
    const CHANGES: [u16; 6] = [0, 1, 0xfeff, 0x0100, 0xfffe, 0xffff];
    let program = one(1, |b, _| {
        b.require(Layer::Data, 2 * CHANGES.len() as u32, Reason::TRUNCATED);
        for (i, change) in (0..).zip(CHANGES) {
            let old = b.load(W16, Layer::Data, 2 * i);
            let sum = b.not(old);
            let change = b.constant(W16, change);
            let sum = if i % 2 == 0 { b.sum16(sum, change) } else { b.sum16(change, sum) };
            let new = b.not(sum);
            b.store(Layer::Data, 2 * i, new);
        }
        b.emit(0);
    });
    let words = CHANGES.iter().flat_map(|&c| [c.wrapping_sub(1), c, c.wrapping_add(1), !c]);
    let steps = words.map(|w| Step::packet(0, &w.to_be_bytes().repeat(CHANGES.len()), 0));
    assert_eq!(exits(&assert_same(&program, 0, &steps.collect::<Vec<_>>())), 24);
}

#[test]
fn a_choice_of_a_packets_number_or_a_rows() {
    let mut b = Builder::new("x", 1, 1);
    let gateway = TableDecl::new("gateway", Kind::Array, &[("index", W8)], &[("addr", W32)], 256);
    let gateway = b.table(gateway, vec![]);
    let event = b.event("seen");
    b.input(0, |b| {
        b.require(Layer::Data, 8, Reason::TRUNCATED);
        let (at, dst) = (b.load(W8, Layer::Data, 0), b.load(W32, Layer::Data, 4));
        let row = b.find(gateway, &[at], |b| b.drop(Reason::NO_MATCH));
        let own = b.get(row, "addr");
        let none = b.eq(own, 0);
        let (next, other) = (b.select(none, dst, own), b.select(none, own, dst));
        b.store_anno(0, next);
        b.notify(event, &[next, other]);
        b.set(row, "addr", other);
        b.emit(0);
    });
    let step = |i: u8| Step::packet(0, &[i % 3, 0, 0, 0, 1, 2, i % 2, i], 0);
    let steps: Vec<Step> = (0..24).map(step).collect();
    assert_eq!(exits(&assert_same(&b.finish(), 0, &steps)), 24);
}
