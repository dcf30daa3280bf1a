//! Fields of packet headers, as `AggregateIP` names them.

use crate::prelude::*;

/// The header that a field is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// The IPv4 header.
    Ip,
    /// The transport header of these protocols.
    Transport(&'static [u8]),
}

/// A field: some bits of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub(super) base: Base,
    /// Where it begins, in bits from the start of the header.
    pub(super) offset: u32,
    /// Number of bits, 1 to 32.
    pub(super) length: u32,
}

/// The last bit that can be asked for, which bounds what packets have to hold.
const MAX_BITS: u32 = 8 * 1500;
const TCP: Base = Base::Transport(&[proto::TCP]);
const UDP: Base = Base::Transport(&[proto::UDP]);
const ICMP: Base = Base::Transport(&[proto::ICMP]);
const PORTS: Base = Base::Transport(&[proto::TCP, proto::UDP]);
const ANY: Base = Base::Transport(&[proto::TCP, proto::UDP, proto::ICMP]);

/// Header, name, first bit, number of bits (RFC 791, 793, 768, 792).
const NAMES: &[(&str, &str, u32, u32)] = &[
    ("ip", "vers", 0, 4),
    ("ip", "hl", 4, 4),
    ("ip", "tos", 8, 8),
    ("ip", "dscp", 8, 6),
    ("ip", "ecn", 14, 2),
    ("ip", "len", 16, 16),
    ("ip", "id", 32, 16),
    ("ip", "off", 48, 16),
    ("ip", "rf", 48, 1),
    ("ip", "df", 49, 1),
    ("ip", "mf", 50, 1),
    ("ip", "fragoff", 51, 13),
    ("ip", "ttl", 64, 8),
    ("ip", "proto", 72, 8),
    ("ip", "sum", 80, 16),
    ("ip", "src", 96, 32),
    ("ip", "dst", 128, 32),
    ("udp", "sport", 0, 16),
    ("udp", "dport", 16, 16),
    ("udp", "len", 32, 16),
    ("udp", "sum", 48, 16),
    ("tcp", "sport", 0, 16),
    ("tcp", "dport", 16, 16),
    ("tcp", "seq", 32, 32),
    ("tcp", "ack", 64, 32),
    ("tcp", "hl", 96, 4),
    ("tcp", "flags", 106, 6),
    ("tcp", "urg", 106, 1),
    ("tcp", "ackf", 107, 1),
    ("tcp", "psh", 108, 1),
    ("tcp", "rst", 109, 1),
    ("tcp", "syn", 110, 1),
    ("tcp", "fin", 111, 1),
    ("tcp", "win", 112, 16),
    ("tcp", "sum", 128, 16),
    ("tcp", "urp", 144, 16),
    ("icmp", "type", 0, 8),
    ("icmp", "code", 8, 8),
    ("icmp", "sum", 16, 16),
];

impl Field {
    /// The bit behind it.
    pub(super) fn end(&self) -> u32 {
        self.offset + self.length
    }

    /// If it is a part of an IP address: how many bits of that follow it.
    pub(super) fn below_in_address(&self) -> Option<u32> {
        let ends = [128, 160].into_iter().filter(|_| self.base == Base::Ip);
        ends.filter(|end| (end - 32..*end).contains(&self.offset) && self.end() <= *end)
            .map(|end| end - self.end())
            .next()
    }

    fn masked(self, mask: &str) -> Result<Field, String> {
        let has = || format!("the field has {} bits", self.length);
        if let Some(bits) = mask.strip_prefix('/') {
            let length = u32::from_arg(bits.trim())?;
            return match length {
                0 => Err("a field has at least one bit".to_owned()),
                n if n > self.length => Err(has()),
                length => Ok(Field { length, ..self }),
            };
        }
        let Some(mask) = mask.strip_prefix('&') else {
            return Err(format!("'{mask}' is no mask: write /BITS or & MASK"));
        };
        let mask = u32::from_arg(mask.trim())?;
        let (below, length) = (mask.trailing_zeros(), mask.count_ones());
        if mask == 0 || mask.leading_zeros() + length + below != 32 {
            return Err("the bits of the mask have to stand side by side".to_owned());
        }
        if below + length > self.length {
            return Err(has());
        }
        Ok(Field { offset: self.end() - below - length, length, ..self })
    }
}

/// The numbers of `[A:B]`, `[A-B]`, `[A, B]` or `[A]`, as offset and length.
fn place(text: &str) -> Result<(u32, u32), String> {
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (u32::from_arg(first.trim())?, u32::from_arg(last.trim())?);
        return match last.checked_sub(first) {
            Some(n) => Ok((first, n.saturating_add(1))),
            None => Err(format!("'{text}' ends before it begins")),
        };
    }
    match text.split_once([':', ',']) {
        Some((offset, length)) => Ok((u32::from_arg(offset.trim())?, u32::from_arg(length.trim())?)),
        None => Ok((u32::from_arg(text.trim())?, 1)),
    }
}

impl FromArg for Field {
    const SYNTAX: &'static str = "header field";

    fn from_arg(text: &str) -> Result<Field, String> {
        let unquoted = String::from_arg(text)?;
        let text = unquoted.trim();
        let word = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
            let (word, rest) = text.split_at(end);
            (word.to_ascii_lowercase(), rest.trim_start().to_owned())
        };
        let (mut header, mut rest) = word(text);
        let base = match header.as_str() {
            "ip" => Base::Ip,
            "tcp" => TCP,
            "udp" => UDP,
            "icmp" => ICMP,
            "transp" => ANY,
            "sport" | "dport" => {
                rest = text.to_owned();
                header = "tcp".to_owned();
                PORTS
            }
            other => return Err(format!("'{other}' is not a header: write ip, transp, tcp, udp or icmp")),
        };
        let (field, mask) = match rest.chars().next() {
            Some(open @ ('[' | '{')) => {
                let (unit, close) = if open == '[' { (8, ']') } else { (1, '}') };
                let inner = rest.strip_prefix(open).and_then(|r| r.split_once(close));
                let (inner, mask) = inner.ok_or_else(|| format!("'{close}' is missing in '{text}'"))?;
                let (offset, length) = place(inner)?;
                let (offset, length) = (offset.saturating_mul(unit), length.saturating_mul(unit));
                if !(1..=32).contains(&length) {
                    return Err(format!("'{text}': a field has at least one and at most 32 bits"));
                }
                if offset.saturating_add(length) > MAX_BITS {
                    return Err(format!("'{text}' begins too late; at most byte {}", MAX_BITS / 8));
                }
                (Field { base, offset, length }, mask.trim().to_owned())
            }
            Some(_) => {
                let (name, mask) = word(&rest);
                let known = NAMES.iter().find(|(h, n, ..)| (*h, *n) == (&*header, &*name));
                let (_, _, offset, length) =
                    *known.ok_or_else(|| format!("'{name}' is not a field of {header}"))?;
                (Field { base, offset, length }, mask)
            }
            None => return Err(format!("'{text}' is only a header: write a field of it, as '{header} len'")),
        };
        if mask.is_empty() { Ok(field) } else { field.masked(&mask) }
    }
}
