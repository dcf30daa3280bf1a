//! Comparisons of header bytes, of the length and of what is computed from them: `tcp[13] & 2 != 0`, `len > 1000`.
//!
//! ```text
//! relation = arith cmp arith
//! arith    = shift { ("&" | "|" | "^") shift }
//! shift    = sum { ("<<" | ">>") sum }
//! sum      = product { ("+" | "-") product }
//! product  = number { ("*" | "/" | "%") number }
//! number   = NUMBER | NAME | "len" | header "[" arith [":" NUMBER] "]" | "(" arith ")"
//! header   = "ether" | "link" | "ip" | "ip6" | "arp" | "rarp" | PROTOCOL | PROTOCOL "transp" | "transp" | "tcpudp"
//! ```
//!
//! The ranks are those of libpcap. What one header field under a mask is compared with is a [`Field`], which is quick to find.

use super::arith::{Arith, ArithOp, Compare};
use super::display::full_mask;
use super::parse::Parser;
use super::{Cmp, Expr, Field, FilterError, Layer, Prim, names, protocol_number};
use crate::text::{parse_number, quote};

/// Fields of a header begin before this offset; what lies behind is a computed comparison.
const MAX_OFFSET: u32 = 1500;

/// Operations by rank, those that bind least first.
const RANKS: [&[(&str, ArithOp)]; 4] = [
    &[("&", ArithOp::And), ("|", ArithOp::Or), ("^", ArithOp::Xor)],
    &[("<<", ArithOp::Shl), (">>", ArithOp::Shr)],
    &[("+", ArithOp::Add), ("-", ArithOp::Sub)],
    &[("*", ArithOp::Mul), ("/", ArithOp::Shr), ("%", ArithOp::Rem)],
];

impl Parser<'_> {
    /// Reads a comparison, if one stands here.
    pub(super) fn relation(&mut self) -> Result<Option<Expr>, FilterError> {
        if !self.begins_relation()? {
            return Ok(None);
        }
        let column = self.column();
        let left = self.arith(0)?;
        let at = |column, e: FilterError| FilterError { column, ..e };
        let cmp = match self.comparison() {
            Some(cmp) => cmp,
            // As in Click, nothing stands for `==`.
            None if self.peek().is_some_and(|w| number(w).is_some()) => Cmp::Eq,
            None => {
                let error = self
                    .error("a number to compare with is missing", "write, for example, \"tcp[13] & 2 != 0\"");
                return Err(at(column, error));
            }
        };
        let value_at = self.column();
        if self.peek().is_none() {
            return Err(self.error("a comparison without a value", "write a number after it"));
        }
        let right = self.arith(0)?;
        let expr = compare(left, cmp, right).map_err(|(message, help)| FilterError {
            column: value_at,
            message,
            help,
        })?;
        self.count(expr.size())?;
        self.leaf(expr).map(Some)
    }

    /// Whether a comparison stands here.
    fn begins_relation(&mut self) -> Result<bool, FilterError> {
        let operator = |word: Option<&str>| {
            word.is_some_and(|w| {
                is_comparison(w) || RANKS.iter().any(|rank| rank.iter().any(|(text, _)| *text == w))
            })
        };
        Ok(match self.peek() {
            Some("len") => true,
            Some("(") => {
                // A number in parentheses, if that is what it is.
                let (at, nodes) = (self.position(), self.nodes());
                let is = self.arith(0).is_ok() && operator(self.peek());
                self.go_back(at, nodes);
                is
            }
            Some(word) if number(word).is_some() => operator(self.peek_at(1)),
            Some(_) => self.header().is_some(),
            None => false,
        })
    }

    /// The header that bytes are taken of, if that stands here, and the number of words that say it.
    fn header(&self) -> Option<(Layer, usize)> {
        let word = self.peek()?;
        if let (Some(proto), Some("transp"), Some("[")) =
            (protocol_number(word), self.peek_at(1), self.peek_at(2))
        {
            return Some((Layer::Proto(proto), 2));
        }
        if self.peek_at(1) != Some("[") {
            return None;
        }
        let layer = match word {
            "ether" | "link" => Layer::Ether,
            "ip" => Layer::Ip,
            "ip6" => Layer::Ip6,
            "arp" => Layer::Type(0x0806),
            "rarp" => Layer::Type(0x8035),
            "transp" => Layer::Transport,
            "tcpudp" => Layer::TcpUdp,
            "icmp6" => Layer::Proto6(58),
            other => Layer::Proto4(protocol_number(other)?),
        };
        Some((layer, 1))
    }

    fn arith(&mut self, rank: usize) -> Result<Arith, FilterError> {
        let Some(operators) = RANKS.get(rank) else { return self.number() };
        let mut left = self.arith(rank + 1)?;
        while let Some(&(text, op)) = operators.iter().find(|(text, _)| self.peek() == Some(text)) {
            self.take();
            self.count(1)?;
            let at = self.column();
            let right = self.arith(rank + 1)?;
            let bad = |message: &str, help: &str| FilterError {
                column: at,
                message: message.into(),
                help: help.into(),
            };
            left = match (text, &right) {
                ("/", Arith::Number(n)) if n.is_power_of_two() => {
                    Arith::op(op, left, Arith::Number(n.trailing_zeros()))
                }
                ("/", _) => {
                    return Err(bad("only powers of two divide here", "divide by 1, 2, 4, 8 and so on"));
                }
                ("%", Arith::Number(1..)) => Arith::op(op, left, right),
                ("%", _) => {
                    return Err(bad("a remainder is of a number that is not 0", "write, for example, % 4"));
                }
                _ => Arith::op(op, left, right),
            };
        }
        Ok(left)
    }

    fn number(&mut self) -> Result<Arith, FilterError> {
        if let Some((layer, words)) = self.header() {
            (0..=words).for_each(|_| _ = self.take());
            return self.nested(|p| p.load(layer));
        }
        match self.peek() {
            Some("(") => {
                self.take();
                let inner = self.nested(|p| p.arith(0))?;
                if !self.accept(&[")"]) {
                    return Err(self.error("\")\" is missing", ""));
                }
                Ok(inner)
            }
            Some("len") => {
                self.take();
                Ok(Arith::Len)
            }
            Some(word) => match number(word) {
                Some(n) => {
                    self.take();
                    Ok(Arith::Number(n))
                }
                None => Err(self.error(
                    format!("{} is not a number", quote(word)),
                    "write a number, a name such as tcp-syn or icmp-echo, or bytes of a header such as ip[0]",
                )),
            },
            None => Err(self.error("a number is missing", "")),
        }
    }

    /// `POS]` or `POS:LEN]`, behind the bracket.
    fn load(&mut self, layer: Layer) -> Result<Arith, FilterError> {
        let offset = self.arith(0)?;
        let mut width = 1;
        if self.accept(&[":"]) {
            let word = self.peek().unwrap_or_default();
            let number = parse_number(word).and_then(|n| u8::try_from(n).ok());
            let Some(n @ 1..=4) = number else {
                return Err(self.error(format!("{} bytes cannot be compared", quote(word)), "write 1 to 4"));
            };
            width = n;
            self.take();
        }
        if !self.accept(&["]"]) {
            return Err(self.error("this is not a field", "write [POS] or [POS:LEN], LEN 1 to 4"));
        }
        if let Arith::Number(n) = offset
            && n > u32::from(u16::MAX)
        {
            return Err(self.error(
                format!("the byte {n} is out of range"),
                "a packet has no more than 65535 bytes behind a header",
            ));
        }
        Ok(Arith::Load { layer, offset: Box::new(offset), width })
    }

    pub(super) fn comparison(&mut self) -> Option<Cmp> {
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
}

fn is_comparison(word: &str) -> bool {
    matches!(word, "=" | "==" | "!=" | "<" | "<=" | ">" | ">=")
}

/// A number, or libpcap's name of one.
fn number(word: &str) -> Option<u32> {
    if word.len() > 1 && word.starts_with('0') && !word.starts_with("0x") {
        return None;
    }
    names::find(names::NUMBERS, word).or_else(|| parse_number(word).and_then(|n| u32::try_from(n).ok()))
}

/// The comparison, as a field's if it is one.
fn compare(left: Arith, cmp: Cmp, right: Arith) -> Result<Expr, (String, String)> {
    let (left, cmp, right) = match (&left, &right) {
        (Arith::Number(a), Arith::Number(b)) => {
            return Ok(if cmp.holds(*a, *b) { Expr::True } else { Expr::False });
        }
        (Arith::Number(_), _) => (right, mirrored(cmp), left),
        _ => (left, cmp, right),
    };
    if let Arith::Number(value) = right
        && let Some((layer, offset, width, mask)) = masked_field(&left)
    {
        let max = full_mask(width);
        if value > max {
            return Err((format!("{value} is out of range"), format!("the field is 0 to {max}")));
        }
        if mask & max == 0 {
            return Err(("the mask is 0".into(), "a mask has at least one bit of the field".into()));
        }
        return Ok(Prim::Field(Field { layer, offset, width, mask: mask & max, cmp, value }).into());
    }
    Ok(Expr::Compare(Box::new(Compare { left, cmp, right })))
}

/// Layer, offset, width and mask of a field at a known place.
fn masked_field(a: &Arith) -> Option<(Layer, u16, u8, u32)> {
    let (field, mask) = match a {
        Arith::Op(ArithOp::And, a, b) => match (&**a, &**b) {
            (field, Arith::Number(mask)) | (Arith::Number(mask), field) => (field, *mask),
            _ => return None,
        },
        field => (field, u32::MAX),
    };
    let Arith::Load { layer, offset, width } = field else { return None };
    let Arith::Number(offset @ 0..MAX_OFFSET) = **offset else { return None };
    Some((*layer, u16::try_from(offset).ok()?, *width, mask))
}

/// The comparison with its sides exchanged.
fn mirrored(cmp: Cmp) -> Cmp {
    match cmp {
        Cmp::Lt => Cmp::Gt,
        Cmp::Le => Cmp::Ge,
        Cmp::Gt => Cmp::Lt,
        Cmp::Ge => Cmp::Le,
        same => same,
    }
}
