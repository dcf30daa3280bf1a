//! What a table of prefixes says, as one set of keys for each result.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_table::{KeyMatch, Row};

use crate::model::set::Set;

/// So many numbers are sorted; of more it is noted which there are.
const FEW: usize = 32;

/// The results of a table of prefixes.
#[derive(Debug, Clone)]
pub(crate) struct Results {
    /// For each result, in the order of its first row: that row's number, and the keys that lead to the result.
    pub(crate) parts: Vec<(usize, Arc<Set>)>,
    /// The intervals of all results in order: first key, last key, number of the result.
    intervals: Vec<(u128, u128, usize)>,
}

impl Results {
    fn new(parts: Vec<(usize, Arc<Set>)>) -> Results {
        let all = parts.iter().enumerate();
        let mut intervals: Vec<(u128, u128, usize)> = all
            .flat_map(|(i, (_, keys))| keys.intervals().iter().map(move |&(lo, hi)| (lo, hi, i)))
            .collect();
        intervals.sort_unstable();
        Results { parts, intervals }
    }

    /// The numbers of the results that keys of a set have, in order, and whether some have none.
    pub(crate) fn of(&self, keys: &Set) -> (SmallVec<[usize; 8]>, bool) {
        let mut found = SmallVec::new();
        let mut missed = false;
        for &(lo, hi) in keys.intervals() {
            let first = self.intervals.partition_point(|i| i.1 < lo);
            // The first key that no interval was seen for.
            let mut next = Some(lo);
            for &(from, to, result) in self.intervals.iter().skip(first).take_while(|i| i.0 <= hi) {
                missed |= next.is_some_and(|n| n < from);
                if found.last() != Some(&result) {
                    found.push(result);
                }
                next = to.checked_add(1);
            }
            missed |= next.is_some_and(|n| n <= hi);
        }
        if found.len() <= FEW {
            found.sort_unstable();
            found.dedup();
            return (found, missed);
        }
        let mut has = vec![false; self.parts.len()];
        found.into_iter().for_each(|i| has[i] = true);
        ((0..has.len()).filter(|&i| has[i]).collect(), missed)
    }
}

/// What rows of prefixes say. `None` if the rows are not prefixes of one field.
pub(crate) fn by_result(rows: &[Row], max: u128) -> Option<Results> {
    // (first key, last key, row)
    let mut ranges = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        let [KeyMatch::Prefix(key, len)] = row.key[..] else { return None };
        let low = max.checked_shr(len).unwrap_or(0);
        ranges.push((key & !low & max, (key | low) & max, i));
    }
    // Outer prefixes first: what is inside comes behind what holds it.
    ranges.sort_by_key(|&(lo, hi, i)| (lo, std::cmp::Reverse(hi), std::cmp::Reverse(i)));
    let mut results: FxHashMap<&[u128], usize> = FxHashMap::default();
    let mut parts: Vec<(usize, Vec<(u128, u128)>)> = Vec::new();
    let mut number = |i: usize| {
        let next = results.len();
        let n = *results.entry(&rows[i].value[..]).or_insert(next);
        if n == parts.len() {
            parts.push((i, Vec::new()));
        }
        n
    };
    let numbers: Vec<usize> = (0..rows.len()).map(&mut number).collect();
    // The prefixes that hold the current key, outermost first, and the first key that is not reported yet.
    let mut open: Vec<(u128, u128, usize)> = Vec::new();
    let mut next = Some(0);
    let mut report = |open: &[(u128, u128, usize)], from: Option<u128>, to: u128| {
        if let (Some(&(_, _, i)), Some(from)) = (open.last(), from)
            && from <= to
        {
            parts[numbers[i]].1.push((from, to));
        }
    };
    for r in ranges {
        while let Some(&(_, hi, _)) = open.last()
            && hi < r.0
        {
            report(&open, next, hi);
            next = hi.checked_add(1);
            open.pop();
        }
        if let Some(before) = r.0.checked_sub(1) {
            report(&open, next, before);
        }
        next = Some(r.0);
        open.push(r);
    }
    while let Some(&(_, hi, _)) = open.last() {
        report(&open, next, hi);
        next = hi.checked_add(1);
        open.pop();
    }
    Some(Results::new(parts.into_iter().map(|(i, p)| (i, Arc::new(Set::union(p)))).collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_table::{Kind, Table, TableDecl, Width};

    use super::*;

    proptest! {
        #[test]
        fn each_key_is_in_the_set_of_the_row_that_a_lookup_finds(
            prefixes in prop::collection::vec((any::<u8>(), 0u32..=8, 0u128..3), 0..12)
        ) {
            let decl = TableDecl::new("t", Kind::Lpm, &[("a", Width::W8)], &[("v", Width::W8)], 64);
            let mut table = Table::new(decl).unwrap();
            for (key, len, v) in prefixes {
                let key = vec![KeyMatch::Prefix(key.into(), len)];
                let _ = table.insert_row(&Row { key, value: vec![v], ..Row::exact(&[], &[]) }, 0);
            }
            let rows: Vec<Row> = table.rows().into_iter().map(|(_, r)| r).collect();
            let sets = by_result(&rows, 0xff).unwrap();
            for key in 0..=255u128 {
                let found = table.lookup(&[key]).map(|slot| table.get(slot, 0));
                let reported: Vec<u128> =
                    sets.parts.iter().filter(|(_, s)| s.contains(key)).map(|(i, _)| rows[*i].value[0]).collect();
                prop_assert_eq!(&reported, &found.into_iter().collect::<Vec<_>>(), "{}", key);
                let (of_one, missed) = sets.of(&Set::single(key));
                let of_one: Vec<u128> = of_one.iter().map(|&r| rows[sets.parts[r].0].value[0]).collect();
                prop_assert_eq!((&of_one, missed), (&reported, reported.is_empty()), "{}", key);
            }
            let (some, missed) = sets.of(&Set::union(vec![(10, 20), (40, 200)]));
            let keys: Vec<u128> = (10..=20).chain(40..=200).collect();
            let has = |s: &Set| keys.iter().any(|&k| s.contains(k));
            let wanted: Vec<usize> = (0..sets.parts.len()).filter(|&i| has(&sets.parts[i].1)).collect();
            prop_assert_eq!(some.to_vec(), wanted);
            let subsumed = |k: &u128| sets.parts.iter().any(|(_, s)| s.contains(*k));
            prop_assert_eq!(missed, !keys.iter().all(subsumed));
        }
    }
}
