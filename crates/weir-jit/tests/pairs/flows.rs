//! Random chains of elements that look the same packets up in rules and prefixes, with elements in between that rewrite
//! them, while the tables change.

use std::cell::RefCell;

use weir_ir::program::{Row, TableId};
use weir_ir::testing::Start;
use weir_ir::{Builder, E, Layer, Program, Reason, TableDecl, V, Width, Width::*, Wire, link};
use weir_table::{KeyMatch, Kind};

use crate::hold::{Edit, Event, Random, Rounds};

/// How many there are.
pub const PROGRAMS: u64 = 60;
const PACKETS: usize = 1500;
/// Different packets.
const FLOWS: usize = 40;
const FIELDS: [u32; 4] = [0, 4, 8, 16];
const VALUES: [(&str, Width); 3] = [("v", W32), ("w", W8), ("x", W64)];

/// The key of each kind of table.
const KEYS: [(Kind, &[Width]); 5] = [
    (Kind::Rules, &[W32, W16, W8]),
    (Kind::Rules, &[W32, W32, W16, W8, W8]),
    (Kind::Rules, &[W128, W64, W1]),
    (Kind::Lpm, &[W32]),
    (Kind::Lpm, &[W128]),
];

fn row(key: &[Width], kind: Kind, random: &mut Random) -> Row {
    let field = |(i, &width): (usize, &Width)| {
        let v = value(width, random.next());
        let len = random.below(width.bits() as usize + 1) as u32;
        let prefix = KeyMatch::Prefix(v & !width.max().checked_shr(len).unwrap_or(0) & width.max(), len);
        match random.below(if kind == Kind::Lpm { 1 } else { 5 }) {
            0 => prefix,
            1 => KeyMatch::Exact(v),
            2 => KeyMatch::Mask(v & 3, 3 & width.max()),
            3 if i % 2 == 0 => KeyMatch::Range(v / 2, v),
            _ => KeyMatch::ANY,
        }
    };
    let key = key.iter().enumerate().map(field).collect();
    let value = [u128::from(random.next()) & 3, random.below(4) as u128, 1];
    Row {
        key,
        priority: random.below(6) as i32,
        ttl: random.pick(&[None, None, None, Some(1 << 20), Some(300)]),
        ..Row::exact(&[], &value)
    }
}

/// Few enough that packets and rows meet.
fn value(width: Width, v: u64) -> u128 {
    let high = u128::from(v & 3) << (width.bits() - width.bits().min(2));
    (high | u128::from(v >> 2 & 7)) & width.max()
}

/// An element with one table of each kind, and what it does with packets.
fn element(name: &str, random: &RefCell<Random>) -> Program {
    let mut b = Builder::new(name, 1, 2);
    let event = b.event("seen");
    let tables = KEYS.map(|(kind, key)| {
        let names = ["a", "b", "c", "d", "e"];
        let fields: Vec<(&str, Width)> = names.into_iter().zip(key.iter().copied()).collect();
        let n = random.borrow_mut().pick(&[3, 12, 40]);
        let mut rows: Vec<Row> = Vec::new();
        while rows.len() < n {
            let row = row(key, kind, &mut random.borrow_mut());
            if rows.iter().all(|r| r.key != row.key) {
                rows.push(row);
            }
        }
        b.table(TableDecl::new(&format!("{kind:?}{}", key.len()), kind, &fields, &VALUES, 64), rows)
    });
    let w = Writer { random, tables, event };
    b.input(0, |b| {
        b.require(Layer::Data, 48, Reason::TRUNCATED);
        for _ in 0..2 + w.below(4) {
            w.stage(b);
        }
        let port = b.load(W8, Layer::Data, 20);
        let port = b.lt(port, 200_u8);
        b.if_else(port, |b| b.emit(0), |b| b.emit(1));
    });
    b.finish()
}

struct Writer<'a> {
    random: &'a RefCell<Random>,
    tables: [TableId; 5],
    event: u32,
}

impl Writer<'_> {
    fn below(&self, n: usize) -> usize {
        self.random.borrow_mut().below(n)
    }

    fn stage(&self, b: &mut Builder) {
        match self.below(8) {
            0 => {
                // Lookups that some packets do without.
                let some = b.load(W8, Layer::Data, 21);
                let some = b.lt(some, 128_u8);
                b.when(some, |b| self.lookup(b));
            }
            1 => {
                let none = b.constant(W32, 0_u32);
                b.repeat(3, &[none], |b, l, vars| {
                    self.lookup(b);
                    let n = b.add(vars[0], 1_u32);
                    let more = b.load(W8, Layer::Data, 22);
                    let more = b.resize(W32, more);
                    let more = b.lt(n, more);
                    b.unless(more, |b| l.leave(b, &[n]));
                    l.next(b, &[n]);
                });
            }
            _ => self.lookup(b),
        }
    }

    fn lookup(&self, b: &mut Builder) {
        let kind = self.below(5);
        let mut field = |&width: &Width| {
            let off = FIELDS[self.below(4)];
            if width == W1 {
                let v = b.load(W8, Layer::Data, off + 15);
                return b.lt(v, 4_u8);
            }
            b.load(width, Layer::Data, off)
        };
        let key: Vec<V> = KEYS[kind].1.iter().map(&mut field).collect();
        let event = self.event;
        b.lookup(
            self.tables[kind],
            &key,
            |b, e| self.found(b, e, KEYS[kind].0),
            |b| b.notify(event, &key[..1]),
        );
    }

    fn found(&self, b: &mut Builder, e: E, kind: Kind) {
        let seen = [b.get(e, "v"), b.get(e, "w"), b.get(e, "x")];
        b.notify(self.event, &seen);
        match self.below(7) {
            // A rewritten packet is another flow's.
            0 => b.store(Layer::Data, FIELDS[self.below(4)], seen[0]),
            1 if kind != Kind::Lpm => {
                let n = b.add(seen[2], 1_u64);
                b.set(e, "x", n);
            }
            2 => {
                let denied = b.eq(seen[1], 3_u8);
                b.when(denied, |b| b.drop(Reason::DENIED));
            }
            3 if kind != Kind::Lpm => b.touch(e, 1_u32 << 21),
            4 => b.fork(|b| {
                self.lookup(b);
                b.emit(1);
            }),
            _ => {}
        }
    }
}

/// A program and what happens to it.
pub fn program(seed: u64) -> (Program, Rounds) {
    let random = RefCell::new(Random(seed));
    let programs: Vec<Program> =
        (0..1 + seed as usize % 3).map(|i| element(&format!("e{i}"), &random)).collect();
    let n = programs.len();
    let wire = |e: usize, port: u32| match port {
        0 if e + 1 < n => Some(Wire::Input { element: e + 1, port: 0 }),
        port => Some(Wire::Exit(port)),
    };
    let program = link(&programs, wire, 2).expect("each element has an input");
    let mut random = random.into_inner();
    let flows: Vec<Vec<u8>> = (0..FLOWS)
        .map(|_| {
            let mut bytes = vec![0; 60];
            for at in FIELDS {
                let v = value(W128, random.next()).to_be_bytes();
                bytes[at as usize..at as usize + 16].copy_from_slice(&v);
            }
            bytes[20..24].copy_from_slice(&(random.next() as u32).to_be_bytes());
            bytes
        })
        .collect();
    let packets = (0..PACKETS).map(|_| {
        let bytes = flows[random.below(flows.len())].clone();
        Start { bytes, marks: [200; 4], anno: 0 }
    });
    let packets = packets.collect();
    let mut rounds = Rounds::new(&program, packets, &mut random);
    for at in (1..rounds.0.len()).rev() {
        if random.below(2) == 0 {
            let now = rounds.0[at].0;
            rounds.0.insert(at, (now, Event::Edit(edit(&program, &mut random))));
        }
    }
    (program, rounds)
}

fn edit(program: &Program, random: &mut Random) -> Edit {
    let table = random.below(program.tables.len());
    let decl = &program.tables[table].decl;
    let widths: Vec<Width> = decl.key.iter().map(|f| f.width).collect();
    let nth = random.below(64);
    match random.below(12) {
        0 => Edit::Clear(table as u32),
        1..4 => Edit::Remove(table as u32, nth),
        4..6 => Edit::Change(table as u32, nth, random.next() as u8),
        _ => Edit::Insert(table as u32, row(&widths, decl.kind, random)),
    }
}
