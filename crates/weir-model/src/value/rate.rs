//! How much passes, and how long it takes.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::error::{ValueError, quote};

/// A bandwidth in kbit/s; text form `100 Mbit/s`: a number with kbit/s, Mbit/s or Gbit/s (powers of 1,000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

/// How long something takes, in microseconds; text form `5 ms`: a number with us, ms or s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delay(u32);

text_form!(Bandwidth, {
    "description": "What passes in a second: a number with kbit/s, Mbit/s or Gbit/s (powers of 1,000), such as 100 Mbit/s.",
    "type": "string", "pattern": "^[0-9]+ *(kbit/s|Mbit/s|Gbit/s)$"
});
text_form!(Delay, {
    "description": "How long something takes: a number with us, ms or s, such as 5 ms.",
    "type": "string", "pattern": "^[0-9]+ *(us|ms|s)$"
});

/// The units, largest first, with what they are of the smallest.
const BANDWIDTHS: [(&str, u64); 3] = [("Gbit/s", 1_000_000), ("Mbit/s", 1_000), ("kbit/s", 1)];
const DELAYS: [(&str, u64); 3] = [("s", 1_000_000), ("ms", 1_000), ("us", 1)];
/// 1 Tbit/s, and 10 s, which is what the placement counts to.
const MOST_BANDWIDTH: u64 = 1_000_000_000;
const MOST_DELAY: u64 = 10_000_000;

/// A number with a unit, in the smallest.
fn number(text: &str, units: &[(&str, u64)], most: u64) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let unit = unit.trim_start_matches(' ');
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor).filter(|n| (1..=most).contains(n))
}

/// In the largest unit in which it is whole.
fn write(f: &mut fmt::Formatter<'_>, number: u64, units: &[(&str, u64)]) -> fmt::Result {
    let whole = units.iter().find(|(_, factor)| number.is_multiple_of(*factor));
    let (unit, factor) = whole.copied().unwrap_or(("", 1));
    write!(f, "{} {unit}", number / factor)
}

impl Bandwidth {
    /// In kbit/s.
    pub fn kbits(self) -> u64 {
        self.0
    }

    /// Of so many kbit/s; none if that is nothing, or more than there is.
    pub fn of_kbits(kbits: u64) -> Option<Bandwidth> {
        (1..=MOST_BANDWIDTH).contains(&kbits).then_some(Bandwidth(kbits))
    }
}

impl Delay {
    /// In microseconds.
    pub fn micros(self) -> u32 {
        self.0
    }

    /// Of so many microseconds; none if that is nothing, or more than there is.
    pub fn of_micros(micros: u32) -> Option<Delay> {
        (1..=MOST_DELAY).contains(&u64::from(micros)).then_some(Delay(micros))
    }
}

impl FromStr for Bandwidth {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let help = "write a number with kbit/s, Mbit/s or Gbit/s, up to 1000 Gbit/s, such as 100 Mbit/s";
        let number = number(text, &BANDWIDTHS, MOST_BANDWIDTH);
        number.map(Bandwidth).ok_or_else(|| ValueError::new(format!("{} is no bandwidth", quote(text)), help))
    }
}

impl FromStr for Delay {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let help = "write a number with us, ms or s, up to 10 s, such as 5 ms";
        let number = number(text, &DELAYS, MOST_DELAY).and_then(|n| u32::try_from(n).ok());
        number.map(Delay).ok_or_else(|| ValueError::new(format!("{} is no delay", quote(text)), help))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, &BANDWIDTHS)
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, u64::from(self.0), &DELAYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_and_delays_are_read_and_written_in_their_largest_whole_unit() {
        let bandwidth = |text: &str| text.parse::<Bandwidth>().map(|b| (b.kbits(), b.to_string()));
        assert_eq!(bandwidth("100 Mbit/s").unwrap(), (100_000, "100 Mbit/s".into()));
        assert_eq!(bandwidth("2500kbit/s").unwrap(), (2500, "2500 kbit/s".into()));
        assert_eq!(bandwidth("1000 Mbit/s").unwrap().1, "1 Gbit/s");
        let delay = |text: &str| text.parse::<Delay>().map(|d| (d.micros(), d.to_string()));
        assert_eq!(delay("5 ms").unwrap(), (5000, "5 ms".into()));
        assert_eq!(delay("1500us").unwrap(), (1500, "1500 us".into()));
        assert_eq!(delay("10 s").unwrap().0, 10_000_000);
        for wrong in ["", "5", "ms", "0 ms", "-1 ms", "11 s", "1.5 ms", "5 min", "99999999999 us"] {
            assert!(delay(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "5", "1 Mbps", "0 kbit/s", "1001 Gbit/s", "99999999999999999999 kbit/s"] {
            assert!(bandwidth(wrong).is_err(), "{wrong}");
        }
    }
}
