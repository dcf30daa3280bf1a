//! Random programs about large tables: exact ones that grow through many sizes of their index, prefixes in each of the
//! ways that they are found, rules, arrays. The keys come from the packets, so that batches look ahead.

use std::cell::RefCell;
use std::collections::HashSet;

use weir_ir::program::{Row, TableId};
use weir_ir::testing::Start;
use weir_ir::{Builder, E, Layer, Program, Reason, TableDecl, V, Width, Width::*};
use weir_table::{KeyMatch, Kind};

use crate::hold::{Random, Rounds};

/// How many there are.
pub const PROGRAMS: u64 = 10;
const PACKETS: usize = 8000;
/// Of the fields of packets and of prefixes, so that they meet.
const ADDRESSES: u128 = 0x0307_ffff;

struct Tables {
    exact: Vec<TableId>,
    prefixes: Vec<(TableId, Width)>,
    rules: Vec<TableId>,
    array: TableId,
}

const VALUES: [(&str, Width); 3] = [("v", W32), ("w", W8), ("x", W64)];

fn tables(b: &mut Builder, random: &mut Random) -> Tables {
    let ttl =
        |row: Row, random: &mut Random| Row { ttl: random.pick(&[None, Some(1 << 33), Some(500)]), ..row };
    let mut exact = |name: &str, key: &[(&str, Width)], capacity| {
        b.table(TableDecl::new(name, Kind::Exact, key, &VALUES, capacity).grouped_by("w"), vec![])
    };
    let exact = vec![
        exact("flows", &[("a", W32), ("b", W16)], 20_000),
        exact("words", &[("a", W16)], 70_000),
        exact("wide", &[("a", W128), ("b", W8), ("c", W64)], 9000),
        // Is full soon.
        exact("few", &[("a", W8), ("b", W8)], 40),
    ];
    let sizes = [(W32, 3), (W32, 20), (W32, 5000), (W16, 300), (W8, 9), (W64, 60), (W128, 200)];
    let prefixes = sizes.map(|(width, n)| {
        let mut rows = Vec::new();
        let mut known = HashSet::new();
        while rows.len() < n {
            let len = random.below(width.bits() as usize + 1) as u32;
            let mask = width.max() & !width.max().checked_shr(len).unwrap_or(0);
            let shown =
                u128::from(random.next()) << width.bits().saturating_sub(64) | u128::from(random.next());
            let addr = address(width, shown) & mask;
            if known.insert((addr, len)) {
                let key = vec![KeyMatch::Prefix(addr, len)];
                let row = Row { key, ..Row::exact(&[], &[rows.len() as u128, len.into(), 1]) };
                rows.push(ttl(row, random));
            } else if known.len() > (1 << width.bits().min(12)) / 2 {
                break;
            }
        }
        let name = format!("lpm{}x{n}", width.bits());
        (b.table(TableDecl::new(&name, Kind::Lpm, &[("addr", width)], &VALUES, 8192), rows), width)
    });
    let rules = [4, 60].map(|n| {
        let rows = (0..n).map(|i| {
            let mut field = |width: Width| {
                let v = address(width, random.next().into());
                match random.below(5) {
                    0 => KeyMatch::ANY,
                    1 => KeyMatch::Exact(v),
                    2 => KeyMatch::Prefix(
                        v & width.max() << (width.bits() / 2) & width.max(),
                        width.bits() / 2,
                    ),
                    3 => KeyMatch::Mask(v & 0x0505, 0x0505 & width.max()),
                    _ => KeyMatch::Range(v / 2, v),
                }
            };
            let key = vec![field(W32), field(W16), field(W8)];
            let row = Row { key, priority: i % 7, ..Row::exact(&[], &[i as u128, 2, 3]) };
            ttl(row, random)
        });
        let rows: Vec<Row> = rows.collect();
        let key = [("a", W32), ("b", W16), ("c", W8)];
        b.table(TableDecl::new(&format!("rules{n}"), Kind::Rules, &key, &VALUES, 100), rows)
    });
    let array = b.table(TableDecl::new("array", Kind::Array, &[("i", W32)], &VALUES, 300), vec![]);
    Tables { exact, prefixes: prefixes.to_vec(), rules: rules.to_vec(), array }
}

/// Few enough that packets and rows meet.
fn address(width: Width, v: u128) -> u128 {
    match width {
        W32 => v & ADDRESSES,
        W64 | W128 => v & (7 << (width.bits() - 8) | 0xfff),
        _ => v & width.max(),
    }
}

/// A program and what happens to it.
pub fn program(seed: u64) -> (Program, Rounds) {
    let random = RefCell::new(Random(seed));
    let mut b = Builder::new("Large", 1, 2);
    let event = b.event("seen");
    let tables = tables(&mut b, &mut random.borrow_mut());
    b.input(0, |b| {
        b.require(Layer::Data, 48, Reason::TRUNCATED);
        let w = Writer { random: &random, tables: &tables, event };
        // The first ones are what batches look ahead to.
        (0..14).for_each(|i| w.action(b, i));
        let sizes: Vec<V> = tables.exact.iter().map(|&t| b.size(t)).collect();
        b.notify(event, &sizes);
        b.emit(seed as u32 % 2);
    });
    // Some entries tell that their time has come, and some of these stay.
    b.expire(tables.exact[0], |b, e| {
        let key = [b.key(e, 0), b.key(e, 1), b.get(e, "v")];
        b.notify(event, &key);
        let again = b.get(e, "w");
        let again = b.lt(again, 9_u8);
        b.when(again, |b| {
            b.set(e, "w", 10_u8);
            b.touch(e, 700_u32);
        });
    });
    let program = b.finish();
    let mut random = random.into_inner();
    let edges = edges(&program, &tables);
    let packets = (0..PACKETS).map(|_| {
        let len = random.pick(&[48, 60, 60, 47, 1500]);
        let mut bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        let at = random.pick(&FIELDS) as usize;
        bytes[at..at + 4].copy_from_slice(&random.pick(&edges).to_be_bytes());
        Start { bytes, marks: [200; 4], anno: 0 }
    });
    let packets = packets.collect();
    let rounds = Rounds::new(&program, packets, &mut random);
    (program, rounds)
}

/// Where ranges of IPv4 addresses begin and end, of the smaller tables as often as of the large one.
fn edges(program: &Program, tables: &Tables) -> Vec<u32> {
    let mut all = Vec::new();
    for (table, _) in tables.prefixes.iter().filter(|(_, width)| *width == W32) {
        let rows = &program.tables[table.0 as usize].rows;
        for row in rows.iter().cycle().take(5000) {
            if let KeyMatch::Prefix(addr, len) = row.key[0] {
                let last = addr | u128::from(u32::MAX.checked_shr(len).unwrap_or(0));
                all.extend([addr as u32, last as u32, (last as u32).wrapping_add(1)]);
            }
        }
    }
    all
}

/// Where packets have what programs read.
const FIELDS: [u32; 5] = [0, 4, 8, 16, 32];

struct Writer<'a> {
    random: &'a RefCell<Random>,
    tables: &'a Tables,
    event: u32,
}

impl Writer<'_> {
    fn below(&self, n: usize) -> usize {
        self.random.borrow_mut().below(n)
    }

    fn field(&self, b: &mut Builder, width: Width) -> V {
        let v = b.load(width, Layer::Data, FIELDS[self.below(5)]);
        let mask = b.constant(width, address(width, u128::MAX));
        b.and(v, mask)
    }

    fn key(&self, b: &mut Builder, table: TableId) -> Vec<V> {
        let widths: &[Width] = match self.tables.exact.iter().position(|&t| t == table) {
            Some(0) => &[W32, W16],
            Some(1) => &[W16],
            Some(2) => &[W128, W8, W64],
            Some(_) => &[W8, W8],
            None => &[W32, W16, W8],
        };
        widths.iter().map(|&w| self.field(b, w)).collect()
    }

    fn action(&self, b: &mut Builder, i: usize) {
        let exact = self.tables.exact[if i < 2 { i } else { self.below(4) }];
        match if i < 2 { 0 } else { self.below(8) } {
            0 | 1 => {
                let key = self.key(b, exact);
                let is_few = exact == self.tables.exact[3];
                let e = if is_few {
                    // Full is no reason to end.
                    return b.lookup(exact, &key, |b, e| self.change(b, e), |_| {});
                } else {
                    b.insert(exact, &key, |b| b.drop(Reason::FULL))
                };
                self.change(b, e);
            }
            2 => {
                let key = self.key(b, exact);
                b.lookup(exact, &key, |b, e| self.change(b, e), |b| b.notify(self.event, &[]));
            }
            3 | 4 => {
                let (table, width) = self.tables.prefixes[self.below(self.tables.prefixes.len())];
                let addr = self.field(b, width);
                b.lookup(table, &[addr], |b, e| self.show(b, e), |b| b.notify(self.event, &[addr]));
            }
            5 => {
                let table = self.tables.rules[self.below(2)];
                let key = self.key(b, table);
                b.lookup(table, &key, |b, e| self.show(b, e), |b| b.notify(self.event, &key));
            }
            6 => {
                let i = self.field(b, W16);
                let i = b.resize(W32, i);
                let i = b.and(i, 511_u32);
                b.lookup(self.tables.array, &[i], |b, e| self.change(b, e), |_| {});
            }
            _ => {
                let key = self.key(b, self.tables.exact[3]);
                let rare = self.field(b, W8);
                let rare = b.lt(rare, 3_u8);
                b.when(rare, |b| {
                    let e = b.insert(self.tables.exact[3], &key, |b| b.drop(Reason::FULL));
                    b.touch(e, 1_u32 << 21);
                });
            }
        }
    }

    fn show(&self, b: &mut Builder, e: E) {
        let seen = [b.get(e, "v"), b.get(e, "w"), b.get(e, "x")];
        b.notify(self.event, &seen);
    }

    fn change(&self, b: &mut Builder, e: E) {
        let field = self.field(b, W8);
        match self.below(6) {
            0 => {
                let v = b.get(e, "v");
                let v = b.add(v, 1_u32);
                b.set(e, "v", v);
                b.notify(self.event, &[v]);
            }
            1 => b.set(e, "w", field),
            2 => b.touch(e, [10_u64, 3 << 20, 1 << 33][self.below(3)]),
            3 if e.table != self.tables.array => {
                let rare = b.lt(field, 40_u8);
                b.when(rare, |b| b.remove(e));
            }
            4 => {
                let count = if e.table == self.tables.array { field } else { b.group_count(e.table, field) };
                b.notify(self.event, &[count]);
            }
            _ => self.show(b, e),
        }
    }
}
