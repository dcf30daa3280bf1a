//! One table: rows in a flat array, found by an index that suits its kind.

mod edit;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use weir_packet::Packet;

use crate::decl::{DeclError, Kind, TableDecl};
use crate::exact::{self, Index};
use crate::row::KeyMatch;
use crate::set::EntryRef;

pub use edit::EditError;

/// Longest packed key: 16 fields of 16 bytes.
const MAX_KEY: usize = 256;

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    live: bool,
    /// When it expires; 0 is never.
    expires: u64,
    /// The earliest time at which the timer heap will look at this slot; 0 is not at all.
    armed: u64,
    partner: Option<EntryRef>,
}

#[derive(Debug)]
struct Rule {
    priority: i32,
    key: Vec<KeyMatch>,
    slot: u32,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    decl: TableDecl,
    key_len: usize,
    offsets: Vec<usize>,
    stride: usize,
    rows: Vec<u8>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    live: u32,
    index: Index,
    /// Prefix lengths in use, longest first, each with its prefixes.
    prefixes: Vec<(u32, HashMap<u128, u32>)>,
    /// The prefix of each slot, value and length.
    prefix_of: Vec<(u128, u32)>,
    rules: Vec<Rule>,
    groups: HashMap<u128, u32>,
    held: HashMap<u32, VecDeque<Packet>>,
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    epoch: u64,
}

impl Table {
    /// An empty table (an array: of zeros).
    pub fn new(decl: TableDecl) -> Result<Table, DeclError> {
        decl.check()?;
        let key_len = decl.key.iter().map(|f| f.width.bytes() as usize).sum();
        let mut at: usize = if decl.kind == Kind::Exact { key_len } else { 0 };
        let mut offsets = Vec::new();
        for f in &decl.value {
            let size = f.width.bytes() as usize;
            at = at.next_multiple_of(size.min(8));
            offsets.push(at);
            at += size;
        }
        let stride = at.next_multiple_of(8);
        let mut table = Table {
            key_len,
            offsets,
            stride,
            rows: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            live: 0,
            index: Index::default(),
            prefixes: Vec::new(),
            prefix_of: Vec::new(),
            rules: Vec::new(),
            groups: HashMap::new(),
            held: HashMap::new(),
            timers: BinaryHeap::new(),
            epoch: 0,
            decl,
        };
        table.clear();
        Ok(table)
    }

    /// The declaration.
    pub fn decl(&self) -> &TableDecl {
        &self.decl
    }

    /// Number of entries.
    pub fn len(&self) -> u32 {
        self.live
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Changes whenever an entry comes, goes or changes.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    // --- what programs do -------------------------------------------------------------------------------------

    /// The slot that `key` (one value a key field) finds.
    pub fn lookup(&self, key: &[u128]) -> Option<u32> {
        match self.decl.kind {
            Kind::Exact => {
                let mut buf = [0; MAX_KEY];
                let packed = self.pack(key, &mut buf);
                self.index.find(exact::hash(packed), |slot| self.key_bytes(slot) == packed)
            }
            Kind::Lpm => {
                let bits = self.decl.key[0].width.bits();
                self.prefixes.iter().find_map(|(len, map)| map.get(&prefix(key[0], *len, bits)).copied())
            }
            Kind::Rules => self
                .rules
                .iter()
                .find(|r| {
                    r.key.iter().zip(key).zip(&self.decl.key).all(|((m, &v), f)| m.matches(v, f.width.bits()))
                })
                .map(|r| r.slot),
            Kind::Array => (key[0] < u128::from(self.decl.capacity)).then_some(key[0] as u32),
        }
    }

    /// The entry of an exact table with this key: found, or made with zero values. `None` if the table is full.
    pub fn insert(&mut self, key: &[u128]) -> Option<u32> {
        debug_assert_eq!(self.decl.kind, Kind::Exact);
        let mut buf = [0; MAX_KEY];
        let packed = self.pack(key, &mut buf);
        let hash = exact::hash(packed);
        if let Some(slot) = self.index.find(hash, |slot| self.key_bytes(slot) == packed) {
            return Some(slot);
        }
        let slot = self.take_slot()?;
        let at = slot as usize * self.stride;
        self.rows[at..at + self.key_len].copy_from_slice(packed);
        let (rows, stride, len) = (&self.rows, self.stride, self.key_len);
        self.index.insert(hash, slot, |s| hash_row(rows, stride, len, s));
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
        if lo > hi || self.live >= self.decl.capacity {
            return None;
        }
        let span = (hi - lo).saturating_add(1);
        let first = lo + start % span;
        let tries = span.min(u128::from(self.live) + 1);
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

    /// A value field of an entry.
    pub fn get(&self, slot: u32, field: u32) -> u128 {
        let width = self.decl.value[field as usize].width;
        let at = slot as usize * self.stride + self.offsets[field as usize];
        read(&self.rows[at..at + width.bytes() as usize])
    }

    /// Changes a value field of an entry (nothing if it was removed); bits beyond the field's width are lost.
    pub fn set(&mut self, slot: u32, field: u32, v: u128) {
        if !self.is_live(slot) {
            return;
        }
        let width = self.decl.value[field as usize].width;
        let v = v & width.max();
        if self.decl.group == Some(field) {
            let old = self.get(slot, field);
            self.count_group(old, false);
            self.count_group(v, true);
        }
        let at = slot as usize * self.stride + self.offsets[field as usize];
        let size = width.bytes() as usize;
        self.rows[at..at + size].copy_from_slice(&v.to_ne_bytes()[..size]);
        self.epoch += 1;
    }

    /// A key field of an entry of an exact table; 0 for other kinds.
    pub fn key(&self, slot: u32, field: u32) -> u128 {
        if self.decl.kind != Kind::Exact {
            return if self.decl.kind == Kind::Array { slot.into() } else { 0 };
        }
        let before: u32 = self.decl.key[..field as usize].iter().map(|f| f.width.bytes()).sum();
        let at = before as usize;
        read(&self.key_bytes(slot)[at..at + self.decl.key[field as usize].width.bytes() as usize])
    }

    /// Number of entries with this value in the group field.
    pub fn group_count(&self, value: u128) -> u32 {
        self.groups.get(&value).copied().unwrap_or(0)
    }

    /// Lets the entry expire at `when` (0: never); nothing if it was removed.
    pub fn set_expiry(&mut self, slot: u32, when: u64) {
        let Some(s) = self.slots.get_mut(slot as usize).filter(|s| s.live) else { return };
        s.expires = when;
        if when != 0 && (s.armed == 0 || when < s.armed) {
            s.armed = when;
            self.timers.push(Reverse((when, slot)));
            if self.timers.len() > 2 * self.slots.len() + 16 {
                self.forget_old_timers();
            }
        }
    }

    /// Leaves one timer a slot: others are of entries that are gone, or were touched to expire earlier.
    fn forget_old_timers(&mut self) {
        let armed = self.slots.iter().zip(0..).filter(|(s, _)| s.armed != 0);
        self.timers = armed.map(|(s, slot)| Reverse((s.armed, slot))).collect();
    }

    /// When the entry expires (0: never, or it was removed).
    pub fn expiry(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).map_or(0, |s| s.expires)
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
        self.slots.get(slot as usize).is_some_and(|s| s.live)
    }

    /// The slots that have an entry.
    pub(crate) fn slots(&self) -> Vec<u32> {
        (0..self.slots.len() as u32).filter(|&s| self.slots[s as usize].live).collect()
    }

    /// What the entry was linked to. The other one may be gone: [`TableSet::partner`](crate::TableSet::partner)
    /// looks.
    pub(crate) fn partner(&self, slot: u32) -> Option<EntryRef> {
        self.slots.get(slot as usize)?.partner
    }

    pub(crate) fn set_partner(&mut self, slot: u32, partner: Option<EntryRef>) {
        if let Some(s) = self.slots.get_mut(slot as usize) {
            s.partner = partner;
        }
    }

    /// The next slot whose time has come. It stays until [`remove_slot`](Table::remove_slot).
    pub(crate) fn next_due(&mut self, now: u64) -> Option<u32> {
        while let Some(&Reverse((when, slot))) = self.timers.peek() {
            if when > now {
                return None;
            }
            self.timers.pop();
            let s = &mut self.slots[slot as usize];
            if s.armed != when {
                continue;
            }
            s.armed = 0;
            if !s.live || s.expires == 0 {
                continue;
            }
            if s.expires == when {
                return Some(slot);
            }
            s.armed = s.expires;
            self.timers.push(Reverse((s.expires, slot)));
        }
        None
    }

    /// When the next entry may expire.
    pub fn next_expiry(&self) -> Option<u64> {
        self.timers.peek().map(|t| t.0.0)
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
        match self.decl.kind {
            Kind::Exact => {
                let (rows, stride, len) = (&self.rows, self.stride, self.key_len);
                let hash = hash_row(rows, stride, len, slot);
                self.index.remove(hash, slot, |s| hash_row(rows, stride, len, s));
            }
            Kind::Lpm => {
                let (value, len) = self.prefix_of[slot as usize];
                if let Some(at) = self.prefixes.iter().position(|(l, _)| *l == len) {
                    self.prefixes[at].1.remove(&value);
                    if self.prefixes[at].1.is_empty() {
                        self.prefixes.remove(at);
                    }
                }
            }
            Kind::Rules => self.rules.retain(|r| r.slot != slot),
            Kind::Array => {}
        }
        if let Some(g) = self.decl.group {
            self.count_group(self.get(slot, g), false);
        }
        self.slots[slot as usize] = Slot::default();
        self.free.push(slot);
        self.live -= 1;
        self.epoch += 1;
        self.release(slot)
    }

    /// Removes every entry (an array: sets it to zeros). Held packets are freed.
    pub fn clear(&mut self) {
        let epoch = self.epoch + 1;
        let count = if self.decl.kind == Kind::Array { self.decl.capacity as usize } else { 0 };
        self.rows = vec![0; count * self.stride];
        self.slots = vec![Slot { live: true, ..Slot::default() }; count];
        self.live = count as u32;
        self.free.clear();
        self.index.clear();
        self.prefixes.clear();
        self.prefix_of.clear();
        self.rules.clear();
        self.groups.clear();
        self.held.clear();
        self.timers.clear();
        self.epoch = epoch;
        if self.decl.group.is_some() && count > 0 {
            self.groups.insert(0, count as u32);
        }
    }

    // --- storage ----------------------------------------------------------------------------------------------

    fn take_slot(&mut self) -> Option<u32> {
        if self.live >= self.decl.capacity {
            return None;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.rows.resize(self.slots.len() * self.stride, 0);
            self.slots.len() as u32 - 1
        });
        let at = slot as usize * self.stride;
        self.rows[at..at + self.stride].fill(0);
        self.slots[slot as usize] = Slot { live: true, ..Slot::default() };
        self.live += 1;
        self.epoch += 1;
        if self.decl.group.is_some() {
            self.count_group(0, true);
        }
        Some(slot)
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

    fn key_bytes(&self, slot: u32) -> &[u8] {
        let at = slot as usize * self.stride;
        &self.rows[at..at + self.key_len]
    }

    fn pack<'a>(&self, key: &[u128], buf: &'a mut [u8; MAX_KEY]) -> &'a [u8] {
        let mut at = 0;
        for (f, v) in self.decl.key.iter().zip(key) {
            let size = f.width.bytes() as usize;
            buf[at..at + size].copy_from_slice(&v.to_ne_bytes()[..size]);
            at += size;
        }
        &buf[..at]
    }
}

fn hash_row(rows: &[u8], stride: usize, key_len: usize, slot: u32) -> u64 {
    let at = slot as usize * stride;
    exact::hash(&rows[at..at + key_len])
}

fn read(bytes: &[u8]) -> u128 {
    let mut full = [0; 16];
    full[..bytes.len()].copy_from_slice(bytes);
    u128::from_ne_bytes(full)
}

fn prefix(v: u128, len: u32, bits: u32) -> u128 {
    if len == 0 { 0 } else { v >> (bits - len) << (bits - len) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decl::Width;

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
            assert!(t.timers.len() <= 32, "{} timers for {} entries", t.timers.len(), t.len());
        }
        let due: Vec<u64> = std::iter::from_fn(|| t.next_due(u64::MAX).map(|slot| t.expiry(slot))).collect();
        assert_eq!(due.len() as u32, t.len());
        assert!(due.is_sorted());
    }
}
