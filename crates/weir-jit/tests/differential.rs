//! Every operation and every end, interpreted and compiled.

mod programs;

use programs::{frame, one};
use weir_ir::program::{
    BinOp, Block, BlockId, CmpOp, End, Entry, EntryKind, Op, Program, Target, Type, Value,
};
use weir_ir::{Builder, Layer, MetaField, Reason, TableDecl, Width, Width::*, Wire, link};
use weir_jit::differential::{Recorder, Seen, Step, assert_same, tables_of};
use weir_jit::{Compiled, JitError, Runner};
use weir_packet::{Checksum, Packet};
use weir_table::{KeyMatch, Kind, Row};

fn exits(seen: &[Vec<Seen>]) -> usize {
    seen.iter().flatten().filter(|s| matches!(s, Seen::Exit { .. })).count()
}

fn drops(seen: &[Vec<Seen>], reason: &Reason) -> usize {
    seen.iter().flatten().filter(|s| matches!(s, Seen::Dropped { reason: r, .. } if r == reason)).count()
}

/// Numbers at the edges of a width.
fn edges(w: Width) -> Vec<u128> {
    let half = 1u128 << (w.bits() - 1);
    let mut list: Vec<u128> = [0, 1, 2, 3, 7, 8, 9, 15, 31, 32, 63, 64, 65, 127, 128, 129, half - 1, half]
        .into_iter()
        .chain([half + 1, w.max() - 1, w.max(), w.max() / 3, 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978])
        .map(|v| v & w.max())
        .collect();
    list.sort_unstable();
    list.dedup();
    list
}

#[test]
fn arithmetic_in_every_width_at_the_edges() {
    use BinOp::{Add, And, Mul, Or, Rem, Shl, Shr, Sub, Xor};
    for w in Width::ALL {
        // The operands come with a message, so that the compiler cannot fold them; another message has constants.
        let mut b = Builder::new("Arith", 0, 0);
        let event = b.event("results");
        b.message("do", &[w, w], |b, args| {
            let (x, y) = (args[0], args[1]);
            let mut out = vec![x, y];
            for op in [Add, Sub, Mul, Rem, And, Or, Xor, Shl, Shr] {
                out.push(match op {
                    Add => b.add(x, y),
                    Sub => b.sub(x, y),
                    Mul => b.mul(x, y),
                    Rem => b.rem(x, y),
                    And => b.and(x, y),
                    Or => b.or(x, y),
                    Xor => b.xor(x, y),
                    Shl => b.shl(x, y),
                    Shr => b.shr(x, y),
                });
            }
            let less = b.lt(x, y);
            out.extend([b.eq(x, y), b.ne(x, y), less, b.le(x, y), b.not(x), b.select(less, x, y)]);
            for to in Width::ALL {
                out.push(b.resize(to, x));
            }
            out.push(b.hash(&[x, y]));
            b.notify(event, &out);
        });
        let program = b.finish();
        let mut steps = Vec::new();
        for x in edges(w) {
            for y in edges(w) {
                steps.push(Step::Message { owner: 0, name: "do".into(), args: vec![x, y], now: 0 });
            }
        }
        let seen = assert_same(&program, 7, &steps);
        assert_eq!(seen.iter().flatten().count(), steps.len());
    }
}

#[test]
fn arithmetic_on_constants_is_folded_right() {
    for w in Width::ALL {
        let mut b = Builder::new("Folded", 0, 0);
        let event = b.event("results");
        b.message("do", &[], |b, _| {
            for x in edges(w) {
                for y in [0, 1, u128::from(w.bits()) - 1, u128::from(w.bits()), w.max()] {
                    let y = y & w.max();
                    let x = b.constant(w, x);
                    let out = [b.add(x, y), b.sub(x, y), b.mul(x, y), b.rem(x, y), b.shl(x, y), b.shr(x, y)];
                    b.notify(event, &out);
                    let out = [b.lt(x, y), b.le(x, y), b.eq(x, y)];
                    b.notify(event, &out);
                }
            }
        });
        assert_same(&b.finish(), 0, &[Step::Message { owner: 0, name: "do".into(), args: vec![], now: 0 }]);
    }
}

#[test]
fn sums_of_16_bits_carry_around() {
    let mut b = Builder::new("Sum", 0, 0);
    let event = b.event("sum");
    b.message("do", &[W16, W16], |b, a| {
        let sum = b.sum16(a[0], a[1]);
        b.notify(event, &[sum]);
    });
    let program = b.finish();
    let values = [0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff];
    let steps: Vec<Step> = (values.iter())
        .flat_map(|&a| {
            values.map(|b| Step::Message { owner: 0, name: "do".into(), args: vec![a, b], now: 0 })
        })
        .collect();
    let seen = assert_same(&program, 0, &steps);
    assert!(seen.iter().flatten().any(|s| matches!(s, Seen::Notify { args, .. } if args == &[0xffff])));
}

#[test]
fn loads_and_stores_of_every_width() {
    let program = one(2, |b, event| {
        b.require(Layer::Data, 64, Reason::TRUNCATED);
        b.set_mark(Layer::Net, Layer::Data, 14);
        let mut out = Vec::new();
        for w in [W8, W16, W32, W64, W128] {
            let v = b.load(w, Layer::Net, 3);
            out.push(v);
            let changed = b.not(v);
            b.store(Layer::Data, w.bytes() * 2 - 1, changed);
            out.push(b.load(w, Layer::Data, 5));
        }
        for w in Width::ALL {
            let v = b.load_anno(w, 48 - w.bytes());
            out.push(v);
            let v = b.not(v);
            b.store_anno(w.bytes() - 1, v);
            out.push(b.load_anno(w, 1));
        }
        b.notify_packet(event, &out);
        b.emit(1);
    });
    let mut packet = Packet::from_bytes(&frame(80)).unwrap();
    for (i, a) in packet.anno.iter_mut().enumerate() {
        *a = (i * 37 + 3) as u8;
    }
    let steps = [Step::Packet { owner: 0, port: 0, packet, now: 5 }, Step::packet(0, &frame(63), 5)];
    let seen = assert_same(&program, 1, &steps);
    assert_eq!((exits(&seen), drops(&seen, &Reason::TRUNCATED)), (1, 1));
}

#[test]
fn metadata_marks_and_distances() {
    let program = one(1, |b, event| {
        let mut out: Vec<_> = MetaField::ALL.into_iter().map(|f| b.load_meta(f)).collect();
        for field in MetaField::ALL {
            let v = b.load_meta(field);
            let v = b.add(v, 1);
            b.store_meta(field, v);
            out.push(b.load_meta(field));
        }
        let layers = Layer::ALL;
        let mut see = |b: &mut Builder| {
            for a in layers {
                out.push(b.rest(a));
                for c in layers {
                    out.push(b.distance(a, c));
                }
            }
        };
        see(b);
        b.require(Layer::Data, 40, Reason::TRUNCATED);
        b.set_mark(Layer::Mac, Layer::Data, 0);
        b.set_mark(Layer::Net, Layer::Data, 40);
        b.set_mark(Layer::Cursor, Layer::Mac, 20);
        b.pull(30);
        see(b);
        b.set_mark(Layer::Cursor, Layer::Cursor, 3);
        let four = b.constant(W32, 4u32);
        b.trim(four);
        see(b);
        b.clear_mark(Layer::Mac);
        see(b);
        b.notify_packet(event, &out);
        b.emit(0);
    });
    for csum in [Checksum::Unknown, Checksum::Full, Checksum::Partial] {
        let mut packet = Packet::from_bytes(&frame(60)).unwrap();
        (packet.csum, packet.timestamp, packet.hash, packet.in_port, packet.packet_type) =
            (csum as u8, 9, 8, 7, 3);
        assert_eq!(
            exits(&assert_same(&program, 0, &[Step::Packet { owner: 0, port: 0, packet, now: 0 }])),
            1
        );
    }
    // Writing `Partial` is ignored.
    let program = one(1, |b, _| {
        let v = b.constant(W8, 2u8);
        b.store_meta(MetaField::Checksum, v);
        b.emit(0);
    });
    let seen = assert_same(&program, 0, &[Step::packet(0, &[], 0)]);
    assert!(matches!(&seen[0][0], Seen::Exit { packet, .. } if packet.csum == 0));
}

#[test]
fn ranges_short_and_long() {
    let program = one(1, |b, event| {
        b.require(Layer::Data, 200, Reason::TRUNCATED);
        let byte = b.load(W8, Layer::Data, 0);
        let len = b.rest(Layer::Data);
        b.require(Layer::Data, len, Reason::TRUNCATED);
        let mut out = Vec::new();
        for (start, end) in [(0, 0), (1, 2), (1, 3), (0, 20), (3, 64), (2, 66), (0, 65), (5, 200), (9, 3)] {
            out.push(b.checksum(Layer::Data, start, end));
            out.push(b.find_byte(Layer::Data, start, end, byte));
        }
        for start in [0, 1, 150, 5000] {
            out.push(b.checksum(Layer::Data, start, len));
            out.push(b.find_byte(Layer::Data, start, len, byte));
        }
        for len in [0, 1, 2, 3, 4, 7, 8, 15, 31, 64, 65, 90] {
            out.push(b.compare_bytes((Layer::Data, 1), (Layer::Data, 101), len));
            out.push(b.compare_bytes((Layer::Data, 2), (Layer::Data, 3), len));
            b.copy_bytes((Layer::Data, 9), (Layer::Data, 4), len);
            b.copy_bytes((Layer::Data, 60), (Layer::Data, 64), len);
        }
        b.notify_packet(event, &out);
        b.emit(0);
    });
    let mut twice = frame(100);
    twice.extend(frame(100));
    let steps = [
        Step::packet(0, &frame(200), 0),
        Step::packet(0, &twice, 0),
        Step::packet(0, &[0; 200], 0),
        Step::packet(0, &[0xff; 201], 0),
        Step::packet(0, &frame(1501), 0),
        Step::packet(0, &frame(60_001), 0),
    ];
    assert_eq!(exits(&assert_same(&program, 0, &steps)), 6);
}

#[test]
fn growing_and_shrinking() {
    let program = one(1, |b, event| {
        b.require(Layer::Data, 14, Reason::TRUNCATED);
        b.set_mark(Layer::Net, Layer::Data, 14);
        let n = b.load(W8, Layer::Data, 0);
        let n = b.resize(W32, n);
        b.pull(14);
        b.unpull(4u32);
        b.push(n);
        b.push(60);
        b.put(n);
        b.put(7);
        let len = b.len();
        b.notify_packet(event, &[len]);
        let short = b.sub(len, 3);
        b.trim(short);
        b.trim(len);
        b.require(Layer::Data, n, Reason::TRUNCATED);
        b.pull(n);
        b.unpull(n);
        let most = b.eq(n, 255);
        b.when(most, |b| b.unpull(200));
        b.emit(0);
    });
    let mut steps = Vec::new();
    for first in [0, 1, 100, 200, 255] {
        for len in [13, 14, 60, 1500, 1700, 65_000] {
            let mut bytes = frame(len);
            bytes[0] = first;
            steps.push(Step::packet(0, &bytes, 0));
        }
    }
    let seen = assert_same(&program, 0, &steps);
    assert!(exits(&seen) > 0 && drops(&seen, &Reason::NO_ROOM) > 0 && drops(&seen, &Reason::TRUNCATED) > 0);
}

#[test]
fn requires_of_values_and_of_missing_marks() {
    let program = one(2, |b, _| {
        b.require(Layer::Data, 5, Reason::TRUNCATED);
        let n = b.load(W32, Layer::Data, 1);
        b.if_has(Layer::Transport, 0, |b| b.drop(Reason::DENIED), |_| {});
        b.if_has(
            Layer::Data,
            n,
            |b| {
                b.set_mark(Layer::Transport, Layer::Data, n);
                b.if_has(Layer::Transport, 1, |b| b.emit(0), |b| b.emit(1));
            },
            |b| b.drop(Reason::BAD_HEADER),
        );
    });
    let packet = |n: u32| {
        let mut bytes = frame(40);
        bytes[1..5].copy_from_slice(&n.to_be_bytes());
        Step::packet(0, &bytes, 0)
    };
    let steps: Vec<Step> = [0, 5, 39, 40, 41, u32::MAX, u32::MAX - 127, 0x8000_0000].map(packet).into();
    let seen = assert_same(&program, 0, &steps);
    assert_eq!((exits(&seen), drops(&seen, &Reason::BAD_HEADER)), (4, 4));
}

#[test]
fn loops_count_their_rounds() {
    let program = one(2, |b, event| {
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        let want = b.load(W8, Layer::Data, 0);
        let zero = b.constant(W8, 0u8);
        let wide = b.constant(W128, 1u8);
        let outer = b.repeat(3, &[zero, zero, wide], |b, outer, v| {
            let (round, total, wide) = (v[0], v[1], v[2]);
            let inner = b.repeat(10, &[zero, total], |b, inner, v| {
                let done = b.eq(v[0], want);
                b.when(done, |b| inner.leave(b, v));
                let (i, total) = (b.add(v[0], 1), b.add(v[1], 1));
                inner.next(b, &[i, total]);
            });
            let round = b.add(round, 1);
            let wide = b.mul(wide, 0x1_0000_0001u64);
            // Arguments that change places.
            let (x, y) = (inner[1], round);
            outer.next(b, &[y, x, wide]);
        });
        b.notify(event, &outer);
        b.emit(1);
    });
    let steps: Vec<Step> = [0, 1, 9, 10, 11, 200].map(|n| Step::packet(0, &[n], 0)).into();
    let seen = assert_same(&program, 0, &steps);
    assert!(matches!(&seen[5][0], Seen::Notify { args, .. } if args[..2] == [3, 30]));
}

#[test]
fn switches_with_equal_cases_and_arguments() {
    let values = [0, 1, 2, 3, 4, 200, 255, 1 << 40, u128::MAX];
    for w in Width::ALL {
        let mut b = Builder::new("Switch", 0, 0);
        let event = b.event("way");
        let cases: Vec<u128> = values.iter().copied().filter(|v| *v <= w.max()).collect();
        b.message("do", &[w], |b, a| {
            b.switch(a[0], &cases, |b, i| {
                let way = b.constant(W8, i.map_or(99, |i| i as u8));
                b.notify(event, &[way]);
            });
            let (one, two) = (b.constant(W32, 1u8), b.constant(W32, 2u8));
            let low = b.resize(W1, a[0]);
            let v = b.choose(low, |b| b.add(one, 5), |_| two);
            b.notify(event, &[v]);
        });
        let mut program = b.finish();
        // A second case of the same value is never taken.
        for block in &mut program.blocks {
            if let End::Switch { cases, default, .. } = &mut block.end {
                cases.push((cases[0].0, default.clone()));
            }
        }
        let steps: Vec<Step> = values
            .iter()
            .chain(&[5, 77])
            .map(|v| Step::Message { owner: 0, name: "do".into(), args: vec![v & w.max()], now: 0 })
            .collect();
        assert_same(&program, 0, &steps);
    }
}

#[test]
fn other_packets_start_in_order() {
    let program = one(3, |b, event| {
        b.require(Layer::Data, 2, Reason::TRUNCATED);
        let x = b.load(W16, Layer::Data, 0);
        let wide = b.resize(W64, x);
        let bit = b.resize(W1, x);
        let hash = b.hash(&[x]);
        b.fork(|b| {
            b.require(Layer::Data, 2, Reason::TRUNCATED);
            b.store_const(W16, Layer::Data, 0, 7u8);
            b.fork(|b| b.emit(2));
            b.emit(1);
        });
        b.fork_new(&[x, wide, bit, hash], |b, args| {
            b.notify_packet(event, args);
            b.put(9);
            b.fork(|b| b.drop(Reason::CONSUMED));
            b.emit(0);
        });
        b.store_const(W16, Layer::Data, 0, 0xffffu16);
        b.emit(0);
    });
    let seen = assert_same(&program, 3, &[Step::packet(0, &frame(70), 0), Step::packet(0, &frame(1), 0)]);
    assert_eq!((exits(&seen), drops(&seen, &Reason::CONSUMED)), (4, 1));
}

#[test]
fn too_many_packets_are_dropped() {
    // Each round starts two packets; those go on to the next, and so on.
    let program = one(1, |b, _| {
        let zero = b.constant(W8, 0u8);
        b.repeat(5000, &[zero], |b, l, v| {
            b.fork(|b| b.emit(0));
            l.next(b, v);
        });
        b.drop(Reason::CONSUMED);
    });
    let seen = assert_same(&program, 0, &[Step::packet(0, &[1], 0)]);
    assert_eq!((exits(&seen), drops(&seen, &Reason::LOOP_LIMIT)), (4096, 904));
}

#[test]
fn a_packet_that_starts_inside_a_loop_counts_on() {
    // The loop's body starts a packet that goes to the next round: the rounds of all count together.
    let program = one(1, |b, _| {
        b.repeat(20, &[], |b, l, _| {
            b.fork_new(&[], |b, _| {
                b.fork_new(&[], |b, _| l.next(b, &[]));
                l.next(b, &[]);
            });
            b.emit(0);
        });
        b.drop(Reason::CONSUMED);
    });
    let seen = assert_same(&program, 0, &[Step::packet(0, &[1], 0), Step::packet(0, &[1], 0)]);
    assert!(exits(&seen) > 20 && drops(&seen, &Reason::CONSUMED) > 0);
}

#[test]
fn timers_start_packets_from_nothing() {
    let mut b = Builder::new("Source", 0, 1);
    let count = b.cell("count", W64, 5);
    b.timer(1000, |b| {
        let n = b.read_cell(count);
        let n = b.add(n, 1);
        b.write_cell(count, n);
        let (now, random) = (b.now(), b.random());
        b.fork_new(&[n, now, random], |b, v| {
            b.put(20);
            b.require(Layer::Data, 20, Reason::TRUNCATED);
            b.store(Layer::Data, 0, v[0]);
            b.store(Layer::Data, 8, v[1]);
            b.store(Layer::Data, 16, v[2]);
            b.emit(0);
        });
    });
    let steps: Vec<Step> = (1..5).map(|i| Step::Timer { owner: 0, now: i * 1000 }).collect();
    assert_eq!(exits(&assert_same(&b.finish(), 11, &steps)), 4);
}

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
fn linked_cycles_count_hops() {
    let element = |name: &str| {
        let mut b = Builder::new(name, 1, 2);
        let event = b.event("round");
        b.input(0, |b| {
            b.require(Layer::Data, 1, Reason::TRUNCATED);
            let n = b.load(W8, Layer::Data, 0);
            let done = b.eq(n, 0);
            b.when(done, |b| b.emit(1));
            let less = b.sub(n, 1);
            b.store(Layer::Data, 0, less);
            b.notify(event, &[n]);
            b.emit(0);
        });
        b.finish()
    };
    let wire = |e, port| match (e, port) {
        (0, 0) => Some(Wire::Input { element: 1, port: 0 }),
        (1, 0) => Some(Wire::Input { element: 0, port: 0 }),
        (e, 1) => Some(Wire::Exit(e as u32)),
        _ => None,
    };
    let program = link(&[element("a"), element("b")], wire, 2).unwrap();
    let seen =
        assert_same(&program, 0, &[0u8, 1, 2, 127, 128, 129, 130, 255].map(|n| Step::packet(0, &[n], 0)));
    assert!(exits(&seen) > 2 && drops(&seen, &Reason::LOOP_LIMIT) > 0);
}

#[test]
fn blocks_out_of_order_and_out_of_reach() {
    // A loop that is entered from below its header, whose body uses what was computed there; a block that nothing
    // reaches and whose values nothing defines.
    let ty = |w| Type::Int(w);
    let to =
        |b: u32, args: &[u32]| Target { block: BlockId(b), args: args.iter().map(|&v| Value(v)).collect() };
    let block = |params: &[u32], loop_limit, ops: Vec<Op>, end| Block {
        params: params.iter().map(|&v| Value(v)).collect(),
        loop_limit,
        ops,
        end,
        owner: 0,
    };
    let program = Program {
        elements: vec!["x".into()],
        inputs: 1,
        outputs: 1,
        types: vec![ty(W8), ty(W8), ty(W8), ty(W8), ty(W1)],
        events: vec![weir_ir::program::Event { name: "e".into(), owner: 0 }],
        entries: vec![Entry { kind: EntryKind::Packet { port: 0 }, block: BlockId(2), owner: 0 }],
        blocks: vec![
            block(
                &[],
                Some(3),
                vec![
                    Op::Binary { op: BinOp::Add, dst: Value(1), a: Value(0), b: Value(0) },
                    Op::Notify { event: 0, args: vec![Value(1)], packet: false },
                ],
                End::Jump(to(1, &[1])),
            ),
            block(&[2], None, vec![], End::Again { header: to(0, &[]), exit: to(3, &[]) }),
            block(
                &[],
                None,
                vec![Op::Const { dst: Value(0), value: 21 }],
                End::Again { header: to(0, &[]), exit: to(3, &[]) },
            ),
            block(&[], None, vec![], End::Emit { port: 0 }),
            block(
                &[],
                None,
                vec![Op::Compare { op: CmpOp::Eq, dst: Value(4), a: Value(3), b: Value(3) }],
                End::Finish,
            ),
        ],
        ..Program::default()
    };
    let seen = assert_same(&program, 0, &[Step::packet(0, &[], 0)]);
    assert_eq!((exits(&seen), seen[0].len()), (1, 4));
}

#[test]
fn unchecked_programs_are_refused() {
    let program = one(1, |b, _| {
        b.load(W8, Layer::Data, 0);
        b.emit(0);
    });
    let error = Compiled::new(&program).unwrap_err();
    assert!(matches!(&error, JitError::Unchecked(e) if !e.is_empty()));
    assert!(error.to_string().contains("require"), "{error}");
}

#[test]
fn a_batch_is_as_one_at_a_time() {
    let program = one(2, |b, event| {
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        let n = b.load(W8, Layer::Data, 0);
        b.notify_packet(event, &[n]);
        b.fork(|b| b.emit(1));
        b.emit(0);
    });
    let compiled = Compiled::new(&program).unwrap();
    let entry = program.packet_entry(0, 0).unwrap();
    let packets = || (0..50u8).map(|i| Packet::from_bytes(&vec![i; usize::from(i) % 3]).unwrap());
    let mut runner = Runner::default();
    let (mut alone, mut tables) = (Recorder::new(0), tables_of(&program));
    for p in packets() {
        compiled.run(&mut runner, &mut tables, &mut alone, 1, entry, &[], Some(p));
    }
    let (mut together, mut batch) = (Recorder::new(0), packets().collect());
    compiled.run_batch(&mut runner, &mut tables, &mut together, 1, entry, &mut batch);
    assert!(batch.is_empty());
    assert!(!alone.seen.is_empty());
    assert_eq!(alone.seen, together.seen);
}

#[test]
fn threads_share_compiled_code() {
    let program = one(1, |b, _| b.emit(0));
    let compiled = Compiled::new(&program).unwrap();
    let entry = program.packet_entry(0, 0).unwrap();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let (mut runner, mut tables, mut host) =
                    (Runner::default(), tables_of(&program), Recorder::new(0));
                for _ in 0..100 {
                    let p = Packet::from_bytes(&[1, 2]).unwrap();
                    compiled.run(&mut runner, &mut tables, &mut host, 0, entry, &[], Some(p));
                }
                assert_eq!(host.seen.len(), 100);
            });
        }
    });
}

#[test]
#[should_panic(expected = "is no entry")]
fn runs_start_at_entries_only() {
    let program = one(1, |b, _| b.fork(|b| b.emit(0)));
    let fork = program.blocks.iter().find_map(|b| match b.ops.first() {
        Some(Op::Fork { target, .. }) => Some(target.block),
        _ => None,
    });
    let compiled = Compiled::new(&program).unwrap();
    let packet = Packet::from_bytes(&[]).unwrap();
    let (mut tables, mut host) = (tables_of(&program), Recorder::new(0));
    compiled.run(&mut Runner::default(), &mut tables, &mut host, 0, fork.unwrap(), &[], Some(packet));
}

#[test]
fn the_code_can_be_read() {
    let program = one(1, |b, _| b.emit(0));
    let text = weir_jit::disassemble(&program).unwrap();
    assert!(text.contains("ret"), "{text}");
}
