//! The chain of headers of a packet (RFC 8200 section 4).

use crate::fields::{ipv6, ipv6_extension};
use crate::prelude::*;

/// Length of the IPv6 header.
pub(super) const HEADER_LEN: u32 = 40;

/// Most headers between the IPv6 header and that of the transport protocol. RFC 8504 section 5.3 lets a node refuse
/// more than eight.
const MOST_HEADERS: u32 = 8;

/// Next header values (RFC 8200).
const HOP_BY_HOP: u8 = 0;
/// A fragment header; also what the protocol of a fragment beyond the first is taken for.
pub(super) const FRAGMENT: u8 = FRAGMENT_HEADER;

/// Goes on if `net` marks 40 bytes at least.
pub(super) fn require_ip6(b: &mut Builder) {
    require_marked(b, Layer::Net, HEADER_LEN);
}

/// Walks over extension headers from the IPv6 header on, of which 40 bytes are known to be there. Sets `transport` to
/// what follows, and gives its protocol (8 bits): [`FRAGMENT`] for fragments beyond the first, where `transport` stands
/// on the payload. `bad`, which has to end, is done if the chain is wrong: it leads out of the packet or is longer than
/// [`MOST_HEADERS`], or hop-by-hop options are not its first header.
pub(super) fn walk(b: &mut Builder, bad: impl Fn(&mut Builder, Reason) + Copy) -> V {
    let first = ipv6::NEXT_HEADER.load(b);
    let start = b.constant(W32, HEADER_LEN);
    let (yes, no) = (b.constant(W1, 1_u8), b.constant(W1, 0_u8));
    let truncated = |b: &mut Builder| bad(b, Reason::TRUNCATED);
    // One path for all kinds of headers: a path for each of them, at each of their places, would be too many to verify.
    let found = b.repeat(MOST_HEADERS + 1, &[first, start, no, yes], |b, round, vars| {
        let [next, at, is_first] = [vars[0], vars[1], vars[3]];
        b.require_or(Layer::Net, at, truncated);
        b.set_mark(Layer::Transport, Layer::Net, at);
        let more = is_extension_header(b, next);
        b.unless(more, |b| round.leave(b, &[next, at, yes, no]));
        b.require_or(Layer::Transport, 8, truncated);
        let following = ipv6_extension::NEXT_HEADER.at(Layer::Transport, 0).load(b);
        let fragment = b.eq(next, FRAGMENT);
        let offset = ipv6_extension::FRAGMENT.at(Layer::Transport, 0).load(b);
        let offset = b.and(offset, 0xfff8);
        let later = b.ne(offset, 0);
        let later = b.and(fragment, later);
        b.when(later, |b| {
            b.set_mark(Layer::Transport, Layer::Transport, 8);
            let behind = b.add(at, 8);
            round.leave(b, &[next, behind, yes, no]);
        });
        let options = b.eq(next, HOP_BY_HOP);
        let late = b.xor(is_first, 1);
        let misplaced = b.and(options, late);
        b.when(misplaced, |b| bad(b, Reason::BAD_HEADER));
        let len = ipv6_extension::LENGTH.at(Layer::Transport, 0).load(b);
        let len = b.resize(W32, len);
        let len = extension_header_len(b, next, len);
        let eight = b.constant(W32, 8_u32);
        let len = b.select(fragment, eight, len);
        let behind = b.add(at, len);
        round.next(b, &[following, behind, no, no]);
    });
    b.unless(found[2], |b| bad(b, Reason::new("TooManyHeaders")));
    b.require_or(Layer::Net, HEADER_LEN, |b| bad(b, Reason::TRUNCATED));
    found[0]
}
