use crate::fields::{ipv4, option, tcp};
use weir_packet::Checksum;

use crate::prelude::*;

element! {
    /// Cuts IPv4 packets that are longer than `MTU` into fragments (RFC 791 section 3.2).
    ///
    /// Fragments leave in order on output 0. Packets that must not be cut leave on output 1, unchanged, or are
    /// dropped (`NeedsFragments`): `ICMPError(…, unreachable, needfrag)` answers them. The first fragment keeps what
    /// stands in front of the IP header; the others start with it, and have those options that belong into each
    /// fragment. Bytes behind the length that the header gives are cut off. Packets whose header is wrong are
    /// dropped (`Truncated`, `BadHeader`, `BadLength`). The `net` mark has to stand on an IPv4 header; packets
    /// without pass. A packet that a kernel left to the device to segment passes whole if its segments are short enough.
    IPFragmenter: "1/1-2", "h/h";
    example "Idle -> CheckIPHeader -> f :: IPFragmenter(576) -> Discard; f [1] -> ICMPError(10.0.0.1, unreachable, needfrag, PMTU 576) -> Discard;";
    example "Idle -> CheckIPHeader -> IPFragmenter(68, HONOR_DF false) -> Discard;";
    params {
        /// Longest packet in bytes, IP header included; at least 28. Below 68 (RFC 791), packets whose header leaves no
        /// space for 8 bytes are not cut.
        pos mtu: u32,
        /// Whether packets that say so are not cut. If not, they get a random identification.
        pos honor_df: bool = true,
        /// Kept for Click configurations: drops are counted and traced.
        pos verbose: bool = false,
        /// Kept for Click configurations: every packet has space for headers in front.
        key headroom: u32 = 28,
    }
    check |e| match e.mtu {
        LEAST.. => Ok(()),
        mtu => Err(format!("MTU: {mtu} is too short; at least {LEAST}: an IP header and 8 bytes")),
    };
    handlers {
        /// Number of packets that were not to be cut.
        count drops,
        /// Number of fragments.
        count fragments,
    }
}

/// Shortest MTU: a header without options, and the least that a fragment carries.
const LEAST: u32 = 28;
/// MTU that each packet can be cut for: a header with all options, and 8 bytes.
const ENOUGH: u32 = 68;
/// Most fragments of a packet behind the first: what one run of a program may start.
const MOST: u32 = 4000;
/// Flags, and the part of the field that is the offset.
const DONT_FRAGMENT: u32 = 0x4000;
const MORE_FRAGMENTS: u32 = 0x2000;
const OFFSET: u32 = 0x1fff;

fn program(e: &IPFragmenter, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    let fragments = b.cell("fragments", W64, 0);
    b.input(0, |b| {
        let len = b.rest(Layer::Net);
        let long = b.gt(len, e.mtu);
        b.when(long, |b| cut(e, b, drops, fragments));
        b.emit(0);
    });
}

/// Cuts the current packet, which is too long, and emits it as the first fragment.
fn cut(e: &IPFragmenter, b: &mut Builder, drops: TableId, fragments: TableId) {
    b.require(Layer::Net, 20, Reason::TRUNCATED);
    let header = ip_header_len(b);
    let short = b.lt(header, 20);
    b.when(short, |b| b.drop(Reason::BAD_HEADER));
    let total = ipv4::LENGTH.load(b);
    let total = b.resize(W32, total);
    let short = b.lt(total, header);
    b.when(short, |b| b.drop(Reason::new("BadLength")));
    b.require(Layer::Net, total, Reason::TRUNCATED);
    b.require(Layer::Net, header, Reason::TRUNCATED);
    let lead = b.distance(Layer::Data, Layer::Net);
    let fits = b.le(total, e.mtu);
    b.when(fits, |b| finish(b, lead, total));

    pass_segments(e, b, header);
    let field = ipv4::FRAGMENT.load(b);
    let fixed = b.and(field, DONT_FRAGMENT);
    let fixed = b.ne(fixed, 0);
    let refuse = |b: &mut Builder| {
        count(b, drops);
        b.emit_or_drop(1, Reason::new("NeedsFragments"));
    };
    if e.mtu < ENOUGH {
        let no_space = b.gt(header, e.mtu - 8);
        b.when(no_space, refuse);
    }
    let body = b.sub(total, header);
    let own_header = if_plain(b, header, |b| options(b, header, false));
    let step = space(b, e.mtu, own_header);
    let first = space(b, e.mtu, header);
    if e.honor_df {
        b.when(fixed, refuse);
    }
    let most = b.mul(step, MOST);
    let too_many = b.gt(body, most);
    b.when(too_many, refuse);
    // The fragments of a fragment must not end beyond the longest packet.
    let before = b.and(field, OFFSET);
    let before = b.resize(W32, before);
    let before = b.shl(before, 3);
    let end = b.add(before, body);
    let beyond = b.gt(end, 0xffff_u32);
    b.when(beyond, |b| b.drop(Reason::new("BadLength")));

    finish_checksum(b, header, body);
    // Fragments are not segmented.
    let nothing = b.constant(W16, 0_u16);
    b.store_meta(MetaField::SegmentSize, nothing);
    let field = if e.honor_df {
        field
    } else {
        b.when(fixed, |b| {
            let id = b.random();
            let id = b.resize(W16, id);
            ipv4::ID.store(b, id);
        });
        b.and(field, !DONT_FRAGMENT & 0xffff)
    };
    b.repeat(MOST, &[first], |b, round, vars| {
        let at = vars[0];
        let done = b.ge(at, body);
        b.when(done, |b| round.leave(b, &[at]));
        let left = b.sub(body, at);
        let last = b.le(left, step);
        let len = b.select(last, left, step);
        let units = b.shr(at, 3);
        let units = b.resize(W16, units);
        let end = b.add(field, units);
        let more = b.or(end, MORE_FRAGMENTS);
        let field = b.select(last, end, more);
        // The copy finds its length and flags where they belong, and its place where the checksum will be.
        let len = b.add(own_header, len);
        let len = b.resize(W16, len);
        ipv4::LENGTH.store(b, len);
        ipv4::FRAGMENT.store(b, field);
        ipv4::CHECKSUM.store(b, units);
        count(b, fragments);
        b.fork(later_fragment);
        let at = b.add(at, step);
        round.next(b, &[at]);
    });
    count(b, fragments);
    let len = b.add(header, first);
    let len16 = b.resize(W16, len);
    ipv4::LENGTH.store(b, len16);
    let field = b.or(field, MORE_FRAGMENTS);
    ipv4::FRAGMENT.store(b, field);
    fill_checksum(b, header);
    finish(b, lead, len);
}

/// Makes a copy of the whole packet the fragment that its header describes, and emits it.
fn later_fragment(b: &mut Builder) {
    let header = ip_header_len(b);
    let total = ipv4::LENGTH.load(b);
    let total = b.resize(W32, total);
    let units = ipv4::CHECKSUM.load(b);
    let at = b.resize(W32, units);
    let at = b.shl(at, 3);
    let own_header = if_plain(b, header, |b| options(b, header, true));
    let words = b.shr(own_header, 2);
    let words = b.resize(W8, words);
    let first = b.or(words, 0x40);
    b.store(Layer::Net, 0, first);
    // The header moves to the front of its bytes.
    let end = b.add(header, at);
    let start = b.sub(end, own_header);
    b.require(Layer::Net, start, Reason::TRUNCATED);
    b.set_mark(Layer::Cursor, Layer::Net, start);
    let lengths: Vec<u128> = (20..=60).step_by(4).collect();
    b.switch(own_header, &lengths, |b, case| {
        let len = case.map_or(20, |i| lengths[i] as u32);
        for layer in [Layer::Net, Layer::Cursor] {
            b.require(layer, len, Reason::TRUNCATED);
        }
        b.copy_bytes((Layer::Cursor, 0), (Layer::Net, 0), len);
    });
    let lead = b.distance(Layer::Data, Layer::Cursor);
    b.require(Layer::Data, lead, Reason::TRUNCATED);
    b.pull(lead);
    b.clear_mark(Layer::Mac);
    b.set_mark(Layer::Net, Layer::Data, 0);
    b.require(Layer::Net, own_header, Reason::TRUNCATED);
    b.require(Layer::Net, 20, Reason::TRUNCATED);
    b.set_mark(Layer::Transport, Layer::Net, own_header);
    fill_checksum(b, own_header);
    let none = b.constant(W32, 0_u32);
    finish(b, none, total);
}

/// 20 if the header is so long, else what `options` says.
fn if_plain(b: &mut Builder, header: V, options: impl FnOnce(&mut Builder) -> V) -> V {
    let plain = b.eq(header, 20);
    b.choose(plain, |b| b.constant(W32, 20_u32), options)
}

/// Bytes of the body that a fragment has space for: a multiple of 8.
fn space(b: &mut Builder, mtu: u32, header: V) -> V {
    let mtu = b.constant(W32, mtu);
    let space = b.sub(mtu, header);
    b.and(space, !7_u32)
}

/// Computes the header checksum. The header is known to be there, and so are 20 bytes.
fn fill_checksum(b: &mut Builder, header: V) {
    ipv4::CHECKSUM.store_const(b, 0_u16);
    let sum = b.checksum(Layer::Net, 0, header);
    let field = b.not(sum);
    ipv4::CHECKSUM.store(b, field);
}

/// Emits the packet if a device will segment it into packets that are short enough.
fn pass_segments(e: &IPFragmenter, b: &mut Builder, header: V) {
    let payload = b.load_meta(MetaField::SegmentSize);
    let payload = b.resize(W32, payload);
    let segmented = b.ne(payload, 0);
    b.when(segmented, |b| {
        b.set_mark(Layer::Transport, Layer::Net, header);
        let protocol = ipv4::PROTOCOL.load(b);
        let before = b.add(header, payload);
        let pass = |b: &mut Builder, transport: V| {
            let len = b.add(before, transport);
            let fits = b.le(len, e.mtu);
            b.when(fits, |b| b.emit(0));
        };
        b.switch(protocol, &[proto::TCP.into(), proto::UDP.into()], |b, case| match case {
            Some(0) => b.if_has(
                Layer::Transport,
                20,
                |b| {
                    let words = tcp::DATA_OFFSET.load(b);
                    let words = b.shr(words, 4);
                    let words = b.resize(W32, words);
                    let transport = b.shl(words, 2);
                    pass(b, transport);
                },
                |_| {},
            ),
            Some(_) => {
                let transport = b.constant(W32, 8_u32);
                pass(b, transport);
            }
            None => {}
        });
    });
}

/// Cuts the packet behind `len` bytes of IP and emits it.
fn finish(b: &mut Builder, lead: V, len: V) {
    let len = b.add(lead, len);
    b.trim(len);
    b.require(Layer::Net, 20, Reason::TRUNCATED);
    b.emit(0);
}

/// The checksum of TCP or UDP that a kernel left to the device, which sees no more than a part of the packet.
fn finish_checksum(b: &mut Builder, header: V, body: V) {
    let state = b.load_meta(MetaField::Checksum);
    let partial = b.eq(state, Checksum::Partial as u8);
    b.when(partial, |b| {
        b.set_mark(Layer::Transport, Layer::Net, header);
        let protocol = ipv4::PROTOCOL.load(b);
        b.switch(protocol, &[proto::TCP.into(), proto::UDP.into()], |b, case| {
            let off = match case {
                Some(0) => 16,
                Some(_) => 6,
                None => return,
            };
            b.require(Layer::Transport, body, Reason::TRUNCATED);
            b.require(Layer::Transport, off + 2, Reason::TRUNCATED);
            let sum = b.checksum(Layer::Transport, 0, body);
            let field = b.not(sum);
            // For UDP, 0 says that there is none.
            let none = b.eq(field, 0);
            let ones = b.constant(W16, 0xffff_u16);
            let field = b.select(none, ones, field);
            b.store(Layer::Transport, off, field);
        });
        let whole = b.constant(W8, Checksum::Unknown as u8);
        b.store_meta(MetaField::Checksum, whole);
    });
}

/// Length of the header that later fragments have: that of the options that are copied, padded. With `compact`,
/// these options move together behind the fixed header. The header is known to be there.
fn options(b: &mut Builder, header: V, compact: bool) -> V {
    let start = b.constant(W32, 20_u32);
    let (zero, no) = (b.constant(W32, 0_u32), b.constant(W1, 0_u8));
    // Where the next byte is and where it goes, how many more the option has, and whether it is copied.
    let after = b.repeat(40, &[start, start, zero, no], |b, round, vars| {
        let [from, to, left, copied] = [vars[0], vars[1], vars[2], vars[3]];
        let end = b.ge(from, header);
        b.when(end, |b| round.leave(b, vars));
        b.require(Layer::Net, from, Reason::TRUNCATED);
        b.set_mark(Layer::Cursor, Layer::Net, from);
        b.require(Layer::Cursor, 1, Reason::TRUNCATED);
        let byte = b.load(W8, Layer::Cursor, 0);
        let next = b.add(from, 1);
        let begins = b.eq(left, 0);
        let left = b.choose(
            begins,
            |b| {
                let skip = b.eq(byte, 1);
                b.when(skip, |b| round.next(b, &[next, to, zero, no]));
                // The end of the options, or one that is wrong.
                let end = b.eq(byte, 0);
                b.when(end, |b| round.leave(b, vars));
                let rest = b.sub(header, from);
                let alone = b.lt(rest, 2);
                b.when(alone, |b| round.leave(b, vars));
                b.require(Layer::Cursor, 2, Reason::TRUNCATED);
                let len = option::LENGTH.load(b);
                let len = b.resize(W32, len);
                let (short, long) = (b.lt(len, 2), b.gt(len, rest));
                let wrong = b.or(short, long);
                b.when(wrong, |b| round.leave(b, vars));
                len
            },
            |_| left,
        );
        let flag = b.ge(byte, 0x80);
        let copied = b.select(begins, flag, copied);
        if compact {
            b.when(copied, |b| put(b, to, byte));
        }
        let further = b.add(to, 1);
        let to = b.select(copied, further, to);
        let left = b.sub(left, 1);
        round.next(b, &[next, to, left, copied]);
    });
    let end = after[1];
    let padded = b.add(end, 3);
    let padded = b.and(padded, !3_u32);
    if compact {
        b.repeat(3, &[end], |b, round, vars| {
            let done = b.ge(vars[0], padded);
            b.when(done, |b| round.leave(b, vars));
            let zero = b.constant(W8, 0_u8);
            put(b, vars[0], zero);
            let next = b.add(vars[0], 1);
            round.next(b, &[next]);
        });
    }
    padded
}

/// Writes a byte into the header; the `mac` mark serves as a second cursor.
fn put(b: &mut Builder, at: V, byte: V) {
    b.require(Layer::Net, at, Reason::TRUNCATED);
    b.set_mark(Layer::Mac, Layer::Net, at);
    b.require(Layer::Mac, 1, Reason::TRUNCATED);
    b.store(Layer::Mac, 0, byte);
}

#[cfg(test)]
mod tests;
