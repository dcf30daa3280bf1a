//! Many prefixes of 32-bit keys, by the bytes of the key: a block for the first two, in which one comparison finds what the
//! third one says; and an array for the fourth, where there are prefixes of more than 24 bits.
//!
//! Blocks and arrays have the prefixes of 9 to 32 bits. Those of at most 8 bits, each of which would be written to 256 blocks
//! or more, stand in an array of 256 of their own, read where the others have nothing.

use super::arrays::{ARRAY, Arrays, LEN, MAX_GROUPS, is_array_of_block};
use super::blocks::Blocks;
use super::ranges::last;
use super::trie::Trie;
use crate::memory::Pages;

/// Prefixes of at most this many bits stand in the fallback.
const SHORT: u32 = 8;

/// Prefixes of more bits stand in groups.
const TOP: u32 = 24;

/// From so many blocks with arrays on (8 MiB of them) it pays to look which keys need one: most lookups are of those then.
const MANY_ARRAYS: u32 = 8192;

/// What the index says of a key: 0 is nothing, others are the slot plus one.
pub fn entry(slot: Option<u32>) -> u32 {
    slot.map_or(0, |slot| slot + 1)
}

/// More groups are needed than there are. The index misses a prefix and is of no more use.
#[derive(Debug)]
pub struct Full;

/// The index. What it says follows from the trie that is given to every change.
pub struct Directory {
    blocks: Blocks,
    arrays: Arrays,
    fallback: [u32; 256],
    /// For each array that was ever a group: how many prefixes of more than 24 bits it has.
    members: Vec<u16>,
    groups: u32,
    huge: bool,
}

impl Directory {
    /// The index of a trie of 32-bit keys, on huge pages if `huge`. `None` if there is no memory, or if it needs too
    /// many groups.
    pub fn of(trie: &Trie, huge: bool) -> Option<Box<Directory>> {
        let pages = if huge { Pages::Huge } else { Pages::Small };
        let mut dir = Box::new(Directory {
            blocks: Blocks::new(pages)?,
            arrays: Arrays::new(pages)?,
            fallback: [0; 256],
            members: Vec::new(),
            groups: 0,
            huge,
        });
        let mut full = false;
        // Shorter prefixes come first: the longer ones are then written over them.
        trie.within(0, 0, &mut |path, len, slot| {
            let first = (path >> 96) as u32;
            if len > TOP {
                full = full || dir.join(first).is_err();
            }
            if len > SHORT && !full {
                dir.fill(first, last(first, len), entry(Some(slot)));
            }
            !full
        });
        dir.refresh_fallback(trie, 0, 0);
        (!full).then_some(dir)
    }

    /// Whether huge pages were asked for.
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// What is read first.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// What is read where a word of a block, or of an array, names an array.
    pub fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    /// What holds where the others say 0: 256 entries, by the first 8 bits of the key.
    pub fn fallback(&self) -> &[u32; 256] {
        &self.fallback
    }

    /// The slot of a key.
    pub fn lookup(&self, key: u32) -> Option<u32> {
        let mut word = self.blocks.word(&self.arrays, key >> 8);
        if word & ARRAY != 0 {
            word = self.arrays.of(word)[(key & 0xff) as usize];
        }
        self.or_fallback(word, key)
    }

    fn or_fallback(&self, word: u32, key: u32) -> Option<u32> {
        let word = if word == 0 { self.fallback[(key >> 24) as usize] } else { word };
        word.checked_sub(1)
    }

    /// Brings the blocks of these keys near.
    pub fn fetch(&self, keys: &[u64]) {
        keys.iter().for_each(|&key| self.blocks.fetch(key as u32));
    }

    /// Brings near what lookups of these keys will read after the block, and calls `row`, if rows are far, with the
    /// slots that they find. Where a lookup has more than one step, this waits for none but the first, and its slot is
    /// not reported.
    pub fn fetch_rows(&self, keys: &[u64], row: Option<&impl Fn(u32)>) {
        if row.is_none() && self.blocks.arrays() < MANY_ARRAYS {
            return;
        }
        for key in keys.iter().map(|&key| key as u32) {
            let word = self.blocks.of_key(key);
            if word & ARRAY != 0 {
                let byte = if is_array_of_block(word) { key >> 8 } else { key };
                self.arrays.fetch(word, byte as u8);
            } else if let (Some(row), Some(slot)) = (row, self.or_fallback(word, key)) {
                row(slot);
            }
        }
    }

    /// Follows the trie, to which a prefix was added.
    pub fn added(&mut self, trie: &Trie, first: u32, len: u32, slot: u32) -> Result<(), Full> {
        if len > TOP {
            self.join(first)?;
        }
        self.write(trie, first, len, entry(Some(slot)));
        Ok(())
    }

    /// Follows the trie, in which a prefix has another slot.
    pub fn changed(&mut self, trie: &Trie, first: u32, len: u32, slot: u32) {
        self.write(trie, first, len, entry(Some(slot)));
    }

    /// Follows the trie, from which a prefix was removed.
    pub fn removed(&mut self, trie: &Trie, first: u32, len: u32) {
        let covering = trie.longest(u128::from(first) << 96, len).filter(|found| found.len > SHORT);
        self.write(trie, first, len, entry(covering.map(|found| found.slot)));
        if len > TOP {
            self.leave(first);
        }
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        size_of::<Directory>() + self.blocks.resident() + self.arrays.bytes() + 2 * self.members.capacity()
    }

    /// Writes the keys of a prefix, but for those of longer prefixes.
    fn write(&mut self, trie: &Trie, first: u32, len: u32, entry: u32) {
        if len <= SHORT {
            return self.refresh_fallback(trie, first, len);
        }
        let path = u128::from(first) << 96;
        // The first key that may still have to be written; beyond `u32` after the last.
        let mut next = u64::from(first);
        trie.within(path, len, &mut |inner, inner_len, _| {
            if inner_len == len {
                return true;
            }
            let inner = (inner >> 96) as u32;
            if u64::from(inner) > next {
                self.fill(next as u32, inner - 1, entry);
            }
            next = u64::from(last(inner, inner_len)) + 1;
            false
        });
        let end = last(first, len);
        if next <= u64::from(end) {
            self.fill(next as u32, end, entry);
        }
    }

    fn refresh_fallback(&mut self, trie: &Trie, first: u32, len: u32) {
        for byte in first >> 24..=last(first, len) >> 24 {
            let short = trie.longest(u128::from(byte) << 120, SHORT);
            self.fallback[byte as usize] = entry(short.map(|found| found.slot));
        }
    }

    /// Writes the keys `from..=to`. Where they are all of a 256, this has no group: a group has prefixes of more than
    /// 24 bits, which are passed over, or the only one was just removed, and that has fewer keys.
    fn fill(&mut self, from: u32, to: u32, entry: u32) {
        let (mut begin, mut end) = (from >> 8, (to >> 8) + 1);
        if begin + 1 == end && self.blocks.word(&self.arrays, begin) & ARRAY != 0 {
            return self.fill_group(from, to, entry);
        }
        if from & 0xff != 0 {
            self.fill_group(from, from | 0xff, entry);
            begin += 1;
        }
        if to & 0xff != 0xff {
            self.fill_group(to & !0xff, to, entry);
            end -= 1;
        }
        if begin < end {
            self.blocks.fill(&mut self.arrays, begin, end - 1, entry);
        }
    }

    /// Writes the keys `from..=to` of one group.
    fn fill_group(&mut self, from: u32, to: u32, entry: u32) {
        let word = self.blocks.word(&self.arrays, from >> 8);
        debug_assert!(word & ARRAY != 0, "part of a 256 is written, and it has no group");
        self.arrays.of_mut(word)[(from & 0xff) as usize..=(to & 0xff) as usize].fill(entry);
    }

    /// Counts a prefix of more than 24 bits in its group, which is made if it is the first.
    fn join(&mut self, first: u32) -> Result<(), Full> {
        let top = first >> 8;
        let old = self.blocks.word(&self.arrays, top);
        if old & ARRAY != 0 {
            self.members[(old & !ARRAY) as usize] += 1;
            return Ok(());
        }
        if self.groups == MAX_GROUPS {
            return Err(Full);
        }
        self.groups += 1;
        let word = self.arrays.take(&[old; LEN]);
        let group = (word & !ARRAY) as usize;
        self.members.resize(self.members.len().max(group + 1), 0);
        self.members[group] = 1;
        self.blocks.fill(&mut self.arrays, top, top, word);
        Ok(())
    }

    /// Takes a prefix of more than 24 bits from its group. After the last one all 256 entries are the same, and go
    /// back to the block.
    fn leave(&mut self, first: u32) {
        let top = first >> 8;
        let word = self.blocks.word(&self.arrays, top);
        let members = &mut self.members[(word & !ARRAY) as usize];
        *members -= 1;
        if *members == 0 {
            self.groups -= 1;
            let entry = self.arrays.of(word)[0];
            self.arrays.give_back(word);
            self.blocks.fill(&mut self.arrays, top, top, entry);
        }
    }
}
