//! Times and rates.

use crate::MAX_AGE;
use crate::error::{Mistake, quote};

/// A number and what follows it.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text.get(..end)?.parse().ok()?;
    number.is_finite().then_some((number, text.get(end..)?.trim()))
}

/// Milliseconds, such as those of `5 minute`, `200 ms` or `1 second`.
pub(crate) fn time(text: &str) -> Result<u64, Mistake> {
    let help = "write a time such as \"200 ms\", \"5 second\", \"1 minute\" or \"1 hour\"";
    let wrong = || Mistake::new(format!("{} is no time", quote(text)), help);
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "ms" | "millisecond" | "milliseconds" => 1.0,
        "s" | "sec" | "second" | "seconds" => 1_000.0,
        "m" | "min" | "minute" | "minutes" => 60_000.0,
        "h" | "hour" | "hours" => 3_600_000.0,
        _ => return Err(wrong()),
    };
    let time = number * unit;
    if time > MAX_AGE as f64 {
        return Err(Mistake::new(format!("{} is too long", quote(text)), "at most \"24 hour\" are kept"));
    }
    Ok(time.round() as u64)
}

/// Bits in a second, such as those of `10 Mbit/s`.
pub(crate) fn rate(text: &str) -> Result<u64, Mistake> {
    let wrong = || {
        let help = "write a rate such as \"500 kbit/s\", \"10 Mbit/s\" or \"1 Gbit/s\"";
        Mistake::new(format!("{} is no rate", quote(text)), help)
    };
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "bit/s" | "bps" => 1.0,
        "kbit/s" | "kbps" | "k" => 1e3,
        "mbit/s" | "mbps" | "m" => 1e6,
        "gbit/s" | "gbps" | "g" => 1e9,
        _ => return Err(wrong()),
    };
    let rate = number * unit;
    if (1.0..=1e15).contains(&rate) { Ok(rate.round() as u64) } else { Err(wrong()) }
}

/// Milliseconds as text that [`time`] reads.
pub(crate) fn show_time(time: u64) -> String {
    match time {
        t if t > 0 && t.is_multiple_of(60_000) => format!("{} minute", t / 60_000),
        t if t > 0 && t.is_multiple_of(1_000) => format!("{} second", t / 1_000),
        t => format!("{t} ms"),
    }
}
