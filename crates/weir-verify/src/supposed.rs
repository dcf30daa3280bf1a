//! What may stand in tables, whoever came before, however often and in what order: for each table that packets can fill, sets
//! of numbers of which the parts of keys and the fields are. Where whatever packets leave in a network with such entries is
//! such an entry again, there are no others (an invariant by induction): what cannot happen then can never happen.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use weir_ir::program::Width;
use weir_table::Kind;

use crate::explore::{Cut, Explorer};
use crate::expr::{Expr, Node, Symbol};
use crate::session::Session;
use crate::set::Set;
use crate::state::State;
use crate::story::Story;
use crate::tables::Entry;

/// What grows so often is anything.
const GROWTHS: u32 = 3;
/// Most intervals that are told apart.
const INTERVALS: usize = 64;
/// Most forms of a table.
const FORMS: usize = 4;

/// What stands in tables where nothing is known to stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Supposed {
    /// Anything that fits.
    Anything,
    /// In these tables entries of one of these forms, in others nothing.
    Forms(BTreeMap<u32, Vec<Form>>),
}

/// What the parts of a key, behind those the fields, and at last the number of packets that wait, may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    parts: Vec<Set>,
    grown: u32,
}

/// An entry that a path left: what the parts of its key, its fields and the number of packets that wait may be, and how wide
/// they are.
#[derive(Debug)]
pub(crate) struct Left {
    table: u32,
    parts: Vec<Set>,
    widths: Vec<Width>,
}

impl Supposed {
    /// Nothing.
    pub(crate) fn nothing() -> Supposed {
        Supposed::Forms(BTreeMap::new())
    }

    /// Whether something may stand in a table.
    pub(crate) fn may_be_in(&self, table: u32) -> bool {
        match self {
            Supposed::Anything => true,
            Supposed::Forms(forms) => forms.contains_key(&table),
        }
    }

    /// Adds an entry. Whether that is more than was supposed.
    fn add(&mut self, Left { table, parts, widths }: Left) -> bool {
        let Supposed::Forms(forms) = self else { return false };
        let forms = forms.entry(table).or_default();
        if forms.iter().any(|f| f.covered(&parts) == parts.len()) {
            return false;
        }
        if forms.len() < FORMS {
            forms.push(Form { parts: parts.into_iter().map(few).collect(), grown: 0 });
        } else if let Some(nearest) = forms.iter_mut().max_by_key(|f| f.covered(&parts)) {
            nearest.join(&parts, &widths);
        }
        true
    }
}

impl Form {
    /// How many parts are no more than is known.
    fn covered(&self, parts: &[Set]) -> usize {
        self.parts.iter().zip(parts).filter(|(known, part)| part.is_within(known)).count()
    }

    fn join(&mut self, parts: &[Set], widths: &[Width]) {
        self.grown += 1;
        for ((known, part), width) in self.parts.iter_mut().zip(parts).zip(widths) {
            if part.is_within(known) {
                continue;
            }
            *known = if self.grown > GROWTHS {
                Set::full(*width)
            } else {
                few(Set::union([known.intervals(), part.intervals()].concat()))
            };
        }
    }
}

/// The set, or the interval around it if it has many.
fn few(set: Set) -> Set {
    let hull = set.hull().filter(|_| set.intervals().len() > INTERVALS);
    hull.map_or(set, |(lo, hi)| Set::range(lo, hi))
}

impl Explorer<'_> {
    /// The entries that a path leaves, as they stand now.
    pub(crate) fn left_by(&mut self, st: &State) -> Vec<Left> {
        let mut left = Vec::new();
        for (i, e) in st.entries.iter().enumerate().filter(|(_, e)| e.live) {
            if !self.is_new(e) {
                continue;
            }
            let all = || e.key.iter().chain(&e.fields);
            let mut parts: Vec<Set> = all().map(|part| st.facts.set(&self.x, *part)).collect();
            let mut widths: Vec<Width> = all().map(|part| self.x.width(*part)).collect();
            let held = self.held_now(st, i);
            let held = st.facts.set(&self.x, held);
            // Whether there are some, and not how many: they would grow by one each time.
            let many = Set::range(u128::from(!held.contains(0)), Width::W32.max());
            parts.push(if held.value() == Some(0) { held } else { many });
            widths.push(Width::W32);
            left.push(Left { table: e.table, parts, widths });
        }
        left
    }

    /// Whether an entry of a table that grows is not what it was before.
    fn is_new(&self, e: &Entry) -> bool {
        let is_as_before = |base| {
            let known = (0..).zip(&e.fields).zip(&self.net.info(e.table).changes);
            known.into_iter().all(|((f, field), changes)| {
                !changes || matches!(self.x.node(*field), Node::Symbol(Symbol::Field(at, n)) if at == base && *n == f)
            })
        };
        let is_old = e.held.is_empty() && e.base.as_ref().is_some_and(is_as_before);
        self.net.decl(e.table).kind == Kind::Exact && !is_old
    }

    /// An entry that was found is one of those that are supposed.
    pub(crate) fn learn_form(&mut self, st: &mut State, e: &Entry) -> Result<(), Cut> {
        let supposed = self.supposed.clone();
        let Some(Supposed::Forms(forms)) = supposed.as_deref() else { return Ok(()) };
        let Some((last, others)) = forms.get(&e.table).and_then(|forms| forms.split_last()) else {
            return Ok(());
        };
        for form in others {
            let is_one = self.is_of_form(e, form);
            if self.decide(st, is_one)? {
                return Ok(());
            }
        }
        let is_last = self.is_of_form(e, last);
        self.learn(st, is_last)
    }

    fn is_of_form(&mut self, e: &Entry, form: &Form) -> Expr {
        let mut all = self.x.constant(Width::W1, 1);
        let held = self.held_before(e);
        for (&part, known) in e.key.iter().chain(&e.fields).chain(&held).zip(&form.parts) {
            if *known != Set::full(self.x.width(part)) {
                let is_one = self.x.within(part, &Arc::new(known.clone()));
                all = self.x.both(all, is_one);
            }
        }
        all
    }
}

impl Session<'_> {
    /// From now on this stands in tables.
    pub(crate) fn suppose(&mut self, what: Option<Supposed>) {
        self.e.supposed = what.map(Rc::new);
        self.e.between.clear();
    }

    /// Adds to what is supposed what stories leave in tables, and what stood there while others' packets had their turn since
    /// this was last asked. Whether that is more.
    pub(crate) fn add_to(&mut self, supposed: &mut Supposed, stories: &[Story]) -> bool {
        let between = std::mem::take(&mut self.e.between);
        let left: Vec<Left> = stories.iter().flat_map(|s| self.e.left_by(&s.state)).collect();
        between.into_iter().chain(left).fold(false, |more, one| supposed.add(one) | more)
    }
}
