//! What the control side does with a table: rows, as people and snapshots see them.

use std::collections::HashMap;

use super::{Rule, Table, prefix};
use crate::decl::{FieldDecl, Kind};
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
        self.check_row(row)?;
        let full = || EditError::Full { table: self.decl.name.clone(), capacity: self.decl.capacity };
        let slot = match self.find_row(&row.key, row.priority) {
            Some(slot) => slot,
            None if self.live >= self.decl.capacity => return Err(full()),
            None => self.place_row(row),
        };
        for (i, &v) in row.value.iter().enumerate() {
            self.set(slot, i as u32, v);
        }
        self.set_expiry(slot, row.ttl.map_or(0, |t| now.saturating_add(t).max(1)));
        self.epoch += 1;
        Ok(slot)
    }

    /// The slot of the row with exactly this key (and, for rules, priority).
    pub fn find_row(&self, key: &[KeyMatch], priority: i32) -> Option<u32> {
        if key.len() != self.decl.key.len() {
            return None;
        }
        match self.decl.kind {
            Kind::Exact | Kind::Array => {
                let fitting = |(m, f): (_, &FieldDecl)| exact_value(m).filter(|v| *v <= f.width.max());
                let exact: Option<Vec<u128>> = key.iter().zip(&self.decl.key).map(fitting).collect();
                self.lookup(&exact?)
            }
            Kind::Lpm => {
                let (value, len) = as_prefix(key.first()?, self.decl.key[0].width.bits())?;
                let (_, map) = self.prefixes.iter().find(|(l, _)| *l == len)?;
                map.get(&value).copied()
            }
            Kind::Rules => self.rules.iter().find(|r| r.priority == priority && r.key == key).map(|r| r.slot),
        }
    }

    /// All rows: rules and prefixes in the order of lookup, others by slot.
    pub fn rows(&self) -> Vec<(u32, Row)> {
        let row = |slot: u32, key: Vec<KeyMatch>, priority: i32| {
            let value = (0..self.decl.value.len() as u32).map(|f| self.get(slot, f)).collect();
            (slot, Row { key, value, priority, ttl: None })
        };
        match self.decl.kind {
            Kind::Exact | Kind::Array => (0..self.slots.len() as u32)
                .filter(|&s| self.slots[s as usize].live)
                .map(|s| {
                    row(
                        s,
                        (0..self.decl.key.len() as u32).map(|f| KeyMatch::Exact(self.key(s, f))).collect(),
                        0,
                    )
                })
                .collect(),
            Kind::Lpm => {
                let mut all = Vec::new();
                for (len, map) in &self.prefixes {
                    let mut one: Vec<_> = map.iter().map(|(&k, &s)| (k, s)).collect();
                    one.sort_unstable();
                    all.extend(one.into_iter().map(|(k, s)| row(s, vec![KeyMatch::Prefix(k, *len)], 0)));
                }
                all
            }
            Kind::Rules => self.rules.iter().map(|r| row(r.slot, r.key.clone(), r.priority)).collect(),
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

    /// Makes the entry of a checked row that is not there yet.
    fn place_row(&mut self, row: &Row) -> u32 {
        match self.decl.kind {
            Kind::Exact => {
                let key: Vec<u128> = row.key.iter().filter_map(exact_value).collect();
                self.insert(&key).expect("capacity was checked")
            }
            Kind::Array => unreachable!("every entry of an array is found"),
            Kind::Lpm => {
                let slot = self.take_slot().expect("capacity was checked");
                let (value, len) =
                    as_prefix(&row.key[0], self.decl.key[0].width.bits()).expect("row was checked");
                let at = self.prefixes.partition_point(|(l, _)| *l > len);
                if self.prefixes.get(at).is_none_or(|(l, _)| *l != len) {
                    self.prefixes.insert(at, (len, HashMap::new()));
                }
                self.prefixes[at].1.insert(value, slot);
                self.prefix_of.resize(self.slots.len(), (0, 0));
                self.prefix_of[slot as usize] = (value, len);
                slot
            }
            Kind::Rules => {
                let slot = self.take_slot().expect("capacity was checked");
                let at = self.rules.partition_point(|r| r.priority >= row.priority);
                self.rules.insert(at, Rule { priority: row.priority, key: row.key.clone(), slot });
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
