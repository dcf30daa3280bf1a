//! Makes expressions, simple where that is cheap: equal values should be one node.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_ir::interp::{binary, sum16};
use weir_ir::program::{BinOp, Width};

use crate::model::expr::{Expr, Exprs, Node};
use crate::model::set::Set;

impl Exprs {
    /// Arithmetic.
    pub fn binary(&mut self, op: BinOp, a: Expr, b: Expr) -> Expr {
        use BinOp::{Add, And, Mul, Or, Rem, Shl, Shr, Sub, Xor};
        let w = self.width(a);
        let (mut a, mut b) = (a, b);
        if matches!(op, Add | Mul | And | Or | Xor)
            && (self.constant_value(a).is_some(), a) > (self.constant_value(b).is_some(), b)
        {
            (a, b) = (b, a);
        }
        let c = self.constant_value(b);
        if let (Some(x), Some(y)) = (self.constant_value(a), c) {
            return self.constant(w, binary(op, w, x, y));
        }
        if a == b {
            match op {
                Sub | Xor => return self.constant(w, 0),
                And | Or => return a,
                _ => {}
            }
        }
        if op == Sub {
            let ((x, p), (y, q)) = (self.split(a), self.split(b));
            if x == y {
                return self.constant(w, p.wrapping_sub(q));
            }
        }
        let Some(c) = c else {
            let joined = if w == Width::W1 { self.joined(op, a, b) } else { None };
            return joined.unwrap_or_else(|| self.make(w, Node::Binary(op, a, b)));
        };
        match (op, c) {
            (Add | Sub | Or | Xor | Shl | Shr, 0) | (Mul, 1) => return a,
            (Mul | And, 0) | (Rem, 0 | 1) => return self.constant(w, 0),
            (And, c) if c == w.max() => return a,
            (Shl | Shr, c) if c >= u128::from(w.bits()) => return self.constant(w, 0),
            (Sub, c) => {
                let minus = self.constant(w, c.wrapping_neg());
                return self.binary(Add, a, minus);
            }
            _ => {}
        }
        // The upper bytes of a word are a word.
        if let (Shr, Node::Concat(bytes), true) = (op, self.node(a), c.is_multiple_of(8)) {
            let kept = bytes[..bytes.len() - c as usize / 8].to_vec();
            if kept.len().is_power_of_two() {
                let upper = self.concat(&kept);
                return self.resize(w, upper);
            }
        }
        if let Node::Binary(inner, x, d) = *self.node(a)
            && inner == op
            && matches!(op, Add | And | Or | Xor)
            && let Some(d) = self.constant_value(d)
        {
            let both = self.constant(w, binary(op, w, c, d));
            return self.binary(op, x, both);
        }
        self.make(w, Node::Binary(op, a, b))
    }

    /// `and` or `or` of two conditions that speak of one thing, as one condition on it: what follows from that is seen.
    fn joined(&mut self, op: BinOp, a: Expr, b: Expr) -> Option<Expr> {
        if !matches!(op, BinOp::And | BinOp::Or) {
            return None;
        }
        if let (Some((e, p)), Some((f, q))) = (self.membership(a), self.membership(b))
            && e == f
        {
            let both = op == BinOp::And;
            let set =
                if both { p.intersect(&q) } else { Set::union([p.intervals(), q.intervals()].concat()) };
            return Some(self.member(e, set));
        }
        // (p and q) or (p and r) is p and (q or r).
        let (&Node::Binary(BinOp::And, a1, a2), &Node::Binary(BinOp::And, b1, b2)) =
            (self.node(a), self.node(b))
        else {
            return None;
        };
        let orders = [(a1, a2, b1, b2), (a1, a2, b2, b1), (a2, a1, b1, b2), (a2, a1, b2, b1)];
        let shared =
            |(c, p, d, q): (Expr, Expr, Expr, Expr)| (op == BinOp::Or && c == d).then_some((c, p, q));
        let (common, p, q) = orders.into_iter().find_map(shared)?;
        let either = self.binary(BinOp::Or, p, q);
        Some(self.binary(BinOp::And, common, either))
    }

    /// What a condition says is in a set, if it says just that.
    fn membership(&self, cond: Expr) -> Option<(Expr, Set)> {
        match *self.node(cond) {
            Node::Equal(e, c) => Some((e, Set::single(self.constant_value(c)?))),
            Node::In(e, ref set) => Some((e, Set::clone(set))),
            Node::Not(inner) => {
                let (e, set) = self.membership(inner)?;
                Some((e, set.complement(self.width(e))))
            }
            _ => None,
        }
    }

    /// Whether `e` is in a set.
    fn member(&mut self, e: Expr, set: Set) -> Expr {
        let others = set.complement(self.width(e));
        match (set.value(), others.value()) {
            _ if set.is_empty() || others.is_empty() => self.constant(Width::W1, others.is_empty().into()),
            (Some(v), _) => self.is(e, v),
            (_, Some(v)) => {
                let is = self.is(e, v);
                self.not(is)
            }
            _ => self.within(e, &Arc::new(set)),
        }
    }

    /// The terms of a sum that are no numbers, and the number; `value` is what is known of terms and conditions.
    pub(crate) fn terms_of(
        &self,
        sum: Expr,
        value: impl Fn(&Exprs, Expr) -> Option<u128>,
    ) -> (Vec<Expr>, u128) {
        let (mut terms, mut number, mut work) = (Vec::new(), 0_u128, vec![sum]);
        while let Some(e) = work.pop() {
            match *self.node(e) {
                Node::Binary(BinOp::Add, a, b) => work.extend([a, b]),
                Node::Const(v) => number = number.wrapping_add(v),
                Node::Select(c, a, b) if let Some(truth) = value(self, c) => {
                    work.push(if truth != 0 { a } else { b });
                }
                _ => match value(self, e) {
                    Some(v) => number = number.wrapping_add(v),
                    None => terms.push(e),
                },
            }
        }
        (terms, number)
    }

    /// `a + c`, wrapping.
    pub fn plus(&mut self, a: Expr, c: i64) -> Expr {
        let c = self.constant(self.width(a), i128::from(c) as u128);
        self.binary(BinOp::Add, a, c)
    }

    /// Whether both are equal.
    pub fn equal(&mut self, a: Expr, b: Expr) -> Expr {
        let w = self.width(a);
        let (a, b) = if (self.constant_value(a).is_some(), a) > (self.constant_value(b).is_some(), b) {
            (b, a)
        } else {
            (a, b)
        };
        if a == b {
            return self.constant(Width::W1, 1);
        }
        let Some(c) = self.constant_value(b) else { return self.make(Width::W1, Node::Equal(a, b)) };
        match (self.node(a), w, c) {
            (Node::Const(_), ..) => self.constant(Width::W1, 0),
            (_, Width::W1, 1) => a,
            (_, Width::W1, _) => self.not(a),
            (&Node::Binary(BinOp::Add, x, d), ..) if self.constant_value(d).is_some() => {
                let d = self.constant_value(d).unwrap_or(0);
                let rest = self.constant(w, c.wrapping_sub(d));
                self.equal(x, rest)
            }
            (&Node::Resize(x), ..) if self.width(x) < w => {
                if c > self.width(x).max() {
                    return self.constant(Width::W1, 0);
                }
                let c = self.constant(self.width(x), c);
                self.equal(x, c)
            }
            (&Node::Not(x), ..) => {
                let c = self.constant(w, !c);
                self.equal(x, c)
            }
            _ => self.make(Width::W1, Node::Equal(a, b)),
        }
    }

    /// Whether `a` is in a set.
    pub fn within(&mut self, a: Expr, set: &Arc<Set>) -> Expr {
        match self.constant_value(a) {
            Some(v) => self.constant(Width::W1, set.contains(v).into()),
            None => self.make(Width::W1, Node::In(a, set.clone())),
        }
    }

    /// Whether `a` is this number.
    pub fn is(&mut self, a: Expr, v: u128) -> Expr {
        let c = self.constant(self.width(a), v);
        self.equal(a, c)
    }

    /// Whether `a` is less.
    pub fn less(&mut self, a: Expr, b: Expr) -> Expr {
        match (self.constant_value(a), self.constant_value(b)) {
            (Some(x), Some(y)) => self.constant(Width::W1, (x < y).into()),
            (_, Some(0)) => self.constant(Width::W1, 0),
            (_, Some(1)) => self.is(a, 0),
            (Some(c), _) if c == self.width(a).max() => self.constant(Width::W1, 0),
            _ if a == b => self.constant(Width::W1, 0),
            _ => self.make(Width::W1, Node::Less(a, b)),
        }
    }

    /// Whether `a` is less or equal.
    pub fn at_most(&mut self, a: Expr, b: Expr) -> Expr {
        let more = self.less(b, a);
        self.not(more)
    }

    /// All bits inverted.
    pub fn not(&mut self, a: Expr) -> Expr {
        let w = self.width(a);
        match *self.node(a) {
            Node::Const(v) => self.constant(w, !v),
            Node::Not(x) => x,
            _ => self.make(w, Node::Not(a)),
        }
    }

    /// Whether both conditions hold.
    pub fn both(&mut self, a: Expr, b: Expr) -> Expr {
        self.binary(BinOp::And, a, b)
    }

    /// Whether two keys are equal.
    pub fn keys_equal(&mut self, a: &[Expr], b: &[Expr]) -> Expr {
        let mut all = self.constant(Width::W1, 1);
        // What parts have to be, if that is a number.
        let mut needed: SmallVec<[(Expr, Expr); 4]> = SmallVec::new();
        for (&x, &y) in a.iter().zip(b) {
            let same = self.equal(x, y);
            if let Node::Equal(part, number) = *self.node(same)
                && self.constant_value(number).is_some()
            {
                if needed.iter().any(|&(p, n)| p == part && n != number) {
                    return self.constant(Width::W1, 0);
                }
                needed.push((part, number));
            }
            all = self.both(all, same);
        }
        all
    }

    /// Another width: zero-extended or cut.
    pub fn resize(&mut self, to: Width, a: Expr) -> Expr {
        let from = self.width(a);
        if from == to {
            return a;
        }
        match self.node(a) {
            &Node::Const(v) => self.constant(to, v),
            &Node::Resize(x) if from >= to || self.width(x) <= from => self.resize(to, x),
            Node::Concat(bytes) if to < from && to != Width::W1 => {
                let kept = bytes[bytes.len() - to.bytes() as usize..].to_vec();
                self.concat(&kept)
            }
            _ => self.make(to, Node::Resize(a)),
        }
    }

    /// `a` if `cond`, else `b`.
    pub fn select(&mut self, cond: Expr, a: Expr, b: Expr) -> Expr {
        match self.constant_value(cond) {
            _ if a == b => a,
            Some(0) => b,
            Some(_) => a,
            None => self.make(self.width(a), Node::Select(cond, a, b)),
        }
    }

    /// The bytes of a number, the highest first; a bit takes one.
    pub fn bytes_of(&mut self, e: Expr) -> Vec<Expr> {
        (0..self.width(e).bytes()).map(|i| self.byte(e, i)).collect()
    }

    fn byte(&mut self, e: Expr, i: u32) -> Expr {
        let size = self.width(e).bytes();
        match self.node(e) {
            _ if size == 1 => self.resize(Width::W8, e),
            &Node::Const(v) => self.constant(Width::W8, v >> (8 * (size - 1 - i))),
            Node::Concat(bytes) => bytes[i as usize],
            &Node::Resize(x) => {
                let inner = self.width(x).bytes();
                match (i + inner).checked_sub(size) {
                    Some(j) => self.byte(x, j),
                    None => self.constant(Width::W8, 0),
                }
            }
            &Node::Not(x) => {
                let b = self.byte(x, i);
                self.not(b)
            }
            &Node::Binary(op, x, c) => match self.constant_value(c) {
                Some(c) => self.byte_of_binary(e, op, x, c, i),
                None => self.make(Width::W8, Node::Byte(e, i)),
            },
            _ => self.make(Width::W8, Node::Byte(e, i)),
        }
    }

    /// A byte of an operation with a constant, where it depends on one byte of the other operand only.
    fn byte_of_binary(&mut self, e: Expr, op: BinOp, x: Expr, c: u128, i: u32) -> Expr {
        let size = self.width(e).bytes();
        let below = 8 * (size - 1 - i);
        let part = c >> below & 0xff;
        let shift = (c.is_multiple_of(8) && c < 128).then_some(c as u32 / 8);
        match (op, shift) {
            // Not where the bytes would no longer be seen to be those of one number.
            (BinOp::Add, _) if c & ((1 << below) - 1) == 0 && (i == 0 || part == 0) => {
                let (b, c) = (self.byte(x, i), self.constant(Width::W8, part));
                self.binary(BinOp::Add, b, c)
            }
            (BinOp::And | BinOp::Or | BinOp::Xor, _) => {
                let (b, c) = (self.byte(x, i), self.constant(Width::W8, part));
                self.binary(op, b, c)
            }
            (BinOp::Shr, Some(k)) => match i.checked_sub(k) {
                Some(j) => self.byte(x, j),
                None => self.constant(Width::W8, 0),
            },
            (BinOp::Shl, Some(k)) if i + k < size => self.byte(x, i + k),
            (BinOp::Shl, Some(_)) => self.constant(Width::W8, 0),
            _ => self.make(Width::W8, Node::Byte(e, i)),
        }
    }

    /// 1, 2, 4, 8 or 16 bytes put together, the highest first.
    pub fn concat(&mut self, bytes: &[Expr]) -> Expr {
        let width = Width::from_bits(bytes.len() as u32 * 8).unwrap_or(Width::W128);
        if let [one] = bytes {
            return *one;
        }
        let known: Option<u128> =
            bytes.iter().try_fold(0, |v: u128, &b| Some(v << 8 | self.constant_value(b)?));
        if let Some(v) = known {
            return self.constant(width, v);
        }
        if let Some(whole) = self.whole(bytes) {
            return self.resize(width, whole);
        }
        self.make(width, Node::Concat(bytes.into()))
    }

    /// The number whose lowest bytes these are.
    fn whole(&self, bytes: &[Expr]) -> Option<Expr> {
        let Node::Byte(e, first) = *self.node(*bytes.first()?) else { return None };
        let run = bytes.iter().enumerate().all(|(i, &b)| *self.node(b) == Node::Byte(e, first + i as u32));
        (run && first + bytes.len() as u32 == self.width(e).bytes()).then_some(e)
    }

    /// Ones' complement sum of two 16-bit numbers.
    pub fn sum16(&mut self, a: Expr, b: Expr) -> Expr {
        let (a, b) = (a.min(b), a.max(b));
        match (self.constant_value(a), self.constant_value(b)) {
            (Some(x), Some(y)) => self.constant(Width::W16, sum16(x as u16, y as u16).into()),
            (Some(0), _) => b,
            (_, Some(0)) => a,
            _ => self.make(Width::W16, Node::Sum16(a, b)),
        }
    }

    /// `x` and `c`, if `e` is `x + c`.
    fn split(&self, e: Expr) -> (Expr, u128) {
        match *self.node(e) {
            Node::Binary(BinOp::Add, x, c) => self.constant_value(c).map_or((e, 0), |c| (x, c)),
            _ => (e, 0),
        }
    }
}
