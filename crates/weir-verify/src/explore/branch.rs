//! Where a path goes on: by what is known, as a concrete run says, or as several paths.

use rustc_hash::FxHashMap;
use weir_ir::program::{Layer, Width};

use crate::explore::Cut;
use crate::explore::budget::Budget;
use crate::explore::frontier::Frontier;
use crate::explore::path::{Incomplete, Limits};
use crate::explore::state::State;
use crate::model::expr::{Expr, Exprs, Node, Symbol};
use crate::model::packet::{Mark, SymbolicPacket, mark_number};
use crate::model::sums::is_right;
use crate::solve::eval::{ConcreteRun, Evaluator};

/// The concrete run that a path is to follow, if there is one.
#[derive(Default)]
pub(crate) struct Guide<'a> {
    run: Option<&'a ConcreteRun<'a>>,
    memo: FxHashMap<Expr, u128>,
}

impl<'a> Guide<'a> {
    /// The guide through a run, or none.
    fn new(run: Option<&'a ConcreteRun<'a>>) -> Guide<'a> {
        Guide { run, memo: FxHashMap::default() }
    }

    /// Whether there is none.
    pub(crate) fn is_none(&self) -> bool {
        self.run.is_none()
    }

    /// Whether there is one.
    pub(crate) fn is_some(&self) -> bool {
        self.run.is_some()
    }

    /// The value of an expression in the run.
    fn value(&mut self, x: &Exprs, e: Expr) -> Option<u128> {
        let run = self.run?;
        let mut eval = Evaluator::of_run(x, run).with_memo(std::mem::take(&mut self.memo));
        let v = eval.eval(e);
        self.memo = eval.into_memo();
        Some(v)
    }
}

/// A branching point of a path: it decides where the path goes on, and takes the paths that it splits into.
pub(crate) struct Branch<'a> {
    pub(crate) x: Exprs,
    pub(crate) guide: Guide<'a>,
    pub(crate) frontier: Box<Frontier>,
    pub(crate) budget: Budget,
}

impl<'a> Branch<'a> {
    /// With no expressions, and nothing to follow.
    pub(crate) fn new(limits: Limits, run: Option<&'a ConcreteRun<'a>>) -> Branch<'a> {
        Branch {
            x: Exprs::default(),
            guide: Guide::new(run),
            frontier: Box::default(),
            budget: Budget::new(limits),
        }
    }
}

impl Branch<'_> {
    /// Whether a condition holds; forks if both may be.
    pub(crate) fn decide(&mut self, st: &mut State, cond: Expr) -> Result<bool, Cut> {
        self.decide_for(st, cond, None)
    }

    /// As [`Explorer::decide`]; if only one answer is looked at, the other is not followed.
    pub(crate) fn decide_for(&mut self, st: &mut State, cond: Expr, only: Option<bool>) -> Result<bool, Cut> {
        if let Node::Not(positive) = *self.x.node(cond) {
            return self.decide_for(st, positive, only.map(|v| !v)).map(|v| !v);
        }
        if let Some(known) = st.facts.truth(&self.x, cond) {
            return Ok(known);
        }
        if let Some(v) = self.guide.value(&self.x, cond) {
            return self.assume(st, cond, v != 0).map(|()| v != 0);
        }
        // Only now: a sum is long, and most questions are about other things.
        let sum = match *self.x.node(cond) {
            Node::Equal(a, ones) if self.x.constant_value(ones) == Some(0xffff) => Some(a),
            _ => None,
        };
        let sum = sum.filter(|&s| matches!(self.x.node(s), Node::Checksum { .. }));
        if let Some(sum) = sum
            && is_right(&mut self.x, &st.facts, sum, &st.sums)
        {
            return Ok(true);
        }
        if only == Some(false) {
            return if st.facts.assume_open(&mut self.x, cond, false) { Ok(false) } else { Err(Cut) };
        }
        // What is followed first shows packets first: those that nothing is left to do for by a device are plainer.
        let first = only.is_some() || !self.is_unusual(cond);
        if only.is_none() {
            let mut facts = st.facts.clone();
            if facts.assume_open(&mut self.x, cond, !first) {
                std::mem::swap(&mut facts, &mut st.facts);
                self.resume(Box::new(st.clone()));
                st.facts = facts;
            }
        }
        if first {
            st.sums.extend(sum);
        }
        if st.facts.assume_open(&mut self.x, cond, first) { Ok(first) } else { Err(Cut) }
    }

    /// Whether a condition says of a packet's metadata that it is not as that of most packets.
    fn is_unusual(&self, cond: Expr) -> bool {
        let Node::Equal(a, b) = *self.x.node(cond) else { return false };
        let is_meta = |e| matches!(self.x.node(e), Node::Symbol(Symbol::Meta(..)));
        is_meta(a) && self.x.constant_value(b) != Some(0) || is_meta(b) && self.x.constant_value(a) != Some(0)
    }

    /// The value of an expression; forks into a path for each.
    pub(crate) fn pick(&mut self, st: &mut State, e: Expr) -> Result<u128, Cut> {
        if let Some(v) = st.facts.value(&self.x, e) {
            return Ok(v);
        }
        if let Some(v) = self.guide.value(&self.x, e) {
            let is = self.x.is(e, v);
            return self.assume(st, is, true).map(|()| v);
        }
        let set = st.facts.set(&self.x, e);
        let mut feasible = Vec::new();
        for (tried, v) in set.values().enumerate() {
            if tried > 64 * self.budget.limits.values {
                return Err(self.give_up(Incomplete::Values));
            }
            let mut other = Box::new(st.clone());
            let is = self.x.is(e, v);
            if self.assume(&mut other, is, true).is_ok() && other.facts.sharpen(&self.x) {
                if feasible.len() == self.budget.limits.values {
                    return Err(self.give_up(Incomplete::Values));
                }
                feasible.push(other);
            }
        }
        // The lowest is followed first: headers without options are what most packets have.
        feasible.into_iter().rev().for_each(|other| self.resume(other));
        Err(Cut)
    }

    /// Adds what always holds here.
    pub(crate) fn learn(&mut self, st: &mut State, cond: Expr) -> Result<(), Cut> {
        self.assume(st, cond, true)
    }

    pub(crate) fn assume(&mut self, st: &mut State, cond: Expr, truth: bool) -> Result<(), Cut> {
        if st.facts.assume(&mut self.x, cond, truth) { Ok(()) } else { Err(Cut) }
    }

    /// Notes that something was not explored.
    pub(crate) fn give_up(&mut self, why: Incomplete) -> Cut {
        self.budget.give_up(why);
        Cut
    }

    /// Lets a path do its current operation again, later.
    pub(crate) fn resume(&mut self, mut st: Box<State>) {
        if st.op == 0 {
            st.steps -= 1;
        }
        self.frontier.work.push(st);
    }

    /// The current packet.
    pub(crate) fn packet(st: &mut State) -> Result<&mut SymbolicPacket, Cut> {
        st.packet.as_mut().ok_or(Cut)
    }

    /// Position of a layer, if it is set.
    pub(crate) fn layer(&mut self, st: &mut State, layer: Layer) -> Result<Option<i64>, Cut> {
        let p = Self::packet(st)?;
        let Some(i) = mark_number(layer) else { return Ok(Some(p.data)) };
        match p.marks[i] {
            Mark::Unset => Ok(None),
            Mark::At(at) => Ok(Some(at)),
            Mark::Original => {
                let s = p.source();
                let set = self.x.symbol(Width::W1, Symbol::MarkSet(s, layer));
                let at = self.x.symbol(Width::W32, Symbol::MarkAt(s, layer));
                let at = if self.decide(st, set)? { Some(self.pick(st, at)? as u32 as i32) } else { None };
                Self::packet(st)?.marks[i] = at.map_or(Mark::Unset, |at| Mark::At(at.into()));
                Ok(at.map(i64::from))
            }
            Mark::Later(base, off) => {
                let at = self.behind(st, base, off)?;
                Self::packet(st)?.marks[i] = Mark::At(at);
                Ok(Some(at))
            }
        }
    }

    /// Position of `layer + off`; the checker proved that the layer is set.
    pub(crate) fn at(&mut self, st: &mut State, layer: Layer, off: u32) -> Result<i64, Cut> {
        Ok(self.layer(st, layer)?.ok_or(Cut)? + i64::from(off))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(b: &mut Branch<'_>, name: u32) -> Expr {
        b.x.symbol(Width::W8, Symbol::Arg(name))
    }

    #[test]
    fn what_is_not_known_splits_a_path_once() {
        let mut b = Branch::new(Limits::default(), None);
        let mut st = State::fresh();
        (st.op, st.steps) = (1, 1);
        let (v, seven) = (unknown(&mut b, 0), 7);
        let is = b.x.is(v, seven);
        let first = b.decide(&mut st, is).unwrap();
        let mut other = b.frontier.work.pop().unwrap();
        assert!(b.frontier.work.is_empty());
        // Each knows by now.
        assert_eq!(b.decide(&mut st, is).ok(), Some(first));
        assert_eq!(b.decide(&mut other, is).ok(), Some(!first));
        assert!(b.frontier.work.is_empty());
    }

    #[test]
    fn a_value_that_is_picked_is_one_of_few_or_too_many() {
        let mut b = Branch::new(Limits { values: 4, ..Limits::default() }, None);
        let (few, many) = (unknown(&mut b, 0), unknown(&mut b, 1));
        let mut st = State::fresh();
        (st.op, st.steps) = (1, 1);
        let three = b.x.constant(Width::W8, 3);
        let small = b.x.less(few, three);
        b.learn(&mut st, small).unwrap();
        assert!(b.pick(&mut st.clone(), few).is_err(), "each value is a path of its own");
        let mut paths = std::mem::take(&mut b.frontier.work);
        let mut values: Vec<_> = paths.iter_mut().map(|st| b.pick(st, few).unwrap()).collect();
        values.sort_unstable();
        assert_eq!((values, b.budget.incomplete), (vec![0, 1, 2], None));
        assert!(b.pick(&mut st, many).is_err());
        assert_eq!(b.budget.incomplete, Some(Incomplete::Values));
    }
}
