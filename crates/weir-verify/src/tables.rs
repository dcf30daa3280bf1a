//! Tables on a path: what was there before is unknown but for the first content; what the path did is on top.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use weir_ir::program::{BinOp, BlockId, End, Op, Program, TableInit, Target, Type, Value, Width};
use weir_table::{KeyMatch, Kind, Row, Table, TableDecl};

use crate::explore::{Cut, Explorer};
use crate::expr::{At, EntryAt, Expr, Exprs, Symbol};
use crate::facts::Facts;
use crate::packet::SymbolicPacket;
use crate::path::Incomplete;
use crate::ranges::{Results, by_result};
use crate::state::{Packets, State};

/// What the whole program may do to a table, at any time before the run.
#[derive(Debug, Clone)]
pub(crate) struct TableInfo {
    /// It may have entries that neither the first content nor this exploration put there.
    pub(crate) open: bool,
    /// First content in the order of lookup.
    pub(crate) rows: Vec<Row>,
    /// It may have other entries than its first ones.
    pub(crate) grows: bool,
    /// Its first entries may be gone.
    pub(crate) shrinks: bool,
    /// Which value fields may have changed.
    pub(crate) changes: Vec<bool>,
    /// Its entries may hold packets.
    pub(crate) holds: bool,
    /// Its entries may be linked.
    pub(crate) linked: bool,
    /// The control side may have changed it.
    edited: bool,
    /// A program asks for the key of an entry.
    keys_read: bool,
    results: OnceLock<Option<Results>>,
}

/// Lookups that found nothing where other packets could have put something, or something that they may change.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    /// Whether there were any.
    pub(crate) somewhere: bool,
    /// As long as that is not known: what is known on paths that had such a lookup, if they can be. That is looked at when
    /// it is asked for, which it often is not.
    doubtful: Vec<Facts>,
    /// The tables of those on a path that had found entries of all packets before: one more may lead it elsewhere.
    pub(crate) behind: BTreeSet<u32>,
    /// The fields, by table and number, that such a path read of their entries: one more packet may change them.
    pub(crate) read: BTreeSet<(u32, u32)>,
}

/// Most paths that are kept to be looked at later.
const DOUBTFUL: usize = 8;

impl Missed {
    /// A path had such a lookup, if it can be.
    fn note(&mut self, x: &Exprs, path: &Facts) {
        self.doubtful.push(path.clone());
        if self.doubtful.len() == DOUBTFUL {
            self.settle(x);
        }
    }

    /// Finds out whether there were any.
    pub(crate) fn settle(&mut self, x: &Exprs) {
        let mut paths = std::mem::take(&mut self.doubtful).into_iter();
        self.somewhere = self.somewhere || paths.any(|mut facts| facts.sharpen(x));
    }
}

/// The entry that an entry is linked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Partner {
    /// Not looked at yet: as before the run.
    Original,
    None,
    Entry(usize),
}

/// An entry that the path found or made.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) table: u32,
    /// What it was before the run; `None` if the run made it.
    pub(crate) base: Option<EntryAt>,
    /// The packets that made or changed it, and those of whose entries they had found some.
    pub(crate) makers: Packets,
    pub(crate) key: Vec<Expr>,
    pub(crate) fields: Vec<Expr>,
    /// Its group before the run.
    pub(crate) first_group: Option<Expr>,
    pub(crate) live: bool,
    /// If it is gone: how many entries the run had made in the table by then.
    pub(crate) gone_at: u32,
    pub(crate) partner: Partner,
    pub(crate) held: Vec<SymbolicPacket>,
    /// It may still hold packets from before the run.
    pub(crate) old_held: bool,
}

/// First content of a table, in the order of lookup. Rows that do not fit are left out, as they never get in.
pub(crate) fn first_rows(t: &TableInit) -> Vec<Row> {
    // All entries of an array are there from the start.
    if t.rows.is_empty() && t.decl.kind != Kind::Array {
        return Vec::new();
    }
    let Ok(mut table) = Table::new(t.decl.clone()) else { return Vec::new() };
    if table.insert_rows_unindexed(&t.rows, 0).is_err() {
        // A row that does not fit is refused when the program is loaded.
        t.rows.iter().for_each(|row| drop(table.insert_row(row, 0)));
    }
    table.rows().into_iter().map(|(_, row)| row).collect()
}

/// `open`: the tables may hold anything that programs could have put there.
pub(crate) fn table_infos(p: &Program, open: bool) -> Vec<TableInfo> {
    let mut infos: Vec<TableInfo> = p
        .tables
        .iter()
        .map(|t| {
            // Who else shares the table is not known before linking.
            let edited = open && t.decl.shared_name.is_some() && p.elements.len() == 1;
            TableInfo {
                open,
                rows: first_rows(t),
                grows: edited,
                shrinks: edited || t.rows.iter().any(|r| r.ttl.is_some()),
                changes: vec![edited; t.decl.value.len()],
                holds: edited && t.decl.held > 0,
                linked: false,
                edited,
                keys_read: false,
                results: OnceLock::new(),
            }
        })
        .collect();
    let table_of = |v: Value| match p.ty(v) {
        Type::Entry(t) => t.0 as usize,
        Type::Int(_) => usize::MAX,
    };
    let mut at = |t: usize, f: &mut dyn FnMut(&mut TableInfo)| infos.get_mut(t).map(f);
    for block in &p.blocks {
        for op in &block.ops {
            match op {
                Op::Set { entry, field, .. } => {
                    at(table_of(*entry), &mut |t| t.changes[*field as usize] = true);
                }
                Op::GetKey { entry, .. } => {
                    at(table_of(*entry), &mut |t| t.keys_read = true);
                }
                Op::Touch { entry, .. } | Op::Remove { entry } => {
                    at(table_of(*entry), &mut |t| t.shrinks = true);
                }
                Op::Link { a, b } => {
                    for v in [a, b] {
                        at(table_of(*v), &mut |t| (t.linked, t.shrinks) = (true, true));
                    }
                }
                _ => {}
            }
        }
        match &block.end {
            End::Insert { table, .. } | End::Claim { table, .. } => {
                at(table.0 as usize, &mut |t| t.grows = true);
            }
            End::Meter { entry, field, .. } => {
                at(table_of(*entry), &mut |t| t.changes[*field as usize] = true);
            }
            End::Hold { entry, .. } => {
                at(table_of(*entry), &mut |t| t.holds = true);
            }
            _ => {}
        }
    }
    infos
}

impl TableInfo {
    /// Adds what another program that shares the table may do to it.
    pub(crate) fn join(&mut self, other: &TableInfo) {
        self.grows |= other.grows;
        self.shrinks |= other.shrinks;
        self.changes.iter_mut().zip(&other.changes).for_each(|(a, b)| *a |= b);
        self.holds |= other.holds;
        self.linked |= other.linked;
        self.keys_read |= other.keys_read;
    }

    /// Whether nothing that a program does shows in it.
    pub(crate) fn is_fixed(&self) -> bool {
        !(self.grows
            || self.shrinks
            || self.changes.contains(&true)
            || self.holds
            || self.linked
            || self.edited)
    }

    /// What a table of prefixes says, by result, if its rows differ in nothing else.
    fn results(&self, decl: &TableDecl) -> Option<&Results> {
        let lpm = decl.kind == Kind::Lpm
            && self.is_fixed()
            && !self.keys_read
            && decl.key.len() == 1
            && decl.group.is_none();
        let first = || lpm.then(|| by_result(&self.rows, decl.key[0].width.max())).flatten();
        self.results.get_or_init(first).as_ref()
    }
}

impl Explorer<'_> {
    pub(crate) fn entries_of(st: &State, table: u32) -> Vec<usize> {
        (0..st.entries.len()).rev().filter(|&i| st.entries[i].table == table).collect()
    }

    /// The entry that a key finds.
    pub(crate) fn lookup(&mut self, st: &mut State, table: u32, key: &[Expr]) -> Result<Option<usize>, Cut> {
        self.look_into(st, table)?;
        match self.net.decl(table).kind {
            Kind::Exact => self.lookup_exact(st, table, key),
            Kind::Array => self.lookup_array(st, table, key),
            Kind::Lpm | Kind::Rules if self.net.info(table).edited => self.lookup_edited(st, table, key),
            Kind::Lpm | Kind::Rules => self.lookup_rows(st, table, key),
        }
    }

    fn lookup_exact(&mut self, st: &mut State, table: u32, key: &[Expr]) -> Result<Option<usize>, Cut> {
        for i in Self::entries_of(st, table) {
            let same = self.x.keys_equal(&st.entries[i].key, key);
            if self.decide(st, same)? {
                st.used |= st.entries[i].makers;
                self.note_reads(st);
                return Ok(st.entries[i].live.then_some(i));
            }
        }
        for r in 0..self.net.info(table).rows.len() {
            let known = self.row_key(table, r);
            let same = self.x.keys_equal(&known, key);
            if self.decide(st, same)? {
                return self.found_row(st, table, r, At::Key(known.clone().into()), known);
            }
        }
        let info = self.net.info(table);
        let may_be = self.supposed.as_ref().map_or(info.open, |s| s.may_be_in(table));
        if !(may_be && info.grows) {
            if info.grows {
                self.note_missed(st, table, key)?;
            }
            return Ok(None);
        }
        let at = EntryAt { table, at: At::Key(key.into()) };
        let has = self.x.symbol(Width::W1, Symbol::Has(at.clone()));
        if self.decide(st, has)? { self.old_entry(st, at, key.to_vec(), None).map(Some) } else { Ok(None) }
    }

    /// A lookup found nothing where other packets could have put something: a check has to look at histories.
    fn note_missed(&mut self, st: &mut State, table: u32, key: &[Expr]) -> Result<(), Cut> {
        let is_behind = st.others != 0 && st.uses_all_others() && !self.was_missed(st, table, key);
        if st.others != 0 && !is_behind {
            st.missed.push((table, key.into()));
        }
        if is_behind && !self.missed.behind.contains(&table) {
            // Only what can be.
            if !st.facts.sharpen(&self.x) {
                return Err(Cut);
            }
            self.missed.somewhere = true;
            self.missed.behind.insert(table);
        } else if !self.missed.somewhere {
            self.missed.note(&self.x, &st.facts);
        }
        Ok(())
    }

    /// A path reads a field of an entry. What it reads of those of others may be changed by one more packet.
    pub(crate) fn note_read(&mut self, st: &mut State, entry: usize, field: u32) {
        let e = &st.entries[entry];
        let read = (e.table, field);
        if st.others & e.makers != 0 && !st.read.contains(&read) {
            st.read.push(read);
            self.note_reads(st);
        }
    }

    /// That matters once the path depends on all packets before.
    fn note_reads(&mut self, st: &State) {
        if st.others != 0 && st.uses_all_others() {
            self.missed.read.extend(&st.read);
        }
    }

    /// Whether a path looked for a key before, in vain: then others had not put it there.
    fn was_missed(&mut self, st: &State, table: u32, key: &[Expr]) -> bool {
        st.missed.iter().filter(|(t, _)| *t == table).any(|(_, missed)| {
            let same = self.x.keys_equal(missed, key);
            st.facts.truth(&self.x, same) == Some(true)
        })
    }

    fn lookup_array(&mut self, st: &mut State, table: u32, key: &[Expr]) -> Result<Option<usize>, Cut> {
        let [index] = key else { return Ok(None) };
        let w = self.x.width(*index);
        let capacity = self.net.decl(table).capacity;
        if u128::from(capacity) <= w.max() {
            let end = self.x.constant(w, capacity.into());
            let inside = self.x.less(*index, end);
            if !self.decide(st, inside)? {
                return Ok(None);
            }
        }
        let mut index = *index;
        if st.facts.set(&self.x, index).count() <= self.limits.values as u128 {
            let v = self.pick(st, index)?;
            index = self.x.constant(w, v);
        }
        for i in Self::entries_of(st, table) {
            let same = self.x.equal(st.entries[i].key[0], index);
            if self.decide(st, same)? {
                return Ok(Some(i));
            }
        }
        let row = self.x.constant_value(index).map(|v| v as usize);
        let at = EntryAt { table, at: At::Key([index].into()) };
        self.old_entry(st, at, vec![index], row).map(Some)
    }

    /// By rows that are known, in their order.
    fn lookup_rows(&mut self, st: &mut State, table: u32, key: &[Expr]) -> Result<Option<usize>, Cut> {
        let info = self.net.info(table);
        if let (Some(results), [key]) = (info.results(self.net.decl(table)), key) {
            return self.lookup_results(st, table, *key, results, None);
        }
        for r in 0..self.net.info(table).rows.len() {
            let matches = self.row_matches(table, r, key);
            if !self.decide(st, matches)? {
                continue;
            }
            let base = EntryAt { table, at: At::Row(r as u32) };
            let seen = st.entries.iter().position(|e| e.base.as_ref() == Some(&base));
            match seen {
                Some(i) if st.entries[i].live => return Ok(Some(i)),
                Some(_) => {}
                None => {
                    if let Some(i) = self.found_row(st, table, r, base.at, Vec::new())? {
                        return Ok(Some(i));
                    }
                }
            }
        }
        Ok(None)
    }

    /// By results that are known: one path for each, not for each row; the first row of a result stands for all of them.
    /// The paths of other results go on at the block for a hit or a miss, if those are given, or else come by here again.
    fn lookup_results(
        &mut self,
        st: &mut State,
        table: u32,
        key: Expr,
        results: &Results,
        targets: Option<(&Target, &Target)>,
    ) -> Result<Option<usize>, Cut> {
        let keys = st.facts.set(&self.x, key);
        let (mut found, mut missed) = results.of(&keys);
        if self.guide.is_some() && found.len() + usize::from(missed) > 1 {
            // The run says which.
            let mut hit = None;
            for &i in &found {
                let within = self.x.within(key, &results.parts[i].1);
                if self.decide(st, within)? {
                    hit = Some(i);
                    break;
                }
            }
            (found, missed) = (hit.into_iter().collect(), hit.is_none());
        }
        // Where there are several ways, each is taken by a path of its own; the first goes on at once, and is explored first.
        let follows_miss = targets.is_none_or(|(_, miss)| !self.is_lost(st, miss.block));
        if missed && !found.is_empty() && follows_miss {
            let mut other = Box::new(st.clone());
            let none = found.iter().all(|&i| {
                let within = self.x.within(key, &results.parts[i].1);
                self.assume(&mut other, within, false).is_ok()
            });
            match targets {
                _ if !none => {}
                Some((_, miss)) => {
                    let next = self.go(&mut other, miss, &[]);
                    self.resume_at(other, next);
                }
                None => self.resume(other),
            }
        }
        for &i in found.iter().skip(1).rev() {
            let mut other = Box::new(st.clone());
            let within = self.x.within(key, &results.parts[i].1);
            if !other.facts.assume_in(&self.x, within, key, &keys, &results.parts[i].1) {
                continue;
            }
            match targets {
                Some((hit, _)) => {
                    let e = self.fixed_row(&mut other, table, results.parts[i].0);
                    let next = self.go(&mut other, hit, &[e as u32]);
                    self.resume_at(other, next);
                }
                None => self.resume(other),
            }
        }
        let Some(&first) = found.first() else { return Ok(None) };
        if found.len() > 1 || missed {
            let within = self.x.within(key, &results.parts[first].1);
            if !st.facts.assume_in(&self.x, within, key, &keys, &results.parts[first].1) {
                return Err(Cut);
            }
        }
        Ok(Some(self.fixed_row(st, table, results.parts[first].0)))
    }

    /// Goes on at one of two blocks by whether a key finds an entry.
    pub(crate) fn branch_by_lookup(
        &mut self,
        st: &mut State,
        table: u32,
        key: &[Expr],
        (hit, miss): (&Target, &Target),
    ) -> Result<Option<BlockId>, Cut> {
        let (info, decl) = (self.net.info(table), self.net.decl(table));
        let found = match (info.results(decl), key) {
            (Some(results), [key]) if !info.edited => {
                self.lookup_results(st, table, *key, results, Some((hit, miss)))?
            }
            _ => self.lookup(st, table, key)?,
        };
        Ok(match found {
            Some(e) => self.go(st, hit, &[e as u32]),
            None => self.go(st, miss, &[]),
        })
    }

    /// By rows that the control side may have put there: any.
    fn lookup_edited(&mut self, st: &mut State, table: u32, key: &[Expr]) -> Result<Option<usize>, Cut> {
        let at = EntryAt { table, at: At::Key(key.into()) };
        let has = self.x.symbol(Width::W1, Symbol::Has(at.clone()));
        if !self.decide(st, has)? {
            return Ok(None);
        }
        for i in Self::entries_of(st, table) {
            if !st.entries[i].live {
                return Err(self.give_up(Incomplete::TableKind));
            }
            let Some(EntryAt { at: At::Key(other), .. }) = &st.entries[i].base else { continue };
            let same = if other[..] == *key {
                self.x.constant(Width::W1, 1)
            } else {
                let symbol = Symbol::Same { table, a: other.clone(), b: key.into() };
                self.x.symbol(Width::W1, symbol)
            };
            if self.decide(st, same)? {
                return Ok(Some(i));
            }
        }
        self.old_entry(st, at, Vec::new(), None).map(Some)
    }

    fn row_key(&mut self, table: u32, row: usize) -> Vec<Expr> {
        let fields = &self.net.decl(table).key;
        let matches = &self.net.info(table).rows[row].key;
        let value = |m: &KeyMatch| if let KeyMatch::Exact(v) = m { *v } else { 0 };
        fields.iter().zip(matches).map(|(f, m)| self.x.constant(f.width, value(m))).collect()
    }

    fn row_matches(&mut self, table: u32, row: usize, key: &[Expr]) -> Expr {
        let x = &mut self.x;
        let mut all = x.constant(Width::W1, 1);
        for (m, &v) in self.net.info(table).rows[row].key.iter().zip(key) {
            let w = x.width(v);
            let one = match *m {
                KeyMatch::Exact(k) => x.is(v, k),
                KeyMatch::Mask(k, mask) => {
                    let c = x.constant(w, mask);
                    let part = x.binary(BinOp::And, v, c);
                    x.is(part, k & mask)
                }
                KeyMatch::Range(lo, hi) => {
                    let (lo, hi) = (x.constant(w, lo), x.constant(w, hi));
                    let (above, below) = (x.at_most(lo, v), x.at_most(v, hi));
                    x.both(above, below)
                }
                KeyMatch::Prefix(k, len) => {
                    let low = w.max().checked_shr(len).unwrap_or(0);
                    let c = x.constant(w, !low);
                    let part = x.binary(BinOp::And, v, c);
                    x.is(part, k & !low & w.max())
                }
            };
            all = x.both(all, one);
        }
        all
    }

    /// The entry of a first row, if it is still there.
    fn found_row(
        &mut self,
        st: &mut State,
        table: u32,
        row: usize,
        at: At,
        key: Vec<Expr>,
    ) -> Result<Option<usize>, Cut> {
        let at = EntryAt { table, at };
        if self.net.info(table).shrinks {
            let has = self.x.symbol(Width::W1, Symbol::Has(at.clone()));
            if !self.decide(st, has)? {
                return Ok(None);
            }
        }
        self.old_entry(st, at, key, Some(row)).map(Some)
    }
}
