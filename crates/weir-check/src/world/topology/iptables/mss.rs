//! The target TCPMSS: the option of a SYN that says the largest segment its sender takes becomes smaller, or is added
//! where there is none and no data (`xt_TCPMSS.c`). Here any option may become anything, which includes that.

use weir_elements::build::{update_checksum, update_ip_checksum};
use weir_ir::{Builder, Layer, Reason, Width};

/// Most words of options (RFC 9293, section 3.1), and those of a header without.
const OPTIONS: u32 = 10;
const PLAIN: u32 = 5;

/// Changes the options of a TCP packet, whose IPv4 header is at `net`.
pub(super) fn clamp(b: &mut Builder) {
    b.require(Layer::Net, 20, Reason::TRUNCATED);
    let first = b.load(Width::W8, Layer::Net, 0);
    let words = b.and(first, 0x0f);
    let words = b.resize(Width::W32, words);
    let len = b.shl(words, 2);
    b.require(Layer::Net, len, Reason::TRUNCATED);
    b.set_mark(Layer::Transport, Layer::Net, len);
    b.if_has(
        Layer::Transport,
        4 * PLAIN,
        |b| {
            grow(b);
            change_from(b, 0);
        },
        |_| {},
    );
    b.clear_mark(Layer::Transport);
}

/// May add four bytes of options to a packet without data.
fn grow(b: &mut Builder) {
    let word = b.load(Width::W16, Layer::Transport, 12);
    let (first, total) = (b.load(Width::W8, Layer::Net, 0), b.load(Width::W16, Layer::Net, 2));
    let ip = b.and(first, 0x0f);
    let ip = b.resize(Width::W16, ip);
    let ip = b.shl(ip, 2);
    let words = b.shr(word, 12);
    let tcp = b.shl(words, 2);
    let headers = b.add(ip, tcp);
    let (empty, space) = (b.eq(total, headers), b.lt(words, OPTIONS + PLAIN));
    let random = b.random();
    let bit = b.and(random, 1);
    let chosen = b.eq(bit, 1);
    let possible = b.and(empty, space);
    let grows = b.and(possible, chosen);
    b.when(grows, |b| {
        // What lies behind the IP length was cut off when the packet came in.
        let header = b.resize(Width::W32, tcp);
        b.require(Layer::Transport, header, Reason::TRUNCATED);
        let before = b.distance(Layer::Data, Layer::Transport);
        let end = b.add(before, header);
        b.trim(end);
        b.put(4);
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        b.require(Layer::Transport, 4 * PLAIN, Reason::TRUNCATED);
        let (longer, more) = (b.add(word, 0x1000), b.add(total, 4));
        b.store(Layer::Transport, 12, longer);
        b.store(Layer::Net, 2, more);
        update_ip_checksum(b, &[total], &[more]);
        // The length is part of the pseudo header (RFC 9293, section 3.1).
        let long = b.add(tcp, 4);
        fix_checksum(b, &[word, tcp], &[longer, long]);
    });
}

/// Lets the options from a word on be anything.
fn change_from(b: &mut Builder, word: u32) {
    if word == OPTIONS {
        return;
    }
    let flags = b.load(Width::W16, Layer::Transport, 12);
    let words = b.shr(flags, 12);
    let there = b.gt(words, PLAIN + word);
    b.when(there, |b| {
        let at = 4 * (PLAIN + word);
        b.if_has(
            Layer::Transport,
            at + 4,
            |b| {
                let (old, new) = (b.load(Width::W32, Layer::Transport, at), b.random());
                b.store(Layer::Transport, at, new);
                let [old, new] = [old, new].map(|v| weir_elements::build::halves(b, v));
                fix_checksum(b, &old, &new);
                change_from(b, word + 1);
            },
            |_| {},
        );
    });
}

fn fix_checksum(b: &mut Builder, old: &[weir_ir::V], new: &[weir_ir::V]) {
    let field = b.load(Width::W16, Layer::Transport, 16);
    let updated = update_checksum(b, field, old, new);
    b.store(Layer::Transport, 16, updated);
}
