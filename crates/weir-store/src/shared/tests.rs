use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;
use crate::Schema;

const SCHEMA: Schema = Schema {
    version: 1,
    tables: "
CREATE TABLE things (name TEXT PRIMARY KEY, value TEXT, bytes BLOB) STRICT;
CREATE TABLE pairs (a TEXT NOT NULL, b INTEGER NOT NULL, text TEXT, PRIMARY KEY (a, b)) STRICT;
CREATE TABLE gone (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE) STRICT;",
    additions: "INSERT OR IGNORE INTO pairs VALUES ('first', 1, NULL);",
    readers: true,
};

#[derive(Debug, Default)]
struct Memory {
    changes: Mutex<Vec<String>>,
    lost: AtomicBool,
}

impl Log for Memory {
    fn append(&self, index: u64, change: &str) -> std::result::Result<(), String> {
        if self.lost.load(Ordering::Relaxed) {
            return Err("another controller leads".into());
        }
        let mut changes = self.changes.lock().unwrap();
        assert_eq!(index, changes.len() as u64 + 1);
        changes.push(change.to_owned());
        Ok(())
    }
}

fn leader() -> (Arc<Memory>, Database) {
    let (log, db) = (Arc::new(Memory::default()), Database::copy("etcd", SCHEMA).unwrap());
    db.lead(log.clone()).unwrap();
    (log, db)
}

fn follow(log: &Memory) -> Database {
    let db = Database::copy("etcd", SCHEMA).unwrap();
    for (i, change) in log.changes.lock().unwrap().iter().enumerate() {
        db.apply(i as u64 + 1, change).unwrap();
    }
    db
}

#[test]
fn others_have_what_is_written_whatever_its_bytes_are() {
    let (log, db) = leader();
    let text = "it's \"quoted\"; -- no\nwith\0NUL and ü";
    db.with(|db| {
        let tx = db.savepoint()?;
        tx.execute("INSERT INTO things VALUES (?1, ?2, x'00ff27')", [text, text])?;
        tx.execute("INSERT INTO things VALUES ('random', NULL, randomblob(8))", [])?;
        tx.commit()
    })
    .unwrap();
    db.with(|db| db.execute("INSERT OR REPLACE INTO gone (id) VALUES ('g'), ('h')", [])).unwrap();
    // One that is replaced has another number.
    db.with(|db| db.execute("INSERT OR REPLACE INTO gone (id) VALUES ('g')", [])).unwrap();
    db.with(|db| db.execute("UPDATE pairs SET b = b + 1, text = 'x' WHERE a = 'first'", [])).unwrap();
    db.with(|db| db.execute("DELETE FROM gone WHERE id = 'h'", [])).unwrap();
    let other = follow(&log);
    assert_eq!(other.dump().unwrap(), db.dump().unwrap());
    assert_eq!(
        other
            .with(|db| db
                .query_row("SELECT value FROM things WHERE name = ?1", [text], |r| r.get::<_, String>(0)))
            .unwrap(),
        text
    );
    // A new one, from what was dumped; numbers go on.
    let new = Database::copy("etcd", SCHEMA).unwrap();
    let (last, pieces) = db.dump().unwrap();
    new.load(&pieces, last).unwrap();
    assert_eq!((new.dump().unwrap(), new.applied()), (db.dump().unwrap(), 5));
    new.lead(log.clone()).unwrap();
    new.with(|db| db.execute("INSERT INTO gone (id) VALUES ('i')", [])).unwrap();
    assert_eq!(
        new.with(|db| db.query_row("SELECT max(number) FROM gone", [], |r| r.get::<_, i64>(0))).unwrap(),
        4
    );
    assert_eq!(log.changes.lock().unwrap().len(), 6);
}

#[test]
fn what_the_log_does_not_take_is_not_so_and_nothing_is_written_after_it() {
    let (log, db) = leader();
    let put = |name: &str| db.with(|db| db.execute("INSERT INTO things (name) VALUES (?1)", [name]));
    put("a").unwrap();
    log.lost.store(true, Ordering::Relaxed);
    let e = put("b").unwrap_err();
    assert!(matches!(e, StoreError::Lost { .. }), "{e}");
    log.lost.store(false, Ordering::Relaxed);
    put("c").unwrap_err();
    let count =
        |db: &Database| db.with(|db| db.query_row("SELECT count(*) FROM things", [], |r| r.get::<_, u64>(0)));
    assert_eq!((count(&db).unwrap(), db.applied()), (1, 1));
    // What was not done in the end is not written.
    let (log, db) = leader();
    db.with(|db| {
        let tx = db.savepoint()?;
        tx.execute("INSERT INTO things (name) VALUES ('a')", [])?;
        Ok(())
    })
    .unwrap();
    db.with(|db| {
        db.execute("INSERT INTO things (name) VALUES ('a')", [])?;
        db.execute("INSERT INTO nothing VALUES (1)", [])
    })
    .unwrap_err();
    assert!(log.changes.lock().unwrap().is_empty());
    assert_eq!(count(&db).unwrap(), 0);
}

#[test]
fn changes_come_in_order_and_a_copy_becomes_a_store_of_one_daemon() {
    let (log, db) = leader();
    db.with(|db| db.execute("INSERT INTO things (name) VALUES ('a')", [])).unwrap();
    let change = log.changes.lock().unwrap()[0].clone();
    let other = Database::copy("etcd", SCHEMA).unwrap();
    other.apply(2, &change).unwrap_err();
    other.apply(1, &change).unwrap();
    other.apply(1, &change).unwrap_err();
    // Neither who follows nor who leads mixes the two.
    let e = other.with(|db| db.execute("DELETE FROM things", [])).unwrap_err();
    assert!(matches!(e, StoreError::Lost { .. }), "{e}");
    db.apply(2, &change).unwrap_err();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("controller.db");
    other.write_to(&file).unwrap();
    other.with(|db| db.execute("DELETE FROM things", [])).unwrap_err();
    let alone = Database::open(&file, SCHEMA).unwrap();
    assert_eq!(alone.dump().unwrap().1, db.dump().unwrap().1);
    // And back.
    let copy = Database::copy("etcd", SCHEMA).unwrap();
    copy.load(&alone.dump().unwrap().1, 0).unwrap();
    assert_eq!(copy.dump().unwrap().1, db.dump().unwrap().1);
}

fn statement() -> impl Strategy<Value = String> {
    let name = "[a-d]";
    prop_oneof![
        (name, ".{0,5}").prop_map(|(n, v)| format!(
            "INSERT OR REPLACE INTO things VALUES ('{n}', '{}', NULL)",
            v.replace(['\'', '\0'], "")
        )),
        name.prop_map(|n| format!("DELETE FROM things WHERE name >= '{n}'")),
        (name, 0..3).prop_map(|(n, b)| format!("INSERT OR REPLACE INTO pairs VALUES ('{n}', {b}, NULL)")),
        (0..3).prop_map(|b| format!("UPDATE OR IGNORE pairs SET b = {b}, text = 'now {b}'")),
        name.prop_map(|n| format!("INSERT OR REPLACE INTO gone (id) VALUES ('{n}')")),
        Just("DELETE FROM gone WHERE number < 3".to_owned()),
        Just("DELETE FROM pairs".to_owned()),
    ]
}

proptest! {
    #[test]
    fn all_copies_are_the_same(statements in proptest::collection::vec(statement(), 0..20)) {
        let (log, db) = leader();
        for statement in &statements {
            db.with(|db| db.execute(statement, [])).unwrap();
        }
        prop_assert_eq!(follow(&log).dump().unwrap(), db.dump().unwrap());
    }
}
