//! The parts of a primitive: what it tests, of which protocol, against which value.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::display::NAMED;
use super::primitive::Primitive;
use super::{Expr, Layer, Prim, protocol_name};
use crate::error::ValueError;
use crate::value::MacAddr;

/// What a primitive tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Net,
    Proto,
    Port,
    TcpFlags,
    Frag,
    Unfrag,
    Ect,
    Ce,
    /// `mask` selects the field within `width` bytes; `shift` is the position of its lowest bit.
    Field {
        layer: Layer,
        offset: u16,
        width: u8,
        mask: u32,
        shift: u32,
        name: &'static str,
    },
}

impl Kind {
    /// The name of a field that has none, `tcp[13]`.
    pub(super) const BRACKETS: &str = "the field";
    pub(super) const ICMP_TYPE: Kind =
        Kind::Field { layer: Layer::Proto(1), offset: 0, width: 1, mask: 0xff, shift: 0, name: "icmp type" };

    /// The kind that a word names.
    pub(super) fn by_word(word: &str) -> Option<Kind> {
        Some(match word {
            "host" => Kind::Host,
            "net" => Kind::Net,
            "proto" => Kind::Proto,
            "port" | "portrange" => Kind::Port,
            "opt" => Kind::TcpFlags,
            "frag" => Kind::Frag,
            "unfrag" => Kind::Unfrag,
            "ect" => Kind::Ect,
            "ce" => Kind::Ce,
            _ => {
                let n =
                    NAMED.iter().find(|n| n.name.split_once(' ').is_some_and(|(_, last)| last == word))?;
                Kind::Field {
                    layer: n.layer,
                    offset: n.offset,
                    width: n.width,
                    mask: n.mask,
                    shift: n.shift,
                    name: n.name,
                }
            }
        })
    }
}

/// A protocol word: a protocol, `tcpudp` or `transp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proto {
    Number(u8),
    TcpUdp,
    Any,
}

impl Proto {
    /// Whether the protocol's header begins with a source and a destination port.
    pub(super) fn has_ports(self) -> bool {
        matches!(self, Proto::TcpUdp | Proto::Number(6 | 17 | 33 | 132 | 136))
    }

    pub(super) fn expr(self) -> Expr {
        match self {
            Proto::Number(n) => Prim::Proto(n).into(),
            Proto::TcpUdp => Expr::or([Prim::Proto(6).into(), Prim::Proto(17).into()]),
            Proto::Any => Expr::True,
        }
    }
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proto::Number(n) => match protocol_name(*n) {
                Some(name) => f.write_str(name),
                None => write!(f, "protocol {n}"),
            },
            Proto::TcpUdp => f.write_str("tcpudp"),
            Proto::Any => f.write_str("transp"),
        }
    }
}

/// A primitive's value, as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    None,
    Number(u32),
    Proto(Proto),
    Port(u16),
    PortRange(u16, u16),
    TcpFlags(u8),
    IcmpType(u8),
    Host(Ipv4Addr),
    Net(Ipv4Addr, Ipv4Addr),
    Host6(Ipv6Addr),
    Net6(Ipv6Addr, u8),
    Mac(MacAddr),
}

impl Value {
    /// An IP address or prefix.
    pub(super) fn address(word: &str) -> Option<Value> {
        let Some((addr, len)) = word.split_once('/') else {
            return Some(match word.parse().ok()? {
                IpAddr::V4(a) => Value::Host(a),
                IpAddr::V6(a) => Value::Host6(a),
            });
        };
        let addr: IpAddr = addr.parse().ok()?;
        let digits = !len.is_empty() && len.len() <= 3 && len.bytes().all(|b| b.is_ascii_digit());
        match (addr, len.parse::<u8>()) {
            (IpAddr::V4(a), Ok(len)) if digits && len <= 32 => {
                Some(Value::Net(a, u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0).into()))
            }
            (IpAddr::V6(a), Ok(len)) if digits && len <= 128 => Some(Value::Net6(a, len)),
            // `10.0.0.0/255.0.0.0`
            (IpAddr::V4(a), _) => Some(Value::Net(a, len.parse().ok()?)),
            _ => None,
        }
    }

    pub(super) fn kind(self, previous: &Primitive) -> Result<Option<Kind>, ValueError> {
        Ok(match self {
            Value::None | Value::Mac(_) => None,
            Value::Host(_) | Value::Host6(_) => Some(Kind::Host),
            Value::Net(..) | Value::Net6(..) => Some(Kind::Net),
            Value::Proto(_) => Some(Kind::Proto),
            Value::Port(_) | Value::PortRange(..) => Some(Kind::Port),
            Value::TcpFlags(_) => Some(Kind::TcpFlags),
            Value::IcmpType(_) => Some(Kind::ICMP_TYPE),
            Value::Number(n) => match previous.kind {
                Some(kind @ (Kind::Field { .. } | Kind::Proto | Kind::Port)) => Some(kind),
                _ => {
                    return Err(ValueError::new(
                        format!("{n} of what?"),
                        format!("write what it is, such as \"port {n}\""),
                    ));
                }
            },
        })
    }
}
