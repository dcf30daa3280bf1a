//! Times as Click writes them: seconds with a fraction.

use crate::args::{CellValue, FromArg};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// A time or a duration in nanoseconds as seconds, with six digits behind the point, or nine if needed. Numbers above
/// 2^63 are negative times.
pub fn time_text(nanoseconds: u64) -> String {
    let sign = if nanoseconds.cast_signed() < 0 { "-" } else { "" };
    let nanoseconds = nanoseconds.cast_signed().unsigned_abs();
    let (sec, part) = (nanoseconds / SECOND, nanoseconds % SECOND);
    if part.is_multiple_of(1000) {
        format!("{sign}{sec}.{:06}", part / 1000)
    } else {
        format!("{sign}{sec}.{part:09}")
    }
}

/// Reads seconds with a fraction, and a unit behind if wanted (`1.5`, `20ms`, `2 hours`), exactly, as nanoseconds;
/// digits beyond nanoseconds are cut off. `None` if it is no such time, or longer than 292 years.
pub fn parse_time(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (numerator, denominator): (u128, u128) = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "s" | "sec" | "second" | "seconds" => (1, 1),
        "ms" | "msec" => (1, 1_000),
        "us" | "usec" => (1, 1_000_000),
        "ns" | "nsec" => (1, 1_000_000_000),
        "m" | "min" | "minute" | "minutes" => (60, 1),
        "h" | "hr" | "hour" | "hours" => (3600, 1),
        "d" | "day" | "days" => (86_400, 1),
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let fraction = fraction.get(..9).unwrap_or(fraction);
    let seconds: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let parts: u64 = format!("{fraction:0<9}").parse().ok()?;
    let nanoseconds = u128::from(seconds) * u128::from(SECOND) + u128::from(parts);
    i64::try_from(nanoseconds * numerator / denominator).ok().map(i64::cast_unsigned)
}

/// A time since 1970, or a duration, in nanoseconds; it may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub i64);

impl FromArg for Time {
    const SYNTAX: &'static str = "time in seconds";
    fn from_arg(text: &str) -> Result<Time, String> {
        let text = text.trim();
        let (digits, negative) = match text.strip_prefix('-') {
            Some(digits) => (digits, true),
            None => (text.strip_prefix('+').unwrap_or(text), false),
        };
        let time = parse_time(digits).ok_or_else(|| format!("'{text}' is not a time (like 1.5 or 20ms)"))?;
        let time = time.cast_signed();
        Ok(Time(if negative { -time } else { time }))
    }
}

impl CellValue for Time {
    fn bits(self) -> u128 {
        self.0.cast_unsigned().into()
    }
    fn show(bits: u128) -> String {
        time_text(bits as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_exactly_and_written_back() {
        for (text, ns) in [
            ("0.000000", 0),
            ("996033261.451094", 996_033_261_451_094_000),
            ("1.000000001", 1_000_000_001),
            ("12.500000", 12_500_000_000),
        ] {
            assert_eq!(parse_time(text), Some(ns));
            assert_eq!(time_text(ns), text);
        }
        assert_eq!(parse_time("3"), Some(3_000_000_000));
        assert_eq!(parse_time(".5s"), Some(500_000_000));
        assert_eq!(parse_time("1.5 hours"), Some(5_400_000_000_000));
        assert_eq!(parse_time("20ms"), Some(20_000_000));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", ".", "-1", "1.2.3", "x", "1 parsec", "99999999999999999999", "9223372037"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn times_may_be_negative() {
        assert_eq!(Time::from_arg("-1.5"), Ok(Time(-1_500_000_000)));
        assert_eq!(Time::from_arg("+2"), Ok(Time(2_000_000_000)));
        assert_eq!(Time::show(Time(-900_000_000).bits()), "-0.900000");
        assert!(Time::from_arg("--1").unwrap_err().contains("not a time"));
    }
}
