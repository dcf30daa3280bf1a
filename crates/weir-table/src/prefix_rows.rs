//! The rows of a table by prefix, as the control side knows them: the prefix of each, and its answer.
//!
//! An *answer* is a row that packets read: a slot without an entry, which says what some entries say. There are many
//! prefixes in a table of routes and few next hops, so packets read a few rows again and again, and these stay in the
//! first cache; if each read the row of its own prefix, they would wait for that longer than for the search.

use hashbrown::HashTable;

use crate::exact::{DEFAULT_SEED, hash};

/// Prefixes, slots and answers.
#[derive(Debug, Default)]
pub(crate) struct PrefixRows {
    of_slot: Vec<PrefixRow>,
    by_prefix: HashTable<u32>,
    answers: HashTable<Answer>,
}

#[derive(Debug, Clone, Copy, Default)]
struct PrefixRow {
    value: u128,
    len: u32,
    /// None until the row's values are known.
    answer: Option<u32>,
}

#[derive(Debug)]
struct Answer {
    slot: u32,
    /// Number of rows that say this, at least one.
    rows: u32,
}

impl PrefixRows {
    /// The slot of exactly this prefix.
    pub(crate) fn find(&self, value: u128, len: u32) -> Option<u32> {
        self.by_prefix.find(hash_of(value, len), |&slot| self.prefix(slot) == (value, len)).copied()
    }

    /// The prefix of a slot: value and length.
    pub(crate) fn prefix(&self, slot: u32) -> (u128, u32) {
        let row = &self.of_slot[slot as usize];
        (row.value, row.len)
    }

    /// Adds a prefix that is not there, without an answer.
    pub(crate) fn add(&mut self, slot: u32, value: u128, len: u32) {
        let rows = self.of_slot.len().max(slot as usize + 1);
        self.of_slot.resize(rows, PrefixRow::default());
        self.of_slot[slot as usize] = PrefixRow { value, len, answer: None };
        let of_slot = &self.of_slot;
        let hashed = |&slot: &u32| hash_of(of_slot[slot as usize].value, of_slot[slot as usize].len);
        self.by_prefix.insert_unique(hash_of(value, len), slot, hashed);
    }

    /// Removes the prefix of a slot that has left its answer.
    pub(crate) fn remove(&mut self, slot: u32) {
        let (value, len) = self.prefix(slot);
        if let Ok(found) = self.by_prefix.find_entry(hash_of(value, len), |&other| other == slot) {
            found.remove();
        }
    }

    /// Gives a slot the answer that says `words`, if there is one: `words_of` says what answers say.
    pub(crate) fn join<'a>(
        &mut self,
        slot: u32,
        words: &[u64],
        words_of: impl Fn(u32) -> &'a [u64],
    ) -> Option<u32> {
        let found = self.answers.find_mut(hash(words, DEFAULT_SEED), |a| words_of(a.slot) == words)?;
        found.rows += 1;
        self.of_slot[slot as usize].answer = Some(found.slot);
        Some(found.slot)
    }

    /// Gives a slot a new answer, which says `words`.
    pub(crate) fn open<'a>(
        &mut self,
        slot: u32,
        answer: u32,
        words: &[u64],
        words_of: impl Fn(u32) -> &'a [u64],
    ) {
        let hashed = |a: &Answer| hash(words_of(a.slot), DEFAULT_SEED);
        self.answers.insert_unique(hash(words, DEFAULT_SEED), Answer { slot: answer, rows: 1 }, hashed);
        self.of_slot[slot as usize].answer = Some(answer);
    }

    /// Takes its answer from a slot. The answer is returned if no other slot has it: then it is none any more.
    pub(crate) fn leave<'a>(&mut self, slot: u32, words_of: impl Fn(u32) -> &'a [u64]) -> Option<u32> {
        let answer = self.of_slot[slot as usize].answer.take()?;
        let hashed = hash(words_of(answer), DEFAULT_SEED);
        let mut found = self.answers.find_entry(hashed, |a| a.slot == answer).ok()?;
        found.get_mut().rows -= 1;
        (found.get().rows == 0).then(|| found.remove().0.slot)
    }

    /// Number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.by_prefix.len()
    }

    /// Number of answers.
    pub(crate) fn answers(&self) -> usize {
        self.answers.len()
    }

    /// Memory in bytes, without what the answers say.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.of_slot[..]) + self.by_prefix.allocation_size() + self.answers.allocation_size()
    }
}

fn hash_of(value: u128, len: u32) -> u64 {
    hash(&[value as u64, (value >> 64) as u64, len.into()], DEFAULT_SEED)
}
