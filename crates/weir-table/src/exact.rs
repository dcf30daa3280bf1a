//! The index of exact tables: open addressing with linear probing, from the words of a key to a slot.
//!
//! It is at most half full, and a quarter while it is small. When it is to grow, the larger one takes over at once and
//! the cells of the smaller one move a few at a time, so that no insertion stalls traffic.

use crate::memory::{Region, fetch};

/// Mixed into every second word of a key, so that equal words do not cancel.
pub const HASH_ODD: u64 = 0xe703_7ed1_a0b4_28db;
/// The bit that every hash has, so that no cell of an entry looks empty.
pub const HASH_TOP: u64 = 1 << 63;
/// The seed of tables that were given none.
pub const DEFAULT_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of a key's words. Compiled code computes the same: two words at a time are each mixed with what is known so
/// far or a constant, multiplied to 128 bits, and the halves mixed.
pub fn hash(words: &[u64], seed: u64) -> u64 {
    let mut h = seed;
    for pair in words.chunks(2) {
        let (a, b) = (pair[0], pair.get(1).copied().unwrap_or(0));
        let m = u128::from(a ^ h) * u128::from(b ^ HASH_ODD);
        h = (m as u64) ^ (m >> 64) as u64;
    }
    h | HASH_TOP
}

/// A cell: the upper half of the hash, which is never 0, and the slot. 0 is an empty cell.
fn cell(hash: u64, slot: u32) -> u64 {
    hash & TAG | u64::from(slot)
}

/// The part of a cell that is the hash's.
const TAG: u64 = 0xffff_ffff_0000_0000;
/// A cell of the old index whose slot has moved to the new one, or was removed.
const GONE: u64 = 1;
/// Cells that an insertion moves.
const MOVED: usize = 16;
/// Cells of the smallest index: keys of few entries seldom meet in it.
const SMALLEST: usize = 64;
/// Cells of an index that is no longer small. Those of small ones stay in the caches; a key that is not in its first
/// cell costs more than the space.
const LARGE: usize = 1 << 15;

fn slot_of(cell: u64) -> u32 {
    cell as u32
}

#[derive(Debug)]
struct Cells {
    memory: Region,
    mask: usize,
}

impl Cells {
    fn new(size: usize) -> Cells {
        Cells { memory: Region::new(size * 8), mask: size - 1 }
    }

    fn cells(&self) -> &[u64] {
        self.memory.words()
    }

    fn cells_mut(&mut self) -> &mut [u64] {
        self.memory.words_mut()
    }

    fn find(&self, hash: u64, equal: impl Fn(u32) -> bool) -> Option<u32> {
        let cells = self.cells();
        let mut at = hash as usize & self.mask;
        loop {
            let cell = cells[at];
            if cell == 0 {
                return None;
            }
            if cell & TAG == hash & TAG && equal(slot_of(cell)) {
                return Some(slot_of(cell));
            }
            at = (at + 1) & self.mask;
        }
    }

    fn place(&mut self, hash: u64, slot: u32) {
        let mask = self.mask;
        let cells = self.cells_mut();
        let mut at = hash as usize & mask;
        while cells[at] != 0 {
            at = (at + 1) & mask;
        }
        cells[at] = cell(hash, slot);
    }

    /// The cell of a slot.
    fn position(&self, hash: u64, slot: u32) -> Option<usize> {
        let cells = self.cells();
        let mut at = hash as usize & self.mask;
        while cells[at] != 0 {
            if cells[at] == cell(hash, slot) {
                return Some(at);
            }
            at = (at + 1) & self.mask;
        }
        None
    }
}

/// Maps hashes to slots; the table compares the keys.
#[derive(Debug)]
pub(crate) struct Index {
    cells: Cells,
    used: usize,
    /// The index before it grew, and the first of its cells that has not moved.
    old: Option<(Cells, usize)>,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index { cells: Cells::new(SMALLEST), used: 0, old: None }
    }

    /// Address of the cells and the mask for positions.
    pub(crate) fn view(&self) -> (*const u64, u64) {
        (self.cells.memory.as_ptr().cast_const().cast(), self.cells.mask as u64)
    }

    /// Whether cells of the index before it grew have yet to move.
    pub(crate) fn grows(&self) -> bool {
        self.old.is_some()
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.cells.memory.len() + self.old.as_ref().map_or(0, |(old, _)| old.memory.len())
    }

    /// Brings the first cell for a hash near.
    pub(crate) fn fetch(&self, hash: u64) {
        fetch(self.cells.cells().as_ptr().wrapping_add(hash as usize & self.cells.mask).cast());
    }

    /// The slot that most likely has this hash, of those of its first two cells: without a jump that depends on them, so
    /// that no lookup waits for the cells of another.
    pub(crate) fn likely(&self, hash: u64) -> u32 {
        let (cells, mask) = (self.cells.cells(), self.cells.mask);
        let [first, second] = [0, 1].map(|i| cells[(hash as usize).wrapping_add(i) & mask]);
        slot_of(std::hint::select_unpredictable(first & TAG == hash & TAG, first, second))
    }

    /// The slot with this hash for which `equal` holds.
    pub(crate) fn find(&self, hash: u64, equal: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.cells.find(hash, &equal);
        if found.is_some() || self.old.is_none() {
            return found;
        }
        self.old.as_ref().and_then(|(old, _)| old.find(hash, equal))
    }

    /// Adds a slot that is not there yet. `hash_of` gives the hash of a slot that is.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        self.advance(MOVED, &hash_of);
        let size = self.cells.mask + 1;
        let space = if size < LARGE { 4 } else { 2 };
        if (self.used + 1) * space > size {
            // An index doubles only after as many insertions as move all cells of the older one.
            self.advance(usize::MAX, &hash_of);
            let larger = Cells::new(size * 2);
            self.old = Some((std::mem::replace(&mut self.cells, larger), 0));
        }
        self.cells.place(hash, slot);
        self.used += 1;
    }

    /// Moves up to `count` cells of the old index.
    fn advance(&mut self, count: usize, hash_of: impl Fn(u32) -> u64) {
        let Some((old, next)) = &mut self.old else { return };
        let end = old.mask + 1;
        let until = next.saturating_add(count).min(end);
        let new = &mut self.cells;
        for at in *next..until {
            let cell = &mut old.cells_mut()[at];
            // An empty cell stays: it ends a search.
            if *cell != 0 && *cell != GONE {
                let slot = slot_of(std::mem::replace(cell, GONE));
                new.place(hash_of(slot), slot);
            }
        }
        *next = until;
        if until == end {
            self.old = None;
        }
    }

    /// Removes a slot that is there. Later cells of the same run move back, so no tombstones are needed.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        self.used -= 1;
        let Some(mut hole) = self.cells.position(hash, slot) else {
            if let Some((old, _)) = &mut self.old
                && let Some(at) = old.position(hash, slot)
            {
                old.cells_mut()[at] = GONE;
            }
            return;
        };
        let mask = self.cells.mask;
        let cells = self.cells.cells_mut();
        let mut next = (hole + 1) & mask;
        while cells[next] != 0 {
            let home = hash_of(slot_of(cells[next])) as usize & mask;
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                cells[hole] = cells[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        cells[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likely_slot_is_nearly_always_the_one() {
        let hash_of = |slot: u32| hash(&[slot.into()], DEFAULT_SEED);
        let mut index = Index::new();
        let all = 0..100_000;
        all.clone().for_each(|slot| index.insert(hash_of(slot), slot, hash_of));
        let likely = all.clone().filter(|&slot| index.likely(hash_of(slot)) == slot).count();
        assert!(likely * 100 > 92 * all.len(), "{likely} of {}", all.len());
        // Of a key that is not there it is any slot, or none that was taken.
        assert!((all.end..2 * all.end).all(|absent| index.likely(hash_of(absent)) < all.end));
    }
}
