use super::*;
use crate::Width;

fn decls() -> [TableDecl; 3] {
    let key = [("a", Width::W32), ("p", Width::W16)];
    let value = [("x", Width::W8), ("y", Width::W128), ("z", Width::W16), ("n", Width::W64)];
    [
        TableDecl::new("there", Kind::Exact, &key, &value, 200).holding(3),
        TableDecl::new("back", Kind::Exact, &[("wide", Width::W128)], &[("g", Width::W8)], 200)
            .grouped_by("g"),
        TableDecl::new("cells", Kind::Array, &[("i", Width::W32)], &[("v", Width::W64)], 5),
    ]
}

fn set() -> TableSet {
    TableSet::new(&decls()).unwrap()
}

fn owners() -> impl Iterator<Item = (u32, String)> {
    (0..3).map(|t| (t, "e".to_owned()))
}

fn number(_: &str, name: &str) -> Option<u32> {
    decls().iter().position(|d| d.name == name).map(|t| t as u32)
}

/// Does something at random, as packets do.
fn change(set: &mut TableSet, rng: &mut fastrand::Rng, now: u64) {
    let (a, p) = (u128::from(rng.u32(0..40)), u128::from(rng.u16(0..3)));
    let wide = u128::from(rng.u8(0..60)) << 100 | 7;
    let entry = |table: u32, slot: Option<u32>| slot.map(|slot| EntryRef { table, slot });
    match rng.u32(0..9) {
        0..3 => {
            let Some(slot) = set.table_mut(0).insert(&[a, p]) else { return };
            for (field, bits) in [8, 128, 16, 64].into_iter().enumerate() {
                set.table_mut(0).set(slot, field as u32, rng.u128(..) >> (128 - bits));
            }
            set.touch(EntryRef { table: 0, slot }, now, rng.u64(100..1000));
        }
        3 => {
            let Some(slot) = set.table_mut(1).insert(&[wide]) else { return };
            set.table_mut(1).set(slot, 0, rng.u8(0..4).into());
        }
        4 => set.table_mut(2).set(rng.u32(0..5), 0, rng.u64(..).into()),
        5 => {
            let (x, y) = (set.table(0).lookup(&[a, p]), set.table(1).lookup(&[wide]));
            if let (Some(x), Some(y)) = (entry(0, x), entry(1, y)) {
                set.link(x, y);
            }
        }
        6 => {
            if let Some(e) = entry(0, set.table(0).lookup(&[a, p])) {
                set.remove(e);
            }
        }
        7 => {
            if let Some(slot) = set.table(0).lookup(&[a, p]) {
                let packet = weir_packet::Packet::from_bytes(&[1, rng.u8(..)]).unwrap();
                drop(set.table_mut(0).hold(slot, packet));
            }
        }
        _ => {
            if let Some(slot) = set.table(0).lookup(&[a, p]) {
                drop(set.table_mut(0).release(slot));
            }
        }
    }
}

/// All that tables say, in an order that does not depend on slots.
fn said(set: &TableSet, now: u64) -> Vec<String> {
    let mut all = Vec::new();
    for t in 0..3 {
        for (slot, row) in set.table(t).rows() {
            let partner = set.partner(EntryRef { table: t, slot });
            let key = |p: EntryRef| {
                let fields = 0..set.table(p.table).decl().key.len() as u32;
                (p.table, fields.map(|f| set.table(p.table).key(p.slot, f)).collect::<Vec<_>>())
            };
            let partner = partner.map(key);
            let held: Vec<Vec<u8>> = set.table(t).held_packets(slot).map(|p| p.bytes().to_vec()).collect();
            let expires = set.table(t).expiry(slot);
            all.push(format!("{t} {row:?} {} {partner:?} {held:?}", expires.saturating_sub(now)));
        }
    }
    all.extend((0..4).map(|g| format!("group {g}: {}", set.table(1).group_count(g))));
    all.sort();
    all
}

#[test]
fn a_copy_that_follows_by_what_changed_is_the_same() {
    let mut rng = fastrand::Rng::with_seed(41);
    for _ in 0..60 {
        let (mut here, mut there) = (set(), set());
        let mut before: Option<Frozen> = None;
        for round in 0..6 {
            // The clocks differ, and go on.
            let (now, then) = (1000 + round, 900_000 + round);
            for _ in 0..rng.u32(0..150) {
                change(&mut here, &mut rng, now);
            }
            let frozen = here.freeze(owners(), now);
            let changes = frozen.since(before.as_ref());
            // It goes as text, and by pieces.
            let text = serde_json::to_string(&changes).unwrap();
            let changes: Changes = serde_json::from_str(&text).unwrap();
            for piece in changes.pieces(rng.usize(1..50)) {
                there.absorb(&piece, then, number).unwrap();
            }
            assert_eq!(said(&here, now), said(&there, then));
            before = Some(frozen);
        }
    }
}

#[test]
fn what_did_not_change_does_not_go_again() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut here = set();
    (0..300).for_each(|_| change(&mut here, &mut rng, 5));
    let held: Vec<u32> = here.table(0).slots().filter(|&s| here.table(0).held(s) > 0).collect();
    held.into_iter().for_each(|s| drop(here.table_mut(0).release(s)));
    let first = here.freeze(owners(), 5);
    assert!(first.since(None).len() > 20 && first.bytes() > 1000);
    let again = here.freeze(owners(), 6).since(Some(&first));
    assert!(again.is_empty(), "{again:?}");
    here.table_mut(2).set(3, 0, 99);
    let slot = here.table_mut(0).insert(&[1000, 1]).unwrap();
    assert_eq!(here.freeze(owners(), 7).since(Some(&first)).len(), 2);
    here.remove(EntryRef { table: 0, slot });
    assert_eq!(here.freeze(owners(), 8).since(Some(&first)).len(), 1, "it came and went between two looks");
}

#[test]
fn changes_of_another_table_are_refused() {
    let mut here = set();
    here.table_mut(0).insert(&[1, 1]).unwrap();
    let changes = here.freeze(owners(), 1).since(None);
    let other = TableDecl::new("there", Kind::Exact, &[("a", Width::W64)], &[], 200);
    let mut there = TableSet::new([&other]).unwrap();
    let e = there.absorb(&changes, 1, |_, name| (name == "there").then_some(0)).unwrap_err();
    assert!(e.to_string().contains("the key fields are not those of the table, a:64"), "{e}");
    let renamed = changes.select(|owner, _| (owner == "e").then(|| "f".to_owned()));
    assert!(renamed.tables().all(|(owner, _)| owner == "f"));
    assert!(renamed.select(|_, _| None).is_empty());
}
