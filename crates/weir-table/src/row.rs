//! A table entry as people and snapshots see it.

use serde::{Deserialize, Serialize};

/// What one key field of a row matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyMatch {
    /// This value.
    Exact(u128),
    /// Values that agree with the first on the bits of the second.
    Mask(u128, u128),
    /// Values from the first to the second, both included.
    Range(u128, u128),
    /// A prefix: value and number of leading bits.
    Prefix(u128, u32),
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
        Row { key: key.iter().map(|&k| KeyMatch::Exact(k)).collect(), value: value.to_vec(), priority: 0, ttl: None }
    }
}
