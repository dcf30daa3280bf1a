//! The parts of a primitive: what it tests, of which protocol, against which value.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::display::NAMED;
use super::primitive::Primitive;
use super::{Expr, IpVersion, Layer, Prim, protocol_name};
use crate::text::ValueError;
use weir_net::EtherAddr;

/// The kind of a primitive, by what it tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Net,
    Proto,
    Chain,
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
    pub(super) const ICMP_TYPE: Kind =
        Kind::Field { layer: Layer::Proto(1), offset: 0, width: 1, mask: 0xff, shift: 0, name: "icmp type" };

    /// The kind that a word names.
    pub(super) fn by_word(word: &str) -> Option<Kind> {
        Some(match word {
            "host" => Kind::Host,
            "net" => Kind::Net,
            "proto" => Kind::Proto,
            "protochain" => Kind::Chain,
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

    /// The IP version that the word for a protocol implies, as libpcap has it.
    pub(super) fn version(number: u8) -> Option<IpVersion> {
        match number {
            1 | 2 | 9 | 112 => Some(IpVersion::V4),
            58 => Some(IpVersion::V6),
            _ => None,
        }
    }

    /// What the word says.
    pub(super) fn expr(self) -> Expr {
        match self {
            Proto::Number(number) => Prim::Proto { number, version: Proto::version(number) }.into(),
            Proto::TcpUdp => Expr::or([6, 17].map(|number| Prim::Proto { number, version: None }.into())),
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
    Mac(EtherAddr),
}

impl Value {
    /// A network in short form, `10` to `10.1.2` (libpcap: the bytes that are left out are the host's).
    pub(super) fn short_net(word: &str) -> Option<Value> {
        let (addr, bytes) = short_address(word)?;
        // `net 0` would be the host 0.0.0.0 in libpcap.
        (bytes < 4 && word != "0").then(|| Value::Net(addr, (u32::MAX << (32 - 8 * bytes)).into()))
    }

    /// An IP address or prefix; `10/8` is `10.0.0.0/8`.
    pub(super) fn address(word: &str) -> Option<Value> {
        let Some((addr, len)) = word.split_once('/') else {
            return Some(match word.parse().ok()? {
                IpAddr::V4(a) => Value::Host(a),
                IpAddr::V6(a) => Value::Host6(a),
            });
        };
        let addr = addr.parse().ok().or_else(|| short_address(addr).map(|(a, _)| IpAddr::V4(a)))?;
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
                Some(kind @ (Kind::Field { .. } | Kind::Proto | Kind::Chain | Kind::Port)) => Some(kind),
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

/// One to four numbers with dots between, as the first bytes of an address, and how many.
fn short_address(text: &str) -> Option<(Ipv4Addr, u32)> {
    let mut octets = [0; 4];
    let mut bytes = 0;
    for (i, part) in text.split('.').enumerate() {
        let digits = part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
        *octets.get_mut(i)? = part.parse().ok().filter(|_| digits)?;
        bytes += 1;
    }
    Some((octets.into(), bytes))
}
