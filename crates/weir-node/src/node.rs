//! The node: keeps desired graphs, and makes the data plane run them.

mod build;
mod settle;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use tokio::sync::{Notify, Semaphore};
use tokio::task::spawn_blocking;
use weir_model::graph::ServiceGraph;

use crate::accounts::Accounts;
use crate::archives::Archives;
use crate::changes::{Change, Changes, Others};
use crate::compute::Drivers;
use crate::connection::DataPlane;
use crate::desired::DesiredGraph;
use crate::images::Images;
use crate::membership::Membership;
use crate::metrics::Times;
use crate::monitoring::core::Monitors;
use crate::perform::{Runtime, StepError};
use crate::proof::{Proofs, follows_document};
use crate::queries::core::Queries;
use crate::queries::measure::Meter;
use crate::resources::Resources;
use crate::store::Store;
use weir_api::events::Kind;
use weir_auth::{Action, Principal};
use weir_net::WireGuardKey;
use weir_rest::events::Events;
use weir_rest::login::Login;
use weir_rest::precondition::Precondition;
use weir_rest::usage;
use weir_store::StoreError;
use weir_store::events::NewEvent;

pub use crate::apply::How;
pub use crate::view::{Applied, ApplyError, Entry, Outcome, View};

/// The node.
#[derive(Debug)]
pub struct Node<D> {
    /// The data plane.
    pub plane: Arc<D>,
    /// The store.
    pub store: Arc<Store>,
    /// The events.
    pub events: Events,
    /// Who may use the node.
    pub login: Arc<Login>,
    /// Run the functions that are not inline.
    pub drivers: Drivers,
    images: Vec<PathBuf>,
    /// Where images are that were added over REST, if there is a place.
    pub(crate) added: Option<PathBuf>,
    archives: Option<Arc<Archives>>,
    /// The public key of its ends of encrypted tunnels.
    pub(crate) wireguard: Option<WireGuardKey>,
    /// Workers of the data plane.
    pub(crate) workers: usize,
    /// Whether functions have cores of their own.
    pub(crate) bound: Mutex<bool>,
    /// What was said of the node first: from there on changes are events.
    pub(crate) described_first: std::sync::OnceLock<weir_api::domain::Domain>,
    /// What graphs may come to take altogether.
    pub(crate) resources: Resources,
    /// Whether they may come to take more.
    pub(crate) overcommit: bool,
    /// Which nodes' probes it hears.
    pub(crate) neighbours: crate::neighbours::Neighbours,
    /// Where it is.
    pub(crate) region: Option<String>,
    /// The container images, if this node can have any.
    pub(crate) containers: Option<Arc<weir_oci::Store>>,
    /// Hands out the runtime to one change at a time.
    pub(crate) changes: Changes<D>,
    view: RwLock<Arc<View>>,
    pub(crate) proofs: Arc<Proofs>,
    /// How long work took.
    pub(crate) times: Times,
    /// Graphs were applied that go back unless they are confirmed.
    pub(crate) unconfirmed: Notify,
    /// Whether the node has a controller.
    pub membership: Membership,
    /// The queries that stand here.
    pub(crate) queries: Mutex<Queries>,
    /// Graphs are to be brought to their state apart from the others.
    pub(crate) unstarted: Notify,
    /// Graphs with functions that are not inline, which their first packets start just now.
    pub(crate) waking: Mutex<BTreeSet<String>>,
    /// As many of them as start at a time.
    pub(crate) slow_starts: Semaphore,
    /// A query was set.
    pub(crate) queried: Notify,
    /// What the documents of graphs have measured.
    pub(crate) monitors: Mutex<Monitors>,
    /// What the processor time of inline functions is reckoned from.
    pub(crate) meter: Mutex<Meter>,
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
        let mut queries = Queries::default();
        for q in store.queries()? {
            queries.put(0, &q.name, q.query, q.of_domain, q.ended);
        }
        let plane = Arc::new(plane);
        Ok(Node {
            changes: Changes::new(Runtime::new(plane.clone(), store.clone())),
            plane,
            login: Arc::new(Login::off(store.database().clone())?),
            events: Events::new(store.database().clone()),
            store,
            drivers: Drivers::default(),
            images,
            added: None,
            archives: None,
            wireguard: None,
            workers: 1,
            bound: Mutex::default(),
            described_first: std::sync::OnceLock::new(),
            resources: Resources::of_machine(),
            overcommit: false,
            neighbours: crate::neighbours::Neighbours::default(),
            region: None,
            containers: None,
            view: RwLock::new(Arc::new(View { graphs, ..View::default() })),
            proofs: Arc::default(),
            times: Times::default(),
            unconfirmed: Notify::new(),
            membership: Membership::default(),
            queries: Mutex::new(queries),
            queried: Notify::new(),
            unstarted: Notify::new(),
            waking: Mutex::default(),
            slow_starts: Semaphore::new(crate::suspend::AT_A_TIME),
            monitors: Mutex::default(),
            meter: Mutex::default(),
        })
    }

    /// What the node has at this moment.
    pub fn view(&self) -> Arc<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What graphs may come to take of what the node has, and what the data plane has taken.
    pub(crate) fn accounts(&self, view: &View) -> Accounts {
        let mut accounts = Accounts::new(self.resources);
        let pid = view.engine.split('@').next().and_then(|pid| pid.parse().ok());
        accounts.set_data_plane(pid.and_then(usage::resident).unwrap_or_default());
        // A graph that is being changed counts as the larger of both.
        for g in view.all() {
            let before = accounts.claim(&g.id).unwrap_or_default();
            accounts.set(&g.id, g.needs().or(before));
        }
        accounts
    }

    /// Ends what is beside the data plane, for a node that ends with its packets.
    pub async fn end_functions(&self) {
        // What was not looked at yet has an earlier daemon left.
        for driver in self.drivers.all() {
            match driver.observe().await {
                Ok(_) => driver.end_all().await,
                Err(e) => tracing::warn!("functions of kind {} are not ended: {e}", driver.kind().name()),
            }
        }
    }

    /// The graph of this identifier.
    pub fn graph(&self, id: &str) -> Option<Entry> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).graphs.get(id).cloned()
    }

    pub(crate) fn edit<T>(&self, f: impl FnOnce(&mut View) -> T) -> T {
        f(Arc::make_mut(&mut self.view.write().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Reads the image directories.
    pub async fn images(&self) -> Images {
        let (directories, archives) = (self.images.clone(), self.archives.clone());
        spawn_blocking(move || Images::read(&directories, archives.as_deref())).await.unwrap_or_default()
    }

    /// The same, with all scripts tried.
    pub async fn tried_images(&self) -> Images {
        let images = self.images().await;
        spawn_blocking(move || images.tried()).await.unwrap_or_default()
    }

    /// What a document would become.
    ///
    /// # Errors
    /// This node cannot run it, or another graph has its access points.
    pub async fn compile(&self, document: ServiceGraph) -> Result<DesiredGraph, ApplyError> {
        let mut compiled = self.compile_all(vec![document.into()]).await?;
        let graph =
            compiled.pop().unwrap_or_else(|| Err(ApplyError::Internal("nothing was compiled".into())));
        graph.map(|graph| DesiredGraph::clone(&graph))
    }

    /// Removes a graph; if it is removed from what runs only later, says why. To be run to its end: spawn it as a task of its own.
    ///
    /// # Errors
    /// There is none, who asks may not, or is not its `owner`, the condition does not hold, or the store failed.
    pub async fn remove(
        &self,
        id: &str,
        condition: &Precondition,
        by: &Principal,
        owner: Option<&str>,
    ) -> Result<Option<String>, ApplyError> {
        let mut change = self.changes.begin([id].into_iter()).await;
        self.remove_with(&mut change, id, condition, by, owner).await
    }

    /// The same as part of a change.
    pub(crate) async fn remove_with(
        &self,
        change: &mut Change<'_, D>,
        id: &str,
        condition: &Precondition,
        by: &Principal,
        owner: Option<&str>,
    ) -> Result<Option<String>, ApplyError> {
        let Some(entry) = self.graph(id) else { return Err(ApplyError::Missing(id.into())) };
        by.may(&Action::DeleteGraph(entry.owned()))?;
        self.membership.may_change(id, entry.graph.owner.as_deref(), owner).map_err(ApplyError::Owned)?;
        self.check(id, condition)?;
        let name = id.to_owned();
        self.blocking(move |store| store.remove(&name)).await?;
        self.edit(|v| {
            v.graphs.remove(id);
            v.failures.remove(id);
            v.drift.remove(id);
            v.to_roll_back.remove(id);
            v.starting.remove(id);
        });
        let done = match self.settle_if_new(change).await {
            Ok(true) => Ok(()),
            Ok(false) => match change.perform(&BTreeMap::from([(id, None)]), Others::GoOn).await {
                Ok(_) => {
                    self.edit(|v| change.show(v));
                    Ok(())
                }
                Err(e) => Err(self.lost(e)),
            },
            Err(e) => Err(e),
        };
        self.bind_functions();
        self.forget_state(&entry.graph).await;
        let later = done.err();
        if let Some(e) = &later {
            tracing::warn!("graph {id} is removed from the data plane later: {e}");
        }
        let tenant = entry.graph.tenant().map(str::to_owned);
        let removed = NewEvent { tenant, ..NewEvent::of(Kind::Removed, Some(id)) };
        self.events.publish_all(vec![removed]).await;
        Ok(later)
    }

    /// Brings the data plane to the desired state as far as it goes; graphs that failed are tried again.
    ///
    /// # Errors
    /// The data plane cannot be reached.
    pub async fn converge(&self) -> Result<(), String> {
        let mut change = self.changes.begin([].into_iter()).await;
        change.forget();
        let begun = Instant::now();
        let done = self.settle(&mut change, true).await;
        self.times.reconcile.observe(begun.elapsed());
        done
    }

    /// Waits for the changes that are under way, if any.
    pub async fn quiesce(&self) {
        self.changes.quiesce().await;
    }

    /// The data plane was lost: it has to be brought to the desired state anew.
    pub fn unsettle(&self) {
        self.edit(|v| v.settled = false);
    }

    /// A function's handler, which the document does not set, was written: remembers what the document does not have.
    pub async fn wrote(&self, graph: &Entry, function: &str, name: &str, handler: &str, value: &str) {
        let (desired, h, v) = (graph.graph.clone(), handler.to_owned(), value.to_owned());
        let same = spawn_blocking(move || follows_document(&desired, &h, &v)).await.unwrap_or(false);
        let (id, what) = (graph.graph.id.clone(), (function.to_owned(), name.to_owned()));
        let value = (!same).then(|| value.to_owned());
        let engine = self.view().engine.clone();
        self.edit(|view| {
            let of = view.drift.entry(id.clone()).or_default();
            match &value {
                Some(value) => drop(of.insert(what.clone(), value.clone())),
                None => drop(of.remove(&what)),
            }
            view.drift.retain(|_, of| !of.is_empty());
        });
        let kept =
            self.blocking(move |store| store.set_drift(&id, &what.0, &what.1, value.as_deref(), &engine));
        if let Err(e) = kept.await {
            tracing::warn!("a handler write is forgotten when the daemon ends: {e}");
        }
    }

    /// The data plane, or the store, was lost on the way.
    pub(crate) fn lost(&self, e: StepError) -> String {
        match e {
            StepError::Lost(e) => {
                self.unsettle();
                e
            }
            StepError::Store(e) => e.to_string(),
            StepError::Driver(e) => e,
        }
    }

    /// Rolls the store back after refused changes; what it still owes is remembered.
    pub(crate) async fn take_back(&self, ids: &[String]) -> Result<(), StoreError> {
        let names = ids.to_vec();
        let result = self.blocking(move |store| store.roll_back(&names)).await;
        self.edit(|v| {
            for id in ids {
                match &result {
                    Ok(_) => drop(v.to_roll_back.remove(id)),
                    Err(_) => drop(v.to_roll_back.insert(id.clone())),
                }
            }
        });
        result.map(drop)
    }

    pub(crate) async fn confirm(&self, ids: Vec<String>) {
        if let Err(e) = self.blocking(move |store| store.confirm(&ids)).await {
            // They run and are stored; after a restart they are confirmed then.
            tracing::warn!("what runs is not marked so: {e}");
        }
    }

    pub(crate) async fn blocking<T: Send + 'static>(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::CallError;
    use crate::reconcile::lsi0_of;
    use crate::testing::wire;
    use std::sync::Mutex;
    use weir_api::problem::Problem;
    use weir_protocol::{Answer, Command, VERSION};

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
        let how = How::default();
        let problem =
            Problem::from(node.put(graph.clone(), how.clone(), &Precondition::default()).await.unwrap_err());
        assert!(problem.status == 507 && problem.detail.contains("disk is full"), "{problem}");
        assert!(node.plane.0.lock().unwrap().is_empty() && node.view().graphs.is_empty());
        store.set_full(false);
        node.put(graph, how, &Precondition::default()).await.unwrap();
        let loaded = node.plane.0.lock().unwrap().clone();
        assert_eq!(loaded, [lsi0_of("eth1"), lsi0_of("eth2"), "a".to_owned()]);
    }
}
