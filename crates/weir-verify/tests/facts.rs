//! Whatever is concluded from conditions holds for the values that meet them, and simplified expressions have the
//! value of the operations that they are made of.

use proptest::prelude::*;
use weir_ir::Width::{self, W1, W8, W16, W32};
use weir_ir::interp::{binary, compare, sum16};
use weir_ir::program::{BinOp, CmpOp};
use weir_verify::{Expr, Exprs, Facts, Symbol};

const OPS: [BinOp; 9] = [
    BinOp::Add,
    BinOp::Sub,
    BinOp::Mul,
    BinOp::Rem,
    BinOp::And,
    BinOp::Or,
    BinOp::Xor,
    BinOp::Shl,
    BinOp::Shr,
];

/// Builds expressions from choices, each beside its value for the given bytes.
fn grow(x: &mut Exprs, bytes: &[u8], choices: &[(u8, u8, u8)]) -> Vec<(Expr, u128)> {
    let symbol = |(i, &b): (usize, &u8)| (x.symbol(W8, Symbol::Arg(i as u32)), u128::from(b));
    let mut all: Vec<(Expr, u128)> = bytes.iter().enumerate().map(symbol).collect();
    for &(what, i, j) in choices {
        let (a, p) = all[usize::from(i) % all.len()];
        let w = x.width(a);
        // Another of the same width, or a constant.
        let same: Vec<(Expr, u128)> = all.iter().copied().filter(|(e, _)| x.width(*e) == w).collect();
        let constant = (x.constant(w, u128::from(j / 3) & w.max()), u128::from(j / 3) & w.max());
        let (b, q) = if j % 3 == 0 { same[usize::from(j / 3) % same.len()] } else { constant };
        let made = match what % 16 {
            op @ 0..=8 => {
                let op = OPS[usize::from(op)];
                (x.binary(op, a, b), binary(op, w, p, q))
            }
            9 => (x.equal(a, b), compare(CmpOp::Eq, p, q).into()),
            10 => (x.less(a, b), compare(CmpOp::Lt, p, q).into()),
            11 => (x.not(a), !p & w.max()),
            12 => {
                let to: Width = [W1, W8, W16, W32][usize::from(j) % 4];
                (x.resize(to, a), p & to.max())
            }
            13 if w == W8 => (x.concat(&[a, b]), p << 8 | q),
            14 if w == W16 => (x.sum16(a, b), sum16(p as u16, q as u16).into()),
            _ => {
                let (c, r) = all[usize::from(j) % all.len()];
                let cond = x.is(c, 1);
                (x.select(cond, a, b), if r == 1 { p } else { q })
            }
        };
        all.push(made);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn conclusions_hold_for_what_meets_the_conditions(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..5], 3..5),
        choices in prop::collection::vec(any::<(u8, u8, u8)>(), 1..25),
        assumed in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let (mut x, mut f) = (Exprs::default(), Facts::default());
        let all = grow(&mut x, &bytes, &choices);
        for i in assumed {
            // What is assumed of an expression is true of its value.
            let (e, v) = *i.get(&all);
            let (cond, truth) = if x.width(e) == W1 { (e, v == 1) } else {
                let limit = x.constant(x.width(e), v / 2 + 1);
                (x.less(e, limit), v < (v / 2 + 1) & x.width(e).max())
            };
            prop_assert!(f.assume(&mut x, cond, truth));
            for &(e, v) in &all {
                prop_assert!(f.set(&x, e).contains(v), "{e:?} is {v}: {:?} {:?}", x.node(e), f.set(&x, e));
            }
        }
        prop_assert!(f.sharpen(&x));
    }
}
