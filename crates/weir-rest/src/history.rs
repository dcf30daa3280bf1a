//! The revisions of graphs, as both daemons show them; and that those go back which nobody confirms.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use utoipa::IntoParams;
use weir_api::history::{History, MAX_CONFIRM, MAX_MESSAGE, Revision};
use weir_api::problem::Problem;
use weir_auth::audit::Who;
use weir_auth::{Action, Graph};
use weir_store::Database;
use weir_store::history::{Confirm, Note, Pending, Timers};

use crate::login::Caller;

/// How long until a graph is tried again that could not go back.
const RETRY: Duration = Duration::from_secs(5);
/// How long the timers are believed without a look at the store.
const LOOK: Duration = Duration::from_secs(600);

/// To which revision a graph is rolled back, and how.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RollBackOptions {
    /// The revision; without it, the one before the current one.
    pub revision: Option<u64>,
    /// Why: kept with the new revision.
    pub message: Option<String>,
    /// The graph goes back after so many seconds to what was confirmed last, unless it is confirmed; without this it stays.
    #[param(minimum = 1, maximum = 86400)]
    pub confirm: Option<u32>,
}

/// What is kept of a change that is asked for.
///
/// # Errors
/// The message is too long or no text, or the time is none.
pub fn note(caller: &Caller, message: Option<String>, confirm: Option<u32>) -> Result<Note, Problem> {
    let wrong = |what: String| Problem::new(StatusCode::BAD_REQUEST, what);
    let message = message.map(|m| m.trim().to_owned()).filter(|m| !m.is_empty());
    if let Some(m) = &message {
        let length = m.chars().count();
        if length > MAX_MESSAGE {
            let text = format!("message: it has {length} characters; at most {MAX_MESSAGE} are taken");
            return Err(wrong(text));
        }
        if let Some(c) = m.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t') {
            return Err(wrong(format!("message: it has the control character {c:?}; give plain text")));
        }
    }
    let confirm = match confirm {
        None => Confirm::Final,
        Some(seconds @ 1..=MAX_CONFIRM) => Confirm::Within(seconds),
        Some(other) => {
            let text = format!("confirm: {other} is no number of seconds from 1 to {MAX_CONFIRM}");
            return Err(wrong(text));
        }
    };
    Ok(Note { who: Some(Who::from(&**caller.principal())), message, same_as: None, confirm })
}

/// Works with the store where it may wait for the disk.
async fn blocking<T: Send + 'static>(
    store: &Arc<Database>,
    f: impl FnOnce(&Database) -> weir_store::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let store = store.clone();
    Ok(spawn_blocking(move || f(&store)).await.map_err(|_| Problem::internal())??)
}

/// The revisions of a graph that the caller may read.
///
/// # Errors
/// The store failed.
pub async fn list(
    store: &Arc<Database>,
    caller: &Caller,
    id: &str,
    current: u64,
) -> Result<History, Problem> {
    let name = id.to_owned();
    let kept = blocking(store, move |s| s.history(&name)).await?;
    // What is newer is only proposed. Earlier ones may be another tenant's.
    let kept = kept.into_iter().filter(|k| {
        k.revision.revision <= current
            && caller.can(&Action::ReadGraph(Graph { id, tenant: k.tenant.as_deref() }))
    });
    Ok(History { id: id.to_owned(), current, revisions: kept.map(|k| k.revision).collect() })
}

/// One of them, as the daemon stored it; without a number the one before the current one.
///
/// # Errors
/// It is not kept, or the store failed.
pub async fn find<T: serde::de::DeserializeOwned + Send + 'static>(
    store: &Arc<Database>,
    history: History,
    revision: Option<u64>,
) -> Result<(Revision, T), Problem> {
    let none = |what: String| Problem::new(StatusCode::NOT_FOUND, what);
    let History { id, current, revisions } = history;
    let kept: Vec<String> = revisions.iter().rev().map(|r| r.revision.to_string()).collect();
    let found = match revision {
        Some(number) => revisions.into_iter().find(|r| r.revision == number).ok_or_else(|| {
            none(format!("graph '{id}' has no revision {number}; these are kept: {}", kept.join(", ")))
        })?,
        None => revisions.into_iter().find(|r| r.revision < current).ok_or_else(|| {
            none(format!("no revision of graph '{id}' before the current one, {current}, is kept"))
        })?,
    };
    let number = found.revision;
    let name = id.clone();
    let desired = blocking(store, move |s| s.revision(&name, number)).await?;
    // The oldest go at any time.
    let gone = || none(format!("revision {number} of graph '{id}' is not kept any more"));
    Ok((found, desired.ok_or_else(gone)?))
}

/// A graph stays anyway.
pub fn nothing_to_confirm(id: &str) -> Problem {
    let text = format!(
        "graph '{id}' has nothing to confirm: it stays as it is (if it was applied with a time to confirm it, that is over)"
    );
    Problem::new(StatusCode::CONFLICT, text)
}

/// Why a graph goes back.
pub fn not_confirmed(pending: &Pending) -> String {
    let (revision, seconds) = (pending.revision.revision, pending.unconfirmed.seconds);
    format!("revision {revision} was not confirmed within {seconds} s")
}

/// What is kept of a graph that goes back.
pub fn went_back(pending: &Pending) -> Note {
    Note {
        who: None,
        message: Some(not_confirmed(pending)),
        same_as: pending.unconfirmed.back,
        confirm: Confirm::Final,
    }
}

/// Makes graphs go back that nobody confirms, for ever; `changed` says that the store has others.
pub async fn watch<F: Future<Output = Result<(), Problem>>>(
    store: Arc<Database>,
    changed: &Notify,
    go_back: impl Fn(String, u64) -> F,
) {
    let (start, mut timers) = (Instant::now(), Timers::default());
    loop {
        let mut pause = LOOK;
        match blocking(&store, Database::unconfirmed).await {
            Ok(unconfirmed) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
                timers.set(&unconfirmed, now, start.elapsed());
            }
            Err(e) => {
                tracing::error!("which graphs go back cannot be read: {e}");
                pause = RETRY;
            }
        }
        for key in timers.due(start.elapsed()) {
            if let Err(e) = go_back(key.0.clone(), key.1).await {
                tracing::error!(graph = key.0, "it cannot go back from revision {} now: {e}", key.1);
            }
            // One that went back is not there any more when the store is read again.
            timers.postpone(&key, start.elapsed() + RETRY);
            pause = Duration::ZERO;
        }
        let next = timers.next().map_or(pause, |at| at.saturating_sub(start.elapsed()).min(pause));
        _ = timeout(next, changed.notified()).await;
    }
}
