//! A table entry as people and snapshots see it.

use serde::{Deserialize, Serialize};

/// A match on one key field of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyMatch {
    /// This value.
    Exact(#[serde(with = "number")] u128),
    /// Values that agree with the first on the bits of the second.
    Mask(#[serde(with = "number")] u128, #[serde(with = "number")] u128),
    /// Values from the first to the second, both included.
    Range(#[serde(with = "number")] u128, #[serde(with = "number")] u128),
    /// A prefix: value and number of leading bits.
    Prefix(#[serde(with = "number")] u128, u32),
}

impl KeyMatch {
    /// Matches every value.
    pub const ANY: KeyMatch = KeyMatch::Mask(0, 0);

    /// Whether `v`, a value of `bits` bits, matches.
    pub fn matches(self, v: u128, bits: u32) -> bool {
        match self {
            KeyMatch::Exact(k) => v == k,
            KeyMatch::Mask(k, m) => v & m == k & m,
            KeyMatch::Range(lo, hi) => lo <= v && v <= hi,
            KeyMatch::Prefix(k, len) => len == 0 || (v ^ k) >> (bits - len.min(bits)) == 0,
        }
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// One match for each key field.
    pub key: Vec<KeyMatch>,
    /// Values of the value fields.
    #[serde(with = "number::list")]
    pub value: Vec<u128>,
    /// Rules: higher goes first; equal priorities go in the order of insertion.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Nanoseconds until the entry expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
}

fn is_zero(v: &i32) -> bool {
    *v == 0
}

impl Row {
    /// A row with exact keys that does not expire.
    pub fn exact(key: &[u128], value: &[u128]) -> Row {
        Row {
            key: key.iter().map(|&k| KeyMatch::Exact(k)).collect(),
            value: value.to_vec(),
            priority: 0,
            ttl: None,
        }
    }
}

/// Numbers of 128 bits in formats whose numbers have 64, as JSON values: what is larger is written as text,
/// `0x` and hexadecimal digits.
pub(crate) mod number {
    use std::fmt;

    use serde::de::{Deserialize, Deserializer, Error, Visitor};
    use serde::ser::{Serialize, Serializer};

    struct Number(u128);

    impl Serialize for Number {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            match u64::try_from(self.0) {
                Ok(small) => s.serialize_u64(small),
                Err(_) => s.collect_str(&format_args!("{:#x}", self.0)),
            }
        }
    }

    impl<'de> Deserialize<'de> for Number {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Number, D::Error> {
            d.deserialize_any(Reader)
        }
    }

    struct Reader;

    impl Visitor<'_> for Reader {
        type Value = Number;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number, or a string of 0x and up to 32 hexadecimal digits")
        }

        fn visit_u64<E: Error>(self, v: u64) -> Result<Number, E> {
            Ok(Number(v.into()))
        }

        fn visit_str<E: Error>(self, v: &str) -> Result<Number, E> {
            let digits = v.strip_prefix("0x").and_then(|d| u128::from_str_radix(d, 16).ok());
            digits.map(Number).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(v), &self))
        }
    }

    pub(super) fn serialize<S: Serializer>(v: &u128, s: S) -> Result<S::Ok, S::Error> {
        Number(*v).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u128, D::Error> {
        Ok(Number::deserialize(d)?.0)
    }

    pub(crate) mod list {
        use super::{Deserialize, Deserializer, Number, Serializer};

        pub(crate) fn serialize<S: Serializer>(all: &[u128], s: S) -> Result<S::Ok, S::Error> {
            s.collect_seq(all.iter().map(|&v| Number(v)))
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u128>, D::Error> {
            Ok(Vec::<Number>::deserialize(d)?.into_iter().map(|n| n.0).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_plain_data() {
        let row = Row { priority: -1, ttl: Some(7), ..Row::exact(&[1, u128::MAX], &[u64::MAX.into()]) };
        let text = serde_json::to_string(&row).unwrap();
        let all = "f".repeat(32);
        let wanted = format!(
            r#"{{"key":[{{"exact":1}},{{"exact":"0x{all}"}}],"value":[18446744073709551615],"priority":-1,"ttl":7}}"#
        );
        assert_eq!(text, wanted);
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
        for bad in ["-1", "1.5", r#""1""#, r#""0x""#, r#""0x1ffffffffffffffffffffffffffffffff""#] {
            let e = serde_json::from_str::<Row>(&format!(r#"{{"key":[],"value":[{bad}]}}"#)).unwrap_err();
            assert!(e.to_string().contains("up to 32 hexadecimal digits"), "{bad}: {e}");
        }
    }
}
