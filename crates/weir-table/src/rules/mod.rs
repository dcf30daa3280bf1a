//! The index of rule tables: packet classification.
//!
//! The first rule in match order (higher priority first, then the order of insertion) whose every field matches
//! is found in a tree of cuts and hashes ([`index`]) that is built from the content ([`build`]). Rules that were
//! added since stand in a short list beside it; removed ones are taken out of its leaves. For compiled code, rules that
//! look at the same bits have another form beside it ([`tuple`]).

mod build;
mod choose;
#[cfg(test)]
pub(crate) mod classbench;
mod cost;
mod index;
mod layout;
#[cfg(test)]
mod tests;
mod tuple;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::row::KeyMatch;
use index::{DEAD, Index, NONE};
use layout::{Layout, Span};
use tuple::Tuple;

pub use tuple::RulesView;

/// Rules added since the index was built that [`Rules::prepare`] leaves as they are.
const ADDED: usize = 16;
/// Sets up to this size are indexed at each change.
const SMALL: usize = 32;
/// Rules compared one by one, for each rule of the set, that are worth an index.
const PATIENCE: u64 = 1000;

/// Match order: higher priority first, then the order of insertion.
type Order = (Reverse<i32>, u64);

#[derive(Debug)]
struct Rule {
    key: Arc<[KeyMatch]>,
    slot: u32,
}

/// A rule that the index does not have.
#[derive(Debug)]
struct Added {
    order: Order,
    /// Comparable with heads of the index.
    head: u64,
    spans: Vec<Span>,
}

/// Rules with priorities over keys of several fields, and the slot of each.
#[derive(Debug)]
pub(crate) struct Rules {
    layout: Layout,
    rules: BTreeMap<Order, Rule>,
    by_slot: HashMap<u32, Order>,
    /// Rules with the same key, in match order.
    by_key: HashMap<Arc<[KeyMatch]>, Vec<Order>>,
    inserted: u64,
    index: Index,
    /// The same rules in the form for compiled code, if they have it.
    tuple: Option<Tuple>,
    /// The rules of the index, also removed ones.
    indexed: Vec<Order>,
    /// In match order.
    added: Vec<Added>,
    /// Value and mask for each word, for each of `added`.
    added_pairs: Vec<u64>,
    /// Number of rules when the index was built.
    built: usize,
    /// Rules inserted and removed since.
    inserts: usize,
    removes: usize,
    /// Rules compared one by one because the index did not have the answer.
    compared: AtomicU64,
    /// Many rules are being inserted.
    held: bool,
}

impl Rules {
    /// No rules; key fields of these widths in bits, 1 to 128 each.
    pub fn new(widths: &[u32]) -> Rules {
        let layout = Layout::new(widths);
        Rules {
            index: Index::empty(&layout),
            tuple: Tuple::build(layout.words, &[]),
            layout,
            rules: BTreeMap::new(),
            by_slot: HashMap::new(),
            by_key: HashMap::new(),
            inserted: 0,
            indexed: Vec::new(),
            added: Vec::new(),
            added_pairs: Vec::new(),
            built: 0,
            inserts: 0,
            removes: 0,
            compared: AtomicU64::new(0),
            held: false,
        }
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Removes all rules.
    pub fn clear(&mut self) {
        self.rules.clear();
        self.by_slot.clear();
        self.by_key.clear();
        self.build();
    }

    /// Adds a rule, last among those of its priority. A rule that has the slot (below `u32::MAX`) is replaced.
    /// It is found at once; [`prepare`](Rules::prepare) makes that fast.
    pub fn insert(&mut self, priority: i32, key: &[KeyMatch], slot: u32) {
        self.remove(slot);
        let order = (Reverse(priority), self.inserted);
        self.inserted += 1;
        let shared: Arc<[KeyMatch]> = key.into();
        let same = self.by_key.entry(shared.clone()).or_default();
        same.insert(same.partition_point(|&o| o < order), order);
        self.rules.insert(order, Rule { key: shared, slot });
        self.by_slot.insert(slot, order);

        self.add(order, key, slot);
        self.inserts += 1;
        if self.held {
            return;
        }
        if self.len() <= SMALL || self.inserts > self.built + ADDED {
            self.build();
        } else {
            self.list();
        }
    }

    /// Many rules are to be inserted: until [`settle`](Rules::settle), lookups may be slow, and compiled code must not look.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Removes the rule with this slot. Whether there was one.
    pub fn remove(&mut self, slot: u32) -> bool {
        let Some(order) = self.by_slot.remove(&slot) else { return false };
        if let Some(rule) = self.rules.remove(&order)
            && let Some(same) = self.by_key.get_mut(&rule.key)
        {
            same.retain(|&o| o != order);
            if same.is_empty() {
                self.by_key.remove(&rule.key);
            }
        }
        if let Ok(at) = self.added.binary_search_by_key(&order, |a| a.order) {
            self.added.remove(at);
            let pair = 2 * self.layout.words;
            self.added_pairs.drain(at * pair..(at + 1) * pair);
        } else if let Ok(at) = self.indexed.binary_search(&order) {
            if let (Some(tuple), Some(entry)) = (&mut self.tuple, self.index.entry(at)) {
                tuple.remove(entry);
            }
            self.index.remove(at);
        }
        self.removes += 1;
        if self.len() <= SMALL || self.removes > self.len() {
            self.build();
        } else {
            self.list();
        }
        true
    }

    /// The slot of the rule with exactly this key and priority.
    pub fn find(&self, priority: i32, key: &[KeyMatch]) -> Option<u32> {
        let same = self.by_key.get(key)?;
        let order = same.get(same.partition_point(|o| o.0 < Reverse(priority)))?;
        (order.0 == Reverse(priority)).then(|| self.rules.get(order).map(|r| r.slot))?
    }

    /// All rules in match order: priority, key, slot.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &[KeyMatch], u32)> {
        self.rules.iter().map(|(order, r)| (order.0.0, &*r.key, r.slot))
    }

    /// Brings the index up to date if so many changes wait that it pays. To be called after changes, before
    /// lookups that must be fast.
    pub fn prepare(&mut self) {
        let compared = self.compared.load(Ordering::Relaxed);
        if self.inserts > ADDED || compared > PATIENCE * self.len() as u64 {
            self.build();
        }
    }

    /// Brings the index up to date with every change. To be called when changes have come to rest: lookups
    /// compare up to 16 rules that were added last one by one.
    pub fn settle(&mut self) {
        self.held = false;
        if !self.added.is_empty() || self.removes > 0 {
            self.build();
        }
    }

    /// The slot of the first rule in match order that `key`, one value a field, matches. Bits beyond a field's
    /// width are ignored.
    pub fn lookup(&self, key: &[u128]) -> Option<u32> {
        let words = self.layout.pack(key);
        let slot = self.lookup_packed(&words[..self.layout.words]);
        (slot != u32::MAX).then_some(slot)
    }

    /// The same for a packed key: fields in order, least significant byte first, each on `ceil(bits / 8)` bytes
    /// without gaps, zero bytes up to a whole word. `u32::MAX` if no rule matches, or words are missing.
    pub fn lookup_packed(&self, words: &[u64]) -> u32 {
        let found = self.index.search(words);
        if found as u32 == DEAD && found != NONE || !self.added.is_empty() {
            return self.complete(found, words);
        }
        found as u32
    }

    /// Completes what the index found with the changes since it was built.
    #[cold]
    fn complete(&self, mut found: u64, words: &[u64]) -> u32 {
        if words.len() < self.layout.words {
            return u32::MAX;
        }
        if found as u32 == DEAD && found != NONE {
            self.compared.fetch_add(self.len() as u64, Ordering::Relaxed);
            found = self.index.scan_after(index::position(found), words);
        }
        if self.added.len() > ADDED {
            self.compared.fetch_add(self.added.len() as u64, Ordering::Relaxed);
        }
        let added = self.added.iter().zip(self.added_pairs.chunks_exact(2 * self.layout.words));
        let mut better = added.take_while(|(a, _)| a.head < found);
        let first = better
            .find(|(a, pairs)| layout::matches(pairs, words) && a.spans.iter().all(|s| s.matches(words)));
        first.map_or(found, |(a, _)| a.head) as u32
    }

    /// Puts a rule beside the index.
    fn add(&mut self, order: Order, key: &[KeyMatch], slot: u32) {
        // What no key matches is only listed.
        let Some(pattern) = self.layout.pattern(key) else { return };
        let before = self.indexed.partition_point(|&o| o < order) as u32;
        let head = index::head(2 * before, false, slot);
        let at = self.added.partition_point(|a| a.order < order);
        let pair = at * 2 * self.layout.words;
        self.added_pairs.splice(pair..pair, pattern.pairs);
        self.added.insert(at, Added { order, head, spans: pattern.spans });
    }

    /// What compiled code reads.
    pub fn view(&self) -> RulesView {
        self.tuple.as_ref().map_or(RulesView::NONE, Tuple::view)
    }

    /// Gives the form for compiled code which rules are compared one by one.
    fn list(&mut self) {
        if let Some(tuple) = &mut self.tuple {
            let added = self.added.iter().zip(self.added_pairs.chunks_exact(2 * self.layout.words));
            tuple.list(added.map(|(a, pairs)| ((a.head, pairs), !a.spans.is_empty())));
        }
    }

    /// Memory in bytes, about.
    pub fn bytes(&self) -> usize {
        let keys = self.layout.fields.len() * size_of::<KeyMatch>();
        let maps = 2 * (size_of::<Order>() * 3 + size_of::<Rule>() + 32);
        self.len() * (keys + maps) + self.index_bytes()
    }

    /// Memory of what lookups read, in bytes.
    fn index_bytes(&self) -> usize {
        let spans: usize = self.added.iter().map(|a| a.spans.capacity()).sum();
        self.index.bytes()
            + self.tuple.as_ref().map_or(0, Tuple::bytes)
            + self.indexed.capacity() * size_of::<Order>()
            + self.added.capacity() * size_of::<Added>()
            + self.added_pairs.capacity() * 8
            + spans * size_of::<Span>()
    }

    fn build(&mut self) {
        let rules: Vec<_> = self.rules.values().map(|r| (self.layout.pattern(&r.key), r.slot)).collect();
        (self.built, self.inserts, self.removes) = (rules.len(), 0, 0);
        (self.added, self.added_pairs) = (Vec::new(), Vec::new());
        self.indexed.clear();
        self.compared = AtomicU64::new(0);
        self.tuple = None;
        match build::build(&self.layout, &rules) {
            Some(index) => {
                self.index = index;
                self.indexed.extend(self.rules.keys());
                let head = |i: usize, slot| index::head(index::rank(i), false, slot);
                let entries: Vec<_> =
                    rules.iter().enumerate().map(|(i, (p, slot))| (head(i, *slot), p.as_ref())).collect();
                self.tuple = Tuple::build(self.layout.words, &entries);
            }
            // More than references can name: all rules are compared one by one.
            None => {
                self.index = Index::empty(&self.layout);
                let all: Vec<_> = self.rules.iter().map(|(&o, r)| (o, r.key.clone(), r.slot)).collect();
                all.iter().for_each(|(order, key, slot)| self.add(*order, key, *slot));
            }
        }
    }
}
