//! A word for each of the first 24 bits of a key, in blocks of 256 that share the first 16. A block is one cache line as
//! long as neighbours are much the same: then it is the ranges of equal words, and the range of a key is found by one
//! comparison of 16 bytes. A block of many ranges has an array instead.
//!
//! As arrays alone (DIR-24-8: Gupta, Lin, McKeown 1998) these words take 64 MiB, and a lookup waits for memory. Of 100,000
//! random prefixes the blocks that are used take 4 MiB, and those of the popular ones stay in the second cache.

use super::arrays::{Arrays, BLOCK_ARRAY, LEN, is_array_of_block};
use crate::memory::{Pages, Region};

/// Blocks, one for each first 16 bits of a key.
const BLOCKS: usize = 1 << 16;
/// Bytes of a block, one cache line.
const SIZE: usize = 64;
/// Bytes that are compared with the third byte of a key.
const STARTS: usize = 16;
/// Ranges that a block can have.
const RANGES: usize = (SIZE - STARTS) / 4;
/// A block that got an array has ranges again when it needs at most so many: one at the limit does not change at each edit.
const FEW: usize = RANGES / 2;

/// The blocks.
///
/// A block is 16 bytes and 12 words. The first 11 bytes are where its ranges begin, ascending, without that of the first
/// range, which is 0; if there are fewer ranges, zeros stand before them. The other bytes are 0. Of the words, the last
/// are those of the ranges. So with `n` of the bytes at most a key's third byte, the word of the key is number `n - 5`,
/// 4 (n - 1) bytes from the start of the block, and a block of zeros is one range with the word 0.
pub struct Blocks {
    memory: Region,
    /// Number of blocks with an array.
    arrays: u32,
}

impl Blocks {
    /// All words are 0. `None` if there is no memory.
    pub fn new(pages: Pages) -> Option<Blocks> {
        Some(Blocks { memory: Region::reserve(BLOCKS * SIZE, pages).ok()?, arrays: 0 })
    }

    /// Number of blocks with an array.
    pub fn arrays(&self) -> u32 {
        self.arrays
    }

    /// The blocks, as compiled code reads them.
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.as_ptr()
    }

    /// Brings the block of a key near.
    #[inline]
    pub fn fetch(&self, key: u32) {
        self.memory.fetch(SIZE * (key >> 16) as usize);
    }

    /// The word of a key, or its block's array.
    #[inline(always)]
    pub fn of_key(&self, key: u32) -> u32 {
        let (block, third) = ((key >> 16) as usize, (key >> 8) as u8);
        let starts = &self.memory.bytes()[SIZE * block..][..STARTS];
        let count: u8 = starts.iter().map(|&start| u8::from(start <= third)).sum();
        self.memory.half_words()[SIZE / 4 * block + usize::from(count) - 1]
    }

    /// The word of the first 24 bits of a key.
    pub fn word(&self, arrays: &Arrays, top: u32) -> u32 {
        let found = self.of_key(top << 8);
        if is_array_of_block(found) { arrays.of(found)[(top & 0xff) as usize] } else { found }
    }

    /// Writes the words of `begin..=end`, of 24 bits.
    pub fn fill(&mut self, arrays: &mut Arrays, begin: u32, end: u32, word: u32) {
        for block in begin >> 8..=end >> 8 {
            let first = if block == begin >> 8 { (begin & 0xff) as usize } else { 0 };
            let last = if block == end >> 8 { (end & 0xff) as usize } else { LEN - 1 };
            self.fill_block(arrays, block as usize, first, last, word);
        }
    }

    fn fill_block(&mut self, arrays: &mut Arrays, block: usize, first: usize, last: usize, word: u32) {
        let array = Some(self.of_key((block as u32) << 16)).filter(|&found| is_array_of_block(found));
        let mut words = [word; LEN];
        if (first, last) != (0, LEN - 1) {
            match array {
                Some(array) => words.copy_from_slice(arrays.of(array)),
                None => self.read(block, &mut words),
            }
            words[first..=last].fill(word);
        }
        let ranges = 1 + words.windows(2).filter(|pair| pair[0] != pair[1]).count();
        match array {
            Some(array) if ranges > FEW => arrays.of_mut(array).copy_from_slice(&words),
            None if ranges > RANGES => {
                let array = BLOCK_ARRAY | arrays.take(&words);
                self.arrays += 1;
                self.write(block, &[array; LEN]);
            }
            array => {
                if let Some(array) = array {
                    arrays.give_back(array);
                    self.arrays -= 1;
                }
                self.write(block, &words);
            }
        }
    }

    /// The words of a block without an array.
    fn read(&self, block: usize, words: &mut [u32; LEN]) {
        let starts = &self.memory.bytes()[SIZE * block..][..RANGES - 1];
        let ends = starts.iter().map(|&start| usize::from(start)).chain([LEN]);
        let mut begin = 0;
        for (end, &word) in ends.zip(&self.memory.half_words()[(SIZE * block + STARTS) / 4..]) {
            words[begin..end].fill(word);
            begin = end;
        }
    }

    /// Makes a block of words with few ranges.
    fn write(&mut self, block: usize, words: &[u32; LEN]) {
        let (mut starts, mut of_range) = ([0; STARTS], [0; RANGES]);
        let (mut at, mut range) = (RANGES - 1, RANGES);
        for third in (0..LEN).rev() {
            if third == LEN - 1 || words[third] != words[third + 1] {
                range -= 1;
                of_range[range] = words[third];
            }
            if third > 0 && words[third] != words[third - 1] {
                at -= 1;
                starts[at] = third as u8;
            }
        }
        self.memory.bytes_mut()[SIZE * block..][..STARTS].copy_from_slice(&starts);
        let from = (SIZE * block + STARTS) / 4;
        self.memory.half_words_mut()[from..from + RANGES].copy_from_slice(&of_range);
    }

    /// The memory that is real, in bytes.
    pub fn resident(&self) -> usize {
        self.memory.resident()
    }
}
