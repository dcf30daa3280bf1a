//! What tables are in the kernel: maps, and where the fields of an entry lie in them.

use weir_ir::program::{Program, TableId, Width};

use weir_table::{KeyMatch, Kind, Row, TableDecl};

use crate::usage::Usage;

/// The kind of a map (`enum bpf_map_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// A hash table.
    Hash = 1,
    /// An array of one value.
    Array = 2,
    /// An array of one value for each processor.
    PerCpuArray = 6,
    /// Interfaces, for XDP.
    DevMap = 14,
    /// Longest prefix first.
    LpmTrie = 11,
}

/// The purpose of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A table of the program.
    Table(u32),
    /// How often packets ended in each of [`Object::ends`](crate::Object::ends): packets and bytes, 64 bits each.
    Ends,
    /// Interfaces by the number of the exit: indices of 32 bits.
    Ports,
    /// The time, for tests: nanoseconds in 64 bits.
    Clock,
}

/// A map to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// What it is for. Programs of one graph share maps of one role.
    pub role: Role,
    /// Its kind.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value.
    pub value: u32,
    /// Most entries.
    pub entries: u32,
}

/// Most bytes of a key, and of the values of an entry that packets make: they are put together on the stack.
pub const MOST_BYTES: u32 = 96;

/// Most bytes of an array, which is one value of a map; of one for each processor.
const MOST_ARRAY: u32 = 1 << 22;
const MOST_PER_CPU: u32 = 1 << 15;

/// Where the fields of a table's entries lie. Numbers are in the byte order of the machine, 128 bits as two words, the lower
/// first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Its map.
    pub kind: MapKind,
    /// Number of entries.
    pub capacity: u32,
    /// Offset and width of each key field in a key.
    pub key: Vec<(u32, Width)>,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Offset and width of each value field in an entry.
    pub value: Vec<(u32, Width)>,
    /// Offset of the time when the entry expires (64 bits; 0: never).
    pub expiry: u32,
    /// Offset of a copy of the key, if programs ask for it.
    pub key_copy: Option<u32>,
    /// Bytes of an entry.
    pub stride: u32,
}

/// Bytes that a number of this width takes, and is aligned to.
fn bytes(w: Width) -> (u32, u32) {
    (w.bytes(), w.bytes().min(8))
}

fn place(fields: impl Iterator<Item = Width>, at: &mut u32) -> Vec<(u32, Width)> {
    fields
        .map(|w| {
            let (size, align) = bytes(w);
            let off = at.next_multiple_of(align);
            *at = off + size;
            (off, w)
        })
        .collect()
}

impl Layout {
    /// The layout of a table that is used so; `None` if it cannot be a map.
    pub fn of(decl: &TableDecl, usage: &Usage) -> Option<Layout> {
        let kind = match decl.kind {
            Kind::Exact => MapKind::Hash,
            Kind::Lpm => MapKind::LpmTrie,
            Kind::Array if usage.sums => MapKind::PerCpuArray,
            Kind::Array => MapKind::Array,
            Kind::Rules => return None,
        };
        let mut at = if kind == MapKind::LpmTrie { 4 } else { 0 };
        let key = match kind {
            // Its bytes, in network byte order, follow the length of the prefix.
            MapKind::LpmTrie => {
                at += decl.key[0].width.bytes();
                vec![(4, decl.key[0].width)]
            }
            _ => place(decl.key.iter().map(|f| f.width), &mut at),
        };
        let key_bytes = if kind == MapKind::LpmTrie { at } else { at.next_multiple_of(4) };
        let mut at = 0;
        let value = place(decl.value.iter().map(|f| f.width), &mut at);
        let expiry = at.next_multiple_of(8);
        let mut stride = expiry + 8;
        let key_copy = usage.keys.then_some(stride);
        if usage.keys {
            stride = (stride + key_bytes).next_multiple_of(8);
        }
        Some(Layout { kind, capacity: decl.capacity, key, key_bytes, value, expiry, key_copy, stride })
    }

    /// Whether all entries are one value of the map.
    pub fn is_array(&self) -> bool {
        matches!(self.kind, MapKind::Array | MapKind::PerCpuArray)
    }

    /// What is too large of it: what, bytes, and how many are possible.
    pub fn too_wide(&self, inserts: bool) -> Option<(&'static str, u32, u32)> {
        let whole = self.stride.saturating_mul(self.capacity);
        match self.kind {
            MapKind::PerCpuArray if whole > MOST_PER_CPU => Some(("in all", whole, MOST_PER_CPU)),
            MapKind::Array if whole > MOST_ARRAY => Some(("in all", whole, MOST_ARRAY)),
            MapKind::PerCpuArray | MapKind::Array => None,
            _ if self.key_bytes > MOST_BYTES => Some(("of keys", self.key_bytes, MOST_BYTES)),
            _ if inserts && self.stride > MOST_BYTES => Some(("of values", self.stride, MOST_BYTES)),
            _ => None,
        }
    }

    /// The map of a table.
    pub fn map(&self, table: TableId) -> Map {
        let (key, value, entries) = match self.is_array() {
            true => (4, self.stride * self.capacity, 1),
            false => (self.key_bytes, self.stride, self.capacity),
        };
        Map { role: Role::Table(table.0), kind: self.kind, key, value, entries }
    }

    /// A row as key and value of the map, at a time. The key of an array is the index of the row.
    ///
    /// `None` if the table cannot hold it.
    pub fn encode(&self, row: &Row, now: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut key = vec![0; self.key_bytes as usize];
        for (m, &(off, w)) in row.key.iter().zip(&self.key) {
            match (*m, self.kind) {
                (KeyMatch::Prefix(k, len), MapKind::LpmTrie) => {
                    key[..4].copy_from_slice(&len.to_ne_bytes());
                    let size = w.bytes() as usize;
                    key[4..4 + size].copy_from_slice(&k.to_be_bytes()[16 - size..]);
                }
                (KeyMatch::Exact(k), MapKind::LpmTrie) => {
                    key[..4].copy_from_slice(&w.bits().to_ne_bytes());
                    let size = w.bytes() as usize;
                    key[4..4 + size].copy_from_slice(&k.to_be_bytes()[16 - size..]);
                }
                (KeyMatch::Exact(k), _) => put(&mut key, off, w, k),
                _ => return None,
            }
        }
        let mut value = vec![0; self.stride as usize];
        for (v, &(off, w)) in row.value.iter().zip(&self.value) {
            put(&mut value, off, w, *v);
        }
        let expiry = row.ttl.map_or(0, |ttl| now + ttl);
        put(&mut value, self.expiry, Width::W64, expiry.into());
        if let Some(at) = self.key_copy {
            value[at as usize..][..key.len()].copy_from_slice(&key);
        }
        Some((key, value))
    }

    /// Key and value of the map as a row, at a time.
    pub fn decode(&self, key: &[u8], value: &[u8], now: u64) -> Row {
        let key = match self.kind {
            MapKind::LpmTrie => {
                let len = key[..4].iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
                vec![KeyMatch::Prefix(key[4..].iter().fold(0, |n, b| n << 8 | u128::from(*b)), len)]
            }
            _ => self.key.iter().map(|&(off, w)| KeyMatch::Exact(get(key, off, w))).collect(),
        };
        let expiry = get(value, self.expiry, Width::W64) as u64;
        Row {
            key,
            value: self.value.iter().map(|&(off, w)| get(value, off, w)).collect(),
            priority: 0,
            ttl: (expiry != 0).then(|| expiry.saturating_sub(now)),
        }
    }
}

fn put(to: &mut [u8], off: u32, w: Width, v: u128) {
    let size = w.bytes() as usize;
    to[off as usize..][..size].copy_from_slice(&v.to_le_bytes()[..size]);
}

fn get(from: &[u8], off: u32, w: Width) -> u128 {
    from[off as usize..][..w.bytes() as usize].iter().rev().fold(0, |n, b| n << 8 | u128::from(*b))
}

/// The layouts of a program's tables, by number; `None` for what cannot be a map.
pub fn layouts(program: &Program, usage: &[Usage]) -> Vec<Option<Layout>> {
    program.tables.iter().zip(usage).map(|(t, u)| Layout::of(&t.decl, u)).collect()
}
