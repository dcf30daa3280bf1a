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
    ports |e| format!("1/{}", e.patterns.len());
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

fn program(e: &Classifier, b: &mut Builder) {
    b.input(0, |b| {
        for (port, pattern) in e.patterns.iter().enumerate() {
            let matched = pattern.0.iter().map(|c| test(b, c)).collect::<Vec<_>>();
            let Some(all) = matched.into_iter().reduce(|x, y| b.and(x, y)) else {
                b.emit(port as u32);
                return;
            };
            b.when(all, |b| b.emit(port as u32));
        }
        b.drop(Reason::NO_MATCH);
    });
}

/// Whether a clause matches (1 bit).
fn test(b: &mut Builder, c: &Clause) -> V {
    let end = c.offset + c.value.len() as u32;
    let v = b.choose_has(
        Layer::Data,
        end,
        |b| {
            let mut result: Option<V> = None;
            let mut at = 0;
            while at < c.value.len() {
                let width = [W64, W32, W16, W8]
                    .into_iter()
                    .find(|w| w.bytes() as usize <= c.value.len() - at)
                    .unwrap_or(W8);
                let next = at + width.bytes() as usize;
                let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |v, &b| v << 8 | u64::from(b));
                let (value, mask) = (number(&c.value[at..next]), number(&c.mask[at..next]));
                let mut v = b.load(width, Layer::Data, c.offset + at as u32);
                if u128::from(mask) != width.max() {
                    v = b.and(v, mask);
                }
                let equal = b.eq(v, value & mask);
                result = Some(match result {
                    Some(r) => b.and(r, equal),
                    None => equal,
                });
                at = next;
            }
            result.unwrap_or_else(|| b.constant(W1, 1_u8))
        },
        |b| b.constant(W1, 0_u8),
    );
    if c.negated { b.not(v) } else { v }
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

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

    #[test]
    fn bad_patterns_say_what_is_right() {
        let class = crate::class_named("Classifier").unwrap();
        for bad in ["12", "12/08000", "x/08", "12/0g", "12/0800%ff", "!"] {
            let errors = class.configure(&[bad.to_owned()]).err().unwrap();
            assert!(errors[0].contains("clause"), "{bad}: {errors:?}");
        }
    }
}
