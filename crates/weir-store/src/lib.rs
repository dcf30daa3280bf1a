//! The files that daemons keep their state in: SQLite in WAL mode, held by one process, and the [log of events](events), the [revisions of
//! graphs](history) and [who may use the daemon](access) in them; and [backups](backup) of them.

#![forbid(unsafe_code)]

pub mod access;
pub mod backup;
pub mod events;
pub mod history;

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
    /// Anything else.
    #[error("the store {path} failed: {what}")]
    Other {
        /// The store's file.
        path: PathBuf,
        /// What SQLite said.
        what: String,
    },
}

/// What a store of a kind has for tables.
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
}

/// What a store gives.
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
        let corrupt = |what: String| StoreError::Corrupt { path: path.into(), what };
        if check != "ok" {
            return Err(corrupt(check));
        }
        let found: i64 = db.pragma_query_value(None, "user_version", |r| r.get(0)).map_err(fail)?;
        let Schema { version, tables, additions, readers: _ } = schema;
        match found {
            0 => {
                let make = format!("BEGIN IMMEDIATE; {tables} PRAGMA user_version = {version}; COMMIT;");
                db.execute_batch(&make).map_err(fail)?;
            }
            same if same == version => db.execute_batch("BEGIN IMMEDIATE; COMMIT;").map_err(fail)?,
            other => return Err(corrupt(format!("its version is {other}, this daemon reads {version}"))),
        }
        db.execute_batch(events::TABLES).and_then(|()| events::upgrade(&db)).map_err(fail)?;
        db.execute_batch(access::TABLES).map_err(fail)?;
        db.execute_batch(history::TABLES).map_err(fail)?;
        db.execute_batch(additions).map_err(fail)?;
        let (kept, at_once) = (AtomicU32::new(history::KEPT), AtomicBool::new(false));
        Ok(Database { path: path.into(), db: Mutex::new(db), kept, at_once })
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

    /// Works on the tables.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn with<T>(&self, f: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T> {
        f(&mut self.db()).map_err(|e| error(&self.path, &e))
    }
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
