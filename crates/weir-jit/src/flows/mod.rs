//! The per-flow fast path: what the lookups of a flow find is kept as one entry, found by a hash of the first key.
//!
//! Lookups in rules cost tens to hundreds of nanoseconds, and packets of a flow repeat them with the same keys. A *group*
//! is such a lookup, its leader, and lookups that packets reach only through it. A group has a cache, set-associative: a
//! packet's entry is one of two that follow from the leader's key. The entry has a section for each lookup of the group: the key, and the
//! row that it found or that it found none. A lookup compares its own key with its section's, so that what it takes from
//! there is what its table would answer, whatever else led to the entry: elements in between may rewrite the packet.
//! Only lookups are kept; all effects are the program's own.
//!
//! - [`CachePlan`]: which lookups, from the program alone.
//! - [`crate::translate::flow_lookup`]: what they become.
//! - [`cache`]: the memory, and when it is forgotten: whenever a table of the group has changed.
//! - [`policy`]: whether it pays.

pub(crate) mod cache;
mod policy;
pub(crate) mod slices;
#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;
use weir_ir::program::{BlockId, End, Op, Program, TableId, Type, Value, Width};
use weir_table::Kind;

use crate::analysis::dominators::Dominators;

pub use cache::{FlowCache, Flows};

/// Most words of a key.
pub(crate) const MOST_WORDS: usize = 8;
/// Most bytes of an entry: two pairs of cache lines.
const MOST_BYTES: usize = 256;
/// Entries that may be a packet's: a set, on one cache line or on neighbours.
pub(crate) const WAYS: usize = 2;
/// Bytes of the smallest entry.
const LEAST_BYTES: usize = 32;

/// A lookup whose results are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    pub table: TableId,
    pub group: usize,
    /// Whether entries are found by its key.
    pub leads: bool,
    /// Where its section is in an entry, in bytes: the words of the key, and one for the rest ([`cache`]).
    pub section: usize,
    /// Words of its key.
    pub words: usize,
}

/// Lookups with one cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub sites: Vec<usize>,
    /// Bytes of an entry, a power of two.
    pub stride: usize,
    /// Words of the leader's key.
    words: usize,
    used: usize,
}

/// The lookups of a program whose results are kept.
#[derive(Debug, Default)]
pub(crate) struct CachePlan {
    pub sites: Vec<Site>,
    pub groups: Vec<Group>,
    by_block: FxHashMap<BlockId, usize>,
}

impl CachePlan {
    /// Chooses among the lookups of a checked program.
    pub fn of(p: &Program) -> CachePlan {
        let mut plan = CachePlan::default();
        if !p.tables.iter().any(|t| matches!(t.decl.kind, Kind::Rules | Kind::Lpm)) {
            return plan;
        }
        let dominators = Dominators::of(p);
        let changed = changed(p);
        let mut leaders: Vec<(BlockId, usize)> = Vec::new();
        for &id in dominators.order() {
            let End::Lookup { table, key, .. } = &p.block(id).end else { continue };
            let decl = &p.tables[table.0 as usize].decl;
            let words = words(p, key);
            if !matches!(decl.kind, Kind::Rules | Kind::Lpm)
                || changed[table.0 as usize]
                || words > MOST_WORDS
            {
                continue;
            }
            let bytes = 8 * (words + 1);
            // A longer key than the leader's has several values for one of those, and would push them out in turn.
            let space = |g: &Group| g.used + bytes <= MOST_BYTES && words <= g.words;
            let found = leaders
                .iter()
                .rev()
                .find(|&&(leader, g)| dominators.dominate(leader, id) && space(&plan.groups[g]));
            let group = match found {
                Some(&(_, group)) => group,
                // IPv4 addresses have an index that answers at once.
                None if decl.kind == Kind::Lpm && decl.key[0].width <= Width::W32 => continue,
                None => {
                    leaders.push((id, plan.groups.len()));
                    plan.groups.push(Group { words, ..Group::default() });
                    plan.groups.len() - 1
                }
            };
            plan.add(id, *table, group, words);
        }
        plan
    }

    fn add(&mut self, id: BlockId, table: TableId, group: usize, words: usize) {
        let number = self.sites.len();
        let g = &mut self.groups[group];
        let site = Site { table, group, leads: g.sites.is_empty(), section: g.used, words };
        g.used += 8 * (words + 1);
        g.stride = g.used.next_power_of_two().max(LEAST_BYTES);
        g.sites.push(number);
        self.sites.push(site);
        self.by_block.insert(id, number);
    }

    /// The number of the lookup at the end of a block, if its results are kept.
    pub fn site(&self, at: BlockId) -> Option<usize> {
        self.by_block.get(&at).copied()
    }
}

/// For each table whether programs may change what its lookups find. The control side does so between runs.
fn changed(p: &Program) -> Vec<bool> {
    let mut changed = vec![false; p.tables.len()];
    let mut change = |v: Value| {
        if let Type::Entry(t) = p.ty(v) {
            changed[t.0 as usize] = true;
        }
    };
    for op in p.blocks.iter().flat_map(|b| &b.ops) {
        match *op {
            // Who removes an entry removes the one it is linked to.
            Op::Link { a, b } => [a, b].into_iter().for_each(&mut change),
            Op::Remove { entry } => change(entry),
            _ => {}
        }
    }
    for block in &p.blocks {
        if let End::Insert { table, .. } | End::Claim { table, .. } = block.end {
            changed[table.0 as usize] = true;
        }
    }
    changed
}

/// Words of a packed key.
fn words(p: &Program, key: &[Value]) -> usize {
    let bytes: u32 = key.iter().map(|&v| p.width(v).bytes()).sum();
    bytes.div_ceil(8) as usize
}
