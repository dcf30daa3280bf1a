//! Arrays of 256 words: for the blocks that have many ranges, by the third byte of a key, and for *groups*, the keys that
//! share their first 24 bits with a longer prefix, by the fourth.

use crate::memory::{Pages, Region};

/// Marks a word that is the number of an array.
pub const ARRAY: u32 = 1 << 31;
/// Marks a word of a block that is the number of the block's array.
pub const BLOCK_ARRAY: u32 = ARRAY | 1 << 30;
/// Words of an array.
pub const LEN: usize = 256;

/// Most groups.
pub const MAX_GROUPS: u32 = 1 << 16;
/// Most arrays, 128 MiB: the groups, and one for each block. They are mapped at once, and real when used.
pub const MAX_ARRAYS: u32 = MAX_GROUPS + (1 << 16);

/// Whether a word of a block is its array.
pub fn is_array_of_block(word: u32) -> bool {
    word & BLOCK_ARRAY == BLOCK_ARRAY
}

/// The arrays.
pub struct Arrays {
    memory: Region,
    /// Arrays that were ever used.
    used: u32,
    free: Vec<u32>,
}

impl Arrays {
    /// None. `None` if there is no memory.
    pub fn new(pages: Pages) -> Option<Arrays> {
        let size = size_of::<u32>() * LEN * MAX_ARRAYS as usize;
        Some(Arrays { memory: Region::reserve(size, pages).ok()?, used: 0, free: Vec::new() })
    }

    /// The arrays, as compiled code reads them.
    pub fn as_ptr(&self) -> *const u32 {
        self.memory.half_words().as_ptr()
    }

    /// The array that a word names.
    pub fn of(&self, word: u32) -> &[u32] {
        &self.memory.half_words()[start(word)..][..LEN]
    }

    /// The same, to write.
    pub fn of_mut(&mut self, word: u32) -> &mut [u32] {
        &mut self.memory.half_words_mut()[start(word)..][..LEN]
    }

    /// Brings a word of an array near.
    #[inline]
    pub fn fetch(&self, word: u32, byte: u8) {
        self.memory.fetch(size_of::<u32>() * (start(word) + usize::from(byte)));
    }

    /// A new array of these words: its number, with [`ARRAY`].
    pub fn take(&mut self, words: &[u32]) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        let word = ARRAY | number;
        self.of_mut(word).copy_from_slice(words);
        word
    }

    /// Ends the array that a word names.
    pub fn give_back(&mut self, word: u32) {
        self.free.push(word & !BLOCK_ARRAY);
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.resident() + size_of::<u32>() * self.free.capacity()
    }
}

/// The first word of the array that a word names.
fn start(word: u32) -> usize {
    LEN * (word & !BLOCK_ARRAY) as usize
}
