//! Parameters that several nodes have.

use weir_elements::FromArg;

/// A number of packets, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit(pub Option<u64>);

impl Limit {
    /// No limit.
    pub const NONE: Limit = Limit(None);

    /// Whether `n` packets are as many as there may be.
    pub fn reached(self, n: u64) -> bool {
        self.0.is_some_and(|limit| n >= limit)
    }

    /// How many more there may be after `n`.
    pub fn left(self, n: u64) -> u64 {
        self.0.map_or(u64::MAX, |limit| limit.saturating_sub(n))
    }
}

impl FromArg for Limit {
    const SYNTAX: &'static str = "number, or -1 for no limit";
    fn from_arg(text: &str) -> Result<Limit, String> {
        match text.trim() {
            "-1" => Ok(Limit::NONE),
            text => Ok(Limit(Some(u64::from_arg(text)?))),
        }
    }
}

/// What generated packets contain: text, or bytes as `\<hex digits>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Data(Vec<u8>);

impl Default for Data {
    /// What Click's sources send if nothing is given, so that its configurations give the same packets.
    fn default() -> Data {
        Data(b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.".to_vec())
    }
}

impl FromArg for Data {
    const SYNTAX: &'static str = "text, or \\<hex digits>";
    fn from_arg(text: &str) -> Result<Data, String> {
        Ok(Data(weir_click::unquote(text)))
    }
}

impl Data {
    /// The bytes of a packet: cut or repeated to `length` if one is given.
    pub fn of_length(&self, length: Option<u32>) -> Vec<u8> {
        let length = length.map_or(self.0.len(), |l| l as usize).min(weir_packet::MAX_LEN);
        if self.0.is_empty() {
            vec![0; length]
        } else {
            self.0.iter().copied().cycle().take(length).collect()
        }
    }
}

/// A probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Probability(pub f64);

impl FromArg for Probability {
    const SYNTAX: &'static str = "number from 0 to 1";
    fn from_arg(text: &str) -> Result<Probability, String> {
        let p: f64 = text.trim().parse().map_err(|_| format!("'{text}' is not a number"))?;
        if (0.0..=1.0).contains(&p) {
            Ok(Probability(p))
        } else {
            Err(format!("{text} is not between 0 and 1"))
        }
    }
}

/// The current value of a `write` handler's boolean.
pub(super) fn flag(value: &str) -> Result<bool, String> {
    bool::from_arg(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_has_the_length_that_is_asked_for() {
        let bytes = |text: &str, length| Data::from_arg(text).unwrap().of_length(length);
        assert_eq!(Data::default().of_length(None).len(), 69);
        assert_eq!(bytes("abc", None), b"abc");
        assert_eq!(bytes("\"a\" ", None), b"a");
        assert_eq!(bytes("\\<45 00ff>", None), [0x45, 0, 0xff]);
        assert_eq!(bytes("abc", Some(7)), b"abcabca");
        assert_eq!(bytes("abc", Some(2)), b"ab");
        assert_eq!(bytes("", Some(2)), [0, 0]);
        assert_eq!(bytes("x", Some(u32::MAX)).len(), weir_packet::MAX_LEN);
    }

    #[test]
    fn minus_one_is_no_limit() {
        assert!(!Limit::from_arg("-1").unwrap().reached(u64::MAX));
        assert!(Limit::from_arg("3").unwrap().reached(3));
        assert!(Limit::from_arg("-2").is_err());
    }
}
