//! What the controller must remember: its nodes, the tokens by which more may join, and the graphs of the domain with the nodes that
//! they are on. One SQLite file; only what is wanted stands there, what is so is asked of the nodes.

mod added;
mod asked;
mod links;
mod members;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use weir_api::mark::Mark;
use weir_auth::Graph;
use weir_auth::quota::Usage;
use weir_model::value::Bandwidth;
use weir_rest::secrets::{Secrets, masked};
use weir_store::history::{self, Note};
use weir_store::{Database, Result, Schema, StoreError};

use crate::core::Run;
use crate::migrate::core::Moving;
use crate::split::{Places, Tunnel};

pub use self::members::{Member, TokenError};

pub(crate) const SCHEMA: Schema = Schema { version: 1, tables: TABLES, additions: ADDITIONS, readers: true };

const TABLES: &str = "
CREATE TABLE nodes (
    name TEXT PRIMARY KEY,
    number TEXT NOT NULL,
    joined INTEGER NOT NULL,
    certificate INTEGER NOT NULL,
    cordoned INTEGER NOT NULL
) STRICT;
CREATE TABLE tokens (hash BLOB PRIMARY KEY, expires INTEGER NOT NULL, uses INTEGER NOT NULL) STRICT;
CREATE TABLE graphs (
    id TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    graph TEXT NOT NULL,
    previous TEXT
) STRICT;
CREATE TABLE removed (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE) STRICT;
";
/// What was added to the tables later. `generation` counts changes; `doubts` are graphs that may have been changed since by changes that were lost with the store
/// that had them; `images_left` are images that were removed from the domain, with the nodes that may have them still; `names` may be at the DNS server.
const ADDITIONS: &str = "
CREATE TABLE IF NOT EXISTS generation (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL) STRICT;
INSERT OR IGNORE INTO generation VALUES (1, 0);
CREATE TABLE IF NOT EXISTS runs (first INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE IF NOT EXISTS doubts (graph TEXT PRIMARY KEY) STRICT;
CREATE TABLE IF NOT EXISTS images (name TEXT PRIMARY KEY, manifest TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS images_left (node TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (node, name)) STRICT;
CREATE TABLE IF NOT EXISTS queries (name TEXT PRIMARY KEY, query TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS links (a TEXT NOT NULL, b TEXT NOT NULL, settings TEXT NOT NULL, PRIMARY KEY (a, b)) STRICT;
CREATE TABLE IF NOT EXISTS policies (name TEXT PRIMARY KEY, policy TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS requests (number INTEGER PRIMARY KEY AUTOINCREMENT, request TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS names (name TEXT PRIMARY KEY) STRICT;
CREATE TABLE IF NOT EXISTS accounts (
    request INTEGER NOT NULL,
    module TEXT NOT NULL,
    ended INTEGER,
    account TEXT NOT NULL,
    PRIMARY KEY (request, module)
) STRICT;
INSERT OR IGNORE INTO history (graph, revision, tenant, desired)
    SELECT id, revision, json_extract(graph, '$.tenant'), graph FROM graphs;
";
const NEXT: &str = "UPDATE generation SET number = number + 1 RETURNING number";
/// Runs of the controller that are remembered.
const RUNS: u32 = 10_000;
/// Graphs that were removed of which it is known.
const REMOVED: u64 = 100_000;

/// A graph of the domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainGraph {
    /// The document, canonical, without the outer `sffg`.
    pub document: serde_json::Value,
    /// The document as it was written.
    pub text: String,
    /// The tenant that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The node of each function.
    #[serde(default)]
    pub functions: BTreeMap<String, String>,
    /// The node of each service access point.
    #[serde(default)]
    pub saps: BTreeMap<String, String>,
    /// Parameters that are secrets, by function.
    #[serde(default)]
    pub secrets: Secrets,
    /// Bytes of memory that its functions may come to take.
    #[serde(default)]
    pub memory: u64,
    /// The same of processor time, in thousandths of a processor.
    #[serde(default)]
    pub cpu: u64,
    /// The tunnels between its nodes.
    #[serde(default)]
    pub tunnels: Vec<Tunnel>,
    /// Functions that somebody moved: the graph stays over several nodes as long as it has them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub moved: BTreeSet<String>,
    /// A function that is on its way to another node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
    /// What each of its nodes is to run.
    pub parts: BTreeMap<String, Part>,
}

impl DomainGraph {
    /// The graph as rights are asked for it.
    pub fn owned<'a>(&'a self, id: &'a str) -> Graph<'a> {
        Graph { id, tenant: self.tenant.as_deref() }
    }

    /// What it counts against the quotas of its tenant.
    pub fn usage(&self) -> Usage {
        Usage { graphs: 1, memory: self.memory, cpu: self.cpu }
    }

    /// What each of its tunnels may carry, in kbit/s, if it says so.
    pub fn bandwidth(&self) -> Option<u64> {
        let text = self.document.pointer("/placement/bandwidth")?.as_str()?;
        text.parse().ok().map(Bandwidth::kbits)
    }

    /// The document as it may be shown.
    pub fn shown(&self) -> serde_json::Value {
        masked(&self.document, &self.secrets)
    }

    /// The node of each part.
    pub fn places(&self) -> Places {
        let by_id = |map: &BTreeMap<String, String>| {
            map.iter().filter_map(|(id, node)| Some((id.parse().ok()?, node.clone()))).collect()
        };
        Places { functions: by_id(&self.functions), saps: by_id(&self.saps) }
    }
}

/// A node's part of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The document for it.
    pub document: String,
    /// The entity tag that the node gave when it took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// A graph as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The graph.
    pub graph: DomainGraph,
    /// Counts its changes from 1.
    pub revision: u64,
    /// Whether it was proposed, and nobody knows whether its nodes took it: the controller ended in between.
    pub pending: bool,
    /// Whether it may have been changed, moved or removed since: an older store was put back.
    pub doubtful: bool,
}

/// The store.
#[derive(Debug)]
pub struct Store {
    db: Arc<Database>,
    mark: Marking,
}

/// How far the controller has got, for all who have to say it.
#[derive(Debug, Clone, Default)]
pub struct Marking(Arc<RwLock<Option<Mark>>>);

impl Marking {
    /// How far the controller has got. Before it has begun it has got nowhere.
    pub fn get(&self) -> Option<Mark> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, mark: Mark) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(mark);
    }
}

impl Store {
    /// Opens the store, or makes a new one. The directory must exist.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn open(path: &Path) -> Result<Store> {
        Ok(Store::of(Arc::new(Database::open(path, SCHEMA)?)))
    }

    /// One that is open.
    pub fn of(db: Arc<Database>) -> Store {
        Store { db, mark: Marking::default() }
    }

    /// A copy of a store that several controllers share, empty at first.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn copy(name: &str) -> Result<Arc<Database>> {
        Database::copy(name, SCHEMA).map(Arc::new)
    }

    /// The file, with the log of events.
    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }

    /// How far the controller has got.
    pub fn marking(&self) -> &Marking {
        &self.mark
    }

    /// The controller begins: its run gets a name.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn begin(&self) -> Result<()> {
        let mark = self.db.with(|db| {
            let tx = db.savepoint()?;
            let generation: u64 = tx.query_row(NEXT, [], |r| r.get(0))?;
            let new = "INSERT INTO runs VALUES (?1, lower(hex(randomblob(8)))) RETURNING run";
            let run = tx.query_row(new, [generation], |r| r.get(0))?;
            let old =
                "DELETE FROM runs WHERE first NOT IN (SELECT first FROM runs ORDER BY first DESC LIMIT ?1)";
            tx.execute(old, [RUNS])?;
            tx.commit()?;
            Ok(Mark { generation, run })
        })?;
        self.mark.set(mark);
        Ok(())
    }

    /// Makes a change of what is wanted, which is one generation more.
    fn change<T>(&self, f: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let (done, generation) = self.db.with(|db| {
            let tx = db.savepoint()?;
            let done = f(&tx)?;
            let generation: u64 = tx.query_row(NEXT, [], |r| r.get(0))?;
            tx.commit()?;
            Ok((done, generation))
        })?;
        if let Some(mark) = self.mark.get() {
            self.mark.set(Mark { generation, ..mark });
        }
        Ok(done)
    }

    /// The runs of the controller in order.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn runs(&self) -> Result<Vec<Run>> {
        self.db.with(|db| {
            let mut q = db.prepare("SELECT first, run FROM runs ORDER BY first")?;
            q.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
        })
    }

    /// A node has seen `generation` of a controller whose store is lost: what this store says is doubtful, and what comes from now on is newer.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn doubt(&self, generation: u64) -> Result<()> {
        self.change(|tx| {
            tx.execute("UPDATE generation SET number = max(number, ?1)", [generation])?;
            // What is not confirmed here may have been since.
            history::confirm_all(tx)?;
            tx.execute_batch("INSERT OR IGNORE INTO doubts SELECT id FROM graphs; DELETE FROM removed;")
        })
    }

    /// A graph is not doubtful any more.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn trust(&self, id: &str) -> Result<()> {
        self.db.with(|db| db.execute("DELETE FROM doubts WHERE graph = ?1", [id]).map(drop))
    }

    /// All graphs by identifier.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn graphs(&self) -> Result<BTreeMap<String, Stored>> {
        type Row = (String, u64, String, bool, bool);
        let rows: Vec<Row> = self.db.with(|db| {
            let mut q = db.prepare(
                "SELECT id, revision, graph, previous IS NOT NULL, id IN (SELECT graph FROM doubts) FROM graphs",
            )?;
            q.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?)))?.collect()
        })?;
        let read = |(id, revision, text, pending, doubtful): Row| {
            Ok((id, Stored { graph: self.read(&text)?, revision, pending, doubtful }))
        };
        rows.into_iter().map(read).collect()
    }

    /// Writes a new or changed graph, keeping what it replaces until it is [confirmed](Self::confirm), and what is noted of the change; gives
    /// its revision.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn propose(&self, id: &str, graph: &DomainGraph, note: &Note) -> Result<u64> {
        let (text, kept) = (self.text(graph)?, self.db.revisions());
        self.change(|tx| {
            // Nothing stands for a graph that was not there.
            let insert = "INSERT INTO graphs (id, revision, graph, previous) VALUES (?1, 1, ?2, '')
                 ON CONFLICT (id) DO UPDATE SET
                    previous = ifnull(previous, graph), graph = ?2, revision = revision + 1
                 RETURNING revision";
            let revision = tx.query_row(insert, params![id, text], |r| r.get(0))?;
            history::keep(tx, kept, (id, revision, graph.tenant.as_deref()), &text, note)?;
            Ok(revision)
        })
    }

    /// Its nodes took the proposal, with these parts.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn confirm(&self, id: &str, graph: &DomainGraph) -> Result<()> {
        let text = self.text(graph)?;
        let update = "UPDATE graphs SET graph = ?2, previous = NULL WHERE id = ?1";
        self.db.with(|db| match db.execute(update, params![id, text])? {
            1 => Ok(()),
            // It was taken back, or removed.
            _ => Err(rusqlite::Error::QueryReturnedNoRows),
        })
    }

    /// A graph is in other parts on its nodes from now on; what is asked for stays as it is, and so does its revision.
    ///
    /// # Errors
    /// The store cannot be written, or the graph was removed.
    pub fn step(&self, id: &str, graph: &DomainGraph) -> Result<()> {
        let text = self.text(graph)?;
        let update = "UPDATE graphs SET graph = ?2 WHERE id = ?1 AND previous IS NULL";
        self.change(|tx| match tx.execute(update, params![id, text])? {
            1 => Ok(()),
            _ => Err(rusqlite::Error::QueryReturnedNoRows),
        })
    }

    /// The proposal was refused: what was before is wanted again, and given. If there was nothing before, nodes lose what they have of it if `removed`.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn roll_back(&self, id: &str, removed: bool) -> Result<Option<DomainGraph>> {
        let previous: Option<String> = self.change(|tx| {
            if tx.execute("DELETE FROM graphs WHERE id = ?1 AND previous = ''", [id])? > 0 && removed {
                // A node that was asked, and did not answer, may have it all the same.
                tx.execute("INSERT OR REPLACE INTO removed (id) VALUES (?1)", [id])?;
            }
            let back = "UPDATE graphs SET graph = previous, previous = NULL, revision = revision - 1
                 WHERE id = ?1 AND previous IS NOT NULL";
            tx.execute(back, [id])?;
            let now = "SELECT graph, revision FROM graphs WHERE id = ?1";
            let now: Option<(String, u64)> =
                tx.query_row(now, [id], |r| Ok((r.get(0)?, r.get(1)?))).optional()?;
            history::take_back(
                tx,
                id,
                now.as_ref().map(|(desired, revision)| (*revision, desired.as_str())),
            )?;
            Ok(now.map(|(graph, _)| graph))
        })?;
        previous.map(|text| self.read(&text)).transpose()
    }

    /// Forgets a graph.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn remove(&self, id: &str) -> Result<()> {
        self.change(|tx| {
            tx.execute("DELETE FROM graphs WHERE id = ?1", [id])?;
            history::forget(tx, id)?;
            tx.execute("DELETE FROM doubts WHERE graph = ?1", [id])?;
            tx.execute("INSERT OR REPLACE INTO removed (id) VALUES (?1)", [id])?;
            let last = tx.last_insert_rowid() as u64;
            tx.execute("DELETE FROM removed WHERE number <= ?1", [last.saturating_sub(REMOVED)]).map(drop)
        })
    }

    /// The graphs that were removed last, as far as they are remembered: a node that was away loses them when it is back.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn removed(&self) -> Result<BTreeSet<String>> {
        self.db.with(|db| {
            let mut q = db.prepare("SELECT id FROM removed")?;
            q.query_map([], |r| r.get(0))?.collect()
        })
    }

    fn text(&self, graph: &DomainGraph) -> Result<String> {
        let path = self.db.path().to_owned();
        serde_json::to_string(graph).map_err(|e| StoreError::Other { path, what: e.to_string() })
    }

    fn read(&self, text: &str) -> Result<DomainGraph> {
        let path = self.db.path().to_owned();
        serde_json::from_str(text).map_err(|e| StoreError::Corrupt { path, what: e.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: &[&str]) -> DomainGraph {
        let part = |n: &&str| ((*n).to_owned(), Part { document: "d".into(), tag: None });
        DomainGraph {
            document: serde_json::json!({ "id": "g" }),
            text: "id: g".into(),
            tenant: None,
            functions: BTreeMap::new(),
            saps: BTreeMap::new(),
            tunnels: Vec::new(),
            moved: BTreeSet::new(),
            moving: None,
            secrets: Secrets::new(),
            memory: 0,
            cpu: 0,
            parts: nodes.iter().map(part).collect(),
        }
    }

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("controller.db")).unwrap();
        (dir, store)
    }

    #[test]
    fn a_refused_change_leaves_what_was_before_even_after_a_crash() {
        let (dir, store) = store();
        let (old, new) = (graph(&["n1"]), graph(&["n2"]));
        assert_eq!(store.propose("g", &old, &Note::default()).unwrap(), 1);
        store.confirm("g", &old).unwrap();
        assert_eq!(store.propose("g", &new, &Note::default()).unwrap(), 2);
        assert_eq!(store.propose("g", &graph(&["n3"]), &Note::default()).unwrap(), 3);
        drop(store);
        let store = Store::open(&dir.path().join("controller.db")).unwrap();
        assert!(store.graphs().unwrap()["g"].pending);
        assert_eq!(store.roll_back("g", true).unwrap(), Some(old.clone()));
        assert!(!store.graphs().unwrap()["g"].pending);
        assert_eq!(store.roll_back("g", true).unwrap(), Some(old), "there is nothing to take back");
        store.propose("h", &new, &Note::default()).unwrap();
        assert_eq!(store.roll_back("h", true).unwrap(), None);
        assert_eq!(store.graphs().unwrap().len(), 1);
    }
}
