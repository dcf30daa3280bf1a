//! Pieces of programs that many elements share: header access and checksum updates.

use crate::fields::ipv4;
use weir_ir::program::TableId;
use weir_ir::{Builder, Layer, MetaField, Reason, V, Width};
use weir_net::EtherAddr;
use weir_packet::{Checksum, Provenance};

/// Length of an Ethernet header.
pub(crate) const ETHER_LEN: u32 = 14;

/// Adds 1 to a cell.
pub(crate) fn count(b: &mut Builder, cell: TableId) {
    let n = b.read_cell(cell);
    let n = b.add(n, 1);
    b.write_cell(cell, n);
}

/// Says that the packet is one that the element makes from now on: an answer to what it was, or one that has nothing of it.
/// What answers a packet that an element made has nothing of what came in, either.
pub(crate) fn becomes(b: &mut Builder, what: Provenance) {
    let mut what = b.constant(Width::W8, what as u8);
    let was = b.load_meta(MetaField::Provenance);
    let is_made = b.eq(was, Provenance::Made as u8);
    what = b.select(is_made, was, what);
    b.store_meta(MetaField::Provenance, what);
}

/// A 32-bit value as two 16-bit ones, high half first.
pub fn halves(b: &mut Builder, v: V) -> [V; 2] {
    let high = b.shr(v, 16);
    [b.resize(Width::W16, high), b.resize(Width::W16, v)]
}

/// Length in bytes of the IPv4 header at `net`, whose first byte must be known to be there (32 bits).
pub(crate) fn ip_header_len(b: &mut Builder) -> V {
    let first = ipv4::VERSION_IHL.load(b);
    let words = b.and(first, 0x0f);
    let bytes = b.shl(words, 2);
    b.resize(Width::W32, bytes)
}

/// The protocol number of IPv6's fragment header.
pub(crate) const FRAGMENT_HEADER: u8 = 44;
const AUTHENTICATION_HEADER: u8 = 51;
/// The protocol numbers of the extension headers of IPv6 that have a known length (RFC 8200 section 4, RFC 4302): hop-by-hop
/// options, routing, fragment, authentication, destination options.
pub(crate) const EXTENSION_HEADERS: [u8; 5] = [0, 43, FRAGMENT_HEADER, AUTHENTICATION_HEADER, 60];

/// Whether a protocol is that of an extension header (1 bit).
pub(crate) fn is_extension_header(b: &mut Builder, proto: V) -> V {
    let is = EXTENSION_HEADERS.map(|p| b.eq(proto, p));
    let first = is[0];
    is[1..].iter().fold(first, |any, is| b.or(any, *is))
}

/// Length of an extension header in bytes (32 bits), by its protocol and the length that it gives (32 bits). A fragment header
/// gives none: of it this is not the length, which is 8.
pub(crate) fn extension_header_len(b: &mut Builder, proto: V, len: V) -> V {
    let usual = b.add(len, 1);
    let usual = b.shl(usual, 3);
    let words = b.add(len, 2);
    let words = b.shl(words, 2);
    let authentication = b.eq(proto, AUTHENTICATION_HEADER);
    b.select(authentication, words, usual)
}

/// Marks the transport header behind the IPv4 header at `net`, of which 20 bytes are there. What is no start of a packet
/// ends by `later`, and a header that is cut off by `cut`.
pub(crate) fn mark_transport(
    b: &mut Builder,
    later: impl FnOnce(&mut Builder),
    cut: impl FnOnce(&mut Builder),
) {
    let fragment = ipv4::FRAGMENT.load(b);
    let offset = b.and(fragment, 0x1fff);
    let is_later = b.ne(offset, 0);
    b.when(is_later, later);
    // Nearly all headers have no options.
    let first = ipv4::VERSION_IHL.load(b);
    let plain = b.eq(first, 0x45);
    b.if_else(
        plain,
        |b| b.set_mark(Layer::Transport, Layer::Net, 20),
        |b| {
            let header_len = ip_header_len(b);
            b.require_or(Layer::Net, header_len, cut);
            b.set_mark(Layer::Transport, Layer::Net, header_len);
        },
    );
}

/// An Internet checksum field after the summed words `old` became `new`.
pub fn update_checksum(b: &mut Builder, field: V, old: &[V], new: &[V]) -> V {
    let change = checksum_change(b, old, new);
    changed(b, field, change)
}

/// What replacing words adds to the ones' complement sum over them (RFC 1624, equation 3).
pub fn checksum_change(b: &mut Builder, old: &[V], new: &[V]) -> V {
    let mut sum = b.constant(Width::W16, 0_u16);
    for (old, new) in old.iter().zip(new) {
        let gone = b.not(*old);
        sum = b.sum16(sum, gone);
        sum = b.sum16(sum, *new);
    }
    sum
}

/// Updates the IPv4 header checksum after header words changed.
pub fn update_ip_checksum(b: &mut Builder, old: &[V], new: &[V]) {
    let change = checksum_change(b, old, new);
    apply_ip_change(b, change);
}

/// Updates the IPv4 header checksum after a [`checksum_change`].
pub fn apply_ip_change(b: &mut Builder, change: V) {
    let field = ipv4::CHECKSUM.load(b);
    let updated = changed(b, field, change);
    ipv4::CHECKSUM.store(b, updated);
}

fn changed(b: &mut Builder, field: V, change: V) -> V {
    let sum = b.not(field);
    let sum = b.sum16(sum, change);
    b.not(sum)
}

/// Updates the TCP or UDP checksum at `transport + off` after words changed: `pseudo` of the pseudo header
/// (addresses), `own` of the transport header (ports).
pub fn update_transport_checksum(b: &mut Builder, off: u32, udp: bool, pseudo: [&[V]; 2], own: [&[V]; 2]) {
    let pseudo = checksum_change(b, pseudo[0], pseudo[1]);
    let own = checksum_change(b, own[0], own[1]);
    let all = b.sum16(pseudo, own);
    apply_transport_change(b, off, udp, pseudo, all);
}

/// Updates the TCP or UDP checksum at `transport + off` after a [`checksum_change`] of the pseudo header, and of that
/// and the transport header together.
///
/// A partial checksum is a plain sum of the pseudo header alone, so only its words change it; and a UDP checksum of
/// 0 means that there is none (RFC 768), and stays.
pub fn apply_transport_change(b: &mut Builder, off: u32, udp: bool, pseudo: V, all: V) {
    let field = b.load(Width::W16, Layer::Transport, off);
    let state = b.load_meta(MetaField::Checksum);
    let partial = b.eq(state, Checksum::Partial as u8);
    b.if_else(
        partial,
        |b| {
            let updated = b.sum16(field, pseudo);
            b.store(Layer::Transport, off, updated);
        },
        |b| {
            let updated = changed(b, field, all);
            let value = if udp {
                // 0 goes out as all ones, and no checksum stays none.
                let is_zero = b.eq(updated, 0);
                let ones = b.constant(Width::W16, 0xffff_u16);
                let updated = b.select(is_zero, ones, updated);
                let none = b.eq(field, 0);
                b.select(none, field, updated)
            } else {
                updated
            };
            b.store(Layer::Transport, off, value);
        },
    );
}

/// An Ethernet address as a 64-bit value (its 48 bits, right-aligned).
pub fn ether_bits(addr: EtherAddr) -> u64 {
    addr.octets().iter().fold(0, |v, &o| v << 8 | u64::from(o))
}

/// The Ethernet address of these bits as Click's tables show it: `02-00-00-00-00-0A`.
pub(crate) fn hyphenated(bits: u128) -> String {
    let [_, _, octets @ ..] = (bits as u64).to_be_bytes();
    octets.map(|octet| format!("{octet:02X}")).join("-")
}

/// Writes an Ethernet address, given as in [`ether_bits`].
pub fn store_ether(b: &mut Builder, layer: Layer, off: u32, addr: V) {
    let high = b.shr(addr, 32);
    let high = b.resize(Width::W16, high);
    b.store(layer, off, high);
    let low = b.resize(Width::W32, addr);
    b.store(layer, off + 2, low);
}

/// Reads an Ethernet address, as in [`ether_bits`].
pub fn load_ether(b: &mut Builder, layer: Layer, off: u32) -> V {
    let high = b.load(Width::W16, layer, off);
    let high = b.resize(Width::W64, high);
    let high = b.shl(high, 32);
    let low = b.load(Width::W32, layer, off + 2);
    let low = b.resize(Width::W64, low);
    b.or(high, low)
}

/// Puts an Ethernet header in front and sets the `mac` mark. Both writes have eight bytes; they overlap in two.
pub(crate) fn push_ether(b: &mut Builder, dst: V, src: V, ethertype: u16) {
    let front = b.shl(dst, 16);
    let middle = b.shr(src, 32);
    let front = b.or(front, middle);
    let back = b.shl(src, 16);
    let back = b.or(back, ethertype);
    push_ether_words(b, front, back);
}

/// As [`push_ether`], with the header's first and last eight bytes.
pub(crate) fn push_ether_words(b: &mut Builder, front: V, back: V) {
    b.push(ETHER_LEN);
    b.set_mark(Layer::Mac, Layer::Data, 0);
    b.store(Layer::Data, 0, front);
    b.store(Layer::Data, 6, back);
}

/// Goes on if `net` marks an IPv4 header without options or with, of which the first 20 bytes are there.
pub(crate) fn require_ip(b: &mut Builder) {
    require_marked(b, Layer::Net, 20);
}

/// Goes on if a header is marked that an element before has found, and `n` bytes are there from it on; else drops the packet.
pub(crate) fn require_marked(b: &mut Builder, layer: Layer, n: u32) {
    require_marked_or(b, layer, n, Builder::drop);
}

/// The same; what does not go on ends by `refuse`, which is given whether it is `Unmarked` or `Truncated`.
pub(crate) fn require_marked_or(
    b: &mut Builder,
    layer: Layer,
    n: u32,
    refuse: impl Fn(&mut Builder, Reason),
) {
    b.require_or(layer, n, |b| {
        let place = b.distance(layer, layer);
        let unset = b.eq(place, u32::MAX);
        b.when(unset, |b| refuse(b, Reason::UNMARKED));
        refuse(b, Reason::TRUNCATED);
    });
}

/// Lets packets of other protocols than this one pass on output 0. 20 bytes of the IPv4 header at `net` are there.
pub(crate) fn pass_others(b: &mut Builder, protocol: u8) {
    let found = ipv4::PROTOCOL.load(b);
    let other = b.ne(found, protocol);
    b.when(other, |b| b.emit(0));
}

/// Writes a complete IPv4 header checksum for the 20-byte header at `net`.
pub(crate) fn fill_ip_checksum(b: &mut Builder) {
    ipv4::CHECKSUM.store_const(b, 0_u16);
    let sum = b.checksum(Layer::Net, 0, 20);
    let field = b.not(sum);
    ipv4::CHECKSUM.store(b, field);
}
