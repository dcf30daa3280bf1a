//! Reading of a packet's headers: each number once, the usual packet on a straight path.

use crate::fields::{ipv4, ipv6, ipv6_extension};
use std::collections::{BTreeMap, BTreeSet};

use weir_filter::{CHAIN, Expr, Tags};
use weir_ir::{Builder, Layer, Reason, V, Width};

use super::View;
use super::cond::{Bit, Cond, FRAGMENT, Field};
use super::place::HeaderStart;
use crate::headers::{extension_header_len, is_extension_header};

/// Length of an IPv4 header without options.
pub(super) const V4_LEN: u32 = 20;
/// Length of an IPv6 header.
pub(super) const V6_LEN: u32 = 40;

/// The fields that are to be read.
#[derive(Debug, Default)]
pub(super) struct Wants {
    pub fields: BTreeSet<Field>,
    pub bits: BTreeSet<Bit>,
    /// Tests that are made in their place.
    pub deep: Vec<(Tags, Expr)>,
    /// The `cursor` mark on the transport header.
    pub cursor: bool,
    /// Whether headers are those behind all VLAN tags.
    pub walks: bool,
}

impl Wants {
    /// What these conditions look at.
    pub fn of<'a>(conds: impl IntoIterator<Item = &'a Cond>) -> Wants {
        let mut w = Wants::default();
        for cond in conds {
            cond.visit(&mut |c| match c {
                Cond::Test(field, _) => _ = w.fields.insert(*field),
                Cond::Has(bit) => _ = w.bits.insert(*bit),
                Cond::Deep(tags, test) => {
                    if !w.deep.iter().any(|(t, d)| t == tags && *d == **test) {
                        w.deep.push((*tags, (**test).clone()));
                    }
                    if *tags == Tags::All {
                        w.fields.insert(Field::EtherType);
                    }
                }
                Cond::All(_) | Cond::Any(_) | Cond::Not(_) | Cond::Bytes(..) => {}
            });
        }
        if w.bits.contains(&Bit::TcpUdp) || w.bits.contains(&Bit::WithPorts) {
            w.fields.insert(Field::Proto);
        }
        w
    }

    /// Whether nothing is.
    fn nothing(&self) -> bool {
        self.fields.is_empty() && self.bits.is_empty() && !self.cursor
    }

    pub(super) fn transport(&self) -> bool {
        self.cursor
            || self.fields.iter().any(|f| matches!(f, Field::Transport(..)))
            || self.bits.iter().any(|b| matches!(b, Bit::Transport(_)))
    }

    /// The number of bytes of the transport header (or of the packet) behind which nothing is read.
    fn end(&self) -> u32 {
        let end = |b: &Bit| if let Bit::Transport(n) | Bit::Data(n) = b { *n } else { 0 };
        self.bits.iter().map(end).max().unwrap_or(0)
    }
}

/// A packet's headers, read once for all filters. If that was asked for, the `cursor` mark stands on the transport
/// header of a first fragment, and is unset for all other packets.
#[derive(Debug)]
pub struct Headers {
    values: BTreeMap<Field, V>,
    /// What the bits stand for, lowest first.
    has: Vec<Bit>,
    pub(super) bits: Option<V>,
    /// Whether the protocol is one of those that a bit stands for.
    protocols: Vec<(Bit, V)>,
    /// Tests that were made in their place.
    deep: Vec<(Cond, V)>,
}

impl Headers {
    /// Reads what is wanted. In the Ethernet view, sets the `mac` and `net` marks if anything is.
    pub(super) fn read(b: &mut Builder, view: View, wants: &Wants) -> Headers {
        let mut h = Headers {
            values: BTreeMap::new(),
            has: wants.bits.iter().copied().collect(),
            bits: None,
            protocols: Vec::new(),
            deep: Vec::new(),
        };
        match view {
            View::Ip => {
                h.read_places(b, view, wants);
                h.read_ip(b, wants);
            }
            View::Ip6 | View::Ip6Followed => {
                let ether_type = b.constant(Width::W16, weir_net::ethertype::IPV6);
                h.values.insert(Field::EtherType, ether_type);
                h.read_places(b, view, wants);
                h.read_net(b, view, wants);
            }
            View::Ethernet if wants.nothing() => h.read_places(b, view, wants),
            View::Ethernet => {
                h.read_link(b, wants);
                h.read_places(b, view, wants);
                h.read_net(b, view, wants);
            }
            View::Bytes => h.read_data(b, wants),
        }
        for (bit, protocols) in [(Bit::TcpUdp, &[6_u8, 17][..]), (Bit::WithPorts, &[6, 17, 132])] {
            if let Some(n) = h.number(bit) {
                let proto = h.value(Field::Proto);
                let is: Vec<V> = protocols.iter().map(|&p| b.eq(proto, p)).collect();
                let any = is.into_iter().reduce(|a, v| b.or(a, v));
                if let Some(any) = any {
                    h.protocols.push((bit, any));
                    h.add_bit(b, n, any);
                }
            }
        }
        if let Some(n) = h.number(Bit::Frame) {
            let whole = has(b, Layer::Net, 0);
            h.add_bit(b, n, whole);
        }
        h
    }

    /// A number that was read.
    pub(super) fn value(&self, field: Field) -> V {
        *self.values.get(&field).expect("what conditions look at is wanted, and read")
    }

    /// Number of a bit.
    pub(super) fn number(&self, bit: Bit) -> Option<usize> {
        self.has.iter().position(|b| *b == bit)
    }

    /// Number of bits.
    pub(super) fn count(&self) -> usize {
        self.has.len()
    }

    /// All bits, as a number of this width.
    pub(super) fn bits(&self, b: &mut Builder, width: Width) -> V {
        match self.bits {
            Some(v) => b.resize(width, v),
            None => b.constant(width, 0_u8),
        }
    }

    /// Whether the protocol is one of those that a bit stands for, if that was asked for.
    pub(super) fn of_protocols(&self, bit: Bit) -> Option<V> {
        self.protocols.iter().find(|(b, _)| *b == bit).map(|(_, v)| *v)
    }

    /// What was found by a test that is made in its place.
    pub(super) fn in_place(&self, cond: &Cond) -> V {
        let found = self.deep.iter().find(|(c, _)| c == cond);
        found.expect("what conditions look at is wanted, and read").1
    }

    /// Tests in their place. They move the `cursor` mark, so that they come before it is set.
    fn read_places(&mut self, b: &mut Builder, view: View, wants: &Wants) {
        let ether_type = self.values.get(&Field::EtherType).copied();
        for (tags, test) in &wants.deep {
            let v = HeaderStart::new(view, *tags, ether_type).test(b, test);
            self.deep.push((Cond::Deep(*tags, Box::new(test.clone())), v));
        }
    }

    /// The `EtherType` behind VLAN tags, which has to be among what was read; 0 if the frame is cut short (16 bits).
    pub fn ether_type(&self) -> V {
        self.value(Field::EtherType)
    }

    /// The IPv4 protocol or IPv6 next header, which has to be among what was read; 0 if there is none (8 bits).
    pub fn protocol_number(&self) -> V {
        self.value(Field::Proto)
    }

    pub(super) fn bits_width(&self) -> Width {
        Width::ALL.into_iter().find(|w| w.bits() as usize >= self.has.len().max(8)).unwrap_or(Width::W64)
    }

    /// The bits for which `f` says so.
    pub(super) fn mask(&self, f: impl Fn(Bit) -> bool) -> u64 {
        self.has.iter().enumerate().filter(|(_, b)| f(**b)).fold(0, |m, (i, _)| m | 1 << i)
    }

    fn add_bit(&mut self, b: &mut Builder, n: usize, v: V) {
        let width = self.bits_width();
        let v = b.resize(width, v);
        let v = b.shl(v, n as u32);
        self.bits = Some(match self.bits {
            Some(bits) => b.or(bits, v),
            None => v,
        });
    }

    /// Bits, each by its own test.
    pub(super) fn test_bits(
        &self,
        b: &mut Builder,
        mut test: impl FnMut(&mut Builder, Bit) -> Option<V>,
    ) -> V {
        let width = self.bits_width();
        let mut all = b.constant(width, 0_u8);
        for (i, bit) in self.has.iter().enumerate() {
            if let Some(v) = test(b, *bit) {
                let v = b.resize(width, v);
                let v = b.shl(v, i as u32);
                all = b.or(all, v);
            }
        }
        all
    }

    // --- IPv4 packets -----------------------------------------------------------------------------------------

    fn read_ip(&mut self, b: &mut Builder, wants: &Wants) {
        let mut late = Vec::new();
        for &f in &wants.fields {
            let v = match f {
                Field::V4(off, n) => load(b, Layer::Net, off, n),
                Field::Proto => ipv4::PROTOCOL.load(b),
                _ => {
                    late.push(f);
                    continue;
                }
            };
            self.values.insert(f, v);
        }
        if !wants.transport() {
            return;
        }
        let there = self.mask(|bit| matches!(bit, Bit::Transport(_)));
        let values = self.join(b, &late, |h, b, leave| {
            let usual = |h: &Headers, b: &mut Builder| h.leave_usual(b, V4_LEN, there, leave);
            h.usual_transport(b, View::Ip, wants, (V4_LEN, true), usual);
            b.clear_mark(Layer::Cursor);
            mark_transport_v4(b);
            let inside = inside_v4(b);
            let bits = h.test_bits(b, |b, bit| transport_bit(b, bit, inside));
            leave(b, &mut |b, f| unusual(b, f), bits);
        });
        self.take(late, values);
    }

    /// Does `yes`, which ends, if the packet has a header of `len` bytes at `net`, with all that is wanted of the
    /// transport header right behind it.
    pub(super) fn usual_transport(
        &self,
        b: &mut Builder,
        view: View,
        wants: &Wants,
        (len, v4): (u32, bool),
        yes: impl FnOnce(&Headers, &mut Builder),
    ) {
        let whole = |b: &mut Builder| {
            b.if_has(
                Layer::Net,
                len + wants.end(),
                |b| {
                    if wants.cursor {
                        b.set_mark(Layer::Cursor, Layer::Net, len);
                    }
                    yes(self, b);
                },
                |_| {},
            );
        };
        let end = wants.end();
        if !v4 && (wants.transport() || wants.fields.contains(&Field::Proto)) {
            let plain = |b: &mut Builder| {
                let start = b.load(Width::W64, Layer::Net, 0);
                let next = b.shr(start, 8);
                let next = b.resize(Width::W8, next);
                let mut plain = match view {
                    View::Ip6Followed => {
                        let [tcp, udp, icmp] = [6, 17, 58].map(|p| b.eq(next, p));
                        let either = b.or(tcp, udp);
                        b.or(either, icmp)
                    }
                    _ => b.ne(next, FRAGMENT),
                };
                if end > 0 {
                    let payload = b.shr(start, 16);
                    let payload = b.resize(Width::W16, payload);
                    let long = b.ge(payload, end);
                    plain = b.and(plain, long);
                }
                b.when(plain, whole);
            };
            return b.if_has(Layer::Net, V6_LEN, plain, |_| {});
        }
        if !v4 || !wants.transport() {
            return whole(b);
        }
        b.if_has(
            Layer::Net,
            V4_LEN,
            |b| {
                // Five words of header, and no fragment but a first one.
                let start = b.load(Width::W64, Layer::Net, 0);
                let part = b.and(start, 0x0f00_0000_0000_1fff_u64);
                let mut plain = b.eq(part, 0x0500_0000_0000_0000_u64);
                if end > 0 {
                    // What is read is within the packet by its length.
                    let len = b.shr(start, 32);
                    let len = b.resize(Width::W16, len);
                    let long = b.ge(len, V4_LEN + end);
                    plain = b.and(plain, long);
                }
                b.when(plain, whole);
            },
            |_| {},
        );
    }

    /// Goes on with numbers at constant places behind `net`; the transport header is `len` bytes behind it.
    pub(super) fn leave_usual(&self, b: &mut Builder, len: u32, bits: u64, leave: Leave<'_>) {
        let bits = b.constant(self.bits_width(), bits);
        leave(
            b,
            &mut |b, f| match f {
                Field::Transport(off, n) => load(b, Layer::Net, len + off, n),
                Field::V4(off, n) if len == V4_LEN => load(b, Layer::Net, off, n),
                Field::V6(off) if len == V6_LEN => b.load(Width::W128, Layer::Net, off),
                Field::Proto => b.load(Width::W8, Layer::Net, if len == V4_LEN { 9 } else { 6 }),
                f => b.constant(f.width(), 0_u8),
            },
            bits,
        );
    }

    /// Numbers and bits that are found on several paths: `body` has to end each by `leave`.
    pub(super) fn join(
        &self,
        b: &mut Builder,
        fields: &[Field],
        body: impl FnOnce(&Headers, &mut Builder, Leave<'_>),
    ) -> Vec<V> {
        let widths = fields.iter().map(|f| f.width()).chain([self.bits_width()]);
        let zeros: Vec<V> = widths.map(|w| b.constant(w, 0_u8)).collect();
        b.repeat(1, &zeros, |b, round, _| {
            body(self, b, &|b, value, bits| {
                let mut all: Vec<V> = fields.iter().map(|&f| value(b, f)).collect();
                all.push(bits);
                round.leave(b, &all);
            });
        })
    }

    pub(super) fn take(&mut self, fields: Vec<Field>, mut values: Vec<V>) {
        let bits = values.pop();
        self.values.extend(fields.into_iter().zip(values));
        if !self.has.is_empty() {
            self.bits = bits;
        }
    }

    // --- bytes ------------------------------------------------------------------------------------------------

    fn read_data(&mut self, b: &mut Builder, wants: &Wants) {
        let fields: Vec<Field> = wants.fields.iter().copied().collect();
        if fields.is_empty() && wants.bits.is_empty() {
            return;
        }
        let all = self.mask(|_| true);
        let values = self.join(b, &fields, |h, b, leave| {
            b.if_has(
                Layer::Data,
                wants.end(),
                |b| {
                    let bits = b.constant(h.bits_width(), all);
                    let value = &mut |b: &mut Builder, f| match f {
                        Field::Data(off, n) => load(b, Layer::Data, off, n),
                        f => b.constant(f.width(), 0_u8),
                    };
                    leave(b, value, bits);
                },
                |_| {},
            );
            let bits = h.test_bits(b, |b, bit| match bit {
                Bit::Data(end) => Some(has(b, Layer::Data, end)),
                _ => None,
            });
            leave(b, &mut |b, f| unusual(b, f), bits);
        });
        self.take(fields, values);
    }
}

/// Goes on with numbers (made by the function for each field) and bits.
pub(super) type Leave<'a> = &'a dyn Fn(&mut Builder, &mut dyn FnMut(&mut Builder, Field) -> V, V);

/// A number that may not be there, looked for behind its mark.
pub(super) fn unusual(b: &mut Builder, f: Field) -> V {
    let (layer, off, n) = match f {
        Field::V4(off, n) => (Layer::Net, off, n),
        Field::Arp(off) => (Layer::Net, off, 4),
        Field::V6(off) => (Layer::Net, off, 16),
        Field::Transport(off, n) => (Layer::Cursor, off, n),
        Field::Data(off, n) => (Layer::Data, off, n),
        f => return b.constant(f.width(), 0_u8),
    };
    b.choose_has(layer, off + n, |b| load(b, layer, off, n), |b| b.constant(f.width(), 0_u8))
}

/// A bit about the transport header, behind so many bytes of a packet that has so many (32 bits).
pub(super) fn transport_bit(b: &mut Builder, bit: Bit, (used, limit): (V, V)) -> Option<V> {
    match bit {
        Bit::Transport(end) => {
            let last = b.add(used, end);
            let within = b.le(last, limit);
            let there = |b: &mut Builder| has(b, Layer::Cursor, end);
            Some(b.choose(within, there, |b| b.constant(Width::W1, 0_u8)))
        }
        _ => None,
    }
}

/// Bytes of an IPv4 packet by its header (32 bits): 65,536 if the length is 0, as of packets that a device is still to cut,
/// none if it is not there. Not a question, so that it makes no difference to a program's paths.
pub(super) fn v4_limit(b: &mut Builder, layer: Layer, off: u32) -> V {
    let read = |b: &mut Builder| {
        let len = b.load(Width::W16, layer, off + 2);
        let last = b.sub(len, 1);
        let last = b.resize(Width::W32, last);
        b.add(last, 1)
    };
    b.choose_has(layer, off + 4, read, |b| b.constant(Width::W32, 0_u32))
}

/// The length of the header of the IPv4 packet at `net`, and that of the packet by its header (32 bits).
pub(super) fn inside_v4(b: &mut Builder) -> (V, V) {
    let limit = v4_limit(b, Layer::Net, 0);
    let none = |b: &mut Builder| b.constant(Width::W32, 0_u32);
    (b.choose_has(Layer::Net, 1, crate::headers::ip_header_len, none), limit)
}

/// The header behind the extension headers of an IPv6 packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Followed {
    /// The protocol (8 bits).
    pub proto: V,
    /// Whether its header stands at the `cursor` mark (1 bit), and not in an earlier fragment.
    pub first: V,
    /// Bytes left of the packet by its length (32 bits).
    pub left: V,
}

/// Follows the extension headers of the IPv6 packet at `net`, of which 40 bytes are there. Packets whose extension headers
/// cannot be followed are dropped.
pub(super) fn follow(b: &mut Builder) -> Followed {
    let next = ipv6::NEXT_HEADER.load(b);
    let left = ipv6::PAYLOAD_LENGTH.load(b);
    let left = b.resize(Width::W32, left);
    let (yes, no) = (b.constant(Width::W1, 1_u8), b.constant(Width::W1, 0_u8));
    b.set_mark(Layer::Cursor, Layer::Net, V6_LEN);
    let found = b.repeat(CHAIN, &[next, yes, left], |b, this, vars| {
        let (proto, left) = (vars[0], vars[2]);
        let more = is_extension_header(b, proto);
        b.unless(more, |b| this.leave(b, vars));
        b.require(Layer::Cursor, 8, Reason::BAD_HEADER);
        let next = ipv6_extension::NEXT_HEADER.load(b);
        let len = ipv6_extension::LENGTH.load(b);
        let len = b.resize(Width::W32, len);
        let len = extension_header_len(b, proto, len);
        let fragment = b.eq(proto, FRAGMENT);
        let eight = b.constant(Width::W32, 8_u32);
        let len = b.select(fragment, eight, len);
        let short = b.lt(left, len);
        b.when(short, |b| b.drop(Reason::BAD_HEADER));
        b.require(Layer::Cursor, len, Reason::BAD_HEADER);
        let offset = ipv6_extension::FRAGMENT.load(b);
        let offset = b.and(offset, 0xfff8);
        let later = b.ne(offset, 0);
        let later = b.and(fragment, later);
        b.when(later, |b| {
            b.clear_mark(Layer::Cursor);
            this.leave(b, &[next, no, left]);
        });
        b.set_mark(Layer::Cursor, Layer::Cursor, len);
        let left = b.sub(left, len);
        this.next(b, &[next, yes, left]);
    });
    let [proto, first, left] = [0, 1, 2].map(|i| found[i]);
    // More than are followed.
    b.when(first, |b| {
        let more = is_extension_header(b, proto);
        b.when(more, |b| b.drop(Reason::BAD_HEADER));
    });
    Followed { proto, first, left }
}

/// Sets `cursor` to the transport header of an IPv4 packet, if that is a first fragment and long enough.
pub(super) fn mark_transport_v4(b: &mut Builder) {
    b.if_has(
        Layer::Net,
        8,
        |b| {
            let len = crate::headers::ip_header_len(b);
            let fragment = ipv4::FRAGMENT.load(b);
            let offset = b.and(fragment, 0x1fff);
            let first = b.eq(offset, 0);
            b.when(first, |b| {
                b.if_has(Layer::Net, len, |b| b.set_mark(Layer::Cursor, Layer::Net, len), |_| {});
            });
        },
        |_| {},
    );
}

/// Bytes as a number: 1, 2, 3 (in 32 bits), 4, 8 or 16.
pub(super) fn load(b: &mut Builder, layer: Layer, off: u32, n: u32) -> V {
    match n {
        1 => b.load(Width::W8, layer, off),
        2 => b.load(Width::W16, layer, off),
        3 => {
            let high = b.load(Width::W16, layer, off);
            let high = b.resize(Width::W32, high);
            let high = b.shl(high, 8);
            let low = b.load(Width::W8, layer, off + 2);
            let low = b.resize(Width::W32, low);
            b.or(high, low)
        }
        4 => b.load(Width::W32, layer, off),
        8 => b.load(Width::W64, layer, off),
        _ => b.load(Width::W128, layer, off),
    }
}

pub(super) fn has(b: &mut Builder, layer: Layer, n: u32) -> V {
    b.choose_has(layer, n, |b| b.constant(Width::W1, 1_u8), |b| b.constant(Width::W1, 0_u8))
}

pub(super) fn byte_or_zero(b: &mut Builder, layer: Layer, off: u32) -> V {
    b.choose_has(layer, off + 1, |b| b.load(Width::W8, layer, off), |b| b.constant(Width::W8, 0_u8))
}
