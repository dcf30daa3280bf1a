//! The memory of the caches, and what compiled code reads of them.
//!
//! A section is the words of a key and one more: the generation in which it was written (upper half) and the slot that was
//! found (lower half). A change of a table begins a new generation, so that nothing has to be cleared.

use std::sync::Arc;

use weir_ir::program::TableId;
use weir_table::{Kind, Region, TableSet};

use super::policy::{Decision, LookupCounts, Policy};
use super::{CachePlan, Group, Site, WAYS};

/// In place of a slot: the lookup found nothing.
pub(crate) const NONE: u32 = u32::MAX;

/// A cache line.
const LINE: usize = 64;
/// Sets in use that stay in the caches of a core, beside all else: of one line each, a megabyte.
const NEAR: u64 = 1 << 14;

/// The choice whether the results of lookups are kept for each flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flows {
    /// Where and as long as it pays, which follows from tables and traffic.
    #[default]
    Auto,
    /// Always, in caches of so many entries (rounded up to a power of two): for tests.
    Always(usize),
    /// Never.
    Never,
}

/// Figures of the cache of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowCache {
    /// The table that is looked up in.
    pub table: TableId,
    /// Entries of the cache; 0 while it is not used because that would not pay.
    pub entries: usize,
    /// Lookups that were answered from the cache.
    pub hits: u64,
    /// Lookups whose answer was put into it.
    pub misses: u64,
}

/// The part of a group that compiled code reads.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct View {
    /// The first entry; null if the cache is off.
    pub entries: *mut u64,
    /// How far a hash is shifted to the right to give an offset in the cache, once the lower bits are cleared.
    pub shift: u64,
    /// The generation in the upper half, 0 in the lower one.
    pub stamp: u64,
}

impl View {
    const OFF: View = View { entries: std::ptr::null_mut(), shift: 0, stamp: 0 };
}

/// One group's cache.
#[derive(Debug)]
struct Cache {
    /// Entries, if the cache is used.
    memory: Option<Region>,
    entries: usize,
    generation: u32,
    policy: Policy,
    /// Entries that were filled since the generation began.
    filled: u64,
    /// Entries in use that were given to other packets, since the last decision.
    conflicts: u64,
    /// For each lookup which table it was in when the generation began, and the table's epoch.
    tables: Vec<(u64, u64)>,
    /// Hits and misses of each lookup until the last decision.
    decided: Vec<[u64; 2]>,
}

/// The caches of one runner.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    flows: Flows,
    /// Whose lookups these are.
    plan: Arc<CachePlan>,
    caches: Vec<Cache>,
    views: Vec<View>,
    /// For each group the entry that the leader found last.
    current: Vec<*mut u64>,
    /// For each lookup.
    hits: Vec<u64>,
    misses: Vec<u64>,
}

// SAFETY: the pointers are to memory that the caches own, and go where that goes.
unsafe impl Send for Caches {}
// SAFETY: shared caches are only read, and not through their pointers.
unsafe impl Sync for Caches {}

impl Caches {
    pub fn new(flows: Flows) -> Caches {
        Caches { flows, ..Caches::default() }
    }

    pub fn report(&self) -> Vec<FlowCache> {
        let one = |(i, site): (usize, &Site)| FlowCache {
            table: site.table,
            entries: self.caches[site.group].entries,
            hits: self.hits[i],
            misses: self.misses[i],
        };
        self.plan.sites.iter().enumerate().map(one).collect()
    }

    /// What compiled code reads, one for each group; where it puts the entry that the leader found, one for each group;
    /// and the hits of each lookup.
    pub fn shown(&mut self) -> (*const View, *mut *mut u64, *mut u64) {
        (self.views.as_ptr(), self.current.as_mut_ptr(), self.hits.as_mut_ptr())
    }

    /// Whether a group's cache knows so many flows that their entries are likely to be far away.
    pub fn is_large(&self, group: usize) -> bool {
        self.caches.get(group).is_some_and(|c| c.memory.is_some() && c.filled > NEAR)
    }

    /// Brings near what the packets with these hashes of the leader's key will read.
    pub fn fetch(&self, group: usize, hashes: &[u64]) {
        let (Some(cache), Some(group)) = (self.caches.get(group), self.plan.groups.get(group)) else {
            return;
        };
        let Some(memory) = &cache.memory else { return };
        let set = WAYS * group.stride;
        let shift = shift(cache.entries * group.stride);
        for hash in hashes {
            let at = (hash >> shift) as usize & !(set - 1);
            (0..set).step_by(LINE).for_each(|line| memory.fetch(at + line));
        }
    }

    /// To be called before `packets` run through code with this plan: what is known is of these tables as they are.
    pub fn prepare(&mut self, plan: &Arc<CachePlan>, tables: &TableSet, packets: usize) {
        if !Arc::ptr_eq(&self.plan, plan) {
            self.begin(plan);
        }
        if self.flows == Flows::Never {
            return;
        }
        for number in 0..self.caches.len() {
            self.caches[number].follow(&plan.groups[number].sites, plan, tables);
            self.decide(number, tables, packets as u64);
            let view = self.caches[number].view(plan.groups[number].stride);
            self.current[number] = view.entries;
            self.views[number] = view;
        }
    }

    /// Forgets everything, for another plan.
    fn begin(&mut self, plan: &Arc<CachePlan>) {
        self.plan = Arc::clone(plan);
        let cache = |group: &Group| Cache {
            memory: None,
            entries: 0,
            generation: 0,
            policy: Policy::new(group.stride),
            filled: 0,
            conflicts: 0,
            tables: vec![(u64::MAX, 0); group.sites.len()],
            decided: vec![[0; 2]; group.sites.len()],
        };
        self.caches = plan.groups.iter().map(cache).collect();
        self.views = vec![View::OFF; plan.groups.len()];
        self.current = vec![std::ptr::null_mut(); plan.groups.len()];
        self.hits = vec![0; plan.sites.len()];
        self.misses = vec![0; plan.sites.len()];
    }

    fn decide(&mut self, number: usize, tables: &TableSet, packets: u64) {
        let group = &self.plan.groups[number];
        let cache = &mut self.caches[number];
        if let Flows::Always(entries) = self.flows {
            if cache.memory.is_none() {
                cache.set_entries(entries.max(WAYS).next_power_of_two(), group.stride);
            }
            return;
        }
        let since = |i: usize| {
            let ([hits, misses], site) = (cache.decided[i], group.sites[i]);
            [self.hits[site] - hits, self.misses[site] - misses]
        };
        // The leader is the first.
        let lookups = since(0).iter().sum();
        if !cache.policy.is_due(packets, lookups) {
            return;
        }
        let mut found =
            LookupCounts { packets: lookups, conflicts: cache.conflicts, ..LookupCounts::default() };
        let mut cost = 0;
        for (i, &site) in group.sites.iter().enumerate() {
            let [hits, misses] = since(i);
            let one = u64::from(tables.table(self.plan.sites[site].table.0).lookup_cost());
            found.hits += hits;
            found.misses += misses;
            found.spared += hits * one;
            cost += one;
        }
        for (decided, &site) in cache.decided.iter_mut().zip(&group.sites) {
            *decided = [self.hits[site], self.misses[site]];
        }
        cache.conflicts = 0;
        match cache.policy.decide(found, cost) {
            Decision::Stay => {}
            Decision::Use(entries) => cache.set_entries(entries, group.stride),
            Decision::Leave => cache.set_entries(0, group.stride),
        }
    }

    /// Looks a key up in the table of a lookup, and keeps the answer: in one of the entries of a set if the lookup
    /// leads, else in an entry.
    ///
    /// # Safety
    /// `at` is the address of a set, or else of an entry, of the cache of the lookup's group.
    pub unsafe fn learn(&mut self, site: usize, at: *mut u64, key: &[u64], tables: &TableSet) -> Option<u32> {
        let Site { table, group, leads, section, words } = self.plan.sites[site];
        let found = find(tables, table, key);
        self.misses[site] += 1;
        let stamp = self.views[group].stamp;
        let stride = self.plan.groups[group].stride / 8;
        let mut entry = at;
        if leads {
            let is_old = |way: &usize| {
                let last = way * stride + (section / 8 + words);
                // SAFETY: a set has so many entries, each with space for the sections of its group (`CachePlan::add`).
                unsafe { (at.add(last).read() ^ stamp) >> 32 != 0 }
            };
            // With both in use it is any of them: always the older one would miss whenever three take turns.
            let cache = &mut self.caches[group];
            let way = match (0..WAYS).find(is_old) {
                Some(way) => {
                    cache.filled += 1;
                    way
                }
                None => {
                    cache.conflicts += 1;
                    self.misses[site] as usize % WAYS
                }
            };
            entry = at.wrapping_add(way * stride);
            self.current[group] = entry;
        }
        let last = stamp | u64::from(found.unwrap_or(NONE));
        for (i, &word) in key.iter().take(words).chain([&last]).enumerate() {
            // SAFETY: as above, and only this thread uses the cache.
            unsafe { entry.add(section / 8 + i).write(word) };
        }
        found
    }
}

/// How far a hash is shifted for an offset in so many bytes, a power of two.
fn shift(bytes: usize) -> u64 {
    u64::from(64 - bytes.ilog2())
}

/// Looks up a packed key.
fn find(tables: &TableSet, table: TableId, key: &[u64]) -> Option<u32> {
    let table = tables.table(table.0);
    if table.decl().kind == Kind::Rules {
        return table.find_rule(key);
    }
    let high = key.get(1).copied().unwrap_or(0);
    table.lookup(&[u128::from(high) << 64 | u128::from(key.first().copied().unwrap_or(0))])
}

impl Cache {
    /// Begins a generation if a table is not what it was.
    fn follow(&mut self, sites: &[usize], plan: &CachePlan, tables: &TableSet) {
        let mut is_same = self.generation != 0;
        for (seen, &site) in self.tables.iter_mut().zip(sites) {
            let table = tables.table(plan.sites[site].table.0);
            let new = (table.id(), table.epoch());
            is_same &= *seen == new;
            *seen = new;
        }
        if is_same {
            return;
        }
        if self.generation == u32::MAX {
            // The numbers start again.
            if let Some(memory) = &mut self.memory {
                memory.reset();
            }
            self.generation = 0;
        }
        self.generation += 1;
        self.filled = 0;
    }

    fn set_entries(&mut self, entries: usize, stride: usize) {
        self.entries = entries;
        self.filled = 0;
        self.memory = (entries > 0).then(|| Region::new(entries * stride));
    }

    fn view(&self, stride: usize) -> View {
        let Some(memory) = &self.memory else { return View::OFF };
        View {
            entries: memory.as_ptr().cast(),
            shift: shift(self.entries * stride),
            stamp: u64::from(self.generation) << 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_ir::{Builder, Layer, Reason, TableDecl, Width::*};
    use weir_table::{KeyMatch, Row};

    #[test]
    fn the_numbers_of_generations_start_again_with_an_empty_cache() {
        let mut b = Builder::new("list", 1, 1);
        let row = Row { key: vec![KeyMatch::Exact(5)], ..Row::exact(&[], &[]) };
        let table = b.table(TableDecl::new("t", Kind::Rules, &[("k", W32)], &[], 9), vec![row.clone()]);
        b.input(0, |b| {
            b.require(Layer::Data, 4, Reason::TRUNCATED);
            let key = b.load(W32, Layer::Data, 0);
            b.lookup(table, &[key], |_, _| {}, |_| {});
            b.emit(0);
        });
        let program = b.finish();
        let plan = Arc::new(CachePlan::of(&program));
        let mut tables = crate::differential::tables_of(&program);
        let mut caches = Caches::new(Flows::Always(WAYS));
        caches.prepare(&plan, &tables, 1);
        let set = caches.views[0].entries;
        let way = |n: usize| -> [u64; 2] {
            // SAFETY: the set has two entries of 32 bytes.
            [0, 1].map(|i| unsafe { set.add(4 * n + i).read() })
        };
        for (i, key) in [5, 6].into_iter().enumerate() {
            // SAFETY: the cache is one set.
            let found = unsafe { caches.learn(0, set, &[key], &tables) };
            assert_eq!(found, (key == 5).then_some(0));
            assert_eq!(way(i), [key, 1 << 32 | u64::from(found.unwrap_or(NONE))]);
        }
        caches.caches[0].generation = u32::MAX;
        caches.prepare(&plan, &tables, 1);
        assert_eq!(way(1)[0], 6);
        tables.table_mut(0).insert_row(&row, 0).unwrap();
        caches.prepare(&plan, &tables, 1);
        assert_eq!((way(0), way(1), caches.views[0].stamp), ([0; 2], [0; 2], 1 << 32));
    }
}
