//! The tables against a naive model: the same edits give the same answers, rows, group counts, links and expiries.

#[path = "model/naive.rs"]
mod naive;
#[path = "model/run.rs"]
mod run;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use weir_table::{EditError, KeyMatch, Kind, Row, Table, TableDecl, TableSet, Width};

use run::{Edit, Pair, World};

/// Tables so small that they are often full.
fn decls() -> Vec<TableDecl> {
    use Width::{W8, W16, W32, W64, W128};
    let exact = TableDecl::new(
        "exact",
        Kind::Exact,
        &[("a", W8), ("b", W16)],
        &[("g", W8), ("x", W64), ("y", W128)],
        6,
    );
    let other = TableDecl::new("other", Kind::Exact, &[("k", W8)], &[("v", W16)], 4);
    let lpm = TableDecl::new("lpm", Kind::Lpm, &[("dst", W32)], &[("v", W8)], 5);
    let wide = TableDecl::new("wide", Kind::Lpm, &[("dst", W128)], &[("v", Width::W1)], 4);
    let rules = TableDecl::new("rules", Kind::Rules, &[("p", W8), ("q", W16)], &[("v", W8)], 5);
    let array = TableDecl::new("array", Kind::Array, &[("i", W8)], &[("c", W32), ("d", W128)], 4);
    vec![
        exact.holding(2).grouped_by("g"),
        other.holding(1),
        lpm.grouped_by("v"),
        wide.holding(1),
        rules.grouped_by("v"),
        array.grouped_by("c"),
    ]
}

/// Few values, so that keys meet, with bits at both ends.
fn number() -> impl Strategy<Value = u128> {
    prop_oneof![
        0u128..4,
        Just(0x80),
        Just(0xff),
        Just(0x0a00_0001),
        Just(0x8000_0000),
        Just(u128::MAX),
        Just(1 << 127),
        any::<u64>().prop_map(u128::from),
    ]
}

fn matching() -> impl Strategy<Value = KeyMatch> {
    prop_oneof![
        3 => number().prop_map(KeyMatch::Exact),
        1 => (number(), number()).prop_map(|(v, m)| KeyMatch::Mask(v, m)),
        1 => (0u128..6, 0u128..6).prop_map(|(lo, hi)| KeyMatch::Range(lo, hi)),
        3 => (number(), prop::sample::select(vec![0, 1, 7, 8, 9, 16, 31, 32, 127, 128])).prop_map(|(v, n)| KeyMatch::Prefix(v, n)),
        1 => Just(KeyMatch::ANY),
    ]
}

fn row() -> impl Strategy<Value = Row> {
    let ttl = prop::option::of(prop_oneof![Just(0u64), 1u64..40, Just(u64::MAX)]);
    let key = prop::collection::vec(matching(), 2);
    (key, prop::collection::vec(number(), 3), -1i32..3, ttl).prop_map(|(key, value, priority, ttl)| Row {
        key,
        value,
        priority,
        ttl,
    })
}

fn edit() -> impl Strategy<Value = Edit> {
    let table = || 0usize..6;
    let key = || prop::collection::vec(number(), 2);
    let entry = || (table(), any::<Index>());
    // From 64 on, what is used is given more in a large table.
    let after = || prop_oneof![Just(0u64), 1u64..40, 64u64..140, Just(640)];
    prop_oneof![
        6 => (table(), key()).prop_map(|(t, key)| Edit::Insert(t % 2, key)),
        6 => (table(), row()).prop_map(|(t, row)| Edit::InsertRow(t, row)),
        4 => (table(), key()).prop_map(|(t, key)| Edit::Lookup(t, key)),
        2 => (key(), 0usize..2, 0u128..5, 0u128..5, number()).prop_map(|(key, hole, lo, hi, start)| Edit::Claim(key, hole, lo, hi, start)),
        4 => (entry(), any::<Index>(), number()).prop_map(|(e, f, v)| Edit::Set(e, f, v)),
        4 => (entry(), after()).prop_map(|(e, after)| Edit::Touch(e, after)),
        3 => (entry(), entry()).prop_map(|(a, b)| Edit::Link(a, b)),
        3 => entry().prop_map(Edit::Remove),
        3 => (entry(), any::<u8>()).prop_map(|(e, tag)| Edit::Hold(e, tag)),
        1 => entry().prop_map(Edit::Release),
        2 => (table(), 0u32..8, after()).prop_map(|(t, slot, after)| Edit::Dead(t, slot, after)),
        1 => table().prop_map(Edit::Clear),
        3 => (0u64..25).prop_map(Edit::Wait),
        3 => prop::collection::vec(0u8..4, 6).prop_map(Edit::Expire),
        2 => (0u8..3, 0u8..64).prop_map(|(through, which)| Edit::Restore(through, which)),
        1 => (0usize..6, 0u8..64).prop_map(|(turn, which)| Edit::Adopt(turn, which)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn tables_are_as_the_model_says(edits in prop::collection::vec(edit(), 1..80), large in any::<bool>()) {
        let mut decls = decls();
        // Times in a table of more than 64 entries are not exact.
        decls[5].capacity = if large { 70 } else { 4 };
        let mut world = World::new(decls);
        for (i, e) in edits.iter().enumerate() {
            world.apply(e);
            world.check(&format!("after edit {i}, {e:?}"));
        }
    }

    /// The index of exact tables over long runs of neighbours, with growth and removals all over.
    #[test]
    fn keys_are_found_whatever_was_removed(
        edits in prop::collection::vec((any::<bool>(), 0u16..300), 1..2000),
        thin in any::<bool>(),
    ) {
        let key = [("k", Width::W16)];
        let mut t = Table::new(TableDecl::new("t", Kind::Exact, &key, &[("v", Width::W16)], 250)).unwrap();
        let mut set = TableSet::new([t.decl()]).unwrap();
        std::mem::swap(set.table_mut(0), &mut t);
        let mut model = BTreeMap::new();
        for (add, k) in edits {
            // Either many keys at a time, or few that come and go.
            if add && (!thin || model.len() < 12) {
                let slot = set.table_mut(0).insert(&[k.into()]);
                prop_assert_eq!(slot.is_none(), model.len() == 250 && !model.contains_key(&k));
                if let Some(slot) = slot {
                    set.table_mut(0).set(slot, 0, u128::from(k) ^ 0x5555);
                    model.insert(k, slot);
                }
            } else if let Some(slot) = model.remove(&k) {
                set.remove(weir_table::EntryRef { table: 0, slot });
            }
        }
        prop_assert_eq!(set.table(0).len() as usize, model.len());
        for k in 0..300u16 {
            let slot = set.table(0).lookup(&[k.into()]);
            prop_assert_eq!(slot, model.get(&k).copied(), "key {}", k);
            if let Some(slot) = slot {
                prop_assert_eq!((set.table(0).key(slot, 0), set.table(0).get(slot, 0)), (k.into(), u128::from(k) ^ 0x5555));
            }
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let exact = |k: u128| KeyMatch::Exact(k);
    let row = |key: &[KeyMatch], value: &[u128]| Row {
        key: key.into(),
        value: value.into(),
        priority: 0,
        ttl: None,
    };
    let cases = [
        ("exact", row(&[exact(1)], &[0, 0, 0]), "2 key and 3 value fields, not 1 and 3"),
        ("exact", row(&[exact(1), exact(1)], &[0]), "2 key and 3 value fields, not 2 and 1"),
        ("exact", row(&[exact(256), exact(1)], &[0, 0, 0]), "is not a value of 'a' (8 bits)"),
        ("exact", row(&[exact(1), KeyMatch::ANY], &[0, 0, 0]), "is not a value of 'b' (16 bits)"),
        ("exact", row(&[exact(1), exact(1)], &[256, 0, 0]), "256 does not fit 'g' (8 bits)"),
        ("lpm", row(&[KeyMatch::Prefix(0, 33)], &[0]), "is not a prefix of 'dst' (32 bits)"),
        ("lpm", row(&[KeyMatch::Range(0, 1)], &[0]), "is not a prefix of 'dst'"),
        ("lpm", row(&[KeyMatch::Prefix(1 << 32, 8)], &[0]), "is not a prefix of 'dst'"),
        ("rules", row(&[KeyMatch::Range(3, 2), KeyMatch::ANY], &[0]), "is not a range of 'p' (8 bits)"),
        ("rules", row(&[KeyMatch::Prefix(0, 9), KeyMatch::ANY], &[0]), "is not a prefix of 'p' (8 bits)"),
        ("rules", row(&[KeyMatch::Mask(0x100, 0xff), KeyMatch::ANY], &[0]), "is not a value of 'p' (8 bits)"),
        ("array", row(&[exact(4)], &[0, 0]), "is not an index of 'i'"),
    ];
    let mut set = TableSet::new(&decls()).unwrap();
    for (name, row, wanted) in cases {
        let t = decls().iter().position(|d| d.name == name).unwrap() as u32;
        let before = set.table(t).rows();
        let error = set.table_mut(t).insert_row(&row, 0).unwrap_err();
        assert!(matches!(error, EditError::Shape { .. }));
        assert!(error.to_string().contains(wanted) && error.to_string().contains(name), "{error}");
        assert_eq!(set.table(t).rows(), before);
        assert_eq!(
            set.table(t)
                .find_row(&row.key, 0)
                .filter(|_| !wanted.contains("fit") && !wanted.contains("2 and 1")),
            None
        );
    }
    let fill = |set: &mut TableSet, n| set.table_mut(1).insert_row(&Row::exact(&[n], &[1]), 0).map(|_| ());
    for n in 0..4 {
        fill(&mut set, n).unwrap();
    }
    let full = fill(&mut set, 4).unwrap_err();
    assert_eq!(full.to_string(), "table 'other' is full (4 entries)");
    fill(&mut set, 3).expect("a row that is there can be replaced when the table is full");
}

#[test]
fn rows_are_found_by_their_whole_key() {
    let set = TableSet::new(&decls()).unwrap();
    for t in 0..6 {
        for key in [vec![], vec![KeyMatch::Exact(0); 3]] {
            assert_eq!(set.table(t).find_row(&key, 0), None, "table {t}, {key:?}");
        }
    }
}

#[test]
fn a_snapshot_fits_only_tables_with_its_key() {
    let decls = decls();
    let from = TableSet::new(&decls).unwrap().snapshot(0, |t| format!("owner{t}"));
    let mut set = TableSet::new(&decls).unwrap();
    let error = set.restore(&from, 0, &[(0, 1)]).unwrap_err();
    assert_eq!(error.to_string(), "snapshot of 'owner0': the key fields are not those of the table, k:8");
    set.restore(&from, 0, &[(0, 0), (5, 5)]).unwrap();

    // A smaller table cannot take what the larger one had.
    let mut large = TableSet::new([&decls[1]]).unwrap();
    for n in 0..4 {
        large.table_mut(0).insert(&[n]).unwrap();
    }
    let from = large.snapshot(0, |_| "nat".into());
    let small = TableDecl { capacity: 3, ..decls[1].clone() };
    let error = TableSet::new([&small]).unwrap().restore(&from, 0, &[(0, 0)]).unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(
        (error.to_string(), source),
        ("snapshot of 'nat'".into(), Some("table 'other' is full (3 entries)".into()))
    );
}

/// A table that is emptied or replaced alone takes its links with it: what comes into its slots later is no
/// partner of what is left elsewhere.
#[test]
fn links_to_an_emptied_table_end() {
    let mut set = TableSet::new(&decls()[..2]).unwrap();
    let empty = set.snapshot(0, |t| t.to_string());
    let ways: [fn(&mut TableSet, &weir_table::SetSnapshot); 2] =
        [|set, _| set.clear(1), |set, empty| set.restore(empty, 0, &[(1, 1)]).unwrap()];
    for way in ways {
        let a = Pair::entry(0, set.table_mut(0).insert(&[1, 1]).unwrap());
        let b = Pair::entry(1, set.table_mut(1).insert(&[1]).unwrap());
        set.link(a, b);
        way(&mut set, &empty);
        let other = Pair::entry(1, set.table_mut(1).insert(&[2]).unwrap());
        assert_eq!(other, b, "the slot is used again");
        assert_eq!(set.partner(a), None);
        set.touch(a, 0, 7);
        assert_eq!(set.table(1).expiry(other.slot), 0);
        set.remove(a);
        assert!(set.table(1).is_live(other.slot));
        set.remove(other);
    }
}
