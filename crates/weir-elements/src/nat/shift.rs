//! TCP sequence numbers of flows whose segments change their length on the path.

use super::flow::Flow;
use super::mapping::{nanos, shared};
use crate::fields::{option, tcp};
use crate::prelude::*;

/// Bit of a mapping's state: sequence numbers of its flow are shifted.
pub(super) const SHIFTED: u8 = 0x40;

/// Changes of a direction that are kept apart.
const KEPT: usize = 4;
/// So far beyond a change, nothing from before it is sent again.
const PAST: u32 = 1 << 30;

/// The table of shifts. An entry is for one direction of a flow: from the sequence number `at0` on, bytes are shifted by
/// `by0`; from `at1` on by `by1`, and so on back to `base`. The newest of the `n` changes stands first.
#[derive(Debug)]
pub(super) struct Shifts {
    table: TableId,
    lifetime: u64,
}

fn at(i: usize) -> String {
    format!("at{i}")
}

fn by(i: usize) -> String {
    format!("by{i}")
}

impl Shifts {
    /// Declares the table of a rewriter with this full name.
    pub(super) fn declare(b: &mut Builder, of: &str, own: &str, lifetime: Duration) -> Shifts {
        let key = [("src", W32), ("sport", W16), ("dst", W32), ("dport", W16)];
        let names: Vec<String> = (0..KEPT).flat_map(|i| [at(i), by(i)]).collect();
        let value = names.iter().map(|n| (n.as_str(), W32)).chain([("base", W32), ("n", W8)]);
        let value: Vec<_> = value.collect();
        let decl = TableDecl::new(&format!("{own}shifts"), Kind::Exact, &key, &value, 1 << 16);
        Shifts { table: shared(b, decl, format!("{of}.shifts"), vec![]), lifetime: nanos(lifetime) }
    }

    /// Remembers that in a direction the bytes from `from` on are shifted by `shift` more. Changes have to come in
    /// ascending order; an older one is ignored, and one at the same place takes the place of the newest. `full` ends
    /// packets that there is no space for.
    pub(super) fn record(
        &self,
        b: &mut Builder,
        flow: Flow,
        from: V,
        shift: V,
        full: impl FnOnce(&mut Builder),
    ) {
        let row = b.insert(self.table, &flow.key()[1..], full);
        let n = b.get(row, "n");
        let newest = b.get(row, &at(0));
        let base = b.get(row, "base");
        let empty = b.eq(n, 0);
        let is_same = b.eq(from, newest);
        let again = b.not(empty);
        let again = b.and(again, is_same);
        let later = is_from(b, from, newest);
        let add = b.or(empty, later);
        b.if_else(
            again,
            |b| {
                let alone = b.eq(n, 1);
                let before = b.get(row, &by(1));
                let before = b.select(alone, base, before);
                let sum = b.add(before, shift);
                b.set(row, &by(0), sum);
            },
            |b| {
                b.when(add, |b| {
                    let last = b.get(row, &by(0));
                    let last = b.select(empty, base, last);
                    let full = b.eq(n, KEPT as u8);
                    let oldest = b.get(row, &by(KEPT - 1));
                    let base = b.select(full, oldest, base);
                    b.set(row, "base", base);
                    for i in (1..KEPT).rev() {
                        for field in [at, by] {
                            let v = b.get(row, &field(i - 1));
                            b.set(row, &field(i), v);
                        }
                    }
                    b.set(row, &at(0), from);
                    let sum = b.add(last, shift);
                    b.set(row, &by(0), sum);
                    let more = b.add(n, 1);
                    let more = b.select(full, n, more);
                    b.set(row, "n", more);
                });
            },
        );
        b.touch(row, self.lifetime);
    }

    /// Shifts the numbers of a segment whose flow came in as `flow` and leaves as `new`. The first 20 bytes of its TCP
    /// header are known to be there.
    pub(super) fn apply(&self, b: &mut Builder, entry: E, flow: Flow, new: Flow) {
        let state = b.get(entry, "state");
        let bit = b.and(state, SHIFTED);
        let shifted = b.ne(bit, 0);
        b.when(shifted, |b| {
            b.lookup(
                self.table,
                &flow.key()[1..],
                |b, row| {
                    b.require(Layer::Transport, 20, Reason::TRUNCATED);
                    let seq = tcp::SEQ.load(b);
                    forget(b, row, seq);
                    let shift = shift_at(b, row, seq, false);
                    let to = b.add(seq, shift);
                    tcp::SEQ.store(b, to);
                    let change = change(b, seq, to);
                    update(b, change);
                    b.touch(row, self.lifetime);
                },
                |_| {},
            );
            b.lookup(
                self.table,
                &new.reversed().key()[1..],
                |b, row| {
                    b.require(Layer::Transport, 20, Reason::TRUNCATED);
                    let ack = tcp::ACK.load(b);
                    let to = shift_back(b, row, ack);
                    tcp::ACK.store(b, to);
                    let change = change(b, ack, to);
                    update(b, change);
                    selective(b, row);
                    b.touch(row, self.lifetime);
                },
                |_| {},
            );
            b.require(Layer::Transport, 20, Reason::TRUNCATED);
            b.require(Layer::Net, 20, Reason::TRUNCATED);
        });
    }
}

/// Whether sequence number `a` is `b` or later.
fn is_from(b: &mut Builder, a: V, from: V) -> V {
    let distance = b.sub(a, from);
    b.lt(distance, 1_u32 << 31)
}

/// When a sequence number is far beyond the newest change, that holds for all.
fn forget(b: &mut Builder, row: E, seq: V) {
    let n = b.get(row, "n");
    let newest = b.get(row, &at(0));
    let past = b.add(newest, PAST);
    let past = is_from(b, seq, past);
    let any = b.ne(n, 0);
    let past = b.and(any, past);
    b.when(past, |b| {
        let by = b.get(row, &by(0));
        b.set(row, "base", by);
        b.set(row, "n", 0_u8);
    });
}

/// The shift of a number: one as it comes in, or `out` one as it left.
fn shift_at(b: &mut Builder, row: E, number: V, out: bool) -> V {
    let n = b.get(row, "n");
    let mut shift = b.get(row, "base");
    for i in (0..KEPT).rev() {
        let (from, by) = (b.get(row, &at(i)), b.get(row, &by(i)));
        let number = if out { b.sub(number, by) } else { number };
        let reached = is_from(b, number, from);
        let i = b.constant(W8, i as u8);
        let there = b.lt(i, n);
        let holds = b.and(there, reached);
        shift = b.select(holds, by, shift);
    }
    shift
}

fn shift_back(b: &mut Builder, row: E, ack: V) -> V {
    let shift = shift_at(b, row, ack, true);
    b.sub(ack, shift)
}

/// Shifts back the edges of a selective acknowledgement (RFC 2018).
fn selective(b: &mut Builder, row: E) {
    let words = tcp::DATA_OFFSET.load(b);
    let words = b.shr(words, 4);
    let len = b.shl(words, 2);
    let len = b.resize(W32, len);
    let has_options = b.gt(len, 20);
    b.when(has_options, |b| {
        b.if_has(Layer::Transport, len, |b| options(b, row, len), |_| {});
    });
}

/// Goes through the options of a TCP header of that length.
fn options(b: &mut Builder, row: E, len: V) {
    let first = b.constant(W32, 20_u32);
    let (none, no_change) = (b.constant(W32, 0_u32), b.constant(W16, 0_u16));
    // Where the next option or edge is, bytes of edges that are left, and the change of the checksum.
    let after = b.repeat(40, &[first, none, no_change], |b, round, vars| {
        let [pos, edges, sum] = [vars[0], vars[1], vars[2]];
        let end = b.ge(pos, len);
        b.when(end, |b| round.leave(b, &[pos, edges, sum]));
        b.require(Layer::Transport, pos, Reason::TRUNCATED);
        b.set_mark(Layer::Cursor, Layer::Transport, pos);
        let in_edges = b.ne(edges, 0);
        b.when(in_edges, |b| {
            b.require(Layer::Cursor, 4, Reason::TRUNCATED);
            let edge = b.load(W32, Layer::Cursor, 0);
            let to = shift_back(b, row, edge);
            b.store(Layer::Cursor, 0, to);
            let change = change(b, edge, to);
            // At an odd place the bytes of a word belong to two words of the sum (RFC 1071).
            let (high, low) = (b.shl(change, 8), b.shr(change, 8));
            let swapped = b.or(high, low);
            let odd = b.and(pos, 1);
            let odd = b.ne(odd, 0);
            let change = b.select(odd, swapped, change);
            let sum = b.sum16(sum, change);
            let (next, left) = (b.add(pos, 4), b.sub(edges, 4));
            round.next(b, &[next, left, sum]);
        });
        b.require(Layer::Cursor, 1, Reason::TRUNCATED);
        let kind = option::KIND.load(b);
        let next = b.add(pos, 1);
        b.switch(kind, &[0, 1], |b, case| match case {
            Some(0) => round.leave(b, &[pos, none, sum]),
            Some(_) => round.next(b, &[next, none, sum]),
            None => {}
        });
        let left = b.sub(len, pos);
        let alone = b.lt(left, 2);
        b.when(alone, |b| round.leave(b, &[pos, none, sum]));
        b.require(Layer::Cursor, 2, Reason::TRUNCATED);
        let size = option::LENGTH.load(b);
        let size = b.resize(W32, size);
        let short = b.lt(size, 2);
        let long = b.gt(size, left);
        let wrong = b.or(short, long);
        b.when(wrong, |b| round.leave(b, &[pos, none, sum]));
        let is_sack = b.eq(kind, 5);
        b.when(is_sack, |b| {
            let odd = b.and(size, 7);
            let right = b.eq(odd, 2);
            b.when(right, |b| {
                let (next, edges) = (b.add(pos, 2), b.sub(size, 2));
                round.next(b, &[next, edges, sum]);
            });
            round.leave(b, &[pos, none, sum]);
        });
        let next = b.add(pos, size);
        round.next(b, &[next, none, sum]);
    });
    b.require(Layer::Transport, 20, Reason::TRUNCATED);
    update(b, after[2]);
}

fn change(b: &mut Builder, old: V, new: V) -> V {
    let (old, new) = (halves(b, old), halves(b, new));
    checksum_change(b, &old, &new)
}

/// Updates the TCP checksum. One that is left to the device does not cover the header yet.
fn update(b: &mut Builder, change: V) {
    let pseudo = b.constant(W16, 0_u16);
    apply_transport_change(b, 16, false, pseudo, change);
}
