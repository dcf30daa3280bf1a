//! etcd as it promises to be: a log that only who leads writes to, one change after the other. Requests and answers may be lost on their way; then a change is written
//! or not, and who asked does not know.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_store::Database;
use weir_store::shared::Log;

/// So many changes behind a snapshot are worth another one.
const LONG: u64 = 100;

/// The message that is lost between client and etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The next request to write.
    Request,
    /// The answer to it.
    Answer,
}

#[derive(Debug, Default)]
struct State {
    log: Vec<String>,
    /// What stands for the first changes, and for how many.
    snapshot: (u64, Vec<String>),
    /// Counts leaders.
    term: u64,
    lost: Option<Lost>,
}

/// The cluster.
#[derive(Debug, Clone, Default)]
pub struct Etcd(Arc<Mutex<State>>);

/// A controller that leads, or did.
#[derive(Debug)]
struct Leading {
    etcd: Etcd,
    term: u64,
}

impl Etcd {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The controller with this copy of the store leads from now on, with all that was written before. Others write no more, whether they know it or not.
    ///
    /// # Errors
    /// What was written makes no sense to it.
    pub fn lead(&self, copy: &Database) -> Result<(), String> {
        let mut state = self.state();
        (state.term, state.lost) = (state.term + 1, None);
        let (first, pieces) = &state.snapshot;
        let first = *first;
        if first > 0 {
            copy.load(pieces, first).map_err(|e| e.to_string())?;
        }
        for (change, index) in state.log.iter().zip(1..).skip(first as usize) {
            copy.apply(index, change).map_err(|e| e.to_string())?;
        }
        if state.log.len() as u64 > first + LONG {
            state.snapshot = copy.dump().map_err(|e| e.to_string())?;
        }
        copy.lead(Arc::new(Leading { etcd: self.clone(), term: state.term })).map_err(|e| e.to_string())
    }

    /// Something gets lost.
    pub fn lose(&self, what: Lost) {
        self.state().lost = Some(what);
    }
}

impl Log for Leading {
    fn append(&self, index: u64, change: &str) -> Result<(), String> {
        let mut state = self.etcd.state();
        if state.term != self.term {
            return Err("another controller leads".into());
        }
        let lost = state.lost.take();
        if lost == Some(Lost::Request) {
            return Err("etcd did not answer".into());
        }
        if index != state.log.len() as u64 + 1 {
            return Err(format!("change {index} is written behind {}", state.log.len()));
        }
        state.log.push(change.to_owned());
        if lost.is_some() { Err("etcd did not answer".into()) } else { Ok(()) }
    }
}
