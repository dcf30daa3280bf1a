use super::*;
use crate::model::expr::Symbol;

fn byte(x: &mut Exprs, i: u32) -> Expr {
    x.symbol(Width::W8, Symbol::Arg(i))
}

#[test]
fn a_header_length_has_few_values() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let first = byte(&mut x, 0);
    let (mask, two, twenty) =
        (x.constant(Width::W8, 15), x.constant(Width::W32, 2), x.constant(Width::W32, 20));
    let words = x.binary(BinOp::And, first, mask);
    let words = x.resize(Width::W32, words);
    let bytes = x.binary(BinOp::Shl, words, two);
    let short = x.less(bytes, twenty);
    assert!(f.assume(&mut x, short, false));
    let lengths: Vec<u128> = f.set(&x, bytes).values().collect();
    assert_eq!(lengths, (5..=15).map(|w| w * 4).collect::<Vec<_>>());
    let seven = x.is(words, 7);
    assert!(f.assume(&mut x, seven, true));
    assert_eq!(f.value(&x, bytes), Some(28));
    let six = x.is(words, 6);
    assert_eq!(f.truth(&x, six), Some(false));
}

#[test]
fn a_prefix_that_is_gone_takes_longer_ones_along() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let a = x.symbol(Width::W32, Symbol::Arg(0));
    let prefix = |x: &mut Exprs, mask, v| {
        let m = x.constant(Width::W32, mask);
        let part = x.binary(BinOp::And, a, m);
        x.is(part, v)
    };
    let wide = prefix(&mut x, 0xff00_0000, 0x0a00_0000);
    let narrow = prefix(&mut x, 0xffff_0000, 0x0a01_0000);
    let mut inside = f.clone();
    assert!(f.assume(&mut x, wide, false));
    assert_eq!(f.truth(&x, narrow), Some(false));
    assert!(inside.assume(&mut x, narrow, true));
    assert_eq!(inside.truth(&x, wide), Some(true));
}

#[test]
fn some_bits_of_a_number_are_some_bits_of_its_bytes() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let bytes: Vec<Expr> = (0..4).map(|i| byte(&mut x, i)).collect();
    let number = x.concat(&bytes);
    let mask = x.constant(Width::W32, 0x0fff_001f);
    let part = x.binary(BinOp::And, number, mask);
    let is = x.is(part, 0x0512_0003);
    assert!(f.assume(&mut x, is, true));
    assert_eq!(f.value(&x, bytes[1]), Some(0x12));
    let first: Vec<u128> = f.set(&x, bytes[0]).values().take(3).collect();
    assert_eq!(first, [0x05, 0x15, 0x25]);
    assert_eq!(f.set(&x, bytes[2]).count(), 256);
    let odd = x.is(bytes[3], 0x24);
    assert_eq!(f.truth(&x, odd), Some(false));
}

#[test]
fn what_is_never_more_than_one_that_is_less_is_less() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let (a, b, c) = (byte(&mut x, 0), byte(&mut x, 1), byte(&mut x, 2));
    let (first, second) = (x.at_most(a, b), x.less(b, c));
    assert!(f.assume(&mut x, first, true));
    let mut equal = f.clone();
    assert!(f.assume(&mut x, second, true));
    let (less, more, same) = (x.less(a, c), x.less(c, a), x.equal(a, c));
    assert_eq!([less, more, same].map(|e| f.truth(&x, e)), [Some(true), Some(false), Some(false)]);
    let second = x.at_most(b, c);
    assert!(equal.assume(&mut x, second, true));
    assert_eq!([less, more, same].map(|e| equal.truth(&x, e)), [None, Some(false), None]);
}

#[test]
fn an_order_is_known_from_both_sides() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let (a, b) = (byte(&mut x, 0), byte(&mut x, 1));
    let (b_is_less, a_is_less, same) = (x.less(b, a), x.less(a, b), x.equal(a, b));
    assert!(f.assume(&mut x, b_is_less, true));
    assert_eq!([b_is_less, a_is_less, same].map(|c| f.truth(&x, c)), [Some(true), Some(false), Some(false)]);
}

#[test]
fn a_prefix_is_all_its_numbers() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let a = x.symbol(Width::W32, Symbol::Arg(0));
    let mask = x.constant(Width::W32, 0xff00_0000);
    let part = x.binary(BinOp::And, a, mask);
    let inside = x.is(part, 0x0a00_0000);
    assert!(f.assume(&mut x, inside, true));
    assert_eq!(f.set(&x, a), Set::range(0x0a00_0000, 0x0aff_ffff));
}

#[test]
fn contradictions_are_seen_through_sums_and_bytes() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let (high, low) = (byte(&mut x, 0), byte(&mut x, 1));
    let word = x.concat(&[high, low]);
    let next = x.plus(word, 1);
    let wanted = x.is(next, 0x0800);
    assert!(f.assume(&mut x, wanted, true));
    assert_eq!((f.value(&x, high), f.value(&x, low)), (Some(7), Some(0xff)));
    let other = x.is(low, 3);
    assert!(!f.assume(&mut x, other, true));
}

#[test]
fn bits_of_bytes_that_are_known_are_known() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let bytes: Vec<Expr> = (0..4).map(|i| byte(&mut x, i)).collect();
    let word = x.concat(&bytes);
    let mask = x.constant(Width::W32, 0x0f00_1fff);
    let part = x.binary(BinOp::And, word, mask);
    let plain = x.is(part, 0x0500_0000);
    assert!(f.assume(&mut x, plain, false), "a length and an offset are not both the usual ones");
    let low = x.concat(&bytes[2..]);
    let mask = x.constant(Width::W16, 0x1fff);
    let offset = x.binary(BinOp::And, low, mask);
    let first = x.is(offset, 0);
    assert!(f.assume(&mut x, first, true));
    assert_eq!(f.value(&x, part), None);
    let five = x.is(bytes[0], 0x45);
    let mut six = f.clone();
    assert!(f.assume(&mut x, five, true));
    assert!(!f.sharpen(&x), "but here they are");
    let other = x.is(bytes[0], 0x46);
    assert!(six.assume(&mut x, other, true) && six.sharpen(&x));
    assert_eq!(six.value(&x, part), Some(0x0600_0000));
}

#[test]
fn conditions_on_one_thing_are_one_condition() {
    let mut x = Exprs::default();
    let (a, b) = (byte(&mut x, 0), byte(&mut x, 1));
    let [one, two, three] = [1, 2, 3].map(|v| x.is(a, v));
    let either = x.binary(BinOp::Or, one, two);
    let mut f = Facts::default();
    assert!(f.assume(&mut x, either, true));
    assert_eq!(f.truth(&x, three), Some(false));
    assert_eq!(f.set(&x, a).values().collect::<Vec<_>>(), [1, 2]);
    let none = x.not(either);
    assert_eq!(x.binary(BinOp::And, either, none), x.constant(Width::W1, 0));
    assert_eq!(x.binary(BinOp::Or, either, none), x.constant(Width::W1, 1));
    assert_eq!(x.binary(BinOp::And, either, two), two);
    // What two of them share is seen whichever of the two holds.
    let there = x.is(b, 6);
    let (p, q) = (x.binary(BinOp::And, there, one), x.binary(BinOp::And, there, two));
    let rule = x.binary(BinOp::Or, p, q);
    let mut f = Facts::default();
    assert!(f.assume(&mut x, rule, true));
    assert_eq!((f.value(&x, b), f.truth(&x, three)), (Some(6), Some(false)));
}

#[test]
fn what_was_found_is_found_anew_when_more_is_known_of_operands() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let a = byte(&mut x, 0);
    let wide = x.resize(Width::W32, a);
    let [one, two] = [1, 2].map(|n| x.constant(Width::W32, n));
    let (sum, double) = (x.binary(BinOp::Add, wide, one), x.binary(BinOp::Shl, wide, two));
    assert_eq!(f.set(&x, sum), Set::range(1, 256));
    assert_eq!(f.set(&x, double).hull(), Some((0, 1020)));
    let before = f.clone();
    let ten = x.constant(Width::W8, 10);
    let small = x.less(a, ten);
    assert!(f.assume(&mut x, small, true));
    assert_eq!((f.set(&x, sum), f.set(&x, double).hull()), (Set::range(1, 10), Some((0, 36))));
    assert_eq!(before.set(&x, sum), Set::range(1, 256), "another path does not know it");
    // Each of two paths that part knows its own.
    let mut other = f.clone();
    let (three, four) = (x.is(a, 3), x.is(a, 4));
    assert!(f.assume(&mut x, three, true) && other.assume(&mut x, four, true));
    assert_eq!((f.value(&x, sum), other.value(&x, sum)), (Some(4), Some(5)));
}

#[test]
fn what_was_found_of_equal_numbers_is_found_anew_when_they_are() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let [a, b, c] = [0, 1, 2].map(|i| byte(&mut x, i));
    let (first, second) = (x.equal(a, b), x.equal(b, c));
    let third = x.equal(a, c);
    assert_eq!(f.truth(&x, third), None);
    assert!(f.assume(&mut x, first, true) && f.assume(&mut x, second, true));
    assert_eq!(f.truth(&x, third), Some(true));
}

#[test]
fn a_key_one_part_of_which_would_be_two_numbers_is_none() {
    let mut x = Exprs::default();
    let [a, b] = [0, 1].map(|i| byte(&mut x, i));
    let [one, two] = [1, 2].map(|n| x.constant(Width::W8, n));
    let never = x.keys_equal(&[a, b, a], &[one, one, two]);
    assert_eq!(x.constant_value(never), Some(0));
    for key in [[one, two, one], [one, one, one]] {
        let maybe = x.keys_equal(&[a, b, a], &key);
        assert_eq!(x.constant_value(maybe), None);
    }
}

#[test]
fn a_condition_and_its_opposite_contradict_each_other_within_others() {
    let (mut x, mut f) = (Exprs::default(), Facts::default());
    let [a, b, c] = [0, 1, 2].map(|i| byte(&mut x, i));
    let (less, same) = (x.less(a, b), x.equal(b, c));
    let both = x.both(less, same);
    assert!(f.assume(&mut x, less, false));
    assert!(!f.assume(&mut x, both, true));
    let mut f = Facts::default();
    assert!(f.assume(&mut x, both, true));
    assert_eq!((f.truth(&x, less), f.truth(&x, same)), (Some(true), Some(true)));
}
