//! What a core has last seen of remote state: bounded, the oldest goes first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

type Key = (String, Vec<u8>);

/// Bytes that an entry is counted with beside its key and value.
const ENTRY: usize = 128;

/// A bounded cache.
#[derive(Debug)]
pub(crate) struct Cache {
    limit: usize,
    bytes: usize,
    values: HashMap<Key, (u64, Arc<[u8]>)>,
    /// Keys in the order in which they came, each with the number that it came with; some are gone by now.
    order: VecDeque<(u64, Key)>,
    next: u64,
}

impl Cache {
    /// A cache that takes `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, bytes: 0, values: HashMap::new(), order: VecDeque::new(), next: 0 }
    }

    pub(crate) fn get(&self, table: &str, key: &[u8]) -> Option<Arc<[u8]>> {
        self.values.get(&(table.to_owned(), key.to_owned())).map(|(_, value)| value.clone())
    }

    /// Sets a value; one that was there keeps its place in the order.
    pub(crate) fn set(&mut self, table: &str, key: &[u8], value: Arc<[u8]>) {
        let key = (table.to_owned(), key.to_owned());
        if let Some((_, old)) = self.values.get_mut(&key) {
            self.bytes = self.bytes - old.len() + value.len();
            *old = value;
        } else {
            self.bytes += size(&key, &value);
            self.order.push_back((self.next, key.clone()));
            self.values.insert(key, (self.next, value));
            self.next += 1;
        }
        while self.bytes > self.limit
            && let Some((number, key)) = self.order.pop_front()
        {
            if self.values.get(&key).is_some_and(|(n, _)| *n == number) {
                self.remove(&key);
            }
        }
        if self.order.len() > 2 * self.values.len() + 16 {
            let values = &self.values;
            self.order.retain(|(number, key)| values.get(key).is_some_and(|(n, _)| n == number));
        }
    }

    pub(crate) fn forget(&mut self, table: &str, key: &[u8]) {
        self.remove(&(table.to_owned(), key.to_owned()));
    }

    fn remove(&mut self, key: &Key) {
        if let Some((_, value)) = self.values.remove(key) {
            self.bytes -= size(key, &value);
        }
    }
}

fn size((table, key): &Key, value: &[u8]) -> usize {
    // The key stands twice.
    2 * (table.len() + key.len()) + value.len() + ENTRY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(cache: &Cache) -> Vec<u8> {
        (0..100).filter(|k| cache.get("t", &[*k]).is_some()).collect()
    }

    #[test]
    fn the_oldest_goes_first_and_an_update_keeps_its_place() {
        let one = size(&("t".into(), vec![0]), &[0; 10]);
        let mut cache = Cache::new(3 * one);
        for key in 0..3 {
            cache.set("t", &[key], [0; 10].into());
        }
        cache.set("t", &[0], [1; 10].into());
        assert_eq!(keys(&cache), [0, 1, 2]);
        cache.set("t", &[3], [0; 10].into());
        assert_eq!(keys(&cache), [1, 2, 3]);
        cache.forget("t", &[2]);
        cache.set("t", &[4], [0; 10].into());
        assert_eq!(keys(&cache), [1, 3, 4]);
        // One that came again is younger than it was.
        cache.set("t", &[2], [0; 10].into());
        assert_eq!(keys(&cache), [2, 3, 4]);
        cache.set("t", &[5], vec![0; 10 * one].into());
        assert_eq!((keys(&cache), cache.bytes), (vec![], 0), "a value that does not fit is not cached");
    }

    #[test]
    fn keys_that_come_and_go_use_up_no_memory() {
        let mut cache = Cache::new(1 << 20);
        for n in 0..10_000u32 {
            cache.set("t", &n.to_le_bytes(), [0; 10].into());
            cache.forget("t", &n.to_le_bytes());
        }
        assert!(cache.order.len() < 40);
        assert_eq!(cache.bytes, 0);
    }
}
