//! Algebra on ones' complement sums: incremental checksum updates (RFC 1624) that follow one another become one.
//!
//! `sum16` is commutative and associative; 0 is neutral, `x` and `not x` are 0xffff together, and 0xffff changes
//! nothing but a 0.

use crate::interp::sum16;
use crate::program::{Op, Program, Value, Width};

use super::fold::{Folded, Folder};

/// Most terms of a sum that are looked at together.
const MAX_TERMS: usize = 16;

/// Folds `dst = sum16(a, b)`, neither of which is 0, and which are not both constant.
pub(super) fn fold(f: &mut Folder, p: &mut Program, dst: Value, a: Value, b: Value) -> Folded {
    let as_it_is = Folded::Op(Op::Sum16 { dst, a, b });
    let mut terms = Vec::new();
    let mut work = vec![b, a];
    while let Some(v) = work.pop() {
        match f.def(v) {
            Some(&Op::Sum16 { a, b, .. }) if terms.len() + work.len() < MAX_TERMS => work.extend([b, a]),
            _ => terms.push(v),
        }
    }
    let before = terms.len();
    let mut constant = None;
    let mut add = |c: u16| constant = Some(sum16(constant.unwrap_or(0), c));
    let mut rest: Vec<Value> = Vec::new();
    for v in terms {
        if let Some(c) = f.constant(v) {
            add(c as u16);
            continue;
        }
        let opposite = |x: Value, y: Value| matches!(f.def(x), Some(&Op::Not { a, .. }) if a == y);
        match rest.iter().position(|&r| opposite(r, v) || opposite(v, r)) {
            Some(i) => {
                rest.remove(i);
                add(0xffff);
            }
            None => rest.push(v),
        }
    }
    let constant = constant.filter(|&c| c != 0);
    if rest.len() + usize::from(constant.is_some()) >= before {
        return as_it_is;
    }
    if let Some(c) = constant {
        rest.push(f.make_const(p, Width::W16, c.into()));
    }
    match rest.split_last() {
        None => Folded::Op(Op::Const { dst, value: 0 }),
        Some((&last, [])) => Folded::Same(dst, last),
        Some((&last, [first, more @ ..])) => {
            let mut sum = *first;
            for &v in more {
                sum = f.make(p, Width::W16, |dst| Op::Sum16 { dst, a: sum, b: v });
            }
            Folded::Op(Op::Sum16 { dst, a: sum, b: last })
        }
    }
}
