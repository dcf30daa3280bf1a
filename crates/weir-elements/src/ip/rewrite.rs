//! What the elements that change an address share.

use crate::fields::ipv4;
use crate::prelude::*;

/// What replacing a 32-bit word does to a ones' complement sum of which it is part (RFC 1624, equation 3).
pub(super) fn difference(b: &mut Builder, old: V, new: V) -> V {
    let gone = b.not(old);
    let [gone_high, gone_low] = halves(b, gone);
    let [high, low] = halves(b, new);
    let gone = b.sum16(gone_high, gone_low);
    let new = b.sum16(high, low);
    b.sum16(gone, new)
}

/// Updates the IPv4 header checksum after a change.
pub(super) fn update_header(b: &mut Builder, difference: V) {
    let nothing = b.constant(W16, 0xffff_u16);
    update_ip_checksum(b, &[nothing], &[difference]);
}

/// Sets an address of the IPv4 header at `net + off`, of which 20 bytes are known to be there, and updates its
/// checksum, and that of TCP or UDP behind the `transport` mark as far as it is there.
pub(super) fn set_address(b: &mut Builder, off: u32, new: V) {
    let old = b.load(W32, Layer::Net, off);
    b.store(Layer::Net, off, new);
    let difference = difference(b, old, new);
    update_header(b, difference);
    let fragment = ipv4::FRAGMENT.load(b);
    let offset = b.and(fragment, 0x1fff);
    let later = b.ne(offset, 0);
    b.unless(later, |b| {
        let nothing = b.constant(W16, 0xffff_u16);
        let protocol = ipv4::PROTOCOL.load(b);
        b.switch(protocol, &[proto::TCP.into(), proto::UDP.into()], |b, case| {
            let (need, field, udp) = match case {
                Some(0) => (18, 16, false),
                Some(_) => (8, 6, true),
                None => return,
            };
            b.if_has(
                Layer::Transport,
                need,
                |b| update_transport_checksum(b, field, udp, [&[nothing], &[difference]], [&[], &[]]),
                |_| {},
            );
        });
    });
}
