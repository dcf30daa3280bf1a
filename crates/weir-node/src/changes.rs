//! One change of what runs at a time, but for what takes long: while functions of its graphs start or end, a change lets others go on.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex as Lock, MutexGuard as LockGuard, PoisonError};

use tokio::sync::{Mutex, MutexGuard, Notify, Semaphore};
use tokio::task::JoinSet;

use crate::compute::{ComputeError, Drivers};
use crate::connection::DataPlane;
use crate::instance::{Instance, InstanceId, Kind};
use crate::perform::{Refusals, Runtime, StepError, WantedGraphs};

/// Functions that are brought to work at a time: what they start shares the cores.
const FUNCTIONS_AT_A_TIME: usize = 16;

/// The runtime, and the changes that want it.
#[derive(Debug)]
pub struct Changes<D> {
    runtime: Mutex<Runtime<D>>,
    /// Graphs whose functions start or end while others have the runtime.
    under_way: Lock<BTreeSet<String>>,
    ended: Notify,
}

/// A change that is made.
#[derive(Debug)]
pub struct Change<'a, D> {
    of: &'a Changes<D>,
    /// `None` only in [`Change::meanwhile`].
    runtime: Option<MutexGuard<'a, Runtime<D>>>,
}

/// The operations that are allowed while functions start or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// Change other graphs.
    GoOn,
    /// Nothing.
    Wait,
}

impl<D> Changes<D> {
    /// Changes of what this runtime runs.
    pub fn new(runtime: Runtime<D>) -> Changes<D> {
        Changes { runtime: Mutex::new(runtime), under_way: Lock::default(), ended: Notify::new() }
    }

    /// The runtime, for whoever has it alone.
    pub fn get_mut(&mut self) -> &mut Runtime<D> {
        self.runtime.get_mut()
    }

    /// Begins a change of these graphs as soon as no other change of them is under way. Of other graphs it leaves alone
    /// those that are [under way](Change::is_under_way).
    pub async fn begin<'n>(&self, graphs: impl Iterator<Item = &'n str> + Clone) -> Change<'_, D> {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let change = Change { of: self, runtime: Some(self.runtime.lock().await) };
            if !graphs.clone().any(|g| change.is_under_way(g)) {
                return change;
            }
            drop(change);
            ended.await;
        }
    }

    /// Waits until nothing is under way.
    pub async fn quiesce(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            drop(self.runtime.lock().await);
            if self.under_way().is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn under_way(&self) -> LockGuard<'_, BTreeSet<String>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> Change<'_, D> {
    /// Whether functions of a graph start or end for another change.
    pub fn is_under_way(&self, graph: &str) -> bool {
        self.of.under_way().contains(graph)
    }

    /// Waits for work on functions of these graphs, and lets others have the runtime meanwhile if they may.
    pub async fn meanwhile<T>(
        &mut self,
        graphs: &BTreeSet<String>,
        others: Others,
        work: impl Future<Output = T>,
    ) -> T {
        if others == Others::Wait {
            return work.await;
        }
        let _mark = Mark::new(self.of, graphs);
        self.runtime = None;
        let done = work.await;
        self.runtime = Some(self.of.runtime.lock().await);
        done
    }
}

impl<D> Deref for Change<'_, D> {
    type Target = Runtime<D>;

    fn deref(&self) -> &Runtime<D> {
        match &self.runtime {
            Some(runtime) => runtime,
            None => unreachable!("a change has the runtime but for `meanwhile`, which borrows it"),
        }
    }
}

impl<D> DerefMut for Change<'_, D> {
    fn deref_mut(&mut self) -> &mut Runtime<D> {
        match &mut self.runtime {
            Some(runtime) => runtime,
            None => unreachable!("a change has the runtime but for `meanwhile`, which borrows it"),
        }
    }
}

/// Graphs are marked as under way until this is dropped, however the work ends.
struct Mark<'a, D> {
    of: &'a Changes<D>,
    graphs: &'a BTreeSet<String>,
}

impl<'a, D> Mark<'a, D> {
    fn new(of: &'a Changes<D>, graphs: &'a BTreeSet<String>) -> Mark<'a, D> {
        of.under_way().extend(graphs.iter().cloned());
        Mark { of, graphs }
    }
}

impl<D> Drop for Mark<'_, D> {
    fn drop(&mut self) {
        self.of.under_way().retain(|g| !self.graphs.contains(g));
        self.of.ended.notify_waiters();
    }
}

impl<D: DataPlane> Change<'_, D> {
    /// Makes the data plane run these graphs as they are wanted, or not at all. Gives what was refused; what is refused
    /// of a graph leaves a state from which the rest can be done, or taken back, later.
    ///
    /// # Errors
    /// The data plane was lost; what it runs is asked for before anything else is done.
    pub async fn perform(
        &mut self,
        wanted: &WantedGraphs<'_>,
        others: Others,
    ) -> Result<Refusals, StepError> {
        if self.known.is_none() {
            self.observe().await?;
        }
        let graphs: BTreeSet<String> = wanted.keys().map(|name| (*name).to_owned()).collect();
        let mut refused = Refusals::new();
        let first = self.functions_of(wanted);
        if !first.is_empty() {
            let drivers = self.drivers.clone();
            let done = self.meanwhile(&graphs, others, functions(drivers, first)).await?;
            refused = self.note_functions(done);
        }
        // What was refused keeps its switch and its access points as they are.
        let mut wanted = wanted.clone();
        wanted.retain(|name, _| !refused.contains_key(*name));
        if self.known.is_none() {
            self.observe().await?;
        }
        let Some((engine, mut running)) = self.known.take() else { return Ok(refused) };
        // If this fails on the way, nothing is known.
        let (more, left) = self.switches(&wanted, &engine, &mut running).await?;
        self.known = Some((engine, running));
        refused.extend(more);
        if !left.removals.is_empty() {
            let drivers = self.drivers.clone();
            let removed = self.meanwhile(&graphs, others, remove(drivers, left.removals)).await;
            if let Some((_, running)) = &mut self.known {
                removed.iter().for_each(|id| drop(running.functions.remove(id)));
            }
        }
        if !left.shrinking.is_empty() {
            let drivers = self.drivers.clone();
            let kind = |i: Instance| {
                let known = self.known.as_ref().and_then(|(_, running)| running.functions.get(&i.id));
                let kind = known.map_or(i.spec.kind(), |f| f.kind);
                (i, Some(kind))
            };
            let shrinking = left.shrinking.into_iter().map(kind).collect();
            let done = self.meanwhile(&graphs, others, functions(drivers, shrinking)).await?;
            refused.extend(self.note_functions(done));
        }
        Ok(refused)
    }
}

/// Makes functions that are not inline what is wanted, many at a time; with each goes the kind that it has now.
async fn functions(
    drivers: Drivers,
    instances: Vec<(Instance, Option<Kind>)>,
) -> Result<Vec<(Instance, Result<(), ComputeError>)>, StepError> {
    let free = Arc::new(Semaphore::new(FUNCTIONS_AT_A_TIME));
    let mut tasks = JoinSet::new();
    for (instance, before) in instances {
        let (drivers, free) = (drivers.clone(), free.clone());
        tasks.spawn(async move {
            let _turn = free.acquire().await;
            let done = bring_to_work(&drivers, &instance, before).await;
            (instance, done)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.push(done.map_err(|e| StepError::Lost(format!("internal error: {e}")))?);
    }
    Ok(all)
}

/// Removes functions, and gives those that are gone.
async fn remove(drivers: Drivers, functions: Vec<(InstanceId, Kind)>) -> Vec<InstanceId> {
    let mut tasks = JoinSet::new();
    for (id, kind) in functions {
        let driver = drivers.get(kind);
        tasks.spawn(async move {
            let done = match driver {
                Ok(driver) => driver.destroy(&id).await,
                Err(e) => Err(e),
            };
            (id, done)
        });
    }
    let mut removed = Vec::new();
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok((id, Ok(()))) => removed.push(id),
            // It is found again when the node is next brought to the desired state.
            Ok((id, Err(e))) => tracing::warn!("function {id} is not wholly removed: {e}"),
            Err(e) => tracing::error!("internal error: {e}"),
        }
    }
    removed
}

/// Brings a function to work, of which one of some kind may be there.
async fn bring_to_work(
    drivers: &Drivers,
    instance: &Instance,
    before: Option<Kind>,
) -> Result<(), ComputeError> {
    let kind = instance.spec.kind();
    let driver = drivers.get(kind)?;
    match before {
        Some(old) if old == kind => return driver.update(instance).await,
        Some(old) => drivers.get(old)?.destroy(&instance.id).await?,
        None => {}
    }
    driver.create(instance).await?;
    driver.start(&instance.id).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::CallError;
    use crate::store::Store;
    use std::time::Duration;
    use tokio::sync::oneshot;
    use tokio::time::timeout;
    use weir_protocol::{Answer, Command};

    /// Never asked.
    struct Nothing;

    impl DataPlane for Nothing {
        async fn call(&self, _: Command) -> Result<Answer, CallError> {
            Err(CallError::Lost("there is no data plane".to_owned()))
        }
    }

    const SOON: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_change_waits_for_one_of_the_same_graph_and_passes_by_others_however_they_end() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&dir.path().join("node.db")).unwrap());
        let changes = Arc::new(Changes::new(Runtime::new(Arc::new(Nothing), store)));
        let slow = |end: oneshot::Receiver<()>, others| {
            let changes = changes.clone();
            tokio::spawn(async move {
                let mut change = changes.begin(["a"].into_iter()).await;
                let graphs = BTreeSet::from(["a".to_owned()]);
                change.meanwhile(&graphs, others, async { drop(end.await) }).await;
            })
        };
        let waits = async |graph: &str| timeout(SOON, changes.begin([graph].into_iter())).await.is_err();

        let (end, ends) = oneshot::channel();
        let task = slow(ends, Others::GoOn);
        while !changes.begin([].into_iter()).await.is_under_way("a") {
            tokio::task::yield_now().await;
        }
        assert!(!waits("b").await && waits("a").await && timeout(SOON, changes.quiesce()).await.is_err());
        end.send(()).unwrap();
        task.await.unwrap();
        assert!(!waits("a").await);
        changes.quiesce().await;

        // One that is given up leaves nothing behind.
        let (_end, ends) = oneshot::channel();
        let task = slow(ends, Others::GoOn);
        while !changes.begin([].into_iter()).await.is_under_way("a") {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled() && !waits("a").await);

        let (end, ends) = oneshot::channel();
        let task = slow(ends, Others::Wait);
        tokio::task::yield_now().await;
        assert!(waits("b").await);
        end.send(()).unwrap();
        task.await.unwrap();
    }
}
