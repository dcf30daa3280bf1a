//! Inputs from seeds by mutation: the same number gives the same input.

/// How long an input may become, in bytes.
const MAX_LEN: usize = 16 << 10;
/// Bytes at which comparisons and lengths turn.
const TURNS: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'0', b'"', b'\n'];
/// Numbers at which comparisons and lengths turn, as text.
const NUMBERS: [&str; 8] = [
    "0",
    "1",
    "-1",
    "255",
    "65536",
    "4294967295",
    "18446744073709551616",
    "0xffffffffffffffffffffffffffffffff",
];

/// The inputs of a target.
#[derive(Debug)]
pub(crate) struct Inputs {
    seeds: Vec<Vec<u8>>,
}

impl Inputs {
    /// The inputs that follow from these seeds.
    pub(crate) fn new(seeds: Vec<Vec<u8>>) -> Inputs {
        Inputs { seeds }
    }

    /// Input number `n`: first the seeds themselves, then mutations without end.
    pub(crate) fn get(&self, n: u64) -> Vec<u8> {
        if let Some(seed) = usize::try_from(n).ok().and_then(|n| self.seeds.get(n)) {
            return seed.clone();
        }
        let mut random = Random(n);
        let mut input = self.any(&mut random).to_vec();
        // One change in half of the inputs, two in a quarter, and so on: with many, few readers get past the start.
        loop {
            self.change(&mut input, &mut random);
            input.truncate(MAX_LEN);
            if random.below(2) == 0 {
                return input;
            }
        }
    }

    /// One of the seeds.
    fn any(&self, random: &mut Random) -> &[u8] {
        self.seeds.get(random.below(self.seeds.len())).map_or(&[], Vec::as_slice)
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(input.len() + 1);
        match random.below(13) {
            0 => {
                if let Some(b) = input.get_mut(at) {
                    *b ^= 1 << random.below(8);
                }
            }
            1 => {
                if let Some(b) = input.get_mut(at) {
                    *b = random.pick(&TURNS);
                }
            }
            2 => drop(input.drain(random.range(input))),
            3 => {
                let copy = input[random.range(input)].to_vec();
                input.splice(at..at, copy);
            }
            4 => {
                let bytes: Vec<u8> = (0..random.below(8)).map(|_| random.next() as u8).collect();
                input.splice(at..at, bytes);
            }
            5 => input.truncate(at),
            6 => {
                let other = self.any(random);
                let piece = other[random.range(other)].to_vec();
                input.splice(at..at, piece);
            }
            7 => {
                let number = random.pick(&NUMBERS);
                input.splice(word_at(input, at), number.bytes());
            }
            // A word for a word, of this input or of another seed.
            _ => {
                let here = word_at(input, at);
                let from = if random.below(2) == 0 { &input[..] } else { self.any(random) };
                let kind = |text: &[u8], at: usize| text.get(at).map(u8::is_ascii_digit);
                let words = (0..8).map(|_| word_at(from, random.below(from.len() + 1)));
                let like = words.into_iter().find(|w| kind(from, w.start) == kind(input, here.start));
                if let Some(new) = like.map(|w| from[w].to_vec()) {
                    input.splice(here, new);
                }
            }
        }
    }
}

/// The run of letters and digits around a position, or of anything else.
fn word_at(text: &[u8], at: usize) -> std::ops::Range<usize> {
    let kind = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let Some(here) = text.get(at).map(kind) else { return text.len()..text.len() };
    let start = text[..at].iter().rposition(|b| kind(b) != here).map_or(0, |p| p + 1);
    let end = text[at..].iter().position(|b| kind(b) != here).map_or(text.len(), |p| at + p);
    start..end
}

/// Numbers from a seed (SplitMix64, Steele and others, OOPSLA 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % (n.max(1) as u64)) as usize
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// A range inside, short more often than long.
    fn range(&mut self, of: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(of.len() + 1);
        let most = if self.below(4) == 0 { of.len() } else { 16 };
        start..(start + self.below(most + 1)).min(of.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_gives_the_same_input_and_others_differ() {
        let inputs = Inputs::new(vec![b"ip host 10.0.0.1".to_vec(), b"tcp port 80".to_vec()]);
        assert_eq!(inputs.get(1), b"tcp port 80");
        let some: Vec<_> = (2..200).map(|n| inputs.get(n)).collect();
        assert_eq!(some, (2..200).map(|n| inputs.get(n)).collect::<Vec<_>>());
        let different: std::collections::HashSet<_> = some.iter().collect();
        assert!(different.len() > 150, "{} of {}", different.len(), some.len());
    }

    #[test]
    fn words() {
        assert_eq!(word_at(b"ip host", 4), 3..7);
        assert_eq!(word_at(b"ip host", 2), 2..3);
        assert_eq!(word_at(b"ip", 2), 2..2);
    }
}
