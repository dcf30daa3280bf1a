//! Values of the transport layer.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use weir_filter::TCP_FLAGS;
use weir_filter::text::parse_number;

use crate::error::{ValueError, quote};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A transport port or an inclusive range of ports; text form `80` or `1024-65535`. Serialises to a number if it is one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    lo: u16,
    hi: u16,
}

schema_form!(PortRange, {
    "description": "A port 0 to 65535 (a number, or a service's name), or a range such as 1024-65535.",
    "anyOf": [
        { "type": "integer", "minimum": 0, "maximum": 65535 },
        { "type": "string", "pattern": "^([0-9]{1,5}(-[0-9]{1,5})?|0x[0-9A-Fa-f]+|[a-z][a-z0-9-]*)$" }
    ]
});

impl PortRange {
    /// The range `lo..=hi`; `None` if it is empty.
    pub fn new(lo: u16, hi: u16) -> Option<Self> {
        (lo <= hi).then_some(Self { lo, hi })
    }

    /// The first port.
    pub fn lo(&self) -> u16 {
        self.lo
    }

    /// The last port.
    pub fn hi(&self) -> u16 {
        self.hi
    }
}

impl FromStr for PortRange {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let help = "write a port 0 to 65535, a range such as 1024-65535, or a service's name such as http";
        let one = |t: &str| parse_number(t).and_then(|n| u16::try_from(n).ok());
        let bad = || ValueError::new(format!("{} is not a port or range of ports", quote(text)), help);
        if let Some(port) = one(text).or_else(|| weir_filter::service_port(text)) {
            return Ok(Self { lo: port, hi: port });
        }
        let (lo, hi) = text.split_once('-').ok_or_else(bad)?;
        match (one(lo), one(hi)) {
            (Some(lo), Some(hi)) if lo > hi => {
                Err(ValueError::new(format!("the range {lo}-{hi} is empty"), format!("write {hi}-{lo}")))
            }
            (Some(lo), Some(hi)) => Ok(Self { lo, hi }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lo == self.hi { write!(f, "{}", self.lo) } else { write!(f, "{}-{}", self.lo, self.hi) }
    }
}

impl Serialize for PortRange {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.lo == self.hi { s.serialize_u16(self.lo) } else { s.collect_str(self) }
    }
}

/// TCP flags that must be set and flags that must be clear; text form as in Open vSwitch: `+syn-ack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcpFlags {
    set: u8,
    clear: u8,
}

text_form!(TcpFlags, {
    "description": "TCP flags that must be set (+) and clear (-), such as +syn-ack.",
    "type": "string", "pattern": "^[+-]?(fin|syn|rst|psh|ack|urg|ece|cwr)([+-](fin|syn|rst|psh|ack|urg|ece|cwr))*$"
});

impl TcpFlags {
    /// Flags that must be set, as in byte 13 of the TCP header.
    pub fn set(self) -> u8 {
        self.set
    }

    /// Flags that must be clear, as in byte 13 of the TCP header.
    pub fn clear(self) -> u8 {
        self.clear
    }
}

impl FromStr for TcpFlags {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let help = format!("write flags as +syn-ack, out of {}", TCP_FLAGS.join(", "));
        let (mut set, mut clear) = (0u8, 0u8);
        let signed = if text.starts_with(['+', '-']) { text.to_string() } else { format!("+{text}") };
        let mut rest = signed.as_str();
        while let Some(sign) = rest.chars().next() {
            let word = rest.get(1..).unwrap_or_default();
            let end = word.find(['+', '-']).unwrap_or(word.len());
            let (flag, next) = word.split_at(end);
            let Some(bit) = TCP_FLAGS.iter().position(|f| *f == flag) else {
                return Err(ValueError::new(format!("{} is not a TCP flag", quote(flag)), help));
            };
            *(if sign == '+' { &mut set } else { &mut clear }) |= 1 << bit;
            rest = next;
        }
        if set & clear != 0 {
            return Err(ValueError::new(format!("{} wants a flag both set and clear", quote(text)), help));
        }
        Ok(Self { set, clear })
    }
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, name) in TCP_FLAGS.iter().enumerate() {
            if self.set >> bit & 1 != 0 {
                write!(f, "+{name}")?;
            } else if self.clear >> bit & 1 != 0 {
                write!(f, "-{name}")?;
            }
        }
        Ok(())
    }
}
