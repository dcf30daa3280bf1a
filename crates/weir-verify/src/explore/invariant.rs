//! What may stand in tables, whoever came before, however often and in what order: for each table that packets can fill, sets
//! of numbers of which the parts of keys and the fields are. Where whatever packets leave in a network with such entries is
//! such an entry again, there are no others (an invariant by induction): what cannot happen then can never happen.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use weir_ir::program::Width;
use weir_table::Kind;

use crate::explore::Cut;
use crate::explore::branch::Branch;
use crate::explore::session::Session;
use crate::explore::state::State;
use crate::explore::tables::Entry;
use crate::explore::tables::TableModel;
use crate::explore::trace::Trace;
use crate::model::expr::{Expr, Node, Symbol};
use crate::model::set::Set;

/// What grows more often is anything.
const GROWTHS: u32 = 2;
/// Most intervals that are distinguished.
const INTERVALS: usize = 64;
/// Most forms of a table.
const FORMS: usize = 4;
/// Most that are distinguished while they are looked for.
const CANDIDATES: usize = 16;
/// As much as so many parts in other ranges counts a part that is another number.
const KEEPS: usize = 3;

/// An invariant of tables: their content where nothing is known to stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TableInvariant {
    /// Anything that fits.
    Anything,
    /// In these tables entries of one of these forms, in others nothing.
    Forms(BTreeMap<u32, Vec<Form>>),
}

/// A form of entries: the values that the parts of a key, behind those the fields, and at last the number of packets that wait, may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    parts: Vec<Set>,
    grown: u32,
}

/// An entry that a path left: what the parts of its key, its fields and the number of packets that wait may be, and how wide
/// they are.
#[derive(Debug)]
pub(crate) struct LeftEntry {
    table: u32,
    parts: Vec<Set>,
    widths: Vec<Width>,
}

impl TableInvariant {
    /// Nothing.
    pub(crate) fn nothing() -> TableInvariant {
        TableInvariant::Forms(BTreeMap::new())
    }

    /// Whether something may stand in a table.
    pub(crate) fn may_be_in(&self, table: u32) -> bool {
        match self {
            TableInvariant::Anything => true,
            TableInvariant::Forms(forms) => forms.contains_key(&table),
        }
    }

    /// Adds entries. Whether that is more than was assumed.
    pub(crate) fn add(&mut self, left: Vec<LeftEntry>) -> bool {
        let TableInvariant::Forms(forms) = self else { return false };
        let mut by_table: BTreeMap<u32, Vec<LeftEntry>> = BTreeMap::new();
        for one in left {
            by_table.entry(one.table).or_default().push(one);
        }
        by_table.into_iter().fold(false, |more, (table, left)| {
            let forms = forms.entry(table).or_default();
            let widths = left.first().map(|l| l.widths.clone()).unwrap_or_default();
            let mut all = forms.clone();
            for one in left {
                let new = Form { parts: one.parts.into_iter().map(few).collect(), grown: 0 };
                if !all.iter().any(|f| new.is_within(f)) {
                    all.push(new);
                    join_nearest(&mut all, CANDIDATES);
                }
            }
            join_nearest(&mut all, FORMS);
            all.iter_mut().for_each(|f| f.grow_from(forms, &widths));
            let is_more = all != *forms;
            *forms = all;
            more | is_more
        })
    }
}

/// Joins forms that are most alike until they are not too many.
fn join_nearest(forms: &mut Vec<Form>, most: usize) {
    while forms.len() > most {
        let pairs = (1..forms.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let Some((i, j)) = pairs.min_by_key(|&(i, j)| forms[i].distance(&forms[j])) else { return };
        let other = forms.remove(j);
        forms[i].join(&other);
    }
}

impl Form {
    fn is_within(&self, other: &Form) -> bool {
        self.parts.iter().zip(&other.parts).all(|(a, b)| a.is_within(b))
    }

    /// How different two are: that a part is one number here and another there says more than that it is in other ranges.
    fn distance(&self, other: &Form) -> usize {
        let pairs = self.parts.iter().zip(&other.parts);
        let differing = pairs.filter(|(a, b)| !a.is_within(b) && !b.is_within(a));
        differing.map(|(a, b)| if a.value().is_some() && b.value().is_some() { KEEPS } else { 1 }).sum()
    }

    fn join(&mut self, other: &Form) {
        self.grown = self.grown.max(other.grown);
        for (known, part) in self.parts.iter_mut().zip(&other.parts) {
            if !part.is_within(known) {
                *known = few(Set::union([known.intervals(), part.intervals()].concat()));
            }
        }
    }

    /// Notes that it is more than it was among these. What grows again and again is taken to be anything.
    fn grow_from(&mut self, before: &[Form], widths: &[Width]) {
        let own: Vec<&Form> = before.iter().filter(|f| f.is_within(self)).collect();
        if own.is_empty() || own.iter().any(|f| f.parts == self.parts) {
            return;
        }
        self.grown += 1;
        if self.grown > GROWTHS {
            for (i, (part, width)) in self.parts.iter_mut().zip(widths).enumerate() {
                if !own.iter().any(|f| f.parts[i] == *part) {
                    *part = Set::full(*width);
                }
            }
        }
    }
}

/// The set, or the interval around it if it has many.
fn few(set: Set) -> Set {
    let hull = set.hull().filter(|_| set.intervals().len() > INTERVALS);
    hull.map_or(set, |(lo, hi)| Set::range(lo, hi))
}

impl TableModel<'_> {
    /// The entries that a path leaves, as they stand now.
    pub(crate) fn left_by(&mut self, b: &mut Branch<'_>, st: &State) -> Vec<LeftEntry> {
        let mut left = Vec::new();
        for (i, e) in st.entries.iter().enumerate().filter(|(_, e)| e.live) {
            if !self.is_new(b, e) {
                continue;
            }
            let all = || e.key.iter().chain(&e.fields);
            let mut parts: Vec<Set> = all().map(|part| st.facts.set(&b.x, *part)).collect();
            let mut widths: Vec<Width> = all().map(|part| b.x.width(*part)).collect();
            let held = self.held_now(b, st, i);
            let held = st.facts.set(&b.x, held);
            // Whether there are some, and not how many: they would grow by one each time.
            let many = Set::range(u128::from(!held.contains(0)), Width::W32.max());
            parts.push(if held.value() == Some(0) { held } else { many });
            widths.push(Width::W32);
            left.push(LeftEntry { table: e.table, parts, widths });
        }
        left
    }

    /// Whether an entry of a table that grows is not what it was before.
    fn is_new(&self, b: &mut Branch<'_>, e: &Entry) -> bool {
        let is_as_before = |base| {
            let known = (0..).zip(&e.fields).zip(&self.net.info(e.table).changes);
            known.into_iter().all(|((f, field), changes)| {
                !changes
                    || matches!(b.x.node(*field), Node::Symbol(Symbol::Field(at, n)) if at == base && *n == f)
            })
        };
        let is_old = e.held.is_empty() && e.base.as_ref().is_some_and(is_as_before);
        self.net.decl(e.table).kind == Kind::Exact && !is_old
    }

    /// An entry that was found is one of those that are assumed.
    pub(crate) fn learn_form(&mut self, b: &mut Branch<'_>, st: &mut State, e: &Entry) -> Result<(), Cut> {
        let invariant = self.invariant.clone();
        let Some(TableInvariant::Forms(forms)) = invariant.as_deref() else { return Ok(()) };
        let Some((last, others)) = forms.get(&e.table).and_then(|forms| forms.split_last()) else {
            return Ok(());
        };
        for form in others {
            let is_one = self.is_of_form(b, e, form);
            if b.decide(st, is_one)? {
                return Ok(());
            }
        }
        let is_last = self.is_of_form(b, e, last);
        b.learn(st, is_last)
    }

    fn is_of_form(&mut self, b: &mut Branch<'_>, e: &Entry, form: &Form) -> Expr {
        let mut all = b.x.constant(Width::W1, 1);
        let held = self.held_before(b, e);
        for (&part, known) in e.key.iter().chain(&e.fields).chain(&held).zip(&form.parts) {
            if *known != Set::full(b.x.width(part)) {
                let is_one = b.x.within(part, &Arc::new(known.clone()));
                all = b.x.both(all, is_one);
            }
        }
        all
    }
}

impl Session<'_> {
    /// From now on this stands in tables.
    pub(crate) fn assume_in_tables(&mut self, what: Option<TableInvariant>) {
        self.e.tables.invariant = what.map(Rc::new);
        self.e.tables.between.clear();
    }

    /// Adds to what is assumed what traces leave in tables, and what stood there while others' packets had their turn since
    /// this was last asked. Whether that is more.
    pub(crate) fn add_to(&mut self, invariant: &mut TableInvariant, traces: &[Trace]) -> bool {
        let mut left = std::mem::take(&mut self.e.tables.between);
        traces.iter().for_each(|s| left.extend(self.e.tables.left_by(&mut self.e.branch, &s.state)));
        invariant.add(left)
    }
}
