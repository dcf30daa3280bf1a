//! The store of several controllers in etcd: a log of changes, and now and then all of it at once, so that the log stays short.
//!
//! ```text
//! /weir/leader               who leads; goes with a lease, and every write is under the condition that it is still the same
//! /weir/log/NUMBER           a change: "-- NAME", and the rows as SQL; or "-- NAME PIECES", and the rows are in pieces
//! /weir/parts/NUMBER/PIECE   pieces of a change that is too large for one request
//! /weir/snapshot             what stands for all changes up to a number
//! /weir/pieces/NAME/PIECE    its pieces
//! /weir/authority            the certificate authority: who can read it can be the controller
//! /weir/controllers/LEASE    the controllers that are there
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use weir_store::etcd::{Answer, Do, Etcd, If, NoAnswer, end_of};
use weir_store::shared::Log;
use weir_store::{Database, StoreError};

use super::term::Term;
use crate::store::Store;

pub(super) const LEADER: &str = "/weir/leader";
pub(super) const AUTHORITY: &str = "/weir/authority";
pub(super) const CONTROLLERS: &str = "/weir/controllers/";
const LOG: &str = "/weir/log/";
const PARTS: &str = "/weir/parts/";
const SNAPSHOT: &str = "/weir/snapshot";
const PIECES: &str = "/weir/pieces/";
/// Most bytes of a change in one request; etcd takes 1.5 MB unless it is told another number.
const PIECE: usize = 512 << 10;
/// Changes that are read at a time.
const AT_ONCE: u32 = 32;
/// So many bytes of changes are worth a snapshot, or as many as the last one had.
const WORTH: u64 = 4 << 20;
/// How long until etcd is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// Changes could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// etcd is silent, or refuses.
    #[error(transparent)]
    Etcd(#[from] NoAnswer),
    /// What it says makes no sense.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The copy is older than the log, or something is missing in it.
    #[error("the log goes on behind change {0}, the last that is known here")]
    Behind(u64),
}

/// A snapshot in etcd.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Snapshot {
    name: String,
    index: u64,
    pieces: usize,
    bytes: u64,
}

fn number(n: u64) -> String {
    format!("{n:020}")
}

fn log_key(index: u64) -> String {
    format!("{LOG}{}", number(index))
}

/// A text in pieces that are not too large.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while rest.len() > PIECE {
        let at = (0..=PIECE).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(PIECE);
        let (piece, more) = rest.split_at(at);
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

/// The controller that leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Leader {
    /// Its lease.
    pub lease: i64,
    /// Where it is reached; nowhere if it is no controller, but somebody who restores a backup.
    pub url: Option<String>,
}

/// The snapshot that etcd has.
fn snapshot(etcd: &Etcd) -> Result<Option<Snapshot>, NoAnswer> {
    Ok(etcd.get(SNAPSHOT)?.and_then(|e| serde_json::from_str(&e.value).ok()))
}

/// A copy with all that the log has.
pub(super) fn fresh(etcd: &Etcd, name: &str) -> Result<Arc<Database>, LogError> {
    let db = Store::copy(name)?;
    if let Some(Snapshot { name, index, pieces, .. }) = snapshot(etcd)? {
        let all = (0..pieces).map(|n| etcd.get(&format!("{PIECES}{name}/{}", number(n as u64))));
        // Without one of them there is another snapshot meanwhile.
        let all: Option<Vec<String>> =
            all.map(|e| e.map(|e| e.map(|e| e.value))).collect::<Result<_, _>>()?;
        db.load(&all.ok_or(LogError::Behind(0))?, index)?;
    }
    catch_up(etcd, &db)?;
    Ok(db)
}

/// Takes the changes that the log has, and the copy not.
pub(super) fn catch_up(etcd: &Etcd, db: &Database) -> Result<(), LogError> {
    loop {
        let applied = db.applied();
        let entries = etcd.range(&log_key(applied + 1), &end_of(LOG), AT_ONCE)?;
        if entries.is_empty() {
            let behind = snapshot(etcd)?.is_some_and(|s| s.index > applied);
            return if behind { Err(LogError::Behind(applied)) } else { Ok(()) };
        }
        for (entry, index) in entries.into_iter().zip(applied + 1..) {
            if entry.key != log_key(index) {
                return Err(LogError::Behind(index - 1));
            }
            let (head, change) = entry.value.split_once('\n').unwrap_or((&entry.value, ""));
            match head.split(' ').nth(2).and_then(|n| n.parse::<u64>().ok()) {
                None => db.apply(index, change)?,
                Some(parts) => {
                    let keys = (0..parts).map(|n| format!("{PARTS}{}/{}", number(index), number(n)));
                    let all: Option<String> =
                        keys.map(|k| etcd.get(&k).map(|e| e.map(|e| e.value))).collect::<Result<_, _>>()?;
                    db.apply(index, &all.ok_or(LogError::Behind(index - 1))?)?;
                }
            }
        }
    }
}

fn another() -> String {
    "another controller leads".into()
}

/// A controller that leads writes to the log.
#[derive(Debug)]
pub(super) struct Leading {
    etcd: Arc<Etcd>,
    lease: i64,
    /// The revision of etcd that made it the leader.
    revision: u64,
    term: Arc<Mutex<Term>>,
    started: Instant,
    written: AtomicU64,
    /// Bytes since the last snapshot, and how many are worth one.
    bytes: AtomicU64,
    worth: AtomicU64,
    lost: watch::Sender<Option<String>>,
}

impl Leading {
    pub(super) fn new(
        etcd: Arc<Etcd>,
        lease: i64,
        revision: u64,
        term: Arc<Mutex<Term>>,
        started: Instant,
    ) -> Leading {
        // What the log had before is not known: it gets a snapshot soon.
        let (bytes, worth) = (AtomicU64::new(WORTH / 2), AtomicU64::new(WORTH));
        Leading {
            etcd,
            lease,
            revision,
            term,
            started,
            written: AtomicU64::new(0),
            bytes,
            worth,
            lost: watch::Sender::new(None),
        }
    }

    /// Returns why it does not lead any more, when that is so.
    pub(super) async fn lost(&self) -> String {
        let mut lost = self.lost.subscribe();
        match lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.term.lock().unwrap_or_else(PoisonError::into_inner).left(self.started.elapsed()).is_zero()
    }

    /// Asks etcd until it answers, as long as this controller leads.
    fn ask<T>(&self, f: impl Fn(&Etcd) -> Answer<T>) -> Result<T, String> {
        while !self.is_over() {
            match f(&self.etcd) {
                Ok(answer) => return Ok(answer),
                // Another controller may be let in.
                Err(e @ NoAnswer::Refused(_)) => return Err(e.to_string()),
                Err(e) => tracing::warn!("{e}"),
            }
            std::thread::sleep(AGAIN);
        }
        Err("etcd did not answer in time, and another controller may lead".into())
    }

    /// Writes if this controller still leads, and what is asked for beside that. Whether it is written.
    fn write(&self, beside: Option<If<'_>>, then: &[Do<'_>]) -> Result<bool, String> {
        let conditions: Vec<If<'_>> =
            beside.into_iter().chain([If::Created(LEADER, self.revision)]).collect();
        Ok(self.ask(|etcd| etcd.transact(&conditions, then))?.is_some())
    }

    /// Writes a piece of something larger, which nobody reads before that is written.
    fn write_piece(&self, key: &str, piece: &str) -> Result<(), String> {
        if self.write(None, &[Do::Put(key, piece)])? { Ok(()) } else { Err(another()) }
    }

    /// Gives a key a value that nobody else gives it, under a condition that does not hold any more when it has it: so a request without an answer that arrives
    /// late, when it was asked for again and more was written behind it, does nothing.
    fn write_once(
        &self,
        condition: If<'_>,
        (key, value): (&str, &str),
        beside: &[Do<'_>],
    ) -> Result<(), String> {
        let then: Vec<Do<'_>> = [Do::Put(key, value)].into_iter().chain(beside.iter().copied()).collect();
        if self.write(Some(condition), &then)? {
            return Ok(());
        }
        // It may have been written by a request that had no answer.
        let there = self.ask(|etcd| etcd.get(key))?;
        if there.is_some_and(|e| e.value == value) { Ok(()) } else { Err(another()) }
    }

    fn try_append(&self, index: u64, change: &str) -> Result<(), String> {
        // Nobody else writes the same there.
        let name = format!("{:x}.{}", self.lease, self.written.fetch_add(1, Ordering::Relaxed));
        let (key, mut head, mut body) = (log_key(index), format!("-- {name}"), change);
        if change.len() > PIECE {
            let pieces = pieces(change);
            for (n, piece) in pieces.iter().enumerate() {
                self.write_piece(&format!("{PARTS}{}/{}", number(index), number(n as u64)), piece)?;
            }
            head = format!("{head} {}", pieces.len());
            body = "";
        }
        self.write_once(If::Created(&key, 0), (&key, &format!("{head}\n{body}")), &[])
    }

    /// Puts all that is in the copy in the place of the log, if that is worth it.
    pub(super) fn shorten(&self, db: &Database) -> Result<(), String> {
        if self.bytes.load(Ordering::Relaxed) < self.worth.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.replace(db, None)
    }

    /// Puts all that is in the copy in the place of the log: it stands for the changes up to that number, or for those that the copy has.
    pub(super) fn replace(&self, db: &Database, index: Option<u64>) -> Result<(), String> {
        let (applied, pieces) = db.dump().map_err(|e| e.to_string())?;
        let index = index.unwrap_or(applied);
        let name = format!("{}-{:x}", number(index), self.lease);
        let before = self.ask(|etcd| etcd.get(SNAPSHOT))?.map(|e| e.value);
        for (n, piece) in pieces.iter().enumerate() {
            self.write_piece(&format!("{PIECES}{name}/{}", number(n as u64)), piece)?;
        }
        let bytes = pieces.iter().map(|p| p.len() as u64).sum();
        let new = Snapshot { name: name.clone(), index, pieces: pieces.len(), bytes };
        let text = serde_json::to_string(&new).map_err(|e| e.to_string())?;
        let (log, parts) = (log_key(index + 1), format!("{PARTS}{}", number(index + 1)));
        let (own, behind) = (format!("{PIECES}{name}/"), end_of(&format!("{PIECES}{name}/")));
        let end = end_of(PIECES);
        let old = [
            Do::Remove(LOG, &log),
            Do::Remove(PARTS, &parts),
            Do::Remove(PIECES, &own),
            Do::Remove(&behind, &end),
        ];
        let condition = before.as_deref().map_or(If::Created(SNAPSHOT, 0), |b| If::Is(SNAPSHOT, b));
        self.write_once(condition, (SNAPSHOT, &text), &old)?;
        self.bytes.store(0, Ordering::Relaxed);
        self.worth.store(WORTH.max(bytes), Ordering::Relaxed);
        tracing::info!(index, bytes, "the log in etcd is short again");
        // What was replaced takes space until etcd forgets its history.
        if let Ok(Some(revision)) = self.etcd.transact(&[], &[])
            && let Err(e) = self.etcd.compact(revision)
        {
            tracing::debug!("{e}");
        }
        Ok(())
    }
}

impl Log for Leading {
    fn append(&self, index: u64, change: &str) -> Result<(), String> {
        let done = self.try_append(index, change);
        match &done {
            Ok(()) => _ = self.bytes.fetch_add(change.len() as u64 + 200, Ordering::Relaxed),
            Err(why) => _ = self.lost.send_replace(Some(why.clone())),
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_change_is_cut_between_characters() {
        let text = "ü".repeat(PIECE);
        let cut = pieces(&text);
        assert!(cut.len() > 1 && cut.iter().all(|p| p.len() <= PIECE));
        assert_eq!(cut.concat(), text);
        assert_eq!(pieces(""), [""]);
    }
}
