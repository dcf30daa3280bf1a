//! Proofs that nothing is found after any packets of others, however many.

use super::histories::{Looked, Others};
use super::{Checker, Search};
use crate::explore::invariant::TableInvariant;
use crate::explore::trace::Trace;

/// So often what is assumed to stand in tables may turn out to be too little.
const ROUNDS: usize = 8;

impl<'a> Checker<'a> {
    /// Whether nothing is found whatever stands in tables, of all that packets of others can have left there. If so, nothing is
    /// left out that was given up before.
    pub(super) fn is_never(
        &mut self,
        others: &mut Others<'_, 'a>,
        check: &mut impl FnMut(&mut Self, &Trace) -> Looked,
    ) -> bool {
        let incomplete = self.session.take_incomplete();
        let walks = self.session.swap_walks(0);
        self.proving = true;
        let proved = self.is_so_whatever_was_left(check) || self.is_inductive(others, check);
        self.proving = false;
        self.session.assume_in_tables(None);
        self.session.swap_walks(walks);
        self.session.forget_missed();
        self.session.take_incomplete();
        if let Some(why) = incomplete.filter(|_| !proved) {
            self.session.give_up(why);
        }
        proved
    }

    /// Whether nothing is found with anything in tables.
    fn is_so_whatever_was_left(&mut self, check: &mut impl FnMut(&mut Self, &Trace) -> Looked) -> bool {
        let blank = self.session.blank();
        self.session.assume_in_tables(Some(TableInvariant::Anything));
        let found = check(self, &blank).found;
        self.session.take_incomplete().is_none() && matches!(found, Search::Impossible)
    }

    /// Whether everything was explored so far.
    fn is_complete(&mut self) -> bool {
        let why = self.session.take_incomplete();
        if let Some(why) = why {
            self.session.give_up(why);
        }
        why.is_none()
    }

    /// Assumes that what packets can leave stands in tables, until they leave nothing else; and whether nothing is found then.
    fn is_inductive(
        &mut self,
        others: &mut Others<'_, 'a>,
        check: &mut impl FnMut(&mut Self, &Trace) -> Looked,
    ) -> bool {
        let (blank, mut invariant) = (self.session.blank(), TableInvariant::nothing());
        for _ in 0..ROUNDS {
            self.session.assume_in_tables(Some(invariant.clone()));
            let Looked { found, ended } = check(self, &blank);
            if !matches!(found, Search::Impossible) || !self.is_complete() {
                return false;
            }
            let traces = match (ended, &mut *others) {
                (Some(traces), _) => traces,
                // Many requirements ask for that.
                (None, Others::From(_)) => Vec::new(),
                (None, others) => self.let_in(others, &blank),
            };
            let mut more = self.session.add_to(&mut invariant, &traces);
            if let Others::From(starts) = others {
                let starts = starts.iter().map(|s| (s.place, s.input.clone())).collect();
                let Some(after) = self.session.after_others(starts, invariant) else { return false };
                (invariant, more) = (after.invariant, more | after.more);
            }
            if !self.is_complete() {
                return false;
            }
            if !more {
                return true;
            }
        }
        false
    }
}
