//! All tables of a graph, and what crosses from one table to another: links and expiry.

use weir_packet::Packet;

use crate::decl::{DeclError, TableDecl};
use crate::table::Table;

/// How many slots [`TableSet::soonest`] looks at: enough that an entry to come has hardly ever to make space for one that
/// goes much later, and few enough that a flood of new entries does not cost more than it does otherwise.
pub const WINDOW: u32 = 64;

/// The last nanosecond that there is, 146 years after the first: later times and longer timeouts are taken for this, so that
/// their sum is still a time.
pub const LAST_TIME: u64 = 1 << 62;

/// The share of [`slack`] as a power of two: 1/64.
pub const SLACK_SHIFT: u32 = 6;
/// The most that [`slack`] is, in nanoseconds.
pub const MOST_SLACK: u64 = 1_000_000_000;

/// How much longer than `after`, its timeout, an entry may live in a table of more than [`WINDOW`] entries: up to 1/64 of it, and
/// to a second. Then what is used often is written seldom, and a packet need not change a row only to say that it came. In
/// smaller tables times are exact, as it can be said there which entry is evicted for a new one, and when.
pub const fn slack(after: u64) -> u64 {
    let share = after >> SLACK_SHIFT;
    if share < MOST_SLACK { share } else { MOST_SLACK }
}

/// An entry: table and slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryRef {
    /// Number of the table in its set.
    pub table: u32,
    /// Slot in the table.
    pub slot: u32,
}

/// The tables of one running graph.
#[derive(Debug, Default)]
pub struct TableSet {
    tables: Vec<Table>,
    orphans: Vec<Packet>,
}

impl TableSet {
    /// Empty tables for these declarations.
    pub fn new<'a>(decls: impl IntoIterator<Item = &'a TableDecl>) -> Result<TableSet, DeclError> {
        let tables = decls.into_iter().map(|d| Table::new(d.clone())).collect::<Result<_, _>>()?;
        Ok(TableSet { tables, orphans: Vec::new() })
    }

    /// Number of tables.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there are no tables.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Makes space for so many more tables.
    pub fn reserve(&mut self, more: usize) {
        self.tables.reserve(more);
    }

    /// Adds a table, and gives its number. Not while compiled code knows the address of the [first](TableSet::first).
    pub fn push(&mut self, table: Table) -> u32 {
        self.tables.push(table);
        self.tables.len() as u32 - 1
    }

    /// A table.
    pub fn table(&self, table: u32) -> &Table {
        &self.tables[table as usize]
    }

    /// A table, to change. Remove entries by [`remove`](TableSet::remove), which minds links.
    pub fn table_mut(&mut self, table: u32) -> &mut Table {
        &mut self.tables[table as usize]
    }

    /// Address of the first of the tables, which stand one behind the other: for compiled code ([`View`]).
    ///
    /// [`View`]: crate::View
    pub fn first(&mut self) -> *mut Table {
        self.tables.as_mut_ptr()
    }

    /// Ties two entries together: they expire and are removed as one. Earlier ties of either are undone.
    pub fn link(&mut self, a: EntryRef, b: EntryRef) {
        if [a, b].iter().any(|e| !self.table(e.table).is_live(e.slot)) {
            return;
        }
        for e in [a, b] {
            if let Some(old) = self.partner(e) {
                self.table_mut(old.table).set_partner(old.slot, None);
                self.table_mut(old.table).arm_again(old.slot);
            }
            self.table_mut(e.table).arm_again(e.slot);
        }
        if a != b {
            self.table_mut(a.table).set_partner(a.slot, Some(b));
            self.table_mut(b.table).set_partner(b.slot, Some(a));
        }
    }

    /// The entry that this one is linked to. If the other's table was emptied, the link has ended, whatever is in
    /// the other's slot now: only ends that name each other are linked.
    pub fn partner(&self, e: EntryRef) -> Option<EntryRef> {
        let other = self.table(e.table).partner(e.slot)?;
        (self.table(other.table).partner(other.slot) == Some(e)).then_some(other)
    }

    /// Lets an entry expire `after` nanoseconds from `now` (0: never; both at most [`LAST_TIME`]). In a table of more than
    /// [`WINDOW`] entries, one that would go earlier, and whose time has not come, gets some [`slack`] more, and is left alone
    /// as long as that lasts: it never goes too early. Linked entries go when the time of both has come: a later time is the
    /// entry's own, so that traffic of one direction leaves the other direction's entry alone; an earlier one, or a first
    /// one, is both's.
    pub fn touch(&mut self, e: EntryRef, now: u64, after: u64) {
        let (now, after) = (now.min(LAST_TIME), after.min(LAST_TIME));
        let when = if after == 0 { 0 } else { now + after };
        let own = self.table(e.table).expiry(e.slot);
        let latest = when + slack(after);
        if own > now && (when..=latest).contains(&own) {
            return;
        }
        if own != 0 && own <= when {
            let exact = own <= now || self.table(e.table).len() <= WINDOW;
            return self.table_mut(e.table).prolong(e.slot, if exact { when } else { latest });
        }
        self.table_mut(e.table).set_expiry(e.slot, when);
        if let Some(p) = self.partner(e) {
            self.table_mut(p.table).set_expiry(p.slot, when);
        }
    }

    /// When an entry goes (0: never): the later of its own time and that of the one linked to it.
    pub fn expiry(&self, e: EntryRef) -> u64 {
        let own = self.table(e.table).expiry(e.slot);
        match self.partner(e).map(|p| self.table(p.table).expiry(p.slot)) {
            Some(other) if own != 0 && other != 0 => own.max(other),
            Some(_) => 0,
            None => own,
        }
    }

    /// The entry of a table that goes next of those that go at all, and the nanoseconds until then: the one to evict
    /// when the table is full. It is found among [`WINDOW`] slots; in a larger table, each time an entry came or went,
    /// among others.
    pub fn soonest(&self, table: u32, now: u64) -> Option<(u32, u64)> {
        let mut best: Option<(u32, u64)> = None;
        for slot in self.table(table).window(WINDOW) {
            let when = self.expiry(EntryRef { table, slot });
            if when != 0 && best.is_none_or(|(_, earliest)| when < earliest) {
                best = Some((slot, when));
            }
        }
        best.map(|(slot, when)| (slot, when.saturating_sub(now)))
    }

    /// Removes an entry and the one linked to it. Packets they held become orphans.
    pub fn remove(&mut self, e: EntryRef) {
        if !self.table(e.table).is_live(e.slot) {
            return;
        }
        let partner = self.partner(e);
        let held = self.table_mut(e.table).remove_slot(e.slot);
        self.orphans.extend(held);
        if let Some(p) = partner {
            let held = self.table_mut(p.table).remove_slot(p.slot);
            self.orphans.extend(held);
        }
    }

    /// Packets whose entry was removed while it held them; whoever runs the graph drops them with a reason.
    pub fn take_orphans(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.orphans)
    }

    /// The next entry whose time has come. Ask again until there is none, and end each with
    /// [`finish_expiry`](TableSet::finish_expiry).
    pub fn next_due(&mut self, now: u64) -> Option<EntryRef> {
        for table in 0..self.tables.len() as u32 {
            while let Some((when, slot)) = self.table_mut(table).next_timer(now) {
                let e = EntryRef { table, slot };
                let expires = self.expiry(e);
                if expires == when {
                    return Some(e);
                }
                // It was touched, or its partner was, since the timer was set.
                self.table_mut(table).arm(slot, expires);
            }
        }
        None
    }

    /// Removes a due entry, or sets its timer again if it was touched since.
    pub fn finish_expiry(&mut self, e: EntryRef, now: u64) {
        let expires = self.expiry(e);
        if expires != 0 && expires <= now {
            self.remove(e);
        } else if expires != 0 {
            self.table_mut(e.table).arm_again(e.slot);
        }
    }

    /// Sets the timer of a due entry again that is left alone for now: it is due again when it is looked at next.
    pub fn postpone(&mut self, e: EntryRef) {
        self.table_mut(e.table).arm_again(e.slot);
    }

    /// Removes every entry of a table (an array: sets it to zeros). Held packets are freed, links to it end.
    pub fn clear(&mut self, table: u32) {
        self.table_mut(table).clear();
        self.arm_all();
    }

    /// Links have ended: what waited for its partner's time may be due earlier.
    pub(crate) fn arm_all(&mut self) {
        for table in &mut self.tables {
            let slots: Vec<u32> = table.slots().collect();
            for slot in slots {
                table.arm_again(slot);
            }
        }
    }

    /// The earliest time at which something may expire.
    pub fn next_expiry(&self) -> Option<u64> {
        self.tables.iter().filter_map(Table::next_expiry).min()
    }

    /// Moves the content of `old`'s tables into this set, for a hot swap: `pairs` are (old, new) table numbers with
    /// equal declarations. Links between moved entries stay; a link to an entry that is left behind is undone.
    pub fn adopt(&mut self, old: &mut TableSet, pairs: &[(u32, u32)]) {
        for &(from, to) in pairs {
            debug_assert_eq!(old.table(from).decl(), self.table(to).decl());
            std::mem::swap(&mut old.tables[from as usize], &mut self.tables[to as usize]);
        }
        for &(_, to) in pairs {
            let table = &mut self.tables[to as usize];
            let slots: Vec<u32> = table.slots().collect();
            for slot in slots {
                if let Some(p) = table.partner(slot) {
                    let moved = pairs.iter().find(|(from, _)| *from == p.table);
                    table.set_partner(slot, moved.map(|&(_, table)| EntryRef { table, slot: p.slot }));
                }
            }
        }
        self.arm_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Width};

    fn set(capacity: u32) -> TableSet {
        TableSet::new(&[TableDecl::new("t", Kind::Exact, &[("k", Width::W32)], &[], capacity)]).unwrap()
    }

    fn entry(set: &mut TableSet, key: u128, when: u64) -> EntryRef {
        let slot = set.table_mut(0).insert(&[key]).unwrap();
        set.table_mut(0).set_expiry(slot, when);
        EntryRef { table: 0, slot }
    }

    #[test]
    fn an_entry_of_a_large_table_that_is_used_lives_a_little_longer() {
        let mut set = set(100);
        let e = entry(&mut set, 1, 0);
        (2..=WINDOW + 1).for_each(|key| _ = entry(&mut set, key.into(), 0));
        let mut touched = |now, after| {
            set.touch(e, now, after);
            set.expiry(e)
        };
        assert_eq!(touched(100, 6400), 6500, "the first time is exact");
        assert_eq!(touched(100, 6400), 6500, "it lasts");
        assert_eq!(touched(101, 6400), 6601, "and here it would not");
        assert_eq!(touched(201, 6400), 6601, "it lasts for that long");
        assert_eq!(touched(202, 6400), 6702);
        assert_eq!(touched(202, 640), 842, "a shorter time is exact");
        assert_eq!(touched(842, 640), 1482, "and so is what comes when it is due");
        let (second, hour) = (1_000_000_000, 3_600_000_000_000);
        assert_eq!(touched(1000, hour), 1000 + hour + second, "a second is the most");
        assert_eq!(touched(1000, 0), 0, "never");
        assert_eq!(touched(5, u64::MAX), 5 + LAST_TIME);
        assert_eq!(touched(u64::MAX, 640), LAST_TIME + 650, "after the last time there is no other");
    }

    #[test]
    fn times_in_a_small_table_are_exact() {
        let mut set = set(100);
        let e = entry(&mut set, 1, 10);
        (2..=WINDOW).for_each(|key| _ = entry(&mut set, key.into(), 0));
        for now in 1..200 {
            set.touch(e, now, 6400);
            assert_eq!(set.expiry(e), now + 6400);
        }
        entry(&mut set, 1000, 0);
        set.touch(e, 200, 6400);
        assert_eq!(set.expiry(e), 200 + 6400 + 100, "with one entry more it is a large table");
        set.touch(e, 301, 6400);
        assert_eq!(set.expiry(e), 301 + 6400 + 100);
    }

    #[test]
    fn the_soonest_entry_is_found_with_its_links_in_mind() {
        let mut set = set(8);
        assert_eq!(set.soonest(0, 0), None);
        let [never, late, early] = [0, 900, 300].map(|when| entry(&mut set, when.into(), when));
        assert_eq!(set.soonest(0, 100), Some((early.slot, 200)));
        assert_eq!(set.soonest(0, 400), Some((early.slot, 0)), "it is due, and still there");
        set.link(early, never);
        assert_eq!(set.soonest(0, 100), Some((late.slot, 800)), "an entry goes with its partner, or never");
        set.remove(late);
        assert_eq!(set.soonest(0, 100), None);
    }

    #[test]
    fn of_a_large_table_some_are_looked_at() {
        let mut set = set(1000);
        for i in 0..1000 {
            entry(&mut set, i, 1_000_000 - i as u64);
        }
        let mut taken = Vec::new();
        for _ in 0..500 {
            let (slot, left) = set.soonest(0, 0).unwrap();
            taken.push(left);
            set.remove(EntryRef { table: 0, slot });
        }
        // At random, every second of them would be from the later half.
        let late = taken.iter().filter(|left| **left > 999_500).count();
        assert!(late < 60, "{late} of 500 go much later than others");
    }
}
