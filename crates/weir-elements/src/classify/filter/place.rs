//! Tests that are made in their place: what is not among the numbers that are read once for all filters. Each is straight code
//! over the packet, as the reference evaluator (`weir_filter::PacketView`) reads it.

use crate::fields::ipv6_extension;
use weir_filter::{
    AddressOf, Arith, ArithOp, CHAIN, Compare, Dir, Expr, Field, IpVersion, Layer as FieldLayer, Prim,
    TAG_TYPES, Tags,
};
use weir_ir::{Builder, Layer, V, Width};

use super::View;
use super::cond::FRAGMENT;
use super::read::{Followed, V4_LEN, V6_LEN, follow, load, v4_limit};
use super::test::ordered;
use crate::headers::{EXTENSION_HEADERS, extension_header_len};

/// The place where a test looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeaderStart {
    view: View,
    /// What follows the `EtherType` begins here.
    layer: Layer,
    off: u32,
    ether_type: EtherType,
}

#[derive(Debug, Clone, Copy)]
enum EtherType {
    Known(u16),
    Read(V),
    /// Two bytes before what follows it.
    InFrame,
}

type Value<'a> = &'a dyn Fn(&mut Builder) -> V;
/// An action on a header at the `cursor` mark, behind so many bytes of a packet that has so many (32 bits).
type AtHeader<'a> = &'a dyn Fn(&mut Builder, V, V) -> V;

/// The place where a field begins within a header.
#[derive(Debug, Clone, Copy)]
enum At {
    Known(u32),
    Read(V),
}

impl HeaderStart {
    /// Behind these tags. `ether_type` is that behind all tags, if it was read.
    pub fn new(view: View, tags: Tags, ether_type: Option<V>) -> HeaderStart {
        let (layer, off, ether_type) = match (view, tags, ether_type) {
            (View::Ip, ..) => (Layer::Net, 0, EtherType::Known(0x0800)),
            (View::Ip6 | View::Ip6Followed, ..) => (Layer::Net, 0, EtherType::Known(0x86dd)),
            (_, Tags::All, Some(v)) => (Layer::Net, 0, EtherType::Read(v)),
            (_, Tags::Count(n), _) => (Layer::Data, 14 + 4 * u32::from(n), EtherType::InFrame),
            (_, Tags::All, None) => (Layer::Data, 14, EtherType::InFrame),
        };
        HeaderStart { view, layer, off, ether_type }
    }

    /// Whether the test holds (1 bit).
    pub fn test(&self, b: &mut Builder, test: &Expr) -> V {
        match test {
            Expr::Prim(p) => self.prim(b, p),
            Expr::Compare(c) => self.compare(b, c),
            _ => b.constant(Width::W1, 0_u8),
        }
    }

    fn prim(&self, b: &mut Builder, prim: &Prim) -> V {
        match *prim {
            Prim::Net { of, dir, addr, mask } => {
                let kinds = [(AddressOf::Ip, 0x0800, 12, 16), (AddressOf::Arp, 0x0806, 14, 24)];
                let mut any = no(b);
                for (kind, ether_type, src, dst) in
                    kinds.into_iter().chain([(AddressOf::Rarp, 0x8035, 14, 24)])
                {
                    if of == kind || of == AddressOf::Any {
                        let v = self.typed(b, ether_type, Width::W1, &|b| {
                            directions(b, dir, &|b, to_dst| {
                                let at = if to_dst { dst } else { src };
                                self.bytes(b, at, 4, &|b, v| {
                                    let v = b.and(v, u32::from(mask));
                                    b.eq(v, u32::from(addr))
                                })
                            })
                        });
                        any = b.or(any, v);
                    }
                }
                any
            }
            Prim::Net6 { dir, addr, len } => self.typed(b, 0x86dd, Width::W1, &|b| {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                directions(b, dir, &|b, dst| {
                    self.bytes(b, if dst { 24 } else { 8 }, 16, &|b, v| {
                        let v = b.and(v, mask);
                        b.eq(v, u128::from(addr) & mask)
                    })
                })
            }),
            // Not behind tags, and read once for all.
            Prim::EtherHost { .. } => no(b),
            Prim::EtherType(t) => self.typed(b, t, Width::W1, &|b| b.constant(Width::W1, 1_u8)),
            Prim::Vlan(id) => {
                let mut any = no(b);
                for t in TAG_TYPES {
                    let v = self.typed(b, t, Width::W1, &|b| match id {
                        None => b.constant(Width::W1, 1_u8),
                        Some(id) => self.bytes(b, 0, 2, &|b, tag| {
                            let found = b.and(tag, 0x0fff_u16);
                            b.eq(found, id)
                        }),
                    });
                    any = b.or(any, v);
                }
                any
            }
            Prim::Proto { number, version } => self.by_version(
                b,
                version,
                Width::W1,
                &|b| self.bytes(b, 9, 1, &|b, proto| b.eq(proto, number)),
                &|b| self.proto6(b, number),
            ),
            Prim::Chain { number, version } => self.by_version(
                b,
                version,
                Width::W1,
                &|b| {
                    self.bytes(b, 9, 1, &|b, proto| {
                        let len = self.header_len(b);
                        let limit = v4_limit(b, self.layer, self.off);
                        self.chain(b, number, &EXTENSION_HEADERS[3..4], proto, len, limit)
                    })
                },
                &|b| {
                    self.bytes(b, 6, 1, &|b, next| {
                        let len = b.constant(Width::W32, V6_LEN);
                        let limit = self.v6_limit(b);
                        self.chain(b, number, &EXTENSION_HEADERS, next, len, limit)
                    })
                },
            ),
            Prim::Port { dir, lo, hi, proto } => {
                self.transport(b, Some(proto.protocols()), None, Width::W1, &|b, used, limit| {
                    directions(b, dir, &|b, dst| {
                        let at = if dst { 2 } else { 0 };
                        let end = b.add(used, at + 2);
                        let within = b.le(end, limit);
                        let asked = |b: &mut Builder| {
                            let port = b.load(Width::W16, Layer::Cursor, at);
                            let from_lo = b.sub(port, lo);
                            b.le(from_lo, hi.wrapping_sub(lo))
                        };
                        b.choose(within, |b| b.choose_has(Layer::Cursor, at + 2, asked, no), no)
                    })
                })
            }
            Prim::Field(Field { layer, offset, width, mask, cmp, value }) => {
                self.field(b, layer, At::Known(offset.into()), width.into(), Width::W1, &|b, v| {
                    let v = b.and(v, mask);
                    ordered(b, v, cmp, value)
                })
            }
        }
    }

    fn compare(&self, b: &mut Builder, c: &Compare) -> V {
        let (left, there) = self.number(b, &c.left);
        let (right, also) = self.number(b, &c.right);
        let holds = ordered(b, left, c.cmp, right);
        let both = b.and(there, also);
        b.and(holds, both)
    }

    /// A number (32 bits), and whether it is there.
    fn number(&self, b: &mut Builder, a: &Arith) -> (V, V) {
        match a {
            Arith::Number(n) => (b.constant(Width::W32, *n), b.constant(Width::W1, 1_u8)),
            Arith::Len => (b.rest(Layer::Data), b.constant(Width::W1, 1_u8)),
            Arith::Load { layer, offset, width } => {
                let n = u32::from(*width);
                let (at, there) = match **offset {
                    Arith::Number(at) => (At::Known(at), b.constant(Width::W1, 1_u8)),
                    _ => {
                        let (at, there) = self.number(b, offset);
                        (At::Read(at), there)
                    }
                };
                // Asked twice, so that on each path it is known whether it is there.
                let (zero, none) = (b.constant(Width::W32, 0_u32), no(b));
                let yes = &|b: &mut Builder, _| b.constant(Width::W1, 1_u8);
                let found = |b: &mut Builder| self.field(b, *layer, at, n, Width::W1, yes);
                let found = b.choose(there, found, |_| none);
                let value = |b: &mut Builder| self.field(b, *layer, at, n, Width::W32, &|_, v| v);
                (b.choose(found, value, |_| zero), found)
            }
            Arith::Op(op, left, right) => {
                let ((left, there), (right, also)) = (self.number(b, left), self.number(b, right));
                let v = match op {
                    ArithOp::Add => b.add(left, right),
                    ArithOp::Sub => b.sub(left, right),
                    ArithOp::Mul => b.mul(left, right),
                    ArithOp::Rem => b.rem(left, right),
                    ArithOp::And => b.and(left, right),
                    ArithOp::Or => b.or(left, right),
                    ArithOp::Xor => b.xor(left, right),
                    ArithOp::Shl => b.shl(left, right),
                    ArithOp::Shr => b.shr(left, right),
                };
                (v, b.and(there, also))
            }
        }
    }

    /// What `f` says of bytes of a header (32 bits); 0 if they are not there.
    fn field(
        &self,
        b: &mut Builder,
        header: FieldLayer,
        at: At,
        n: u32,
        width: Width,
        f: &dyn Fn(&mut Builder, V) -> V,
    ) -> V {
        let bytes = |b: &mut Builder, layer: Layer, off: u32| {
            let zero = b.constant(width, 0_u8);
            let read = |b: &mut Builder, layer, off| {
                let v = load(b, layer, off, n);
                let v = b.resize(Width::W32, v);
                f(b, v)
            };
            match at {
                At::Known(at) => b.choose_has(layer, off + at + n, |b| read(b, layer, off + at), |_| zero),
                At::Read(at) => {
                    let at_offset = |b: &mut Builder| {
                        b.set_mark(Layer::Cursor, Layer::Cursor, at);
                        b.choose_has(Layer::Cursor, n, |b| read(b, Layer::Cursor, 0), |_| zero)
                    };
                    let at_header = |b: &mut Builder| {
                        b.set_mark(Layer::Cursor, layer, off);
                        b.choose_has(Layer::Cursor, at, at_offset, |_| zero)
                    };
                    b.choose_has(layer, off, at_header, |_| zero)
                }
            }
        };
        // Of a header of which so many bytes are within the packet, beside those that count as there.
        let limited = |b: &mut Builder, fixed: u32, used: V, limit: V, layer: Layer, off: u32| {
            let zero = b.constant(width, 0_u8);
            let end = match at {
                At::Known(at) if at + n <= fixed => return bytes(b, layer, off),
                At::Known(at) => b.add(used, at + n),
                At::Read(at) => {
                    let end = b.add(at, n);
                    // Sums that wrap around are of no packet.
                    let sane = b.le(at, 0xffff);
                    let far = b.constant(Width::W32, u32::MAX);
                    let end = b.add(used, end);
                    b.select(sane, end, far)
                }
            };
            let mut within = b.le(end, limit);
            if fixed > 0 {
                let in_fixed = b.le(end, fixed);
                within = b.or(within, in_fixed);
            }
            b.choose(within, |b| bytes(b, layer, off), |_| zero)
        };
        match header {
            FieldLayer::Ether if self.view != View::Ethernet => b.constant(width, 0_u8),
            FieldLayer::Ether => bytes(b, Layer::Data, 0),
            FieldLayer::Type(t) => self.typed(b, t, width, &|b| bytes(b, self.layer, self.off)),
            FieldLayer::Ip | FieldLayer::Ip6 => {
                let v4 = header == FieldLayer::Ip;
                let (ether_type, fixed) = if v4 { (0x0800, V4_LEN) } else { (0x86dd, V6_LEN) };
                self.typed(b, ether_type, width, &|b| {
                    let limit = if v4 { v4_limit(b, self.layer, self.off) } else { self.v6_limit(b) };
                    let used = b.constant(Width::W32, 0_u32);
                    limited(b, fixed, used, limit, self.layer, self.off)
                })
            }
            _ => {
                let (protos, version) = header.transport().unwrap_or((Some(&[]), None));
                let here = &|b: &mut Builder, used: V, limit: V| limited(b, 0, used, limit, Layer::Cursor, 0);
                self.transport(b, protos, version, width, here)
            }
        }
    }

    /// The value for frames of this `EtherType`, else 0.
    fn typed(&self, b: &mut Builder, ether_type: u16, width: Width, yes: Value<'_>) -> V {
        let zero = b.constant(width, 0_u8);
        match self.ether_type {
            EtherType::Known(t) if t == ether_type => yes(b),
            EtherType::Known(_) => zero,
            EtherType::Read(v) => {
                let is = b.eq(v, ether_type);
                // 0 is also what frames show that are cut short.
                b.choose(is, |b| b.choose_has(self.layer, 0, |b| yes(b), |_| zero), |_| zero)
            }
            EtherType::InFrame => {
                let asked = |b: &mut Builder| {
                    let found = b.load(Width::W16, self.layer, self.off - 2);
                    let is = b.eq(found, ether_type);
                    b.choose(is, |b| yes(b), |_| zero)
                };
                b.choose_has(self.layer, self.off, asked, |_| zero)
            }
        }
    }

    /// One of two values by the IP version, of one of them only if it is given; else 0.
    fn by_version(
        &self,
        b: &mut Builder,
        version: Option<IpVersion>,
        width: Width,
        v4: Value<'_>,
        v6: Value<'_>,
    ) -> V {
        let mut found = b.constant(width, 0_u8);
        if version != Some(IpVersion::V6) {
            let v = self.typed(b, 0x0800, width, v4);
            found = b.or(found, v);
        }
        if version != Some(IpVersion::V4) {
            let v = self.typed(b, 0x86dd, width, v6);
            found = b.or(found, v);
        }
        found
    }

    /// What `f` says of bytes at an offset behind the `EtherType`; 0 if they are not there.
    fn bytes(&self, b: &mut Builder, at: u32, n: u32, f: &dyn Fn(&mut Builder, V) -> V) -> V {
        let found = |b: &mut Builder| {
            let v = load(b, self.layer, self.off + at, n);
            f(b, v)
        };
        b.choose_has(self.layer, self.off + at + n, found, no)
    }

    /// Length of the IPv4 header (32 bits), whose first byte is there.
    fn header_len(&self, b: &mut Builder) -> V {
        let first = b.load(Width::W8, self.layer, self.off);
        let words = b.and(first, 0x0f);
        let bytes = b.shl(words, 2);
        b.resize(Width::W32, bytes)
    }

    /// Bytes of an IPv6 packet by its header (32 bits); those of the fixed header if the length is not there.
    fn v6_limit(&self, b: &mut Builder) -> V {
        let (layer, off) = (self.layer, self.off);
        let read = |b: &mut Builder| {
            let payload = b.load(Width::W16, layer, off + 4);
            let payload = b.resize(Width::W32, payload);
            b.add(payload, V6_LEN)
        };
        b.choose_has(layer, off + 6, read, |b| b.constant(Width::W32, V6_LEN))
    }

    fn proto6(&self, b: &mut Builder, number: u8) -> V {
        if self.view == View::Ip6Followed {
            let proto = follow(b).proto;
            return b.eq(proto, number);
        }
        self.bytes(b, 6, 1, &|b, next| {
            let is = b.eq(next, number);
            let fragment = b.eq(next, FRAGMENT);
            let limit = self.v6_limit(b);
            let there = b.gt(limit, V6_LEN);
            let fragment = b.and(fragment, there);
            let behind =
                b.choose(fragment, |b| self.bytes(b, V6_LEN, 1, &|b, inner| b.eq(inner, number)), no);
            b.or(is, behind)
        })
    }

    /// What `f` says of the transport header of a first fragment, at the `cursor` mark; 0 if there is none, or of another
    /// protocol.
    fn transport(
        &self,
        b: &mut Builder,
        protos: Option<&[u8]>,
        version: Option<IpVersion>,
        width: Width,
        f: AtHeader<'_>,
    ) -> V {
        let (layer, off) = (self.layer, self.off);
        let v4 = |b: &mut Builder| {
            let zero = b.constant(width, 0_u8);
            let first = |b: &mut Builder| {
                let len = self.header_len(b);
                let limit = v4_limit(b, layer, off);
                let start = b.add(len, off);
                let at_header = |b: &mut Builder| {
                    b.set_mark(Layer::Cursor, layer, start);
                    f(b, len, limit)
                };
                b.choose_has(layer, start, at_header, |_| zero)
            };
            let of_protocol = |b: &mut Builder| {
                let fragment = b.load(Width::W16, layer, off + 6);
                let fragment = b.and(fragment, 0x1fff);
                let is_first = b.eq(fragment, 0);
                b.choose(is_first, first, |_| zero)
            };
            let found = |b: &mut Builder| {
                let proto = b.load(Width::W8, layer, off + 9);
                let fits = among(b, proto, protos);
                b.choose(fits, of_protocol, |_| zero)
            };
            b.choose_has(layer, off + 10, found, |_| zero)
        };
        let v6 = |b: &mut Builder| {
            let zero = b.constant(width, 0_u8);
            let used = b.constant(Width::W32, 0_u32);
            if self.view == View::Ip6Followed {
                let Followed { proto, first, left } = follow(b);
                let fits = among(b, proto, protos);
                let marked = |b: &mut Builder| b.choose_has(Layer::Cursor, 0, |b| f(b, used, left), |_| zero);
                let of_protocol = |b: &mut Builder| b.choose(first, marked, |_| zero);
                return b.choose(fits, of_protocol, |_| zero);
            }
            let marked = |b: &mut Builder| {
                b.set_mark(Layer::Cursor, layer, off + V6_LEN);
                let payload = b.load(Width::W16, layer, off + 4);
                let limit = b.resize(Width::W32, payload);
                f(b, used, limit)
            };
            let found = |b: &mut Builder| {
                let proto = b.load(Width::W8, layer, off + 6);
                let fits = among(b, proto, protos);
                let other = b.ne(proto, FRAGMENT);
                b.choose(fits, |b| b.choose(other, marked, |_| zero), |_| zero)
            };
            b.choose_has(layer, off + V6_LEN, found, |_| zero)
        };
        self.by_version(b, version, width, &v4, &v6)
    }

    /// Whether one of the headers is of a protocol, from the one behind `len` bytes on, whose protocol is `first`.
    fn chain(&self, b: &mut Builder, number: u8, extensions: &[u8], first: V, len: V, limit: V) -> V {
        let is = b.eq(first, number);
        let (layer, off) = (self.layer, self.off);
        let within = b.le(len, limit);
        let start = b.add(len, off);
        let walk = |b: &mut Builder| {
            b.set_mark(Layer::Cursor, layer, start);
            let left = b.sub(limit, len);
            let vars = b.repeat(CHAIN, &[first, left], |b, this, vars| {
                let (proto, left) = (vars[0], vars[1]);
                let done = b.eq(proto, number);
                let leaves = |b: &mut Builder| this.leave(b, &[proto, left]);
                b.when(done, leaves);
                let more = among(b, proto, Some(extensions));
                b.unless(more, leaves);
                let short = b.lt(left, 2);
                b.when(short, leaves);
                b.require_or(Layer::Cursor, 2, leaves);
                let next = ipv6_extension::NEXT_HEADER.load(b);
                let len = ipv6_extension::LENGTH.load(b);
                let len = b.resize(Width::W32, len);
                let len = extension_header_len(b, proto, len);
                // Which protocol comes next is known, even if it is not there.
                let cut = b.lt(left, len);
                let zero = b.constant(Width::W32, 0_u32);
                b.when(cut, |b| this.leave(b, &[next, zero]));
                b.require_or(Layer::Cursor, len, |b| this.leave(b, &[next, zero]));
                b.set_mark(Layer::Cursor, Layer::Cursor, len);
                let left = b.sub(left, len);
                this.next(b, &[next, left]);
            });
            b.eq(vars[0], number)
        };
        let behind = b.choose(within, |b| b.choose_has(layer, start, walk, no), no);
        b.or(is, behind)
    }
}

/// Whether a protocol is one of these; any without a list.
pub(super) fn among(b: &mut Builder, proto: V, list: Option<&[u8]>) -> V {
    let Some(list) = list else { return b.constant(Width::W1, 1_u8) };
    let mut any = no(b);
    for &p in list {
        let is = b.eq(proto, p);
        any = b.or(any, is);
    }
    any
}

fn directions(b: &mut Builder, dir: Dir, test: &dyn Fn(&mut Builder, bool) -> V) -> V {
    match dir {
        Dir::Src => test(b, false),
        Dir::Dst => test(b, true),
        Dir::SrcOrDst => {
            let (src, dst) = (test(b, false), test(b, true));
            b.or(src, dst)
        }
        Dir::SrcAndDst => {
            let (src, dst) = (test(b, false), test(b, true));
            b.and(src, dst)
        }
    }
}

fn no(b: &mut Builder) -> V {
    b.constant(Width::W1, 0_u8)
}
