//! What follows for operands from the result of an operation with two unknowns, or with some bits of one.

use super::Facts;
use crate::expr::{Expr, Exprs, Node};
use crate::set::Set;

impl Facts {
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
