//! Tables as lists, without any index.

use std::collections::VecDeque;

use weir_table::{KeyMatch, Kind, Row, TableDecl};

/// An entry of the model.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Never used again for another entry.
    pub id: u64,
    /// Where the real table has it.
    pub slot: u32,
    pub key: Vec<KeyMatch>,
    pub priority: i32,
    pub value: Vec<u128>,
    pub expires: u64,
    pub held: VecDeque<u8>,
    /// Number of its link, which one other entry has too.
    pub link: Option<u64>,
}

/// A table of the model: entries in the order of their coming.
#[derive(Debug, Clone)]
pub struct Naive {
    pub decl: TableDecl,
    pub entries: Vec<Entry>,
}

impl Naive {
    pub fn new(decl: TableDecl) -> Naive {
        let mut t = Naive { decl, entries: Vec::new() };
        t.clear();
        t
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        if self.decl.kind == Kind::Array {
            let entry = |slot: u32| Entry {
                id: slot.into(),
                slot,
                key: vec![KeyMatch::Exact(slot.into())],
                priority: 0,
                value: vec![0; self.decl.value.len()],
                expires: 0,
                held: VecDeque::new(),
                link: None,
            };
            self.entries = (0..self.decl.capacity).map(entry).collect();
        }
    }

    fn bits(&self, field: usize) -> u32 {
        self.decl.key[field].width.bits()
    }

    /// A row's key in the one form in which the table shows it.
    pub fn normal(&self, key: &[KeyMatch]) -> Vec<KeyMatch> {
        if self.decl.kind != Kind::Lpm {
            return key.to_vec();
        }
        let bits = self.bits(0);
        let (v, n) = match key[0] {
            KeyMatch::Exact(v) => (v, bits),
            KeyMatch::Prefix(v, n) => (v, n),
            _ => (0, 0),
        };
        let low = if n == 0 { u128::MAX } else { (1u128 << (bits - n)) - 1 };
        vec![KeyMatch::Prefix(v & !low, n)]
    }

    /// Whether a row of the right length fits the declaration.
    pub fn fits(&self, row: &Row) -> bool {
        let values = row.value.iter().zip(&self.decl.value).all(|(&v, f)| v <= f.width.max());
        let mut keys = row.key.iter().zip(&self.decl.key);
        values
            && keys.all(|(m, f)| {
                let (max, bits) = (f.width.max(), f.width.bits());
                match (self.decl.kind, *m) {
                    (Kind::Array, KeyMatch::Exact(v)) => v < self.decl.capacity.into(),
                    (_, KeyMatch::Exact(v)) => v <= max,
                    (Kind::Lpm | Kind::Rules, KeyMatch::Prefix(v, n)) => v <= max && n <= bits,
                    (Kind::Lpm, m) => m == KeyMatch::ANY,
                    (Kind::Rules, KeyMatch::Mask(v, _)) => v <= max,
                    (Kind::Rules, KeyMatch::Range(lo, hi)) => lo <= hi && hi <= max,
                    (Kind::Exact | Kind::Array, _) => false,
                }
            })
    }

    /// The entry with this (normal) key and priority.
    pub fn find(&self, key: &[KeyMatch], priority: i32) -> Option<usize> {
        let same = |e: &Entry| e.key == key && (self.decl.kind != Kind::Rules || e.priority == priority);
        self.entries.iter().position(same)
    }

    fn matches(&self, m: KeyMatch, v: u128, field: usize) -> bool {
        match m {
            KeyMatch::Exact(k) => k == v,
            KeyMatch::Mask(k, mask) => (0..128).all(|i| mask >> i & 1 == 0 || k >> i & 1 == v >> i & 1),
            KeyMatch::Range(lo, hi) => (lo..=hi).contains(&v),
            KeyMatch::Prefix(k, n) => {
                (0..n).map(|i| self.bits(field) - 1 - i).all(|i| k >> i & 1 == v >> i & 1)
            }
        }
    }

    /// The slot that a key finds: the best of all that match.
    pub fn lookup(&self, key: &[u128]) -> Option<u32> {
        let mut best: Option<&Entry> = None;
        for e in &self.entries {
            let all = e.key.iter().zip(key).enumerate().all(|(f, (&m, &v))| self.matches(m, v, f));
            let better = |b: &Entry| match (e.key[0], b.key[0]) {
                (KeyMatch::Prefix(_, n), KeyMatch::Prefix(_, m)) if self.decl.kind == Kind::Lpm => n > m,
                _ => e.priority > b.priority,
            };
            if all && best.is_none_or(better) {
                best = Some(e);
            }
        }
        best.map(|e| e.slot)
    }

    /// The rows in the order in which the table lists them.
    pub fn rows(&self) -> Vec<(u32, Row)> {
        let mut all: Vec<&Entry> = self.entries.iter().collect();
        match self.decl.kind {
            Kind::Exact | Kind::Array => all.sort_by_key(|e| e.slot),
            Kind::Lpm => all.sort_by_key(|e| match e.key[0] {
                KeyMatch::Prefix(v, n) => (128 - n, v),
                _ => unreachable!("keys are normal"),
            }),
            Kind::Rules => all.sort_by_key(|e| std::cmp::Reverse(e.priority)),
        }
        let priority = |e: &Entry| if self.decl.kind == Kind::Rules { e.priority } else { 0 };
        let row =
            |e: &Entry| Row { key: e.key.clone(), value: e.value.clone(), priority: priority(e), ttl: None };
        all.into_iter().map(|e| (e.slot, row(e))).collect()
    }
}
