//! Filter expressions as programs: the compiled form of `weir_model::filter`.

use weir_ir::{Builder, Layer, V, Width};
use weir_model::filter::{Cmp, Dir, Expr, Field, Layer as FieldLayer, Prim};

/// What a filter looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// A packet whose `net` mark stands on an IPv4 header, of which 20 bytes are known to be there.
    Ip,
    /// An Ethernet frame.
    Ethernet,
}

/// A packet's headers, read once for all expressions that are tested. The `cursor` mark stands on the transport
/// header of a first fragment, and is unset for all other packets.
#[derive(Debug)]
pub struct Headers {
    /// Whether the packet is IPv4 and has a source, and a destination address; `None`: it always has.
    is_v4: Option<[V; 2]>,
    is_v6: Option<[V; 2]>,
    /// Source and destination address, IPv4: source in the high half.
    v4: Option<V>,
    v6: Option<[V; 2]>,
    proto: Option<V>,
    /// Source and destination port, 34 bits: the highest two say whether they are there.
    ports: Option<V>,
    ether_type: Option<V>,
    /// Tag control information, 17 bits: the highest says whether there is a tag.
    vlan: Option<V>,
}

/// What the expressions need.
#[derive(Debug, Default)]
struct Needs {
    link: bool,
    net: bool,
    v6: bool,
    transport: bool,
    ports: bool,
}

impl Needs {
    fn of(exprs: &[&Expr], view: View) -> Needs {
        let mut n = Needs::default();
        for e in exprs {
            e.for_each_prim(&mut |p| match p {
                Prim::EtherHost { .. } | Prim::EtherType(_) | Prim::Vlan(_) => n.link = true,
                Prim::Net { .. } | Prim::Proto(_) => n.net = true,
                Prim::Net6 { .. } => (n.net, n.v6) = (true, true),
                Prim::Port { .. } => (n.net, n.transport, n.ports) = (true, true, true),
                Prim::Field(f) => {
                    n.net = true;
                    n.transport |= f.layer != FieldLayer::Ip;
                }
            });
        }
        n.link |= n.net && view == View::Ethernet;
        n
    }
}

impl Headers {
    /// Reads what the expressions need. In the Ethernet view, sets the `mac` and `net` marks if they need more than
    /// addresses of the frame.
    pub fn read(b: &mut Builder, view: View, exprs: &[&Expr]) -> Headers {
        let needs = Needs::of(exprs, view);
        let mut h = Headers {
            is_v4: None,
            is_v6: None,
            v4: None,
            v6: None,
            proto: None,
            ports: None,
            ether_type: None,
            vlan: None,
        };
        if view == View::Ethernet && needs.link {
            h.read_link(b);
        }
        if needs.net {
            h.read_net(b, view, needs.v6);
        }
        if needs.transport {
            h.read_transport(b);
        }
        if needs.ports {
            h.ports = Some(b.choose_has(
                Layer::Cursor,
                4,
                |b| {
                    let ports = b.load(Width::W32, Layer::Cursor, 0);
                    let ports = b.resize(Width::W64, ports);
                    b.or(ports, 3_u64 << 32)
                },
                |b| {
                    b.choose_has(
                        Layer::Cursor,
                        2,
                        |b| {
                            let src = b.load(Width::W16, Layer::Cursor, 0);
                            let src = b.resize(Width::W64, src);
                            let src = b.shl(src, 16);
                            b.or(src, 2_u64 << 32)
                        },
                        |b| b.constant(Width::W64, 0_u64),
                    )
                },
            ));
        }
        h
    }

    /// Walks over VLAN tags; `net` marks what follows, or is unset if the frame is cut short.
    fn read_link(&mut self, b: &mut Builder) {
        b.clear_mark(Layer::Net);
        // EtherType (low 16 bits), then tag control information of the outermost tag and whether there is one.
        let found = b.choose_has(
            Layer::Data,
            14,
            |b| {
                b.set_mark(Layer::Mac, Layer::Data, 0);
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
                    b.switch(kind, &[0x8100, 0x88a8], |b, case| {
                        if case.is_some() {
                            return;
                        }
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
            },
            |b| b.constant(Width::W64, 0_u64),
        );
        self.ether_type = Some(b.resize(Width::W16, found));
        let vlan = b.shr(found, 16);
        self.vlan = Some(b.resize(Width::W32, vlan));
    }

    fn read_net(&mut self, b: &mut Builder, view: View, v6: bool) {
        if view == View::Ip {
            let both = b.load(Width::W64, Layer::Net, 12);
            self.v4 = Some(both);
            self.proto = Some(b.load(Width::W8, Layer::Net, 9));
            return;
        }
        let ether_type = self.ether_type.expect("the link header was read");
        let is_v4 = b.eq(ether_type, 0x0800);
        let is_v6 = b.eq(ether_type, 0x86dd);
        self.v4 = Some(b.choose_has(
            Layer::Net,
            20,
            |b| b.load(Width::W64, Layer::Net, 12),
            |b| {
                b.choose_has(
                    Layer::Net,
                    16,
                    |b| {
                        let src = b.load(Width::W32, Layer::Net, 12);
                        let src = b.resize(Width::W64, src);
                        b.shl(src, 32)
                    },
                    |b| b.constant(Width::W64, 0_u64),
                )
            },
        ));
        // 0 is no protocol that a filter asks for here: IPv6 hop-by-hop options are not followed.
        self.proto = Some(b.choose(
            is_v4,
            |b| byte_or_zero(b, Layer::Net, 9),
            |b| b.choose(is_v6, |b| byte_or_zero(b, Layer::Net, 6), |b| b.constant(Width::W8, 0_u8)),
        ));
        // An address that is cut off matches nothing, not even 0.0.0.0.
        let mut with = |is: V, ends: [u32; 2]| {
            ends.map(|end| {
                let whole = has(b, Layer::Net, end);
                b.and(is, whole)
            })
        };
        self.is_v4 = Some(with(is_v4, [16, 20]));
        if v6 {
            self.is_v6 = Some(with(is_v6, [24, 40]));
            self.v6 = Some([8, 24].map(|off| {
                b.choose_has(
                    Layer::Net,
                    off + 16,
                    |b| b.load(Width::W128, Layer::Net, off),
                    |b| b.constant(Width::W128, 0_u128),
                )
            }));
        }
    }

    fn read_transport(&mut self, b: &mut Builder) {
        b.clear_mark(Layer::Cursor);
        let v4 = |b: &mut Builder| {
            b.if_has(
                Layer::Net,
                8,
                |b| {
                    let len = crate::headers::ip_header_len(b);
                    let fragment = b.load(Width::W16, Layer::Net, 6);
                    let offset = b.and(fragment, 0x1fff);
                    let first = b.eq(offset, 0);
                    b.when(first, |b| {
                        b.if_has(Layer::Net, len, |b| b.set_mark(Layer::Cursor, Layer::Net, len), |_| {});
                    });
                },
                |_| {},
            );
        };
        match (self.is_v4, self.ether_type) {
            (Some(_), Some(ether_type)) => {
                b.switch(ether_type, &[0x0800, 0x86dd], |b, case| match case {
                    Some(0) => v4(b),
                    Some(_) => {
                        b.if_has(Layer::Net, 40, |b| b.set_mark(Layer::Cursor, Layer::Net, 40), |_| {});
                    }
                    None => {}
                });
            }
            _ => v4(b),
        }
    }

    /// The EtherType after VLAN tags; 0 if the frame is cut short (16 bits).
    pub fn ether_type(&self, b: &mut Builder) -> V {
        self.ether_type.unwrap_or_else(|| b.constant(Width::W16, 0x0800_u16))
    }

    /// The IPv4 protocol or IPv6 next header; 0 if there is none (8 bits).
    pub fn protocol_number(&self, b: &mut Builder) -> V {
        self.proto.unwrap_or_else(|| b.constant(Width::W8, 0_u8))
    }

    /// Whether the packet matches (1 bit).
    pub fn test(&self, b: &mut Builder, expr: &Expr) -> V {
        match expr {
            Expr::True => b.constant(Width::W1, 1_u8),
            Expr::False => b.constant(Width::W1, 0_u8),
            Expr::And(arms) => self.all(b, arms, Builder::and),
            Expr::Or(arms) => self.all(b, arms, Builder::or),
            Expr::Not(arm) => {
                let v = self.test(b, arm);
                b.not(v)
            }
            Expr::Prim(p) => self.prim(b, p),
        }
    }

    fn all(&self, b: &mut Builder, arms: &[Expr], join: impl Fn(&mut Builder, V, V) -> V) -> V {
        let mut result = self.test(b, &arms[0]);
        for arm in &arms[1..] {
            let v = self.test(b, arm);
            result = join(b, result, v);
        }
        result
    }

    fn prim(&self, b: &mut Builder, prim: &Prim) -> V {
        match *prim {
            Prim::Net { dir, addr, mask } => {
                let (addr, mask) = (u64::from(u32::from(addr)), u64::from(u32::from(mask)));
                let both = self.v4.expect("the network header was read");
                directions(b, dir, |b, dst| {
                    let shift = if dst { 0 } else { 32 };
                    let part = b.and(both, mask << shift);
                    let v = b.eq(part, addr << shift);
                    guard(b, v, self.is_v4.map(|is| is[usize::from(dst)]))
                })
            }
            Prim::Net6 { dir, addr, len } => {
                let Some(addrs) = self.v6 else { return b.constant(Width::W1, 0_u8) };
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                directions(b, dir, |b, dst| {
                    let part = b.and(addrs[usize::from(dst)], mask);
                    let v = b.eq(part, u128::from(addr) & mask);
                    guard(b, v, self.is_v6.map(|is| is[usize::from(dst)]))
                })
            }
            Prim::EtherHost { dir, addr } => {
                let bits = addr.0.iter().fold(0, |v: u64, &o| v << 8 | u64::from(o));
                let whole = has(b, Layer::Net, 0);
                let v = b.choose_has(
                    Layer::Data,
                    14,
                    |b| {
                        directions(b, dir, |b, dst| {
                            let v = crate::headers::load_ether(b, Layer::Data, if dst { 0 } else { 6 });
                            b.eq(v, bits)
                        })
                    },
                    |b| b.constant(Width::W1, 0_u8),
                );
                b.and(v, whole)
            }
            Prim::EtherType(t) => match self.ether_type {
                Some(v) => {
                    let v = b.eq(v, t);
                    let whole = has(b, Layer::Net, 0);
                    b.and(v, whole)
                }
                None => b.constant(Width::W1, u8::from(t == 0x0800)),
            },
            Prim::Vlan(id) => match (self.vlan, id) {
                (None, _) => b.constant(Width::W1, 0_u8),
                (Some(v), None) => b.ge(v, 0x1_0000),
                (Some(v), Some(id)) => {
                    let v = b.and(v, 0x1_0fff);
                    b.eq(v, 0x1_0000 | u32::from(id))
                }
            },
            Prim::Proto(p) => {
                let proto = self.proto.expect("the network header was read");
                let v = b.eq(proto, p);
                if p == 0 { self.guard_ip(b, v) } else { v }
            }
            Prim::Port { dir, lo, hi, proto } => {
                let ports = self.ports.expect("the ports were read");
                let v = directions(b, dir, |b, dst| {
                    let port = if dst { ports } else { b.shr(ports, 16) };
                    let port = b.resize(Width::W16, port);
                    let there = b.shr(ports, if dst { 32 } else { 33 });
                    let there = b.resize(Width::W1, there);
                    let right = if lo == hi {
                        b.eq(port, lo)
                    } else {
                        let from_lo = b.sub(port, lo);
                        b.le(from_lo, hi - lo)
                    };
                    b.and(right, there)
                });
                let right = self.protocol(b, proto);
                b.and(v, right)
            }
            Prim::Field(f) => self.field(b, &f),
        }
    }

    /// Whether the protocol is this, or (without one) TCP or UDP.
    fn protocol(&self, b: &mut Builder, proto: Option<u8>) -> V {
        let v = self.proto.expect("the network header was read");
        match proto {
            Some(p) => b.eq(v, p),
            None => {
                let tcp = b.eq(v, 6);
                let udp = b.eq(v, 17);
                b.or(tcp, udp)
            }
        }
    }

    /// Protocol 0 is also what packets without one show.
    fn guard_ip(&self, b: &mut Builder, v: V) -> V {
        let Some(ether_type) = self.ether_type else { return v };
        let v4 = b.eq(ether_type, 0x0800);
        let v6 = b.eq(ether_type, 0x86dd);
        let there4 = has(b, Layer::Net, 10);
        let there6 = has(b, Layer::Net, 7);
        let v4 = b.and(v4, there4);
        let v6 = b.and(v6, there6);
        let ip = b.or(v4, v6);
        b.and(v, ip)
    }

    fn field(&self, b: &mut Builder, f: &Field) -> V {
        let layer = if f.layer == FieldLayer::Ip { Layer::Net } else { Layer::Cursor };
        let (off, width) = (u32::from(f.offset), u32::from(f.width));
        let v = b.choose_has(
            layer,
            off + width,
            |b| {
                let v = match width {
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
                    _ => b.load(Width::W32, layer, off),
                };
                let v = b.resize(Width::W32, v);
                let v = b.and(v, f.mask);
                match f.cmp {
                    Cmp::Eq => b.eq(v, f.value),
                    Cmp::Ne => b.ne(v, f.value),
                    Cmp::Lt => b.lt(v, f.value),
                    Cmp::Le => b.le(v, f.value),
                    Cmp::Gt => b.gt(v, f.value),
                    Cmp::Ge => b.ge(v, f.value),
                }
            },
            |b| b.constant(Width::W1, 0_u8),
        );
        match f.layer {
            FieldLayer::Ip => match (self.is_v4, self.ether_type) {
                (Some(_), Some(ether_type)) => {
                    let v4 = b.eq(ether_type, 0x0800);
                    b.and(v, v4)
                }
                _ => v,
            },
            FieldLayer::Transport => v,
            FieldLayer::TcpUdp => {
                let right = self.protocol(b, None);
                b.and(v, right)
            }
            FieldLayer::Proto(p) => {
                let right = self.protocol(b, Some(p));
                b.and(v, right)
            }
        }
    }
}

fn guard(b: &mut Builder, v: V, cond: Option<V>) -> V {
    match cond {
        Some(c) => b.and(v, c),
        None => v,
    }
}

fn has(b: &mut Builder, layer: Layer, n: u32) -> V {
    b.choose_has(layer, n, |b| b.constant(Width::W1, 1_u8), |b| b.constant(Width::W1, 0_u8))
}

fn byte_or_zero(b: &mut Builder, layer: Layer, off: u32) -> V {
    b.choose_has(layer, off + 1, |b| b.load(Width::W8, layer, off), |b| b.constant(Width::W8, 0_u8))
}

/// `test(b, false)` looks at the source, `test(b, true)` at the destination.
fn directions(b: &mut Builder, dir: Dir, test: impl Fn(&mut Builder, bool) -> V) -> V {
    match dir {
        Dir::Src => test(b, false),
        Dir::Dst => test(b, true),
        Dir::SrcOrDst | Dir::SrcAndDst => {
            let (src, dst) = (test(b, false), test(b, true));
            if dir == Dir::SrcOrDst { b.or(src, dst) } else { b.and(src, dst) }
        }
    }
}

#[cfg(test)]
mod tests;
