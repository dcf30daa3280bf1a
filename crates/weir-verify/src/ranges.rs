//! What a table of prefixes says, as one set of keys for each result.

use std::collections::HashMap;
use std::sync::Arc;

use weir_table::{KeyMatch, Row};

use crate::set::Set;

/// For each result that rows of prefixes have, in the order of its first row: that row's number, and the keys that lead
/// to the result. `None` if the rows are not prefixes of one field.
pub(crate) fn by_result(rows: &[Row], max: u128) -> Option<Vec<(usize, Arc<Set>)>> {
    // (first key, last key, row)
    let mut ranges = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        let [KeyMatch::Prefix(key, len)] = row.key[..] else { return None };
        let low = max.checked_shr(len).unwrap_or(0);
        ranges.push((key & !low & max, (key | low) & max, i));
    }
    // Outer prefixes first: what is inside comes behind what holds it.
    ranges.sort_by_key(|&(lo, hi, i)| (lo, std::cmp::Reverse(hi), std::cmp::Reverse(i)));
    let mut results: HashMap<&[u128], usize> = HashMap::new();
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
    // The prefixes that hold the current key, outermost first, and the first key that is not told yet.
    let mut open: Vec<(u128, u128, usize)> = Vec::new();
    let mut next = Some(0);
    let mut tell = |open: &[(u128, u128, usize)], from: Option<u128>, to: u128| {
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
            tell(&open, next, hi);
            next = hi.checked_add(1);
            open.pop();
        }
        if let Some(before) = r.0.checked_sub(1) {
            tell(&open, next, before);
        }
        next = Some(r.0);
        open.push(r);
    }
    while let Some(&(_, hi, _)) = open.last() {
        tell(&open, next, hi);
        next = hi.checked_add(1);
        open.pop();
    }
    Some(parts.into_iter().map(|(i, p)| (i, Arc::new(Set::union(p)))).collect())
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
                let told: Vec<u128> =
                    sets.iter().filter(|(_, s)| s.contains(key)).map(|(i, _)| rows[*i].value[0]).collect();
                prop_assert_eq!(told, found.into_iter().collect::<Vec<_>>(), "{}", key);
            }
        }
    }
}
