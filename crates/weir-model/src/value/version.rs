//! Versions that are numbers with dots, and ranges of them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::error::{ValueError, quote};

/// Most parts of a version, and most comparisons of a range.
const MAX_PARTS: usize = 8;

/// A version: numbers with dots between, such as `1.2`. Parts that are left out are 0.
#[derive(Debug, Clone)]
pub struct Version(Vec<u64>);

impl FromStr for Version {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let parts: Option<Vec<u64>> =
            text.split('.').map(|part| part.parse().ok().filter(|_| digits(part))).collect();
        parts.filter(|p| p.len() <= MAX_PARTS).map(Version).ok_or_else(|| {
            let help = format!(
                "a version that can be compared is up to {MAX_PARTS} numbers with dots between, such as 1.2"
            );
            ValueError::new(format!("{} is no such version", quote(text)), help)
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let part = |v: &Version, i: usize| v.0.get(i).copied().unwrap_or(0);
        let parts = 0..self.0.len().max(other.0.len());
        parts.map(|i| part(self, i).cmp(&part(other, i))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Version) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

/// How a version is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    AtMost,
    Above,
    Below,
    Equal,
}

/// The comparisons as they are written; longer ones first, since they begin with others.
const COMPARISONS: [(&str, Comparison); 5] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    (">", Comparison::Above),
    ("<", Comparison::Below),
    ("=", Comparison::Equal),
];

/// A range of versions: comparisons that must all hold, with commas between, such as `>=1.2, <2`. A version alone is that version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange(Vec<(Comparison, Version)>);

text_form!(VersionRange, {
    "description": "Versions (numbers with dots): comparisons with >=, <=, >, < or = that must all hold, with commas between, such as \">=1.2, <2\".",
    "type": ["string", "number"], "minimum": 0,
    "pattern": "^ *(>=|<=|>|<|=)? *[0-9]+(\\.[0-9]+)* *(, *(>=|<=|>|<|=)? *[0-9]+(\\.[0-9]+)* *)*$"
});

impl VersionRange {
    /// Whether a version is in the range.
    pub fn contains(&self, version: &Version) -> bool {
        self.0.iter().all(|(comparison, bound)| match comparison {
            Comparison::AtLeast => version >= bound,
            Comparison::AtMost => version <= bound,
            Comparison::Above => version > bound,
            Comparison::Below => version < bound,
            Comparison::Equal => version == bound,
        })
    }
}

impl FromStr for VersionRange {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let one = |text: &str| {
            let text = text.trim_matches(' ');
            let found = COMPARISONS.iter().find_map(|(sign, c)| Some((*c, text.strip_prefix(sign)?)));
            let (comparison, version) = found.unwrap_or((Comparison::Equal, text));
            version.trim_matches(' ').parse().map(|version| (comparison, version)).map_err(|e: ValueError| {
                let help = format!("{}; a range is written as \">=1.2, <2\"", e.help);
                ValueError::new(e.message, help)
            })
        };
        let list = text.split(',').map(one).collect::<Result<Vec<_>, _>>()?;
        if list.len() > MAX_PARTS {
            return Err(ValueError::new(
                format!("{} comparisons", list.len()),
                format!("at most {MAX_PARTS} are allowed"),
            ));
        }
        Ok(VersionRange(list))
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (comparison, version)) in self.0.iter().enumerate() {
            let sign = COMPARISONS.iter().find(|(_, c)| c == comparison).map_or("", |(sign, _)| sign);
            write!(f, "{}{sign}{version}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn has(range: &str, version: &str) -> bool {
        range.parse::<VersionRange>().unwrap().contains(&version.parse().unwrap())
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(has(">=1.2", "1.10") && has(">=1.2", "1.2.0") && !has(">=1.2", "1.1.9"));
        assert!(has(">=1.2, <2", "1.99") && !has(">=1.2, <2", "2") && !has(">1.2", "1.2.0"));
        assert!(has("1.2", "1.2.0") && has("=1", "1.0.0") && !has("1.2", "1.2.1") && has("<= 3", "3.0"));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for wrong in ["", "latest", ">=", "1.2,", "~1.2", "1..2", ">=1.2 <2", "+1", "1.2-beta"] {
            assert!(wrong.parse::<VersionRange>().is_err(), "{wrong}");
        }
        assert!("1.2-beta".parse::<Version>().is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_range_reads_back_and_has_the_versions_on_its_side(
            bound in prop::collection::vec(0u64..4, 1..4),
            version in prop::collection::vec(0u64..4, 1..4),
        ) {
            let (bound, version) = (Version(bound), Version(version));
            for (sign, _) in COMPARISONS {
                let range: VersionRange = format!("{sign}{bound}").parse().unwrap();
                prop_assert_eq!(&range.to_string().parse::<VersionRange>().unwrap(), &range);
                let expected = match sign {
                    ">=" => version.cmp(&bound).is_ge(),
                    "<=" => version.cmp(&bound).is_le(),
                    ">" => version.cmp(&bound).is_gt(),
                    "<" => version.cmp(&bound).is_lt(),
                    _ => version.cmp(&bound).is_eq(),
                };
                prop_assert_eq!(range.contains(&version), expected);
            }
        }
    }
}
