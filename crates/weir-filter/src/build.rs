//! From the parts of a primitive to an expression: defaults, repetition of earlier qualifiers, checks.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::part::{Kind, Proto, Value};
use super::primitive::{Family, Primitive};
use super::{AddressOf, Cmp, Dir, Expr, Field, IpVersion, Layer, Ports, Prim};
use crate::text::ValueError;

impl Primitive {
    /// The expression; `previous` supplies what an unqualified value leaves out, and becomes this primitive. `click`: as Click
    /// reads it.
    pub(super) fn build(
        mut self,
        value: Value,
        previous: &mut Primitive,
        click: bool,
    ) -> Result<Expr, ValueError> {
        let inferred = self.kind.is_none();
        if inferred {
            self.kind = value.kind(previous)?;
            match self.kind {
                Some(Kind::Port) => {
                    self.dir = self.dir.or(previous.dir);
                    self.proto = self.proto.or(previous.proto);
                    self.family = self.family.or(previous.family);
                }
                Some(Kind::Host | Kind::Net) => {
                    self.dir = self.dir.or(previous.dir);
                    self.family = self.family.or(previous.family);
                }
                Some(Kind::Proto | Kind::Chain) => self.family = self.family.or(previous.family),
                // A field's own protocol; unlike a port's it is part of what the field is.
                Some(Kind::Field { layer: Layer::Proto(p), .. }) => {
                    self.proto = self.proto.or(Some(Proto::Number(p)));
                }
                _ if matches!(value, Value::Mac(_)) => self.dir = self.dir.or(previous.dir),
                _ => {}
            }
        }
        let expr = self.expr(value, click)?;
        *previous = Primitive { mask: None, cmp: None, ..self };
        Ok(expr)
    }

    fn expr(&self, value: Value, click: bool) -> Result<Expr, ValueError> {
        let Some(kind) = self.kind else { return self.kindless(value) };
        let with_ports_or_addresses = matches!(kind, Kind::Host | Kind::Net | Kind::Port);
        if self.dir.is_some() && !with_ports_or_addresses {
            return Err(ValueError::new(
                "src and dst have no meaning here",
                "they go with host, net and port",
            ));
        }
        let arp = matches!(self.family, Some(Family::Arp | Family::Rarp));
        if arp && !matches!(kind, Kind::Host | Kind::Net) {
            return Err(ValueError::new("ARP has no such field", "write \"arp and …\", or arp[6:2] = 1"));
        }
        match kind {
            Kind::Host | Kind::Net => self.address(kind, value),
            Kind::Proto => self.protocol(value),
            Kind::Chain => self.chain(value),
            Kind::Port => Ok(self.with_family(self.port(value, click)?)),
            Kind::TcpFlags => {
                let flags = match value {
                    Value::TcpFlags(f) => f,
                    Value::Number(n) if (1..=255).contains(&n) => n.to_le_bytes()[0],
                    _ => return Err(missing("a TCP flag", "tcp opt syn")),
                };
                if !matches!(self.proto, None | Some(Proto::Number(6))) {
                    return Err(ValueError::new("only TCP has these flags", "write \"tcp opt syn\""));
                }
                self.no_comparison("tcp opt")?;
                Ok(self.with_family(Prim::Field(Field::tcp_flags(flags)).into()))
            }
            Kind::Frag => self.bare(value, "ip frag", Prim::Field(Field::FRAG).into()),
            Kind::Unfrag => self.bare(value, "ip unfrag", Expr::from(Prim::Field(Field::FRAG)).not()),
            Kind::Ce => self.bare(value, "ip ce", Prim::Field(Field::CE).into()),
            Kind::Ect if value == Value::None => self.bare(value, "ip ect", Prim::Field(Field::ECT).into()),
            Kind::Ect => self.field(Field::ECT, 0, 3, "ip ect", value),
            Kind::Field { layer, offset, width, mask, shift, name } => self.field(
                Field { layer, offset, width, mask, cmp: Cmp::Eq, value: 0 },
                shift,
                mask,
                name,
                value,
            ),
        }
    }

    /// `ip6 port 80` also asks for IPv6.
    fn with_family(&self, expr: Expr) -> Expr {
        match self.family {
            Some(family) => Expr::and([Prim::EtherType(family.ether_type()).into(), expr]),
            None => expr,
        }
    }

    /// The IP version that was said.
    fn version(&self) -> Option<IpVersion> {
        match self.family {
            Some(Family::Ip) => Some(IpVersion::V4),
            Some(Family::Ip6) => Some(IpVersion::V6),
            _ => None,
        }
    }

    /// Fields with names are those of IPv4.
    fn not_of_ipv6(&self, name: &str) -> Result<(), ValueError> {
        match self.family {
            Some(Family::Ip6) => Err(ValueError::new(
                format!("{name:?} is a field of IPv4"),
                "write bytes of the IPv6 header, such as ip6[7] for the hop limit",
            )),
            _ => Ok(()),
        }
    }

    /// A primitive of which neither a word nor its value says the kind: `tcp`, `ip`, a MAC address.
    fn kindless(&self, value: Value) -> Result<Expr, ValueError> {
        self.no_mask_or_order("this")?;
        if let Value::Mac(addr) = value {
            let host = Expr::from(Prim::EtherHost { dir: self.dir.unwrap_or(Dir::SrcOrDst), addr });
            return Ok(self.signed(host));
        }
        match (self.dir, self.proto, self.family) {
            (None, Some(Proto::Number(number)), Some(_)) if self.version().is_some() => {
                Ok(Prim::Proto { number, version: self.version() }.into())
            }
            (None, Some(proto), _) => Ok(self.with_family(proto.expr())),
            (None, None, Some(family)) => Ok(Prim::EtherType(family.ether_type()).into()),
            _ => Err(ValueError::new(
                "the primitive is not complete",
                "write, for example, \"src host 10.0.0.1\" or \"dst port 80\"",
            )),
        }
    }

    fn address(&self, kind: Kind, value: Value) -> Result<Expr, ValueError> {
        let word = if kind == Kind::Host { "host" } else { "net" };
        self.no_mask_or_order(word)?;
        let dir = self.dir.unwrap_or(Dir::SrcOrDst);
        let of = match self.family {
            None => AddressOf::Any,
            Some(Family::Ip | Family::Ip6) => AddressOf::Ip,
            Some(Family::Arp) => AddressOf::Arp,
            Some(Family::Rarp) => AddressOf::Rarp,
        };
        let v4 = |addr: Ipv4Addr, mask: Ipv4Addr| match self.family {
            Some(Family::Ip6) => Err(ValueError::new(
                format!("{addr} is an IPv4 address"),
                "write an IPv6 address, or leave ip6 out",
            )),
            _ => Ok(Prim::Net { of, dir, addr: (u32::from(addr) & u32::from(mask)).into(), mask }),
        };
        let v6 = |addr: Ipv6Addr, len: u8| match self.family {
            None | Some(Family::Ip6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                Ok(Prim::Net6 { dir, addr: (u128::from(addr) & mask).into(), len })
            }
            Some(_) => Err(ValueError::new(
                format!("{addr} is an IPv6 address"),
                "write an IPv4 address, or ip6 before it",
            )),
        };
        let prim = match (kind, value) {
            // A network without a length is as long as it is written.
            (_, Value::Host(addr)) => v4(addr, Ipv4Addr::BROADCAST)?,
            (_, Value::Host6(addr)) => v6(addr, 128)?,
            (Kind::Net, Value::Net(addr, mask)) => v4(addr, mask)?,
            (Kind::Net, Value::Net6(addr, len)) => v6(addr, len)?,
            (Kind::Host, Value::Mac(addr)) => Prim::EtherHost { dir, addr },
            (Kind::Host, _) => return Err(missing("an address", "host 10.0.0.1")),
            _ => return Err(missing("a prefix", "net 10.0.0.0/8")),
        };
        Ok(self.with_proto(self.signed(prim.into())))
    }

    fn protocol(&self, value: Value) -> Result<Expr, ValueError> {
        let number = match (value, self.proto) {
            (Value::Proto(Proto::Number(n)), None) => n,
            (Value::Number(n), None) => u8::try_from(n).map_err(|_| out_of_range(n, "a protocol", 255))?,
            (Value::None, Some(proto)) => {
                self.no_mask_or_order("proto")?;
                return Ok(self.signed(proto.expr()));
            }
            (Value::Proto(p), None) => return Ok(self.signed(p.expr())),
            (_, Some(_)) => {
                return Err(ValueError::new("two protocols in one primitive", "join them with \"or\""));
            }
            _ => return Err(missing("a protocol", "ip proto tcp")),
        };
        let version = self.version();
        match (self.mask, self.cmp.unwrap_or(Cmp::Eq)) {
            (None, Cmp::Eq | Cmp::Ne) => Ok(self.signed(Prim::Proto { number, version }.into())),
            _ => {
                let of = |layer, offset| {
                    let field = Field { layer, offset, width: 1, mask: 0xff, cmp: Cmp::Eq, value: 0 };
                    self.field_expr(field, 0, 0xff, "a protocol", u32::from(number))
                };
                let (v4, v6) = (of(Layer::Ip, 9)?, of(Layer::Ip6, 6)?);
                Ok(match version {
                    None => Expr::or([v4, v6]),
                    Some(IpVersion::V4) => v4,
                    Some(IpVersion::V6) => v6,
                })
            }
        }
    }

    fn chain(&self, value: Value) -> Result<Expr, ValueError> {
        self.no_mask_or_order("protochain")?;
        let number = match (value, self.proto) {
            (Value::Proto(Proto::Number(n)), None) => n,
            (Value::Number(n), None) => u8::try_from(n).map_err(|_| out_of_range(n, "a protocol", 255))?,
            _ => return Err(missing("a protocol", "ip6 protochain 17")),
        };
        Ok(self.signed(Prim::Chain { number, version: self.version() }.into()))
    }

    fn port(&self, value: Value, click: bool) -> Result<Expr, ValueError> {
        let proto = match self.proto {
            None if !click => Ports::Any,
            None | Some(Proto::TcpUdp) => Ports::TcpUdp,
            Some(Proto::Number(n)) if Proto::Number(n).has_ports() => Ports::Of(n),
            Some(other) => {
                return Err(ValueError::new(
                    format!("{other} has no ports"),
                    "tcp, udp, sctp, dccp and udplite have",
                ));
            }
        };
        let dir = self.dir.unwrap_or(Dir::SrcOrDst);
        let cmp = self.cmp.unwrap_or(Cmp::Eq);
        let (lo, hi) = match value {
            Value::Port(p) => (p, p),
            Value::Number(n) => {
                u16::try_from(n).map(|p| (p, p)).map_err(|_| out_of_range(n, "a port", 65535))?
            }
            Value::PortRange(lo, hi) if lo > hi => {
                return Err(ValueError::new(
                    format!("the range {lo}-{hi} is empty"),
                    format!("write {hi}-{lo}"),
                ));
            }
            Value::PortRange(lo, hi) => (lo, hi),
            _ => return Err(missing("a port", "port 80")),
        };
        if lo != hi && (self.mask.is_some() || !matches!(cmp, Cmp::Eq | Cmp::Ne)) {
            return Err(ValueError::new("a range goes with == and != only", "write a single port"));
        }
        if let Some(mask) = self.mask {
            return masked_ports(dir, proto, mask, cmp, u32::from(lo));
        }
        let range = |dir, lo, hi| Expr::from(Prim::Port { dir, lo, hi, proto });
        let ordered = |dir, lo: Option<u16>, hi: Option<u16>| match (lo, hi) {
            (Some(lo), Some(hi)) => range(dir, lo, hi),
            _ => Expr::False,
        };
        Ok(match cmp {
            Cmp::Eq => range(dir, lo, hi),
            Cmp::Ne => Expr::and([range(dir, 0, u16::MAX), range(dir, lo, hi).not()]),
            Cmp::Gt => ordered(dir, lo.checked_add(1), Some(u16::MAX)),
            Cmp::Ge => range(dir, lo, u16::MAX),
            Cmp::Lt => ordered(for_both(dir), Some(0), lo.checked_sub(1)),
            Cmp::Le => range(for_both(dir), 0, lo),
        })
    }

    /// A field's comparison with a value; `max` is the largest unshifted bit pattern of the field.
    fn field(
        &self,
        field: Field,
        shift: u32,
        max: u32,
        name: &str,
        value: Value,
    ) -> Result<Expr, ValueError> {
        let number = match value {
            Value::Number(n) => n,
            Value::IcmpType(t) => u32::from(t),
            _ => return Err(missing("a number", &format!("{name} 1"))),
        };
        let expr = self.field_expr(field, shift, max, name, number)?;
        match field.layer {
            Layer::Ip => {
                self.not_of_ipv6(name)?;
                Ok(self.with_proto(expr))
            }
            _ => Ok(self.with_family(expr)),
        }
    }

    fn field_expr(
        &self,
        field: Field,
        shift: u32,
        mask: u32,
        name: &str,
        number: u32,
    ) -> Result<Expr, ValueError> {
        let max = mask >> shift;
        if number > max {
            return Err(out_of_range(number, name, max));
        }
        let mask = match self.mask {
            None => mask,
            Some(m) if m <= max => m << shift,
            Some(m) => {
                return Err(ValueError::new(
                    format!("the mask {m:#x} is wider than {name}"),
                    format!("at most {max:#x}"),
                ));
            }
        };
        Ok(Prim::Field(Field { mask, cmp: self.cmp.unwrap_or(Cmp::Eq), value: number << shift, ..field })
            .into())
    }

    /// A primitive that has no value.
    fn bare(&self, value: Value, name: &str, expr: Expr) -> Result<Expr, ValueError> {
        if value != Value::None {
            return Err(ValueError::new(format!("{name:?} takes no value"), "join terms with \"and\""));
        }
        self.no_comparison(name)?;
        self.not_of_ipv6(name)?;
        Ok(self.with_proto(expr))
    }

    /// `tcp host 10.0.0.1` also asks for the protocol.
    fn with_proto(&self, expr: Expr) -> Expr {
        match self.proto {
            Some(proto) => Expr::and([proto.expr(), expr]),
            None => expr,
        }
    }

    fn signed(&self, expr: Expr) -> Expr {
        if self.cmp == Some(Cmp::Ne) { expr.not() } else { expr }
    }

    fn no_comparison(&self, name: &str) -> Result<(), ValueError> {
        match (self.mask, self.cmp) {
            (None, None | Some(Cmp::Eq)) => Ok(()),
            _ => Err(ValueError::new(
                format!("{name:?} goes without mask and comparison"),
                "use \"not\" to negate it",
            )),
        }
    }

    fn no_mask_or_order(&self, name: &str) -> Result<(), ValueError> {
        match (self.mask, self.cmp) {
            (None, None | Some(Cmp::Eq | Cmp::Ne)) => Ok(()),
            _ => Err(ValueError::new(
                format!("{name:?} goes with == and != only"),
                "write a prefix such as 10.0.0.0/8 for a mask",
            )),
        }
    }
}

/// The direction that a negative comparison has once the negation is moved inside: "not (src or dst)" is about both.
fn for_both(dir: Dir) -> Dir {
    match dir {
        Dir::SrcOrDst => Dir::SrcAndDst,
        Dir::SrcAndDst => Dir::SrcOrDst,
        one => one,
    }
}

fn masked_ports(dir: Dir, proto: Ports, mask: u32, cmp: Cmp, value: u32) -> Result<Expr, ValueError> {
    if mask > 0xffff {
        return Err(ValueError::new(format!("the mask {mask:#x} is wider than a port"), "at most 0xffff"));
    }
    let layer = match proto {
        Ports::Any => {
            let each = [Ports::TcpUdp, Ports::Of(132)].map(|p| masked_ports(dir, p, mask, cmp, value));
            let [tcp_udp, sctp] = each;
            return Ok(Expr::or([tcp_udp?, sctp?]));
        }
        Ports::TcpUdp => Layer::TcpUdp,
        Ports::Of(p) => Layer::Proto(p),
    };
    let at = |offset| Expr::from(Prim::Field(Field { layer, offset, width: 2, mask, cmp, value }));
    let dir = if matches!(cmp, Cmp::Ne | Cmp::Lt | Cmp::Le) { for_both(dir) } else { dir };
    Ok(match dir {
        Dir::Src => at(0),
        Dir::Dst => at(2),
        Dir::SrcOrDst => Expr::or([at(0), at(2)]),
        Dir::SrcAndDst => Expr::and([at(0), at(2)]),
    })
}

fn missing(what: &str, example: &str) -> ValueError {
    ValueError::new(format!("{what} is missing"), format!("write, for example, {example:?}"))
}

fn out_of_range(number: u32, what: &str, max: u32) -> ValueError {
    ValueError::new(format!("{number} is out of range"), format!("{what} is 0 to {max}"))
}
