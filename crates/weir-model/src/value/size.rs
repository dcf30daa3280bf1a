//! Amounts of memory.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::error::{ValueError, quote};

/// The units, largest first, with their powers of two.
const UNITS: [(&str, u32); 3] = [("GB", 30), ("MB", 20), ("kB", 10)];

/// An amount of memory in whole kB; text form `64 MB`: a number with kB, MB or GB (powers of 1,024).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

text_form!(Size, {
    "description": "An amount of memory: a number with kB, MB or GB (powers of 1,024), such as 64 MB.",
    "type": "string", "pattern": "^[0-9]+ *(kB|MB|GB)$"
});

impl Size {
    /// In bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = || {
            let help = "write a number with kB, MB or GB, such as 64 MB";
            ValueError::new(format!("{} is no amount of memory", quote(text)), help)
        };
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
        let unit = unit.trim_start_matches(' ');
        let (_, shift) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number = number.parse::<u64>().ok().filter(|n| *n > 0 && *n < 1 << 30);
        number.map(|n| Size(n << shift)).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All are whole kB.
        let whole = UNITS.iter().find(|(_, shift)| self.0.trailing_zeros() >= *shift);
        let (unit, shift) = whole.copied().unwrap_or(("kB", 10));
        write!(f, "{} {unit}", self.0 >> shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written_in_their_largest_whole_unit() {
        let again = |text: &str| text.parse::<Size>().map(|s| (s.bytes(), s.to_string()));
        assert_eq!(again("64MB"), Ok((64 << 20, "64 MB".to_owned())));
        assert_eq!(again("2048 kB"), Ok((2 << 20, "2 MB".to_owned())));
        assert_eq!(again("1500 kB"), Ok((1500 << 10, "1500 kB".to_owned())));
        for wrong in ["", "64", "0 MB", "64 mb", "-1 MB", "1.5 GB", "9999999999 GB"] {
            assert!(again(wrong).is_err(), "{wrong}");
        }
    }
}
