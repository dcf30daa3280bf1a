//! Graphs that run while packets come (CHANGE paper, section 2.4): the first starts them, and when none come any more they end, with their state on disk.
//!
//! While such a graph sleeps, it is a record here and a row in LSI-0, where what comes for it waits. Whether it sleeps is a fact of the data plane
//! ([`Running::awake`](crate::reconcile::Running::awake)), not of what is desired: a daemon that comes back finds out by looking.

mod idle;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use weir_api::events::Kind;
use weir_protocol::{Answer, Command};
use weir_rest::to_the_end;
use weir_store::events::NewEvent;
use weir_switch::compile::CompileError;
use weir_switch::lsi0::ACCESS_POINTS;

use crate::changes::{Change, Others};
use crate::connection::{CallError, DataPlane};
use crate::desired::DesiredGraph;
use crate::instance::Kind as FunctionKind;
use crate::node::{ApplyError, Node};
use crate::perform::Refusals;
use crate::reconcile::lsi0_of;
use crate::view::Failure;
use idle::{Came, Idle};
pub(crate) use state::Saved;

/// How often is looked whether packets came.
const LOOK: Duration = Duration::from_secs(1);
/// Graphs that are started at a time: what else is to be done waits no longer than they take, if their functions are inline.
pub(crate) const AT_A_TIME: usize = 64;

/// The result of suspending a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspended {
    /// It sleeps.
    Done,
    /// It slept already.
    Before,
    /// Packets wait in it.
    Busy,
}

impl<D: DataPlane> Node<D> {
    /// Starts graphs that sleep, with the state that they were suspended with; gives why some were not started. With `asked`, also those whose state could
    /// not be used before. To be run to its end.
    ///
    /// # Errors
    /// The data plane cannot be reached.
    pub async fn wake(&self, ids: &BTreeSet<String>, asked: bool) -> Result<Refusals, ApplyError> {
        let mut change = self.changes.begin(ids.iter().map(String::as_str)).await;
        self.settle_if_new(&mut change).await.map_err(ApplyError::Lost)?;
        let view = self.view();
        let awake = change.awake();
        let sleeps = |id: &String| !awake.contains(id) && (asked || !view.failures.contains_key(id));
        let entries = ids.iter().filter(|id| sleeps(id)).filter_map(|id| view.graphs.get(id));
        let graphs: Vec<Arc<DesiredGraph>> =
            entries.filter(|e| e.graph.on_demand.is_some()).map(|e| e.graph.clone()).collect();
        if graphs.is_empty() {
            return Ok(Refusals::new());
        }
        let names: Vec<String> = graphs.iter().map(|g| g.id.clone()).collect();
        let path = self.store.path().to_owned();
        let read = names.clone();
        let saved = spawn_blocking(move || {
            read.into_iter().map(|id| (state::read(&path, &id), id)).collect::<Vec<_>>()
        });
        let mut refused = Refusals::new();
        for (saved, id) in saved.await.map_err(|e| ApplyError::Internal(e.to_string()))? {
            match saved {
                Ok(None) => {}
                Ok(Some(saved)) => drop(change.saved.insert(id, saved)),
                Err(what) => drop(refused.insert(id, vec![what])),
            }
        }
        let wanted: BTreeMap<&str, Option<&DesiredGraph>> =
            graphs.iter().map(|g| (g.id.as_str(), Some(&**g))).collect();
        for attempt in 0..2 {
            let readable = names.iter().filter(|id| !refused.contains_key(*id));
            readable.for_each(|id| change.set_awake(id, true));
            // Functions that are not inline take their time.
            let slow = change.with_functions(&wanted);
            let others = if slow.is_empty() { Others::Wait } else { Others::GoOn };
            change.waking.extend(slow.iter().cloned());
            self.edit(|v| change.show(v));
            let done = change.perform(&wanted, others).await;
            change.waking.retain(|id| !slow.contains(id));
            if done.is_err() {
                names.iter().for_each(|id| drop(change.saved.remove(id)));
                self.edit(|v| change.show(v));
            }
            refused.extend(done.map_err(|e| ApplyError::Lost(self.lost(e)))?);
            let awake = change.awake();
            let asleep = names.iter().filter(|id| !refused.contains_key(*id) && !awake.contains(*id));
            let asleep: Vec<String> = asleep.cloned().collect();
            if asleep.is_empty() {
                break;
            }
            // Another change may have found that the data plane was lost, and looked anew what runs.
            if attempt > 0 {
                let what = || vec!["the data plane was lost while it started".to_owned()];
                refused.extend(asleep.into_iter().map(|id| (id, what())));
            }
        }
        names.iter().for_each(|id| drop(change.saved.remove(id)));
        if !refused.is_empty() {
            refused.keys().for_each(|id| change.set_awake(id, false));
            let again = wanted.iter().filter(|(id, _)| refused.contains_key(**id));
            let again = again.map(|(id, g)| (*id, *g)).collect();
            change.perform(&again, Others::GoOn).await.map_err(|e| ApplyError::Lost(self.lost(e)))?;
        }
        let started: Vec<String> = names.into_iter().filter(|id| !refused.contains_key(id)).collect();
        self.edit(|v| {
            change.show(v);
            started.iter().for_each(|id| drop(v.failures.remove(id)));
            for (id, errors) in &refused {
                let failure = Failure { reason: errors.join("; "), lasts: true };
                v.failures.insert(id.clone(), failure);
            }
        });
        drop(change);
        self.bind_functions();
        let path = self.store.path().to_owned();
        let running = started.clone();
        _ = spawn_blocking(move || running.iter().for_each(|id| state::remove(&path, id))).await;
        let by = if asked { "it was resumed" } else { "its first packet started it" };
        let ran = started.iter().map(|id| (Kind::Notice, id, by.to_owned()));
        let failed = refused.iter().map(|(id, errors)| (Kind::Failed, id, errors.join("; ")));
        let tenant = |id: &str| view.graphs.get(id).and_then(|e| e.graph.tenant().map(str::to_owned));
        let event = |(kind, id, text): (Kind, &String, String)| NewEvent {
            text,
            tenant: tenant(id),
            ..NewEvent::of(kind, Some(id))
        };
        self.events.publish_all(ran.chain(failed).map(event).collect()).await;
        Ok(refused)
    }

    /// Starts a graph now. With `anew`, without the state that it was suspended with.
    ///
    /// # Errors
    /// There is none that sleeps, or it cannot be started.
    pub async fn resume(&self, id: &str, anew: bool) -> Result<(), ApplyError> {
        self.on_demand(id)?;
        if anew && !self.view().awake.contains(id) {
            let (path, id) = (self.store.path().to_owned(), id.to_owned());
            _ = spawn_blocking(move || state::remove(&path, &id)).await;
        }
        let mut refused = self.wake(&BTreeSet::from([id.to_owned()]), true).await?;
        refused.remove(id).map_or(Ok(()), |errors| Err(ApplyError::Refused(errors)))
    }

    /// A graph that its first packet starts.
    fn on_demand(&self, id: &str) -> Result<Arc<DesiredGraph>, ApplyError> {
        let entry = self.graph(id).ok_or_else(|| ApplyError::Missing(id.to_owned()))?;
        if entry.graph.on_demand.is_some() {
            return Ok(entry.graph);
        }
        let what = "it runs at all times; with \"start: first-packet\" in its document it can be suspended"
            .to_owned();
        Err(ApplyError::Invalid(vec![CompileError { at: "sffg.start".into(), what }]))
    }

    /// Ends what runs of a graph, with the state of its inline functions on disk, until a packet comes; with `quiet`, only if no packets wait in it. To be
    /// run to its end.
    ///
    /// # Errors
    /// It cannot sleep, its state cannot be had or kept, or the data plane was lost. It goes on.
    pub async fn suspend(&self, id: &str, quiet: bool) -> Result<Suspended, ApplyError> {
        let mut change = self.changes.begin([id].into_iter()).await;
        self.settle_if_new(&mut change).await.map_err(ApplyError::Lost)?;
        let graph = self.on_demand(id)?;
        if !change.awake().contains(id) {
            return Ok(Suspended::Before);
        }
        let wanted: BTreeMap<&str, Option<&DesiredGraph>> = BTreeMap::from([(id, Some(&*graph))]);
        // What comes from now on is not part of the state: it waits, and is what the graph goes on with.
        change.hold_back(id, true);
        let kept = match self.perform_one(&mut change, &wanted).await {
            Ok(()) => self.keep_state(&graph, quiet).await,
            Err(e) => Err(e),
        };
        change.hold_back(id, false);
        let sleeps = matches!(kept, Ok(true));
        if sleeps {
            change.set_awake(id, false);
        }
        let done = self.perform_one(&mut change, &wanted).await;
        self.edit(|v| change.show(v));
        drop(change);
        if !kept? {
            return Ok(Suspended::Busy);
        }
        done?;
        self.bind_functions();
        let tenant = graph.tenant().map(str::to_owned);
        let text = "it is suspended: the next packet for it starts it".to_owned();
        let event = NewEvent { text, tenant, ..NewEvent::of(Kind::Notice, Some(id)) };
        self.events.publish_all(vec![event]).await;
        Ok(Suspended::Done)
    }

    async fn perform_one(
        &self,
        change: &mut Change<'_, D>,
        wanted: &BTreeMap<&str, Option<&DesiredGraph>>,
    ) -> Result<(), ApplyError> {
        let refused =
            change.perform(wanted, Others::Wait).await.map_err(|e| ApplyError::Lost(self.lost(e)))?;
        match refused.into_values().next() {
            None => Ok(()),
            Some(errors) => Err(ApplyError::Refused(errors)),
        }
    }

    /// Writes the state of a graph to disk; false if it is to be quiet and packets wait in it.
    async fn keep_state(&self, graph: &DesiredGraph, quiet: bool) -> Result<bool, ApplyError> {
        let mut functions = Vec::new();
        for f in graph.functions.iter().filter(|f| f.kind == FunctionKind::Inline) {
            let export = Command::Export { graph: graph.id.clone(), function: f.element.clone() };
            match self.plane.call(export).await {
                Ok(Answer::Text { text }) if quiet && state::has_packets(&text) => return Ok(false),
                Ok(Answer::Text { text }) => functions.push((f.element.clone(), text)),
                Ok(other) => {
                    return Err(ApplyError::Lost(format!("it answered Export with {other:?}")));
                }
                Err(CallError::Lost(e)) => return Err(ApplyError::Lost(e)),
                Err(CallError::Refused(errors)) => return Err(ApplyError::Refused(errors)),
            }
        }
        let saved = Saved { tag: graph.tag.clone(), functions };
        let (path, id) = (self.store.path().to_owned(), graph.id.clone());
        let written = spawn_blocking(move || state::write(&path, &id, &saved)).await;
        written
            .map_err(|e| ApplyError::Internal(e.to_string()))?
            .map_err(|e| ApplyError::Refused(vec![e]))?;
        Ok(true)
    }

    /// Forgets the state that a graph was suspended with.
    pub(crate) async fn forget_state(&self, graph: &DesiredGraph) {
        if graph.on_demand.is_none() {
            return;
        }
        let (path, id) = (self.store.path().to_owned(), graph.id.clone());
        _ = spawn_blocking(move || state::remove(&path, &id)).await;
    }

    /// What came for graphs that their first packet starts.
    async fn came(&self) -> Came {
        let view = self.view();
        let on_demand = || view.graphs.values().filter(|e| e.graph.on_demand.is_some());
        let interfaces: BTreeSet<&str> =
            on_demand().flat_map(|e| &e.graph.attachments).map(|a| a.interface.as_str()).collect();
        let mut came = Came::default();
        for interface in interfaces {
            let handler = format!("{ACCESS_POINTS}.came");
            let read = Command::Read { graph: lsi0_of(interface), handler };
            if let Ok(Answer::Text { text }) = self.plane.call(read).await {
                came.add(&text);
            }
        }
        came
    }

    /// Looks which graphs have nothing to do, and which ones packets wait for that were not said.
    async fn look_for_idle(self: &Arc<Node<D>>, idle: &mut Idle, now: Duration) {
        let view = self.view();
        if !view.graphs.values().any(|e| e.graph.on_demand.is_some()) {
            return;
        }
        let came = self.came().await;
        let limits = view.graphs.iter().filter(|(id, _)| view.awake.contains(*id));
        let limits = limits.filter_map(|(id, e)| Some((id.as_str(), e.graph.on_demand?.idle?)));
        for id in idle.due(limits.collect(), &came, now) {
            let (node, name) = (self.clone(), id.clone());
            match to_the_end(async move { node.suspend(&name, true).await }).await {
                Ok(Suspended::Done | Suspended::Before) => {}
                Ok(Suspended::Busy) => tracing::debug!("graph {id} is not suspended: packets wait in it"),
                Err(e) => tracing::warn!("graph {id} is not suspended: {e}"),
            }
        }
        let asleep = |id: &String| !view.awake.contains(id) && view.graphs.contains_key(id);
        let waiting: BTreeSet<String> = came.waiting().filter(|id| asleep(id)).cloned().collect();
        if !waiting.is_empty() {
            self.wake_all(waiting).await;
        }
    }

    /// Starts graphs, some at a time. Those with functions that are not inline take their time: nobody waits for them, and each is started by itself.
    async fn wake_all(self: &Arc<Node<D>>, ids: BTreeSet<String>) {
        let view = self.view();
        let kinds = |id: &String| view.graphs.get(id).into_iter().flat_map(|e| &e.graph.functions);
        let (slow, quick): (Vec<String>, Vec<String>) =
            ids.into_iter().partition(|id| kinds(id).any(|f| f.kind != FunctionKind::Inline));
        for id in slow {
            if self.waking().insert(id.clone()) {
                let node = self.clone();
                tokio::spawn(async move {
                    let waking = Waking { node, id };
                    let _turn = waking.node.slow_starts.acquire().await;
                    waking.node.clone().wake_some(BTreeSet::from([waking.id.clone()])).await;
                });
            }
        }
        for some in quick.chunks(AT_A_TIME) {
            self.clone().wake_some(some.iter().cloned().collect()).await;
        }
    }

    async fn wake_some(self: Arc<Node<D>>, ids: BTreeSet<String>) {
        if let Err(e) = to_the_end(async move { self.wake(&ids, false).await }).await {
            tracing::warn!("graphs are not started by their first packets: {e}");
        }
    }

    fn waking(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.waking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A graph that is being started: it may be again when this is dropped, however the start ended.
struct Waking<D: DataPlane> {
    node: Arc<Node<D>>,
    id: String,
}

impl<D: DataPlane> Drop for Waking<D> {
    fn drop(&mut self) {
        self.node.waking().remove(&self.id);
    }
}

/// Starts graphs as their first packets are said, for ever.
pub(crate) async fn start_on_packets<D: DataPlane>(
    node: Arc<Node<D>>,
    mut said: mpsc::UnboundedReceiver<String>,
) {
    while let Some(first) = said.recv().await {
        let mut ids = BTreeSet::from([first]);
        while let Ok(more) = said.try_recv() {
            ids.insert(more);
        }
        node.wake_all(ids).await;
    }
}

/// Suspends graphs for which no packets come, for ever.
pub(crate) async fn suspend_idle<D: DataPlane>(node: Arc<Node<D>>) {
    let (begun, mut idle) = (Instant::now(), Idle::default());
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        node.look_for_idle(&mut idle, begun.elapsed()).await;
    }
}
