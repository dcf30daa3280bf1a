//! Sets of numbers as sorted, disjoint intervals.

use weir_ir::Width;

/// A set of numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Set(Vec<(u128, u128)>);

impl Set {
    /// All numbers of a width.
    pub fn full(width: Width) -> Set {
        Set(vec![(0, width.max())])
    }

    /// One number.
    pub fn single(v: u128) -> Set {
        Set(vec![(v, v)])
    }

    /// The numbers from `lo` to `hi`, both included; none if `lo > hi`.
    pub fn range(lo: u128, hi: u128) -> Set {
        Set(if lo <= hi { vec![(lo, hi)] } else { Vec::new() })
    }

    /// The union of intervals in any order.
    pub fn union(mut parts: Vec<(u128, u128)>) -> Set {
        parts.sort_unstable();
        let mut out: Vec<(u128, u128)> = Vec::new();
        for (lo, hi) in parts {
            match out.last_mut() {
                Some(last) if lo <= last.1.saturating_add(1) => last.1 = last.1.max(hi),
                _ => out.push((lo, hi)),
            }
        }
        Set(out)
    }

    /// The numbers of a width that are not in the set.
    pub fn complement(&self, width: Width) -> Set {
        let mut out = Vec::new();
        let mut next = Some(0);
        for &(lo, hi) in &self.0 {
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
        Set(out)
    }

    /// The numbers in both.
    pub fn intersect(&self, other: &Set) -> Set {
        let (mut i, mut j, mut out) = (0, 0, Vec::new());
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            let (lo, hi) = (a.0.max(b.0), a.1.min(b.1));
            if lo <= hi {
                out.push((lo, hi));
            }
            if a.1 < b.1 { i += 1 } else { j += 1 }
        }
        Set(out)
    }

    /// The lowest member that is not below `v`.
    pub(crate) fn at_least(&self, v: u128) -> Option<u128> {
        self.0.iter().find(|&&(_, hi)| hi >= v).map(|&(lo, _)| lo.max(v))
    }

    /// Whether there are no numbers in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `v` is in it.
    pub fn contains(&self, v: u128) -> bool {
        let behind = self.0.partition_point(|&(lo, _)| lo <= v);
        behind.checked_sub(1).is_some_and(|i| v <= self.0[i].1)
    }

    /// The smallest and the largest number.
    pub fn hull(&self) -> Option<(u128, u128)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }

    /// The number, if there is just one.
    pub fn value(&self) -> Option<u128> {
        match self.0[..] {
            [(lo, hi)] if lo == hi => Some(lo),
            _ => None,
        }
    }

    /// How many numbers there are (all ones if more than fit).
    pub fn count(&self) -> u128 {
        self.0.iter().fold(0, |n: u128, (lo, hi)| n.saturating_add((hi - lo).saturating_add(1)))
    }

    /// The numbers, smallest first.
    pub fn values(&self) -> impl Iterator<Item = u128> {
        self.0.iter().flat_map(|&(lo, hi)| lo..=hi)
    }

    /// The intervals.
    pub fn intervals(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// The numbers `v + by`, wrapping at a width.
    pub fn shift(&self, by: u128, width: Width) -> Set {
        let max = width.max();
        let parts = self.0.iter().flat_map(|&(lo, hi)| {
            let (a, b) = (lo.wrapping_add(by) & max, hi.wrapping_add(by) & max);
            if hi - lo == max {
                vec![(0, max)]
            } else if a <= b {
                vec![(a, b)]
            } else {
                vec![(a, max), (0, b)]
            }
        });
        Set::union(parts.collect())
    }
}

#[cfg(test)]
mod tests {
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
}
