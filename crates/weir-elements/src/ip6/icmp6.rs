//! ICMPv6 messages (RFC 4443).

use crate::fields::icmpv6;
use crate::prelude::*;

/// Sum over the ICMPv6 message of `len` bytes at `transport` and its pseudo header (RFC 8200 section 8.1). The IPv6
/// header and the message have to be known to be there.
pub(super) fn sum(b: &mut Builder, len: V) -> V {
    let message = b.checksum(Layer::Transport, 0, len);
    let addresses = b.checksum(Layer::Net, 8, 40);
    let sum = b.sum16(message, addresses);
    let sum = b.sum16(sum, proto::ICMPV6);
    let len = b.resize(W16, len);
    b.sum16(sum, len)
}

/// Writes the checksum of the message of `len` bytes at `transport`, whose checksum field is 0.
pub(super) fn fill_checksum(b: &mut Builder, len: V) {
    b.require(Layer::Net, 40, Reason::TRUNCATED);
    b.require(Layer::Transport, len, Reason::TRUNCATED);
    let sum = sum(b, len);
    let field = b.not(sum);
    b.require(Layer::Transport, 4, Reason::TRUNCATED);
    icmpv6::CHECKSUM.store(b, field);
}
