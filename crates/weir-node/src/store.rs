//! What the node must remember: desired graphs with their revisions, which handler writes were made, and a bounded log
//! of events. One SQLite file in WAL mode, held by one daemon.
//!
//! A change is written before the data plane hears of it, together with what it replaces: [`Store::propose`], then
//! [`Store::confirm`] or [`Store::roll_back`]. A proposal that a crash left behind is still the desired state, and can
//! still be rolled back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use weir_api::mark::Mark;
use weir_api::queries::{Query, StandingQuery};
use weir_store::history::{self, Note};
use weir_store::{Database, Result, Schema, StoreError};

use crate::desired::DesiredGraph;

const SCHEMA: Schema = Schema { version: 1, tables: TABLES, additions: ADDITIONS, readers: false };

const TABLES: &str = "
CREATE TABLE graphs (
    id TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    desired TEXT NOT NULL,
    pending INTEGER NOT NULL,
    previous TEXT
) STRICT;
CREATE TABLE written (graph TEXT PRIMARY KEY, tag TEXT NOT NULL, engine TEXT NOT NULL) STRICT;
";

/// What was added to the tables later.
const ADDITIONS: &str = "
CREATE TABLE IF NOT EXISTS drift (
    graph TEXT NOT NULL,
    function TEXT NOT NULL,
    handler TEXT NOT NULL,
    value TEXT NOT NULL,
    engine TEXT NOT NULL,
    PRIMARY KEY (graph, function, handler)
) STRICT;
CREATE TABLE IF NOT EXISTS controllers (owner TEXT PRIMARY KEY, mark TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS queries (
    name TEXT PRIMARY KEY,
    query TEXT NOT NULL,
    of_domain INTEGER NOT NULL,
    ended INTEGER NOT NULL
) STRICT;
INSERT OR IGNORE INTO history (graph, revision, tenant, desired)
    SELECT id, revision, json_extract(desired, '$.document.tenant'), desired FROM graphs;
";

/// A desired graph with its revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The graph.
    pub graph: DesiredGraph,
    /// Counts the changes of this graph from 1.
    pub revision: u64,
    /// Proposed, but not confirmed: the daemon stopped in between.
    pub pending: bool,
}

/// The store.
#[derive(Debug)]
pub struct Store {
    db: Arc<Database>,
}

impl Store {
    /// Opens the store, or makes a new one. The directory must exist.
    pub fn open(path: &Path) -> Result<Store> {
        Ok(Store { db: Arc::new(Database::open(path, SCHEMA)?) })
    }

    /// The file, with the log of events.
    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }

    /// The store's file.
    pub fn path(&self) -> &Path {
        self.db.path()
    }

    fn with<T>(&self, f: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T> {
        self.db.with(f)
    }

    /// All desired graphs by identifier.
    pub fn graphs(&self) -> Result<BTreeMap<String, Stored>> {
        let rows: Vec<(String, u64, String, bool)> = self.with(|db| {
            let mut q = db.prepare("SELECT id, revision, desired, pending FROM graphs ORDER BY id")?;
            q.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))?.collect()
        })?;
        let read = |(id, revision, text, pending): (String, u64, String, bool)| {
            let graph = serde_json::from_str(&text).map_err(|e| StoreError::Corrupt {
                path: self.path().to_owned(),
                what: format!("graph {id} cannot be read: {e}"),
            })?;
            Ok((id, Stored { graph, revision, pending }))
        };
        rows.into_iter().map(read).collect()
    }

    /// The queries that stand, or have ended.
    pub fn queries(&self) -> Result<Vec<StandingQuery>> {
        let rows: Vec<(String, String, bool, bool)> = self.with(|db| {
            let mut q = db.prepare("SELECT name, query, of_domain, ended FROM queries ORDER BY name")?;
            q.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))?.collect()
        })?;
        let read = |(name, text, of_domain, ended): (String, String, bool, bool)| {
            let query = serde_json::from_str(&text).map_err(|e| StoreError::Corrupt {
                path: self.path().to_owned(),
                what: format!("query {name} cannot be read: {e}"),
            })?;
            Ok(StandingQuery { name, query, ended, of_domain })
        };
        rows.into_iter().map(read).collect()
    }

    /// Keeps a query.
    pub fn keep_query(&self, name: &str, query: &Query, of_domain: bool, ended: bool) -> Result<()> {
        let text = serde_json::to_string(query)
            .map_err(|e| StoreError::Other { path: self.path().to_owned(), what: e.to_string() })?;
        let put = "INSERT OR REPLACE INTO queries VALUES (?1, ?2, ?3, ?4)";
        self.with(|db| db.execute(put, params![name, text, of_domain, ended]).map(drop))
    }

    /// Notes that a query has ended.
    pub fn end_query(&self, name: &str) -> Result<()> {
        self.with(|db| db.execute("UPDATE queries SET ended = 1 WHERE name = ?1", [name]).map(drop))
    }

    /// Forgets a query.
    pub fn remove_query(&self, name: &str) -> Result<()> {
        self.with(|db| db.execute("DELETE FROM queries WHERE name = ?1", [name]).map(drop))
    }

    /// Writes new or changed graphs, keeping what they replace and what is noted of the change; gives the new revisions.
    pub fn propose(&self, graphs: &[Arc<DesiredGraph>], note: &Note) -> Result<Vec<u64>> {
        let kept = self.db.revisions();
        let texts = graphs.iter().map(|g| self.text(g)).collect::<Result<Vec<_>>>()?;
        // A proposal upon a proposal keeps the confirmed one as the previous.
        self.with(|db| {
            // In a transaction of its own: a statement that returns a row commits only when it is reset, and what
            // fails then would go unseen.
            let tx = db.transaction()?;
            let mut revisions = Vec::new();
            for (graph, text) in graphs.iter().zip(&texts) {
                let mut insert = tx.prepare_cached(
                    "INSERT INTO graphs (id, revision, desired, pending) VALUES (?1, 1, ?2, 1)
                     ON CONFLICT (id) DO UPDATE SET
                        previous = iif(pending, previous, desired), desired = ?2, pending = 1, revision = revision + 1
                     RETURNING revision",
                )?;
                let revision = insert.query_row(params![graph.id, text], |r| r.get(0))?;
                history::keep(&tx, kept, (&graph.id, revision, graph.tenant()), text, note)?;
                revisions.push(revision);
            }
            tx.commit()?;
            Ok(revisions)
        })
    }

    /// Keeps another text of a document that says the same as before.
    pub fn rewrite(&self, graph: &DesiredGraph) -> Result<()> {
        let text = self.text(graph)?;
        self.with(|db| {
            let tx = db.transaction()?;
            tx.execute("UPDATE graphs SET desired = ?2 WHERE id = ?1", params![graph.id, text])?;
            let same = "UPDATE history SET desired = ?2 WHERE graph = ?1
                        AND revision = (SELECT revision FROM graphs WHERE id = ?1)";
            tx.execute(same, params![graph.id, text])?;
            tx.commit()
        })
    }

    /// The data plane took the proposals. Handler writes of before are gone.
    pub fn confirm(&self, ids: &[String]) -> Result<()> {
        self.with(|db| {
            let tx = db.transaction()?;
            for id in ids {
                tx.prepare_cached("UPDATE graphs SET pending = 0, previous = NULL WHERE id = ?1")?
                    .execute([id])?;
                tx.prepare_cached("DELETE FROM drift WHERE graph = ?1")?.execute([id])?;
            }
            tx.commit()
        })
    }

    /// The data plane refused the proposals: what was before is desired again.
    pub fn roll_back(&self, ids: &[String]) -> Result<Vec<Option<DesiredGraph>>> {
        let previous: Vec<Option<String>> = self.with(|db| {
            let tx = db.transaction()?;
            let mut previous = Vec::new();
            for id in ids {
                tx.execute("DELETE FROM graphs WHERE id = ?1 AND pending = 1 AND previous IS NULL", [id])?;
                tx.execute(
                    "UPDATE graphs SET desired = previous, previous = NULL, pending = 0, revision = revision - 1
                     WHERE id = ?1 AND pending = 1",
                    [id],
                )?;
                let desired = "SELECT desired, revision FROM graphs WHERE id = ?1";
                let now: Option<(String, u64)> =
                    tx.query_row(desired, [id], |r| Ok((r.get(0)?, r.get(1)?))).optional()?;
                history::take_back(&tx, id, now.as_ref().map(|(desired, revision)| (*revision, desired.as_str())))?;
                previous.push(now.map(|(desired, _)| desired));
            }
            tx.commit()?;
            Ok(previous)
        })?;
        let read = |text: String| {
            serde_json::from_str(&text)
                .map_err(|e| StoreError::Corrupt { path: self.path().to_owned(), what: e.to_string() })
        };
        previous.into_iter().map(|text| text.map(read).transpose()).collect()
    }

    /// Forgets a graph; false if there was none.
    pub fn remove(&self, id: &str) -> Result<bool> {
        self.with(|db| {
            let tx = db.transaction()?;
            let n = tx.execute("DELETE FROM graphs WHERE id = ?1", [id])?;
            tx.execute("DELETE FROM written WHERE graph = ?1", [id])?;
            tx.execute("DELETE FROM drift WHERE graph = ?1", [id])?;
            history::forget(&tx, id)?;
            tx.commit()?;
            Ok(n > 0)
        })
    }

    /// Remembers that the handler writes of graphs (each with its tag) were made in the data-plane process `engine`.
    pub fn set_written(&self, graphs: &[(String, String)], engine: &str) -> Result<()> {
        self.with(|db| {
            let tx = db.transaction()?;
            for (graph, tag) in graphs {
                tx.execute("INSERT OR REPLACE INTO written VALUES (?1, ?2, ?3)", [graph, tag, engine])?;
            }
            tx.commit()
        })
    }

    /// Remembers a handler write that the document does not have, or that there is none any more.
    pub fn set_drift(
        &self,
        graph: &str,
        function: &str,
        handler: &str,
        value: Option<&str>,
        engine: &str,
    ) -> Result<()> {
        self.with(|db| match value {
            Some(value) => db
                .execute(
                    "INSERT OR REPLACE INTO drift VALUES (?1, ?2, ?3, ?4, ?5)",
                    [graph, function, handler, value, engine],
                )
                .map(drop),
            None => db
                .execute(
                    "DELETE FROM drift WHERE graph = ?1 AND function = ?2 AND handler = ?3",
                    [graph, function, handler],
                )
                .map(drop),
        })
    }

    /// Handler writes that the documents do not have, in the data-plane process `engine`.
    pub fn drift(&self, engine: &str) -> Result<Vec<[String; 4]>> {
        self.with(|db| {
            let mut q = db.prepare("SELECT graph, function, handler, value FROM drift WHERE engine = ?1")?;
            q.query_map([engine], |r| Ok([r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?]))?.collect()
        })
    }

    /// The tags whose writes were made in the data-plane process `engine`, by graph.
    pub fn written(&self, engine: &str) -> Result<BTreeMap<String, String>> {
        self.with(|db| {
            let mut q = db.prepare("SELECT graph, tag FROM written WHERE engine = ?1")?;
            q.query_map([engine], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
        })
    }

    /// How far a controller has got, as it said with what it changed here last.
    pub fn mark(&self, owner: &str) -> Result<Option<Mark>> {
        let mark: Option<String> = self.with(|db| {
            db.query_row("SELECT mark FROM controllers WHERE owner = ?1", [owner], |r| r.get(0)).optional()
        })?;
        let read = |text: String| {
            text.parse().map_err(|what| StoreError::Corrupt { path: self.path().to_owned(), what })
        };
        mark.map(read).transpose()
    }

    /// Remembers it.
    pub fn set_mark(&self, owner: &str, mark: &Mark) -> Result<()> {
        let row = [owner, &mark.to_string()];
        self.with(|db| db.execute("INSERT OR REPLACE INTO controllers VALUES (?1, ?2)", row).map(drop))
    }

    fn text(&self, graph: &DesiredGraph) -> Result<String> {
        serde_json::to_string(graph)
            .map_err(|e| StoreError::Other { path: self.path().to_owned(), what: e.to_string() })
    }

    /// Limits the file to its present size, as a full disk would, or lifts the limit.
    #[cfg(test)]
    pub(crate) fn set_full(&self, full: bool) {
        self.with(|db| {
            let pages: i64 = db.pragma_query_value(None, "page_count", |r| r.get(0))?;
            let most = if full { pages } else { 1 << 30 };
            db.query_row(&format!("PRAGMA max_page_count = {most}"), [], |_| Ok(()))
        })
        .unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{desired, wire};

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("node.db")).unwrap();
        (dir, store)
    }

    #[test]
    fn a_refused_change_leaves_what_was_before() {
        let (dir, store) = store();
        let (old, new) = (desired(&wire("a", "eth1", "eth2")), desired(&wire("a", "eth1", "eth3")));
        let a = ["a".to_owned()];
        assert_eq!(store.propose(&[old.clone().into()], &Note::default()).unwrap(), [1]);
        store.confirm(&a).unwrap();
        assert_eq!(store.propose(&[new.clone().into()], &Note::default()).unwrap(), [2]);
        drop(store);
        // The daemon died: the proposal stands, and can still be taken back.
        let store = Store::open(&dir.path().join("node.db")).unwrap();
        let stored = store.graphs().unwrap();
        assert!(stored["a"].pending && stored["a"].graph == new);
        assert_eq!(store.database().history("a").unwrap().len(), 2);
        assert_eq!(store.roll_back(&a).unwrap(), [Some(old.clone())]);
        let stored = store.graphs().unwrap();
        assert_eq!((stored["a"].revision, stored["a"].pending), (1, false));
        assert_eq!(store.database().history("a").unwrap().len(), 1);
        // A confirmed one cannot be taken back; a new one goes altogether.
        assert_eq!(store.roll_back(&a).unwrap(), [Some(old.clone())]);
        store.propose(&[desired(&wire("b", "eth1", "eth2")).into()], &Note::default()).unwrap();
        assert_eq!(store.roll_back(&["b".to_owned()]).unwrap(), [None]);
        assert!(store.database().history("b").unwrap().is_empty());
        assert_eq!(store.graphs().unwrap().len(), 1);
    }

    #[test]
    fn a_full_disk_changes_nothing() {
        let (_dir, store) = store();
        let old = desired(&wire("a", "eth1", "eth2"));
        store.propose(&[old.clone().into()], &Note::default()).unwrap();
        store.confirm(&["a".to_owned()]).unwrap();
        store.set_full(true);
        let mut new = old.clone();
        new.switch.config = "x".repeat(1 << 20);
        let e = store.propose(&[new.clone().into()], &Note::default()).unwrap_err();
        assert!(matches!(e, StoreError::Full { .. }) && e.to_string().contains("disk is full"), "{e}");
        assert_eq!(store.graphs().unwrap()["a"].graph, old);
        store.set_full(false);
        store.propose(&[new.into()], &Note::default()).unwrap();
    }

    #[test]
    fn graphs_of_a_store_from_before_there_was_a_history_have_a_first_revision() {
        let (dir, store) = store();
        let graph = desired(&wire("a", "eth1", "eth2"));
        store.propose(&[graph.clone().into()], &Note::default()).unwrap();
        store.confirm(&["a".to_owned()]).unwrap();
        store.with(|db| db.execute("DELETE FROM history", [])).unwrap();
        drop(store);
        let store = Store::open(&dir.path().join("node.db")).unwrap();
        let history = store.database().history("a").unwrap();
        assert_eq!((history.len(), history[0].revision.revision, history[0].revision.time), (1, 1, None));
        assert_eq!(store.database().revision("a", 1).unwrap(), Some(graph));
    }

    #[test]
    fn written_marks_belong_to_one_data_plane_process() {
        let (_dir, store) = store();
        store.set_written(&[("a".into(), "t".into())], "1@5").unwrap();
        assert_eq!(store.written("1@5").unwrap().get("a").map(String::as_str), Some("t"));
        assert!(store.written("2@6").unwrap().is_empty());
    }
}
