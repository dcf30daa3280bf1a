//! Tables and what they hold.

use weir_ir::{Builder, Layer, Reason, TableDecl, Width, Width::*};
use weir_jit::differential::{Seen, Step, assert_same};
use weir_table::{KeyMatch, Kind, Row};

use crate::programs::{drops, exits};

fn key_fields() -> Vec<(&'static str, Width)> {
    vec![("bit", W1), ("byte", W8), ("word", W16), ("long", W64), ("wide", W128)]
}

fn value_fields() -> Vec<(&'static str, Width)> {
    vec![("vbit", W1), ("vbyte", W8), ("vword", W16), ("vint", W32), ("vlong", W64), ("vwide", W128)]
}

#[test]
fn tables_of_every_kind_and_field() {
    let mut b = Builder::new("Tables", 0, 0);
    let event = b.event("seen");
    let exact = b.table(TableDecl::new("exact", Kind::Exact, &key_fields(), &value_fields(), 3), vec![]);
    let array = b.table(TableDecl::new("array", Kind::Array, &[("i", W16)], &value_fields(), 5), vec![]);
    let prefix = |v: u128, len| Row {
        key: vec![KeyMatch::Prefix(v, len)],
        value: vec![v & 0xff, len.into()],
        priority: 0,
        ttl: None,
    };
    let lpm = b.table(
        TableDecl::new("lpm", Kind::Lpm, &[("addr", W32)], &[("hop", W8), ("len", W32)], 8),
        vec![prefix(0x0a00_0000, 8), prefix(0x0a01_0000, 16), prefix(0, 0)],
    );
    let rule =
        |key: Vec<KeyMatch>, way: u128, priority| Row { key, value: vec![way], priority, ttl: Some(50) };
    let rules = b.table(
        TableDecl::new("rules", Kind::Rules, &[("a", W32), ("b", W16)], &[("way", W8)], 8),
        vec![
            rule(vec![KeyMatch::Mask(0x0a00_0000, 0xff00_0000), KeyMatch::Range(10, 20)], 1, 5),
            rule(vec![KeyMatch::ANY, KeyMatch::Exact(3)], 2, 7),
        ],
    );
    let widths: Vec<Width> = key_fields().iter().map(|f| f.1).collect();
    b.message("add", &widths, |b, key| {
        let e = b.insert(exact, key, |b| {
            let size = b.size(exact);
            b.notify(event, &[size]);
            b.stop();
        });
        for (name, w) in value_fields() {
            let old = b.get(e, name);
            let new = b.resize(w, key[4]);
            let new = b.xor(new, old);
            b.set(e, name, new);
        }
        let mut out: Vec<_> = (0..5).map(|i| b.key(e, i)).collect();
        out.extend(value_fields().iter().map(|f| b.get(e, f.0)));
        out.push(b.size(exact));
        b.notify(event, &out);
        b.touch(e, 100u8);
    });
    b.message("find", &widths, |b, key| {
        b.lookup(
            exact,
            key,
            |b, e| {
                let v = b.get(e, "vwide");
                b.notify(event, &[v]);
                let v = b.add(v, 1);
                b.set(e, "vwide", v);
                b.remove(e);
                // An entry that is gone is read as it was, and not changed.
                let v = b.add(v, 1);
                b.set(e, "vwide", v);
                let v = b.get(e, "vwide");
                b.notify(event, &[v]);
            },
            |b| b.notify(event, &[]),
        );
    });
    b.message("array", &[W16], |b, a| {
        let e = b.find(array, &[a[0]], Builder::stop);
        let i = b.key(e, 0);
        let fixed = b.index(array, 4);
        for (name, w) in value_fields() {
            let v = b.get(e, name);
            let v = b.not(v);
            b.set(fixed, name, v);
            let max = b.constant(w, w.max());
            b.set(e, name, max);
        }
        b.notify(event, &[i]);
    });
    b.message("match", &[W32, W16], |b, a| {
        b.lookup(
            lpm,
            &a[..1],
            |b, e| {
                let out = [b.get(e, "hop"), b.get(e, "len")];
                b.notify(event, &out);
            },
            |_| {},
        );
        b.lookup(
            rules,
            a,
            |b, e| {
                let way = b.get(e, "way");
                b.notify(event, &[way]);
                b.touch(e, 0u8);
            },
            |b| b.notify(event, &[]),
        );
    });
    let program = b.finish();
    let message = |name: &str, args: &[u128], now| Step::Message {
        owner: 0,
        name: name.into(),
        args: args.to_vec(),
        now,
    };
    let key = |i: u128| [i & 1, i, i * 300, u128::from(u64::MAX) - i, u128::MAX - i];
    let mut steps = Vec::new();
    for i in [1, 2, 1, 3, 4] {
        steps.push(message("add", &key(i), 10));
    }
    for i in [1, 4, 1] {
        steps.push(message("find", &key(i), 20));
    }
    steps.push(message("add", &key(5), 30));
    steps.extend([0, 3, 4, 5, 0xffff].map(|i| message("array", &[i], 30)));
    for (a, b) in [(0x0a01_0203, 15), (0x0a02_0000, 3), (0x0b00_0000, 10), (0x0aff_ffff, 20), (0, 21)] {
        steps.push(message("match", &[a, b], 40));
    }
    steps.push(Step::Expire { now: 115 });
    steps.push(Step::Expire { now: 1000 });
    assert_same(&program, 0, &steps);
}

#[test]
fn claims_groups_links_and_expiry() {
    let mut b = Builder::new("Nat", 1, 2);
    let event = b.event("event");
    let out = b.table(
        TableDecl::new("out", Kind::Exact, &[("src", W32)], &[("port", W16), ("group", W8)], 8)
            .grouped_by("group"),
        vec![],
    );
    let back = b.table(
        TableDecl::new("back", Kind::Exact, &[("proto", W8), ("port", W16)], &[("src", W32)], 8),
        vec![],
    );
    b.input(0, |b| {
        b.require(Layer::Data, 5, Reason::TRUNCATED);
        let (src, group) = (b.load(W32, Layer::Data, 0), b.load(W8, Layer::Data, 4));
        let known = b.group_count(out, group);
        let many = b.le(known, 2);
        b.unless(many, |b| b.drop(Reason::DENIED));
        let e = b.insert(out, &[src], |b| b.drop(Reason::FULL));
        b.set(e, "group", group);
        let proto = b.constant(W8, 6u8);
        let (lo, hi, start) = (b.constant(W16, 100u16), b.constant(W16, 103u16), b.resize(W16, src));
        let (r, port) = b.claim(back, &[proto, lo], 1, lo, hi, start, |b| b.drop(Reason::NO_MATCH));
        b.set(e, "port", port);
        b.set(r, "src", src);
        b.link(e, r);
        b.touch(r, 1000u16);
        b.store(Layer::Data, 0, src);
        let n = b.size(back);
        b.notify(event, &[port, known, n]);
        b.emit(1);
    });
    b.expire(out, |b, e| {
        let (src, port) = (b.key(e, 0), b.get(e, "port"));
        b.notify(event, &[src, port]);
        let again = b.eq(port, 101);
        b.when(again, |b| b.touch(e, 500u16));
    });
    b.message("forget", &[W32], |b, a| {
        let e = b.find(out, &[a[0]], Builder::stop);
        b.remove(e);
    });
    let program = b.finish();
    let packet = |src: u32, group: u8, now| {
        let mut bytes = src.to_be_bytes().to_vec();
        bytes.push(group);
        Step::packet(0, &bytes, now)
    };
    let mut steps: Vec<Step> = (0..5).map(|i| packet(i * 7, (i % 2) as u8, 10 + u64::from(i))).collect();
    steps.push(Step::Message { owner: 0, name: "forget".into(), args: vec![7], now: 20 });
    steps.extend((5..9).map(|i| packet(i, 0, 30)));
    steps.push(Step::Expire { now: 1012 });
    steps.push(packet(50, 9, 1013));
    steps.push(Step::Expire { now: 1512 });
    steps.push(Step::Expire { now: 9999 });
    let seen = assert_same(&program, 0, &steps);
    assert!(drops(&seen, &Reason::NO_MATCH) > 0 && drops(&seen, &Reason::DENIED) > 0 && exits(&seen) > 4);
}

#[test]
fn an_entry_of_a_small_table_lives_as_long_as_its_last_packet_says() {
    let mut b = Builder::new("Exact", 1, 1);
    let event = b.event("gone");
    let table = b.table(TableDecl::new("seen", Kind::Exact, &[("addr", W8)], &[], 8), vec![]);
    b.input(0, |b| {
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        let addr = b.load(W8, Layer::Data, 0);
        let e = b.insert(table, &[addr], |b| b.drop(Reason::FULL));
        b.touch(e, 6400_u16);
        b.emit(0);
    });
    b.expire(table, |b, e| {
        let addr = b.key(e, 0);
        b.notify(event, &[addr]);
    });
    let packet = |now| Step::packet(0, &[7], now);
    let steps = [packet(1), packet(51), packet(53), Step::Expire { now: 6452 }, Step::Expire { now: 6453 }];
    let seen = assert_same(&b.finish(), 0, &steps);
    let last = &seen[seen.len() - 2..];
    assert!(last[0].is_empty() && !last[1].is_empty(), "{last:?}");
}

#[test]
fn held_packets_are_released_or_orphaned() {
    let mut b = Builder::new("Arp", 1, 2);
    let table =
        b.table(TableDecl::new("waiting", Kind::Exact, &[("addr", W8)], &[("n", W8)], 4).holding(2), vec![]);
    b.input(0, |b| {
        b.require(Layer::Data, 2, Reason::TRUNCATED);
        let (addr, what) = (b.load(W8, Layer::Data, 0), b.load(W8, Layer::Data, 1));
        let e = b.insert(table, &[addr], |b| b.drop(Reason::FULL));
        let answer = b.eq(what, 1);
        b.when(answer, |b| {
            b.release(e, &[addr], |b, a| {
                b.store_anno(3, a[0]);
                b.push(14);
                b.emit(0);
            });
            b.drop(Reason::CONSUMED);
        });
        let forget = b.eq(what, 2);
        b.when(forget, |b| {
            b.remove(e);
            b.drop(Reason::CONSUMED);
        });
        b.touch(e, 100u8);
        b.hold(e, |b| b.emit(1));
    });
    let program = b.finish();
    let packet = |addr: u8, what: u8, now| Step::packet(0, &[addr, what, 5, 6], now);
    let steps = [
        packet(1, 0, 1),
        packet(1, 0, 2),
        packet(1, 0, 3),
        packet(2, 0, 4),
        packet(1, 1, 5),
        packet(1, 1, 6),
        packet(2, 2, 7),
        packet(3, 0, 8),
        Step::Expire { now: 200 },
    ];
    let seen = assert_same(&program, 0, &steps);
    assert_eq!(exits(&seen), 3);
    assert_eq!(seen.iter().flatten().filter(|s| matches!(s, Seen::Orphaned { .. })).count(), 2);
}

#[test]
fn meters_allow_a_rate() {
    let mut b = Builder::new("Meter", 1, 2);
    let cell = b.cell("bucket", W128, 0);
    b.input(0, |b| {
        let e = b.index(cell, 0);
        let cost = [b.constant(W64, 1u8), b.constant(W64, 10u8), b.constant(W64, 5u8)];
        b.meter(e, "value", cost, |b| b.emit(0), |b| b.emit(1));
    });
    let steps: Vec<Step> = (0..40).map(|i| Step::packet(0, &[1], 1_000_000_000 + i * 50_000_000)).collect();
    let seen = assert_same(&b.finish(), 0, &steps);
    let over = seen.iter().flatten().filter(|s| matches!(s, Seen::Exit { port: 1, .. })).count();
    assert!(over > 5 && over < 35);
}

#[test]
fn a_cell_that_a_packet_changes_is_read_again() {
    let mut b = Builder::new("Cell", 1, 1);
    let event = b.event("seen");
    let cell = b.cell("last", W16, 7);
    b.input(0, |b| {
        b.require(Layer::Data, 2, Reason::TRUNCATED);
        let e = b.index(cell, 0);
        let before = b.get(e, "value");
        let new = b.load(W16, Layer::Data, 0);
        b.set(e, "value", new);
        let after = b.get(e, "value");
        b.notify(event, &[before, after]);
        b.emit(0);
    });
    let program = b.finish();
    let steps: Vec<Step> = (0..4).map(|i| Step::packet(0, &[1, i], 0)).collect();
    for program in [&program, &weir_ir::optimize(program.clone())] {
        assert_eq!(exits(&assert_same(program, 0, &steps)), 4);
    }
}
