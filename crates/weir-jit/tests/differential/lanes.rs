//! Ways that do the same with other constants: one in machine code, and still as the interpreter goes them.

use weir_ir::program::Program;
use weir_ir::{Builder, Layer, Reason, Width::*, optimize};
use weir_jit::differential::{Seen, Step, assert_same};

/// Packets whose first bytes are all that the programs tell apart.
fn steps() -> Vec<Step> {
    let firsts = (0..8).flat_map(|way| (0..4).map(move |kind| [way, kind]));
    let bytes = firsts.flat_map(|[way, kind]| [0, 1, 7, 250].map(|rest| [way, kind, rest, rest, 0, 0, 0, 0]));
    bytes.map(|b| Step::packet(0, &b, 1)).collect()
}

/// An element with a switch on the first byte; each case, and `None` for the others, is a way.
fn ways(n: u32, mut way: impl FnMut(&mut Builder, u32, u32)) -> Program {
    let mut b = Builder::new("Ways", 1, n + 1);
    let event = b.event("seen");
    let cells: Vec<_> = (0..n).map(|i| b.cell(&format!("count{i}"), W64, u128::from(100 * i))).collect();
    b.input(0, |b| {
        b.require(Layer::Data, 8, Reason::TRUNCATED);
        let v = b.load(W8, Layer::Data, 0);
        let cases: Vec<u128> = (0..n.into()).map(|c: u128| c + 1).collect();
        b.switch(v, &cases, |b, case| match case {
            Some(i) => {
                let count = b.read_cell(cells[i]);
                let count = b.add(count, 1);
                b.write_cell(cells[i], count);
                b.notify(event, &[count]);
                way(b, i as u32, event);
            }
            None => b.emit(n),
        });
    });
    b.finish()
}

/// Runs a program; gives how many packets left.
fn run(p: &Program) -> usize {
    let seen = assert_same(p, 1, &steps());
    seen.iter().flatten().filter(|s| matches!(s, Seen::Exit { .. })).count()
}

#[test]
fn constants_cells_and_exits_are_those_of_the_way() {
    for wild in [[1_u128, 2, 3, 4, 5], [9, 200, 3, 77, 4], [250, 0, 250, 0, 250]] {
        let p = ways(5, |b, i, _| {
            let own = wild[i as usize];
            let kind = b.load(W8, Layer::Data, 2);
            let refused = b.eq(kind, own);
            b.when(refused, |b| b.drop(if i == 2 { Reason::DENIED } else { Reason::FULL }));
            b.store_const(W8, Layer::Data, 1, own);
            b.store_const(W16, Layer::Data, 4, own << 8 | 1);
            let bit = b.constant(W1, own & 1);
            let chosen = b.select(bit, kind, 66_u8);
            b.store(Layer::Data, 7, chosen);
            let wide = b.constant(W128, own << 100 | own << 60 | own);
            b.store_anno(0, wide);
            b.emit(i);
        });
        assert!(run(&p) > 60);
    }
}

#[test]
fn ways_that_part_later_are_each_its_own() {
    let p = ways(4, |b, i, _| {
        let kind = b.load(W8, Layer::Data, 1);
        let own = b.constant(W8, 10 + i);
        let special = b.eq(kind, 2);
        b.when(special, |b| {
            if i == 1 {
                b.store(Layer::Data, 3, own);
            }
            b.store(Layer::Data, 2, own);
        });
        // A switch whose cases are other ones on each way.
        b.switch(kind, &[u128::from(i % 3), 3], |b, case| {
            if case == Some(0) {
                b.store_const(W8, Layer::Data, 5, 7 * i + 1);
            }
        });
        b.emit(i);
    });
    assert_eq!(run(&p), steps().len());
}

#[test]
fn ways_that_part_where_bytes_are_pushed_write_their_own() {
    for writes_all in [[true, true, false], [false, true, true]] {
        let p = ways(3, |b, i, _| {
            let kind = b.load(W8, Layer::Data, 1);
            let special = b.eq(kind, 2);
            b.when(special, |b| b.emit(i));
            b.push(4);
            b.store_const(W16, Layer::Data, 0, 0x8100 + i);
            if writes_all[i as usize] {
                b.store_const(W16, Layer::Data, 2, 7 * i + 1);
            } else {
                let kind = b.load(W8, Layer::Data, 3);
                b.store(Layer::Data, 7, kind);
            }
            b.emit(i);
        });
        assert_eq!(run(&p), steps().len());
        assert_eq!(run(&optimize(p)), steps().len(), "optimised");
    }
}

#[test]
fn loops_and_other_packets_of_ways() {
    let p = ways(3, |b, i, event| {
        let start = b.constant(W8, 3 * i);
        let sum = b.repeat(9, &[start], |b, ways, vars| {
            let more = b.load(W8, Layer::Data, 1);
            let sum = b.add(vars[0], more);
            let done = b.gt(sum, 20);
            b.when(done, |b| ways.leave(b, &[sum]));
            ways.next(b, &[sum]);
        });
        b.store(Layer::Data, 3, sum[0]);
        b.fork(|b| {
            b.store_const(W8, Layer::Data, 6, 40 + i);
            b.emit(i);
        });
        b.notify_packet(event, &sum);
        b.push(4);
        b.store_const(W32, Layer::Data, 0, i * i + 1);
        b.emit(i);
    });
    assert!(run(&p) > steps().len());
}

/// Two ways that packets started on the way join again, those of the one perhaps in the other.
fn joining(first: u32, second: u32, strand: u32) -> Program {
    let text = format!(
        "element x\nports 1 -> 3\nentry packet 0 -> b0\n\
         b0:\n require data 8 ok b1 fail b10\n\
         b1:\n v0:8 = load data+0\n switch v0 {{ 1: b2, 2: b5, else: b10 }}\n\
         b2:\n v1:8 = load data+1\n v2:8 = 1\n v3:1 = eq v1, v2\n branch v3 ? b3 : b8\n\
         b3:\n fork copy to b4\n jump b{first}\n\
         b4:\n v4:8 = 40\n store data+2, v4\n jump b{strand}\n\
         b5:\n v5:8 = load data+1\n v6:8 = 1\n v7:1 = eq v5, v6\n branch v7 ? b6 : b9\n\
         b6:\n fork copy to b7\n jump b{second}\n\
         b7:\n v8:8 = 50\n store data+2, v8\n jump b9\n\
         b8:\n v9:8 = load data+3\n v10:8 = 11\n v11:8 = add v9, v10\n store data+3, v11\n exit 0\n\
         b9:\n v12:8 = load data+3\n v13:8 = 22\n v14:8 = add v12, v13\n store data+3, v14\n exit 1\n\
         b10:\n drop Truncated\n"
    );
    let p = weir_ir::parse(&text).unwrap();
    weir_ir::check(&p).unwrap();
    p
}

#[test]
fn a_way_that_is_joined_or_crossed_keeps_its_number() {
    for (first, second, strand) in [(8, 9, 8), (8, 9, 9), (9, 8, 8), (9, 9, 9), (8, 8, 9), (9, 8, 9)] {
        assert_eq!(run(&joining(first, second, strand)), 40, "{first} {second} {strand}");
    }
}
