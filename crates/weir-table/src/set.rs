//! All tables of a graph, and what crosses from one table to another: links and expiry.

use weir_packet::Packet;

use crate::decl::{DeclError, TableDecl};
use crate::table::Table;

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

    /// A table.
    pub fn table(&self, table: u32) -> &Table {
        &self.tables[table as usize]
    }

    /// A table, to change. Remove entries by [`remove`](TableSet::remove), which minds links.
    pub fn table_mut(&mut self, table: u32) -> &mut Table {
        &mut self.tables[table as usize]
    }

    /// Ties two entries together: they expire and are removed as one. Earlier ties of either are undone.
    pub fn link(&mut self, a: EntryRef, b: EntryRef) {
        if [a, b].iter().any(|e| !self.table(e.table).is_live(e.slot)) {
            return;
        }
        for e in [a, b] {
            if let Some(old) = self.partner(e) {
                self.table_mut(old.table).set_partner(old.slot, None);
            }
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

    /// Lets an entry, and the one linked to it, expire `after` nanoseconds from `now` (0: never).
    pub fn touch(&mut self, e: EntryRef, now: u64, after: u64) {
        let when = if after == 0 { 0 } else { now.saturating_add(after).max(1) };
        self.table_mut(e.table).set_expiry(e.slot, when);
        if let Some(p) = self.partner(e) {
            self.table_mut(p.table).set_expiry(p.slot, when);
        }
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
        self.tables.iter_mut().enumerate().find_map(|(table, t)| {
            let slot = t.next_due(now)?;
            Some(EntryRef { table: table as u32, slot })
        })
    }

    /// Removes a due entry, unless it was touched since.
    pub fn finish_expiry(&mut self, e: EntryRef, now: u64) {
        let expires = self.table(e.table).expiry(e.slot);
        if expires != 0 && expires <= now {
            self.remove(e);
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
            for slot in table.slots() {
                if let Some(p) = table.partner(slot) {
                    let moved = pairs.iter().find(|(from, _)| *from == p.table);
                    table.set_partner(slot, moved.map(|&(_, table)| EntryRef { table, slot: p.slot }));
                }
            }
        }
    }
}
