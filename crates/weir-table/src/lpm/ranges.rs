//! Few prefixes of 32-bit keys: the ranges of keys with the same answer, in one comparison each.

use super::trie::Trie;

/// Starts of ranges, other than the first range's (which is 0).
pub const STARTS: usize = 16;

/// More prefixes than this are not worth a try.
const MAX_PREFIXES: usize = 4 * STARTS;

/// Marks a range without a prefix in [`Ranges::slots`].
pub const NO_SLOT: u32 = u32::MAX;

/// The slot of a key is `slots[n]`, where `n` is how many of all 16 `starts` are at most the key.
///
/// Unused starts are `u32::MAX`, and the slots after them that of the last range: so the key `u32::MAX`, which counts
/// them, finds the same.
#[repr(C, align(64))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges {
    /// Where ranges begin, ascending.
    pub starts: [u32; STARTS],
    /// The slot in each range; [`NO_SLOT`] is none.
    pub slots: [u32; STARTS + 1],
}

impl Ranges {
    /// The answer to every key is none.
    pub const EMPTY: Ranges = Ranges { starts: [u32::MAX; STARTS], slots: [NO_SLOT; STARTS + 1] };

    /// The ranges of a trie of 32-bit keys. `None` if they have more than `max` starts.
    pub fn of(trie: &Trie, max: usize) -> Option<Ranges> {
        if trie.len() > MAX_PREFIXES {
            return None;
        }
        let mut edges = Vec::with_capacity(2 * trie.len());
        trie.within(0, 0, &mut |path, len, _| {
            let first = (path >> 96) as u32;
            edges.push(first);
            edges.extend(last(first, len).checked_add(1));
            true
        });
        edges.sort_unstable();
        edges.dedup();

        let slot_at = |key: u32| trie.lookup(u128::from(key) << 96).unwrap_or(NO_SLOT);
        let mut ranges = Ranges::EMPTY;
        let mut slot = slot_at(0);
        let mut count = 0;
        ranges.slots.fill(slot);
        for start in edges {
            let next = slot_at(start);
            if next == slot {
                continue;
            }
            slot = next;
            if count == max.min(STARTS) {
                return None;
            }
            ranges.starts[count] = start;
            count += 1;
            ranges.slots[count..].fill(slot);
        }
        Some(ranges)
    }

    /// The slot of a key.
    pub fn lookup(&self, key: u32) -> Option<u32> {
        let count: usize = self.starts.iter().map(|&start| usize::from(start <= key)).sum();
        Some(self.slots[count]).filter(|&slot| slot != NO_SLOT)
    }
}

/// The last key of the prefix of `len` bits whose first key is `first`.
pub fn last(first: u32, len: u32) -> u32 {
    first | u32::MAX.checked_shr(len).unwrap_or(0)
}
