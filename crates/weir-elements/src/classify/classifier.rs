use std::collections::BTreeSet;

use super::filter::{Bit, Cond, FEW, Field, RuleList, Test, View};
use super::tree::{self, Tree};
use crate::prelude::*;

element! {
    /// Sends packets to the output of the first pattern that they match, by their bytes.
    ///
    /// A pattern is a list of clauses, all of which have to match: `OFFSET/VALUE` or `OFFSET/VALUE%MASK`, in hexadecimal;
    /// `?` in a value matches any digit, and a clause with `!` in front must not match. `-` matches every packet. A
    /// packet too short for a clause does not match it. Packets that match no pattern are dropped (`NoMatch`).
    Classifier: "1/-", "a/ah";
    example "Idle -> c :: Classifier(12/0806 20/0001, 12/0800, -); c [0] -> Discard; c [1] -> Discard; c [2] -> Discard;";
    params {
        /// A pattern for each output.
        rest patterns: Vec<Pattern>,
    }
    handlers {
        /// The decision tree, as Click shows it, for packets with whole headers: for each step where it looks, value and
        /// mask, and where it leads; `[X]` is dropped.
        read program = |e, _| program_text(&e.patterns),
    }
    ports |e| format!("1/{}", e.patterns.len());
}

/// The decision tree of the patterns.
fn program_text(patterns: &[Pattern]) -> Result<String, String> {
    let rules: Vec<_> = (0..).zip(patterns).map(|(output, p)| (p.clauses(), Some(output))).collect();
    Tree::of_bytes(&rules).map(|tree| tree.to_string())
}

/// Clauses that must all match; none matches every packet.
#[derive(Debug)]
pub struct Pattern(Vec<Clause>);

#[derive(Debug)]
struct Clause {
    offset: u32,
    value: Vec<u8>,
    mask: Vec<u8>,
    negated: bool,
}

impl FromArg for Pattern {
    const SYNTAX: &'static str = "pattern";
    fn from_arg(text: &str) -> Result<Pattern, String> {
        let text = text.trim();
        if text == "-" {
            return Ok(Pattern(Vec::new()));
        }
        if text.is_empty() {
            return Err("the pattern is empty: write - for every packet".into());
        }
        let mut clauses = Vec::new();
        let mut negated = false;
        for word in text.split_whitespace() {
            let (bang, word) = word.strip_prefix('!').map_or((false, word), |rest| (true, rest));
            negated ^= bang;
            if word.is_empty() {
                continue;
            }
            clauses.push(clause(word, negated)?);
            negated = false;
        }
        if negated {
            return Err(format!("'{text}': a clause has to follow !"));
        }
        Ok(Pattern(clauses))
    }
}

fn clause(word: &str, negated: bool) -> Result<Clause, String> {
    let err =
        |what: &str| format!("'{word}': {what}; a clause is OFFSET/VALUE or OFFSET/VALUE%MASK, as 12/0800");
    let (offset, rest) = word.split_once('/').ok_or_else(|| err("'/' is missing"))?;
    let offset: u32 = offset.parse().map_err(|_| err("the offset is not a number"))?;
    let (value, mask) = rest.split_once('%').map_or((rest, None), |(v, m)| (v, Some(m)));
    if value.is_empty() || value.len() % 2 != 0 || offset > 65_535 || value.len() > 512 {
        return Err(err("the value needs an even number of hexadecimal digits"));
    }
    let (mut bytes, mut bits) = (Vec::new(), Vec::new());
    for pair in value.as_bytes().chunks(2) {
        let digit = |c: u8| match c {
            b'?' => Ok((0, 0)),
            c => (c as char)
                .to_digit(16)
                .map(|d| (d as u8, 15))
                .ok_or_else(|| err("the value is not hexadecimal")),
        };
        let ((high, high_mask), (low, low_mask)) = (digit(pair[0])?, digit(pair[1])?);
        bytes.push(high << 4 | low);
        bits.push(high_mask << 4 | low_mask);
    }
    if let Some(mask) = mask {
        if mask.len() != value.len() {
            return Err(err("the mask is not as long as the value"));
        }
        for (i, pair) in mask.as_bytes().chunks(2).enumerate() {
            let digit = |c: u8| {
                (c as char).to_digit(16).map(|d| d as u8).ok_or_else(|| err("the mask is not hexadecimal"))
            };
            bits[i] &= digit(pair[0])? << 4 | digit(pair[1])?;
        }
    }
    Ok(Clause { offset, value: bytes, mask: bits, negated })
}

/// Most numbers that patterns are compared with, and most lengths that they ask for. Patterns that look at more are
/// tested one by one.
const MOST: (usize, usize) = (15, 32);

/// Numbers that cover the bytes that patterns look at: offset and length of each. None lies across the end of a
/// clause, so a number that a packet has in part belongs to clauses that do not match it.
fn words(patterns: &[Pattern]) -> Option<Vec<(u32, u32)>> {
    let clauses = || patterns.iter().flat_map(|p| &p.0);
    let ends: BTreeSet<u32> = clauses().map(Clause::end).collect();
    let bytes: BTreeSet<u32> = clauses().flat_map(|c| c.offset..c.end()).collect();
    let mut words = Vec::new();
    let mut next = bytes.first().copied();
    while let Some(at) = next {
        let fits = |n: &u32| (at..at + n).all(|i| bytes.contains(&i) && (i == at || !ends.contains(&i)));
        let n = [8, 4, 2, 1].into_iter().find(fits).unwrap_or(1);
        words.push((at, n));
        next = bytes.range(at + n..).next().copied();
    }
    (words.len() <= MOST.0 && ends.len() <= MOST.1).then_some(words)
}

impl Pattern {
    /// The clauses, for the tree.
    fn clauses(&self) -> Vec<tree::Clause<'_>> {
        self.0.iter().map(|c| (c.offset, &c.value[..], &c.mask[..], c.negated)).collect()
    }
}

impl Clause {
    /// Where it ends in a packet.
    fn end(&self) -> u32 {
        self.offset + self.value.len() as u32
    }

    /// What it says, over these numbers if there are not too many.
    fn cond(&self, words: Option<&[(u32, u32)]>) -> Cond {
        let matches = match words {
            None => Cond::Bytes(self.offset, self.value.clone(), self.mask.clone()),
            Some(words) => {
                let tests = words.iter().map(|&(off, n)| {
                    // Bits that a packet's number may have, and what they have to be.
                    let (mut value, mut mask) = (0_u128, 0_u128);
                    for at in off..off + n {
                        let i = at.checked_sub(self.offset).map(|i| i as usize);
                        let of = |bytes: &[u8]| i.and_then(|i| bytes.get(i)).copied().unwrap_or(0);
                        let bits = of(&self.mask);
                        mask = mask << 8 | u128::from(bits);
                        value = value << 8 | u128::from(of(&self.value) & bits);
                    }
                    if mask == 0 {
                        Cond::TRUE
                    } else {
                        Cond::Test(Field::Data(off, n), Test::Mask(value, mask))
                    }
                });
                Cond::Has(Bit::Data(self.end())).and(Cond::all(tests))
            }
        };
        if self.negated { matches.negate() } else { matches }
    }
}

fn program(e: &Classifier, b: &mut Builder) {
    let words = words(&e.patterns);
    let rules = (0..).zip(&e.patterns).map(|(port, p)| {
        let clauses = p.0.iter().map(|c| c.cond(words.as_deref()));
        (Cond::all(clauses), port)
    });
    let mut plan = RuleList::of(View::Bytes, rules.collect(), FEW, false);
    plan.declare(b, "patterns");
    b.input(0, |b| {
        plan.run(b, |b, _, port, _| b.emit(port));
        if !b.ended() {
            b.drop(Reason::NO_MATCH);
        }
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Clause, Pattern};
    use crate::args::FromArg;
    use crate::testing::{Harness, Outcome};

    fn out(patterns: &[&str], packet: &[u8]) -> Option<u32> {
        let out = Harness::new("Classifier", patterns, 1, patterns.len() as u32).send(0, packet);
        match &out[0] {
            crate::testing::Outcome::Out(port, _) => Some(*port),
            crate::testing::Outcome::Drop(reason) => {
                assert_eq!(reason, "NoMatch");
                None
            }
        }
    }

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let patterns = ["0/0806 4/0001", "0/0806", "-"];
        assert_eq!(out(&patterns, &[8, 6, 0, 0, 0, 1]), Some(0));
        assert_eq!(out(&patterns, &[8, 6, 0, 0, 0, 2]), Some(1));
        assert_eq!(out(&patterns, &[8, 6]), Some(1), "too short for the first pattern");
        assert_eq!(out(&patterns, &[]), Some(2));
        assert_eq!(out(&["0/0806"], &[8]), None);
    }

    #[test]
    fn masks_wildcards_and_negation() {
        assert_eq!(out(&["0/40%f0"], &[0x4f]), Some(0));
        assert_eq!(out(&["0/4?"], &[0x4f]), Some(0));
        assert_eq!(out(&["0/4?"], &[0x5f]), None);
        assert_eq!(out(&["!0/45"], &[0x46]), Some(0));
        assert_eq!(out(&["0/46 ! 1/01"], &[0x46, 1]), None);
        assert_eq!(out(&["0/0102030405060708090a0b"], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), Some(0));
        assert_eq!(out(&["0/0102030405060708090a0b"], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]), None);
    }

    /// What a list of patterns means.
    fn wanted(patterns: &[Pattern], packet: &[u8]) -> Option<u32> {
        let matches = |c: &Clause| {
            let there = packet.get(c.offset as usize..c.end() as usize);
            let equal = |b: &[u8]| b.iter().zip(&c.value).zip(&c.mask).all(|((b, v), m)| b & m == v & m);
            there.is_some_and(equal) != c.negated
        };
        patterns.iter().position(|p| p.0.iter().all(matches)).map(|i| i as u32)
    }

    fn patterns() -> impl Strategy<Value = Vec<String>> {
        let offset = prop_oneof![0_u32..6, 10_u32..14];
        let byte = prop::sample::select(vec!["00", "01", "??", "0?", "?1", "12"]);
        let value = prop::collection::vec(byte, 1..11).prop_map(|b| b.concat());
        let clause = (offset, value, prop::option::of(any::<u8>()), prop::bool::weighted(0.2));
        let clause = clause.prop_map(|(offset, value, mask, negated)| {
            let bang = if negated { "!" } else { "" };
            let mask =
                mask.map_or(String::new(), |m| format!("%{}", format!("{m:02x}").repeat(value.len() / 2)));
            format!("{bang}{offset}/{value}{mask}")
        });
        let pattern = prop::collection::vec(clause, 0..4);
        let pattern = pattern.prop_map(|c| if c.is_empty() { "-".to_owned() } else { c.join(" ") });
        prop::collection::vec(pattern, 1..14)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn patterns_mean_what_they_say(
            texts in patterns(),
            packets in prop::collection::vec(prop::collection::vec(0_u8..3, 0..25), 1..30),
        ) {
            let args: Vec<&str> = texts.iter().map(String::as_str).collect();
            let parsed: Vec<Pattern> = texts.iter().map(|t| Pattern::from_arg(t).unwrap()).collect();
            let mut e = Harness::new("Classifier", &args, 1, args.len() as u32);
            for packet in &packets {
                let got = match &e.send(0, packet)[0] {
                    Outcome::Out(port, _) => Some(*port),
                    Outcome::Drop(_) => None,
                };
                prop_assert_eq!(got, wanted(&parsed, packet), "{:?} on {:02x?}", texts, packet);
            }
        }
    }

    #[test]
    fn many_patterns_are_one_lookup_over_the_bytes_that_they_touch() {
        let texts: Vec<String> = (0..100).map(|i| format!("12/0800 23/06 36/{i:04x}")).collect();
        let args: Vec<&str> = texts.iter().map(String::as_str).collect();
        let e = Harness::new("Classifier", &args, 1, 100);
        let key: Vec<u32> = e.program.tables[0].decl.key.iter().map(|f| f.width.bits()).collect();
        assert_eq!((e.program.tables.len(), key), (1, vec![16, 16, 8, 8]));
    }

    #[test]
    fn bad_patterns_say_what_is_right() {
        let class = crate::class_named("Classifier").unwrap();
        for bad in ["12", "12/08000", "x/08", "12/0g", "12/0800%ff", "!"] {
            let errors = class.configure(&[bad.to_owned()]).err().unwrap();
            assert!(errors[0].contains("clause"), "{bad}: {errors:?}");
        }
    }
}
