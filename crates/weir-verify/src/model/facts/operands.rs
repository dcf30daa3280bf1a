//! What follows for operands from the result of an operation.

use weir_ir::interp::binary;
use weir_ir::program::{BinOp, Width};

use super::Facts;
use super::images::{ENUMERATE, preimage};
use crate::model::expr::{Expr, Exprs, Node};
use crate::model::set::Set;

impl Facts {
    /// Learns that an operation has one of these values.
    pub(super) fn restrict_binary(
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
            return self.settle(x, a, set, depth) && self.settle(x, b, set, depth);
        }
        if op == BinOp::Sub
            && let Some(c) = self.value(x, a)
        {
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
        if let Some(back) = preimage(op, w, &known, c, set) {
            return self.cut(x, a, &known, &back, depth);
        }
        if known.count() <= ENUMERATE {
            let back = known.values().filter(|&v| set.contains(binary(op, w, v, c)));
            return self.cut(x, a, &known, &Set::rising(back), depth);
        }
        op != BinOp::And
            || set.intervals().iter().any(|&(lo, _)| lo <= c) && self.restrict_masked(x, a, c, set, depth)
    }

    /// Some bits of a number that is made of bytes, if only one value is left for them.
    pub(super) fn masked(&self, x: &Exprs, bytes: &[Expr], mask: u128, depth: u32) -> Option<u128> {
        bytes.iter().enumerate().try_fold(0, |all, (i, &b)| {
            let mask = mask >> (8 * (bytes.len() - 1 - i)) & 0xff;
            let bits = match mask {
                0 => 0,
                _ => {
                    let set = self.look_at(x, b, depth);
                    let mut bits = set.values().map(|v| v & mask);
                    let first = bits.next()?;
                    bits.all(|other| other == first).then_some(first)?
                }
            };
            Some(all << 8 | bits)
        })
    }

    /// Learns that some bits of a number that is made of bytes have the one value that is left for them.
    pub(super) fn restrict_masked(&mut self, x: &Exprs, a: Expr, mask: u128, set: &Set, depth: u32) -> bool {
        let (Some(v), Node::Concat(bytes)) = (set.value(), x.node(a)) else { return true };
        bytes.iter().rev().enumerate().all(|(i, &b)| {
            let (mask, v) = (mask >> (8 * i) & 0xff, v >> (8 * i) & 0xff);
            let to = match mask {
                0 => return true,
                0xff => Set::single(v),
                _ if v & !mask != 0 => return false,
                // Each value of the other bits, from low to high.
                _ => {
                    let next = |b: &u128| Some((((b | mask) + 1) & !mask & 0xff) | v);
                    Set::rising(std::iter::successors(Some(v), next).take(1 << (8 - mask.count_ones())))
                }
            };
            self.restrict(x, b, &to, depth)
        })
    }

    /// Learns that `a - b` is in a set, where it never goes below 0.
    pub(super) fn restrict_difference(
        &mut self,
        x: &Exprs,
        (a, b): (Expr, Expr),
        set: &Set,
        depth: u32,
    ) -> bool {
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
