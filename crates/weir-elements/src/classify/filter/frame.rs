//! Reading of Ethernet frames: VLAN tags, IPv4 and IPv6.

use crate::fields::{ether, ipv6};
use weir_filter::{TAG_TYPES, WALKED_TAGS};
use weir_ir::{Builder, Layer, V, Width};

use super::View;
use super::cond::{Bit, ETHER_THERE, FRAGMENT, Field, VLAN_THERE, VLAN_WHOLE};
use super::read::{
    Headers, V4_LEN, V6_LEN, Wants, byte_or_zero, follow, has, inside_v4, mark_transport_v4, transport_bit,
    unusual,
};

impl Headers {
    /// Walks over VLAN tags if they are looked through; `net` marks what follows, or is unset if the frame is cut short, or
    /// has a tag and tags are not looked through.
    pub(super) fn read_link(&mut self, b: &mut Builder, wants: &Wants) {
        let wanted = |f: &&Field| matches!(f, Field::Vlan | Field::EtherSrc | Field::EtherDst);
        let mut fields = vec![Field::EtherType];
        fields.extend(wants.fields.iter().filter(wanted));
        let address = |b: &mut Builder, f: Field| {
            let off = if f == Field::EtherDst { 0 } else { 6 };
            let read = |b: &mut Builder| {
                let v = crate::headers::load_ether(b, Layer::Data, off);
                b.or(v, ETHER_THERE)
            };
            b.choose_has(Layer::Data, off + 6, read, |b| b.constant(Width::W64, 0_u64))
        };
        let values = self.join(b, &fields, |h, b, leave| {
            let none = b.constant(h.bits_width(), 0_u8);
            b.require_or(Layer::Data, 14, |b| {
                b.clear_mark(Layer::Net);
                let value = &mut |b: &mut Builder, f| match f {
                    Field::EtherSrc | Field::EtherDst => address(b, f),
                    f => b.constant(f.width(), 0_u8),
                };
                leave(b, value, none);
            });
            b.set_mark(Layer::Mac, Layer::Data, 0);
            let kind = ether::TYPE.load(b);
            let tag = is_tag(b, kind);
            b.unless(tag, |b| {
                b.set_mark(Layer::Net, Layer::Data, 14);
                let value = &mut |b: &mut Builder, f| match f {
                    Field::EtherType => kind,
                    Field::Vlan => b.constant(Width::W16, 0_u8),
                    f => address(b, f),
                };
                leave(b, value, none);
            });
            b.clear_mark(Layer::Net);
            let found = if wants.walks { walk_tags(b) } else { kind };
            let value = &mut |b: &mut Builder, f| match f {
                Field::EtherType => found,
                Field::Vlan => {
                    let whole = |b: &mut Builder| {
                        let tag = b.load(Width::W16, Layer::Data, 14);
                        let id = b.and(tag, 0x0fff);
                        b.or(id, VLAN_THERE | VLAN_WHOLE)
                    };
                    b.choose_has(Layer::Data, 16, whole, |b| b.constant(Width::W16, VLAN_THERE))
                }
                f => address(b, f),
            };
            leave(b, value, none);
        });
        self.take(fields, values);
        self.bits = None;
    }

    pub(super) fn read_net(&mut self, b: &mut Builder, view: View, wants: &Wants) {
        let net = |f: &&Field| {
            matches!(f, Field::V4(..) | Field::V6(_) | Field::Transport(..) | Field::Proto | Field::Arp(_))
        };
        let fields: Vec<Field> = wants.fields.iter().filter(net).copied().collect();
        let own =
            |b: &Bit| matches!(b, Bit::V4(_) | Bit::V6(_) | Bit::Transport(_) | Bit::Proto | Bit::Arp(_));
        if fields.is_empty() && !wants.bits.iter().any(own) && !wants.cursor {
            return;
        }
        let arp = wants.bits.iter().any(|b| matches!(b, Bit::Arp(_)));
        let ether_type = self.value(Field::EtherType);
        let values = self.join(b, &fields, |h, b, leave| {
            b.switch(ether_type, &[0x0800, 0x86dd], |b, case| {
                let (v4, len) = match case {
                    Some(0) => (true, V4_LEN),
                    Some(_) => (false, V6_LEN),
                    None if arp => return,
                    None => {
                        if wants.cursor {
                            b.clear_mark(Layer::Cursor);
                        }
                        let none = b.constant(h.bits_width(), 0_u8);
                        return leave(b, &mut |b, f| b.constant(f.width(), 0_u8), none);
                    }
                };
                let there = h.mask(|bit| match bit {
                    Bit::V4(_) => v4,
                    Bit::V6(_) => !v4,
                    bit => matches!(bit, Bit::Transport(_) | Bit::Proto),
                });
                let usual = |h: &Headers, b: &mut Builder| h.leave_usual(b, len, there, leave);
                h.usual_transport(b, view, wants, (len, v4), usual);
            });
            let is_v4 = b.eq(ether_type, 0x0800);
            let is_v6 = b.eq(ether_type, 0x86dd);
            b.clear_mark(Layer::Cursor);
            b.when(is_v4, mark_transport_v4);
            let of_protocol = wants.transport() || fields.contains(&Field::Proto);
            let (proto6, left6) = match view {
                View::Ip6Followed if of_protocol => {
                    let found = follow(b);
                    (found.proto, found.left)
                }
                _ => behind_ipv6(b, is_v6),
            };
            let none = b.constant(Width::W32, 0_u32);
            let (used4, limit4) = inside_v4(b);
            let used = b.choose(is_v4, |_| used4, |_| none);
            let limit = b.choose(is_v4, |_| limit4, |_| left6);
            let is_arp = if arp { is_arp(b, ether_type) } else { is_v4 };
            let bits = h.test_bits(b, |b, bit| {
                let (is, layer, end) = match bit {
                    Bit::V4(end) => (is_v4, Layer::Net, end),
                    Bit::V6(end) => (is_v6, Layer::Net, end),
                    Bit::Arp(end) => (is_arp, Layer::Net, end),
                    Bit::Proto => {
                        let (there4, there6) = (has(b, Layer::Net, 10), has(b, Layer::Net, 7));
                        let (v4, v6) = (b.and(is_v4, there4), b.and(is_v6, there6));
                        return Some(b.or(v4, v6));
                    }
                    bit => return transport_bit(b, bit, (used, limit)),
                };
                let there = has(b, layer, end);
                Some(b.and(is, there))
            });
            let value = &mut |b: &mut Builder, f| match f {
                Field::Proto => b.choose(is_v4, |b| byte_or_zero(b, Layer::Net, 9), |_| proto6),
                Field::Arp(_) => b.choose(is_arp, |b| unusual(b, f), |b| b.constant(Width::W32, 0_u32)),
                f => unusual(b, f),
            };
            leave(b, value, bits);
        });
        self.take(fields, values);
    }
}

fn is_arp(b: &mut Builder, ether_type: V) -> V {
    let (arp, rarp) = (b.eq(ether_type, 0x0806), b.eq(ether_type, 0x8035));
    b.or(arp, rarp)
}

/// The protocol of an IPv6 packet (8 bits; that behind a fragment header), and how many bytes the packet has behind its fixed
/// header by its length (32 bits). Sets `cursor` to the transport header if it stands there.
fn behind_ipv6(b: &mut Builder, is_v6: V) -> (V, V) {
    let left = |b: &mut Builder| {
        let read = |b: &mut Builder| {
            let next = ipv6::NEXT_HEADER.load(b);
            let other = b.ne(next, FRAGMENT);
            b.when(other, |b| b.set_mark(Layer::Cursor, Layer::Net, V6_LEN));
            let payload = ipv6::PAYLOAD_LENGTH.load(b);
            b.resize(Width::W32, payload)
        };
        b.choose_has(Layer::Net, V6_LEN, read, |b| b.constant(Width::W32, 0_u32))
    };
    let left = b.choose(is_v6, left, |b| b.constant(Width::W32, 0_u32));
    let proto = |b: &mut Builder| {
        let next = byte_or_zero(b, Layer::Net, 6);
        let fragment = b.eq(next, FRAGMENT);
        let there = b.ge(left, 1);
        let fragment = b.and(fragment, there);
        let behind = |b: &mut Builder| {
            b.choose_has(Layer::Net, V6_LEN + 1, |b| b.load(Width::W8, Layer::Net, V6_LEN), |_| next)
        };
        b.choose(fragment, behind, |_| next)
    };
    let proto = b.choose(is_v6, proto, |b| b.constant(Width::W8, 0_u8));
    (proto, left)
}

/// Whether an `EtherType` is that of a VLAN tag. One question rather than three, so that which of them it is makes no
/// difference to a program's paths.
fn is_tag(b: &mut Builder, kind: V) -> V {
    let [customer, service, old] = TAG_TYPES.map(|t| b.eq(kind, t));
    let tag = b.or(customer, service);
    b.or(tag, old)
}

/// Walks over VLAN tags from the 12th byte of a frame on, and marks what follows as `net` if it is there. The result
/// is the `EtherType` (16 bits; 0 if the frame is cut short or has more tags than [`WALKED_TAGS`]).
fn walk_tags(b: &mut Builder) -> V {
    b.set_mark(Layer::Cursor, Layer::Data, 12);
    let none = b.constant(Width::W16, 0_u16);
    let out = b.repeat(WALKED_TAGS + 1, &[none], |b, this, _| {
        b.require_or(Layer::Cursor, 2, |b| this.leave(b, &[none]));
        let kind = b.load(Width::W16, Layer::Cursor, 0);
        let tag = is_tag(b, kind);
        b.unless(tag, |b| {
            b.set_mark(Layer::Net, Layer::Cursor, 2);
            this.leave(b, &[kind]);
        });
        b.require_or(Layer::Cursor, 4, |b| this.leave(b, &[none]));
        b.set_mark(Layer::Cursor, Layer::Cursor, 4);
        this.next(b, &[none]);
    });
    out[0]
}
