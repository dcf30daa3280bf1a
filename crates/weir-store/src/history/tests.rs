use proptest::prelude::*;

use super::*;
use crate::Schema;

const SCHEMA: Schema = Schema { version: 1, tables: "", additions: "", readers: false };

fn store() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let store = Database::open(&dir.path().join("node.db"), SCHEMA).unwrap();
    (dir, store)
}

fn add(store: &Database, revision: u64, desired: &str, note: &Note) {
    add_of(store, 3, revision, desired, note);
}

fn add_of(store: &Database, kept: u32, revision: u64, desired: &str, note: &Note) {
    let change = |db: &mut rusqlite::Connection| {
        let tx = db.transaction()?;
        keep(&tx, kept, ("g", revision, Some("acme")), desired, note)?;
        tx.commit()
    };
    store.with(change).unwrap();
}

fn numbers(store: &Database) -> Vec<u64> {
    store.history("g").unwrap().iter().map(|k| k.revision.revision).collect()
}

fn within(seconds: u32) -> Note {
    Note { confirm: Confirm::Within(seconds), ..Note::default() }
}

#[test]
fn the_newest_revisions_are_kept_with_what_is_known_of_them() {
    let (_dir, store) = store();
    for revision in 1..=5 {
        let note = Note { message: Some(format!("change {revision}")), ..Note::default() };
        add(&store, revision, &format!("\"document {revision}\""), &note);
    }
    assert_eq!(numbers(&store), [5, 4, 3]);
    let newest = &store.history("g").unwrap()[0];
    assert_eq!(newest.tenant.as_deref(), Some("acme"));
    assert_eq!(newest.revision.message.as_deref(), Some("change 5"));
    assert!(newest.revision.time.is_some() && newest.revision.unconfirmed.is_none());
    assert_eq!(store.revision::<String>("g", 4).unwrap().as_deref(), Some("document 4"));
    assert_eq!(store.revision::<String>("g", 1).unwrap(), None);
    assert_eq!(store.revision::<String>("g", u64::MAX).unwrap(), None);
    assert!(store.history("other").unwrap().is_empty());
}

#[test]
fn large_documents_leave_fewer_revisions_but_always_two() {
    let (_dir, store) = store();
    let large = "x".repeat(10 << 20);
    for revision in 1..=4 {
        add_of(&store, 50, revision, &large, &Note::default());
    }
    assert_eq!(numbers(&store), [4, 3]);
    add_of(&store, 50, 5, "small", &Note::default());
    assert_eq!(numbers(&store), [5, 4]);
}

#[test]
fn what_is_taken_back_leaves_no_trace() {
    let (_dir, store) = store();
    add(&store, 1, "a", &Note::default());
    add(&store, 2, "b", &within(60));
    assert_eq!(store.unconfirmed().unwrap().len(), 1);
    store
        .with(|db| {
            let tx = db.transaction()?;
            take_back(&tx, "g", Some((1, "a")))?;
            tx.commit()
        })
        .unwrap();
    assert_eq!(numbers(&store), [1]);
    assert!(store.unconfirmed().unwrap().is_empty());
}

#[test]
fn what_goes_back_goes_to_what_was_confirmed_last_which_is_never_forgotten() {
    let (dir, store) = store();
    add(&store, 1, "a", &Note::default());
    for revision in 2..=7 {
        add(&store, revision, "b", &within(60));
    }
    let back = |store: &Database| store.unconfirmed().unwrap()[0].unconfirmed.back;
    assert_eq!((numbers(&store), back(&store)), (vec![7, 6, 5, 1], Some(1)));
    // What nobody asked for, such as a move to another node, changes nothing of that.
    add(&store, 8, "b", &Note { confirm: Confirm::AsBefore, ..Note::default() });
    let as_it_was = store.unconfirmed().unwrap()[0].unconfirmed;
    add(&store, 9, "c", &Note::default());
    add(&store, 8, "b", &Note { confirm: Confirm::As(as_it_was), ..Note::default() });
    store.with(|db| db.execute("DELETE FROM history WHERE revision = 9", [])).unwrap();
    drop(store);
    let store = Database::open(&dir.path().join("node.db"), SCHEMA).unwrap();
    assert_eq!((back(&store), numbers(&store).last()), (Some(1), Some(&1)));
    assert!(store.confirm_revision("g").unwrap());
    assert!(!store.confirm_revision("g").unwrap());
    // A change without a time confirms one with a time before it.
    add(&store, 9, "c", &within(60));
    assert_eq!(back(&store), Some(8));
    add(&store, 10, "d", &Note::default());
    assert!(store.unconfirmed().unwrap().is_empty() && !store.confirm_revision("g").unwrap());
}

#[test]
fn a_graph_that_is_new_goes_back_to_nothing() {
    let (_dir, store) = store();
    add(&store, 1, "a", &within(60));
    add(&store, 2, "b", &within(60));
    assert_eq!(store.unconfirmed().unwrap()[0].unconfirmed.back, None);
}

/// One that was applied at 1,000 s and is to be confirmed within 60 s.
fn pending(graph: &str, revision: u64) -> Pending {
    let unconfirmed = Unconfirmed { until: 1_060_000, seconds: 60, back: None };
    let revision = Revision {
        revision,
        time: Some(1_000_000),
        who: None,
        message: None,
        same_as: None,
        unconfirmed: Some(unconfirmed),
    };
    Pending { graph: graph.into(), revision, unconfirmed }
}

#[test]
fn timers_are_due_when_the_time_is_over_also_after_a_restart() {
    let second = Duration::from_secs;
    let mut timers = Timers::default();
    assert_eq!(timers.next(), None);
    timers.set(&[pending("g", 2)], 1_010_000, second(5));
    assert_eq!(timers.next(), Some(second(55)));
    assert!(timers.due(second(54)).is_empty());
    assert_eq!(timers.due(second(55)), [("g".to_owned(), 2)]);
    // The daemon was away longer than that.
    let mut late = Timers::default();
    late.set(&[pending("g", 2)], 2_000_000, second(1));
    assert_eq!(late.due(second(1)).len(), 1);
    // One that cannot go back now is tried again; one that was confirmed meanwhile is not.
    late.postpone(&("g".to_owned(), 2), second(11));
    late.set(&[pending("g", 2)], 2_001_000, second(2));
    assert_eq!((late.due(second(10)).len(), late.due(second(11)).len()), (0, 1));
    late.set(&[], 2_001_000, second(3));
    assert!(late.due(second(100)).is_empty() && late.next().is_none());
}

proptest! {
    #[test]
    fn nobody_gets_more_time_than_was_asked_for_however_the_calendar_is_set(
        steps in proptest::collection::vec((0u64..3_000_000, 0u64..20), 1..20)
    ) {
        let (mut timers, mut now) = (Timers::default(), Duration::ZERO);
        let first = Duration::ZERO;
        for (calendar, seconds) in steps {
            timers.set(&[pending("g", 2)], calendar, now);
            let at = timers.next().unwrap();
            prop_assert!(at <= first + Duration::from_secs(60));
            now += Duration::from_secs(seconds);
            prop_assert_eq!(timers.due(now).is_empty(), at > now);
        }
    }
}
