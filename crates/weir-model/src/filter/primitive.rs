//! Primitives: `[qualifiers] [& mask] [comparison] [value]`, each part optional where the rest or the primitive before says it.

use super::parse::Parser;
use super::part::{Kind, Proto, Value};
use super::{Cmp, Dir, Expr, FilterError, Layer, Prim, names, protocol_number};
use crate::doc::parse_number;
use crate::error::{closest, quote};
use crate::value::{MacAddr, TCP_FLAGS};

/// The parts of a primitive, as read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Primitive {
    pub kind: Option<Kind>,
    pub dir: Option<Dir>,
    pub proto: Option<Proto>,
    /// The EtherType of `ip` or `ip6`, if one of them was said.
    pub family: Option<u16>,
    pub mask: Option<u32>,
    pub cmp: Option<Cmp>,
}

/// Words that a primitive may begin with, for suggestions.
const WORDS: &[&str] = &[
    "host",
    "net",
    "port",
    "portrange",
    "proto",
    "src",
    "dst",
    "ip",
    "ip6",
    "arp",
    "ether",
    "vlan",
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
        match self.peek() {
            Some("arp") => {
                self.take();
                return Ok(Prim::EtherType(0x0806).into());
            }
            Some("vlan") => return self.vlan(),
            Some("ether") => return self.ether(),
            _ => {}
        }
        let start = self.column();
        let mut p = Primitive::default();
        let negated = self.qualifiers(&mut p)?;
        let qualified = self.column() != start;
        if qualified {
            self.previous = Primitive::default();
        }
        if qualified && self.peek() == Some("[") && p.kind.is_none() {
            p.kind = Some(self.brackets(p.proto)?);
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
        let expr = p.build(value, &mut self.previous).map_err(|e| FilterError {
            column: if matches!(value, Value::None) { start } else { at_value },
            message: e.message,
            help: e.help,
        })?;
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
                    "ip" => p.family = Some(0x0800),
                    "ip6" => p.family = Some(0x86dd),
                    "not" | "!" => negated = !negated,
                    "tcpudp" => self.set_proto(p, Proto::TcpUdp)?,
                    "transp" => self.set_proto(p, Proto::Any)?,
                    // `proto tcp` names the protocol as its value, and so does `ip proto != udp`.
                    _ if p.kind == Some(Kind::Proto) => break,
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
    fn direction(&mut self) -> Option<Dir> {
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

    /// `[POS]`, `[POS:LEN]`, or Click's `[FIRST,LAST]` written `[FIRST:LEN]`; pcap's names for positions too.
    fn brackets(&mut self, proto: Option<Proto>) -> Result<Kind, FilterError> {
        self.take();
        let at = self.column();
        let mut text = String::new();
        while let Some(word) = self.take() {
            if word == "]" {
                break;
            }
            text.push_str(word);
        }
        let bad = |message: String| FilterError {
            column: at,
            message,
            help: "write [POS] or [POS:LEN], LEN 1 to 4".into(),
        };
        let (offset, width) = text.split_once(':').unwrap_or((&text, "1"));
        let offset = match offset {
            "tcpflags" => Some(13),
            "icmptype" => Some(0),
            "icmpcode" => Some(1),
            number => parse_number(number).and_then(|n| u16::try_from(n).ok()),
        };
        let width = parse_number(width).and_then(|n| u8::try_from(n).ok());
        let (Some(offset), Some(width)) = (offset, width) else {
            return Err(bad(format!("{} is not a field", quote(&text))));
        };
        if !(1..=4).contains(&width) || offset > 1500 {
            return Err(bad(format!("the field [{offset}:{width}] is out of range")));
        }
        let layer = match proto {
            None => Layer::Ip,
            Some(Proto::Any) => Layer::Transport,
            Some(Proto::TcpUdp) => Layer::TcpUdp,
            Some(Proto::Number(n)) => Layer::Proto(n),
        };
        Ok(Kind::Field {
            layer,
            offset,
            width,
            mask: super::display::full_mask(width),
            shift: 0,
            name: Kind::BRACKETS,
        })
    }

    /// `& MASK`: a number, or pcap's flag names such as `(tcp-syn|tcp-ack)`.
    fn mask(&mut self) -> Result<u32, FilterError> {
        self.take();
        let at = self.column();
        let open = self.accept(&["("]);
        let mut mask = 0;
        loop {
            let word = self.peek().unwrap_or_default();
            let flag = word
                .strip_prefix("tcp-")
                .and_then(|f| TCP_FLAGS.iter().position(|n| n.starts_with(f) && f.len() >= 3));
            mask |= match flag {
                Some(bit) => 1 << bit,
                None => parse_number(word).and_then(|n| u32::try_from(n).ok()).ok_or_else(|| {
                    self.error(
                        format!("{} is not a mask", quote(word)),
                        "write a number such as 0x12, or (tcp-syn|tcp-ack)",
                    )
                })?,
            };
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

    fn comparison(&mut self) -> Option<Cmp> {
        let cmp = match self.peek()? {
            "=" | "==" => Cmp::Eq,
            "!=" => Cmp::Ne,
            "<" => Cmp::Lt,
            "<=" => Cmp::Le,
            ">" => Cmp::Gt,
            ">=" => Cmp::Ge,
            _ => return None,
        };
        self.take();
        Some(cmp)
    }

    /// Takes the value, if the next word can be one.
    fn value(&mut self, p: &Primitive) -> Result<Value, FilterError> {
        let Some(word) = self.peek() else { return Ok(Value::None) };
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
        } else if let Ok(mac) = word.parse::<MacAddr>() {
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
            proto.filter(|_| any || p.kind == Some(Kind::Proto)),
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

    fn vlan(&mut self) -> Result<Expr, FilterError> {
        self.take();
        let Some(id) = self.peek().and_then(parse_number) else { return Ok(Prim::Vlan(None).into()) };
        match u16::try_from(id) {
            Ok(id) if id <= 4095 => {
                self.take();
                Ok(Prim::Vlan(Some(id)).into())
            }
            _ => Err(self.error(format!("the VLAN {id} is out of range"), "a VLAN is 0 to 4095")),
        }
    }

    /// `ether [src|dst] [host] MAC` and `ether proto TYPE`.
    fn ether(&mut self) -> Result<Expr, FilterError> {
        self.take();
        if self.accept(&["proto"]) {
            let word = self.peek().unwrap_or_default();
            let ether_type = match word {
                "ip" => Some(0x0800),
                "ip6" => Some(0x86dd),
                "arp" => Some(0x0806),
                _ => parse_number(word).and_then(|n| u16::try_from(n).ok()),
            };
            let Some(t) = ether_type else {
                return Err(self.error(
                    format!("{} is not an EtherType", quote(word)),
                    "write ip, ip6, arp or a number such as 0x0800",
                ));
            };
            self.take();
            return Ok(Prim::EtherType(t).into());
        }
        let dir = self.direction();
        self.accept(&["host"]);
        let word = self.peek().unwrap_or_default();
        let Ok(addr) = word.parse() else {
            return Err(self.error(
                format!("{} is not an Ethernet address", quote(word)),
                "write one such as 02:00:00:00:00:01",
            ));
        };
        self.take();
        self.previous = Primitive { dir, ..Primitive::default() };
        Ok(Prim::EtherHost { dir: dir.unwrap_or(Dir::SrcOrDst), addr }.into())
    }
}
