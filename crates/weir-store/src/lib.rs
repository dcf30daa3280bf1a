//! The files that daemons keep their state in: SQLite in WAL mode, held by one process, and the [log of events](events), the [revisions of
//! graphs](history) and [who may use the daemon](access) in them; and [backups](backup) of them. Several daemons
//! [share](shared) a store by copies in memory and a log.

#![forbid(unsafe_code)]

pub mod access;
pub mod backup;
pub mod etcd;
pub mod events;
pub mod history;
pub mod shared;

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use rusqlite::{Connection, ErrorCode};
use weir_api::problem::Problem;

/// The store failed; what was asked for was not done.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No space is left.
    #[error("the store {path} cannot grow: the disk is full; free some space and try again")]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("the store {path} cannot be written; check its permissions and its file system")]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
    },
    /// It is not a store, or damaged.
    #[error(
        "the store {path} is damaged or not a store ({what}); move it away and start again: graphs that run go on, and have to be given anew"
    )]
    Corrupt {
        /// The store's file.
        path: PathBuf,
        /// What SQLite or the reader said.
        what: String,
    },
    /// Another daemon has it.
    #[error("the store {path} is in use; another daemon runs with it")]
    Busy {
        /// The store's file.
        path: PathBuf,
    },
    /// It is shared, and another daemon writes to it now, or may.
    #[error("{what}; what was asked for may be done or not: ask again")]
    Lost {
        /// The store.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// Anything else.
    #[error("the store {path} failed: {what}")]
    Other {
        /// The store's file.
        path: PathBuf,
        /// What SQLite said.
        what: String,
    },
}

/// The tables of a kind of store.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// The version of the tables, SQLite's `user_version`, at least 1.
    pub version: i64,
    /// Makes the tables of a new store.
    pub tables: &'static str,
    /// Makes tables that came later, if they are not there (`CREATE TABLE IF NOT EXISTS`), and what they have of those that were.
    pub additions: &'static str,
    /// Whether other processes may read it while it is open, as for a [backup]. Then something else has to keep a second daemon away.
    pub readers: bool,
}

/// A store that is open.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    db: Mutex<Connection>,
    kept: AtomicU32,
    at_once: AtomicBool,
    copy: Option<shared::Copy>,
}

/// The result of an operation of a store.
pub type Result<T> = std::result::Result<T, StoreError>;

impl Database {
    /// Opens the store, or makes a new one. The directory must exist.
    ///
    /// # Errors
    /// It cannot be had, or is none of this kind.
    pub fn open(path: &Path, schema: Schema) -> Result<Database> {
        let fail = |e: rusqlite::Error| error(path, &e);
        // It may hold secrets. What SQLite keeps beside it gets the same permissions.
        let private = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
        // If this fails, so does the next, and says so.
        _ = private.and_then(|file| file.set_permissions(Permissions::from_mode(0o600)));
        let db = Connection::open(path).map_err(fail)?;
        db.busy_timeout(Duration::from_millis(500)).map_err(fail)?;
        if !schema.readers {
            // Held until the daemon ends, however it ends.
            db.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(fail)?;
        }
        db.pragma_update(None, "journal_mode", "WAL").map_err(fail)?;
        db.pragma_update(None, "synchronous", "FULL").map_err(fail)?;
        let check: String = db.query_row("PRAGMA quick_check(1)", [], |r| r.get(0)).map_err(fail)?;
        if check != "ok" {
            return Err(StoreError::Corrupt { path: path.into(), what: check });
        }
        make_tables(path, &db, schema)?;
        Ok(Database::new(path, db, None))
    }

    /// A copy in memory of a store that [several daemons share](shared), empty at first. `name` is for people.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn copy(name: &str, schema: Schema) -> Result<Database> {
        let path = Path::new(name);
        let fail = |e: rusqlite::Error| error(path, &e);
        let db = Connection::open_in_memory().map_err(fail)?;
        make_tables(path, &db, schema)?;
        shared::close(&db).map_err(fail)?;
        Ok(Database::new(path, db, Some(shared::Copy::default())))
    }

    fn new(path: &Path, db: Connection, copy: Option<shared::Copy>) -> Database {
        let (kept, at_once) = (AtomicU32::new(history::KEPT), AtomicBool::new(false));
        Database { path: path.into(), db: Mutex::new(db), kept, at_once, copy }
    }

    /// The store's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps so many revisions of each graph from now on.
    pub fn set_revisions(&self, number: u32) {
        self.kept.store(number, Ordering::Relaxed);
    }

    /// How many revisions of each graph are kept.
    pub fn revisions(&self) -> u32 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Has its work done where it is asked for, and not on a thread for what may block: in simulations, in which one thing follows another in a known order.
    pub fn work_at_once(&self) {
        self.at_once.store(true, Ordering::Relaxed);
    }

    /// Whether its work is done where it is asked for.
    pub fn works_at_once(&self) -> bool {
        self.at_once.load(Ordering::Relaxed)
    }

    fn db(&self) -> MutexGuard<'_, Connection> {
        // A panic elsewhere leaves no half-done transaction: they roll back when dropped.
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the tables. What is to be done whole or not at all is done in a savepoint.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn with<T>(&self, f: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T> {
        match &self.copy {
            None => f(&mut self.db()).map_err(|e| error(&self.path, &e)),
            Some(copy) => copy.with(&self.path, &mut self.db(), f),
        }
    }
}

/// Makes the tables of a new store, and those that an older one has not.
fn make_tables(path: &Path, db: &Connection, schema: Schema) -> Result<()> {
    let fail = |e: rusqlite::Error| error(path, &e);
    let found: i64 = db.pragma_query_value(None, "user_version", |r| r.get(0)).map_err(fail)?;
    let Schema { version, tables, additions, readers: _ } = schema;
    match found {
        0 => {
            let make = format!("BEGIN IMMEDIATE; {tables} PRAGMA user_version = {version}; COMMIT;");
            db.execute_batch(&make).map_err(fail)?;
        }
        same if same == version => db.execute_batch("BEGIN IMMEDIATE; COMMIT;").map_err(fail)?,
        other => {
            let what = format!("its version is {other}, this daemon reads {version}");
            return Err(StoreError::Corrupt { path: path.into(), what });
        }
    }
    db.execute_batch(events::TABLES).and_then(|()| events::upgrade(db)).map_err(fail)?;
    for tables in [access::TABLES, history::TABLES, additions] {
        db.execute_batch(tables).map_err(fail)?;
    }
    Ok(())
}

fn error(path: &Path, e: &rusqlite::Error) -> StoreError {
    let path = path.to_path_buf();
    match e.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { path, what: e.to_string() }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        _ => StoreError::Other { path, what: e.to_string() },
    }
}

impl From<StoreError> for Problem {
    fn from(e: StoreError) -> Problem {
        let status = match e {
            StoreError::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
            StoreError::Lost { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: Schema = Schema { version: 1, tables: "", additions: "", readers: false };

    fn store() -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().unwrap();
        let store = Database::open(&dir.path().join("node.db"), SCHEMA).unwrap();
        (dir, store)
    }

    #[test]
    fn a_file_that_is_no_store_and_a_second_daemon_are_refused() {
        let (dir, _store) = store();
        assert!(matches!(Database::open(&dir.path().join("node.db"), SCHEMA), Err(StoreError::Busy { .. })));
        let path = dir.path().join("text.db");
        std::fs::write(&path, "no database ".repeat(1000)).unwrap();
        let e = Database::open(&path, SCHEMA).unwrap_err();
        assert!(matches!(e, StoreError::Corrupt { .. }), "{e}");
        assert!(Database::open(&dir.path().join("none/node.db"), SCHEMA).is_err());
    }
}
