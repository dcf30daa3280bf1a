//! Values that a search tries: what depends on a symbol is computed again when that changes, and nothing else.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::anchors::is_behind;
use crate::model::expr::{Expr, Exprs, Node, SourceId, Symbol};
use crate::network::Network;
use crate::solve::eval::{Evaluator, Model};

/// The users of each expression that some conditions depend on.
#[derive(Debug, Default)]
pub(crate) struct Users {
    /// The expressions of which one is an operand.
    of: FxHashMap<Expr, Vec<Expr>>,
    /// The expressions that read a range of a packet's bytes, or one whose position is not known.
    ranges: FxHashMap<SourceId, Vec<Expr>>,
}

impl Users {
    /// All that conditions depend on.
    pub(crate) fn of(x: &Exprs, conditions: &[Expr]) -> Users {
        let mut users = Users::default();
        let mut seen: FxHashSet<Expr> = conditions.iter().copied().collect();
        let mut work = conditions.to_vec();
        while let Some(e) = work.pop() {
            match x.node(e) {
                Node::Checksum { mem, .. } | Node::Find { mem, .. } => {
                    users.ranges.entry(x.mem(*mem).source).or_default().push(e);
                }
                Node::Symbol(Symbol::Byte(source, at)) if is_behind(*at) => {
                    users.ranges.entry(*source).or_default().push(e);
                }
                _ => {}
            }
            for o in x.operands(e) {
                users.of.entry(o).or_default().push(e);
                if seen.insert(o) {
                    work.push(o);
                }
            }
        }
        users
    }
}

/// A model, and the values under it that were asked for.
pub(crate) struct Candidate<'a> {
    x: &'a Exprs,
    net: &'a Network,
    users: &'a Users,
    model: Model,
    /// Where a value stands, those that it was computed from do too.
    known: FxHashMap<Expr, u128>,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(x: &'a Exprs, net: &'a Network, users: &'a Users, model: Model) -> Candidate<'a> {
        Candidate { x, net, users, model, known: FxHashMap::default() }
    }

    /// The values of the symbols.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// The value of an expression.
    pub(crate) fn eval(&mut self, e: Expr) -> u128 {
        if let Some(&v) = self.known.get(&e) {
            return v;
        }
        let known = std::mem::take(&mut self.known);
        let mut eval = Evaluator::of_model(self.x, self.net, &self.model).with_memo(known);
        let v = eval.eval(e);
        self.known = eval.into_memo();
        v
    }

    /// The symbol by which the model has a value.
    fn real(&mut self, s: &Symbol) -> Symbol {
        match s {
            Symbol::Byte(source, at) if is_behind(*at) => Symbol::Byte(*source, self.real_position(*at)),
            _ => s.clone(),
        }
    }

    /// Where a position really is.
    pub(crate) fn real_position(&mut self, at: i64) -> i64 {
        let known = std::mem::take(&mut self.known);
        let mut eval = Evaluator::of_model(self.x, self.net, &self.model).with_memo(known);
        let at = eval.real(at);
        self.known = eval.into_memo();
        at
    }

    /// The value of a symbol, if it has one.
    pub(crate) fn get(&mut self, s: &Symbol) -> Option<u128> {
        let s = self.real(s);
        self.model.get(&s).copied()
    }

    /// Gives a symbol a value.
    pub(crate) fn set(&mut self, s: &Symbol, v: u128) {
        let s = &self.real(s);
        if self.model.insert(s.clone(), v) != Some(v) {
            self.changed(s);
        }
    }

    /// Goes back to an earlier model.
    pub(crate) fn restore(&mut self, before: Model) {
        let after = std::mem::replace(&mut self.model, before);
        let differ: Vec<Symbol> = after
            .iter()
            .filter(|(s, v)| self.model.get(s) != Some(v))
            .map(|(s, _)| s)
            .chain(self.model.keys().filter(|s| !after.contains_key(s)))
            .cloned()
            .collect();
        for s in differ {
            self.changed(&s);
        }
    }

    fn changed(&mut self, s: &Symbol) {
        let mut stale: Vec<Expr> = self.x.find_symbol(s).into_iter().collect();
        match s {
            Symbol::Byte(source, _) => stale.extend(self.users.ranges.get(source).into_iter().flatten()),
            // Where a packet lies in its buffer follows from them.
            Symbol::Len(p) | Symbol::Pulled(p) | Symbol::Head(p) => {
                let derived = [Symbol::Head(*p), Symbol::Capacity(*p)];
                stale.extend(derived.iter().filter_map(|s| self.x.find_symbol(s)));
            }
            _ => {}
        }
        while let Some(e) = stale.pop() {
            if self.known.remove(&e).is_some() {
                stale.extend(self.users.of.get(&e).into_iter().flatten());
            }
        }
    }
}
