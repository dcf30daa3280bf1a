//! Primitives: `[qualifiers] [& mask] [comparison] [value]`, each part optional where the rest or the primitive before says it.

use super::parse::Parser;
use super::part::{Kind, Proto, Value};
use super::{Cmp, Dialect, Dir, Expr, FilterError, Layer, names, protocol_number};
use crate::TCP_FLAGS;
use crate::text::{closest, parse_number, quote};
use weir_net::EtherAddr;

/// The parts of a primitive, as read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Primitive {
    pub kind: Option<Kind>,
    pub dir: Option<Dir>,
    pub proto: Option<Proto>,
    pub family: Option<Family>,
    pub mask: Option<u32>,
    pub cmp: Option<Cmp>,
}

/// The protocol behind the EtherType that was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Ip,
    Ip6,
    Arp,
    Rarp,
}

impl Family {
    pub(super) fn ether_type(self) -> u16 {
        match self {
            Family::Ip => 0x0800,
            Family::Ip6 => 0x86dd,
            Family::Arp => 0x0806,
            Family::Rarp => 0x8035,
        }
    }
}

/// Words that a primitive may begin with, for suggestions.
const WORDS: &[&str] = &[
    "host",
    "net",
    "port",
    "portrange",
    "proto",
    "protochain",
    "src",
    "dst",
    "ip",
    "ip6",
    "arp",
    "rarp",
    "ether",
    "link",
    "vlan",
    "tags",
    "mpls",
    "pppoes",
    "pppoed",
    "broadcast",
    "multicast",
    "greater",
    "less",
    "frag",
    "unfrag",
    "ect",
    "ce",
    "opt",
    "type",
    "code",
    "win",
    "tos",
    "dscp",
    "ttl",
    "len",
    "id",
    "hl",
    "vers",
    "transp",
    "tcpudp",
    "true",
    "false",
    "any",
    "all",
    "none",
    "not",
    "and",
    "or",
];

/// Whether a word or symbol may begin a filter; numbers do not, though they are values.
pub(super) fn is_word(word: &str) -> bool {
    WORDS.contains(&word)
        || matches!(word, "(" | "!" | "-" | "dest")
        || protocol_number(word).is_some()
        || names::find(names::PORTS, word).is_some()
        || names::find(names::ICMP_TYPES, word).is_some()
        || TCP_FLAGS.contains(&word)
        || Value::address(word).is_some()
}

impl Parser<'_> {
    /// Reads one primitive and makes an expression of it.
    pub(super) fn primitive(&mut self) -> Result<Expr, FilterError> {
        if let Some(expr) = self.link_primitive()? {
            return Ok(expr);
        }
        let start = self.column();
        let mut p = Primitive::default();
        let negated = self.qualifiers(&mut p)?;
        let qualified = self.column() != start;
        if qualified {
            self.previous = Primitive::default();
        }
        if self.peek() == Some("&") {
            p.mask = Some(self.mask()?);
        }
        let at_cmp = self.column();
        p.cmp = self.comparison();
        let at_value = self.column();
        let value = self.value(&p)?;
        if let (Value::None, Some(_)) = (value, p.cmp) {
            return Err(FilterError {
                column: at_cmp,
                ..self.error("a comparison without a value", "write a number after it")
            });
        }
        if !qualified && matches!(value, Value::None) {
            let word = self.peek().unwrap_or_default();
            let known = WORDS
                .iter()
                .copied()
                .chain(names::PROTOCOLS.iter().map(|(n, _)| *n))
                .chain(names::PORTS.iter().map(|(n, _)| *n));
            let help = match closest(word, known) {
                Some(k) => format!("did you mean {k:?}?"),
                None => "write a primitive such as \"tcp\", \"src host 10.0.0.1\" or \"port 80\"".into(),
            };
            return Err(self.error(format!("{} is not known", quote(word)), help));
        }
        let click = self.dialect == Dialect::Click;
        let expr = p.build(value, &mut self.previous, click).map_err(|e| FilterError {
            column: if matches!(value, Value::None) { start } else { at_value },
            message: e.message,
            help: e.help,
        })?;
        let expr = self.leaf(expr)?;
        Ok(if negated { expr.not() } else { expr })
    }

    /// Reads words until one that is a value; true if a `not` stood among them.
    fn qualifiers(&mut self, p: &mut Primitive) -> Result<bool, FilterError> {
        let mut negated = false;
        while let Some(word) = self.peek() {
            if let Some(kind) = Kind::by_word(word) {
                if p.kind.is_some() {
                    return Err(self.error(
                        format!("{word:?} is a second kind of value in one primitive"),
                        "separate them with \"and\"",
                    ));
                }
                p.kind = Some(kind);
                if let Kind::Field { layer: Layer::Proto(proto), .. } = kind {
                    self.set_proto(p, Proto::Number(proto))?;
                }
            } else if let Some(dir) = self.direction() {
                if p.dir.is_some() {
                    return Err(self.error(
                        "the direction is given twice",
                        "write src, dst, \"src or dst\" or \"src and dst\" once",
                    ));
                }
                p.dir = Some(dir);
                continue;
            } else {
                match word {
                    "ip" => p.family = Some(Family::Ip),
                    "ip6" => p.family = Some(Family::Ip6),
                    "arp" => p.family = Some(Family::Arp),
                    "rarp" => p.family = Some(Family::Rarp),
                    "not" | "!" => negated = !negated,
                    "tcpudp" => self.set_proto(p, Proto::TcpUdp)?,
                    "transp" => self.set_proto(p, Proto::Any)?,
                    // `proto tcp` names the protocol as its value, and so does `ip proto != udp`.
                    _ if matches!(p.kind, Some(Kind::Proto | Kind::Chain)) => break,
                    _ => match protocol_number(word) {
                        Some(n) => self.set_proto(p, Proto::Number(n))?,
                        None => break,
                    },
                }
            }
            self.take();
        }
        Ok(negated)
    }

    fn set_proto(&self, p: &mut Primitive, proto: Proto) -> Result<(), FilterError> {
        match p.proto {
            Some(old) if old != proto => Err(self.error(
                format!("two protocols in one primitive, {old} and {proto}"),
                "join them with \"or\"",
            )),
            _ => {
                p.proto = Some(proto);
                Ok(())
            }
        }
    }

    /// Takes `src`, `dst`, `src or dst` or `src and dst`.
    pub(super) fn direction(&mut self) -> Option<Dir> {
        let is_dst = |w: Option<&str>| matches!(w, Some("dst" | "dest"));
        if is_dst(self.peek()) {
            self.take();
            return Some(Dir::Dst);
        }
        if !self.accept(&["src"]) {
            return None;
        }
        let dir = match self.peek() {
            Some("or" | "||") if is_dst(self.peek_at(1)) => Dir::SrcOrDst,
            Some("and" | "&&") if is_dst(self.peek_at(1)) => Dir::SrcAndDst,
            _ => return Some(Dir::Src),
        };
        self.take();
        self.take();
        Some(dir)
    }

    /// `& MASK`: a number, or pcap's flag names such as `(tcp-syn|tcp-ack)`.
    fn mask(&mut self) -> Result<u32, FilterError> {
        self.take();
        let at = self.column();
        let open = self.accept(&["("]);
        let mut mask = 0;
        loop {
            let word = self.peek().unwrap_or_default();
            let number = names::find(names::NUMBERS, word)
                .or_else(|| parse_number(word).and_then(|n| u32::try_from(n).ok()));
            mask |= number.ok_or_else(|| {
                self.error(
                    format!("{} is not a mask", quote(word)),
                    "write a number such as 0x12, or (tcp-syn|tcp-ack)",
                )
            })?;
            self.take();
            if !(open && self.accept(&["|"])) {
                break;
            }
        }
        if open && !self.accept(&[")"]) {
            return Err(self.error("\")\" is missing after the mask", ""));
        }
        if mask == 0 {
            return Err(FilterError {
                column: at,
                ..self.error("the mask is 0", "a mask has at least one bit")
            });
        }
        Ok(mask)
    }

    /// Takes the value, if the next word can be one.
    fn value(&mut self, p: &Primitive) -> Result<Value, FilterError> {
        let Some(word) = self.peek() else { return Ok(Value::None) };
        if p.kind == Some(Kind::Net)
            && let Some(net) = Value::short_net(word)
        {
            self.take();
            return Ok(net);
        }
        if let Some(value) = self.named_value(word, p)? {
            self.take();
            return Ok(value);
        }
        let value = if let Some(n) = parse_number(word) {
            if word.len() > 1 && word.starts_with('0') && !word.starts_with("0x") {
                return Err(self.error(
                    format!("{word:?} begins with 0"),
                    "write a decimal number without it, or a hexadecimal one with 0x",
                ));
            }
            let Ok(n) = u32::try_from(n) else {
                return Err(self.error(format!("{word} is too large"), "values have at most 32 bits"));
            };
            Value::Number(n)
        } else if let Ok(mac) = word.parse::<EtherAddr>() {
            Value::Mac(mac)
        } else {
            match Value::address(word) {
                Some(value) => value,
                None => return Ok(Value::None),
            }
        };
        self.take();
        if let (Value::Host(addr), Some("mask")) = (value, self.peek()) {
            self.take();
            let word = self.peek().unwrap_or_default();
            let mask = word.parse().map_err(|_| {
                self.error(format!("{} is not a mask", quote(word)), "write one such as 255.255.0.0")
            })?;
            self.take();
            return Ok(Value::Net(addr, mask));
        }
        Ok(value)
    }

    /// A value that is a name: of a protocol, a port, a TCP flag, an ICMP type. The kind and protocol decide between meanings.
    fn named_value(&self, word: &str, p: &Primitive) -> Result<Option<Value>, FilterError> {
        let any = p.kind.is_none();
        let ports = p.proto.is_none_or(Proto::has_ports);
        let tcp = p.proto.is_none_or(|p| matches!(p, Proto::Number(6) | Proto::TcpUdp));
        let icmp = p.proto.is_none_or(|p| p == Proto::Number(1));
        let port = names::find(names::PORTS, word).map(Value::Port);
        let range = word.split_once('-').and_then(|(lo, hi)| {
            let port = |t: &str| parse_number(t).and_then(|n| u16::try_from(n).ok());
            Some(Value::PortRange(port(lo)?, port(hi)?))
        });
        let flag = TCP_FLAGS.iter().position(|f| *f == word).map(|bit| Value::TcpFlags(1 << bit));
        let icmp_type = names::find(names::ICMP_TYPES, word).map(Value::IcmpType);
        let proto = protocol_number(word).map(|n| Value::Proto(Proto::Number(n)));
        let candidates = [
            proto.filter(|_| any || matches!(p.kind, Some(Kind::Proto | Kind::Chain))),
            port.filter(|_| (any || p.kind == Some(Kind::Port)) && ports),
            range.filter(|_| (any && self.previous.kind == Some(Kind::Port)) || p.kind == Some(Kind::Port)),
            flag.filter(|_| (any || p.kind == Some(Kind::TcpFlags)) && tcp),
            icmp_type.filter(|_| (any || p.kind == Some(Kind::ICMP_TYPE)) && icmp),
        ];
        let mut found = candidates.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(self.error(
                format!("{word:?} has two meanings"),
                format!("write \"port {word}\" or \"icmp type {word}\""),
            )),
            (first, _) => Ok(first),
        }
    }
}
