//! Many prefixes of 32-bit keys: DIR-24-8 (Gupta, Lin, McKeown 1998), one read for a key that no prefix of more than
//! 24 bits is near, two for others.
//!
//! The arrays have the prefixes of 9 to 32 bits. Those of at most 8 bits, each of which would be written 65,536 times
//! or more, stand in a third array of 256, read where the others have nothing.

use super::ranges::last;
use super::trie::Trie;
use crate::memory::{Pages, Region};

/// Marks an entry of the first level that is the number of a group in the second.
pub const GROUP: u32 = 1 << 31;

/// Most groups of 256 entries in the second level: 64 MiB, as much as the first. They are mapped at once, and real
/// when used.
pub const MAX_GROUPS: u32 = 1 << 16;

/// Prefixes of at most this many bits stand in the fallback.
const SHORT: u32 = 8;

/// Prefixes of more bits stand in the second level.
const TOP: u32 = 24;

const GROUP_LEN: usize = 256;

/// What the arrays say of a key: 0 is nothing, others are the slot plus one.
pub fn entry(slot: Option<u32>) -> u32 {
    slot.map_or(0, |slot| slot + 1)
}

/// More groups are needed than there are. The arrays miss a prefix and are of no more use.
#[derive(Debug)]
pub struct Full;

/// The arrays. What they say follows from the trie that is given to every change.
pub struct Dir24 {
    top: Region,
    low: Region,
    fallback: [u32; 256],
    /// For each group that was ever used: how many prefixes of more than 24 bits it has.
    members: Vec<u16>,
    free: Vec<u32>,
    huge: bool,
}

impl Dir24 {
    /// The arrays of a trie of 32-bit keys, on huge pages if `huge`. `None` if there is no memory, or if it needs too
    /// many groups.
    pub fn of(trie: &Trie, huge: bool) -> Option<Box<Dir24>> {
        let pages = if huge { Pages::Huge } else { Pages::Small };
        let mut dir = Box::new(Dir24 {
            top: Region::reserve(size_of::<u32>() << TOP, pages).ok()?,
            low: Region::reserve(size_of::<u32>() * MAX_GROUPS as usize * GROUP_LEN, pages).ok()?,
            fallback: [0; 256],
            members: Vec::new(),
            free: Vec::new(),
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

    /// The first level: 2^24 entries, by the first 24 bits of the key.
    pub fn top(&self) -> &[u32] {
        self.top.half_words()
    }

    /// The second level: 256 entries a group, by the last 8 bits of the key.
    pub fn low(&self) -> &[u32] {
        self.low.half_words()
    }

    /// What holds where the levels say 0: 256 entries, by the first 8 bits of the key.
    pub fn fallback(&self) -> &[u32; 256] {
        &self.fallback
    }

    /// The slot of a key.
    pub fn lookup(&self, key: u32) -> Option<u32> {
        let mut entry = self.top()[(key >> 8) as usize];
        if entry & GROUP != 0 {
            entry = self.low()[place(entry, key)];
        }
        if entry == 0 {
            entry = self.fallback[(key >> 24) as usize];
        }
        entry.checked_sub(1)
    }

    /// Brings what a lookup reads first near.
    pub fn fetch(&self, key: u32) {
        self.top.fetch(size_of::<u32>() * (key >> 8) as usize);
    }

    /// The slot of a key, if the first level has it. If the second level has it, that is brought near: who waited for it
    /// would do so once for each batch, and most keys are not there.
    pub fn near(&self, key: u32) -> Option<u32> {
        let entry = self.top()[(key >> 8) as usize];
        if entry & GROUP != 0 {
            self.low.fetch(size_of::<u32>() * place(entry, key));
            return None;
        }
        let entry = if entry == 0 { self.fallback[(key >> 24) as usize] } else { entry };
        entry.checked_sub(1)
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
        size_of::<Dir24>()
            + self.top.resident()
            + self.low.resident()
            + 2 * self.members.capacity()
            + 4 * self.free.capacity()
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
        if begin + 1 == end && self.top()[begin as usize] & GROUP != 0 {
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
        self.top.half_words_mut()[begin as usize..end as usize].fill(entry);
    }

    /// Writes the keys `from..=to` of one group.
    fn fill_group(&mut self, from: u32, to: u32, entry: u32) {
        let top = self.top()[(from >> 8) as usize];
        debug_assert!(top & GROUP != 0, "part of a 256 is written, and it has no group");
        self.low.half_words_mut()[place(top, from)..=place(top, to)].fill(entry);
    }

    /// Counts a prefix of more than 24 bits in its group, which is made if it is the first.
    fn join(&mut self, first: u32) -> Result<(), Full> {
        let at = (first >> 8) as usize;
        let old = self.top()[at];
        if old & GROUP != 0 {
            self.members[(old & !GROUP) as usize] += 1;
            return Ok(());
        }
        let group = match self.free.pop() {
            Some(group) => group,
            None if self.members.len() < MAX_GROUPS as usize => {
                self.members.push(0);
                self.members.len() as u32 - 1
            }
            None => return Err(Full),
        };
        self.members[group as usize] = 1;
        let start = group as usize * GROUP_LEN;
        self.low.half_words_mut()[start..start + GROUP_LEN].fill(old);
        self.top.half_words_mut()[at] = GROUP | group;
        Ok(())
    }

    /// Takes a prefix of more than 24 bits from its group. After the last one all 256 entries are the same, and go
    /// back to the first level.
    fn leave(&mut self, first: u32) {
        let at = (first >> 8) as usize;
        let top = self.top()[at];
        let group = top & !GROUP;
        let members = &mut self.members[group as usize];
        *members -= 1;
        if *members == 0 {
            self.top.half_words_mut()[at] = self.low()[place(top, 0)];
            self.free.push(group);
        }
    }
}

/// Where a key stands in the second level, of which the first says `top`.
fn place(top: u32, key: u32) -> usize {
    (((top & !GROUP) << 8) + (key & 0xff)) as usize
}
