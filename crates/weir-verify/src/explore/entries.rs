//! Entries that a path found or made: their number, links, removal and held packets.

use std::rc::Rc;

use weir_ir::program::{BinOp, Width};
use weir_table::Kind;

use crate::explore::Cut;
use crate::explore::branch::Branch;
use crate::explore::path::{EntryEnd, Incomplete};
use crate::explore::state::State;
use crate::explore::tables::TableModel;
use crate::explore::tables::{Entry, Partner};
use crate::model::expr::{At, Claim, EntryAt, Expr, Node, Source, Symbol};
use crate::model::packet::SymbolicPacket;

impl TableModel<'_> {
    /// An entry from before the run, that this run had not found yet.
    pub(crate) fn old_entry(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        at: EntryAt,
        key: Vec<Expr>,
        row: Option<usize>,
    ) -> Result<usize, Cut> {
        let table = at.table;
        let entry = self.as_before(b, at, key, row);
        let first_group = entry.first_group;
        let entry = Rc::new(entry);
        if row.is_none() {
            self.learn_form(b, st, &entry)?;
        }
        st.entries.push(entry);
        if let Some(g) = first_group {
            let (count, one) = (self.group(b, table, g), b.x.constant(Width::W32, 1));
            let some = b.x.at_most(one, count);
            b.learn(st, some)?;
        }
        let found = Self::entries_of(st, table).iter().filter(|&&i| st.entries[i].base.is_some()).count();
        let (found, size) = (b.x.constant(Width::W32, found as u128), self.first_size(b, table));
        let enough = b.x.at_most(found, size);
        b.learn(st, enough)?;
        Ok(st.entries.len() - 1)
    }

    /// An entry as it was before the run.
    fn as_before(&mut self, b: &mut Branch<'_>, at: EntryAt, key: Vec<Expr>, row: Option<usize>) -> Entry {
        let table = at.table;
        let decl = self.net.decl(table);
        let info = self.net.info(table);
        let mut fields = Vec::with_capacity(decl.value.len());
        for (f, field) in decl.value.iter().enumerate() {
            let known = row.filter(|_| !info.changes[f]).and_then(|r| info.rows.get(r)).map(|r| r.value[f]);
            fields.push(match known {
                Some(v) => b.x.constant(field.width, v),
                None => b.x.symbol(field.width, Symbol::Field(at.clone(), f as u32)),
            });
        }
        Entry {
            table,
            base: Some(at),
            makers: 0,
            key,
            first_group: decl.group.map(|g| fields[g as usize]),
            fields,
            live: true,
            gone_at: 0,
            partner: if info.linked { Partner::Original } else { Partner::None },
            held: Vec::new(),
            old_held: info.holds,
        }
    }

    /// A row that no program can change.
    pub(crate) fn fixed_row(&mut self, b: &mut Branch<'_>, st: &mut State, table: u32, row: usize) -> usize {
        let at = At::Row(row as u32);
        let seen = |e: &Rc<Entry>| e.table == table && e.base.as_ref().is_some_and(|b| b.at == at);
        if let Some(i) = st.entries.iter().position(seen) {
            return i;
        }
        let entry = match self.fixed.get(&(table, row)) {
            Some(known) => known.clone(),
            None => {
                let made = Rc::new(self.as_before(b, EntryAt { table, at }, Vec::new(), Some(row)));
                self.fixed.insert((table, row), made.clone());
                made
            }
        };
        st.entries.push(entry);
        st.entries.len() - 1
    }

    /// The packet leaves a program: rows that no program can change are found again where they are looked for.
    pub(crate) fn forget_rows(&self, st: &mut State) {
        if st.strands.is_empty() {
            let last = st.entries.iter().rposition(|e| !self.net.info(e.table).is_fixed());
            st.entries.truncate(st.past.max(last.map_or(0, |i| i + 1)));
        }
    }

    /// An entry that the run makes.
    pub(crate) fn new_entry(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        table: u32,
        key: Vec<Expr>,
    ) -> usize {
        let fields = self.net.decl(table).value.iter().map(|f| b.x.constant(f.width, 0)).collect();
        st.entries.push(Rc::new(Entry {
            table,
            base: None,
            makers: st.makers(),
            key,
            fields,
            first_group: None,
            live: true,
            gone_at: 0,
            partner: Partner::None,
            held: Vec::new(),
            old_held: false,
        }));
        st.entries.len() - 1
    }

    /// The entry of a table that expires next, and the nanoseconds that it has left. Only as the tables were before the
    /// run: what a run changes would need a model of all times.
    pub(crate) fn soonest(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        table: u32,
    ) -> Result<Option<(usize, Expr)>, Cut> {
        self.look_into(b, st, table)?;
        let info = self.net.info(table);
        // Elsewhere it is an entry of others, whose flow alone suffers.
        if !info.open {
            return Ok(None);
        }
        // Linked entries go together, whatever their tables.
        let concerns = |other: u32| other == table || (info.linked && self.net.info(other).linked);
        let changed = |e: &Rc<Entry>| concerns(e.table) && (!e.live || e.base.is_none());
        if st.stirred.iter().any(|&other| concerns(other)) || st.entries.iter().any(changed) {
            return Err(b.give_up(Incomplete::Soonest));
        }
        let expires = b.x.symbol(Width::W1, Symbol::Expires(table));
        if !info.shrinks || !b.decide(st, expires)? {
            return Ok(None);
        }
        let left = b.x.symbol(Width::W64, Symbol::SoonestLeft(table));
        // What is due was to go at some time, and 0 is none.
        let now = b.x.symbol(Width::W64, Symbol::Now);
        let either = b.x.binary(BinOp::Or, now, left);
        let never = b.x.is(either, 0);
        let some = b.x.not(never);
        b.learn(st, some)?;
        let fields = &self.net.decl(table).key;
        let mut key = Vec::new();
        for (f, field) in fields.iter().enumerate() {
            key.push(b.x.symbol(field.width, Symbol::SoonestKey(table, f as u32)));
        }
        let at = EntryAt { table, at: At::Key(key.clone().into()) };
        let has = b.x.symbol(Width::W1, Symbol::Has(at));
        b.learn(st, has)?;
        Ok(self.lookup(b, st, table, &key)?.map(|e| (e, left)))
    }

    /// How many entries the path made in a table.
    fn insertions(st: &State, table: u32) -> u32 {
        st.entries.iter().filter(|e| e.table == table && e.base.is_none()).count() as u32
    }

    fn first_size(&mut self, b: &mut Branch<'_>, table: u32) -> Expr {
        let info = self.net.info(table);
        let rows = info.rows.len() as u128;
        if !info.grows && !info.shrinks {
            return b.x.constant(Width::W32, rows);
        }
        let least = if info.shrinks { 0 } else { rows };
        let capacity = self.net.decl(table).capacity.into();
        b.x.bounded(Width::W32, Symbol::Size(self.net.like(table)), least, capacity)
    }

    /// Number of entries now.
    pub(crate) fn size(&mut self, b: &mut Branch<'_>, st: &State, table: u32) -> Expr {
        let change = st
            .entries
            .iter()
            .filter(|e| e.table == table)
            .map(|e| i64::from(e.live) - i64::from(e.base.is_some()));
        let change = change.sum();
        let first = self.first_size(b, table);
        b.x.plus(first, change)
    }

    fn group(&mut self, b: &mut Branch<'_>, table: u32, value: Expr) -> Expr {
        let capacity = self.net.decl(table).capacity.into();
        b.x.bounded(Width::W32, Symbol::Group(self.net.like(table), value), 0, capacity)
    }

    /// Number of entries in a group now.
    pub(crate) fn group_count(&mut self, b: &mut Branch<'_>, st: &State, table: u32, value: Expr) -> Expr {
        let mut n = self.group(b, table, value);
        let Some(g) = self.net.decl(table).group else { return n };
        for e in st.entries.iter().filter(|e| e.table == table) {
            let now = e.live.then_some(e.fields[g as usize]);
            if now == e.first_group {
                continue;
            }
            for (group, op) in [(e.first_group, BinOp::Sub), (now, BinOp::Add)] {
                let Some(group) = group else { continue };
                let same = b.x.equal(group, value);
                let one = b.x.resize(Width::W32, same);
                n = b.x.binary(op, n, one);
            }
        }
        n
    }

    /// What the run did to a table, for a claim.
    pub(crate) fn changes(st: &State, table: u32) -> Vec<(Vec<Expr>, bool)> {
        st.entries.iter().filter(|e| e.table == table).map(|e| (e.key.clone(), e.live)).collect()
    }

    /// Whether an entry may be used: a slot is not reused on this path.
    pub(crate) fn usable(&mut self, b: &mut Branch<'_>, st: &State, i: usize) -> Result<(), Cut> {
        let e = &st.entries[i];
        if e.live || e.gone_at == Self::insertions(st, e.table) {
            return Ok(());
        }
        Err(b.give_up(Incomplete::RemovedEntry))
    }

    /// Finds out which entry one is linked to.
    fn partner(&mut self, b: &mut Branch<'_>, st: &mut State, i: usize) -> Result<Option<usize>, Cut> {
        match st.entries[i].partner {
            Partner::None => return Ok(None),
            Partner::Entry(p) => return Ok(Some(p)),
            Partner::Original => {}
        }
        let Some(base) = st.entries[i].base.clone() else { return Ok(None) };
        for other in self.net.siblings(base.table) {
            if !self.net.info(other).linked {
                continue;
            }
            let linked = b.x.symbol(Width::W1, Symbol::PartnerIn(base.clone(), other));
            if !b.decide(st, linked)? {
                continue;
            }
            if !matches!(self.net.decl(other).kind, Kind::Exact | Kind::Array) {
                return Err(b.give_up(Incomplete::TableKind));
            }
            let fields = &self.net.decl(other).key;
            let mut key = Vec::new();
            for (f, field) in fields.iter().enumerate() {
                key.push(b.x.symbol(field.width, Symbol::PartnerKey(base.clone(), other, f as u32)));
            }
            let mut found = None;
            for c in Self::entries_of(st, other) {
                if c == i || st.entries[c].partner != Partner::Original {
                    continue;
                }
                let same = b.x.keys_equal(&st.entries[c].key, &key);
                if b.decide(st, same)? {
                    found = Some(c);
                    break;
                }
            }
            let p = match found {
                Some(p) => p,
                None => {
                    let at = EntryAt { table: other, at: At::Key(key.clone().into()) };
                    let has = b.x.symbol(Width::W1, Symbol::Has(at.clone()));
                    b.learn(st, has)?;
                    // The partner is none of the other entries that are known.
                    for c in Self::entries_of(st, other) {
                        if st.entries[c].base.is_some() {
                            let same = b.x.keys_equal(&st.entries[c].key, &key);
                            let differs = b.x.not(same);
                            b.learn(st, differs)?;
                        }
                    }
                    self.old_entry(b, st, at, key, None)?
                }
            };
            st.entry_mut(i).partner = Partner::Entry(p);
            st.entry_mut(p).partner = Partner::Entry(i);
            return Ok(Some(p));
        }
        st.entry_mut(i).partner = Partner::None;
        Ok(None)
    }

    /// As [`weir_table::TableSet::link`].
    pub(crate) fn link(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        one: usize,
        two: usize,
    ) -> Result<(), Cut> {
        if !st.entries[one].live || !st.entries[two].live {
            return Ok(());
        }
        let old = [self.partner(b, st, one)?, self.partner(b, st, two)?];
        for i in old.into_iter().flatten().chain([one, two]) {
            st.entry_mut(i).partner = Partner::None;
        }
        if one != two {
            st.entry_mut(one).partner = Partner::Entry(two);
            st.entry_mut(two).partner = Partner::Entry(one);
        }
        Ok(())
    }

    /// As [`weir_table::TableSet::remove`].
    pub(crate) fn remove(&mut self, b: &mut Branch<'_>, st: &mut State, i: usize) -> Result<(), Cut> {
        if !st.entries[i].live {
            return Ok(());
        }
        let partner = self.partner(b, st, i)?;
        let both: Vec<usize> = [Some(i), partner].into_iter().flatten().collect();
        for &e in &both {
            self.count_held(b, st, e)?;
        }
        for e in both {
            let table = st.entries[e].table;
            if self.net.decl(table).kind == Kind::Array {
                continue;
            }
            let held = self.take_held(b, st, e)?;
            st.orphans.extend(held);
            st.entry_mut(e).live = false;
            let made = Self::insertions(st, table);
            st.entry_mut(e).gone_at = made;
        }
        Ok(())
    }

    /// Number of packets from before the run that an entry holds.
    pub(crate) fn held_before(&mut self, b: &mut Branch<'_>, e: &Entry) -> Option<Expr> {
        let at = e.base.clone().filter(|_| e.old_held)?;
        let most = self.net.decl(e.table).held;
        Some(b.x.bounded(Width::W32, Symbol::HeldCount(at), 0, most.into()))
    }

    /// Number of packets that an entry holds now.
    pub(crate) fn held_now(&mut self, b: &mut Branch<'_>, st: &State, i: usize) -> Expr {
        let n = st.entries[i].held.len() as u128;
        match self.held_before(b, &st.entries[i]) {
            Some(old) => b.x.plus(old, n as i64),
            None => b.x.constant(Width::W32, n),
        }
    }

    /// Decides how many packets from before the run an entry holds.
    pub(crate) fn count_held(&mut self, b: &mut Branch<'_>, st: &mut State, i: usize) -> Result<u32, Cut> {
        let Some(count) = self.held_before(b, &st.entries[i]) else { return Ok(0) };
        if self.invariant.is_some() {
            // Whatever becomes of one becomes of each.
            let none = b.x.is(count, 0);
            return Ok(u32::from(!b.decide(st, none)?));
        }
        if b.guide.is_none() {
            let most = b.x.constant(Width::W32, b.budget.limits.held.into());
            let few = b.x.at_most(count, most);
            if !b.decide(st, few)? {
                return Err(b.give_up(Incomplete::Held));
            }
        }
        Ok(b.pick(st, count)? as u32)
    }

    /// Takes the packets that an entry holds, oldest first.
    pub(crate) fn take_held(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        i: usize,
    ) -> Result<Vec<SymbolicPacket>, Cut> {
        let n = self.count_held(b, st, i)?;
        let mut packets = Vec::new();
        if let Some(at) = st.entries[i].base.clone() {
            for k in 0..n {
                let p = SymbolicPacket::unknown(&mut b.x, Source::Held(at.clone(), k));
                b.learn_packet(st, &p)?;
                packets.push(p);
            }
        }
        st.entry_mut(i).old_held = false;
        packets.append(&mut st.entry_mut(i).held);
        Ok(packets)
    }

    /// What became of the entries that the path touched.
    pub(crate) fn entry_ends(&self, st: &State) -> Vec<EntryEnd> {
        let known = |e: &&Rc<Entry>| e.live || e.gone_at == Self::insertions(st, e.table);
        let end = |e: &Rc<Entry>| {
            let kind = self.net.decl(e.table).kind;
            let at = match (&e.base, kind) {
                (_, Kind::Exact | Kind::Array) => At::Key(e.key.clone().into()),
                (Some(EntryAt { at: At::Row(r), .. }), _) => At::Row(*r),
                _ => return None,
            };
            Some(EntryEnd {
                table: e.table,
                at,
                fields: e.live.then(|| e.fields.clone()),
                held: e.held.clone(),
            })
        };
        st.entries.iter().filter(known).filter_map(end).collect()
    }

    /// Makes a claim's parts and what follows from its success.
    pub(crate) fn claimed(
        &mut self,
        b: &mut Branch<'_>,
        st: &State,
        claim: Claim,
    ) -> (Expr, Expr, Vec<Expr>) {
        let w = b.x.width(claim.lo);
        let ok = b.x.make(Width::W1, Node::ClaimOk(Box::new(claim.clone())));
        let value = b.x.make(w, Node::Claimed(Box::new(claim.clone())));
        let mut key = claim.key;
        key[claim.hole as usize] = value;
        let mut follows = vec![b.x.at_most(claim.lo, value), b.x.at_most(value, claim.hi)];
        for i in Self::entries_of(st, claim.table) {
            if st.entries[i].live {
                let same = b.x.keys_equal(&st.entries[i].key, &key);
                follows.push(b.x.not(same));
            }
        }
        (ok, value, follows)
    }
}
