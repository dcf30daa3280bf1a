//! The log of events: numbered, so that a listener can come back and miss nothing; bounded, so that the oldest go.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, params};
use weir_api::events::{Alarm, Event, Kind};
use weir_api::queries::Report;

use crate::{Database, Result};

/// Events that are kept.
pub const MAX_EVENTS: u64 = 10_000;

pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    kind TEXT NOT NULL,
    graph TEXT,
    text TEXT NOT NULL
) STRICT;
";

/// Events of earlier versions had neither node nor tenant, and no reports or alarms.
pub(crate) fn upgrade(db: &Connection) -> rusqlite::Result<()> {
    for column in ["node", "tenant", "report", "alarm"] {
        let known = "SELECT 1 FROM pragma_table_info('events') WHERE name = ?1";
        if db.query_row(known, [column], |_| Ok(())).optional()?.is_none() {
            db.execute_batch(&format!("ALTER TABLE events ADD COLUMN {column} TEXT"))?;
        }
    }
    Ok(())
}

/// An event that has no number yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// What happened.
    pub kind: Kind,
    /// The node of a domain, if one is concerned.
    pub node: Option<String>,
    /// The graph, if one is concerned.
    pub graph: Option<String>,
    /// The tenant that the graph belongs to.
    pub tenant: Option<String>,
    /// More, for people.
    pub text: String,
    /// What a query has to say.
    pub report: Option<Report>,
    /// What a graph's monitoring has to say.
    pub alarm: Option<Alarm>,
    /// Whether it is kept for those who come later.
    pub keep: bool,
}

impl NewEvent {
    /// One without a text, of no node and no tenant.
    pub fn of(kind: Kind, graph: Option<&str>) -> NewEvent {
        NewEvent {
            kind,
            node: None,
            graph: graph.map(str::to_owned),
            tenant: None,
            text: String::new(),
            report: None,
            alarm: None,
            keep: kind != Kind::Print,
        }
    }
}

impl Database {
    /// Adds events to the log and gives them back with their numbers; the oldest go when there are too many.
    pub fn log(&self, events: &[NewEvent]) -> Result<Vec<Event>> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        self.with(|db| {
            let tx = db.savepoint()?;
            let mut logged = Vec::new();
            for NewEvent { kind, node, graph, tenant, text, report, alarm, .. } in events {
                let insert =
                    "INSERT INTO events (time, kind, node, graph, tenant, text, report, alarm) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
                let said = report.as_ref().and_then(|r| serde_json::to_string(r).ok());
                let alarmed = alarm.as_ref().and_then(|a| serde_json::to_string(a).ok());
                let values = params![time, kind.name(), node, graph, tenant, text, said, alarmed];
                tx.prepare_cached(insert)?.execute(values)?;
                let id = Some(tx.last_insert_rowid() as u64);
                let (node, graph, tenant) = (node.clone(), graph.clone(), tenant.clone());
                let (text, report, alarm) = (text.clone(), report.clone(), alarm.clone());
                logged.push(Event { id, time, kind: *kind, node, graph, tenant, text, report, alarm });
            }
            let last = logged.last().and_then(|e| e.id).unwrap_or(0);
            tx.execute("DELETE FROM events WHERE id <= ?1", [last.saturating_sub(MAX_EVENTS)])?;
            tx.commit()?;
            Ok(logged)
        })
    }

    /// The newest events that are visible, of a graph or of all, oldest first.
    pub fn last_events(
        &self,
        graph: Option<&str>,
        limit: u32,
        visible: impl Fn(&Event) -> bool,
    ) -> Result<Vec<Event>> {
        let mut events: Vec<Event> = self.with(|db| {
            let mut q = db.prepare(
                "SELECT id, time, kind, graph, text, node, tenant, report, alarm FROM events WHERE ?1 IS NULL OR graph = ?1
                 ORDER BY id DESC",
            )?;
            let all = q.query_map([graph], event)?;
            let visible = all.filter(|e| e.as_ref().map_or(true, &visible));
            visible.take(limit as usize).collect()
        })?;
        events.reverse();
        Ok(events)
    }

    /// Events after the one with this number, at most `limit`.
    pub fn events_after(&self, id: u64, limit: u32) -> Result<Vec<Event>> {
        self.with(|db| {
            let mut q = db.prepare(
                "SELECT id, time, kind, graph, text, node, tenant, report, alarm FROM events WHERE id > ?1 ORDER BY id LIMIT ?2",
            )?;
            let id = i64::try_from(id).unwrap_or(i64::MAX);
            q.query_map(params![id, limit], event)?.collect()
        })
    }
}

/// An event of a row.
fn event(row: &rusqlite::Row<'_>) -> rusqlite::Result<Event> {
    let kind: String = row.get(2)?;
    let kind = Kind::from_name(&kind);
    let (graph, text, node, tenant) = (row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?);
    let report = row.get::<_, Option<String>>(7)?.and_then(|text| serde_json::from_str(&text).ok());
    let alarm = row.get::<_, Option<String>>(8)?.and_then(|text| serde_json::from_str(&text).ok());
    Ok(Event { id: Some(row.get(0)?), time: row.get(1)?, kind, node, graph, tenant, text, report, alarm })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;

    const SCHEMA: Schema = Schema { version: 1, tables: "", additions: "", readers: false };

    fn store() -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().unwrap();
        let store = Database::open(&dir.path().join("node.db"), SCHEMA).unwrap();
        (dir, store)
    }

    #[test]
    fn events_are_numbered_across_restarts_and_the_oldest_go() {
        let (dir, store) = store();
        for i in 0..10 {
            if i == 3 {
                // As many transactions as events would take a while: jump.
                let jump = "UPDATE sqlite_sequence SET seq = 10000 WHERE name = 'events'";
                store.with(|db| db.execute(jump, [])).unwrap();
            }
            let events =
                |text: &str| NewEvent { text: text.into(), ..NewEvent::of(Kind::Applied, Some("a")) };
            store.log(&[events("text")]).unwrap();
        }
        let ids: Vec<u64> = store.events_after(0, 100).unwrap().iter().filter_map(|e| e.id).collect();
        assert_eq!(ids.last(), Some(&10_007));
        assert!(ids.iter().all(|id| *id > 7), "{ids:?}");
        drop(store);
        let store = Database::open(&dir.path().join("node.db"), SCHEMA).unwrap();
        let events = NewEvent::of(Kind::Print, None);
        assert_eq!(store.log(&[events]).unwrap()[0].id, Some(10_008));
        assert_eq!(store.events_after(u64::MAX, 1).unwrap(), []);
    }
}
