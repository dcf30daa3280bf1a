//! One table: rows in a flat array, found by an index that suits its kind.

mod answers;
mod edit;
mod rounds;
mod time;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use weir_packet::Packet;

use crate::decl::{DeclError, Kind, TableDecl};
use crate::exact::hash;
use crate::finder::Finder;
use crate::layout::{Layout, NEVER, NO_ENTRY, NO_LINK, link_word, network_order};
use crate::memory::{Pages, Region};
use crate::set::EntryRef;
use crate::view::View;
use crate::wheel::Wheel;

pub use edit::EditError;
pub use rounds::{Changes, Frozen};

/// Rows of so many bytes stay in the caches.
const SMALL_TABLE: usize = 256 << 10;
/// Rows of so many bytes stay in the first cache.
const NEAR: usize = 8 << 10;
/// The number of the next table.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Most words of a key: 16 fields of 16 bytes.
const MAX_WORDS: usize = 32;

/// A table.
#[derive(Debug)]
pub struct Table {
    pub(crate) view: View,
    decl: TableDecl,
    layout: Layout,
    rows: Region,
    /// Slots that have ever been used.
    used: u32,
    free: Vec<u32>,
    finder: Finder,
    groups: HashMap<u128, u32>,
    held: HashMap<u32, VecDeque<Packet>>,
    wheel: Wheel,
    id: u64,
    epoch: u64,
}

impl Table {
    /// An empty table (an array: of zeros).
    pub fn new(decl: TableDecl) -> Result<Table, DeclError> {
        decl.check()?;
        let layout = Layout::of(&decl);
        let rows = Region::reserve(layout.stride * most_slots(&decl), Pages::HugeFromSecond)
            .map_err(|e| DeclError { table: decl.name.clone(), what: e.to_string() })?;
        let finder = Finder::new(&decl);
        let mut table = Table {
            view: View::new(rows.as_ptr()),
            decl,
            layout,
            rows,
            used: 0,
            free: Vec::new(),
            finder,
            groups: HashMap::new(),
            held: HashMap::new(),
            wheel: Wheel::new(),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            epoch: 0,
        };
        table.fill();
        table.view.update(&table.finder);
        Ok(table)
    }

    /// The declaration.
    pub fn decl(&self) -> &TableDecl {
        &self.decl
    }

    /// Number of entries.
    pub fn len(&self) -> u32 {
        self.view.live
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Changes whenever an entry comes or goes, or the control side changes one. As long as it is the same, so is the
    /// slot that each key finds.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Distinguishes it from every other table of the process, also from those that were.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What a lookup costs in nanoseconds, about, as the content stands. It takes some microseconds to find out.
    pub fn lookup_cost(&self) -> u32 {
        self.finder.lookup_cost()
    }

    /// Memory that the entries take, in bytes: rows that have been used, and the index.
    pub fn bytes(&self) -> usize {
        self.used as usize * self.layout.stride + self.finder.bytes()
    }

    // --- what programs do -------------------------------------------------------------------------------------

    /// The slot that `key` (one value a key field) finds. In a table by prefix that is not an entry, but its *answer*, a
    /// row to read that entries with the same values share.
    pub fn lookup(&self, key: &[u128]) -> Option<u32> {
        match &self.finder {
            Finder::Exact(_) => {
                let mut words = [0; MAX_WORDS];
                let words = self.pack(key, &mut words);
                self.find_words(words)
            }
            Finder::Lpm { index, .. } => index.lookup(key[0]),
            Finder::Rules(rules) => rules.lookup(key),
            Finder::Array => (key[0] < u128::from(self.decl.capacity)).then_some(key[0] as u32),
        }
    }

    /// The slot of an exact table whose key is these words ([`Layout::key`]).
    pub fn find_words(&self, words: &[u64]) -> Option<u32> {
        self.find_hashed(words, hash(words, self.view.seed))
    }

    /// The same, of words with this [`hash`].
    fn find_hashed(&self, words: &[u64], hash: u64) -> Option<u32> {
        let Finder::Exact(index) = &self.finder else { return None };
        index.find(hash, |slot| self.key_words(slot) == words)
    }

    /// Whether lookups are likely to miss the processor's caches, so that it pays to [`fetch`](Table::fetch).
    pub fn is_large(&self) -> bool {
        match &self.finder {
            Finder::Exact(_) => self.len() as usize * self.layout.stride > SMALL_TABLE,
            Finder::Lpm { rows, .. } => rows.len() > SMALL_TABLE / 64,
            Finder::Rules(_) | Finder::Array => false,
        }
    }

    /// Brings near what lookups will read first: for each the [`hash`] of the key, or of a table by prefix the value.
    /// What comes after it is for [`fetch_rows`](Table::fetch_rows), which is best called when other things have been
    /// done, as this takes a while to arrive.
    pub fn fetch(&self, keys: &[u64]) {
        match &self.finder {
            Finder::Exact(index) => keys.iter().for_each(|&hash| index.fetch(hash)),
            Finder::Lpm { index, .. } => index.fetch(keys),
            Finder::Rules(_) | Finder::Array => {}
        }
    }

    /// Brings near what lookups of these keys will read then.
    pub fn fetch_rows(&self, keys: &[u64]) {
        let row = |slot: u32| self.rows.fetch(slot as usize * self.layout.stride);
        match &self.finder {
            Finder::Exact(index) => keys.iter().for_each(|&hash| row(index.likely(hash))),
            Finder::Lpm { index, rows } => {
                let far = rows.answers() * self.layout.stride > NEAR;
                index.fetch_rows(keys, far.then_some(row));
            }
            Finder::Rules(_) | Finder::Array => {}
        }
    }

    /// The slot of the first rule that matches a key of these words: the fields in their order, without gaps, the first
    /// in the lowest bytes.
    pub fn find_rule(&self, words: &[u64]) -> Option<u32> {
        let Finder::Rules(rules) = &self.finder else { return None };
        Some(rules.lookup_packed(words)).filter(|&slot| slot != u32::MAX)
    }

    /// The entry of an exact table with this key: found, or made with zero values. `None` if the table is full.
    pub fn insert(&mut self, key: &[u128]) -> Option<u32> {
        debug_assert_eq!(self.decl.kind, Kind::Exact);
        let mut words = [0; MAX_WORDS];
        let words = self.pack(key, &mut words);
        let hashed = hash(words, self.view.seed);
        if let Some(slot) = self.find_hashed(words, hashed) {
            return Some(slot);
        }
        let slot = self.take_slot()?;
        let at = slot as usize * self.layout.stride / 8;
        self.rows.words_mut()[at..at + words.len()].copy_from_slice(words);
        let rows = Keys { rows: &self.rows, layout: &self.layout, seed: self.view.seed };
        if let Finder::Exact(index) = &mut self.finder {
            index.insert(hashed, slot, |s| rows.hash(s));
        }
        self.view.update(&self.finder);
        Some(slot)
    }

    /// Claims a free key: the first value of key field `hole` from `start` on, within `lo..=hi` and wrapping,
    /// whose key is not in the table. `None` if all are taken or the table is full.
    pub fn claim(
        &mut self,
        key: &mut [u128],
        hole: usize,
        lo: u128,
        hi: u128,
        start: u128,
    ) -> Option<(u32, u128)> {
        if lo > hi || self.len() >= self.decl.capacity {
            return None;
        }
        let span = (hi - lo).saturating_add(1);
        let first = lo + start % span;
        let tries = span.min(u128::from(self.len()) + 1);
        let mut candidate = first;
        for _ in 0..tries {
            key[hole] = candidate;
            if self.lookup(key).is_none() {
                return self.insert(key).map(|slot| (slot, candidate));
            }
            candidate = if candidate == hi { lo } else { candidate + 1 };
        }
        None
    }

    /// The slots of up to `most` entries, which are all if the table never had more; else spread over the whole table, since
    /// neighbours are often of one age. Others come after each change of the [`epoch`](Table::epoch).
    pub(crate) fn window(&self, most: u32) -> impl Iterator<Item = u32> {
        let start = match self.used {
            used if used <= most => 0,
            used => (self.epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 % used,
        };
        let (used, step) = (u64::from(self.used), u64::from(self.used / most.max(1)).max(1));
        let slots =
            (0..u64::from(most.min(self.used))).map(move |i| ((u64::from(start) + i * step) % used) as u32);
        slots.filter(|&slot| self.is_live(slot))
    }

    /// A value field of an entry.
    pub fn get(&self, slot: u32, field: u32) -> u128 {
        let size = self.decl.value[field as usize].width.bytes() as usize;
        let at = slot as usize * self.layout.stride + self.layout.value[field as usize];
        let mut full = [0; 16];
        full[..size].copy_from_slice(&self.rows.bytes()[at..at + size]);
        self.ordered(field, u128::from_ne_bytes(full))
    }

    /// Changes a value field of an entry (nothing if it was removed); bits beyond the field's width are lost.
    pub fn set(&mut self, slot: u32, field: u32, v: u128) {
        if !self.is_live(slot) {
            return;
        }
        self.write(slot, field, v);
        if self.decl.kind == Kind::Lpm {
            self.answer(slot);
            self.view.update(&self.finder);
            self.epoch += 1;
        }
    }

    /// Writes a value field of an entry that is there.
    fn write(&mut self, slot: u32, field: u32, v: u128) {
        let width = self.decl.value[field as usize].width;
        let v = v & width.max();
        if self.decl.group == Some(field) {
            let old = self.get(slot, field);
            self.count_group(old, false);
            self.count_group(v, true);
        }
        let at = slot as usize * self.layout.stride + self.layout.value[field as usize];
        let size = width.bytes() as usize;
        let v = self.ordered(field, v);
        self.rows.bytes_mut()[at..at + size].copy_from_slice(&v.to_ne_bytes()[..size]);
    }

    /// A value from or for a row, in the field's byte order or the machine's.
    fn ordered(&self, field: u32, v: u128) -> u128 {
        let field = field as usize;
        if self.layout.network[field] { network_order(self.decl.value[field].width, v) } else { v }
    }

    /// A key field of an entry of an exact table; 0 for other kinds.
    pub fn key(&self, slot: u32, field: u32) -> u128 {
        match self.decl.kind {
            Kind::Exact => {
                let at = self.layout.key[field as usize];
                let words = self.key_words(slot);
                let low = u128::from(words[at.word] >> at.shift);
                let high = words.get(at.word + 1).map_or(0, |&w| u128::from(w) << 64);
                network_order(at.width, (low | high) & at.width.max())
            }
            Kind::Array => slot.into(),
            Kind::Lpm | Kind::Rules => 0,
        }
    }

    /// Number of entries with this value in the group field.
    pub fn group_count(&self, value: u128) -> u32 {
        self.groups.get(&value).copied().unwrap_or(0)
    }

    /// Keeps a packet with an entry. Gives it back if the entry holds as many as it may.
    pub fn hold(&mut self, slot: u32, packet: Packet) -> Result<(), Packet> {
        if !self.is_live(slot) || self.decl.held == 0 {
            return Err(packet);
        }
        let queue = self.held.entry(slot).or_default();
        if queue.len() >= self.decl.held as usize {
            return Err(packet);
        }
        queue.push_back(packet);
        Ok(())
    }

    /// Takes the packets that an entry holds, oldest first.
    pub fn release(&mut self, slot: u32) -> VecDeque<Packet> {
        self.held.remove(&slot).unwrap_or_default()
    }

    /// Number of packets that an entry holds.
    pub fn held(&self, slot: u32) -> u32 {
        self.held.get(&slot).map_or(0, |q| q.len() as u32)
    }

    pub(crate) fn held_packets(&self, slot: u32) -> impl Iterator<Item = &Packet> {
        self.held.get(&slot).into_iter().flatten()
    }

    /// Whether the slot has an entry.
    pub fn is_live(&self, slot: u32) -> bool {
        slot < self.used && self.word(slot, self.layout.link) != NO_ENTRY
    }

    /// The slots that have an entry.
    pub fn slots(&self) -> impl Iterator<Item = u32> + use<'_> {
        (0..self.used).filter(|&s| self.is_live(s))
    }

    /// What the entry was linked to. The other one may be gone: [`TableSet::partner`](crate::TableSet::partner)
    /// looks.
    pub(crate) fn partner(&self, slot: u32) -> Option<EntryRef> {
        if !self.is_live(slot) {
            return None;
        }
        let other = self.word(slot, self.layout.link).checked_sub(link_word(0, 0))?;
        Some(EntryRef { table: (other >> 32) as u32, slot: other as u32 })
    }

    pub(crate) fn set_partner(&mut self, slot: u32, partner: Option<EntryRef>) {
        if self.is_live(slot) {
            let link = partner.map_or(NO_LINK, |p| link_word(p.table, p.slot));
            self.set_word(slot, self.layout.link, link);
        }
    }

    /// Removes an entry; its held packets are the caller's. One of an array stays, without expiry and link.
    pub(crate) fn remove_slot(&mut self, slot: u32) -> VecDeque<Packet> {
        if !self.is_live(slot) {
            return VecDeque::new();
        }
        if self.decl.kind == Kind::Array {
            self.set_expiry(slot, 0);
            self.set_partner(slot, None);
            return VecDeque::new();
        }
        self.leave_answer(slot);
        match &mut self.finder {
            Finder::Exact(index) => {
                let rows = Keys { rows: &self.rows, layout: &self.layout, seed: self.view.seed };
                index.remove(rows.hash(slot), slot, |s| rows.hash(s));
            }
            Finder::Lpm { index, rows } => {
                let (value, len) = rows.prefix(slot);
                index.remove(value, len);
                rows.remove(slot);
            }
            Finder::Rules(rules) => _ = rules.remove(slot),
            Finder::Array => {}
        }
        if let Some(g) = self.decl.group {
            self.count_group(self.get(slot, g), false);
        }
        self.set_word(slot, self.layout.expires, NEVER);
        self.set_word(slot, self.layout.armed, 0);
        self.set_word(slot, self.layout.link, NO_ENTRY);
        self.free.push(slot);
        self.view.live -= 1;
        self.view.update(&self.finder);
        self.epoch += 1;
        self.release(slot)
    }

    /// Removes every entry (an array: sets it to zeros). Held packets are freed. Where entries of other tables are
    /// linked to it, use [`TableSet::clear`](crate::TableSet::clear).
    pub fn clear(&mut self) {
        self.rows.reset();
        self.used = 0;
        self.view.live = 0;
        self.free.clear();
        self.finder.clear();
        self.groups.clear();
        self.held.clear();
        self.wheel.clear();
        self.fill();
        self.view.update(&self.finder);
        self.epoch += 1;
    }

    // --- storage ----------------------------------------------------------------------------------------------

    /// All entries of an array are there from the start.
    fn fill(&mut self) {
        if self.decl.kind != Kind::Array {
            return;
        }
        self.used = self.decl.capacity;
        self.view.live = self.decl.capacity;
        for slot in 0..self.used {
            self.open_slot(slot);
        }
        if self.decl.group.is_some() {
            self.groups.insert(0, self.used);
        }
    }

    /// Makes a row of zeros an entry that does not expire.
    fn open_slot(&mut self, slot: u32) {
        self.set_word(slot, self.layout.expires, NEVER);
        self.set_word(slot, self.layout.link, NO_LINK);
    }

    fn take_slot(&mut self) -> Option<u32> {
        if self.len() >= self.decl.capacity {
            return None;
        }
        let slot = self.free_slot();
        self.open_slot(slot);
        self.view.live += 1;
        self.epoch += 1;
        if self.decl.group.is_some() {
            self.count_group(0, true);
        }
        Some(slot)
    }

    /// A row of zeros, which is no entry.
    fn free_slot(&mut self) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        let at = slot as usize * self.layout.stride;
        self.rows.bytes_mut()[at..at + self.layout.stride].fill(0);
        slot
    }

    fn count_group(&mut self, value: u128, up: bool) {
        if up {
            *self.groups.entry(value).or_insert(0) += 1;
        } else if let Some(n) = self.groups.get_mut(&value) {
            *n -= 1;
            if *n == 0 {
                self.groups.remove(&value);
            }
        }
    }

    /// One of an entry's own words, or a word of its key, by its offset in the row.
    fn word(&self, slot: u32, at: usize) -> u64 {
        self.rows.words()[(slot as usize * self.layout.stride + at) / 8]
    }

    fn set_word(&mut self, slot: u32, at: usize, v: u64) {
        self.rows.words_mut()[(slot as usize * self.layout.stride + at) / 8] = v;
    }

    fn key_words(&self, slot: u32) -> &[u64] {
        Keys { rows: &self.rows, layout: &self.layout, seed: 0 }.words(slot)
    }

    fn pack<'a>(&self, key: &[u128], words: &'a mut [u64; MAX_WORDS]) -> &'a [u64] {
        for (at, v) in self.layout.key.iter().zip(key) {
            let v = network_order(at.width, v & at.width.max());
            words[at.word] |= (v as u64) << at.shift;
            if v >> 64 != 0 {
                words[at.word + 1] = (v >> 64) as u64;
            }
        }
        &words[..self.layout.key_words]
    }
}

/// Most slots of a table: one for each entry, and for each entry of a prefix an answer.
fn most_slots(decl: &TableDecl) -> usize {
    decl.capacity as usize * if decl.kind == Kind::Lpm { 2 } else { 1 }
}

/// The keys of an exact table's rows.
struct Keys<'a> {
    rows: &'a Region,
    layout: &'a Layout,
    seed: u64,
}

impl<'a> Keys<'a> {
    fn words(&self, slot: u32) -> &'a [u64] {
        let at = slot as usize * self.layout.stride / 8;
        &self.rows.words()[at..at + self.layout.key_words]
    }

    fn hash(&self, slot: u32) -> u64 {
        hash(self.words(slot), self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decl::Width;
    use crate::row::{KeyMatch, Row};

    #[test]
    fn prefixes_that_say_the_same_have_one_answer_until_one_of_them_changes() {
        let decl = TableDecl::new("t", Kind::Lpm, &[("k", Width::W32)], &[("v", Width::W32)], 16);
        let mut t = Table::new(decl).unwrap();
        let row =
            |net: u128, v: u128| Row { key: vec![KeyMatch::Prefix(net << 24, 8)], ..Row::exact(&[], &[v]) };
        let slots = [1, 2, 3].map(|net| t.insert_row(&row(net, if net == 3 { 5 } else { 4 }), 0).unwrap());
        let found = |t: &Table| [1, 2, 3].map(|net| t.lookup(&[net << 24]).unwrap());
        let [one, two, three] = found(&t);
        assert!(one == two && two != three && !slots.contains(&one));
        let epoch = t.epoch();
        t.set(slots[1], 0, 5);
        let after = found(&t);
        assert_eq!((after, after.map(|slot| t.get(slot, 0))), ([one, three, three], [4, 5, 5]));
        assert_ne!(t.epoch(), epoch, "what lookups found is no longer what they find");
        t.remove_slot(slots[1]);
        t.insert_row(&row(4, 9), 0).unwrap();
        let says = |net: u128| t.lookup(&[net << 24]).map(|slot| t.get(slot, 0));
        assert_eq!([1, 2, 3, 4].map(says), [Some(4), None, Some(5), Some(9)]);
        assert!(t.used <= 6, "{} slots for 3 prefixes and what they say", t.used);
    }

    #[test]
    fn timers_do_not_pile_up() {
        let decl = TableDecl::new("t", Kind::Exact, &[("k", Width::W32)], &[], 16);
        let mut t = Table::new(decl).unwrap();
        for round in 0..10_000u64 {
            let slot = t.insert(&[u128::from(round % 5)]).unwrap();
            t.set_expiry(slot, 1_000_000 - round);
            if round % 2 == 0 {
                t.remove_slot(slot);
            }
            assert!(t.wheel.len() <= 32, "{} timers for {} entries", t.wheel.len(), t.len());
        }
        let due: Vec<u64> = std::iter::from_fn(|| t.next_timer(u64::MAX).map(|(when, _)| when)).collect();
        assert_eq!(due.len() as u32, t.len());
        assert!(due.is_sorted());
    }
}
