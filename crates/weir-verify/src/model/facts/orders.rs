//! Which of two unknowns is less: what was said of both, and what follows from a third.

use super::Facts;
use crate::model::expr::{Expr, Exprs, Node};

pub(super) const LESS: u8 = 1;
pub(super) const EQUAL: u8 = 2;
pub(super) const GREATER: u8 = 4;
pub(super) const ANY: u8 = LESS | EQUAL | GREATER;

impl Facts {
    /// Which of less, equal and greater the first of a pair may be: by what was said of both, or of each and a third.
    pub(super) fn compared(&self, pair: (Expr, Expr)) -> u8 {
        let mut may = self.known(pair.0, pair.1);
        if may.count_ones() == 1 {
            return may;
        }
        for &(a, b) in self.orders.keys() {
            let between = match pair.0 {
                p if p == a => b,
                p if p == b => a,
                _ => continue,
            };
            let (one, two) = (self.known(pair.0, between), self.known(between, pair.1));
            for order in [LESS, GREATER] {
                // Never more and then never more is never more, and less if one of them is less.
                if (one | two) & !(order | EQUAL) == 0 {
                    may &= if one == order || two == order { order } else { order | EQUAL };
                }
            }
        }
        may
    }

    /// What was said of two expressions: which of less, equal and greater the first may be.
    fn known(&self, a: Expr, b: Expr) -> u8 {
        if a < b {
            return self.orders.get(&(a, b)).copied().unwrap_or(ANY);
        }
        let known = self.orders.get(&(b, a)).copied().unwrap_or(ANY);
        known & EQUAL
            | if known & LESS != 0 { GREATER } else { 0 }
            | if known & GREATER != 0 { LESS } else { 0 }
    }
}

/// The two unknowns that a condition compares, and what the first may be to the second if it holds.
pub(super) fn relation(x: &Exprs, cond: Expr) -> Option<((Expr, Expr), u8)> {
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
