//! Tables on a path: what was there before is unknown but for the first content; what the path did is on top.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use weir_ir::program::{BinOp, Width};
use weir_table::{KeyMatch, Kind};

use crate::explore::Cut;
use crate::explore::branch::Branch;
use crate::explore::invariant::{LeftEntry, TableInvariant};
use crate::explore::path::Incomplete;
use crate::explore::state::{Packets, State};
use crate::model::expr::{At, EntryAt, Expr, Exprs, Symbol};
use crate::model::facts::Facts;
use crate::model::packet::SymbolicPacket;
use crate::model::ranges::Results;
use crate::network::Network;

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

/// A path that a lookup split off, and the entry that it found.
pub(crate) type Other = (Box<State>, Option<usize>);

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

/// The content of tables on paths, beside what a path found or made there.
pub(crate) struct TableModel<'a> {
    pub(crate) net: &'a Network,
    /// Lookups that found nothing where others could have put something.
    pub(crate) missed: Missed,
    /// What stands in tables where nothing is known to stand. `None`: nothing, but for open networks.
    pub(crate) invariant: Option<Rc<TableInvariant>>,
    /// What stood in tables while others' packets had their turn.
    pub(crate) between: Vec<LeftEntry>,
    /// Rows that no program can change, as entries.
    pub(crate) fixed: FxHashMap<(u32, usize), Rc<Entry>>,
}

impl<'a> TableModel<'a> {
    /// Of tables with their declared contents.
    pub(crate) fn new(net: &'a Network) -> TableModel<'a> {
        let (missed, fixed) = (Missed::default(), FxHashMap::default());
        TableModel { net, missed, invariant: None, between: Vec::new(), fixed }
    }
}

impl TableModel<'_> {
    pub(crate) fn entries_of(st: &State, table: u32) -> Vec<usize> {
        (0..st.entries.len()).rev().filter(|&i| st.entries[i].table == table).collect()
    }

    /// The entry that a key finds.
    pub(crate) fn lookup(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        table: u32,
        key: &[Expr],
    ) -> Result<Option<usize>, Cut> {
        self.look_into(b, st, table)?;
        match self.net.decl(table).kind {
            Kind::Exact => self.lookup_exact(b, st, table, key),
            Kind::Array => self.lookup_array(b, st, table, key),
            Kind::Lpm | Kind::Rules if self.net.info(table).is_edited() => {
                self.lookup_edited(b, st, table, key)
            }
            Kind::Lpm | Kind::Rules => self.lookup_rows(b, st, table, key),
        }
    }

    fn lookup_exact(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        table: u32,
        key: &[Expr],
    ) -> Result<Option<usize>, Cut> {
        for i in Self::entries_of(st, table) {
            let same = b.x.keys_equal(&st.entries[i].key, key);
            if b.decide(st, same)? {
                st.used |= st.entries[i].makers;
                self.note_reads(st);
                return Ok(st.entries[i].live.then_some(i));
            }
        }
        for r in 0..self.net.info(table).rows.len() {
            let known = self.row_key(b, table, r);
            let same = b.x.keys_equal(&known, key);
            if b.decide(st, same)? {
                return self.found_row(b, st, table, r, At::Key(known.clone().into()), known);
            }
        }
        let info = self.net.info(table);
        let may_be = self.invariant.as_ref().map_or(info.open, |s| s.may_be_in(table));
        if !(may_be && info.grows) {
            if info.grows {
                self.note_missed(b, st, table, key)?;
            }
            return Ok(None);
        }
        let at = EntryAt { table, at: At::Key(key.into()) };
        let has = b.x.symbol(Width::W1, Symbol::Has(at.clone()));
        if b.decide(st, has)? { self.old_entry(b, st, at, key.to_vec(), None).map(Some) } else { Ok(None) }
    }

    /// A lookup found nothing where other packets could have put something: a check has to look at histories.
    fn note_missed(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        table: u32,
        key: &[Expr],
    ) -> Result<(), Cut> {
        let is_behind = st.others != 0 && st.uses_all_others() && !self.was_missed(b, st, table, key);
        if st.others != 0 && !is_behind {
            st.missed.push((table, key.into()));
        }
        if is_behind && !self.missed.behind.contains(&table) {
            // Only what can be.
            if !st.facts.sharpen(&b.x) {
                return Err(Cut);
            }
            self.missed.somewhere = true;
            self.missed.behind.insert(table);
        } else if !self.missed.somewhere {
            self.missed.note(&b.x, &st.facts);
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
    fn was_missed(&mut self, b: &mut Branch<'_>, st: &State, table: u32, key: &[Expr]) -> bool {
        st.missed.iter().filter(|(t, _)| *t == table).any(|(_, missed)| {
            let same = b.x.keys_equal(missed, key);
            st.facts.truth(&b.x, same) == Some(true)
        })
    }

    fn lookup_array(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        table: u32,
        key: &[Expr],
    ) -> Result<Option<usize>, Cut> {
        let [index] = key else { return Ok(None) };
        let w = b.x.width(*index);
        let capacity = self.net.decl(table).capacity;
        if u128::from(capacity) <= w.max() {
            let end = b.x.constant(w, capacity.into());
            let inside = b.x.less(*index, end);
            if !b.decide(st, inside)? {
                return Ok(None);
            }
        }
        let mut index = *index;
        if st.facts.set(&b.x, index).count() <= b.budget.limits.values as u128 {
            let v = b.pick(st, index)?;
            index = b.x.constant(w, v);
        }
        for i in Self::entries_of(st, table) {
            let same = b.x.equal(st.entries[i].key[0], index);
            if b.decide(st, same)? {
                return Ok(Some(i));
            }
        }
        let row = b.x.constant_value(index).map(|v| v as usize);
        let at = EntryAt { table, at: At::Key([index].into()) };
        self.old_entry(b, st, at, vec![index], row).map(Some)
    }

    /// By rows that are known, in their order.
    fn lookup_rows(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        table: u32,
        key: &[Expr],
    ) -> Result<Option<usize>, Cut> {
        let info = self.net.info(table);
        if let (Some(results), [key]) = (info.results(self.net.decl(table)), key) {
            return self.lookup_results(b, st, (table, *key), results, None);
        }
        for r in 0..self.net.info(table).rows.len() {
            let matches = self.row_matches(b, table, r, key);
            if !b.decide(st, matches)? {
                continue;
            }
            let base = EntryAt { table, at: At::Row(r as u32) };
            let seen = st.entries.iter().position(|e| e.base.as_ref() == Some(&base));
            match seen {
                Some(i) if st.entries[i].live => return Ok(Some(i)),
                Some(_) => {}
                None => {
                    if let Some(i) = self.found_row(b, st, table, r, base.at, Vec::new())? {
                        return Ok(Some(i));
                    }
                }
            }
        }
        Ok(None)
    }

    /// By results that are known: one path for each, not for each row; the first row of a result stands for all of them.
    /// The paths of other results, and of none if that is `followed`, are given to `others`, with the entry that they found; without
    /// that they come by here again.
    pub(crate) fn lookup_results(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        (table, key): (u32, Expr),
        results: &Results,
        mut others: Option<(bool, &mut Vec<Other>)>,
    ) -> Result<Option<usize>, Cut> {
        let keys = st.facts.set(&b.x, key);
        let (mut found, mut missed) = results.of(&keys);
        if b.guide.is_some() && found.len() + usize::from(missed) > 1 {
            // The run says which.
            let mut hit = None;
            for &i in &found {
                let within = b.x.within(key, &results.parts[i].1);
                if b.decide(st, within)? {
                    hit = Some(i);
                    break;
                }
            }
            (found, missed) = (hit.into_iter().collect(), hit.is_none());
        }
        // Where there are several possibilities, each is taken by a path of its own; the first goes on at once, and is explored first.
        let follows_miss = others.as_ref().is_none_or(|(followed, _)| *followed);
        if missed && !found.is_empty() && follows_miss {
            let mut other = Box::new(st.clone());
            let none = found.iter().all(|&i| {
                let within = b.x.within(key, &results.parts[i].1);
                b.assume(&mut other, within, false).is_ok()
            });
            match &mut others {
                _ if !none => {}
                Some((_, list)) => list.push((other, None)),
                None => b.resume(other),
            }
        }
        for &i in found.iter().skip(1).rev() {
            let mut other = Box::new(st.clone());
            let within = b.x.within(key, &results.parts[i].1);
            if !other.facts.assume_in(&b.x, within, key, &keys, &results.parts[i].1) {
                continue;
            }
            match &mut others {
                Some((_, list)) => {
                    let e = self.fixed_row(b, &mut other, table, results.parts[i].0);
                    list.push((other, Some(e)));
                }
                None => b.resume(other),
            }
        }
        let Some(&first) = found.first() else { return Ok(None) };
        if found.len() > 1 || missed {
            let within = b.x.within(key, &results.parts[first].1);
            if !st.facts.assume_in(&b.x, within, key, &keys, &results.parts[first].1) {
                return Err(Cut);
            }
        }
        Ok(Some(self.fixed_row(b, st, table, results.parts[first].0)))
    }

    /// By rows that the control side may have put there: any.
    fn lookup_edited(
        &mut self,
        b: &mut Branch<'_>,
        st: &mut State,
        table: u32,
        key: &[Expr],
    ) -> Result<Option<usize>, Cut> {
        let at = EntryAt { table, at: At::Key(key.into()) };
        let has = b.x.symbol(Width::W1, Symbol::Has(at.clone()));
        if !b.decide(st, has)? {
            return Ok(None);
        }
        for i in Self::entries_of(st, table) {
            if !st.entries[i].live {
                return Err(b.give_up(Incomplete::TableKind));
            }
            let Some(EntryAt { at: At::Key(other), .. }) = &st.entries[i].base else { continue };
            let same = if other[..] == *key {
                b.x.constant(Width::W1, 1)
            } else {
                let symbol = Symbol::Same { table, a: other.clone(), b: key.into() };
                b.x.symbol(Width::W1, symbol)
            };
            if b.decide(st, same)? {
                return Ok(Some(i));
            }
        }
        self.old_entry(b, st, at, Vec::new(), None).map(Some)
    }

    fn row_key(&mut self, b: &mut Branch<'_>, table: u32, row: usize) -> Vec<Expr> {
        let fields = &self.net.decl(table).key;
        let matches = &self.net.info(table).rows[row].key;
        let value = |m: &KeyMatch| if let KeyMatch::Exact(v) = m { *v } else { 0 };
        fields.iter().zip(matches).map(|(f, m)| b.x.constant(f.width, value(m))).collect()
    }

    fn row_matches(&mut self, b: &mut Branch<'_>, table: u32, row: usize, key: &[Expr]) -> Expr {
        let x = &mut b.x;
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
        b: &mut Branch<'_>,
        st: &mut State,
        table: u32,
        row: usize,
        at: At,
        key: Vec<Expr>,
    ) -> Result<Option<usize>, Cut> {
        let at = EntryAt { table, at };
        if self.net.info(table).shrinks {
            let has = b.x.symbol(Width::W1, Symbol::Has(at.clone()));
            if !b.decide(st, has)? {
                return Ok(None);
            }
        }
        self.old_entry(b, st, at, key, Some(row)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_ir::{Builder, Reason, TableDecl};

    use super::*;
    use crate::explore::path::Limits;

    #[test]
    fn a_key_finds_what_the_path_put_there_and_misses_what_others_may_have() {
        let mut b = Builder::new("p", 1, 1);
        let decl = TableDecl::new("seen", Kind::Exact, &[("key", Width::W8)], &[], 8);
        let table = b.table(decl, Vec::new());
        b.input(0, |b| {
            let key = b.constant(Width::W8, 7_u8);
            b.insert(table, &[key], |b| b.drop(Reason::FULL));
            b.emit(0);
        });
        let mut net = Network::new();
        net.add_program("p", &Arc::new(b.finish()), 0);
        let (mut tables, mut b) = (TableModel::new(&net), Branch::new(Limits::default(), None));
        let mut st = State::fresh();
        let [seven, eight] = [7, 8].map(|n| b.x.constant(Width::W8, n));
        let made = tables.new_entry(&mut b, &mut st, 0, vec![seven]);
        assert_eq!(tables.lookup(&mut b, &mut st, 0, &[seven]).ok(), Some(Some(made)));
        assert!(!tables.missed.somewhere);
        assert_eq!(tables.lookup(&mut b, &mut st, 0, &[eight]).ok(), Some(None));
        tables.missed.settle(&b.x);
        assert!(tables.missed.somewhere);
        let size = tables.size(&mut b, &st, 0);
        assert_eq!(b.x.constant_value(size), None, "how many others stand there is not known");
    }
}
