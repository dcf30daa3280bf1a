//! Longest-prefix match: an index from prefixes to slots, whose algorithm follows its content.
//!
//! A trie has all prefixes, and answers for every width of key. For 32-bit keys it stands behind one of two others:
//! up to 16 boundaries between answers are compared with the key at once ([`Ranges`]); more go into a directory
//! by the bytes of the key ([`Directory`]). Only if that has no space is the trie itself asked.

mod arrays;
mod blocks;
mod directory;
mod ranges;
#[cfg(test)]
mod tests;
mod trie;

use std::fmt;

use arrays::{ARRAY, MAX_GROUPS};
use directory::Directory;
pub use ranges::Ranges;
use ranges::STARTS;
use trie::Trie;

/// At most so many boundaries are left when ranges are chosen again, fewer than they can have: a table at the limit
/// does not change its algorithm at every edit.
const FEW: usize = STARTS / 2;

/// From so many prefixes on the directory is on huge pages: about as many pages of 4 KiB as a processor's second TLB
/// has entries. Smaller tables, of which there may be many, keep to the pages that they touch.
const HUGE_FROM: usize = 4096;

/// So few prefixes of more than 24 bits certainly have space in the directory again, with some to spare.
const LONG_AGAIN: usize = MAX_GROUPS as usize * 3 / 4;

/// Prefixes of keys of one width, each with a slot.
///
/// A key or prefix wider than that width loses its higher bits; a prefix loses bits beyond its length, and a length
/// beyond the width is the width.
pub(crate) struct Lpm {
    bits: u32,
    trie: Trie,
    /// Number of prefixes of more than 24 bits.
    long: usize,
    /// Whether the algorithm is not to be chosen now.
    held: bool,
    front: Front,
}

/// The structure that answers.
enum Front {
    Trie,
    Ranges(Box<Ranges>),
    Directory(Box<Directory>),
}

/// The part that compiled code reads. The pointers are good until the next change of the [`Lpm`] or its end; those that the
/// algorithm does not use are null.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LpmView {
    /// [`LpmView::CALL`], [`LpmView::RANGES`] or [`LpmView::DIRECTORY`].
    pub algorithm: u32,
    /// See [`Ranges`].
    pub ranges: *const Ranges,
    /// 2^16 blocks of 64 bytes. For a key `k`, its block is number `k >> 16`, and with `n` of the first 16 bytes of that at
    /// most `k >> 8 & 0xff`, the word `w` of the key is 4 (n - 1) bytes from the start of the block. If its two highest
    /// bits are set, `w = arrays[((w & 0x3fff_ffff) << 8) + (k >> 8 & 0xff)]`. If then its highest bit is set,
    /// `w = arrays[((w & 0x3fff_ffff) << 8) + (k & 0xff)]`. If that is 0, `w = fallback[k >> 24]`. If that is 0 too, there is
    /// no prefix; else the slot is `w - 1`.
    pub blocks: *const u8,
    /// 256 words for each array that a word names.
    pub arrays: *const u32,
    /// 256 entries, of prefixes of at most 8 bits.
    pub fallback: *const u32,
}

impl LpmView {
    /// Call [`Lpm::lookup`].
    pub const CALL: u32 = 0;
    /// Count starts in `ranges`.
    pub const RANGES: u32 = 1;
    /// Read `blocks`, `arrays` and `fallback`.
    pub const DIRECTORY: u32 = 2;
    /// Number of starts.
    pub const RANGE_COUNT: usize = STARTS;
    /// Nothing to read.
    pub(crate) const NONE: LpmView = LpmView {
        algorithm: LpmView::CALL,
        ranges: std::ptr::null(),
        blocks: std::ptr::null(),
        arrays: std::ptr::null(),
        fallback: std::ptr::null(),
    };
}

impl Lpm {
    /// No prefixes of keys of 1 to 128 bits.
    pub(crate) fn new(bits: u32) -> Lpm {
        debug_assert!((1..=128).contains(&bits));
        let front = if bits == 32 { Front::Ranges(Box::new(Ranges::EMPTY)) } else { Front::Trie };
        Lpm { bits, trie: Trie::new(), long: 0, held: false, front }
    }

    /// Brings near what lookups of these keys will read first.
    pub(crate) fn fetch(&self, keys: &[u64]) {
        if let Front::Directory(dir) = &self.front {
            dir.fetch(keys);
        }
    }

    /// Brings near what lookups of these keys will read then, and calls `row`, if rows are far, with the slots that
    /// they find. Where a lookup has more than one step, this waits for none but the first, and its slot is not reported.
    pub(crate) fn fetch_rows(&self, keys: &[u64], row: Option<impl Fn(u32)>) {
        match (&self.front, row) {
            (Front::Directory(dir), row) => dir.fetch_rows(keys, row.as_ref()),
            (Front::Trie | Front::Ranges(_), Some(row)) => {
                keys.iter().filter_map(|&key| self.lookup(key.into())).for_each(row);
            }
            (Front::Trie | Front::Ranges(_), None) => {}
        }
    }

    /// Adds a prefix. If it is there it gets the slot, and its old one is returned. Slots are less than 2^30 - 1.
    pub(crate) fn insert(&mut self, value: u128, len: u32, slot: u32) -> Option<u32> {
        debug_assert!(slot < ARRAY / 2 - 1);
        let (path, len) = self.path(value, len);
        let old = self.trie.insert(path, len, slot);
        if old == Some(slot) {
            return old;
        }
        if self.bits == 32 {
            let first = (path >> 96) as u32;
            self.long += usize::from(old.is_none() && len > 24);
            if let Front::Directory(dir) = &mut self.front {
                if old.is_some() {
                    dir.changed(&self.trie, first, len, slot);
                } else if dir.added(&self.trie, first, len, slot).is_err() {
                    self.front = Front::Trie;
                }
            }
            self.choose(false);
        }
        old
    }

    /// Many changes are to come: until [`settle`](Lpm::settle) the trie answers.
    pub(crate) fn hold(&mut self) {
        self.front = Front::Trie;
        self.held = true;
    }

    /// Chooses the algorithm again after [`hold`](Lpm::hold).
    pub(crate) fn settle(&mut self) {
        self.held = false;
        if self.bits == 32 {
            self.choose(true);
        }
    }

    /// Removes a prefix and returns its slot, if it is there.
    pub(crate) fn remove(&mut self, value: u128, len: u32) -> Option<u32> {
        let (path, len) = self.path(value, len);
        let slot = self.trie.remove(path, len)?;
        if self.bits == 32 {
            self.long -= usize::from(len > 24);
            if let Front::Directory(dir) = &mut self.front {
                dir.removed(&self.trie, (path >> 96) as u32, len);
            }
            self.choose(false);
        }
        Some(slot)
    }

    /// The slot of the longest prefix of a key.
    pub(crate) fn lookup(&self, key: u128) -> Option<u32> {
        match &self.front {
            Front::Trie => self.trie.lookup(key << (128 - self.bits)),
            Front::Ranges(ranges) => ranges.lookup(key as u32),
            Front::Directory(dir) => dir.lookup(key as u32),
        }
    }

    /// What a lookup costs in nanoseconds, about, once what it reads is in the caches.
    pub(crate) fn lookup_cost(&self) -> u32 {
        match &self.front {
            // A call, and a node for each six bits or so that distinguish prefixes.
            Front::Trie => 6 + 3 * (self.len() as u32 + 1).ilog2() / 2,
            Front::Ranges(_) | Front::Directory(_) => 3,
        }
    }

    /// Number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.trie.len()
    }

    /// Removes all prefixes.
    pub(crate) fn clear(&mut self) {
        *self = Lpm::new(self.bits);
    }

    /// What compiled code reads.
    pub(crate) fn view(&self) -> LpmView {
        let mut view = LpmView::NONE;
        match &self.front {
            Front::Trie => {}
            Front::Ranges(ranges) => {
                view.algorithm = LpmView::RANGES;
                view.ranges = &raw const **ranges;
            }
            Front::Directory(dir) => {
                view.algorithm = LpmView::DIRECTORY;
                view.blocks = dir.blocks().as_ptr();
                view.arrays = dir.arrays().as_ptr();
                view.fallback = dir.fallback().as_ptr();
            }
        }
        view
    }

    /// Memory in use, in bytes. Takes time in proportion to it.
    pub(crate) fn bytes(&self) -> usize {
        let front = match &self.front {
            Front::Trie => 0,
            Front::Ranges(_) => size_of::<Ranges>(),
            Front::Directory(dir) => dir.bytes(),
        };
        self.trie.bytes() + front
    }

    /// The prefix as the trie wants it: the first bit highest, no bits beyond its length.
    fn path(&self, value: u128, len: u32) -> (u128, u32) {
        let len = len.min(self.bits);
        let outside = u128::MAX.checked_shr(len).unwrap_or(0);
        (value << (128 - self.bits) & !outside, len)
    }

    /// Chooses the algorithm for 32-bit keys after a change, which the directory has followed. `try_all`: nothing is
    /// known of whether the directory has space.
    fn choose(&mut self, try_all: bool) {
        if self.held {
            return;
        }
        let max = if let Front::Ranges(_) = self.front { STARTS } else { FEW };
        if let Some(ranges) = Ranges::of(&self.trie, max) {
            match &mut self.front {
                Front::Ranges(old) => **old = ranges,
                front => *front = Front::Ranges(Box::new(ranges)),
            }
            return;
        }
        let huge = self.trie.len() >= HUGE_FROM;
        match &self.front {
            Front::Directory(dir) if dir.is_huge() || !huge => {}
            // If there is no memory for another directory, this goes on.
            Front::Directory(_) => {
                if let Some(dir) = Directory::of(&self.trie, huge) {
                    self.front = Front::Directory(dir);
                }
            }
            Front::Trie if self.long > LONG_AGAIN && !try_all => {}
            Front::Trie | Front::Ranges(_) => {
                self.front = Directory::of(&self.trie, huge).map_or(Front::Trie, Front::Directory);
            }
        }
    }
}

impl fmt::Debug for Lpm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = self.view().algorithm;
        f.debug_struct("Lpm")
            .field("bits", &self.bits)
            .field("len", &self.len())
            .field("algorithm", &algorithm)
            .finish_non_exhaustive()
    }
}
