//! What changed in tables between two looks at them: for a copy of them that follows while they are in use.
//!
//! Nothing is noted while packets change rows. The rows are kept as they were, and compared; so whoever uses a table pays nothing for it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Table;
use crate::decl::{Kind, TableDecl};
use crate::layout::{Layout, NEVER, NO_ENTRY, link_word, network_order};
use crate::row::{KeyMatch, Row, number};
use crate::set::{EntryRef, TableSet};
use crate::snapshot::{HeldPacket, RestoreError};

/// Tables as they were at a time. Making it copies memory, and does nothing for each entry.
#[derive(Debug, Clone, Default)]
pub struct Frozen {
    now: u64,
    tables: Vec<FrozenTable>,
}

#[derive(Debug, Clone)]
struct FrozenTable {
    owner: String,
    /// Its number in the set, which links name.
    number: u32,
    decl: TableDecl,
    layout: Layout,
    words: Vec<u64>,
    used: u32,
    held: HashMap<u32, Vec<HeldPacket>>,
}

/// Changes of tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    tables: Vec<TableChanges>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableChanges {
    owner: String,
    decl: TableDecl,
    /// Whether these are all entries.
    all: bool,
    /// Keys of entries that have gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gone: Vec<Key>,
    /// Entries that are new, or are not as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rows: Vec<Changed>,
}

/// A key of a table whose keys are values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Key(#[serde(with = "number::list")] Vec<u128>);

/// An entry. The names are short, as there may be many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    #[serde(rename = "k")]
    key: Key,
    #[serde(rename = "v")]
    value: Key,
    /// Nanoseconds until it expires.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u64>,
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    held: Vec<HeldPacket>,
    /// The entry that it is linked to: the number of its table among these, and its key.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    link: Option<(usize, Key)>,
}

impl TableSet {
    /// Whether the keys of a table are values, so that it can be frozen.
    pub fn can_freeze(&self, table: u32) -> bool {
        matches!(self.table(table).decl().kind, Kind::Exact | Kind::Array)
    }

    /// These tables as they are at `now`, of those that [can be](TableSet::can_freeze) frozen; `owner` names the owner of each.
    pub fn freeze(&self, tables: impl IntoIterator<Item = (u32, String)>, now: u64) -> Frozen {
        let tables = tables.into_iter().filter(|(t, _)| self.can_freeze(*t));
        let tables = tables.map(|(number, owner)| self.table(number).freeze(number, owner)).collect();
        Frozen { now, tables }
    }

    /// Does here what changed elsewhere. `place` gives the number of each table by its owner and name; those without one are left out.
    ///
    /// # Errors
    /// A table is another one, or has no space. What came before is done.
    pub fn absorb(
        &mut self,
        changes: &Changes,
        now: u64,
        place: impl Fn(&str, &str) -> Option<u32>,
    ) -> Result<(), RestoreError> {
        let places: Vec<Option<u32>> = changes.tables.iter().map(|c| place(&c.owner, &c.decl.name)).collect();
        for (c, table) in changes.tables.iter().zip(&places) {
            if let Some(table) = table {
                self.table_mut(*table).absorb(c, now)?;
            }
        }
        for (c, table) in changes.tables.iter().zip(&places) {
            let Some(table) = *table else { continue };
            for row in &c.rows {
                let Some((other, key)) = &row.link else { continue };
                let Some(Some(other)) = places.get(*other).copied() else { continue };
                let entry = |table: u32, key: &Key| {
                    Some(EntryRef { table, slot: self.table(table).find_row(&key.matches(), 0)? })
                };
                if let (Some(a), Some(b)) = (entry(table, &row.key), entry(other, key)) {
                    self.link(a, b);
                }
            }
        }
        Ok(())
    }
}

impl Table {
    fn freeze(&self, number: u32, owner: String) -> FrozenTable {
        let words = self.used as usize * self.layout.stride / 8;
        let held =
            self.held.keys().map(|&slot| (slot, self.held_packets(slot).map(HeldPacket::take).collect()));
        FrozenTable {
            owner,
            number,
            decl: self.decl.clone(),
            layout: self.layout.clone(),
            words: self.rows.words()[..words].to_vec(),
            used: self.used,
            held: held.collect(),
        }
    }

    fn absorb(&mut self, c: &TableChanges, now: u64) -> Result<(), RestoreError> {
        let owner = || c.owner.clone();
        if self.decl.key != c.decl.key || self.decl.kind != c.decl.kind || self.decl.value != c.decl.value {
            let expected = self.decl.key.iter().map(|f| format!("{}:{}", f.name, f.width.bits()));
            return Err(RestoreError::Key {
                owner: owner(),
                expected: expected.collect::<Vec<_>>().join(" "),
            });
        }
        if c.all {
            self.clear();
        }
        for key in &c.gone {
            if let Some(slot) = self.find_row(&key.matches(), 0) {
                drop(self.remove_slot(slot));
            }
        }
        for changed in &c.rows {
            let row = Row {
                key: changed.key.matches(),
                value: changed.value.0.clone(),
                priority: 0,
                ttl: changed.ttl,
            };
            let slot =
                self.insert_row(&row, now).map_err(|source| RestoreError::Row { owner: owner(), source })?;
            self.set_partner(slot, None);
            drop(self.release(slot));
            for held in &changed.held {
                let packet = held.make().map_err(|_| RestoreError::Packet { owner: owner() })?;
                // A table that holds fewer packets keeps the oldest.
                drop(self.hold(slot, packet));
            }
        }
        Ok(())
    }
}

impl Frozen {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(|t| 8 * t.words.len()).sum()
    }

    /// What changed since tables were as they were `before`; without it, all that there is.
    pub fn since(&self, before: Option<&Frozen>) -> Changes {
        let tables = self.tables.iter().map(|t| {
            let same = |b: &&FrozenTable| b.owner == t.owner && b.decl == t.decl;
            self.changes(t, before.and_then(|b| b.tables.iter().find(same)))
        });
        Changes { tables: tables.collect() }
    }

    fn changes(&self, t: &FrozenTable, before: Option<&FrozenTable>) -> TableChanges {
        let (mut gone, mut rows) = (Vec::new(), Vec::new());
        for slot in 0..t.used.max(before.map_or(0, |b| b.used)) {
            let (was, is) = (before.and_then(|b| b.row(slot)), t.row(slot));
            if let (Some(before), Some(was), Some(is)) = (before, was, is)
                && t.is_same(was, is)
                && !before.held.contains_key(&slot)
                && !t.held.contains_key(&slot)
            {
                continue;
            }
            if let Some(before) = before.filter(|_| was.is_some()) {
                let key = before.key(slot);
                if is.is_none() || t.key(slot) != key {
                    gone.push(key);
                }
            }
            if is.is_some() {
                rows.push(self.changed(t, slot));
            }
        }
        TableChanges { owner: t.owner.clone(), decl: t.decl.clone(), all: before.is_none(), gone, rows }
    }

    fn changed(&self, t: &FrozenTable, slot: u32) -> Changed {
        let expires = Some(t.word(slot, t.layout.expires)).filter(|&w| w != NEVER);
        let link = t.partner(slot).and_then(|partner| {
            let other = self.tables.iter().position(|o| o.number == partner.table)?;
            let of = &self.tables[other];
            // Only ends that name each other are linked.
            (of.partner(partner.slot)? == EntryRef { table: t.number, slot })
                .then(|| (other, of.key(partner.slot)))
        });
        Changed {
            key: t.key(slot),
            value: Key((0..t.decl.value.len()).map(|f| t.value(slot, f)).collect()),
            ttl: expires.map(|e| e.saturating_sub(self.now).max(1)),
            held: t.held.get(&slot).cloned().unwrap_or_default(),
            link,
        }
    }
}

impl Changes {
    /// Number of entries that are new or not as they were, and of those that have gone.
    pub fn len(&self) -> usize {
        self.tables.iter().map(|t| t.rows.len() + t.gone.len()).sum()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && !self.tables.iter().any(|t| t.all)
    }

    /// The owner and the declaration of each table.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &TableDecl)> {
        self.tables.iter().map(|t| (t.owner.as_str(), &t.decl))
    }

    /// The same with other names for owners, which `rename` gives by owner and name of a table; tables to which it gives none are left out, and links to
    /// entries of them.
    #[must_use]
    pub fn select(self, rename: impl Fn(&str, &str) -> Option<String>) -> Changes {
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut tables = Vec::new();
        for (i, t) in self.tables.into_iter().enumerate() {
            if let Some(owner) = rename(&t.owner, &t.decl.name) {
                numbers.insert(i, tables.len());
                tables.push(TableChanges { owner, ..t });
            }
        }
        for row in tables.iter_mut().flat_map(|t| &mut t.rows) {
            row.link = row.link.take().and_then(|(table, key)| Some((*numbers.get(&table)?, key)));
        }
        Changes { tables }
    }

    /// The same in pieces of at most so many entries, to be absorbed one after the other: then nobody waits long in between.
    pub fn pieces(self, most: usize) -> Vec<Changes> {
        let most = most.max(1);
        let heads = |all: bool, tables: &[TableChanges]| -> Vec<TableChanges> {
            let head = |t: &TableChanges| TableChanges {
                all: all && t.all,
                gone: Vec::new(),
                rows: Vec::new(),
                owner: t.owner.clone(),
                decl: t.decl.clone(),
            };
            tables.iter().map(head).collect()
        };
        // All that goes first makes place for what comes.
        let mut first = heads(true, &self.tables);
        let others = heads(false, &self.tables);
        let mut pieces = Vec::new();
        let mut rows = Vec::new();
        for (i, t) in self.tables.into_iter().enumerate() {
            first[i].gone = t.gone;
            rows.extend(t.rows.into_iter().map(|row| (i, row)));
        }
        pieces.push(Changes { tables: first });
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let full = pieces.last().is_none_or(|p| p.tables.iter().map(|t| t.rows.len()).sum::<usize>() > 0);
            if full {
                pieces.push(Changes { tables: others.clone() });
            }
            if let Some(piece) = pieces.last_mut() {
                rows.by_ref().take(most).for_each(|(i, row)| piece.tables[i].rows.push(row));
            }
        }
        pieces
    }
}

impl Key {
    fn matches(&self) -> Vec<KeyMatch> {
        self.0.iter().map(|&v| KeyMatch::Exact(v)).collect()
    }
}

impl FrozenTable {
    /// The words of a slot's row, if it has an entry.
    fn row(&self, slot: u32) -> Option<&[u64]> {
        let stride = self.layout.stride / 8;
        let row = self.words.get(slot as usize * stride..(slot as usize + 1) * stride)?;
        (row[self.layout.link / 8] != NO_ENTRY).then_some(row)
    }

    /// Whether rows say the same. When the timer of an entry fires is no part of what it says.
    fn is_same(&self, a: &[u64], b: &[u64]) -> bool {
        let armed = self.layout.armed / 8;
        a[..armed] == b[..armed] && a[armed + 1..] == b[armed + 1..]
    }

    fn word(&self, slot: u32, at: usize) -> u64 {
        self.words[(slot as usize * self.layout.stride + at) / 8]
    }

    fn key(&self, slot: u32) -> Key {
        if self.decl.kind == Kind::Array {
            return Key(vec![slot.into()]);
        }
        let words = &self.words[slot as usize * self.layout.stride / 8..][..self.layout.key_words];
        let field = |at: &crate::layout::KeyField| {
            let low = u128::from(words[at.word] >> at.shift);
            let high = words.get(at.word + 1).map_or(0, |&w| u128::from(w) << 64);
            network_order(at.width, (low | high) & at.width.max())
        };
        Key(self.layout.key.iter().map(field).collect())
    }

    fn value(&self, slot: u32, field: usize) -> u128 {
        let width = self.decl.value[field].width;
        let at = slot as usize * self.layout.stride + self.layout.value[field];
        let low = u128::from(self.words[at / 8] >> (8 * (at % 8)));
        let high = if width.bytes() == 16 { u128::from(self.words[at / 8 + 1]) << 64 } else { 0 };
        let v = (low | high) & width.max();
        if self.layout.network[field] { network_order(width, v) } else { v }
    }

    fn partner(&self, slot: u32) -> Option<EntryRef> {
        let other = self.row(slot)?[self.layout.link / 8].checked_sub(link_word(0, 0))?;
        Some(EntryRef { table: (other >> 32) as u32, slot: other as u32 })
    }
}

#[cfg(test)]
mod tests;
