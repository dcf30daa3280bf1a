//! What is known on a path: its conditions, and the set of values that each expression may still have.
//!
//! Everything here errs on one side: a set may be too large, never too small, so a contradiction is a proof.

use std::hash::BuildHasherDefault;

use archery::RcK;
use rpds::{HashTrieMap, List};
use rustc_hash::FxHasher;
use weir_ir::interp::binary;
use weir_ir::program::{BinOp, Width};

use crate::expr::{Expr, Exprs, Node};
use crate::set::Set;

/// Largest set whose image under an operation is computed value by value.
const ENUMERATE: u128 = 256;
/// How deep sets of operands are looked into.
const DEPTH: u32 = 12;

/// The conditions of a path, and what follows from them.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Newest first. Paths share what they had in common.
    conditions: List<Expr>,
    sets: Map<Expr, Set>,
    /// For two expressions, the lower number first, which of less, equal and greater the first may be.
    orders: Map<(Expr, Expr), u8>,
    /// For an expression another that is equal to it and stands for it.
    equals: Map<Expr, Expr>,
}

type Map<K, V> = HashTrieMap<K, V, RcK, BuildHasherDefault<FxHasher>>;

const LESS: u8 = 1;
const EQUAL: u8 = 2;
const GREATER: u8 = 4;
const ANY: u8 = LESS | EQUAL | GREATER;

impl Default for Facts {
    fn default() -> Facts {
        let sets = HashTrieMap::new_with_hasher_and_ptr_kind(BuildHasherDefault::default());
        let orders = HashTrieMap::new_with_hasher_and_ptr_kind(BuildHasherDefault::default());
        let equals = HashTrieMap::new_with_hasher_and_ptr_kind(BuildHasherDefault::default());
        Facts { conditions: List::new(), sets, orders, equals }
    }
}

impl Facts {
    /// The conditions (one bit each) that hold on the path, in the order in which they were met.
    pub fn conditions(&self) -> Vec<Expr> {
        let mut all: Vec<Expr> = self.conditions.iter().copied().collect();
        all.reverse();
        all
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
        if let Some(v) = self.sets.get(&e).and_then(Set::value) {
            return Some(v);
        }
        let depth = depth.checked_sub(1)?;
        let w = x.width(e);
        match x.node(e) {
            // Nothing is known of a symbol but what was told of it.
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
            _ => self.set_to(x, e, depth).value(),
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
        self.conditions.push_front_mut(cond);
        if let Some((pair, wanted)) = relation(x, cond) {
            let left = self.compared(pair) & wanted;
            self.orders.insert_mut(pair, left);
            let same = x.equal(pair.0, pair.1);
            if left == EQUAL && same != cond && !self.restrict(x, same, &Set::single(1), DEPTH) {
                return false;
            }
        }
        self.restrict(x, cond, &Set::single(1), DEPTH)
    }

    /// Which of less, equal and greater the first of a pair may be: by what was said of both, or of each and a third.
    fn compared(&self, pair: (Expr, Expr)) -> u8 {
        let mut may = self.told(pair.0, pair.1);
        for &(a, b) in self.orders.keys() {
            let between = match pair.0 {
                p if p == a => b,
                p if p == b => a,
                _ => continue,
            };
            let (one, two) = (self.told(pair.0, between), self.told(between, pair.1));
            for way in [LESS, GREATER] {
                // Never more and then never more is never more, and less if one of them is less.
                if (one | two) & !(way | EQUAL) == 0 {
                    may &= if one == way || two == way { way } else { way | EQUAL };
                }
            }
        }
        may
    }

    /// What was said of two expressions: which of less, equal and greater the first may be.
    fn told(&self, a: Expr, b: Expr) -> u8 {
        if a < b {
            return self.orders.get(&(a, b)).copied().unwrap_or(ANY);
        }
        let known = self.orders.get(&(b, a)).copied().unwrap_or(ANY);
        known & EQUAL
            | if known & LESS != 0 { GREATER } else { 0 }
            | if known & GREATER != 0 { LESS } else { 0 }
    }

    /// The expression that stands for one and all that are known to be equal to it.
    pub(crate) fn stands_for(&self, e: Expr) -> Expr {
        let mut e = e;
        while let Some(&other) = self.equals.get(&e) {
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
            self.equals.insert_mut(a.max(b), a.min(b));
        }
    }

    /// Draws conclusions from all conditions again, now that more is known. `false`: they contradict each other.
    pub fn sharpen(&mut self, x: &Exprs) -> bool {
        let all = self.conditions();
        all.iter().all(|&c| self.restrict(x, c, &Set::single(1), DEPTH))
    }

    fn set_to(&self, x: &Exprs, e: Expr, depth: u32) -> Set {
        if let Some(v) = x.constant_value(e) {
            return Set::single(v);
        }
        let set = match self.sets.get(&e) {
            // Its bounds were taken into account when it was made.
            Some(known) => known.clone(),
            None => {
                let (lo, hi) = x.bounds(e);
                Set::range(lo, hi)
            }
        };
        if depth == 0 || set.value().is_some() {
            return set;
        }
        match self.image(x, e, depth - 1) {
            Some(image) => set.intersect(&image),
            None => set,
        }
    }

    /// The values that an operation may have, from those of its operands.
    fn image(&self, x: &Exprs, e: Expr, depth: u32) -> Option<Set> {
        let w = x.width(e);
        Some(match x.node(e) {
            Node::Binary(op, a, b) => {
                if w == Width::W1 && matches!(op, BinOp::And | BinOp::Or) {
                    return self.image_of_bits(x, *op, (*a, *b), depth);
                }
                let (a, b) = (self.set_to(x, *a, depth), self.set_to(x, *b, depth));
                if let Some(exact) = b.value().and_then(|c| image_of_intervals(*op, w, &a, c)) {
                    return Some(exact);
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
                let (a, b) = (self.set_to(x, *a, depth), self.set_to(x, *b, depth));
                match (a.value(), b.value()) {
                    _ if one => Set::single(1),
                    _ if !a.meets(&b) => Set::single(0),
                    (Some(p), Some(q)) if p == q => Set::single(1),
                    _ => return None,
                }
            }
            Node::In(a, to) => {
                let a = self.set_to(x, *a, depth);
                match () {
                    () if !a.meets(to) => Set::single(0),
                    () if a.is_within(to) => Set::single(1),
                    () => return None,
                }
            }
            Node::Less(a, b) => {
                let (a, b) = (self.set_to(x, *a, depth).hull()?, self.set_to(x, *b, depth).hull()?);
                match () {
                    () if a.1 < b.0 => Set::single(1),
                    () if a.0 >= b.1 => Set::single(0),
                    () => return None,
                }
            }
            Node::Not(a) => flip(&self.set_to(x, *a, depth), w),
            Node::Resize(a) => {
                let a = self.set_to(x, *a, depth);
                if a.hull()?.1 > w.max() {
                    return None;
                }
                a
            }
            Node::Select(c, a, b) => match self.set_to(x, *c, depth).value() {
                Some(0) => self.set_to(x, *b, depth),
                Some(_) => self.set_to(x, *a, depth),
                None => {
                    let (a, b) = (self.set_to(x, *a, depth), self.set_to(x, *b, depth));
                    Set::union([a.intervals(), b.intervals()].concat())
                }
            },
            Node::Concat(bytes) => {
                let mut hull = (0, 0);
                for &b in bytes {
                    let (lo, hi) = self.set_to(x, b, depth).hull()?;
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
        let a = self.set_to(x, a, depth).value();
        if a == Some(strong) {
            return Some(Set::single(strong));
        }
        match (a, self.set_to(x, b, depth).value()) {
            (_, Some(v)) if v == strong => Some(Set::single(strong)),
            (Some(_), Some(_)) => Some(Set::single(1 - strong)),
            _ => None,
        }
    }

    /// Learns that `e` is in `to`, and what follows for its operands. `false`: it cannot be.
    fn restrict(&mut self, x: &Exprs, e: Expr, to: &Set, depth: u32) -> bool {
        let set = self.set_to(x, e, DEPTH).intersect(to);
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
        if self.sets.get(&e) != Some(set) {
            self.sets.insert_mut(e, set.clone());
        }
        if depth == 0 {
            return true;
        }
        let depth = depth - 1;
        match x.node(e) {
            Node::Equal(a, b) => match set.value() {
                Some(1) => {
                    self.unite(x, *a, *b);
                    let (p, q) = (self.set(x, *a), self.set(x, *b));
                    self.restrict(x, *a, &q, depth) && self.restrict(x, *b, &p, depth)
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
        let (Some(p), Some(q)) = (self.set(x, a).hull(), self.set(x, b).hull()) else { return false };
        let Some(top) = q.1.checked_sub(gap) else { return false };
        let Some(bottom) = p.0.checked_add(gap) else { return false };
        self.restrict(x, a, &Set::range(0, top), depth)
            && self.restrict(x, b, &Set::range(bottom, u128::MAX), depth)
    }

    fn restrict_bytes(&mut self, x: &Exprs, bytes: &[Expr], set: &Set, depth: u32) -> bool {
        let Some((lo, hi)) = set.hull() else { return false };
        for (i, &b) in bytes.iter().enumerate() {
            let shift = 8 * (bytes.len() - 1 - i);
            let (l, h) = (lo >> shift & 0xff, hi >> shift & 0xff);
            // Bytes behind the first that differs may have any value.
            if lo >> shift >> 8 != hi >> shift >> 8 {
                return true;
            }
            if !self.restrict(x, b, &Set::range(l, h), depth) {
                return false;
            }
        }
        true
    }

    fn restrict_binary(
        &mut self,
        x: &Exprs,
        op: BinOp,
        ab: (Expr, Expr),
        set: &Set,
        w: Width,
        depth: u32,
    ) -> bool {
        let (a, b) = ab;
        if w == Width::W1
            && set.value() == Some(u128::from(op == BinOp::And))
            && matches!(op, BinOp::And | BinOp::Or)
        {
            return self.restrict(x, a, set, depth) && self.restrict(x, b, set, depth);
        }
        if let (BinOp::Sub, Some(c)) = (op, self.value(x, a)) {
            // c - b = v where b = c - v.
            let parts = set.shift(c.wrapping_neg(), w);
            let minus = |&(lo, hi): &(u128, u128)| (hi.wrapping_neg() & w.max(), lo.wrapping_neg() & w.max());
            let back = parts.intervals().iter().map(minus).filter(|(lo, hi)| lo <= hi);
            let zero = parts.contains(0).then_some((0, 0));
            // An interval that starts at 0 goes round the end when it is turned over.
            let rest = parts.intervals().iter().filter(|i| i.0 == 0 && i.1 > 0);
            let rest = rest.map(|i| (i.1.wrapping_neg() & w.max(), w.max()));
            let all = Set::union(back.chain(zero).chain(rest).collect());
            return self.restrict(x, b, &all, depth);
        }
        if w == Width::W1 && matches!(op, BinOp::And | BinOp::Or) {
            // One of the two has to be so; if it cannot be the one, it is the other.
            let strong = u128::from(op == BinOp::Or);
            if set.value() != Some(strong) {
                return true;
            }
            return match (self.value(x, a), self.value(x, b)) {
                (Some(v), _) if v != strong => self.restrict(x, b, set, depth),
                (_, Some(v)) if v != strong => self.restrict(x, a, set, depth),
                _ => true,
            };
        }
        let Some(c) = self.value(x, b) else {
            return op != BinOp::Sub || self.restrict_difference(x, ab, set, depth);
        };
        if op == BinOp::Add {
            return self.restrict(x, a, &set.shift(c.wrapping_neg(), w), depth);
        }
        let known = self.set(x, a);
        if known.count() <= ENUMERATE {
            let back = known.values().filter(|&v| set.contains(binary(op, w, v, c)));
            let back = Set::union(back.map(|v| (v, v)).collect());
            return self.restrict(x, a, &back, depth);
        }
        let back = match op {
            BinOp::Xor => match set.value() {
                Some(v) => Set::single(v ^ c),
                None => return true,
            },
            BinOp::And if is_prefix(c, w) => {
                let low = !c & w.max();
                let parts = set.intervals().iter().filter_map(|&(lo, hi)| {
                    let lo = if lo & low == 0 { lo } else { (lo | low).checked_add(1)? };
                    let hi = (hi & c) | low;
                    (lo <= hi).then_some((lo, hi))
                });
                Set::union(parts.collect())
            }
            BinOp::And => return set.intervals().iter().any(|&(lo, _)| lo <= c),
            BinOp::Shr => {
                let Some(s) = distance(c, w) else { return true };
                let max = w.max() >> s;
                let parts = set.intervals().iter().filter(|i| i.0 <= max);
                Set::union(
                    parts
                        .map(|&(lo, hi)| (lo << s, hi.min(max) << s | (w.max() >> (w.bits() - s))))
                        .collect(),
                )
            }
            _ => return true,
        };
        self.restrict(x, a, &back, depth)
    }

    /// Learns that `a - b` is in a set, where it never goes below 0.
    fn restrict_difference(&mut self, x: &Exprs, (a, b): (Expr, Expr), set: &Set, depth: u32) -> bool {
        let hulls = (self.set(x, a).hull(), self.set(x, b).hull(), set.hull());
        let (Some((al, ah)), Some((bl, bh)), Some((lo, hi))) = hulls else { return false };
        if al < bh {
            return true;
        }
        let Some(most) = ah.checked_sub(lo) else { return false };
        self.restrict(x, a, &Set::range(lo + bl, hi.saturating_add(bh)), depth)
            && self.restrict(x, b, &Set::range(al.saturating_sub(hi), most), depth)
    }
}

/// The two unknowns that a condition compares, and what the first may be to the second if it holds.
fn relation(x: &Exprs, cond: Expr) -> Option<((Expr, Expr), u8)> {
    let (a, b, holds) = match *x.node(cond) {
        Node::Equal(a, b) => (a, b, EQUAL),
        Node::Less(a, b) => (a, b, LESS),
        Node::Not(inner) => {
            let (pair, holds) = relation(x, inner)?;
            return Some((pair, ANY & !holds));
        }
        _ => return None,
    };
    if x.constant_value(a).is_some() || x.constant_value(b).is_some() {
        return None;
    }
    let flipped = if holds == LESS { GREATER } else { EQUAL };
    Some(if a < b { ((a, b), holds) } else { ((b, a), flipped) })
}

/// The image of a set under an operation with a constant that leaves intervals intervals.
fn image_of_intervals(op: BinOp, w: Width, a: &Set, c: u128) -> Option<Set> {
    match op {
        BinOp::Add => Some(a.shift(c, w)),
        BinOp::Shr => distance(c, w).map(|s| map(a, |v| v >> s)),
        // Low bits, of an interval in which the others are the same.
        BinOp::And if c & c.wrapping_add(1) == 0 => {
            let (lo, hi) = a.hull().filter(|(lo, hi)| lo | c == hi | c)?;
            (a.intervals().len() == 1).then(|| Set::range(lo & c, hi & c))
        }
        _ => None,
    }
}

/// The image of a set under a function that never falls; gaps within an interval are filled.
fn map(set: &Set, f: impl Fn(u128) -> u128) -> Set {
    match set.intervals() {
        [(lo, hi)] => Set::range(f(*lo), f(*hi)),
        parts => Set::union(parts.iter().map(|&(lo, hi)| (f(lo), f(hi))).collect()),
    }
}

/// The numbers with all bits inverted.
fn flip(set: &Set, w: Width) -> Set {
    let not = |v: u128| !v & w.max();
    match set.intervals() {
        [(lo, hi)] => Set::range(not(*hi), not(*lo)),
        parts => Set::union(parts.iter().map(|&(lo, hi)| (not(hi), not(lo))).collect()),
    }
}

/// Whether a mask is ones followed by zeros.
fn is_prefix(mask: u128, w: Width) -> bool {
    let low = !mask & w.max();
    low & (low.wrapping_add(1)) == 0
}

/// A shift distance that is neither 0 nor the whole width.
fn distance(c: u128, w: Width) -> Option<u32> {
    u32::try_from(c).ok().filter(|s| (1..w.bits()).contains(s))
}

#[cfg(test)]
mod tests;
