use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use weir_ir::Width::{self, W1, W8, W16, W32, W64, W128};
use weir_ir::program::BinOp;

use super::*;
use crate::model::expr::{Claim, Mem, Source};
use crate::model::facts::Facts;
use crate::solve::{Effort, Entered, Solution, decide};

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
const WIDTHS: [Width; 6] = [W1, W8, W16, W32, W64, W128];

/// Asks whether conditions can hold together.
fn ask(smt: &Smt, x: &Exprs, conditions: &[Expr]) -> Answer {
    let net = Network::default();
    let facts = Facts::default();
    let goal = Goal { exprs: x, facts: &facts, inputs: 0, entry: Entered::Packets, whole: true };
    smt.ask(&net, &goal, conditions, &Deadline::start(None))
}

fn arg(x: &mut Exprs, w: Width, i: u32) -> Expr {
    x.symbol(w, Symbol::Arg(i))
}

/// Bytes of a packet of which some were written.
fn mem(x: &mut Exprs, written: &[(i64, Expr)]) -> crate::MemId {
    let source = x.source_id(Source::Input(0));
    let writes: BTreeMap<i64, Expr> = written.iter().copied().collect();
    x.mem_id(&Mem { source, writes: Rc::new(writes) })
}

/// Expressions of all kinds that bit-vectors can say, without simplification.
fn grow(x: &mut Exprs, choices: &[(u8, u8, u8)]) -> Vec<Expr> {
    let mut all: Vec<Expr> = (0..).zip(WIDTHS).map(|(i, w)| arg(x, w, i)).collect();
    all.push(arg(x, W8, 6));
    all.push(x.constant(W8, 8));
    for &(what, i, j) in choices {
        let pick = |k: u8| all[usize::from(k) % all.len()];
        let alike = |x: &Exprs, k: u8, w: Width| {
            let some: Vec<Expr> = all.iter().copied().filter(|&e| x.width(e) == w).collect();
            some[usize::from(k) % some.len()]
        };
        let a = pick(i);
        let w = x.width(a);
        let b = alike(x, j, w);
        let (p, q) = (alike(x, i, W8), alike(x, j, W8));
        let made = match what % 20 {
            op @ 0..=8 => x.make(w, Node::Binary(OPS[usize::from(op)], a, b)),
            9 => x.make(W1, Node::Equal(a, b)),
            10 => x.make(W1, Node::Less(a, b)),
            11 => x.make(w, Node::Not(a)),
            12 | 13 => x.make(WIDTHS[usize::from(j) % 6], Node::Resize(a)),
            14 => {
                let bytes = [p, q, p, q, q, q, p, p];
                let (n, w) = [(2, W16), (4, W32), (8, W64)][usize::from(j) % 3];
                x.make(w, Node::Concat(bytes[..n].into()))
            }
            15 => x.make(W8, Node::Byte(a, u32::from(j) % w.bytes())),
            16 => {
                let (a, b) = (alike(x, i, W16), alike(x, j, W16));
                x.make(W16, Node::Sum16(a, b))
            }
            17 => {
                let mem = mem(x, &[(2, p), (3, q), (5, p)]);
                let end = x.constant(W32, u128::from(j % 12));
                x.make(W16, Node::Checksum { mem, from: i64::from(i % 2), start: 1, end })
            }
            18 => {
                // One of eight ends.
                let mem = mem(x, &[(1, q), (4, p)]);
                let low = x.constant(W8, 7);
                let end = x.binary(BinOp::And, p, low);
                let end = x.resize(W32, end);
                if i % 2 == 0 {
                    x.make(W16, Node::Checksum { mem, from: 0, start: 2, end })
                } else {
                    x.make(W32, Node::Find { mem, from: 0, start: 2, end, byte: q })
                }
            }
            _ => {
                let c = pick(j.wrapping_mul(7));
                x.make(w, Node::Select(c, a, b))
            }
        };
        all.push(made);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Under given values of the symbols, z3 and the evaluator agree on what each expression is.
    #[test]
    fn z3_means_what_the_evaluator_means(
        values in prop::collection::vec(prop_oneof![any::<u128>(), 0u128..20], 7),
        bytes in prop::collection::vec(any::<u8>(), 12),
        choices in prop::collection::vec(any::<(u8, u8, u8)>(), 1..16),
    ) {
        let mut x = Exprs::default();
        let all = grow(&mut x, &choices);
        let mut model = Model::default();
        let mut given = Vec::new();
        for (i, (w, v)) in (0..).zip(WIDTHS.into_iter().chain([W8]).zip(values)) {
            let e = arg(&mut x, w, i);
            model.insert(Symbol::Arg(i), v & w.max());
            given.push(x.is(e, v));
        }
        let source = x.source_id(Source::Input(0));
        for (at, b) in (0..).zip(bytes) {
            let e = x.symbol(W8, Symbol::Byte(source, at));
            model.insert(Symbol::Byte(source, at), b.into());
            given.push(x.is(e, b.into()));
        }
        let net = Network::default();
        let mut same = x.constant(W1, 1);
        for &e in &all {
            let v = Evaluator::of_model(&x, &net, &model).eval(e);
            let v = x.constant(x.width(e), v);
            let equal = x.make(W1, Node::Equal(e, v));
            same = x.make(W1, Node::Binary(BinOp::And, same, equal));
        }
        let other = x.make(W1, Node::Not(same));
        let smt = Smt::default();
        given.push(same);
        prop_assert!(matches!(ask(&smt, &x, &given), Answer::Model(_)));
        given.pop();
        given.push(other);
        prop_assert!(matches!(ask(&smt, &x, &given), Answer::Impossible));
    }
}

#[test]
fn a_model_meets_what_was_asked() {
    let mut x = Exprs::default();
    let (a, b) = (arg(&mut x, W32, 0), arg(&mut x, W32, 1));
    let product = x.binary(BinOp::Mul, a, b);
    let both = [x.is(product, 77), x.less(a, b)];
    let one = x.constant(W32, 1);
    let more = x.less(one, a);
    let small = x.constant(W32, 100);
    let less = x.less(b, small);
    let Answer::Model(m) = ask(&Smt::default(), &x, &[both[0], both[1], more, less]) else {
        panic!("no model")
    };
    assert_eq!((m[&Symbol::Arg(0)], m[&Symbol::Arg(1)]), (7, 11));
}

#[test]
fn equal_arguments_have_one_hash_and_a_wanted_hash_is_the_real_one() {
    let mut x = Exprs::default();
    let (a, b) = (arg(&mut x, W32, 0), arg(&mut x, W32, 1));
    let (p, q) = (x.make(W32, Node::Hash([a].into())), x.make(W32, Node::Hash([b].into())));
    let (args, hashes) = (x.equal(a, b), x.equal(p, q));
    let differ = x.not(hashes);
    let smt = Smt::default();
    assert!(matches!(ask(&smt, &x, &[args, differ]), Answer::Impossible));
    let three = x.constant(W32, 3);
    let rest = x.binary(BinOp::And, p, three);
    let third = x.is(rest, 2);
    let Answer::Model(m) = ask(&smt, &x, &[third]) else { panic!("no model") };
    assert_eq!(weir_ir::interp::hash(0, &[m[&Symbol::Arg(0)]]) & 3, 2);
}

#[test]
fn one_key_finds_one_entry() {
    use crate::model::expr::{At, EntryAt};
    let mut x = Exprs::default();
    let (a, b) = (arg(&mut x, W32, 0), arg(&mut x, W32, 1));
    let mut has = |e: Expr| x.symbol(W1, Symbol::Has(EntryAt { table: 0, at: At::Key([e].into()) }));
    let (p, q) = (has(a), has(b));
    let (same, none) = (x.equal(a, b), x.not(q));
    let smt = Smt::default();
    assert!(matches!(ask(&smt, &x, &[p, none, same]), Answer::Impossible));
    assert!(matches!(ask(&smt, &x, &[p, none]), Answer::Model(_)));
}

#[test]
fn what_a_claim_gives_lies_in_its_range() {
    let mut x = Exprs::default();
    let [lo, hi, start] = [1024, 65_535, 0].map(|v| x.constant(W16, v));
    let size = arg(&mut x, W32, 0);
    let claim = Claim { table: 0, key: vec![start], hole: 0, lo, hi, start, size, changes: Vec::new() };
    let ok = x.make(W1, Node::ClaimOk(Box::new(claim.clone())));
    let port = x.make(W16, Node::Claimed(Box::new(claim)));
    let low = x.less(port, lo);
    assert!(matches!(ask(&Smt::default(), &x, &[ok, low]), Answer::Impossible));
}

#[test]
fn a_bucket_may_have_enough_or_not() {
    let mut x = Exprs::default();
    let [state, now, cost, rate, burst] =
        [(W128, 0), (W64, 1), (W64, 2), (W64, 3), (W64, 4)].map(|(w, i)| arg(&mut x, w, i));
    let ok = x.make(W1, Node::MeterOk(Box::new([state, now, cost, rate, burst])));
    let after = x.make(W128, Node::MeterState(Box::new([state, now, cost, rate, burst])));
    let none = x.is(after, 0);
    let (not_ok, some) = (x.not(ok), x.not(none));
    let costs = x.is(cost, 5);
    let smt = Smt::default();
    for wanted in [ok, not_ok] {
        let Answer::Model(m) = ask(&smt, &x, &[wanted, some, costs]) else { panic!("no model") };
        let net = Network::default();
        assert_eq!(Evaluator::of_model(&x, &net, &m).eval(wanted), 1);
    }
}

#[test]
fn without_z3_nothing_is_decided() {
    let mut x = Exprs::default();
    let a = arg(&mut x, W1, 0);
    let b = x.not(a);
    assert!(matches!(ask(&Smt::with("z3-that-is-nowhere"), &x, &[a, b]), Answer::Missing));
    // One that ends at once.
    assert!(matches!(ask(&Smt::with("true"), &x, &[a, b]), Answer::Unknown));
    assert!(matches!(ask(&Smt::default(), &x, &[a, b]), Answer::Impossible));
}

#[test]
fn only_z3_knows_that_no_square_is_two_more_than_a_multiple_of_four() {
    let (mut x, mut facts) = (Exprs::default(), Facts::default());
    let a = arg(&mut x, W32, 0);
    let (square, three) = (x.binary(BinOp::Mul, a, a), x.constant(W32, 3));
    let rest = x.binary(BinOp::And, square, three);
    let wanted = x.is(rest, 2);
    assert!(facts.assume(&mut x, wanted, true));
    let net = Network::default();
    let goal = Goal { exprs: &x, facts: &facts, inputs: 0, entry: Entered::Packets, whole: true };
    assert!(matches!(
        decide(&net, &goal, &Smt::default(), Effort::Thorough, &Deadline::start(None)),
        Solution::Impossible
    ));
    assert!(matches!(
        decide(&net, &goal, &Smt::with("z3-that-is-nowhere"), Effort::Thorough, &Deadline::start(None)),
        Solution::Missing
    ));
}
