//! What is known on a path: its conditions, and the set of values that each expression may still have.
//!
//! Everything here errs on one side: a set may be too large, never too small, so a contradiction is a proof.

use std::borrow::Cow;
use std::hash::BuildHasherDefault;

use archery::RcK;
use rpds::HashTrieMap;
use rustc_hash::FxHasher;
use weir_ir::interp::binary;
use weir_ir::program::{BinOp, Width};

use crate::model::expr::{Expr, Exprs, Node};
use crate::model::list::List;
use crate::model::set::Set;
use by_expr::ByExpr;
use images::{ENUMERATE, distance, flip, image_of_intervals, is_prefix, map};
use orders::{EQUAL, relation};
pub(crate) use recent::Recent;
use recent::Version;

/// Of so few numbers each is taken to its bytes.
const FEW: u128 = 16;

/// How deep sets of operands are looked into.
const DEPTH: u32 = 12;

/// The conditions of a path, and what follows from them.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Newest first. Paths share what they had in common.
    conditions: List<Expr>,
    sets: ByExpr<Set>,
    /// For two expressions, the lower number first, which of less, equal and greater the first may be.
    orders: HashTrieMap<(Expr, Expr), u8, RcK, BuildHasherDefault<FxHasher>>,
    /// For an expression another that is equal to it and stands for it.
    equals: ByExpr<Expr>,
    /// Whether conclusions are drawn again from what is not new.
    again: bool,
    /// Of what the sets of expressions follow from: `sets` and `equals`.
    version: Version,
}

impl Default for Facts {
    fn default() -> Facts {
        let orders = HashTrieMap::new_with_hasher_and_ptr_kind(BuildHasherDefault::default());
        let (sets, equals) = (ByExpr::default(), ByExpr::default());
        Facts { conditions: List::default(), sets, orders, equals, again: false, version: Version::default() }
    }
}

impl Facts {
    /// The conditions (one bit each) that hold on the path, in the order in which they were met.
    pub fn conditions(&self) -> Vec<Expr> {
        let mut all: Vec<Expr> = self.conditions.iter().copied().collect();
        all.reverse();
        all
    }

    /// The same, newest first.
    pub(crate) fn conditions_newest_first(&self) -> &List<Expr> {
        &self.conditions
    }

    /// Whether all conditions of a path, but for those that are `ignored`, are known to hold.
    pub(crate) fn imply(&self, x: &Exprs, others: &List<Expr>, ignored: impl Fn(Expr) -> bool) -> bool {
        let (n, m) = (self.conditions.len(), others.len());
        let mut own = self.conditions.iter().skip(n.saturating_sub(m));
        for (i, c) in others.iter().enumerate() {
            let beside = if m - i <= n { own.next() } else { None };
            // From here on they are the same list.
            if beside.is_some_and(|b| std::ptr::eq(b, c)) {
                return true;
            }
            if !ignored(*c) && !self.holds(x, *c) {
                return false;
            }
        }
        true
    }

    /// The values that an expression may have.
    pub fn set(&self, x: &Exprs, e: Expr) -> Set {
        self.set_to(x, e, DEPTH)
    }

    /// The value, if only one is left.
    pub fn value(&self, x: &Exprs, e: Expr) -> Option<u128> {
        self.value_to(x, e, DEPTH)
    }

    /// As [`Facts::value`]; looks into no more operands than that takes.
    fn value_to(&self, x: &Exprs, e: Expr, depth: u32) -> Option<u128> {
        if let Node::Const(v) = x.node(e) {
            return Some(*v);
        }
        let known = self.sets.get(e);
        if let Some(v) = known.and_then(Set::value) {
            return Some(v);
        }
        let depth = depth.checked_sub(1)?;
        let w = x.width(e);
        match x.node(e) {
            // Nothing is known of a symbol but what was stated of it.
            Node::Symbol(_) => {
                let (lo, hi) = x.bounds(e);
                (lo == hi).then_some(lo)
            }
            Node::Concat(bytes) => {
                bytes.iter().try_fold(0, |v: u128, &b| Some(v << 8 | self.value_to(x, b, depth)?))
            }
            Node::Resize(a) => self.value_to(x, *a, depth).map(|v| v & w.max()),
            Node::Not(a) => self.value_to(x, *a, depth).map(|v| !v & w.max()),
            Node::Binary(op @ (BinOp::Add | BinOp::Xor), a, b) => {
                let (p, q) = (self.value_to(x, *a, depth)?, self.value_to(x, *b, depth)?);
                Some(binary(*op, w, p, q))
            }
            _ => self.refined(x, e, known, depth).value(),
        }
    }

    /// Whether a condition holds, if that is decided.
    pub fn truth(&self, x: &Exprs, cond: Expr) -> Option<bool> {
        self.value(x, cond).map(|v| v != 0).or_else(|| {
            let (pair, wanted) = relation(x, cond)?;
            let may = self.compared(pair);
            match may & wanted {
                0 => Some(false),
                both if both == may => Some(true),
                _ => None,
            }
        })
    }

    /// Whether a condition is known to hold.
    fn holds(&self, x: &Exprs, cond: Expr) -> bool {
        let (inner, truth) = match *x.node(cond) {
            Node::Not(inner) => (inner, false),
            _ => (cond, true),
        };
        match x.node(inner) {
            // Mostly it does not, which is soon seen.
            Node::In(e, set) if truth => self.look_at(x, *e, DEPTH).is_within(set),
            Node::In(e, set) => !self.look_at(x, *e, DEPTH).meets(set),
            _ => self.truth(x, cond) == Some(true),
        }
    }

    /// Adds a condition. `false`: it contradicts what is known.
    pub fn assume(&mut self, x: &mut Exprs, cond: Expr, truth: bool) -> bool {
        match self.truth(x, cond) {
            Some(known) => known == truth,
            None => self.assume_open(x, cond, truth),
        }
    }

    /// As [`Facts::assume`], of a condition whose [`Facts::truth`] is not known.
    pub(crate) fn assume_open(&mut self, x: &mut Exprs, cond: Expr, truth: bool) -> bool {
        let cond = if truth { cond } else { x.not(cond) };
        self.conditions.push(cond);
        if let Some((pair, wanted)) = relation(x, cond) {
            let left = self.compared(pair) & wanted;
            self.orders.insert_mut(pair, left);
            let same = x.equal(pair.0, pair.1);
            if left == EQUAL && same != cond && !self.restrict(x, same, &Set::single(1), DEPTH) {
                return false;
            }
        }
        // It is not known, so it may hold.
        self.narrow(x, cond, &Set::single(1), DEPTH)
    }

    /// As [`Facts::assume_open`], of a condition that says just that `e`, which is in `known`, is in a set.
    pub(crate) fn assume_in(&mut self, x: &Exprs, cond: Expr, e: Expr, known: &Set, to: &Set) -> bool {
        self.conditions.push(cond);
        self.cut(x, e, known, to, DEPTH - 1)
    }

    /// The expression that stands for one and all that are known to be equal to it.
    pub(crate) fn stands_for(&self, e: Expr) -> Expr {
        let mut e = e;
        while let Some(&other) = self.equals.get(e) {
            e = other;
        }
        e
    }

    /// Whether two expressions are known to be equal, as a whole or byte by byte.
    fn same(&self, x: &Exprs, a: Expr, b: Expr) -> bool {
        let (a, b) = (self.stands_for(a), self.stands_for(b));
        a == b
            || match (x.node(a), x.node(b)) {
                (Node::Concat(p), Node::Concat(q)) if p.len() == q.len() => {
                    p.iter().zip(q).all(|(&p, &q)| self.stands_for(p) == self.stands_for(q))
                }
                (Node::Resize(p), Node::Resize(q)) if x.width(*p) == x.width(*q) => self.same(x, *p, *q),
                _ => false,
            }
    }

    /// Learns that two expressions are equal.
    fn unite(&mut self, x: &Exprs, a: Expr, b: Expr) {
        if let (Node::Concat(p), Node::Concat(q)) = (x.node(a), x.node(b)) {
            for (&p, &q) in p.iter().zip(q) {
                self.unite(x, p, q);
            }
        }
        let (a, b) = (self.stands_for(a), self.stands_for(b));
        if a != b {
            // The older one stands for the other: it is more likely to be what came in.
            self.equals.insert(a.max(b), a.min(b));
            x.recent.learned(&mut self.version, a.max(b));
        }
    }

    /// Draws conclusions from all conditions again, now that more is known. `false`: they contradict each other.
    pub fn sharpen(&mut self, x: &Exprs) -> bool {
        let all = self.conditions();
        self.again = true;
        let mut open = all.iter().filter(|&&c| !is_of_a_symbol(x, c));
        let may_be = open.all(|&c| self.restrict(x, c, &Set::single(1), DEPTH));
        self.again = false;
        may_be
    }

    fn set_to(&self, x: &Exprs, e: Expr, depth: u32) -> Set {
        self.look_at(x, e, depth).into_owned()
    }

    /// As [`Facts::set`], without a copy where nothing follows from operands.
    fn look_at(&self, x: &Exprs, e: Expr, depth: u32) -> Cow<'_, Set> {
        match x.constant_value(e) {
            Some(v) => Cow::Owned(Set::single(v)),
            None => self.refined(x, e, self.sets.get(e), depth),
        }
    }

    /// The least and the greatest value that an expression may have.
    fn hull(&self, x: &Exprs, e: Expr, depth: u32) -> Option<(u128, u128)> {
        match x.node(e) {
            Node::Const(v) => Some((*v, *v)),
            // It has no operands.
            Node::Symbol(_) => self.sets.get(e).map_or_else(|| Some(x.bounds(e)), Set::hull),
            _ => self.look_at(x, e, depth).hull(),
        }
    }

    /// What is known of an expression, and what its operands say of it.
    fn refined<'a>(&'a self, x: &Exprs, e: Expr, known: Option<&'a Set>, depth: u32) -> Cow<'a, Set> {
        let own = || {
            known.map_or_else(
                || {
                    let (lo, hi) = x.bounds(e);
                    Cow::Owned(Set::range(lo, hi))
                },
                Cow::Borrowed,
            )
        };
        if matches!(x.node(e), Node::Symbol(_)) || known.is_some_and(|k| k.value().is_some()) {
            return own();
        }
        if let Some(found) = x.recent.get(&self.version, e, depth) {
            return Cow::Owned(found);
        }
        let set = match (known, depth.checked_sub(1).and_then(|depth| self.image(x, e, depth))) {
            (Some(known), Some(image)) if !known.is_in_the_interval(&image) => {
                Cow::Owned(known.intersect(&image))
            }
            (None, Some(image)) => Cow::Owned(image),
            _ => own(),
        };
        x.recent.put(&self.version, e, depth, &set);
        set
    }

    /// The values that an operation may have, from those of its operands.
    fn image(&self, x: &Exprs, e: Expr, depth: u32) -> Option<Set> {
        let w = x.width(e);
        // Where two operands may be deep, half as deep: else a tower of sums would be looked at as often as it has paths down.
        let depth = match x.node(e) {
            Node::Binary(_, _, b) | Node::Equal(_, b) | Node::Less(_, b)
                if x.constant_value(*b).is_some() =>
            {
                depth
            }
            Node::Binary(..) | Node::Equal(..) | Node::Less(..) | Node::Select(..) => depth.saturating_sub(1),
            _ => depth,
        };
        Some(match x.node(e) {
            Node::Binary(op, a, b) => {
                if w == Width::W1 && matches!(op, BinOp::And | BinOp::Or) {
                    return self.image_of_bits(x, *op, (*a, *b), depth);
                }
                if *op == BinOp::And
                    && let (Node::Concat(bytes), Some(mask)) = (x.node(*a), x.constant_value(*b))
                    && let Some(v) = self.masked(x, bytes, mask, depth)
                {
                    return Some(Set::single(v));
                }
                let (a, b) = (self.look_at(x, *a, depth), self.look_at(x, *b, depth));
                if let Some(exact) = b.value().and_then(|c| image_of_intervals(*op, w, &a, c)) {
                    return Some(exact);
                }
                if a.is_empty() || b.is_empty() {
                    return Some(Set::union(Vec::new()));
                }
                if a.count().saturating_mul(b.count()) <= ENUMERATE {
                    let all = a.values().flat_map(|p| b.values().map(move |q| binary(*op, w, p, q)));
                    return Some(Set::union(all.map(|v| (v, v)).collect()));
                }
                let ((al, ah), (bl, bh)) = (a.hull()?, b.hull()?);
                match op {
                    BinOp::Add if ah.checked_add(bh)? <= w.max() => Set::range(al + bl, ah + bh),
                    BinOp::Sub if al >= bh => Set::range(al - bh, ah - bl),
                    BinOp::Mul if ah.checked_mul(bh)? <= w.max() => Set::range(al * bl, ah * bh),
                    BinOp::Rem if bl > 0 => Set::range(0, ah.min(bh - 1)),
                    BinOp::And => {
                        let m = b.value()?;
                        if is_prefix(m, w) { map(&a, |v| v & m) } else { Set::range(0, ah.min(m)) }
                    }
                    BinOp::Shl => {
                        let s = distance(b.value()?, w)?;
                        if ah > w.max() >> s {
                            return None;
                        }
                        Set::range(al << s, ah << s)
                    }
                    _ => return None,
                }
            }
            Node::Equal(a, b) => {
                let one = self.same(x, *a, *b);
                let (a, b) = (self.look_at(x, *a, depth), self.look_at(x, *b, depth));
                match (a.value(), b.value()) {
                    _ if one => Set::single(1),
                    _ if !a.meets(&b) => Set::single(0),
                    (Some(p), Some(q)) if p == q => Set::single(1),
                    _ => return None,
                }
            }
            Node::In(a, to) => {
                let a = self.look_at(x, *a, depth);
                match () {
                    () if !a.meets(to) => Set::single(0),
                    () if a.is_within(to) => Set::single(1),
                    () => return None,
                }
            }
            Node::Less(a, b) => {
                let (a, b) = (self.hull(x, *a, depth)?, self.hull(x, *b, depth)?);
                match () {
                    () if a.1 < b.0 => Set::single(1),
                    () if a.0 >= b.1 => Set::single(0),
                    () => return None,
                }
            }
            Node::Not(a) => flip(&self.look_at(x, *a, depth), w),
            Node::Resize(a) => {
                let a = self.look_at(x, *a, depth);
                if a.hull()?.1 > w.max() {
                    return None;
                }
                a.into_owned()
            }
            Node::Select(c, a, b) => match self.look_at(x, *c, depth).value() {
                Some(0) => self.look_at(x, *b, depth).into_owned(),
                Some(_) => self.look_at(x, *a, depth).into_owned(),
                None => {
                    let (a, b) = (self.look_at(x, *a, depth), self.look_at(x, *b, depth));
                    Set::union([a.intervals(), b.intervals()].concat())
                }
            },
            Node::Concat(bytes) => {
                let mut hull = (0, 0);
                for &b in bytes {
                    let (lo, hi) = self.hull(x, b, depth)?;
                    hull = (hull.0 << 8 | lo, hull.1 << 8 | hi);
                }
                Set::range(hull.0, hull.1)
            }
            _ => return None,
        })
    }

    /// The values of `and` or `or` of two bits.
    fn image_of_bits(&self, x: &Exprs, op: BinOp, (a, b): (Expr, Expr), depth: u32) -> Option<Set> {
        // What one bit may settle.
        let strong = u128::from(op == BinOp::Or);
        let a = self.look_at(x, a, depth).value();
        if a == Some(strong) {
            return Some(Set::single(strong));
        }
        match (a, self.look_at(x, b, depth).value()) {
            (_, Some(v)) if v == strong => Some(Set::single(strong)),
            (Some(_), Some(_)) => Some(Set::single(1 - strong)),
            _ => None,
        }
    }

    /// Learns that `e` is in `to`, and what follows for its operands. `false`: it cannot be.
    fn restrict(&mut self, x: &Exprs, e: Expr, to: &Set, depth: u32) -> bool {
        let before = self.set_to(x, e, DEPTH);
        self.cut(x, e, &before, to, depth)
    }

    /// As [`Facts::restrict`], of an expression of which it is known what it may be.
    fn cut(&mut self, x: &Exprs, e: Expr, before: &Set, to: &Set, depth: u32) -> bool {
        let set = before.intersect(to);
        if set == *before && !self.again {
            return !set.is_empty();
        }
        self.narrow(x, e, &set, depth)
    }

    /// Learns that `e` is not `v`, and what follows for its operands. `false`: it cannot be anything else.
    fn exclude(&mut self, x: &Exprs, e: Expr, v: u128, depth: u32) -> bool {
        let set = self.set_to(x, e, DEPTH).without(v);
        self.narrow(x, e, &set, depth)
    }

    /// Learns that `e` is in a set of values that it may have, and what follows for its operands.
    fn narrow(&mut self, x: &Exprs, e: Expr, set: &Set, depth: u32) -> bool {
        let w = x.width(e);
        if set.is_empty() {
            return false;
        }
        if x.constant_value(e).is_some() {
            return true;
        }
        // Where what it says of its operand says all of it, it need not be kept as well.
        let is_told = depth > 0
            && match x.node(e) {
                Node::In(..) => true,
                Node::Equal(_, b) => x.constant_value(*b).is_some(),
                _ => false,
            };
        if !is_told && self.sets.get(e) != Some(set) {
            self.sets.insert(e, set.clone());
            x.recent.learned(&mut self.version, e);
        }
        if depth == 0 {
            return true;
        }
        let depth = depth - 1;
        match x.node(e) {
            Node::Equal(a, b) => match set.value() {
                Some(1) => {
                    let q = self.set(x, *b);
                    if x.constant_value(*b).is_some() {
                        return self.restrict(x, *a, &q, depth);
                    }
                    self.unite(x, *a, *b);
                    let p = self.set(x, *a);
                    self.cut(x, *a, &p, &q, depth) && self.restrict(x, *b, &p, depth)
                }
                Some(_) => {
                    let (p, q) = (self.value(x, *a), self.value(x, *b));
                    q.is_none_or(|v| self.exclude(x, *a, v, depth))
                        && p.is_none_or(|v| self.exclude(x, *b, v, depth))
                }
                None => true,
            },
            Node::In(a, to) => match set.value() {
                Some(1) => self.restrict(x, *a, to, depth),
                Some(_) => self.restrict(x, *a, &to.complement(x.width(*a)), depth),
                None => true,
            },
            Node::Less(a, b) => match set.value() {
                // a < b
                Some(1) => self.order(x, *a, *b, 1, depth),
                // b <= a
                Some(_) => self.order(x, *b, *a, 0, depth),
                None => true,
            },
            Node::Not(a) => self.restrict(x, *a, &flip(set, w), depth),
            Node::Resize(a) => {
                let fits = self.set(x, *a).hull().is_some_and(|h| h.1 <= w.max());
                !fits || self.restrict(x, *a, set, depth)
            }
            Node::Select(c, a, b) => {
                let reach = |e: Expr, f: &Facts| f.set(x, e).meets(set);
                match (reach(*a, self), reach(*b, self)) {
                    (true, true) => true,
                    (true, false) => {
                        let yes = Set::single(0).complement(x.width(*c));
                        self.restrict(x, *c, &yes, depth) && self.restrict(x, *a, set, depth)
                    }
                    (false, true) => {
                        self.restrict(x, *c, &Set::single(0), depth) && self.restrict(x, *b, set, depth)
                    }
                    (false, false) => false,
                }
            }
            Node::Concat(bytes) => self.restrict_bytes(x, bytes, set, depth),
            Node::Binary(op, a, b) => self.restrict_binary(x, *op, (*a, *b), set, w, depth),
            _ => true,
        }
    }

    /// Learns `a + gap <= b`.
    fn order(&mut self, x: &Exprs, a: Expr, b: Expr, gap: u128, depth: u32) -> bool {
        let (p, q) = (self.set(x, a), self.set(x, b));
        let Some(top) = q.hull().and_then(|q| q.1.checked_sub(gap)) else { return false };
        let Some(bottom) = p.hull().and_then(|p| p.0.checked_add(gap)) else { return false };
        let above = Set::range(bottom, u128::MAX);
        if x.constant_value(a).is_some() {
            return self.cut(x, b, &q, &above, depth);
        }
        self.cut(x, a, &p, &Set::range(0, top), depth) && self.restrict(x, b, &above, depth)
    }

    /// As [`Facts::restrict`], of a bit that is one value from now on: whether it can be, its operands decide.
    fn settle(&mut self, x: &Exprs, bit: Expr, to: &Set, depth: u32) -> bool {
        match self.sets.get(bit).and_then(Set::value) {
            Some(known) if !self.again => to.contains(known),
            _ => self.narrow(x, bit, to, depth),
        }
    }

    fn restrict_bytes(&mut self, x: &Exprs, bytes: &[Expr], set: &Set, depth: u32) -> bool {
        let Some((lo, hi)) = set.hull() else { return false };
        let is_few = lo != hi && set.count() <= FEW;
        for (i, &b) in bytes.iter().enumerate() {
            let shift = 8 * (bytes.len() - 1 - i);
            if is_few {
                let values = set.values().map(|v| v >> shift & 0xff);
                if !self.restrict(x, b, &Set::union(values.map(|v| (v, v)).collect()), depth) {
                    return false;
                }
                continue;
            }
            let (l, h) = (lo >> shift & 0xff, hi >> shift & 0xff);
            // Bytes behind the first that differs may have any value.
            if lo >> shift >> 8 != hi >> shift >> 8 {
                return true;
            }
            let known = self.hull(x, b, DEPTH);
            let is_new = self.again || known.is_none_or(|(lo, hi)| lo < l || h < hi);
            if is_new && !self.restrict(x, b, &Set::range(l, h), depth) {
                return false;
            }
        }
        true
    }
}

/// Whether a condition says just that a symbol is in some set: that was learned when it was assumed, and nothing can follow
/// from it later.
fn is_of_a_symbol(x: &Exprs, condition: Expr) -> bool {
    let is_symbol = |e: Expr| matches!(x.node(e), Node::Symbol(_));
    let is_const = |e: Expr| x.constant_value(e).is_some();
    match *x.node(condition) {
        Node::Symbol(_) => true,
        Node::Not(a) => is_of_a_symbol(x, a),
        Node::In(a, _) => is_symbol(a),
        Node::Equal(a, b) | Node::Less(a, b) => is_symbol(a) && is_const(b) || is_const(a) && is_symbol(b),
        _ => false,
    }
}

mod by_expr;
mod images;
mod operands;
mod orders;
mod recent;
#[cfg(test)]
mod tests;
