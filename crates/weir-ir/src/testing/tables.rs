//! The tables of random programs, and what is done with them.

use weir_table::{KeyMatch, Kind};

use super::generate::Gen;
use crate::program::Row;
use crate::program::TableId;
use crate::program::Width::{W8, W32, W64, W128};
use crate::{Builder, E, Reason, TableDecl};

/// One table of each kind.
pub(super) struct Tables {
    pub exact: TableId,
    pub array: TableId,
    lpm: TableId,
    rules: TableId,
}

impl Tables {
    /// Declares them. The exact one is small enough to be full, and its entries may hold a packet.
    pub fn declare(b: &mut Builder) -> Tables {
        let fields = [("v", W32), ("w", W8), ("bucket", W128)];
        let exact = TableDecl::new("exact", Kind::Exact, &[("k", W8), ("l", W8)], &fields, 3);
        let exact = b.table(exact.holding(1).grouped_by("w"), Vec::new());
        let array = b.table(TableDecl::new("array", Kind::Array, &[("i", W32)], &fields, 2), Vec::new());
        let row = |key: Vec<KeyMatch>, value: u128| Row {
            key,
            priority: value as i32,
            ..Row::exact(&[], &[value, 7])
        };
        let route = |addr: u128, len, value| row(vec![KeyMatch::Prefix(addr, len)], value);
        let lpm = b.table(
            TableDecl::new("lpm", Kind::Lpm, &[("addr", W32)], &fields[..2], 8).configured(),
            vec![route(0, 24, 1), route(0, 31, 2), route(0x0a00_0000, 8, 3), route(5, 32, 4)],
        );
        let rules = b.table(
            TableDecl::new("rules", Kind::Rules, &[("k", W8), ("l", W8)], &fields[..2], 8).configured(),
            vec![
                row(vec![KeyMatch::Mask(1, 1), KeyMatch::ANY], 1),
                row(vec![KeyMatch::Range(1, 2), KeyMatch::Exact(0)], 2),
                row(vec![KeyMatch::Exact(0), KeyMatch::Prefix(0xf0, 4)], 3),
            ],
        );
        Tables { exact, array, lpm, rules }
    }
}

impl Gen<'_> {
    /// Something with a table.
    pub fn table_op(&self, b: &mut Builder, depth: u32, forked: bool) {
        let t = self.tape;
        let (k, l) = (self.value(b, W8), self.value(b, W8));
        let k = b.and(k, 3_u8);
        match t.pick(11) {
            0 => {
                let e = b.index(self.tables.array, t.of(&[0, 1]));
                self.entry_op(b, e);
            }
            1 | 2 => b.lookup(self.tables.exact, &[k, l], |b, e| self.scoped(|| self.entry_op(b, e)), |_| {}),
            3 if depth > 0 || !forked => {
                let e = b.insert(self.tables.exact, &[k, l], |b| b.drop(Reason::FULL));
                self.entry_op(b, e);
            }
            4 if depth > 0 || !forked => {
                let (lo, hi) = (b.constant(W8, 2_u8), b.constant(W8, 4_u8));
                let (e, v) = b.claim(self.tables.exact, &[k, l], 1, lo, hi, l, |b| b.drop(Reason::FULL));
                self.keep(v);
                self.entry_op(b, e);
            }
            6 => {
                let addr = self.value(b, W32);
                b.lookup(self.tables.lpm, &[addr], |b, e| self.scoped(|| self.read_entry(b, e)), |_| {});
            }
            7 => b.lookup(self.tables.rules, &[k, l], |b, e| self.scoped(|| self.read_entry(b, e)), |_| {}),
            8 => {
                let i = self.value(b, W32);
                let i = b.and(i, 3_u32);
                b.lookup(self.tables.array, &[i], |b, e| self.scoped(|| self.entry_op(b, e)), |_| {});
            }
            9 if depth > 0 || !forked => {
                let one = b.insert(self.tables.exact, &[k, l], |b| b.drop(Reason::FULL));
                let two = b.insert(self.tables.exact, &[l, k], |b| b.drop(Reason::FULL));
                b.link(one, two);
                self.entry_op(b, two);
            }
            10 if depth > 0 || !forked => {
                let (e, left) = b.soonest(self.tables.exact, |b| b.drop(Reason::NO_MATCH));
                self.keep(left);
                self.entry_op(b, e);
            }
            5 if depth > 0 => {
                let e = b.index(self.tables.array, 0);
                let cost = self.value(b, W64);
                let (rate, burst) = (b.constant(W64, 100_u8), b.constant(W64, 1000_u16));
                b.meter(
                    e,
                    "bucket",
                    [cost, rate, burst],
                    |_| {},
                    |b| self.scoped(|| self.body(b, depth - 1, forked)),
                );
            }
            _ => {
                let v = if t.pick(2) == 0 {
                    b.size(self.tables.exact)
                } else {
                    b.group_count(self.tables.exact, l)
                };
                self.keep(v);
            }
        }
    }

    /// Reads an entry of a table that packets do not change.
    fn read_entry(&self, b: &mut Builder, e: E) {
        let v = b.get(e, self.tape.of(&["v", "w"]));
        self.keep(v);
        if self.tape.pick(2) == 0 {
            b.notify(self.event, &[v]);
        }
    }

    /// Something with an entry.
    pub fn entry_op(&self, b: &mut Builder, e: E) {
        let t = self.tape;
        for _ in 0..1 + t.pick(3) {
            match t.pick(8) {
                0 => {
                    let v = b.get(e, "v");
                    let v = b.add(v, 1_u8);
                    b.set(e, "v", v);
                    self.keep(v);
                }
                1 | 2 => {
                    let v = b.get(e, t.of(&["v", "w"]));
                    self.keep(v);
                }
                3 => {
                    let v = self.value(b, W8);
                    b.set(e, "w", v);
                }
                4 => {
                    let v = b.key(e, 0);
                    self.keep(v);
                }
                5 => b.touch(e, t.of(&[5, 0, 50, 640])),
                6 if e.table == self.tables.exact => b.remove(e),
                7 if e.table == self.tables.exact => {
                    let outside = self.values.take();
                    b.release(e, &[], |b, _| {
                        self.body(b, 1, true);
                        self.end(b, true);
                    });
                    self.values.replace(outside);
                }
                _ => {}
            }
        }
    }
}
