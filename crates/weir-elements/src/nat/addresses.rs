//! Checksums of packets whose addresses alone change, whatever their protocol.

use crate::fields::ipv4;
use crate::prelude::*;

/// Updates the header checksum after address words changed, and that of TCP or UDP if the packet has its header.
pub(super) fn update(b: &mut Builder, old: &[V], new: &[V]) {
    update_ip_checksum(b, old, new);
    let fragment = ipv4::FRAGMENT.load(b);
    let offset = b.and(fragment, 0x1fff);
    let first = b.eq(offset, 0);
    b.when(first, |b| {
        let header_len = ip_header_len(b);
        b.require(Layer::Net, header_len, Reason::TRUNCATED);
        b.set_mark(Layer::Transport, Layer::Net, header_len);
        let proto = ipv4::PROTOCOL.load(b);
        b.switch(proto, &[proto::TCP.into(), proto::UDP.into()], |b, case| {
            let (need, field, udp) = match case {
                Some(0) => (18, 16, false),
                Some(_) => (8, 6, true),
                None => return,
            };
            b.if_has(
                Layer::Transport,
                need,
                |b| update_transport_checksum(b, field, udp, [old, new], [&[], &[]]),
                |_| {},
            );
        });
    });
}
