//! The index of exact tables: open addressing with linear probing, from key bytes to a slot.

/// Hash of a packed key. The same for the same bytes on every machine: snapshots and flow placement rely on it.
pub(crate) fn hash(key: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut h = K ^ key.len() as u64;
    let mut mix = |w: u64| {
        let m = u128::from(h ^ w) * u128::from(K | 1);
        h = (m as u64) ^ (m >> 64) as u64 ^ w.rotate_left(32);
    };
    let (words, rest) = key.as_chunks::<8>();
    for w in words {
        mix(u64::from_le_bytes(*w));
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(u64::from_le_bytes(last));
    }
    let m = u128::from(h) * u128::from(0xd6e8_feb8_6659_fd93_u64);
    (m as u64) ^ (m >> 64) as u64
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    hash: u32,
    slot: u32,
}

const EMPTY: u32 = u32::MAX;

/// Maps hashes to slots; the table compares the keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    cells: Vec<Cell>,
    used: usize,
}

impl Index {
    /// The slot with this hash for which `equal` holds.
    pub(crate) fn find(&self, hash: u64, equal: impl Fn(u32) -> bool) -> Option<u32> {
        if self.cells.is_empty() {
            return None;
        }
        let mask = self.cells.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let cell = self.cells[at];
            if cell.slot == EMPTY {
                return None;
            }
            if cell.hash == (hash >> 32) as u32 && equal(cell.slot) {
                return Some(cell.slot);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a slot that is not there yet. `hash_of` gives the hash of a slot that is, for growing.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.used + 1) * 4 > self.cells.len() * 3 {
            let size = (self.cells.len() * 2).max(16);
            let old = std::mem::replace(&mut self.cells, vec![Cell { hash: 0, slot: EMPTY }; size]);
            for cell in old.into_iter().filter(|c| c.slot != EMPTY) {
                self.place(hash_of(cell.slot), cell.slot);
            }
        }
        self.place(hash, slot);
        self.used += 1;
    }

    /// Removes a slot that is there. Later cells of the same run move back, so no tombstones are needed.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        let mask = self.cells.len() - 1;
        let mut hole = hash as usize & mask;
        while self.cells[hole].slot != slot {
            hole = (hole + 1) & mask;
        }
        let mut next = (hole + 1) & mask;
        while self.cells[next].slot != EMPTY {
            let home = hash_of(self.cells[next].slot) as usize & mask;
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.cells[hole] = self.cells[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.cells[hole].slot = EMPTY;
        self.used -= 1;
    }

    pub(crate) fn clear(&mut self) {
        self.cells.clear();
        self.used = 0;
    }

    fn place(&mut self, hash: u64, slot: u32) {
        let mask = self.cells.len() - 1;
        let mut at = hash as usize & mask;
        while self.cells[at].slot != EMPTY {
            at = (at + 1) & mask;
        }
        self.cells[at] = Cell { hash: (hash >> 32) as u32, slot };
    }
}
