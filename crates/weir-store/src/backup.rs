//! Backups of a store: one file, with what else belongs to it. A store that [other processes may read](crate::Schema::readers) is backed up while its daemon
//! runs.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::{Database, Result, Schema, StoreError, error};

/// A backup that was copied over a store has the table already.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS backup (name TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT; DELETE FROM backup;";

fn other(path: &Path, what: impl std::fmt::Display) -> StoreError {
    StoreError::Other { path: path.to_owned(), what: what.to_string() }
}

/// The same path with more at its end.
fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn open(path: &Path) -> Result<Connection> {
    if !path.exists() {
        return Err(other(path, "there is no such file"));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|e| error(path, &e))
}

/// Makes a file's content and name last.
fn sync(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()?;
    let folder = path.parent().filter(|d| !d.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// An empty file that only its owner may read, in place of one that was there.
fn private(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(other(path, e)),
        _ => {}
    }
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map(drop).map_err(|e| other(path, e))
}

/// Writes a backup of a store, as it is at one moment, with other `content` by name. A backup that was there is replaced when the new one is whole.
///
/// # Errors
/// There is no store, the backup cannot be written, or its place has another file.
pub fn write(store: &Path, to: &Path, content: &BTreeMap<String, String>) -> Result<()> {
    let db = open(store)?;
    if to.exists() && read(to).is_err() {
        return Err(other(to, "it is there, and no backup: choose another name"));
    }
    let new = with(to, ".new");
    private(&new)?;
    let name = new.to_str().ok_or_else(|| other(&new, "its name is not UTF-8"))?;
    db.execute("VACUUM INTO ?1", [name]).map_err(|e| error(&new, &e))?;
    let fail = |e: rusqlite::Error| error(&new, &e);
    let mut copy = Connection::open(&new).map_err(fail)?;
    copy.pragma_update(None, "journal_mode", "DELETE").map_err(fail)?;
    let fill = |copy: &mut Connection| {
        let tx = copy.transaction()?;
        tx.execute_batch(TABLE)?;
        for (name, content) in content {
            tx.execute("INSERT INTO backup VALUES (?1, ?2)", [name, content])?;
        }
        tx.commit()
    };
    fill(&mut copy).map_err(fail)?;
    drop(copy);
    fs::rename(&new, to).and_then(|()| sync(to)).map_err(|e| other(to, e))
}

/// What else is in a backup, by name.
///
/// # Errors
/// It cannot be read, or is no backup.
pub fn read(backup: &Path) -> Result<BTreeMap<String, String>> {
    let db = open(backup)?;
    let table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'backup'";
    let found = db.query_row(table, [], |_| Ok(())).optional().map_err(|e| error(backup, &e))?;
    if found.is_none() {
        return Err(other(backup, "it is no backup"));
    }
    let all = || {
        let mut q = db.prepare("SELECT name, content FROM backup")?;
        q.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<rusqlite::Result<_>>()
    };
    all().map_err(|e| error(backup, &e))
}

/// Puts a backup in the place of a store, which no daemon may have at the time. A store that is there is kept under the name that is given back.
///
/// # Errors
/// The backup is damaged, or none of this kind, or files cannot be written; then the store is as it was.
pub fn restore(backup: &Path, store: &Path, schema: Schema) -> Result<Option<PathBuf>> {
    read(backup)?;
    let new = with(store, ".restored");
    private(&new)?;
    fs::copy(backup, &new).map_err(|e| other(&new, e))?;
    // Its version is checked, and what it has for tables; the journal is gone when it is closed.
    let restored = Database::open(&new, schema)?;
    restored.with(|db| {
        db.execute_batch("DROP TABLE backup")?;
        db.pragma_update(None, "journal_mode", "DELETE")
    })?;
    drop(restored);
    sync(&new).map_err(|e| other(&new, e))?;
    let kept = keep(store)?;
    fs::rename(&new, store).and_then(|()| sync(store)).map_err(|e| other(store, e))?;
    Ok(kept)
}

/// A name beside a file that nothing has, for what is kept of a store that is replaced.
pub fn name_for_kept(file: &Path) -> PathBuf {
    let free = (1..).map(|n| with(file, &format!(".before-{n}"))).find(|p| !p.exists());
    free.unwrap_or_else(|| with(file, ".before"))
}

/// Keeps a store that is to be replaced: a copy with another name. Afterwards it has no journal, which would be taken for that of what replaces it.
fn keep(store: &Path) -> Result<Option<PathBuf>> {
    if !store.exists() {
        return Ok(None);
    }
    let kept = name_for_kept(store);
    let failed = |e: std::io::Error| other(&kept, e);
    private(&kept)?;
    fs::copy(store, &kept).map_err(failed)?;
    for end in ["-wal", "-shm", "-journal"] {
        let (from, to) = (with(store, end), with(&kept, end));
        if from.exists() {
            fs::copy(&from, &to).map_err(failed)?;
            fs::remove_file(&from).map_err(failed)?;
        }
    }
    // The copy's journal goes into it, if it is a store at all; what is damaged stays as it is.
    let begin = fs::read(&kept).map_err(failed)?;
    if begin.starts_with(b"SQLite format 3\0") {
        _ = Connection::open(&kept).and_then(|db| db.pragma_update(None, "journal_mode", "DELETE"));
    }
    sync(&kept).map_err(failed)?;
    Ok(Some(kept))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SCHEMA: Schema = Schema {
        version: 3,
        tables: "CREATE TABLE t (n INTEGER NOT NULL) STRICT;",
        additions: "",
        readers: true,
    };

    fn add(db: &Database, n: i64) {
        db.with(|db| db.execute("INSERT INTO t VALUES (?1)", [n]).map(drop)).unwrap();
    }

    fn all(path: &Path) -> Vec<i64> {
        let db = Database::open(path, SCHEMA).unwrap();
        db.with(|db| db.prepare("SELECT n FROM t")?.query_map([], |r| r.get(0))?.collect()).unwrap()
    }

    #[test]
    fn a_store_is_backed_up_while_it_is_used_and_put_back_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (store, backup) = (path("a.db"), path("backup"));
        let db = Database::open(&store, SCHEMA).unwrap();
        add(&db, 1);
        let content = BTreeMap::from([("key".to_owned(), "text".to_owned())]);
        write(&store, &backup, &content).unwrap();
        assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
        add(&db, 2);
        assert_eq!(read(&backup).unwrap(), content);
        drop(db);
        let kept = restore(&backup, &store, SCHEMA).unwrap().unwrap();
        assert_eq!((all(&store), all(&kept)), (vec![1], vec![1, 2]));
        // A later backup replaces an earlier one, and nothing else.
        write(&store, &backup, &content).unwrap();
        fs::write(path("notes"), "text").unwrap();
        let e = write(&store, &path("notes"), &content).unwrap_err().to_string();
        assert!(e.contains("no backup"), "{e}");
        assert_eq!(fs::read_to_string(path("notes")).unwrap(), "text");
        assert!(
            write(&path("none.db"), &path("b"), &content).unwrap_err().to_string().contains("no such file")
        );
        assert!(!path("none.db").exists());
    }

    #[test]
    fn what_is_no_backup_or_another_ones_leaves_the_store_as_it_is_and_a_damaged_store_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let store = path("a.db");
        let db = Database::open(&store, SCHEMA).unwrap();
        add(&db, 1);
        drop(db);
        write(&store, &path("backup"), &BTreeMap::new()).unwrap();
        fs::write(path("text"), "no database ".repeat(1000)).unwrap();
        assert!(restore(&path("text"), &store, SCHEMA).is_err());
        assert!(restore(&store, &path("b.db"), SCHEMA).unwrap_err().to_string().contains("no backup"));
        let e = restore(&path("backup"), &store, Schema { version: 4, ..SCHEMA }).unwrap_err().to_string();
        assert!(e.contains("its version is 3"), "{e}");
        assert_eq!(all(&store), [1]);
        let damaged = "no database ".repeat(1000);
        fs::write(&store, &damaged).unwrap();
        fs::write(path("a.db-wal"), "journal").unwrap();
        let kept = restore(&path("backup"), &store, SCHEMA).unwrap().unwrap();
        assert_eq!(all(&store), [1]);
        assert_eq!(fs::read_to_string(&kept).unwrap(), damaged);
        assert_eq!(fs::read_to_string(with(&kept, "-wal")).unwrap(), "journal");
    }
}
