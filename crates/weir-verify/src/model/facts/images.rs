//! Images and preimages of sets of numbers under operations with a constant.

use weir_ir::program::{BinOp, Width};

use crate::model::set::Set;

/// Largest set whose image under an operation is computed value by value.
pub(super) const ENUMERATE: u128 = 256;

/// The numbers, of those in `from`, with which an operation with a constant gives one of `set`, if they are found without
/// trying each. There may be more that are not in `from`.
pub(super) fn preimage(op: BinOp, w: Width, from: &Set, c: u128, set: &Set) -> Option<Set> {
    let parts = set.intervals().iter();
    Some(match op {
        BinOp::Xor => Set::single(set.value()? ^ c),
        BinOp::And if is_prefix(c, w) => {
            let low = !c & w.max();
            let parts = parts.filter_map(|&(lo, hi)| {
                let lo = if lo & low == 0 { lo } else { (lo | low).checked_add(1)? };
                let hi = (hi & c) | low;
                (lo <= hi).then_some((lo, hi))
            });
            Set::union(parts.collect())
        }
        // Low bits: the same again for each value of the others.
        BinOp::And if c & c.wrapping_add(1) == 0 => {
            let (lo, hi) = from.hull()?;
            if (hi - lo) / (c + 1) > ENUMERATE {
                return None;
            }
            let others = (lo & !c..=hi).step_by(usize::try_from(c + 1).ok()?);
            let all = others.flat_map(|o| {
                let parts = set.intervals().iter().filter(|i| i.0 <= c);
                parts.map(move |&(lo, hi)| (o | lo, o | hi.min(c)))
            });
            Set::union(all.collect())
        }
        BinOp::Shr => {
            let s = distance(c, w)?;
            let max = w.max() >> s;
            let parts = parts.filter(|i| i.0 <= max);
            let low = w.max() >> (w.bits() - s);
            Set::union(parts.map(|&(lo, hi)| (lo << s, hi.min(max) << s | low)).collect())
        }
        BinOp::Shl => {
            let s = distance(c, w).filter(|&s| from.hull().is_some_and(|h| h.1 <= w.max() >> s))?;
            let low = (1 << s) - 1;
            let parts = parts.filter_map(|&(lo, hi)| {
                let (lo, hi) = ((lo >> s) + u128::from(lo & low != 0), hi >> s);
                (lo <= hi).then_some((lo, hi))
            });
            Set::union(parts.collect())
        }
        _ => return None,
    })
}

/// The image of a set under an operation with a constant that leaves intervals intervals, or numbers in a row.
pub(super) fn image_of_intervals(op: BinOp, w: Width, a: &Set, c: u128) -> Option<Set> {
    let [(lo, hi)] = *a.intervals() else {
        return match op {
            BinOp::Add => Some(a.shift(c, w)),
            BinOp::Shr => distance(c, w).map(|s| map(a, |v| v >> s)),
            _ => None,
        };
    };
    match op {
        BinOp::Add => Some(a.shift(c, w)),
        BinOp::Shr => distance(c, w).map(|s| Set::range(lo >> s, hi >> s)),
        // Low bits, of an interval in which the others are the same, or in which there are all.
        BinOp::And if c & c.wrapping_add(1) == 0 => match () {
            () if hi - lo >= c => Some(Set::range(0, c)),
            () if lo | c == hi | c => Some(Set::range(lo & c, hi & c)),
            () => None,
        },
        // High bits.
        BinOp::And if is_prefix(c, w) && c != 0 => {
            let step = c & c.wrapping_neg();
            let all = (lo & c..=hi & c).step_by(step.try_into().ok()?);
            ((hi - lo) / step < ENUMERATE).then(|| Set::rising(all))
        }
        BinOp::Shl if hi <= w.max() >> distance(c, w)? && hi - lo < ENUMERATE => {
            Some(Set::rising((lo..=hi).map(|v| v << c)))
        }
        _ => None,
    }
}

/// The image of a set under a function that never falls; gaps within an interval are filled.
pub(super) fn map(set: &Set, f: impl Fn(u128) -> u128) -> Set {
    match set.intervals() {
        [(lo, hi)] => Set::range(f(*lo), f(*hi)),
        parts => Set::union(parts.iter().map(|&(lo, hi)| (f(lo), f(hi))).collect()),
    }
}

/// The numbers with all bits inverted.
pub(super) fn flip(set: &Set, w: Width) -> Set {
    let not = |v: u128| !v & w.max();
    match set.intervals() {
        [(lo, hi)] => Set::range(not(*hi), not(*lo)),
        parts => Set::union(parts.iter().map(|&(lo, hi)| (not(hi), not(lo))).collect()),
    }
}

/// Whether a mask is ones followed by zeros.
pub(super) fn is_prefix(mask: u128, w: Width) -> bool {
    let low = !mask & w.max();
    low & (low.wrapping_add(1)) == 0
}

/// A shift distance that is neither 0 nor the whole width.
pub(super) fn distance(c: u128, w: Width) -> Option<u32> {
    u32::try_from(c).ok().filter(|s| (1..w.bits()).contains(s))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_ir::interp::binary;

    use super::*;

    fn sets() -> impl Strategy<Value = Set> {
        prop::collection::vec((0u128..256, 0u128..80), 1..5)
            .prop_map(|parts| Set::union(parts.into_iter().map(|(lo, n)| (lo, (lo + n).min(255))).collect()))
    }

    fn constants() -> impl Strategy<Value = u128> {
        prop_oneof![
            0u128..256,
            prop::sample::select(vec![0, 1, 3, 7, 0xf, 0x3f, 0x7f, 0x80, 0xc0, 0xf0, 0xff])
        ]
    }

    #[test]
    fn what_is_shifted_to_the_left_has_no_low_bits() {
        let from = Set::range(0, 63);
        let back = |to: Set| preimage(BinOp::Shl, Width::W8, &from, 2, &to).unwrap();
        assert_eq!(back(Set::range(20, 39)), Set::range(5, 9));
        assert_eq!(back(Set::range(21, 40)), Set::range(6, 10));
        assert!(back(Set::range(21, 23)).is_empty());
    }

    proptest! {
        #[test]
        fn images_and_preimages_agree_with_trying_each_number(
            op in prop::sample::select(vec![BinOp::Add, BinOp::And, BinOp::Xor, BinOp::Shr, BinOp::Shl]),
            c in constants(),
            from in sets(),
            to in sets(),
        ) {
            let of = |v| binary(op, Width::W8, v, c);
            // Nothing is lost on the left.
            let from = if op == BinOp::Shl { map(&from, |v| v >> c.min(7)) } else { from };
            if let Some(image) = image_of_intervals(op, Width::W8, &from, c) {
                prop_assert!(from.values().all(|v| image.contains(of(v))));
                prop_assert!(image.count() <= from.count());
            }
            if let Some(back) = preimage(op, Width::W8, &from, c, &to) {
                let back: Vec<u128> = from.intersect(&back).values().collect();
                let tried: Vec<u128> = from.values().filter(|&v| to.contains(of(v))).collect();
                prop_assert_eq!(back, tried);
            }
        }
    }
}
