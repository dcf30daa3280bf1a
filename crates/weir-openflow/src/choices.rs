//! Values from bytes: what tests and fuzzers make messages of.

/// Choices that bytes make. Behind their end every choice is the first one, so that all values are finite.
#[derive(Debug, Clone)]
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// The choices of these bytes.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices(bytes)
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let wide = if n > 256 { usize::from(self.byte()) << 8 } else { 0 };
        (wide + usize::from(self.byte())) % n.max(1)
    }

    /// A number of `bits` bits, more often at an end of its range than elsewhere.
    pub fn number(&mut self, bits: u32) -> u128 {
        let most = u128::MAX >> (128 - bits.clamp(1, 128));
        match self.byte() % 8 {
            0 => 0,
            1 => most,
            2..4 => u128::from(self.byte()) & most,
            4 => most - (u128::from(self.byte()) & most),
            _ => (0..bits.div_ceil(8)).fold(0, |n, _| n << 8 | u128::from(self.byte())) & most,
        }
    }

    /// One of a list, which is not empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}
