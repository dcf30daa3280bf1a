//! The node: keeps desired graphs, and makes the data plane run them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::task::spawn_blocking;
use weir_model::graph::ServiceGraph;
use weir_switch::lsi0::conflicts;

use crate::connection::DataPlane;
use crate::desired::DesiredGraph;
use crate::events::{Events, Kind};
use crate::images::Images;
use crate::perform::{StepError, blamed, perform};
use crate::proof::Proofs;
use crate::reconcile::{LSI0, Wanted};
use crate::store::{Store, StoreError};
use crate::view::{attached, fail};

pub use crate::view::{Applied, ApplyError, Entry, Failure, Outcome, View};

/// The node.
#[derive(Debug)]
pub struct Node<D> {
    /// The data plane.
    pub plane: D,
    /// The store.
    pub store: Arc<Store>,
    /// The events.
    pub events: Events,
    images: Vec<PathBuf>,
    /// Held while anything changes.
    changing: tokio::sync::Mutex<()>,
    view: RwLock<View>,
    proofs: Arc<Proofs>,
}

impl<D: DataPlane> Node<D> {
    /// A node with what the store remembers; nothing is done yet, see [`Node::converge`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn new(plane: D, store: Arc<Store>, images: Vec<PathBuf>) -> Result<Node<D>, StoreError> {
        let entry = |s: crate::store::Stored| Entry {
            graph: Arc::new(s.graph),
            revision: s.revision,
            pending: s.pending,
        };
        let graphs = store.graphs()?.into_iter().map(|(id, s)| (id, entry(s))).collect();
        Ok(Node {
            plane,
            events: Events::new(store.clone()),
            store,
            images,
            changing: tokio::sync::Mutex::default(),
            view: RwLock::new(View { graphs, ..View::default() }),
            proofs: Arc::default(),
        })
    }

    /// What the node has at this moment.
    pub fn view(&self) -> View {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The graph of this identifier.
    pub fn graph(&self, id: &str) -> Option<Entry> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).graphs.get(id).cloned()
    }

    fn edit<T>(&self, f: impl FnOnce(&mut View) -> T) -> T {
        f(&mut self.view.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the image directories.
    pub async fn images(&self) -> Images {
        let directories = self.images.clone();
        spawn_blocking(move || Images::read(&directories)).await.unwrap_or_default()
    }

    /// What a document would become.
    ///
    /// # Errors
    /// This node cannot run it, or another graph has its access points.
    pub async fn compile(&self, document: ServiceGraph) -> Result<DesiredGraph, ApplyError> {
        let images = self.images().await;
        let proofs = self.proofs.clone();
        let compile = move || DesiredGraph::new(&document, |f| images.find(f), &proofs);
        let compiled = spawn_blocking(compile).await;
        let graph =
            compiled.map_err(|e| ApplyError::Internal(e.to_string()))?.map_err(ApplyError::Invalid)?;
        let view = self.view();
        let others = view.graphs.values().filter(|e| e.graph.id != graph.id);
        let mut attachments: Vec<_> = others.flat_map(|e| e.graph.attachments()).collect();
        attachments.extend(graph.attachments());
        let found = conflicts(&attachments);
        if found.is_empty() { Ok(graph) } else { Err(ApplyError::Conflict(found)) }
    }

    /// Creates a graph, or changes it if `change` allows it. To be run to its end: spawn it as a task of its own.
    ///
    /// # Errors
    /// [`ApplyError`]; what ran before goes on.
    pub async fn put(&self, document: ServiceGraph, change: bool) -> Result<Applied, ApplyError> {
        let _changing = self.changing.lock().await;
        let id = document.id.to_string();
        let before = self.graph(&id);
        if before.is_some() && !change {
            return Err(ApplyError::Exists(id));
        }
        let graph = Arc::new(self.compile(document).await?);
        // What is amiss for other reasons must not count against this graph.
        self.settle(false).await.map_err(ApplyError::Lost)?;
        let view = self.view();
        if let Some(e) = &before
            && e.graph == graph
            && !view.failures.contains_key(&id)
        {
            return Ok(Applied { revision: e.revision, outcome: Outcome::Unchanged });
        }

        let proposal = graph.clone();
        let revision = self.blocking(move |store| store.propose(&proposal)).await?;
        let mut next = view;
        next.graphs.insert(id.clone(), Entry { graph: graph.clone(), revision, pending: false });
        next.failures.remove(&id);
        let refused = loop {
            match self.try_out(&next).await {
                Ok(()) => break None,
                Err(StepError::Refused { graph: at, errors }) => {
                    let at_fault = if at == LSI0 { blamed(&next, &errors) } else { BTreeSet::from([at]) };
                    if at_fault.is_empty() || at_fault.contains(&id) {
                        break Some(ApplyError::Refused(errors));
                    }
                    // An interface of another graph went away in the meantime.
                    fail(&mut next, &at_fault, true, &errors);
                }
                Err(StepError::Lost(e)) => break Some(ApplyError::Lost(e)),
                Err(StepError::Store(e)) => break Some(ApplyError::Store(e)),
            }
        };
        if let Some(error) = refused {
            let taken_back = self.take_back(&id).await;
            // If the data plane is lost, this is done when it is back.
            _ = self.settle(false).await;
            self.events
                .tell(Kind::Failed, Some(&id), format!("a change was refused: {error}{}", list(&error)))
                .await;
            taken_back?;
            return Err(error);
        }
        next.unsaved.remove(&id);
        self.edit(|v| *v = next);
        self.confirm(&id).await;
        let (kind, outcome) = match before {
            Some(_) => (Kind::Changed, Outcome::Changed),
            None => (Kind::Applied, Outcome::Created),
        };
        self.events.tell(kind, Some(&id), format!("revision {revision} runs")).await;
        Ok(Applied { revision, outcome })
    }

    /// Removes a graph. To be run to its end: spawn it as a task of its own.
    ///
    /// # Errors
    /// There is none, or the store failed. If the data plane cannot be reached it is removed there later.
    pub async fn remove(&self, id: &str) -> Result<(), ApplyError> {
        let _changing = self.changing.lock().await;
        if self.graph(id).is_none() {
            return Err(ApplyError::Missing(id.into()));
        }
        let name = id.to_owned();
        self.blocking(move |store| store.remove(&name)).await?;
        self.edit(|v| {
            v.graphs.remove(id);
            v.failures.remove(id);
            v.unsaved.remove(id);
        });
        if let Err(e) = self.settle(false).await {
            tracing::warn!("graph {id} is removed from the data plane later: {e}");
        }
        self.events.tell(Kind::Removed, Some(id), "").await;
        Ok(())
    }

    /// Brings the data plane to the desired state as far as it goes; graphs that failed are tried again.
    ///
    /// # Errors
    /// The data plane cannot be reached.
    pub async fn converge(&self) -> Result<(), String> {
        let _changing = self.changing.lock().await;
        self.settle(true).await
    }

    /// Waits for the change that is under way, if any.
    pub async fn quiesce(&self) {
        drop(self.changing.lock().await);
    }

    /// The data plane was lost: it has to be brought to the desired state anew.
    pub fn unsettle(&self) {
        self.edit(|v| v.settled = false);
    }

    /// As [`Node::converge`], by whoever holds `changing`.
    async fn settle(&self, retry: bool) -> Result<(), String> {
        for id in self.view().unsaved {
            if self.take_back(&id).await.is_ok() {
                self.edit(|v| v.unsaved.remove(&id));
            }
        }
        let before = self.view().failures;
        let mut next = self.view();
        if retry {
            next.failures.clear();
        }
        loop {
            match self.try_out(&next).await {
                Ok(()) => break,
                Err(StepError::Lost(e)) => {
                    self.unsettle();
                    return Err(e);
                }
                Err(StepError::Store(e)) => return Err(e.to_string()),
                Err(StepError::Refused { graph, errors }) => {
                    let lsi0 = graph == LSI0;
                    let mut at_fault = if lsi0 { blamed(&next, &errors) } else { BTreeSet::from([graph]) };
                    if at_fault.is_empty() {
                        // Nobody is named: all with access points that LSI-0 may fail with.
                        at_fault = attached(&next);
                    }
                    if !fail(&mut next, &at_fault, lsi0, &errors) {
                        return Err(format!("the data plane refuses: {}", errors.join("; ")));
                    }
                    self.give_up_proposals(&mut next, &at_fault).await;
                }
            }
        }
        next.settled = true;
        let failures = next.failures.clone();
        let pending: Vec<String> =
            next.graphs.iter().filter(|(_, e)| e.pending).map(|(id, _)| id.clone()).collect();
        next.graphs.values_mut().for_each(|e| e.pending = false);
        self.edit(|v| *v = next);
        for id in pending {
            self.confirm(&id).await;
        }
        for (id, failure) in failures.iter().filter(|(id, f)| before.get(*id) != Some(f)) {
            self.events.tell(Kind::Failed, Some(id), failure.reason.clone()).await;
        }
        for id in before.keys().filter(|id| !failures.contains_key(*id)) {
            self.events.tell(Kind::Recovered, Some(id), "it runs again").await;
        }
        Ok(())
    }

    /// Of the graphs at fault, those whose last change a crash cut short go back to what they were.
    async fn give_up_proposals(&self, next: &mut View, at_fault: &BTreeSet<String>) {
        for id in at_fault {
            if !next.graphs.get(id).is_some_and(|e| e.pending) {
                continue;
            }
            let name = id.clone();
            match self.blocking(move |store| store.roll_back(&name)).await {
                Ok(Some(graph)) => {
                    let revision = next.graphs.get(id).map_or(1, |e| e.revision.saturating_sub(1));
                    next.failures.remove(id);
                    next.graphs
                        .insert(id.clone(), Entry { graph: Arc::new(graph), revision, pending: false });
                }
                Ok(None) => {
                    next.failures.remove(id);
                    next.graphs.remove(id);
                }
                Err(e) => tracing::error!("graph {id} stays failed, its change cannot be taken back: {e}"),
            }
        }
    }

    async fn try_out(&self, view: &View) -> Result<(), StepError> {
        let wanted: Vec<Wanted<'_>> = view
            .graphs
            .iter()
            .filter(|(id, _)| view.failures.get(*id).is_none_or(|f| f.loads))
            .map(|(id, e)| Wanted { graph: &e.graph, attach: !view.failures.contains_key(id) })
            .collect();
        perform(&self.plane, &self.store, &wanted).await
    }

    /// Rolls the store back after a refused change; what it still owes is remembered.
    async fn take_back(&self, id: &str) -> Result<(), StoreError> {
        let name = id.to_owned();
        let result = self.blocking(move |store| store.roll_back(&name)).await;
        self.edit(|v| match &result {
            Ok(_) => v.unsaved.remove(id),
            Err(_) => v.unsaved.insert(id.to_owned()),
        });
        result.map(drop)
    }

    async fn confirm(&self, id: &str) {
        let name = id.to_owned();
        if let Err(e) = self.blocking(move |store| store.confirm(&name)).await {
            // It runs and is stored; after a restart it is confirmed then.
            tracing::warn!("graph {id} runs, but is not marked so: {e}");
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        blocking(&self.store, f).await
    }
}

/// Runs store work where it may wait for the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    store: &Arc<Store>,
    f: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let store = store.clone();
    let path = store.path().to_path_buf();
    let other = |e: tokio::task::JoinError| StoreError::Other { path, what: e.to_string() };
    spawn_blocking(move || f(&store)).await.map_err(other)?
}

fn list(error: &ApplyError) -> String {
    match error {
        ApplyError::Refused(errors) => format!(": {}", errors.join("; ")),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::CallError;
    use crate::rest::Problem;
    use crate::testing::wire;
    use std::sync::Mutex;
    use weir_engine::protocol::{Answer, Command, VERSION};

    /// Takes everything, and remembers what was loaded.
    #[derive(Default)]
    struct Willing(Mutex<Vec<String>>);

    impl DataPlane for Willing {
        async fn call(&self, command: Command) -> Result<Answer, CallError> {
            Ok(match command {
                Command::Hello => Answer::Hello { version: VERSION, pid: 1, started: 1 },
                Command::List => Answer::Graphs { graphs: vec![] },
                Command::Load { graph, .. } => {
                    self.0.lock().unwrap().push(graph);
                    Answer::Nothing
                }
                _ => Answer::Nothing,
            })
        }
    }

    #[tokio::test]
    async fn on_a_full_disk_nothing_is_done_and_the_client_learns_why() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&dir.path().join("node.db")).unwrap());
        let node = Node::new(Willing::default(), store.clone(), vec![]).unwrap();
        store.set_full(true);
        let mut document = wire("a", "eth1", "eth2");
        // More than fits in the pages that there are.
        for i in 0..500 {
            document += &format!(
                "  - {{id: x{i}, priority: 1, match: {{port_in: 'sap:l'}}, actions: {{output_to_port: 'sap:r'}}}}\n"
            );
        }
        let graph = ServiceGraph::parse(&document).unwrap();
        let problem = Problem::from(node.put(graph.clone(), true).await.unwrap_err());
        assert!(problem.status == 507 && problem.detail.contains("disk is full"), "{problem}");
        assert!(node.plane.0.lock().unwrap().is_empty() && node.view().graphs.is_empty());
        store.set_full(false);
        node.put(graph, true).await.unwrap();
        assert_eq!(*node.plane.0.lock().unwrap(), ["a", LSI0]);
    }
}
