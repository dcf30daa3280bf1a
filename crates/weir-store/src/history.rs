//! The revisions of graphs: what was applied, by whom, when and why. Of each graph the newest are kept.
//!
//! A revision is kept in the same transaction as the proposal that makes it, and goes with it if that is taken back; so what is kept last
//! is what the daemon wants to run. If it is to go back unless it is confirmed, that stands with it, and outlives the daemon.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, Row, params};
use weir_api::history::{Revision, Unconfirmed};
use weir_auth::audit::Who;

use crate::{Database, Result, StoreError};

/// Revisions of a graph that are kept, unless another number is asked for.
pub const KEPT: u32 = 50;
/// Most bytes of the documents of a graph that are kept, beside the last two.
const MAX_BYTES: u64 = 16 << 20;

pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS history (
    graph TEXT NOT NULL,
    revision INTEGER NOT NULL,
    tenant TEXT,
    desired TEXT NOT NULL,
    time INTEGER,
    who TEXT,
    message TEXT,
    same_as INTEGER,
    until INTEGER,
    seconds INTEGER,
    back INTEGER,
    PRIMARY KEY (graph, revision)
) STRICT;
CREATE INDEX IF NOT EXISTS unconfirmed ON history (graph) WHERE until IS NOT NULL;
";

/// The author of a change of a graph, and the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note {
    /// Who; the daemon itself if there is nobody.
    pub who: Option<Who>,
    /// Why.
    pub message: Option<String>,
    /// The revision whose document it is again.
    pub same_as: Option<u64>,
    /// Whether it stays.
    pub confirm: Confirm,
}

/// Whether a change stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confirm {
    /// It stays.
    #[default]
    Final,
    /// It goes back unless it is confirmed within so many seconds.
    Within(u32),
    /// As the revision before: nobody asked for this change.
    AsBefore,
    /// It goes back as this says, unless it is confirmed.
    As(Unconfirmed),
}

/// A revision that is kept, and whose it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The revision.
    pub revision: Revision,
    /// The tenant that the graph belonged to.
    pub tenant: Option<String>,
}

/// A graph that goes back unless it is confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The graph.
    pub graph: String,
    /// The revision that is to be confirmed.
    pub revision: Revision,
    /// Until when, and what comes back.
    pub unconfirmed: Unconfirmed,
}

const COLUMNS: &str = "revision, time, who, message, same_as, until, seconds, back";

/// Keeps a revision: `desired` is the graph as the daemon stores it.
///
/// # Errors
/// What SQLite says.
pub fn keep(
    tx: &Connection,
    kept: u32,
    (graph, revision, tenant): (&str, u64, Option<&str>),
    desired: &str,
    note: &Note,
) -> rusqlite::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    let last = format!(
        "SELECT {COLUMNS} FROM history WHERE graph = ?1 AND revision < ?2 ORDER BY revision DESC LIMIT 1"
    );
    let before = tx.prepare_cached(&last)?.query_row(params![graph, revision], self::revision).optional()?;
    let unconfirmed = match (note.confirm, before) {
        (Confirm::Final, _) | (Confirm::AsBefore, None) => None,
        (Confirm::AsBefore, Some(before)) => before.unconfirmed,
        (Confirm::As(unconfirmed), _) => Some(unconfirmed),
        (Confirm::Within(seconds), before) => {
            // What was confirmed last.
            let back = before.and_then(|b| b.unconfirmed.map_or(Some(b.revision), |u| u.back));
            Some(Unconfirmed { until: now + u64::from(seconds) * 1000, seconds, back })
        }
    };
    let (until, seconds) = (unconfirmed.map(|u| u.until), unconfirmed.map(|u| u.seconds));
    let back = unconfirmed.and_then(|u| u.back);
    let who = note.who.as_ref().and_then(|who| serde_json::to_string(who).ok());
    let insert = format!(
        "INSERT OR REPLACE INTO history (graph, tenant, desired, {COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
    );
    let Note { message, same_as, .. } = note;
    tx.prepare_cached(&insert)?.execute(params![
        graph, tenant, desired, revision, now, who, message, same_as, until, seconds, back
    ])?;
    // What one may go back to stays, also if this change is taken back.
    let prune = "DELETE FROM history WHERE graph = ?1
        AND revision NOT IN (SELECT back FROM history WHERE graph = ?1 AND back IS NOT NULL) AND revision IN (
        SELECT revision FROM (
            SELECT revision, row_number() OVER newest AS n, sum(length(desired)) OVER newest AS bytes FROM history
            WHERE graph = ?1 WINDOW newest AS (ORDER BY revision DESC))
        WHERE n > 2 AND (n > ?2 OR bytes > ?3))";
    tx.prepare_cached(prune)?.execute(params![graph, kept, MAX_BYTES])?;
    Ok(())
}

/// Proposals were taken back: the graph is again as the daemon stored it with this revision, or is not there.
///
/// # Errors
/// What SQLite says.
pub fn take_back(tx: &Connection, graph: &str, to: Option<(u64, &str)>) -> rusqlite::Result<()> {
    let (revision, desired) = to.unwrap_or((0, ""));
    let later = "DELETE FROM history WHERE graph = ?1 AND revision > ?2";
    tx.prepare_cached(later)?.execute(params![graph, revision])?;
    // Of several proposals one upon the other, all are taken back at once, but only one of their numbers.
    let same = "UPDATE history SET desired = ?3 WHERE graph = ?1 AND revision = ?2 AND desired <> ?3";
    tx.prepare_cached(same)?.execute(params![graph, revision, desired]).map(drop)
}

/// Forgets a graph.
///
/// # Errors
/// What SQLite says.
pub fn forget(tx: &Connection, graph: &str) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM history WHERE graph = ?1")?.execute([graph]).map(drop)
}

/// All graphs stay as they are: none goes back by itself.
///
/// # Errors
/// What SQLite says.
pub fn confirm_all(tx: &Connection) -> rusqlite::Result<()> {
    let update = "UPDATE history SET until = NULL, seconds = NULL, back = NULL WHERE until IS NOT NULL";
    tx.execute(update, []).map(drop)
}

impl Database {
    /// The revisions of a graph that are kept, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn history(&self, graph: &str) -> Result<Vec<Kept>> {
        self.with(|db| {
            let query = "SELECT REVISION, tenant FROM history WHERE graph = ?1 ORDER BY revision DESC";
            let mut q = db.prepare_cached(&query.replace("REVISION", COLUMNS))?;
            q.query_map([graph], |r| Ok(Kept { revision: revision(r)?, tenant: r.get(8)? }))?.collect()
        })
    }

    /// A revision of a graph as the daemon stored it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn revision<T: serde::de::DeserializeOwned>(&self, graph: &str, revision: u64) -> Result<Option<T>> {
        let text: Option<String> = self.with(|db| {
            let query = "SELECT desired FROM history WHERE graph = ?1 AND revision = ?2";
            // Greater numbers than SQLite's are none of its revisions.
            let revision = i64::try_from(revision).unwrap_or(0);
            db.query_row(query, params![graph, revision], |r| r.get(0)).optional()
        })?;
        let read = |text: String| {
            serde_json::from_str(&text).map_err(|e| StoreError::Corrupt {
                path: self.path().to_owned(),
                what: format!("revision {revision} of graph {graph} cannot be read: {e}"),
            })
        };
        text.map(read).transpose()
    }

    /// The graphs that go back unless they are confirmed.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn unconfirmed(&self) -> Result<Vec<Pending>> {
        self.with(|db| {
            let query = "SELECT REVISION, graph FROM history AS h WHERE until IS NOT NULL
                         AND revision = (SELECT max(revision) FROM history WHERE graph = h.graph)";
            let mut q = db.prepare_cached(&query.replace("REVISION", COLUMNS))?;
            let rows = q.query_map([], |r| Ok((r.get::<_, String>(8)?, revision(r)?)))?;
            let pending = |(graph, revision): (String, Revision)| {
                let unconfirmed = revision.unconfirmed?;
                Some(Pending { graph, revision, unconfirmed })
            };
            rows.filter_map(|row| row.map(pending).transpose()).collect()
        })
    }

    /// A graph stays as it is; false if it would have stayed anyway.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn confirm_revision(&self, graph: &str) -> Result<bool> {
        self.with(|db| {
            let update = "UPDATE history SET until = NULL, seconds = NULL, back = NULL WHERE graph = ?1 AND until IS NOT NULL
                          AND revision = (SELECT max(revision) FROM history WHERE graph = ?1)";
            Ok(db.execute(update, [graph])? > 0)
        })
    }
}

fn revision(r: &Row<'_>) -> rusqlite::Result<Revision> {
    let who: Option<String> = r.get(2)?;
    let (until, seconds): (Option<u64>, Option<u32>) = (r.get(5)?, r.get(6)?);
    let unconfirmed = until.zip(seconds).map(|(until, seconds)| (until, seconds, r.get(7)));
    let unconfirmed = match unconfirmed {
        Some((until, seconds, back)) => Some(Unconfirmed { until, seconds, back: back? }),
        None => None,
    };
    Ok(Revision {
        revision: r.get(0)?,
        time: r.get(1)?,
        who: who.and_then(|who| serde_json::from_str(&who).ok()),
        message: r.get(3)?,
        same_as: r.get(4)?,
        unconfirmed,
    })
}

/// When graphs go back that nobody confirms. Pure: time is given to it.
///
/// How long one has left is taken from the calendar when it is seen first, as after a restart, and then counted on a clock that goes
/// forward only: whoever sets the calendar back does not give more time than was asked for.
#[derive(Debug, Default)]
pub struct Timers(BTreeMap<(String, u64), Duration>);

impl Timers {
    /// These are unconfirmed now, at `calendar` milliseconds since the epoch and `now` on the clock that goes forward only.
    pub fn set(&mut self, unconfirmed: &[Pending], calendar: u64, now: Duration) {
        let timer = |p: &Pending| {
            let key = (p.graph.clone(), p.revision.revision);
            let left = Duration::from_millis(p.unconfirmed.until.saturating_sub(calendar));
            let left = left.min(Duration::from_secs(p.unconfirmed.seconds.into()));
            let at = self.0.get(&key).copied().unwrap_or(now + left);
            (key, at)
        };
        self.0 = unconfirmed.iter().map(timer).collect();
    }

    /// The graphs, with their revisions, that are to go back now.
    pub fn due(&self, now: Duration) -> Vec<(String, u64)> {
        self.0.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect()
    }

    /// One that could not go back is tried again then.
    pub fn postpone(&mut self, key: &(String, u64), at: Duration) {
        if let Some(timer) = self.0.get_mut(key) {
            *timer = at;
        }
    }

    /// When the next is due.
    pub fn next(&self) -> Option<Duration> {
        self.0.values().min().copied()
    }
}

#[cfg(test)]
mod tests;
