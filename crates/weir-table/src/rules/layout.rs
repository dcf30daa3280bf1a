//! Packed keys, and rules as values and masks over them.

use crate::row::KeyMatch;

/// Most words of a packed key: 16 fields of 16 bytes.
pub(super) const MAX_WORDS: usize = 32;

/// The place of a field in the packed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// Its lowest bit, counted from bit 0 of word 0.
    pub at: u32,
    /// Its width, 1 to 128.
    pub bits: u32,
}

impl Field {
    /// The largest value.
    pub fn max(self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// Its value in a packed key.
    pub fn get(self, words: &[u64]) -> u128 {
        let (word, shift) = ((self.at / 64) as usize, self.at % 64);
        if shift + self.bits <= 64 {
            return u128::from(words[word] >> shift) & self.max();
        }
        let mut v = (u128::from(words[word]) | u128::from(words[word + 1]) << 64) >> shift;
        if shift + self.bits > 128 {
            v |= u128::from(words[word + 2]) << (128 - shift);
        }
        v & self.max()
    }

    /// Writes its value into a packed key whose bits there are zero.
    pub fn put(self, words: &mut [u64], v: u128) {
        let v = v & self.max();
        let (word, shift) = ((self.at / 64) as usize, self.at % 64);
        let low = v << shift;
        let parts =
            [low as u64, (low >> 64) as u64, if shift == 0 { 0 } else { (v >> (128 - shift)) as u64 }];
        for (w, part) in words[word..].iter_mut().zip(parts) {
            *w |= part;
        }
    }
}

/// A range that is not a prefix, so that a mask cannot say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Number of the field.
    pub field: u16,
    /// The field.
    pub at: Field,
    /// Smallest value.
    pub lo: u128,
    /// Largest value.
    pub hi: u128,
}

impl Span {
    /// Whether a packed key has a value of the range.
    pub fn matches(&self, words: &[u64]) -> bool {
        let v = self.at.get(words);
        self.lo <= v && v <= self.hi
    }
}

/// A rule over the packed key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// For each word the value, then the mask; the value is zero where the mask is.
    pub pairs: Vec<u64>,
    /// What masks cannot say.
    pub spans: Vec<Span>,
}

/// Whether a packed key has the values under the masks, given in pairs.
pub(super) fn matches(pairs: &[u64], words: &[u64]) -> bool {
    pairs.chunks_exact(2).zip(words).fold(0, |differ, (p, w)| differ | (w ^ p[0]) & p[1]) == 0
}

/// The fields of the packed key: in order, each on whole bytes, least significant byte first.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// The fields.
    pub fields: Vec<Field>,
    /// Number of words.
    pub words: usize,
}

impl Layout {
    /// The layout of fields with these widths in bits.
    pub fn new(widths: &[u32]) -> Layout {
        let mut at = 0;
        let place = |&bits: &u32| {
            let bits = bits.clamp(1, 128);
            let field = Field { at, bits };
            at += bits.next_multiple_of(8);
            field
        };
        let fields = widths.iter().map(place).collect();
        Layout { fields, words: at.div_ceil(64).max(1) as usize }
    }

    /// Packs one value a field.
    pub fn pack(&self, key: &[u128]) -> [u64; MAX_WORDS] {
        let mut words = [0; MAX_WORDS];
        for (f, &v) in self.fields.iter().zip(key) {
            f.put(&mut words, v);
        }
        words
    }

    /// A rule over the packed key. `None` if no key can match it.
    pub fn pattern(&self, key: &[KeyMatch]) -> Option<Pattern> {
        let (mut value, mut mask) = ([0; MAX_WORDS], [0; MAX_WORDS]);
        let mut spans = Vec::new();
        for (i, (&f, &m)) in self.fields.iter().zip(key).enumerate() {
            let max = f.max();
            let (v, m) = match m {
                KeyMatch::Exact(v) => (v, u128::MAX),
                KeyMatch::Mask(v, m) => (v & m, m),
                KeyMatch::Prefix(_, 0) => (0, 0),
                KeyMatch::Prefix(v, len) => {
                    let m = u128::MAX << (f.bits - len.min(f.bits));
                    (v & m, m)
                }
                KeyMatch::Range(lo, hi) => {
                    let hi = hi.min(max);
                    if lo > hi {
                        return None;
                    }
                    // The leading bits that both ends share are a prefix that all values have.
                    let rest = u128::MAX.checked_shr((lo ^ hi).leading_zeros()).unwrap_or(0);
                    if hi - lo != rest {
                        spans.push(Span { field: i as u16, at: f, lo, hi });
                    }
                    (lo & !rest, !rest)
                }
            };
            if v > max {
                return None;
            }
            f.put(&mut value, v);
            f.put(&mut mask, m);
        }
        let pairs = value.into_iter().zip(mask).take(self.words).flat_map(|(v, m)| [v, m]).collect();
        Some(Pattern { pairs, spans })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_at_bytes_without_gaps() {
        let l = Layout::new(&[32, 32, 8, 16, 16]);
        assert_eq!(l.words, 2);
        let key = [0x0a00_0001, 0xc0a8_0102, 6, 0x1234, 0x5678];
        let words = l.pack(&key);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).take(16).collect();
        assert_eq!(bytes, [1, 0, 0, 10, 2, 1, 168, 192, 6, 0x34, 0x12, 0x78, 0x56, 0, 0, 0]);
    }

    #[test]
    fn fields_may_cross_words() {
        let l = Layout::new(&[1, 128, 12, 64, 128]);
        assert_eq!(l.words, 6);
        let key = [1, u128::MAX - 5, 0xabc, 0x0123_4567_89ab_cdef, 1 << 127 | 9];
        let words = l.pack(&key);
        for (f, v) in l.fields.iter().zip(key) {
            assert_eq!(f.get(&words), v);
        }
    }

    #[test]
    fn ranges_become_masks_where_they_can() {
        let l = Layout::new(&[16]);
        let p = l.pattern(&[KeyMatch::Range(1024, 2047)]).unwrap();
        assert_eq!((p.pairs, p.spans.len()), (vec![1024, 0xfc00], 0));
        let p = l.pattern(&[KeyMatch::Range(0, u128::MAX)]).unwrap();
        assert_eq!((p.pairs, p.spans.len()), (vec![0, 0], 0));
        let p = l.pattern(&[KeyMatch::Range(0x1233, 0x1236)]).unwrap();
        assert_eq!((p.pairs, p.spans.len()), (vec![0x1230, 0xfff8], 1));
        assert!(l.pattern(&[KeyMatch::Range(5, 4)]).is_none());
        assert!(l.pattern(&[KeyMatch::Exact(1 << 16)]).is_none());
    }
}
