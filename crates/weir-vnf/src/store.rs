//! Local state: tables of keys and values, shared by all cores of a function.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// More shards than cores, so that two cores seldom want the same lock.
const SHARDS: usize = 64;

type Entries = HashMap<(String, Vec<u8>), Arc<[u8]>>;

/// Tables of keys (any bytes) and values (any size), shared by all cores. A value that was read stays valid and unchanged as long as
/// its `Arc` is held, whatever becomes of the entry.
#[derive(Debug, Default)]
pub struct Store {
    shards: Vec<Mutex<Entries>>,
    hasher: RandomState,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    fn shard(&self, table: &str, key: &[u8]) -> MutexGuard<'_, Entries> {
        let n = self.hasher.hash_one((table, key)) as usize % self.shards.len();
        self.shards[n].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the value of a key.
    pub fn set(&self, table: &str, key: &[u8], value: &[u8]) {
        self.shard(table, key).insert((table.to_owned(), key.to_owned()), value.into());
    }

    /// The value of a key.
    pub fn get(&self, table: &str, key: &[u8]) -> Option<Arc<[u8]>> {
        self.shard(table, key).get(&(table.to_owned(), key.to_owned())).cloned()
    }

    /// Deletes a key; whether it was there.
    pub fn delete(&self, table: &str, key: &[u8]) -> bool {
        self.shard(table, key).remove(&(table.to_owned(), key.to_owned())).is_some()
    }

    /// Replaces the value of a key by what `change` makes of it (`None`: the key is not there, or is to go), atomically for all cores.
    /// `change` runs under a lock: it must be short, and must not use the store.
    pub fn update(&self, table: &str, key: &[u8], change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) {
        let mut shard = self.shard(table, key);
        let at = (table.to_owned(), key.to_owned());
        match change(shard.get(&at).map(|v| &**v)) {
            Some(value) => shard.insert(at, value.into()),
            None => shard.remove(&at),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_apart_and_values_outlive_their_entries() {
        let store = Store::new();
        store.set("a", b"k", b"1");
        store.set("b", b"k", b"2");
        let held = store.get("a", b"k").expect("it was set");
        assert!(store.delete("a", b"k"));
        assert!(!store.delete("a", b"k"));
        assert_eq!(&*held, b"1");
        assert_eq!(store.get("b", b"k").as_deref(), Some(&b"2"[..]));
    }

    #[test]
    fn updates_of_several_threads_are_all_counted() {
        let store = Store::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        store.update("t", b"n", |old| {
                            Some(
                                (old.map_or(0, |o| o[0] as u32 + 256 * o[1] as u32) + 1)
                                    .to_le_bytes()
                                    .to_vec(),
                            )
                        });
                    }
                });
            }
        });
        assert_eq!(&store.get("t", b"n").expect("it was set")[..2], 4000u16.to_le_bytes());
    }
}
