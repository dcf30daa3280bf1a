//! Parameters that several nodes have.

use weir_elements::FromArg;
use weir_packet::MAX_LEN;

use crate::node::Cx;

/// A number of packets, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(pub Option<u64>);

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

/// The contents of generated packets: text, or bytes as `\<hex digits>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Data(Vec<u8>);

impl Default for Data {
    /// What Click's sources send if nothing is given, so that its configurations give the same packets.
    fn default() -> Data {
        Data(b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.".to_vec())
    }
}

impl FromArg for Data {
    const SYNTAX: &'static str = "text, or \\<hex digits>";
    fn from_arg(text: &str) -> Result<Data, String> {
        let bytes = weir_click::unquote(text);
        fits(bytes.len())?;
        Ok(Data(bytes))
    }
}

/// Text of any length, or bytes as `\<hex digits>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text(pub Vec<u8>);

impl FromArg for Text {
    const SYNTAX: &'static str = "text, or \\<hex digits>";
    fn from_arg(text: &str) -> Result<Text, String> {
        Ok(Text(weir_click::unquote(text)))
    }
}

/// The length of a packet: at most [`MAX_LEN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Length(u32);

impl Length {
    /// In bytes.
    pub fn bytes(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromArg for Length {
    const SYNTAX: &'static str = "number";
    fn from_arg(text: &str) -> Result<Length, String> {
        let length = u32::from_arg(text)?;
        fits(length as usize)?;
        Ok(Length(length))
    }
}

fn fits(length: usize) -> Result<(), String> {
    if length > MAX_LEN { Err(format!("packets have at most {MAX_LEN} bytes, not {length}")) } else { Ok(()) }
}

impl Data {
    /// The bytes of a packet: cut or repeated to `length` if one is given.
    pub fn of_length(&self, length: Option<Length>) -> Vec<u8> {
        let length = length.map_or(self.0.len(), Length::bytes);
        if self.0.is_empty() {
            vec![0; length]
        } else {
            self.0.iter().copied().cycle().take(length).collect()
        }
    }
}

/// A write handler with what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandlerCall {
    handler: String,
    value: String,
}

impl FromArg for HandlerCall {
    const SYNTAX: &'static str = "write handler and value";
    fn from_arg(text: &str) -> Result<HandlerCall, String> {
        let (handler, value) =
            weir_click::first_word(text).ok_or("write the name of a handler, and a value")?;
        Ok(HandlerCall { handler: handler.to_owned(), value: value.to_owned() })
    }
}

impl HandlerCall {
    /// Writes the handler; what goes wrong is reported.
    pub fn carry_out(&self, cx: &mut Cx<'_>) {
        let mut errors = Vec::new();
        cx.write_handler((&self.handler, &self.value), &mut errors);
        for e in errors {
            cx.print(format!("{} :: {}: {e}", cx.name(), cx.class()));
        }
    }
}

/// A probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Probability(pub f64);

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
pub(crate) fn flag(value: &str) -> Result<bool, String> {
    bool::from_arg(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_has_the_length_that_is_asked_for() {
        let bytes =
            |text: &str, length: Option<u32>| Data::from_arg(text).unwrap().of_length(length.map(Length));
        assert_eq!(Data::default().of_length(None).len(), 69);
        assert_eq!(bytes("abc", None), b"abc");
        assert_eq!(bytes("\"a\" ", None), b"a");
        assert_eq!(bytes("\\<45 00ff>", None), [0x45, 0, 0xff]);
        assert_eq!(bytes("abc", Some(7)), b"abcabca");
        assert_eq!(bytes("abc", Some(2)), b"ab");
        assert_eq!(bytes("", Some(2)), [0, 0]);
    }

    #[test]
    fn what_no_packet_holds_is_refused() {
        assert_eq!(Length::from_arg(&MAX_LEN.to_string()).unwrap().bytes(), MAX_LEN);
        for e in [
            Length::from_arg(&(MAX_LEN + 1).to_string()).unwrap_err(),
            Data::from_arg(&"x".repeat(MAX_LEN + 1)).unwrap_err(),
        ] {
            assert_eq!(e, format!("packets have at most {MAX_LEN} bytes, not {}", MAX_LEN + 1));
        }
    }

    #[test]
    fn minus_one_is_no_limit() {
        assert!(!Limit::from_arg("-1").unwrap().reached(u64::MAX));
        assert!(Limit::from_arg("3").unwrap().reached(3));
        assert!(Limit::from_arg("-2").is_err());
    }
}
