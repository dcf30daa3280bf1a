//! A store that several daemons have, of which one writes at a time: each has a copy in memory, and all changes are in one [log](Log), in order. A change counts
//! when the log has it: it is written there before the copy takes it, and by who leads only. So all copies are the same, and whoever leads next begins
//! with all that was ever promised.
//!
//! A change is the rows that a transaction wrote or removed, as SQL with their values: what SQLite's functions gave (numbers, times) is the same
//! in all copies. Triggers of the connection collect them.

use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use crate::{Database, Result, StoreError, error};

/// Where changes are before they count.
pub trait Log: Debug + Send + Sync {
    /// Writes the change of this number, which nobody has written yet, if this daemon still leads.
    ///
    /// # Errors
    /// It does not lead any more, or it cannot be known whether the change was written: this daemon must not write any more.
    fn append(&self, index: u64, change: &str) -> std::result::Result<(), String>;
}

/// A copy's state of the log.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    applied: AtomicU64,
    /// Whether changes are collected, as soon as it was the leader's.
    watched: AtomicBool,
    log: Mutex<Option<Arc<dyn Log>>>,
}

/// Collects the rows that a transaction changes.
const CHANGES: &str = "
PRAGMA recursive_triggers = ON;
CREATE TEMP TABLE weir_changes (number INTEGER PRIMARY KEY, change TEXT NOT NULL) STRICT;
";
/// Most bytes of a piece of a [dump](Database::dump), but for a row that is larger.
const PIECE: usize = 512 << 10;

/// A name in SQL.
fn name(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// An expression for the literal of a column. `quote` would end a text at its first NUL.
fn literal(row: &str, column: &str) -> String {
    let c = format!("{row}{}", name(column));
    format!(
        "CASE WHEN typeof({c}) = 'text' AND instr({c}, char(0)) > 0 THEN 'CAST(x''' || hex({c}) || ''' AS TEXT)' ELSE quote({c}) END"
    )
}

/// A table and its columns, each with whether it is of the primary key.
struct Table {
    name: String,
    columns: Vec<(String, bool)>,
}

impl Table {
    fn all(db: &Connection) -> rusqlite::Result<Vec<Table>> {
        let query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
        let names: Vec<String> =
            db.prepare(query)?.query_map([], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
        let table = |name: String| {
            let mut q = db.prepare("SELECT name, pk > 0 FROM pragma_table_info(?1)")?;
            let columns =
                q.query_map([&name], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
            Ok(Table { name, columns })
        };
        names.into_iter().map(table).collect()
    }

    /// An expression for the statement that writes a row.
    fn insert(&self, row: &str) -> String {
        let names: Vec<String> = self.columns.iter().map(|(c, _)| name(c)).collect();
        let values: Vec<String> = self.columns.iter().map(|(c, _)| literal(row, c)).collect();
        let head = format!("INSERT INTO {} ({}) VALUES (", name(&self.name), names.join(", "));
        format!("'{}' || {} || ');'", head.replace('\'', "''"), values.join(" || ', ' || "))
    }

    /// An expression for the statement that removes a row.
    fn delete(&self, row: &str) -> String {
        let key = self.columns.iter().filter(|(_, key)| *key);
        let equal: Vec<String> = key
            .map(|(c, _)| format!("'{} IS ' || {}", name(c).replace('\'', "''"), literal(row, c)))
            .collect();
        let head = format!("DELETE FROM {} WHERE ", name(&self.name));
        format!("'{}' || {} || ';'", head.replace('\'', "''"), equal.join(" || ' AND ' || "))
    }

    fn triggers(&self) -> String {
        let (insert, delete) = (self.insert("NEW."), self.delete("OLD."));
        let collect = |what: &str, change: &str| {
            format!(
                "CREATE TEMP TRIGGER {} AFTER {what} ON main.{} BEGIN INSERT INTO weir_changes (change) VALUES ({change}); END;\n",
                name(&format!("weir {what} {}", self.name)),
                name(&self.name)
            )
        };
        let update = format!("{delete} || char(10) || {insert}");
        collect("INSERT", &insert) + &collect("DELETE", &delete) + &collect("UPDATE", &update)
    }
}

/// The changes that were collected, which are collected no more.
fn collected(db: &Connection) -> rusqlite::Result<String> {
    let mut q = db.prepare_cached("SELECT change FROM weir_changes ORDER BY number")?;
    let mut changes = String::new();
    let mut rows = q.query([])?;
    while let Some(row) = rows.next()? {
        changes.push_str(row.get_ref(0)?.as_str()?);
        changes.push('\n');
    }
    drop(rows);
    if !changes.is_empty() {
        db.execute_batch("DELETE FROM weir_changes")?;
    }
    Ok(changes)
}

/// What does not lead writes nothing: nobody would collect it.
pub(crate) fn close(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "query_only", true)
}

/// Takes what the log says.
fn take(db: &mut Connection, pieces: &[&str]) -> rusqlite::Result<()> {
    db.pragma_update(None, "query_only", false)?;
    let tx = db.transaction()?;
    pieces.iter().try_for_each(|piece| tx.execute_batch(piece))?;
    tx.commit()
}

/// Collects changes from now on.
fn watch(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "query_only", false)?;
    db.execute_batch(CHANGES)?;
    for table in Table::all(db)? {
        db.execute_batch(&table.triggers())?;
    }
    Ok(())
}

impl Copy {
    fn log(&self) -> Option<Arc<dyn Log>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Works on the tables; what is changed is in the log before it is here.
    pub(crate) fn with<T>(
        &self,
        path: &Path,
        db: &mut Connection,
        f: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let fail = |e: rusqlite::Error| error(path, &e);
        let lost = |what: String| StoreError::Lost { path: path.into(), what };
        let follows = || lost("this controller does not lead".into());
        if !self.watched.load(Ordering::Relaxed) {
            return f(db).map_err(|e| match fail(e) {
                StoreError::ReadOnly { .. } => follows(),
                other => other,
            });
        }
        db.execute_batch("BEGIN").map_err(fail)?;
        let done = f(db).and_then(|done| Ok((done, collected(db)?))).map_err(fail);
        let appended = done.and_then(|(done, changes)| {
            if changes.is_empty() {
                return Ok(done);
            }
            let log = self.log().ok_or_else(follows)?;
            if let Err(what) = log.append(self.applied.load(Ordering::Relaxed) + 1, &changes) {
                *self.log.lock().unwrap_or_else(PoisonError::into_inner) = None;
                return Err(lost(what));
            }
            self.applied.fetch_add(1, Ordering::Relaxed);
            Ok(done)
        });
        match appended {
            Ok(done) => db.execute_batch("COMMIT").map_err(fail).map(|()| done),
            Err(e) => {
                // If this fails as well, there is nothing to go back from.
                _ = db.execute_batch("ROLLBACK");
                Err(e)
            }
        }
    }
}

impl Database {
    /// This daemon leads from now on: it writes to that log, until that fails, and never after.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn lead(&self, log: Arc<dyn Log>) -> Result<()> {
        let Some(copy) = &self.copy else { return Ok(()) };
        let db = self.db();
        watch(&db).map_err(|e| error(&self.path, &e))?;
        copy.watched.store(true, Ordering::Relaxed);
        *copy.log.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
        Ok(())
    }

    /// Nothing is written any more.
    pub fn retire(&self) {
        if let Some(copy) = &self.copy {
            *copy.log.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Whether it is a copy to which nothing is written any more.
    pub fn is_retired(&self) -> bool {
        self.copy.as_ref().is_some_and(|c| c.log().is_none())
    }

    /// The number of the last change of the log that this copy has.
    pub fn applied(&self) -> u64 {
        self.copy.as_ref().map_or(0, |c| c.applied.load(Ordering::Relaxed))
    }

    /// Takes the next change of the log, before this daemon leads.
    ///
    /// # Errors
    /// It is not the next one, or makes no sense here.
    pub fn apply(&self, index: u64, change: &str) -> Result<()> {
        let other = |what: String| StoreError::Other { path: self.path.clone(), what };
        let copy = self.copy.as_ref().ok_or_else(|| other("it is no copy of a log".into()))?;
        let mut db = self.db();
        if copy.watched.load(Ordering::Relaxed) {
            return Err(other("it is, or was, the leader's, who writes itself".into()));
        }
        let next = copy.applied.load(Ordering::Relaxed) + 1;
        if index != next {
            return Err(other(format!("change {index} of the log came, and {next} is the next one")));
        }
        take(&mut db, &[change]).and_then(|()| close(&db)).map_err(|e| error(&self.path, &e))?;
        copy.applied.store(index, Ordering::Relaxed);
        Ok(())
    }

    /// The number of the last change, and all that is in it with that, in pieces that make the same of a new copy.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn dump(&self) -> Result<(u64, Vec<String>)> {
        let db = self.db();
        let all = || -> rusqlite::Result<_> {
            let mut pieces = vec![String::new()];
            let mut add = |line: &str| {
                if pieces.last().is_some_and(|p| !p.is_empty() && p.len() + line.len() > PIECE) {
                    pieces.push(String::new());
                }
                if let Some(piece) = pieces.last_mut() {
                    piece.push_str(line);
                    piece.push('\n');
                }
            };
            for table in Table::all(&db)? {
                // A new copy has rows of its own.
                add(&format!("DELETE FROM {};", name(&table.name)));
                // In an order that is the same in all copies.
                let key: Vec<String> =
                    table.columns.iter().filter(|(_, key)| *key).map(|(c, _)| name(c)).collect();
                let all = format!(
                    "SELECT {} FROM {} ORDER BY {}",
                    table.insert(""),
                    name(&table.name),
                    key.join(", ")
                );
                let mut q = db.prepare(&all)?;
                let mut rows = q.query([])?;
                while let Some(row) = rows.next()? {
                    add(row.get_ref(0)?.as_str()?);
                }
            }
            // Numbers that were given are not given again.
            add("DELETE FROM sqlite_sequence;");
            let mut q = db.prepare("SELECT name, seq FROM sqlite_sequence")?;
            let mut rows = q.query([])?;
            while let Some(row) = rows.next()? {
                let (table, last): (String, i64) = (row.get(0)?, row.get(1)?);
                add(&format!(
                    "INSERT INTO sqlite_sequence (name, seq) VALUES ('{}', {last});",
                    table.replace('\'', "''")
                ));
            }
            Ok((self.applied(), pieces))
        };
        all().map_err(|e| error(&self.path, &e))
    }

    /// Makes this new copy, or store, what was dumped after the change of that number.
    ///
    /// # Errors
    /// It makes no sense here.
    pub fn load(&self, pieces: &[String], index: u64) -> Result<()> {
        let mut db = self.db();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        take(&mut db, &pieces).map_err(|e| error(&self.path, &e))?;
        if let Some(copy) = &self.copy {
            close(&db).map_err(|e| error(&self.path, &e))?;
            copy.applied.store(index, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes it to a file, which is then a store of one daemon.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn write_to(&self, file: &Path) -> Result<()> {
        let name = file.to_string_lossy();
        let db = self.db();
        let write = || {
            db.pragma_update(None, "query_only", false)?;
            let written = db.execute("VACUUM INTO ?1", [name.as_ref()]);
            if self.copy.as_ref().is_some_and(|c| !c.watched.load(Ordering::Relaxed)) {
                close(&db)?;
            }
            written
        };
        write().map(drop).map_err(|e| error(file, &e))
    }
}

#[cfg(test)]
mod tests;
