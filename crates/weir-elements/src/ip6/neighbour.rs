//! Messages of neighbour discovery (RFC 4861 section 4) in Ethernet frames.

use crate::fields::{ETHER_DST, ETHER_SRC, EtherAddress, Field, ether, icmpv6, ipv6, option};
use weir_packet::Checksum;

use super::chain::HEADER_LEN;
use super::icmp6;
use crate::prelude::*;

/// ICMPv6 type of a neighbour solicitation.
pub(super) const SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement.
pub(super) const ADVERTISEMENT: u8 = 136;
/// A link-layer address option of a solicitation: type 1, of eight bytes.
pub(super) const SOURCE_OPTION: u16 = 0x0101;
/// A link-layer address option of an advertisement: type 2, of eight bytes.
pub(super) const TARGET_OPTION: u16 = 0x0201;

/// Length of a message without options: up to the end of its target address.
const BARE_LEN: u32 = 24;
/// Length of a message with one link-layer address option.
pub(super) const MESSAGE_LEN: u32 = BARE_LEN + 8;
/// Length of an Ethernet frame with such a message.
pub(super) const FRAME_LEN: u32 = ETHER_LEN + HEADER_LEN + MESSAGE_LEN;

/// First bytes of the Ethernet addresses of IPv6 multicast (RFC 2464 section 7).
pub(super) const MULTICAST_ETHER: u64 = 0x3333_0000_0000;

/// A valid message.
pub(super) struct Message {
    /// The address that it speaks of (128 bits).
    pub(super) target: V,
    /// Its length (32 bits).
    pub(super) len: V,
}

/// Goes on with an Ethernet frame that has a valid message of this type (RFC 4861 sections 7.1.1 and 7.1.2), with
/// `net` and `transport` set; all others go to `bad`, which has to end. The bytes up to the target are known to be there.
pub(super) fn message(b: &mut Builder, kind: u8, bad: impl Fn(&mut Builder, Reason) + Copy) -> Message {
    let other = |b: &mut Builder| bad(b, Reason::new("NotNeighbour"));
    let wrong = |b: &mut Builder| bad(b, Reason::BAD_HEADER);
    b.require_or(Layer::Data, ETHER_LEN + HEADER_LEN + BARE_LEN, |b| bad(b, Reason::TRUNCATED));
    b.set_mark(Layer::Mac, Layer::Data, 0);
    b.set_mark(Layer::Net, Layer::Data, ETHER_LEN);
    b.set_mark(Layer::Transport, Layer::Data, ETHER_LEN + HEADER_LEN);
    let ether_type = ether::TYPE.load(b);
    let differs = b.ne(ether_type, ethertype::IPV6);
    b.when(differs, other);
    let version = ipv6::VERSION.load(b);
    let version = b.shr(version, 4);
    let differs = b.ne(version, 6);
    b.when(differs, other);
    let next = ipv6::NEXT_HEADER.load(b);
    let differs = b.ne(next, proto::ICMPV6);
    b.when(differs, other);
    let t = icmpv6::TYPE_CODE.load(b);
    let differs = b.ne(t, u16::from(kind) << 8);
    b.when(differs, other);
    // No router has forwarded it.
    let hops = ipv6::HOP_LIMIT.load(b);
    let far = b.ne(hops, 255);
    b.when(far, wrong);
    let target = icmpv6::TARGET.load(b);
    let class = b.shr(target, 120);
    let group = b.eq(class, 0xff);
    b.when(group, wrong);
    let len = ipv6::PAYLOAD_LENGTH.load(b);
    let len = b.resize(W32, len);
    let short = b.lt(len, BARE_LEN);
    b.when(short, wrong);
    b.require_or(Layer::Transport, len, |b| bad(b, Reason::TRUNCATED));
    let state = b.load_meta(MetaField::Checksum);
    let unknown = b.eq(state, Checksum::Unknown as u8);
    b.when(unknown, |b| {
        let sum = icmp6::sum(b, len);
        let differs = b.ne(sum, 0xffff);
        b.when(differs, |b| bad(b, Reason::BAD_CHECKSUM));
    });
    b.require_or(Layer::Transport, BARE_LEN, |b| bad(b, Reason::TRUNCATED));
    Message { target, len }
}

/// The Ethernet address in the first option of this type and length, as in [`ether_bits`]; 0 if there is none. A message
/// with an option of no length goes to `bad`, which has to end.
pub(super) fn link_address(
    b: &mut Builder,
    m: &Message,
    option: u16,
    bad: impl Fn(&mut Builder) + Copy,
) -> V {
    let first = b.constant(W32, BARE_LEN);
    let none = b.constant(W64, 0_u64);
    let found = b.repeat(8, &[first, none], |b, round, vars| {
        let at = vars[0];
        let nothing = |b: &mut Builder| round.leave(b, &[at, none]);
        let over = b.ge(at, m.len);
        b.when(over, nothing);
        b.require_or(Layer::Transport, at, nothing);
        b.set_mark(Layer::Cursor, Layer::Transport, at);
        b.require_or(Layer::Cursor, 8, nothing);
        let start = b.load(W16, Layer::Cursor, 0);
        let here = b.eq(start, option);
        b.when(here, |b| {
            let eth = load_ether(b, Layer::Cursor, 2);
            round.leave(b, &[at, eth]);
        });
        let units = option::LENGTH.load(b);
        let empty = b.eq(units, 0);
        b.when(empty, bad);
        let units = b.resize(W32, units);
        let len = b.shl(units, 3);
        let next = b.add(at, len);
        round.next(b, &[next, none]);
    });
    found[1]
}

/// Writes a message with one link-layer address option into a frame of [`FRAME_LEN`] bytes, which are known to be
/// there, and sets its marks. `flags` are the 32 bits behind the checksum.
pub(super) struct Reply {
    pub(super) ether: [V; 2],
    pub(super) kind: u8,
    pub(super) flags: V,
    pub(super) option: u16,
}

impl Reply {
    /// Writes it; addresses are those of the IPv6 header, source first, and the target.
    pub(super) fn write(&self, b: &mut Builder, [src, dst, target]: [V; 3]) {
        let [to, from] = self.ether;
        ETHER_DST.store(b, to);
        ETHER_SRC.store(b, from);
        ether::TYPE.store_const(b, ethertype::IPV6);
        let ip = |field: Field| field.at(Layer::Data, ETHER_LEN);
        let message = |field: Field| field.at(Layer::Data, ETHER_LEN + HEADER_LEN);
        ip(ipv6::START).store_const(b, 0x6000_0000_u32);
        ip(ipv6::PAYLOAD_LENGTH).store_const(b, MESSAGE_LEN);
        b.store_const(W16, Layer::Data, ETHER_LEN + 6, u16::from(proto::ICMPV6) << 8 | 255);
        ip(ipv6::SRC).store(b, src);
        ip(ipv6::DST).store(b, dst);
        message(icmpv6::START).store_const(b, u32::from(self.kind) << 24);
        message(icmpv6::FLAGS_RESERVED).store(b, self.flags);
        message(icmpv6::TARGET).store(b, target);
        let option = ETHER_LEN + HEADER_LEN + BARE_LEN;
        b.store_const(W16, Layer::Data, option, self.option);
        EtherAddress::at(option + 2).store(b, from);
        b.set_mark(Layer::Mac, Layer::Data, 0);
        b.set_mark(Layer::Net, Layer::Data, ETHER_LEN);
        b.set_mark(Layer::Transport, Layer::Data, ETHER_LEN + HEADER_LEN);
        let len = b.constant(W32, MESSAGE_LEN);
        icmp6::fill_checksum(b, len);
    }
}

#[cfg(test)]
pub(super) mod samples {
    use std::net::Ipv6Addr;

    use super::super::samples::icmp;
    use weir_net::{EtherAddr, build};

    /// The frame of a message with one link-layer address option, if `option` is not 0.
    pub(in super::super) fn frame(
        ether: (EtherAddr, EtherAddr),
        ip: (Ipv6Addr, Ipv6Addr),
        (kind, flags): (u8, u8),
        target: Ipv6Addr,
        option: (u8, EtherAddr),
    ) -> Vec<u8> {
        let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
        message.extend(target.octets());
        if option.0 != 0 {
            message.extend([option.0, 1]);
            message.extend(option.1.octets());
        }
        let mut p = icmp(ip.0, ip.1, &message);
        p[7] = 255;
        build::ethernet(ether.1, ether.0, 0x86dd, &p)
    }
}
