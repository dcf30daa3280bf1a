//! Fragments beyond the first, which have no ports: they go on as the first fragment of their packet did, and wait for it
//! if they came earlier (RFC 4787, REQ-14).

use crate::fields::ipv4;
use crate::prelude::*;

/// Packets whose fragments are remembered at a time.
const PACKETS: u32 = 4096;
/// Fragments of one packet that wait for the first.
const WAITING: u32 = 16;
/// How long fragments are waited for, and waited with, in nanoseconds; the time to put them together is longer (RFC 791).
const PATIENCE: u64 = 10_000_000_000;

const MORE_FRAGMENTS: u16 = 0x2000;

/// The table of packets in fragments.
#[derive(Clone, Copy)]
pub(super) struct Fragments(TableId);

/// The end of a fragment beyond the first: its addresses may change, and it leaves.
type Leave<'a> = dyn Fn(&mut Builder, Rewritten) + 'a;

/// The rewriting of a packet: its new addresses and its output.
#[derive(Clone, Copy)]
pub(super) struct Rewritten {
    pub(super) src: V,
    pub(super) dst: V,
    pub(super) output: V,
}

impl Fragments {
    pub(super) fn declare(b: &mut Builder) -> Fragments {
        let key = [("src", W32), ("dst", W32), ("id", W16), ("proto", W8)];
        let value = [("known", W1), ("new_src", W32), ("new_dst", W32), ("output", W16)];
        Fragments(
            b.table(TableDecl::new("fragments", Kind::Exact, &key, &value, PACKETS).holding(WAITING), vec![]),
        )
    }

    /// Ends a fragment beyond the first: it leaves as the first one did, or waits for it.
    pub(super) fn later(self, b: &mut Builder, leave: &Leave<'_>) {
        let key = key(b);
        b.lookup(
            self.0,
            &key,
            |b, e| {
                let known = b.get(e, "known");
                b.when(known, |b| {
                    let new = Rewritten {
                        src: b.get(e, "new_src"),
                        dst: b.get(e, "new_dst"),
                        output: b.get(e, "output"),
                    };
                    leave(b, new);
                });
                b.hold(e, |b| b.drop(Reason::FULL));
            },
            |b| {
                let e = self.entry(b, &key);
                b.hold(e, |b| b.drop(Reason::FULL));
            },
        );
    }

    /// Takes note of how a packet is rewritten, if others of it follow, and lets those that wait for it leave: whether their
    /// headers are there is for `leave` to ask. To be done before its addresses change, of which `key` is made.
    pub(super) fn first(self, b: &mut Builder, leave: &Leave<'_>, new: Rewritten) {
        let field = ipv4::FRAGMENT.load(b);
        let more = b.and(field, MORE_FRAGMENTS);
        let more = b.ne(more, 0);
        b.when(more, |b| {
            let key = key(b);
            let e = self.entry(b, &key);
            b.set(e, "known", 1);
            b.set(e, "new_src", new.src);
            b.set(e, "new_dst", new.dst);
            b.set(e, "output", new.output);
            b.release(e, &[new.src, new.dst, new.output], |b, args| {
                leave(b, Rewritten { src: args[0], dst: args[1], output: args[2] });
            });
        });
    }

    /// The entry of a packet, found or made; if there are too many, the oldest goes.
    fn entry(self, b: &mut Builder, key: &[V]) -> E {
        let size = b.size(self.0);
        let full = b.ge(size, PACKETS);
        b.when(full, |b| {
            let (oldest, _) = b.soonest(self.0, |b| b.drop(Reason::FULL));
            b.remove(oldest);
        });
        let e = b.insert(self.0, key, |b| b.drop(Reason::FULL));
        b.touch(e, PATIENCE);
        e
    }
}

/// What the fragments of a packet have in common (RFC 791); 20 bytes of the header at `net` are there.
fn key(b: &mut Builder) -> [V; 4] {
    [ipv4::SRC.load(b), ipv4::DST.load(b), ipv4::ID.load(b), ipv4::PROTOCOL.load(b)]
}
