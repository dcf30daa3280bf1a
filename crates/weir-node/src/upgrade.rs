//! A data plane of another program takes the place of the one that runs, with all graphs, their state and the ports of devices.
//!
//! The new one gets the graphs as any data plane does, while the old one moves packets, but opens no ports. Then the old one copies what graphs have in
//! their tables, stands still for a moment, and gives the rest and its ports; which of both goes on is between the two (`weir_engine`'s `hand_over`).
//! Whatever fails, one of them has all; if both are lost, another is started, as at any other time.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use weir_api::events::Kind;
use weir_protocol::{Answer, Command};

use crate::connection::{CallError, DataPlane};
use crate::engine::Engine;
use crate::node::Node;
use crate::perform::{Runtime, WantedGraphs};
use crate::process::Process;

/// How often it is looked whether all graphs are in their desired state, and how many times.
const SETTLES: (Duration, u32) = (Duration::from_millis(100), 600);

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upgraded {
    /// The process that runs now.
    pub pid: u32,
    /// For how long packets waited; none if the old one was lost before it had given all.
    pub pause: Option<Duration>,
}

impl Node<Engine> {
    /// Does [`upgrade`](Node::upgrade) as soon as the graphs are in their desired state, unless the data plane runs this program already; says what came of it.
    pub(crate) async fn upgrade_when_settled(&self) {
        for _ in 0..SETTLES.1 {
            if self.view().settled && self.starting().is_empty() {
                break;
            }
            sleep(SETTLES.0).await;
        }
        let engine = self.view().engine.clone();
        let old = engine.split('@').next().and_then(|pid| pid.parse().ok());
        if old.is_some_and(|pid| self.plane.is_of_this_program(pid)) {
            tracing::info!("the data plane runs this program already");
            return;
        }
        let (kind, text) = match self.upgrade().await {
            Ok(Upgraded { pid, pause: Some(pause) }) => (
                Kind::Changed,
                format!(
                    "process {pid} is the data plane now; packets waited for {:.1} ms",
                    pause.as_secs_f64() * 1000.0
                ),
            ),
            Ok(Upgraded { pid, pause: None }) => (
                Kind::Failed,
                format!(
                    "the data plane ended before it had given all to process {pid}, which goes on with what it had copied by then"
                ),
            ),
            Err(e) => (Kind::Failed, format!("the data plane is not upgraded, and the old one goes on: {e}")),
        };
        tracing::info!("{text}");
        self.events.publish(kind, None, text).await;
    }

    /// Has a new data plane go on in place of the one that runs. Nothing else changes meanwhile.
    ///
    /// # Errors
    /// The old one cannot give something, or either is lost; then the old one goes on, or another is started.
    pub(crate) async fn upgrade(&self) -> Result<Upgraded, String> {
        let view = self.view();
        let mut change = self.changes.begin(view.graphs.keys().map(String::as_str)).await;
        change.observe().await.map_err(|e| self.lost(e))?;
        let view = self.view();
        let Some((old, before)) = change.known.clone() else { return Err("nothing is known of it".into()) };
        let old_pid = old.split('@').next().and_then(|pid| pid.parse().ok()).unwrap_or_default();
        let successor = Arc::new(self.plane.successor().await?);
        let mut next = Runtime::new(successor.clone(), self.store.clone());
        next.memory = change.memory;
        next.observe().await.map_err(|e| format!("{e:?}"))?;
        let Some((process, mut running)) = next.known.take() else {
            return Err("nothing is known of it".into());
        };
        // What is beside the data plane stays as it is.
        (running.functions, running.awake) = (before.functions.clone(), before.awake.clone());
        running.held_back.clone_from(&before.held_back);
        let runs = view.graphs.iter().filter(|(id, _)| !view.failures.contains_key(*id));
        let wanted: WantedGraphs<'_> = runs.map(|(id, e)| (id.as_str(), Some(&*e.graph))).collect();
        let (refused, _) =
            next.switches(&wanted, &process, &mut running).await.map_err(|e| format!("{e:?}"))?;
        if let Some((id, errors)) = refused.first_key_value() {
            return Err(format!("it does not run graph '{id}': {}", errors.join("; ")));
        }
        let _alone = self.plane.hold().await;
        let socket = successor.socket().display().to_string();
        let pid = successor.pid();
        let pause = match self.plane.call(Command::HandOver { socket }).await {
            Ok(Answer::HandedOver { pause_micros, .. }) => Some(Duration::from_micros(pause_micros)),
            Ok(other) => return Err(format!("it answered with {other:?}")),
            Err(CallError::Refused(errors)) => return Err(errors.join("; ")),
            Err(CallError::Lost(e)) => {
                // It may have ended as it should before its answer came.
                if self.plane.serves().await == Some(pid) {
                    None
                } else if Process::of(old_pid).is_some() {
                    return Err(e);
                } else {
                    let begin = Command::Begin { pid: 0, ports: Vec::new() };
                    successor.call(begin).await.map_err(|e| e.to_string())?;
                    None
                }
            }
        };
        change.known = Some((process.clone(), running));
        self.edit(|v| v.engine = process);
        Ok(Upgraded { pid, pause })
    }
}

/// Whether two paths lead to one file.
pub(crate) fn is_same_file(a: &std::path::Path, b: &std::path::Path) -> bool {
    let id = |path: &std::path::Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    id(a).is_some_and(|a| id(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_the_same_by_any_path() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&a, "x").unwrap();
        std::os::unix::fs::symlink(&a, &b).unwrap();
        assert!(is_same_file(&a, &b));
        std::fs::remove_file(&b).unwrap();
        std::fs::write(&b, "x").unwrap();
        assert!(!is_same_file(&a, &b) && !is_same_file(&a, &dir.path().join("c")));
    }
}
