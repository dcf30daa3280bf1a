//! The lifetime of a mapping that TCP uses (RFC 5382 section 5, RFC 7857 section 2).
//!
//! A mapping has no state machine of its own for each connection: one of its two entries follows the packets of the inside,
//! the other those of the outside, and the mapping lives as long as either needs it.

use crate::fields::tcp;
use weir_net::Tcp;

use super::super::mapping::nanos;
use crate::prelude::*;

/// The value field with these bits.
pub(super) const STATE: &str = "state";
/// A packet other than one that asks for a connection was seen.
const OPEN: u8 = 1;
/// This side has sent FIN.
const FIN: u8 = 2;
/// RST was seen, and nothing since.
const RESET: u8 = 4;
/// Another connection was asked for while one was open. The end of one says nothing about the others then.
const MANY: u8 = 8;

/// Lifetimes without packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Of a connection that has only begun.
    pub(super) new: Duration,
    /// Of one that is open.
    pub(super) open: Duration,
    /// Of one that a side has ended.
    pub(super) done: Duration,
}

/// An entry, and what it is about.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) entry: E,
    /// Whether it is found by packets of the inside.
    pub(super) outbound: bool,
    /// Table and key of the entry of the other direction, if there is one.
    pub(super) other: Option<(TableId, [V; 4])>,
}

impl Entry {
    /// Does something with the entry of the other direction.
    fn other(self, b: &mut Builder, body: impl FnOnce(&mut Builder, E)) {
        if let Some((table, key)) = self.other {
            b.lookup(table, &key, body, |_| {});
        }
    }
}

impl Timeouts {
    /// Gives an entry its lifetime behind a TCP packet, whose header is there.
    pub(super) fn follow(self, b: &mut Builder, e: Entry) {
        let flags = tcp::FLAGS.load(b);
        let state = b.get(e.entry, STATE);
        let special = b.and(flags, Tcp::SYN | Tcp::FIN | Tcp::RST);
        let plain = b.eq(special, 0);
        let known = b.and(state, OPEN | FIN | RESET);
        let open = b.eq(known, OPEN);
        // So it is for nearly all packets.
        let usual = b.and(plain, open);
        b.if_else(
            usual,
            |b| b.touch(e.entry, nanos(self.open)),
            |b| {
                let reset = has(b, flags, Tcp::RST);
                b.if_else(
                    reset,
                    |b| self.reset(b, e, state),
                    |b| {
                        let asks = has(b, flags, Tcp::SYN);
                        b.if_else(
                            asks,
                            |b| self.asked(b, e, flags, state),
                            |b| self.data(b, e, flags, state),
                        );
                    },
                );
            },
        );
    }

    /// The end of the only connection shortens the lifetime, once: an answer to whatever came in does not prolong it
    /// (RFC 7857 section 7.1).
    fn reset(self, b: &mut Builder, e: Entry, state: V) {
        let known = b.and(state, OPEN | RESET | MANY);
        let counts = b.eq(known, OPEN);
        b.when(counts, |b| {
            let state = b.or(state, RESET);
            b.set(e.entry, STATE, state);
            b.touch(e.entry, nanos(self.done));
            e.other(b, |b, other| b.touch(other, nanos(self.done)));
        });
    }

    /// A packet that asks for a connection, or grants it.
    fn asked(self, b: &mut Builder, e: Entry, flags: V, state: V) {
        let over = has(b, state, FIN);
        let was_open = has(b, state, OPEN);
        let lives = b.not(over);
        let lives = b.and(was_open, lives);
        let grants = has(b, flags, Tcp::ACK);
        let none = b.constant(W8, 0_u8);
        let base = b.select(over, none, state);
        let granted = b.or(base, OPEN);
        let next = b.select(grants, granted, base);
        let asks = b.not(grants);
        let another = b.and(asks, lives);
        let many = b.or(next, MANY);
        let next = b.select(another, many, next);
        let changed = b.ne(next, state);
        b.when(changed, |b| b.set(e.entry, STATE, next));
        b.when(another, |b| {
            e.other(b, |b, other| {
                let state = b.get(other, STATE);
                let state = b.or(state, MANY);
                b.set(other, STATE, state);
            });
        });
        // Whoever is outside keeps nothing alive by asking.
        if e.outbound {
            let [new, open] = [self.new, self.open].map(|t| b.constant(W64, nanos(t)));
            let timeout = b.select(lives, open, new);
            b.touch(e.entry, timeout);
        }
    }

    /// A packet of a connection, maybe its last.
    fn data(self, b: &mut Builder, e: Entry, flags: V, state: V) {
        let many = has(b, state, MANY);
        let ends = has(b, flags, Tcp::FIN);
        let one = b.not(many);
        let ends = b.and(ends, one);
        let open = b.or(state, OPEN);
        let open = b.and(open, !RESET);
        let ended = b.or(open, FIN);
        let next = b.select(ends, ended, open);
        let changed = b.ne(next, state);
        b.when(changed, |b| b.set(e.entry, STATE, next));
        let over = has(b, next, FIN);
        let [done, open] = [self.done, self.open].map(|t| b.constant(W64, nanos(t)));
        let timeout = b.select(over, done, open);
        b.touch(e.entry, timeout);
    }
}

fn has(b: &mut Builder, bits: V, bit: u8) -> V {
    let bit = b.and(bits, bit);
    b.ne(bit, 0)
}
