//! Ways through a program, and packets that start others.

use weir_ir::program::{
    BinOp, Block, BlockId, CmpOp, End, Entry, EntryKind, Event, Op, Program, Target, Type, Value,
};
use weir_ir::{Builder, Layer, Reason, Width, Width::*, Wire, link};
use weir_jit::differential::{Seen, Step, assert_same};

use crate::programs::{drops, exits, frame, one};

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
    // A loop that is entered from below its header, whose body uses what was passed there; a block that nothing
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
        types: vec![ty(W8), ty(W8), ty(W8), ty(W8), ty(W1), ty(W8)],
        events: vec![Event { name: "e".into(), owner: 0 }],
        entries: vec![Entry { kind: EntryKind::Packet { port: 0 }, block: BlockId(2), owner: 0 }],
        blocks: vec![
            block(
                &[5],
                Some(3),
                vec![
                    Op::Binary { op: BinOp::Add, dst: Value(1), a: Value(5), b: Value(5) },
                    Op::Notify { event: 0, args: vec![Value(1)], packet: false },
                ],
                End::Jump(to(1, &[1])),
            ),
            block(&[2], None, vec![], End::Again { header: to(0, &[2]), exit: to(3, &[]) }),
            block(
                &[],
                None,
                vec![Op::Const { dst: Value(0), value: 21 }],
                End::Again { header: to(0, &[0]), exit: to(3, &[]) },
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
fn branches_on_joined_comparisons() {
    type Join = fn(&mut Builder, [weir_ir::V; 5]) -> weir_ir::V;
    let joins: [Join; 6] = [
        |b, c| b.and(c[0], c[1]),
        |b, c| b.or(c[0], c[1]),
        |b, c| {
            let two = b.and(c[0], c[1]);
            b.or(two, c[2])
        },
        |b, c| {
            let two = b.or(c[1], c[2]);
            b.and(c[0], two)
        },
        |b, c| {
            let (two, more) = (b.or(c[0], c[1]), b.or(c[2], c[3]));
            b.and(two, more)
        },
        |b, c| {
            // More than are taken apart.
            let first = b.and(c[0], c[1]);
            c[1..]
                .iter()
                .enumerate()
                .fold(first, |all, (i, &c)| if i % 2 == 0 { b.or(all, c) } else { b.and(c, all) })
        },
    ];
    let program = one(1, |b, event| {
        b.require(Layer::Data, 5, Reason::TRUNCATED);
        for join in joins {
            let is = [0, 1, 2, 3, 4].map(|at| {
                let v = b.load(W8, Layer::Data, at);
                b.eq(v, 1)
            });
            let all = join(b, is);
            let (yes, no) = (b.constant(W8, 1_u8), b.constant(W8, 2_u8));
            let way = b.choose(all, |_| yes, |_| no);
            // The condition has another use.
            b.notify(event, &[way, all]);
        }
        b.emit(0);
    });
    let packet = |n: u8| Step::packet(0, &[0, 1, 2, 3, 4].map(|bit| n >> bit & 1), 0);
    let steps: Vec<Step> = (0..32).map(packet).collect();
    assert_eq!(exits(&assert_same(&program, 0, &steps)), 32);
}

#[test]
fn branches_on_comparisons_that_other_blocks_made() {
    let program = one(1, |b, event| {
        b.require(Layer::Data, 3, Reason::TRUNCATED);
        let is = [0, 1, 2].map(|at| {
            let v = b.load(W8, Layer::Data, at);
            b.eq(v, 1)
        });
        let first = b.and(is[0], is[1]);
        b.when(first, |b| b.notify(event, &[is[0], is[1], is[2]]));
        let second = b.and(is[0], is[2]);
        b.when(second, |b| b.drop(Reason::NO_MATCH));
        let third = b.or(is[1], is[2]);
        b.when(third, |b| b.notify(event, &[is[2], is[1], is[0]]));
        b.emit(0);
    });
    let steps: Vec<Step> = (0..8).map(|n| Step::packet(0, &[0, 1, 2].map(|bit| n >> bit & 1), 0)).collect();
    assert_eq!(exits(&assert_same(&program, 0, &steps)), 6);
}

#[test]
fn what_was_pulled_is_pushed_again_as_zeros() {
    for (pulled, pushed) in [(14, 14), (14, 5), (5, 14)] {
        let program = one(1, |b, event| {
            b.require(Layer::Data, 20, Reason::TRUNCATED);
            b.pull(pulled);
            b.push(pushed);
            // One of them stays as it was made.
            let byte = b.constant(W8, 7_u8);
            b.store(Layer::Data, 1, byte);
            b.unpull_or(3, |b| b.drop(Reason::NO_MATCH));
            let whole = b.len();
            b.notify(event, &[whole]);
            b.emit(0);
        });
        let seen = assert_same(&program, 0, &[Step::packet(0, &[9; 32], 0)]);
        assert_eq!(exits(&seen), usize::from(pulled >= pushed + 3), "{pulled} {pushed}");
    }
}
