//! Ways that packets take once a key, which are functions of their own; and numbers of 128 bits.

use weir_ir::{Builder, Layer, Reason, TableDecl, Width::*};
use weir_jit::differential::{Step, assert_same};
use weir_table::Kind;

use crate::programs::{drops, exits, one};

#[test]
fn what_a_new_key_needs_is_what_was_before() {
    let program = one(2, |b, event| {
        let value = [("first", W128), ("at", W64)];
        let known = b.table(TableDecl::new("known", Kind::Exact, &[("key", W16)], &value, 4), vec![]);
        b.require(Layer::Data, 32, Reason::TRUNCATED);
        b.set_mark(Layer::Net, Layer::Data, 14);
        let all = [W8, W16, W32, W64, W128].map(|w| b.load(w, Layer::Data, w.bytes()));
        let bit = b.ne(all[0], 9);
        let key = b.load(W16, Layer::Net, 2);
        let sum = b.sum16(all[1], key);
        let turned = b.xor(all[4], u128::MAX / 7);
        let count = b.live("count", W32, 0);
        b.lookup(
            known,
            &[key],
            |b, e| {
                let first = b.get(e, "first");
                b.store(Layer::Net, 0, first);
            },
            |b| {
                let n = b.read_cell(count);
                let n = b.add(n, 1);
                b.write_cell(count, n);
                let e = b.insert(known, &[key], |b| {
                    b.notify_packet(event, &[sum, turned]);
                    b.drop(Reason::new("Full"));
                });
                b.set(e, "first", turned);
                b.set(e, "at", all[3]);
                let by_chance = b.random();
                b.notify(event, &[by_chance, all[0], all[1], all[2], all[3], all[4], bit, sum, turned]);
                b.fork(|b| b.emit(1));
                b.store(Layer::Net, 0, all[4]);
            },
        );
        b.notify(event, &[sum, bit, turned]);
        b.store(Layer::Net, 16, sum);
        b.emit(0);
    });
    let frame = |key: u8| (0..40).map(|i| if i == 17 { key } else { 3 * i }).collect::<Vec<u8>>();
    let keys = [1, 1, 2, 3, 2, 4, 5, 1, 6, 4];
    let steps: Vec<Step> =
        keys.into_iter().zip(1..).map(|(k, now)| Step::packet(0, &frame(k), now)).collect();
    let seen = assert_same(&program, 5, &steps);
    assert_eq!((exits(&seen), drops(&seen, &Reason::new("Full"))), (8 + 4, 2));
}

#[test]
fn a_packet_that_moves_for_a_new_key_is_found_again() {
    let program = one(1, |b, event| {
        let known = b.table(TableDecl::new("known", Kind::Exact, &[("key", W8)], &[("n", W32)], 9), vec![]);
        b.require(Layer::Data, 24, Reason::TRUNCATED);
        b.set_mark(Layer::Net, Layer::Data, 4);
        let key = b.load(W8, Layer::Net, 0);
        b.lookup(
            known,
            &[key],
            |b, e| b.touch(e, 10u8),
            |b| {
                b.insert(known, &[key], |b| b.drop(Reason::new("Full")));
                b.push(200);
                b.set_mark(Layer::Net, Layer::Data, 0);
                let sign = b.constant(W32, 0xfeed_0123_u32);
                b.store(Layer::Net, 0, sign);
            },
        );
        b.require(Layer::Net, 4, Reason::TRUNCATED);
        let there = b.load(W32, Layer::Net, 0);
        b.notify_packet(event, &[there]);
        b.emit(0);
    });
    let steps: Vec<Step> =
        (0..12u8).map(|i| Step::packet(0, &[i % 4 + 1; 60], u64::from(i) * 4 + 1)).collect();
    assert_eq!(exits(&assert_same(&program, 5, &steps)), 12);
}

#[test]
fn wide_numbers_are_shifted_by_constants() {
    let mut b = Builder::new("Wide", 0, 0);
    let event = b.event("seen");
    b.message("do", &[W128, W128, W32, W64], |b, a| {
        let mut out = Vec::new();
        for by in [0_u8, 1, 8, 63, 64, 65, 100, 127, 128, 200] {
            out.extend([b.shl(a[0], by), b.shr(a[0], by)]);
        }
        for narrow in [a[2], a[3]] {
            let wide = b.resize(W128, narrow);
            let high = b.shl(wide, 80u8);
            let both = b.or(high, a[1]);
            let part = b.shr(both, 72u8);
            out.extend([both, b.resize(W64, part), b.resize(W16, both), b.resize(W1, part), b.not(both)]);
        }
        let less = b.lt(a[0], a[1]);
        let chosen = b.select(less, out[3], a[1]);
        out.extend([chosen, b.and(chosen, a[0]), b.xor(chosen, a[1]), b.hash(&[chosen, a[2]])]);
        out.into_iter().for_each(|v| b.notify(event, &[v]));
    });
    let program = b.finish();
    let some = [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_1122_3344_5566_7788, 1 << 127, 1 << 64];
    let steps: Vec<Step> = some
        .into_iter()
        .flat_map(|x| some.map(|y| vec![x, y, (x ^ y) as u32 as u128, (x >> 3) as u64 as u128]))
        .map(|args| Step::Message { owner: 0, name: "do".into(), args, now: 1 })
        .collect();
    let seen = assert_same(&program, 1, &steps);
    assert!(seen.iter().all(|s| s.len() == 34));
}
