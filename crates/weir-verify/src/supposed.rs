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
use crate::session::{Session, Story};
use crate::set::Set;
use crate::state::State;
use crate::tables::Entry;

/// What grows so often is anything.
const GROWTHS: u32 = 3;
/// Most intervals that are told apart.
const INTERVALS: usize = 64;
/// Most forms of a table.
const FORMS: usize = 4;

/// What stands in tables where nothing is known to stand.
#[derive(Debug, Clone)]
pub(crate) enum Supposed {
    /// Anything that fits.
    Anything,
    /// In these tables entries of one of these forms, in others nothing.
    Forms(BTreeMap<u32, Vec<Form>>),
}

/// What the parts of a key, and behind those the fields, may be.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    parts: Vec<Set>,
    grown: u32,
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

    /// Adds an entry, by what its parts may be and their widths. Whether that is more than was supposed.
    fn add(&mut self, table: u32, parts: Vec<Set>, widths: &[Width]) -> bool {
        let Supposed::Forms(forms) = self else { return false };
        let forms = forms.entry(table).or_default();
        if forms.iter().any(|f| f.covered(&parts) == parts.len()) {
            return false;
        }
        if forms.len() < FORMS {
            forms.push(Form { parts: parts.into_iter().map(few).collect(), grown: 0 });
        } else if let Some(nearest) = forms.iter_mut().max_by_key(|f| f.covered(&parts)) {
            nearest.join(&parts, widths);
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
    /// Adds the entries that a path leaves to what is supposed. Whether they are more.
    pub(crate) fn add_to(&self, supposed: &mut Supposed, st: &State) -> bool {
        let left = st.entries.iter().filter(|e| e.live && self.is_new(e));
        left.fold(false, |more, e| {
            let parts = || e.key.iter().chain(&e.fields);
            let sets = parts().map(|part| st.facts.set(&self.x, *part)).collect();
            let widths: Vec<Width> = parts().map(|part| self.x.width(*part)).collect();
            supposed.add(e.table, sets, &widths) | more
        })
    }

    /// Whether an entry of a table that grows is not what it was before.
    fn is_new(&self, e: &Entry) -> bool {
        let is_as_before = |base| {
            let known = (0..).zip(&e.fields).zip(&self.net.info(e.table).changes);
            known.into_iter().all(|((f, field), changes)| {
                !changes || matches!(self.x.node(*field), Node::Symbol(Symbol::Field(at, n)) if at == base && *n == f)
            })
        };
        self.net.decl(e.table).kind == Kind::Exact && !e.base.as_ref().is_some_and(is_as_before)
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
        for (part, known) in e.key.iter().chain(&e.fields).zip(&form.parts) {
            if *known != Set::full(self.x.width(*part)) {
                let is_one = self.x.within(*part, &Arc::new(known.clone()));
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
    }

    /// Adds what a story leaves in tables to what is supposed to stand there. Whether that is more.
    pub(crate) fn add_to(&self, supposed: &mut Supposed, story: &Story) -> bool {
        self.e.add_to(supposed, &story.state)
    }
}
