//! What the control side does with a table: rows, as people and snapshots see them.

use super::Table;
use crate::decl::{FieldDecl, Kind};
use crate::finder::Finder;
use crate::row::{KeyMatch, Row};

/// An edit from the control side that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// All entries are taken.
    #[error("table '{table}' is full ({capacity} entries)")]
    Full {
        /// The table's name.
        table: String,
        /// Its capacity.
        capacity: u32,
    },
    /// The row does not fit the declaration.
    #[error("table '{table}': {what}")]
    Shape {
        /// The table's name.
        table: String,
        /// What does not fit, and what would.
        what: String,
    },
}

impl Table {
    /// Adds a row, or replaces the one with the same key (and, for rules, priority).
    pub fn insert_row(&mut self, row: &Row, now: u64) -> Result<u32, EditError> {
        let slot = self.insert_one(row, now)?;
        self.finder.prepare();
        self.view.update(&self.finder);
        Ok(slot)
    }

    fn insert_one(&mut self, row: &Row, now: u64) -> Result<u32, EditError> {
        self.check_row(row)?;
        let full = || EditError::Full { table: self.decl.name.clone(), capacity: self.decl.capacity };
        let slot = match self.find_row(&row.key, row.priority) {
            Some(slot) => slot,
            None if self.len() >= self.decl.capacity => return Err(full()),
            None => self.place_row(row),
        };
        for (i, &v) in row.value.iter().enumerate() {
            self.write(slot, i as u32, v);
        }
        self.answer(slot);
        self.set_expiry(slot, row.ttl.map_or(0, |t| now.saturating_add(t).max(1)));
        self.epoch += 1;
        Ok(slot)
    }

    /// Adds rows, as [`insert_row`](Table::insert_row) does one by one, and builds the index once.
    ///
    /// # Errors
    /// The first row that cannot be added; those before it are.
    pub fn insert_rows<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a Row>,
        now: u64,
    ) -> Result<(), EditError> {
        let done = self.insert_rows_unindexed(rows, now);
        self.finder.settle();
        self.view.update(&self.finder);
        done
    }

    /// The same without an index: for tables that are asked a few times. Compiled code must not ask before
    /// [`insert_rows`](Table::insert_rows).
    ///
    /// # Errors
    /// The first row that cannot be added; those before it are.
    pub fn insert_rows_unindexed<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a Row>,
        now: u64,
    ) -> Result<(), EditError> {
        self.finder.hold();
        rows.into_iter().try_for_each(|row| self.insert_one(row, now).map(|_| ()))
    }

    /// The slot of the row with exactly this key (and, for rules, priority).
    pub fn find_row(&self, key: &[KeyMatch], priority: i32) -> Option<u32> {
        if key.len() != self.decl.key.len() {
            return None;
        }
        match &self.finder {
            Finder::Exact(_) | Finder::Array => {
                let fitting = |(m, f): (_, &FieldDecl)| exact_value(m).filter(|v| *v <= f.width.max());
                let exact: Option<Vec<u128>> = key.iter().zip(&self.decl.key).map(fitting).collect();
                self.lookup(&exact?)
            }
            Finder::Lpm { rows, .. } => {
                let (value, len) = as_prefix(key.first()?, self.decl.key[0].width.bits())?;
                rows.find(value, len)
            }
            Finder::Rules(rules) => rules.find(priority, key),
        }
    }

    /// All rows: rules and prefixes in the order of lookup, others by slot.
    pub fn rows(&self) -> Vec<(u32, Row)> {
        let row = |slot: u32, key: Vec<KeyMatch>, priority: i32| {
            let value = (0..self.decl.value.len() as u32).map(|f| self.get(slot, f)).collect();
            (slot, Row { key, value, priority, ttl: None })
        };
        match &self.finder {
            Finder::Exact(_) | Finder::Array => {
                let key = |s| (0..self.decl.key.len() as u32).map(move |f| KeyMatch::Exact(self.key(s, f)));
                self.slots().map(|s| row(s, key(s).collect(), 0)).collect()
            }
            Finder::Lpm { rows, .. } => {
                let mut all: Vec<_> = self.slots().map(|s| (rows.prefix(s), s)).collect();
                all.sort_unstable_by_key(|&((value, len), _)| (std::cmp::Reverse(len), value));
                all.into_iter().map(|((v, len), s)| row(s, vec![KeyMatch::Prefix(v, len)], 0)).collect()
            }
            Finder::Rules(rules) => rules.iter().map(|(p, key, slot)| row(slot, key.to_vec(), p)).collect(),
        }
    }

    fn check_row(&self, row: &Row) -> Result<(), EditError> {
        let shape = |what: String| Err(EditError::Shape { table: self.decl.name.clone(), what });
        if row.key.len() != self.decl.key.len() || row.value.len() != self.decl.value.len() {
            return shape(format!(
                "a row has {} key and {} value fields, not {} and {}",
                self.decl.key.len(),
                self.decl.value.len(),
                row.key.len(),
                row.value.len()
            ));
        }
        for (f, &v) in self.decl.value.iter().zip(&row.value) {
            if v > f.width.max() {
                return shape(format!("{v} does not fit '{}' ({} bits)", f.name, f.width.bits()));
            }
        }
        for (f, m) in self.decl.key.iter().zip(&row.key) {
            let (fits, right) = match (self.decl.kind, *m) {
                (Kind::Exact, KeyMatch::Exact(v)) => (v <= f.width.max(), "a value"),
                (Kind::Array, KeyMatch::Exact(v)) => (v < u128::from(self.decl.capacity), "an index"),
                (Kind::Exact | Kind::Array, _) => (false, "a value"),
                (Kind::Lpm, m) => (as_prefix(&m, f.width.bits()).is_some(), "a prefix"),
                (Kind::Rules, KeyMatch::Exact(v) | KeyMatch::Mask(v, _)) => (v <= f.width.max(), "a value"),
                (Kind::Rules, KeyMatch::Range(lo, hi)) => (lo <= hi && hi <= f.width.max(), "a range"),
                (Kind::Rules, KeyMatch::Prefix(v, n)) => {
                    (v <= f.width.max() && n <= f.width.bits(), "a prefix")
                }
            };
            if !fits {
                return shape(format!("{m:?} is not {right} of '{}' ({} bits)", f.name, f.width.bits()));
            }
        }
        Ok(())
    }

    /// Makes the entry of a checked row that is not there yet. One by prefix has no answer.
    fn place_row(&mut self, row: &Row) -> u32 {
        match self.decl.kind {
            Kind::Exact => {
                let key: Vec<u128> = row.key.iter().filter_map(exact_value).collect();
                self.insert(&key).expect("capacity was checked")
            }
            Kind::Array => unreachable!("every entry of an array is found"),
            Kind::Lpm | Kind::Rules => {
                let slot = self.take_slot().expect("capacity was checked");
                match &mut self.finder {
                    Finder::Lpm { rows, .. } => {
                        let bits = self.decl.key[0].width.bits();
                        let (value, len) = as_prefix(&row.key[0], bits).expect("row was checked");
                        rows.add(slot, value, len);
                    }
                    Finder::Rules(rules) => rules.insert(row.priority, &row.key, slot),
                    Finder::Exact(_) | Finder::Array => {}
                }
                self.view.update(&self.finder);
                slot
            }
        }
    }
}

fn exact_value(m: &KeyMatch) -> Option<u128> {
    match m {
        KeyMatch::Exact(v) => Some(*v),
        _ => None,
    }
}

fn as_prefix(m: &KeyMatch, bits: u32) -> Option<(u128, u32)> {
    let (value, len) = match *m {
        KeyMatch::Exact(v) => (v, bits),
        KeyMatch::Prefix(v, len) => (v, len),
        KeyMatch::Mask(0, 0) => (0, 0),
        _ => return None,
    };
    let fits = len <= bits && (bits == 128 || value >> bits == 0);
    fits.then(|| (prefix(value, len, bits), len))
}

fn prefix(v: u128, len: u32, bits: u32) -> u128 {
    if len == 0 { 0 } else { v >> (bits - len) << (bits - len) }
}
