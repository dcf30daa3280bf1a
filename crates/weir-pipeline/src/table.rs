//! A table of flows: tuple space search (Srinivasan, Suri, Varghese, SIGCOMM 1999), as Open vSwitch has it.
//!
//! Entries with the same mask are one hash table, a tuple. To add or remove an entry touches its tuple alone, after a look at each
//! tuple's mask; a lookup asks the tuples from the highest priority down, and ends where none of the rest can be better. Flows that were
//! looked up before are remembered by all their fields.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};

use crate::hash::{Build, Mixed};
use crate::key::{Key, Pattern, WORDS};

/// An entry's number.
pub type EntryId = u32;

/// Flows that all tables remember; a power of two.
const REMEMBERED: usize = 1 << 14;
/// With fewer tuples than this a lookup is about as quick as to remember it.
const MANY: usize = 3;

/// A table.
#[derive(Debug, Default)]
pub struct Table {
    /// From the highest priority down.
    tuples: Vec<Tuple>,
    /// Counts changes, from 1.
    version: u64,
    entries: usize,
    /// Packets that were looked up.
    pub lookups: u64,
    /// Those that had an entry.
    pub matched: u64,
}

/// Flows that were looked up, each in the place that its hash says. All tables share it: a table's own would be megabytes for each.
#[derive(Debug, Default)]
pub struct Remembered(Vec<Flow>);

/// A flow, and the entry that a version of a table has for it.
#[derive(Debug, Clone, Default)]
struct Flow {
    table: u8,
    version: u64,
    key: Key,
    found: Option<EntryId>,
}

impl Remembered {
    fn place(&mut self, table: u8, key: &Key) -> &mut Flow {
        if self.0.is_empty() {
            self.0.resize(REMEMBERED, Flow::default());
        }
        let mut hash = Mixed::default();
        key.hash(&mut hash);
        hash.write_u64(table.into());
        &mut self.0[hash.finish() as usize & (REMEMBERED - 1)]
    }
}

/// The entries of a mask.
#[derive(Debug)]
struct Tuple {
    mask: Key,
    /// The words in which it has bits.
    words: Vec<u8>,
    /// By the words' values: entries, from the highest priority down.
    entries: HashMap<Box<[u64]>, Vec<(u16, EntryId)>, Build>,
    /// How many entries there are of each priority.
    priorities: BTreeMap<u16, usize>,
}

impl Tuple {
    fn highest(&self) -> u16 {
        self.priorities.last_key_value().map_or(0, |(p, _)| *p)
    }

    /// The words of a key that count; how many they are.
    fn part(&self, key: &Key, part: &mut [u64; WORDS]) -> usize {
        for (to, &word) in part.iter_mut().zip(&self.words) {
            let word = usize::from(word);
            *to = key.0[word] & self.mask.0[word];
        }
        self.words.len()
    }

    fn row(&self, key: &Key) -> Option<&Vec<(u16, EntryId)>> {
        let mut part = [0; WORDS];
        let n = self.part(key, &mut part);
        self.entries.get(&part[..n])
    }
}

impl Table {
    /// How many entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// The entry of a packet; `number` is this table's.
    pub fn lookup(&mut self, number: u8, key: &Key, remembered: &mut Remembered) -> Option<EntryId> {
        self.lookups += 1;
        let found = if self.tuples.len() < MANY {
            self.search(key)
        } else {
            let flow = remembered.place(number, key);
            if (flow.table, flow.version) != (number, self.version) || flow.key != *key {
                *flow = Flow { table: number, version: self.version, key: *key, found: self.search(key) };
            }
            flow.found
        };
        self.matched += u64::from(found.is_some());
        found
    }

    fn search(&self, key: &Key) -> Option<EntryId> {
        let mut best: Option<(u16, EntryId)> = None;
        for tuple in &self.tuples {
            if best.is_some_and(|(priority, _)| priority >= tuple.highest()) {
                break;
            }
            if let Some(&(priority, id)) = tuple.row(key).and_then(|row| row.first())
                && best.is_none_or(|(p, _)| priority > p)
            {
                best = Some((priority, id));
            }
        }
        best.map(|(_, id)| id)
    }

    /// The entry with this pattern and priority.
    pub fn exact(&self, pattern: &Pattern, priority: u16) -> Option<EntryId> {
        let row = self.tuples.iter().find(|t| t.mask == pattern.mask)?.row(&pattern.value)?;
        row.iter().find(|(p, _)| *p == priority).map(|(_, id)| *id)
    }

    /// Entries that may be covered by a pattern; all that are, are among them.
    pub fn under<'a>(&'a self, pattern: &'a Pattern) -> impl Iterator<Item = EntryId> + 'a {
        let tuples = self.tuples.iter().filter(|t| t.mask.masked(&pattern.mask) == pattern.mask);
        let rows = tuples.flat_map(move |t| -> Box<dyn Iterator<Item = &Vec<(u16, EntryId)>> + 'a> {
            // Of the same mask there is one row.
            if t.mask == pattern.mask {
                Box::new(t.row(&pattern.value).into_iter())
            } else {
                Box::new(t.entries.values())
            }
        });
        rows.flatten().map(|(_, id)| *id)
    }

    /// Entries of a priority.
    pub fn with_priority(&self, priority: u16) -> impl Iterator<Item = EntryId> + '_ {
        let tuples = self.tuples.iter().filter(move |t| t.priorities.contains_key(&priority));
        let rows = tuples.flat_map(|t| t.entries.values().flatten());
        rows.filter(move |(p, _)| *p == priority).map(|(_, id)| *id)
    }

    /// Puts an entry in; there is none with its pattern and priority.
    pub fn insert(&mut self, pattern: &Pattern, priority: u16, id: EntryId) {
        let at = self.tuples.iter().position(|t| t.mask == pattern.mask).unwrap_or_else(|| {
            self.tuples.push(Tuple {
                mask: pattern.mask,
                words: pattern.mask.used(),
                entries: HashMap::default(),
                priorities: BTreeMap::new(),
            });
            self.tuples.len() - 1
        });
        let tuple = &mut self.tuples[at];
        let mut part = [0; WORDS];
        let n = tuple.part(&pattern.value, &mut part);
        let row = tuple.entries.entry(part[..n].into()).or_default();
        let place = row.partition_point(|(p, _)| *p > priority);
        row.insert(place, (priority, id));
        *tuple.priorities.entry(priority).or_default() += 1;
        self.entries += 1;
        self.changed();
    }

    /// Takes an entry out.
    pub fn remove(&mut self, pattern: &Pattern, priority: u16) {
        let Some(at) = self.tuples.iter().position(|t| t.mask == pattern.mask) else { return };
        let tuple = &mut self.tuples[at];
        let mut part = [0; WORDS];
        let n = tuple.part(&pattern.value, &mut part);
        let Some(row) = tuple.entries.get_mut(&part[..n]) else { return };
        let before = row.len();
        row.retain(|(p, _)| *p != priority);
        if row.len() == before {
            return;
        }
        if row.is_empty() {
            tuple.entries.remove(&part[..n]);
        }
        if let Some(count) = tuple.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                tuple.priorities.remove(&priority);
            }
        }
        if tuple.entries.is_empty() {
            self.tuples.remove(at);
        }
        self.entries -= 1;
        self.changed();
    }

    /// Forgets flows, and puts the tuples in their order.
    fn changed(&mut self) {
        self.version += 1;
        if !self.tuples.is_sorted_by_key(|t| std::cmp::Reverse(t.highest())) {
            self.tuples.sort_by_key(|t| std::cmp::Reverse(t.highest()));
        }
    }
}
