//! Values and packets.

use weir_ir::program::BinOp;
use weir_ir::{Builder, Layer, MetaField, Reason, Width, Width::*};
use weir_jit::differential::{Seen, Step, assert_same};
use weir_packet::{Checksum, Packet};

use crate::programs::{drops, exits, frame, one};

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
    assert!(exits(&seen) > 0 && drops(&seen, &Reason::NO_SPACE) > 0 && drops(&seen, &Reason::TRUNCATED) > 0);
}

#[test]
fn what_is_pushed_is_zero_where_it_is_not_written() {
    // Which bytes are written first, by numbers of 8, 4 or 2 bytes, and whether one is read before.
    let ways: [(&[(u32, Width)], bool); 7] = [
        (&[], false),
        (&[(0, W64), (6, W64)], false),
        (&[(0, W64), (6, W64)], true),
        (&[(0, W64), (8, W32)], false),
        (&[(2, W64), (10, W32)], false),
        (&[(0, W64), (9, W32)], false),
        (&[(6, W64), (0, W64)], false),
    ];
    for (written, reads) in ways {
        let program = one(1, |b, event| {
            b.require(Layer::Data, 20, Reason::TRUNCATED);
            // Its bytes stay in front of the packet. How many is not known, so the passes leave it.
            let n = b.load(W8, Layer::Data, 19);
            let n = b.and(n, 31);
            let n = b.resize(W32, n);
            b.require(Layer::Data, n, Reason::TRUNCATED);
            b.pull(n);
            b.push(14);
            if reads {
                let read = b.load(W16, Layer::Data, 3);
                b.notify(event, &[read]);
            }
            for &(off, width) in written {
                let v = b.constant(width, 0x0102_0304_0506_0708_u64 & width.max() as u64);
                b.store(Layer::Data, off, v);
            }
            b.emit(0);
        });
        let steps = [Step::packet(0, &[0xff; 40], 0), Step::packet(0, &[0xee; 20], 0)];
        // Only passes put what follows into the block that the push leads to.
        for program in [&program, &weir_ir::optimize(program.clone())] {
            assert_eq!(exits(&assert_same(program, 0, &steps)), 2);
        }
    }
}

#[test]
fn checksums_that_are_all_ones_and_nearly() {
    let program = one(3, |b, event| {
        b.require(Layer::Data, 21, Reason::TRUNCATED);
        let sums =
            [b.checksum(Layer::Data, 0, 20), b.checksum(Layer::Data, 1, 4), b.checksum(Layer::Data, 0, 21)];
        let is = sums.map(|sum| b.eq(sum, 0xffff));
        let near = sums.map(|sum| b.eq(sum, 0xfffe));
        let all = b.constant(W16, 0xffff_u16);
        let is_not = sums.map(|sum| b.ne(all, sum));
        b.notify(event, &[is, near, is_not].concat());
        b.if_else(is[0], |b| b.emit(1), |b| b.emit(2));
    });
    let words = [[0, 0], [0, 1], [0xff, 0xfe], [0xff, 0xff], [0x80, 0]];
    let steps: Vec<Step> = (0..5_usize.pow(4))
        .map(|n| {
            let mut bytes = [0; 21];
            for (i, at) in [0, 6, 16, 18].into_iter().enumerate() {
                bytes[at..at + 2].copy_from_slice(&words[n / 5_usize.pow(i as u32) % 5]);
            }
            Step::packet(0, &bytes, 0)
        })
        .collect();
    assert_eq!(exits(&assert_same(&program, 0, &steps)), steps.len());
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
