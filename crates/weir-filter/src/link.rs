//! Primitives about the frame and what stands between its header and IP: Ethernet, VLAN tags, MPLS, PPPoE, and the length.

use super::arith::{Arith, Compare};
use super::parse::{Decoding, Parser};
use super::primitive::Primitive;
use super::{AddressOf, Cmp, Dir, Expr, Field, FilterError, Layer, Prim, Tags};
use crate::text::{parse_number, quote};
use weir_net::EtherAddr;

/// Most VLAN tags that a filter looks behind.
const MAX_TAGS: u8 = 16;
/// EtherTypes of MPLS (RFC 3032), of PPPoE discovery and sessions (RFC 2516).
pub(super) const MPLS: u16 = 0x8847;
const PPPOED: u16 = 0x8863;
pub(super) const PPPOES: u16 = 0x8864;
/// Values of the type field up to this are lengths (IEEE 802.3).
const MAX_LENGTH: u16 = 1500;

impl Parser<'_> {
    /// Reads a primitive of this kind, if one stands here.
    pub(super) fn link_primitive(&mut self) -> Result<Option<Expr>, FilterError> {
        let column = self.column();
        let after = self.peek_at(1);
        let expr = match self.peek() {
            Some("vlan") => return self.vlan().map(Some),
            Some("mpls") => return self.within("mpls", MPLS, 0xf_ffff).map(Some),
            Some("pppoes") => return self.within("pppoes", PPPOES, 0xffff).map(Some),
            Some("pppoed") => {
                self.take();
                Prim::EtherType(PPPOED).into()
            }
            Some("ether" | "link") => self.ether()?,
            Some("broadcast") => self.cast(1, broadcast()),
            Some("multicast") => self.cast(1, multicast()),
            Some("ip") if after == Some("broadcast") => {
                let to = |addr: [u8; 4]| {
                    let (addr, mask) = (addr.into(), [255; 4].into());
                    Prim::Net { of: AddressOf::Ip, dir: Dir::Dst, addr, mask }.into()
                };
                self.cast(2, Expr::or([to([0; 4]), to([255; 4])]))
            }
            Some("ip") if after == Some("multicast") => self.cast(2, byte(Layer::Ip, 16, 0xff, Cmp::Ge, 224)),
            Some("ip6") if after == Some("multicast") => {
                self.cast(2, byte(Layer::Ip6, 24, 0xff, Cmp::Eq, 0xff))
            }
            Some(word @ ("greater" | "less")) => {
                self.take();
                let number = self.peek().unwrap_or_default();
                let Some(n) = parse_number(number).and_then(|n| u32::try_from(n).ok()) else {
                    return Err(self.error(
                        format!("{} is not a length", quote(number)),
                        "write a number of bytes such as 60",
                    ));
                };
                self.take();
                let cmp = if word == "greater" { Cmp::Ge } else { Cmp::Le };
                Expr::Compare(Box::new(Compare { left: Arith::Len, cmp, right: Arith::Number(n) }))
            }
            _ => return Ok(None),
        };
        self.leaf(expr).map(Some).map_err(|e| FilterError { column, ..e })
    }

    fn cast(&mut self, words: usize, expr: Expr) -> Expr {
        (0..words).for_each(|_| _ = self.take());
        self.previous = Primitive::default();
        expr
    }

    /// `vlan [ID]`; what follows is looked for behind the tag.
    fn vlan(&mut self) -> Result<Expr, FilterError> {
        let tags = match self.at {
            Decoding::Behind(Tags::Count(MAX_TAGS..)) => {
                return Err(self.error(format!("more than {MAX_TAGS} VLAN tags"), "no frame has as many"));
            }
            Decoding::Behind(Tags::Count(n)) => Decoding::Behind(Tags::Count(n + 1)),
            other => other,
        };
        self.take();
        self.previous = Primitive::default();
        let id = match self.peek().and_then(parse_number) {
            None => None,
            Some(id) => match u16::try_from(id) {
                Ok(id) if id <= 4095 => {
                    self.take();
                    Some(id)
                }
                _ => {
                    return Err(self.error(format!("the VLAN {id} is out of range"), "a VLAN is 0 to 4095"));
                }
            },
        };
        let expr = self.leaf(Prim::Vlan(id).into())?;
        self.at = tags;
        Ok(expr)
    }

    /// `NUMBER` or `all`, behind `tags`.
    pub(super) fn tags(&mut self) -> Result<Tags, FilterError> {
        let word = self.peek().unwrap_or_default();
        let tags = match (word, parse_number(word).and_then(|n| u8::try_from(n).ok())) {
            ("all", _) => Tags::All,
            (_, Some(n)) if n <= MAX_TAGS => Tags::Count(n),
            _ => {
                let help = format!("write tags all, or tags 0 to {MAX_TAGS}, and what is looked for behind");
                return Err(self.error(format!("{} is no number of tags", quote(word)), help));
            }
        };
        self.take();
        Ok(tags)
    }

    /// `mpls [LABEL]` and `pppoes [SESSION]`. libpcap looks for what follows within them.
    fn within(&mut self, word: &'static str, ether_type: u16, max: u32) -> Result<Expr, FilterError> {
        if let Decoding::Within(_) = self.at {
            self.leaf(Prim::EtherType(ether_type).into())?;
        }
        self.take();
        self.previous = Primitive::default();
        let expr = match self.peek().and_then(parse_number) {
            None => Expr::from(Prim::EtherType(ether_type)),
            Some(n) => match u32::try_from(n) {
                Ok(n) if n <= max => {
                    self.take();
                    let layer = Layer::Type(ether_type);
                    Prim::Field(match ether_type {
                        // The label is the first 20 bits.
                        MPLS => {
                            let (mask, value) = (0xffff_f000, n << 12);
                            Field { layer, offset: 0, width: 4, mask, cmp: Cmp::Eq, value }
                        }
                        _ => Field { layer, offset: 2, width: 2, mask: 0xffff, cmp: Cmp::Eq, value: n },
                    })
                    .into()
                }
                _ => {
                    return Err(self.error(format!("{n} is out of range"), format!("{word} is 0 to {max}")));
                }
            },
        };
        let expr = self.leaf(expr)?;
        self.at = Decoding::Within(word);
        Ok(expr)
    }

    /// `ether [src|dst] [host] MAC`, `ether proto TYPE`, `ether broadcast`, `ether multicast`.
    fn ether(&mut self) -> Result<Expr, FilterError> {
        self.take();
        if self.accept(&["proto"]) {
            return self.ether_type();
        }
        match self.peek() {
            Some("broadcast") => return Ok(self.cast(1, broadcast())),
            Some("multicast") => return Ok(self.cast(1, multicast())),
            _ => {}
        }
        let dir = self.direction();
        self.accept(&["host"]);
        let word = self.peek().unwrap_or_default();
        let Ok(addr) = word.parse::<EtherAddr>() else {
            return Err(self.error(
                format!("{} is not an Ethernet address", quote(word)),
                "write one such as 02:00:00:00:00:01",
            ));
        };
        self.take();
        self.previous = Primitive { dir, ..Primitive::default() };
        Ok(Prim::EtherHost { dir: dir.unwrap_or(Dir::SrcOrDst), addr }.into())
    }

    fn ether_type(&mut self) -> Result<Expr, FilterError> {
        let word = self.peek().unwrap_or_default();
        let ether_type = match word {
            "ip" => Some(0x0800),
            "ip6" => Some(0x86dd),
            "arp" => Some(0x0806),
            "rarp" => Some(0x8035),
            _ => parse_number(word).and_then(|n| u16::try_from(n).ok()),
        };
        match ether_type {
            None => Err(self.error(
                format!("{} is not an EtherType", quote(word)),
                "write ip, ip6, arp, rarp or a number such as 0x0800",
            )),
            // Behind all tags is no place of libpcap's: the number is compared, as in OpenFlow.
            Some(t) if self.at == Decoding::Behind(Tags::All) => {
                self.take();
                Ok(Prim::EtherType(t).into())
            }
            Some(t @ ..=MAX_LENGTH) => Err(self.error(
                format!("{t} is no EtherType: up to {MAX_LENGTH}, it is the length of an IEEE 802.3 frame"),
                format!(
                    "write \"ether[14] = {t} and ether[12:2] <= {MAX_LENGTH}\" for that service access point"
                ),
            )),
            // libpcap looks for AppleTalk in SNAP frames, too.
            Some(t @ (0x809b | 0x80f3)) => Err(self.error(
                format!("the EtherType {t:#06x} also stands in SNAP headers, which are not looked at here"),
                format!("write \"ether[12:2] = {t:#06x}\" for Ethernet II frames"),
            )),
            Some(t) => {
                self.take();
                Ok(Prim::EtherType(t).into())
            }
        }
    }
}

fn broadcast() -> Expr {
    Prim::EtherHost { dir: Dir::Dst, addr: EtherAddr([0xff; 6]) }.into()
}

fn multicast() -> Expr {
    byte(Layer::Ether, 0, 1, Cmp::Eq, 1)
}

fn byte(layer: Layer, offset: u16, mask: u32, cmp: Cmp, value: u32) -> Expr {
    Prim::Field(Field { layer, offset, width: 1, mask, cmp, value }).into()
}
