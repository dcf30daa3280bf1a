//! Sets of numbers as sorted, disjoint intervals.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use weir_ir::Width;

/// A set of numbers. Copies share what they hold.
#[derive(Debug, Clone)]
pub struct Set(Parts);

/// The intervals, lowest first; neither overlapping nor next to each other.
#[derive(Debug, Clone)]
enum Parts {
    None,
    One([Interval; 1]),
    Many(Arc<Vec<Interval>>),
}

/// First and last number.
type Interval = (u128, u128);

impl Set {
    /// All numbers of a width.
    pub fn full(width: Width) -> Set {
        Set::range(0, width.max())
    }

    /// One number.
    pub fn single(v: u128) -> Set {
        Set::range(v, v)
    }

    /// The numbers from `lo` to `hi`, both included; none if `lo > hi`.
    pub fn range(lo: u128, hi: u128) -> Set {
        Set(if lo <= hi { Parts::One([(lo, hi)]) } else { Parts::None })
    }

    /// The union of intervals in any order.
    pub fn union(mut parts: Vec<Interval>) -> Set {
        parts.sort_unstable();
        let mut out: Vec<Interval> = Vec::with_capacity(parts.len());
        for (lo, hi) in parts {
            match out.last_mut() {
                Some(last) if lo <= last.1.saturating_add(1) => last.1 = last.1.max(hi),
                _ => out.push((lo, hi)),
            }
        }
        Set::of(out)
    }

    /// These numbers, each larger than the one before.
    pub(crate) fn rising(values: impl Iterator<Item = u128>) -> Set {
        let mut out: Vec<Interval> = Vec::with_capacity(16);
        for v in values {
            match out.last_mut() {
                Some(last) if last.1.checked_add(1) == Some(v) => last.1 = v,
                _ => out.push((v, v)),
            }
        }
        Set::of(out)
    }

    /// These intervals, which are as they have to be.
    fn of(parts: Vec<Interval>) -> Set {
        Set(match parts[..] {
            [] => Parts::None,
            [one] => Parts::One([one]),
            _ => Parts::Many(Arc::new(parts)),
        })
    }

    /// The numbers of a width that are not in the set.
    pub fn complement(&self, width: Width) -> Set {
        let mut out = Vec::with_capacity(self.intervals().len() + 1);
        let mut next = Some(0);
        for &(lo, hi) in self.intervals() {
            if let Some(n) = next
                && n < lo
            {
                out.push((n, lo - 1));
            }
            next = hi.checked_add(1);
        }
        if let Some(n) = next
            && n <= width.max()
        {
            out.push((n, width.max()));
        }
        Set::of(out)
    }

    /// The numbers but one.
    #[must_use]
    pub fn without(&self, v: u128) -> Set {
        let parts = self.intervals();
        let Some(i) = self.find(v) else { return self.clone() };
        let (lo, hi) = parts[i];
        let mut out = Vec::with_capacity(parts.len() + 1);
        out.extend_from_slice(&parts[..i]);
        if lo < v {
            out.push((lo, v - 1));
        }
        if v < hi {
            out.push((v + 1, hi));
        }
        out.extend_from_slice(&parts[i + 1..]);
        Set::of(out)
    }

    /// The numbers in both.
    #[must_use]
    pub fn intersect(&self, other: &Set) -> Set {
        let (few, many) =
            if self.intervals().len() <= other.intervals().len() { (self, other) } else { (other, self) };
        match few.intervals() {
            [] => return few.clone(),
            [one] => return many.clip(*one),
            _ => {}
        }
        let mut out = Vec::with_capacity(few.intervals().len());
        few.overlaps(many, |part| {
            out.push(part);
            true
        });
        // What is all of one set shares its memory.
        for all in [few, many] {
            if out == all.intervals() {
                return all.clone();
            }
        }
        Set::of(out)
    }

    /// The numbers from `lo` to `hi`.
    fn clip(&self, (lo, hi): Interval) -> Set {
        let parts = self.intervals();
        let from = parts.partition_point(|p| p.1 < lo);
        let to = parts.partition_point(|p| p.0 <= hi);
        if from >= to {
            return Set(Parts::None);
        }
        let (first, last) = (parts[from], parts[to - 1]);
        if to - from == 1 {
            return Set::range(first.0.max(lo), first.1.min(hi));
        }
        if to - from == parts.len() && lo <= first.0 && last.1 <= hi {
            return self.clone();
        }
        let mut out = parts[from..to].to_vec();
        let n = out.len() - 1;
        (out[0].0, out[n].1) = (first.0.max(lo), last.1.min(hi));
        Set::of(out)
    }

    /// Calls `f` with what is in both, lowest first, until it says no.
    fn overlaps(&self, many: &Set, mut f: impl FnMut(Interval) -> bool) {
        let mut rest = many.intervals();
        for &(lo, hi) in self.intervals() {
            // Where this set has few parts, most of the other's are passed over.
            let skip = match rest.first() {
                Some(p) if p.1 < lo => gallop(rest, lo),
                _ => 0,
            };
            rest = &rest[skip..];
            while let [p, behind @ ..] = rest
                && p.0 <= hi
            {
                if !f((lo.max(p.0), hi.min(p.1))) {
                    return;
                }
                if p.1 > hi {
                    break;
                }
                rest = behind;
            }
        }
    }

    /// Whether there is a number in both.
    pub fn meets(&self, other: &Set) -> bool {
        let (few, many) =
            if self.intervals().len() <= other.intervals().len() { (self, other) } else { (other, self) };
        let mut found = false;
        few.overlaps(many, |_| {
            found = true;
            false
        });
        found
    }

    /// Whether all numbers are in another set.
    pub fn is_within(&self, other: &Set) -> bool {
        if let (Parts::Many(a), Parts::Many(b)) = (&self.0, &other.0)
            && Arc::ptr_eq(a, b)
        {
            return true;
        }
        let mut rest = other.intervals();
        self.intervals().iter().all(|&(lo, hi)| {
            if rest.first().is_some_and(|p| p.1 < lo) {
                rest = &rest[gallop(rest, lo)..];
            }
            rest.first().is_some_and(|p| p.0 <= lo && hi <= p.1)
        })
    }

    /// Whether the other set is one interval, and all numbers are in it.
    pub(crate) fn is_in_the_interval(&self, other: &Set) -> bool {
        let Parts::One([(lo, hi)]) = other.0 else { return false };
        self.hull().is_none_or(|(first, last)| lo <= first && last <= hi)
    }

    /// The lowest member that is not below `v`.
    pub(crate) fn at_least(&self, v: u128) -> Option<u128> {
        let parts = self.intervals();
        parts.get(parts.partition_point(|p| p.1 < v)).map(|&(lo, _)| lo.max(v))
    }

    /// Whether there are no numbers in it.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Parts::None)
    }

    /// Whether `v` is in it.
    pub fn contains(&self, v: u128) -> bool {
        self.find(v).is_some()
    }

    /// Number of the interval that a number is in.
    fn find(&self, v: u128) -> Option<usize> {
        let parts = self.intervals();
        let i = parts.partition_point(|p| p.1 < v);
        parts.get(i).is_some_and(|p| p.0 <= v).then_some(i)
    }

    /// The smallest and the largest number.
    pub fn hull(&self) -> Option<Interval> {
        let parts = self.intervals();
        Some((parts.first()?.0, parts.last()?.1))
    }

    /// The number, if there is just one.
    pub fn value(&self) -> Option<u128> {
        match self.0 {
            Parts::One([(lo, hi)]) if lo == hi => Some(lo),
            _ => None,
        }
    }

    /// How many numbers there are (all ones if more than fit).
    pub fn count(&self) -> u128 {
        self.intervals().iter().fold(0, |n: u128, (lo, hi)| n.saturating_add((hi - lo).saturating_add(1)))
    }

    /// The numbers, smallest first.
    pub fn values(&self) -> impl Iterator<Item = u128> {
        self.intervals().iter().flat_map(|&(lo, hi)| lo..=hi)
    }

    /// The intervals.
    pub fn intervals(&self) -> &[Interval] {
        match &self.0 {
            Parts::None => &[],
            Parts::One(one) => one,
            Parts::Many(parts) => parts,
        }
    }

    /// The numbers `v + by`, wrapping at a width.
    pub fn shift(&self, by: u128, width: Width) -> Set {
        let max = width.max();
        let shifted = |(lo, hi): Interval| (lo.wrapping_add(by) & max, hi.wrapping_add(by) & max);
        if let Parts::One([one]) = self.0
            && let (a, b) = shifted(one)
            && a <= b
        {
            return Set::range(a, b);
        }
        let mut parts = Vec::with_capacity(self.intervals().len() + 1);
        for &(lo, hi) in self.intervals() {
            let (a, b) = shifted((lo, hi));
            if hi - lo == max {
                parts.push((0, max));
            } else if a <= b {
                parts.push((a, b));
            } else {
                parts.extend([(a, max), (0, b)]);
            }
        }
        Set::union(parts)
    }
}

/// How many of some intervals, at least one, lie below a number: looks near the front first.
fn gallop(parts: &[Interval], v: u128) -> usize {
    let mut step = 1;
    while parts.get(step).is_some_and(|p| p.1 < v) {
        step *= 2;
    }
    let from = step / 2;
    from + parts[from..parts.len().min(step + 1)].partition_point(|p| p.1 < v)
}

impl PartialEq for Set {
    fn eq(&self, other: &Set) -> bool {
        match (&self.0, &other.0) {
            (Parts::Many(a), Parts::Many(b)) => a == b,
            _ => self.intervals() == other.intervals(),
        }
    }
}

impl Eq for Set {}

impl Hash for Set {
    /// Of the ends and the number of intervals only: sets may be long.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.intervals().len(), self.hull()).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn complement_and_intersection_agree_with_counting() {
        let a = Set::union(vec![(10, 20), (0, 3), (21, 30)]);
        assert_eq!(a.intervals(), [(0, 3), (10, 30)]);
        let b = a.complement(Width::W8);
        assert_eq!(a.count() + b.count(), 256);
        assert!(a.intersect(&b).is_empty());
        assert_eq!(Set::full(Width::W128).complement(Width::W128), Set::range(1, 0));
    }

    #[test]
    fn a_shift_wraps() {
        let a = Set::range(250, 255).shift(3, Width::W8);
        assert_eq!(a.intervals(), [(0, 2), (253, 255)]);
        assert_eq!(a.shift(253, Width::W8), Set::range(250, 255));
    }

    fn parts() -> impl Strategy<Value = Set> {
        prop::collection::vec((0u128..256, 0u128..40), 0..24)
            .prop_map(|parts| Set::union(parts.into_iter().map(|(lo, n)| (lo, (lo + n).min(255))).collect()))
    }

    proptest! {
        #[test]
        fn what_two_sets_have_in_common_agrees_with_their_members(a in parts(), b in parts(), v in 0u128..256) {
            let both: Vec<u128> = a.values().filter(|&v| b.contains(v)).collect();
            prop_assert_eq!(a.intersect(&b).values().collect::<Vec<_>>(), both.clone());
            prop_assert_eq!(a.meets(&b), !both.is_empty());
            prop_assert_eq!(a.is_within(&b), both.len() as u128 == a.count());
            prop_assert!(a.intersect(&b).is_within(&b));
            let others: Vec<u128> = a.values().filter(|&o| o != v).collect();
            prop_assert_eq!(a.without(v).values().collect::<Vec<_>>(), others);
            prop_assert_eq!(a.at_least(v), a.values().find(|&o| o >= v));
        }
    }
}
