//! Reading of Ethernet frames: VLAN tags, IPv4 and IPv6.

use weir_ir::{Builder, Layer, V, Width};
use weir_net::ethertype;

use super::cond::{Bit, ETHER_THERE, Field, VLAN_THERE};
use super::read::{
    Headers, V4_LEN, V6_LEN, Wants, byte_or_zero, has, mark_transport_v4, transport_bit, unusual,
};

impl Headers {
    /// Walks over VLAN tags; `net` marks what follows, or is unset if the frame is cut short.
    pub(super) fn read_link(&mut self, b: &mut Builder, wants: &Wants) {
        let wanted = |f: &&Field| matches!(f, Field::Vlan | Field::EtherSrc | Field::EtherDst);
        let mut fields = vec![Field::EtherType];
        fields.extend(wants.fields.iter().filter(wanted));
        let address = |b: &mut Builder, f: Field| {
            let v = crate::headers::load_ether(b, Layer::Data, if f == Field::EtherDst { 0 } else { 6 });
            b.or(v, ETHER_THERE)
        };
        let values = self.join(b, &fields, |h, b, leave| {
            let none = b.constant(h.bits_width(), 0_u8);
            b.require_or(Layer::Data, 14, |b| {
                b.clear_mark(Layer::Net);
                leave(b, &mut |b, f| b.constant(f.width(), 0_u8), none);
            });
            b.set_mark(Layer::Mac, Layer::Data, 0);
            let kind = b.load(Width::W16, Layer::Data, 12);
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
            let found = walk_tags(b);
            let value = &mut |b: &mut Builder, f| match f {
                Field::EtherType => b.resize(Width::W16, found),
                Field::Vlan => {
                    let id = b.shr(found, 16);
                    let id = b.and(id, 0x0fff);
                    let there = b.shr(found, 20);
                    let there = b.and(there, u64::from(VLAN_THERE));
                    let tag = b.or(id, there);
                    b.resize(Width::W16, tag)
                }
                f => {
                    let v = address(b, f);
                    b.choose_has(Layer::Net, 0, |_| v, |b| b.constant(Width::W64, 0_u64))
                }
            };
            leave(b, value, none);
        });
        self.take(fields, values);
        self.bits = None;
    }

    pub(super) fn read_net(&mut self, b: &mut Builder, wants: &Wants) {
        let net =
            |f: &&Field| matches!(f, Field::V4(..) | Field::V6(_) | Field::Transport(..) | Field::Proto);
        let fields: Vec<Field> = wants.fields.iter().filter(net).copied().collect();
        let own = |b: &Bit| matches!(b, Bit::V4(_) | Bit::V6(_) | Bit::Transport(_) | Bit::Proto);
        if fields.is_empty() && !wants.bits.iter().any(own) && !wants.cursor {
            return;
        }
        let ether_type = self.value(Field::EtherType);
        let values = self.join(b, &fields, |h, b, leave| {
            b.switch(ether_type, &[0x0800, 0x86dd], |b, case| {
                let (v4, len) = match case {
                    Some(0) => (true, V4_LEN),
                    Some(_) => (false, V6_LEN),
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
                h.usual_transport(b, wants, len, v4, |h, b| h.leave_usual(b, len, there, leave));
            });
            let is_v4 = b.eq(ether_type, 0x0800);
            let is_v6 = b.eq(ether_type, 0x86dd);
            b.clear_mark(Layer::Cursor);
            b.when(is_v4, mark_transport_v4);
            b.when(is_v6, |b| {
                b.if_has(Layer::Net, V6_LEN, |b| b.set_mark(Layer::Cursor, Layer::Net, V6_LEN), |_| {});
            });
            let bits = h.test_bits(b, |b, bit| {
                let (is, layer, end) = match bit {
                    Bit::V4(end) => (is_v4, Layer::Net, end),
                    Bit::V6(end) => (is_v6, Layer::Net, end),
                    Bit::Proto => {
                        let (there4, there6) = (has(b, Layer::Net, 10), has(b, Layer::Net, 7));
                        let (v4, v6) = (b.and(is_v4, there4), b.and(is_v6, there6));
                        return Some(b.or(v4, v6));
                    }
                    bit => return transport_bit(b, bit),
                };
                let there = has(b, layer, end);
                Some(b.and(is, there))
            });
            let value = &mut |b: &mut Builder, f| match f {
                Field::Proto => b.choose(
                    is_v4,
                    |b| byte_or_zero(b, Layer::Net, 9),
                    |b| b.choose(is_v6, |b| byte_or_zero(b, Layer::Net, 6), |b| b.constant(Width::W8, 0_u8)),
                ),
                f => unusual(b, f),
            };
            leave(b, value, bits);
        });
        self.take(fields, values);
    }
}

/// Whether an `EtherType` is that of a VLAN tag. One question rather than two, so that which of both it is makes no
/// difference to a program's paths.
fn is_tag(b: &mut Builder, kind: V) -> V {
    let (customer, service) = (b.eq(kind, ethertype::VLAN), b.eq(kind, ethertype::QINQ));
    b.or(customer, service)
}

/// Walks over VLAN tags from the 12th byte of a frame on, and marks what follows as `net` if it is there. The result
/// is the `EtherType` (16 bits; 0 if the frame is cut short), then the control information of the outermost tag (16
/// bits), then whether there is one.
fn walk_tags(b: &mut Builder) -> V {
    b.set_mark(Layer::Cursor, Layer::Data, 12);
    let none = b.constant(Width::W64, 0_u64);
    let out = b.repeat(8, &[none], |b, this, vars| {
        let found = vars[0];
        let cut = |b: &mut Builder| {
            let nothing = b.constant(Width::W64, 0_u64);
            this.leave(b, &[nothing]);
        };
        b.require_or(Layer::Cursor, 2, cut);
        let kind = b.load(Width::W16, Layer::Cursor, 0);
        let wide = b.resize(Width::W64, kind);
        let tag = is_tag(b, kind);
        b.unless(tag, |b| {
            b.set_mark(Layer::Net, Layer::Cursor, 2);
            let found = b.or(found, wide);
            this.leave(b, &[found]);
        });
        b.require_or(Layer::Cursor, 4, cut);
        let tci = b.load(Width::W16, Layer::Cursor, 2);
        let tci = b.resize(Width::W64, tci);
        let tag = b.shl(tci, 16);
        let tag = b.or(tag, 1_u64 << 32);
        let first = b.eq(found, 0);
        let found = b.select(first, tag, found);
        b.set_mark(Layer::Cursor, Layer::Cursor, 4);
        this.next(b, &[found]);
    });
    out[0]
}
