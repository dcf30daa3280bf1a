//! Source routes of packets that are answered (RFC 1812 section 4.3.2.6).

use crate::fields::option;
use crate::prelude::*;

/// Loose and strict source routes (RFC 791 section 3.1).
const SOURCE_ROUTES: [u128; 2] = [131, 137];

/// The first source route of a packet: its offset in the IP header (0: there is none), its length, its kind, and the
/// bytes of it that lie behind the packet, of three bytes and the addresses of gateways that it has passed.
pub(super) struct SourceRoute {
    pub(super) at: V,
    len: V,
    kind: V,
    passed: V,
}

/// Finds the source route in a header of that length. What is wrong with options ends the search.
pub(super) fn source_route(b: &mut Builder, header: V) -> SourceRoute {
    let [zero, first] = [0, 20_u32].map(|n| b.constant(W32, n));
    let none = b.constant(W8, 0_u8);
    let found = b.repeat(40, &[first, zero, zero, none, zero], |b, round, vars| {
        let next = vars[0];
        let nothing = [next, zero, zero, none, zero];
        let end = b.ge(next, header);
        b.when(end, |b| round.leave(b, &nothing));
        b.require_or(Layer::Net, next, |b| round.leave(b, &nothing));
        b.set_mark(Layer::Cursor, Layer::Net, next);
        b.require_or(Layer::Cursor, 1, |b| round.leave(b, &nothing));
        let kind = option::KIND.load(b);
        b.switch(kind, &[0, 1], |b, case| match case {
            Some(0) => round.leave(b, &nothing),
            Some(_) => {
                let next = b.add(next, 1);
                round.next(b, &[next, zero, zero, none, zero]);
            }
            None => {}
        });
        b.require_or(Layer::Cursor, 2, |b| round.leave(b, &nothing));
        let len = option::LENGTH.load(b);
        let len = b.resize(W32, len);
        let behind = b.add(next, len);
        let short = b.lt(len, 2);
        let long = b.gt(behind, header);
        let wrong = b.or(short, long);
        b.when(wrong, |b| round.leave(b, &nothing));
        b.switch(kind, &SOURCE_ROUTES, |b, case| {
            if case.is_some() {
                b.if_has(
                    Layer::Cursor,
                    3,
                    |b| {
                        let pointer = option::POINTER.load(b);
                        let pointer = b.resize(W32, pointer);
                        let early = b.lt(pointer, 4);
                        let odd = b.and(pointer, 3);
                        let odd = b.ne(odd, 0);
                        let most = b.add(len, 1);
                        let late = b.gt(pointer, most);
                        let wrong = b.or(early, odd);
                        let wrong = b.or(wrong, late);
                        let passed = b.sub(pointer, 1);
                        b.unless(wrong, |b| round.leave(b, &[next, next, len, kind, passed]));
                    },
                    |_| {},
                );
            }
        });
        round.next(b, &[behind, zero, zero, none, zero]);
    });
    SourceRoute { at: found[1], len: found[2], kind: found[3], passed: found[4] }
}

impl SourceRoute {
    /// Bytes of options that the error has: the route and the end of the options, or none if the offset of the problem
    /// lies in the route.
    pub(super) fn space(&self, b: &mut Builder, is_problem: bool, problem: V) -> V {
        let zero = b.constant(W32, 0_u32);
        let space = b.add(self.passed, 1);
        let none = b.eq(self.at, 0);
        let space = b.select(none, zero, space);
        if !is_problem {
            return space;
        }
        let problem = b.resize(W32, problem);
        let within = b.sub(problem, self.at);
        let within = b.lt(within, self.len);
        b.select(within, zero, space)
    }

    /// Writes the route into `extra` bytes behind the first 20 of the packet (none: nothing is written). The packet that
    /// is answered starts behind all `headers`.
    pub(super) fn reverse(&self, b: &mut Builder, headers: V, extra: V) {
        let some = b.ne(extra, 0);
        b.when(some, |b| {
            b.require(Layer::Data, 24, Reason::TRUNCATED);
            option::KIND.at(Layer::Data, 20).store(b, self.kind);
            let len = b.resize(W8, self.passed);
            option::LENGTH.at(Layer::Data, 20).store(b, len);
            option::POINTER.at(Layer::Data, 20).store_const(b, 4_u8);
            // From the last address that was passed to the first: where it stands in the packet, and where it goes.
            let last = b.add(headers, self.at);
            let last = b.add(last, self.passed);
            let last = b.sub(last, 4);
            let first = b.constant(W32, 23_u32);
            let end = b.add(extra, 19);
            b.repeat(9, &[last, first], |b, round, vars| {
                let [from, to] = [vars[0], vars[1]];
                let done = b.ge(to, end);
                b.when(done, |b| round.leave(b, &[from, to]));
                let go = |b: &mut Builder, at: V| {
                    b.require(Layer::Data, at, Reason::TRUNCATED);
                    b.set_mark(Layer::Cursor, Layer::Data, at);
                    b.require(Layer::Cursor, 4, Reason::TRUNCATED);
                };
                go(b, from);
                let addr = b.load(W32, Layer::Cursor, 0);
                go(b, to);
                b.store(Layer::Cursor, 0, addr);
                let from = b.sub(from, 4);
                let to = b.add(to, 4);
                round.next(b, &[from, to]);
            });
            b.clear_mark(Layer::Cursor);
        });
    }
}
