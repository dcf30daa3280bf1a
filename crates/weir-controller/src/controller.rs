//! The controller: changes of the domain, each whole or not at all, and what is known of it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use tokio::sync::Notify;
use weir_api::events::Kind;
use weir_api::members::{LinkSettings, NodeDetails, NodeSummary, Presence};
use weir_api::problem::Problem;
use weir_auth::Graph;
use weir_model::graph::WhenLost;
use weir_model::nearest::nearest;
use weir_rest::events::Events;
use weir_rest::login::Login;
use weir_rest::metrics::Histogram;
use weir_store::StoreError;
use weir_store::events::NewEvent;
use weir_tls::authority::Authority;

use crate::fleet::Fleet;
use crate::lost::Failures;
use crate::requests::offer::Offer;
use crate::reserved::vlan_in_use;
use crate::store::{Member, Store, Stored};
use crate::view::View;

/// How a controller works.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// How long certificates of nodes hold.
    pub certificates: Duration,
    /// Whether tunnels between nodes are encrypted.
    pub encrypts: bool,
    /// What becomes of graphs that do not say it when a node of theirs is lost.
    pub when_lost: WhenLost,
    /// What those who ask for processing may have; without it nobody may ask.
    pub offer: Option<Arc<Offer>>,
}

/// The controller.
#[derive(Debug)]
pub struct Controller {
    /// The store.
    pub store: Arc<Store>,
    /// The events.
    pub events: Events,
    /// The nodes that are connected.
    pub fleet: Fleet,
    /// Who may do what.
    pub login: Arc<Login>,
    /// Makes the certificates of nodes.
    pub authority: Arc<Authority>,
    /// How long those hold.
    pub certificates: Duration,
    /// What those who ask for processing may have.
    pub(crate) offer: std::sync::RwLock<Option<Arc<Offer>>>,
    /// Who asks for it, and how often.
    pub(crate) asking: crate::requests::Asking,
    /// Held while a request is given what it needs, before `changing`.
    pub(crate) requesting: tokio::sync::Mutex<()>,
    /// How often nodes were asked what they are to others.
    pub(crate) domains_asked: AtomicU64,
    /// The graphs of which a function is moved now, and what is done.
    pub(crate) moves: std::sync::Mutex<BTreeMap<String, String>>,
    /// A move is over.
    pub(crate) moved: Notify,
    /// Held while anything changes, but for a move, which needs it at its beginning.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Held while images are added and removed, and, together, by those who bring nodes to what there is.
    pub(crate) imaging: tokio::sync::RwLock<()>,
    /// Graphs were applied that go back unless they are confirmed.
    pub(crate) unconfirmed: Notify,
    /// How long it took to make nodes run what they are to run, or to find that they do.
    pub(crate) reconcile: Histogram,
    /// How long changes of graphs took.
    pub(crate) change: Histogram,
    /// When it started.
    pub(crate) started: Instant,
    /// The graphs that could not be placed anew.
    pub(crate) failures: Mutex<Failures>,
    view: RwLock<Arc<View>>,
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Seconds since the epoch.
pub(crate) fn now() -> u64 {
    now_ms() / 1000
}

/// The nodes of a link by name, with what is said of it in that order.
fn in_order(a: &str, b: &str, settings: LinkSettings) -> ((String, String), LinkSettings) {
    if a <= b {
        return ((a.to_owned(), b.to_owned()), settings);
    }
    let addresses = settings.addresses.map(|[first, second]| [second, first]);
    ((b.to_owned(), a.to_owned()), LinkSettings { addresses, ..settings })
}

impl Controller {
    /// A controller with what the store remembers.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn new(
        store: Arc<Store>,
        login: Login,
        authority: Arc<Authority>,
        settings: Settings,
    ) -> Result<Arc<Controller>, StoreError> {
        store.begin()?;
        let Settings { certificates, encrypts, when_lost, offer } = settings;
        let view = View {
            members: store.nodes()?,
            graphs: store.graphs()?,
            removed: store.removed()?,
            known: BTreeMap::new(),
            policies: store.policies()?,
            requests: store.requests()?,
            queries: store.queries()?,
            images: store.images()?,
            declared: store.links()?,
            encrypts,
            when_lost,
        };
        let controller = Arc::new(Controller {
            login: Arc::new(login),
            events: Events::new(store.database().clone()),
            fleet: Fleet::new(store.marking().clone()),
            store,
            authority,
            certificates,
            offer: std::sync::RwLock::new(offer),
            asking: crate::requests::Asking::default(),
            requesting: tokio::sync::Mutex::new(()),
            domains_asked: AtomicU64::new(0),
            moves: std::sync::Mutex::default(),
            moved: Notify::new(),
            changing: tokio::sync::Mutex::new(()),
            imaging: tokio::sync::RwLock::new(()),
            unconfirmed: Notify::new(),
            reconcile: Histogram::default(),
            change: Histogram::default(),
            started: Instant::now(),
            failures: Mutex::default(),
            view: RwLock::new(Arc::new(view)),
        });
        let (of_usage, of_owner) = (Arc::downgrade(&controller), Arc::downgrade(&controller));
        controller.login.set_usage(move |tenant| {
            of_usage.upgrade().map(|c| c.view().usage(tenant, None)).unwrap_or_default()
        });
        controller
            .events
            .set_owner(move |id| of_owner.upgrade()?.view().graphs.get(id)?.graph.tenant.clone());
        Ok(controller)
    }

    /// As whom it owns graphs of nodes.
    pub fn owner(&self) -> String {
        self.authority.pin().to_string()
    }

    /// What is wanted and known.
    pub fn view(&self) -> Arc<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn edit<T>(&self, f: impl FnOnce(&mut View) -> T) -> T {
        f(Arc::make_mut(&mut self.view.write().unwrap_or_else(PoisonError::into_inner)))
    }

    pub(crate) async fn blocking<T: Send + 'static, E: Into<Problem> + Send + 'static>(
        &self,
        f: impl FnOnce(&Store) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem> {
        let store = self.store.clone();
        let done = weir_rest::blocking(self.store.database(), move || f(&store)).await;
        done.ok_or_else(Problem::internal)?.map_err(Into::into)
    }

    pub(crate) async fn tell(
        &self,
        kind: Kind,
        node: Option<&str>,
        graph: Option<&str>,
        text: impl Into<String>,
    ) {
        let node = node.map(str::to_owned);
        let event = NewEvent { node, text: text.into(), ..NewEvent::of(kind, graph) };
        self.events.publish_all(vec![event]).await;
    }

    /// The graph of that identifier.
    ///
    /// # Errors
    /// There is none.
    pub fn graph(&self, id: &str) -> Result<Stored, Problem> {
        self.graph_for(id, |_| true)
    }

    /// The same for somebody who knows of some graphs only: of others they are not told.
    ///
    /// # Errors
    /// There is none, as far as they know.
    pub fn graph_for(&self, id: &str, knows: impl Fn(Graph<'_>) -> bool) -> Result<Stored, Problem> {
        let view = self.view();
        let known = |(id, g): (&'_ String, &'_ Stored)| knows(g.graph.owned(id));
        view.graphs.get(id).filter(|g| knows(g.graph.owned(id))).cloned().ok_or_else(|| {
            let others = view.graphs.iter().filter(|g| known(*g)).map(|(id, _)| id.as_str());
            let hint = nearest(id, others);
            Problem::new(StatusCode::NOT_FOUND, format!("there is no graph '{id}'{hint}"))
        })
    }

    /// The node of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn member(&self, name: &str) -> Result<Member, Problem> {
        let view = self.view();
        view.members.get(name).cloned().ok_or_else(|| {
            let hint = nearest(name, view.members.keys().map(String::as_str));
            Problem::new(StatusCode::NOT_FOUND, format!("there is no node '{name}'{hint}"))
        })
    }

    /// A node, as others see it.
    pub fn summary(&self, view: &View, name: &str, member: &Member) -> NodeSummary {
        let known = view.known.get(name).cloned().unwrap_or_default();
        let connected = self.fleet.get(name);
        NodeSummary {
            name: name.to_owned(),
            state: if connected.is_some() { Presence::Online } else { Presence::Offline },
            since: known.since,
            cordoned: member.cordoned,
            address: connected.map(|c| c.address),
            version: known.version,
            graphs: view.graphs.values().filter(|g| g.graph.parts.contains_key(name)).count(),
            resources: known.domain.map(|d| d.resources),
            trouble: known.trouble,
        }
    }

    /// A node in full.
    ///
    /// # Errors
    /// There is none.
    pub fn details(&self, name: &str) -> Result<NodeDetails, Problem> {
        let member = self.member(name)?;
        let view = self.view();
        let known = view.known.get(name).cloned().unwrap_or_default();
        let placed = view.graphs.iter().filter(|(_, g)| g.graph.parts.contains_key(name));
        let own = known.graphs.iter().filter(|g| g.owner.is_none()).map(|g| g.id.clone());
        Ok(NodeDetails {
            summary: self.summary(&view, name, &member),
            joined: member.joined,
            certificate: member.certificate,
            placed: placed.map(|(id, _)| id.clone()).collect(),
            own: own.collect(),
            domain: known.domain,
        })
    }

    /// A node has a new certificate.
    ///
    /// # Errors
    /// There is no such node any more, or the store cannot be written.
    pub async fn renewed(&self, name: &str, certificate: u64) -> Result<(), Problem> {
        let _changing = self.changing.lock().await;
        let member = Member { certificate, ..self.member(name)? };
        let (node, kept) = (name.to_owned(), member.clone());
        self.blocking(move |s| s.keep_node(&node, &kept)).await?;
        self.edit(|v| v.members.insert(name.to_owned(), member));
        Ok(())
    }

    /// A node gets no new graphs, or gets some again.
    ///
    /// # Errors
    /// There is no such node, or the store cannot be written.
    pub async fn cordon(&self, name: &str, cordoned: bool) -> Result<(), Problem> {
        let _changing = self.changing.lock().await;
        let member = Member { cordoned, ..self.member(name)? };
        let (node, kept) = (name.to_owned(), member.clone());
        self.blocking(move |s| s.keep_node(&node, &kept)).await?;
        self.edit(|v| v.members.insert(name.to_owned(), member));
        let what = if cordoned { "cordoned: it gets no new graphs" } else { "uncordoned" };
        self.tell(Kind::Notice, Some(name), None, what).await;
        Ok(())
    }

    /// Keeps what the operator says of the link between two nodes.
    ///
    /// # Errors
    /// There are no such nodes, or the store cannot be written.
    pub async fn put_link(&self, a: &str, b: &str, settings: LinkSettings) -> Result<(), Problem> {
        let _changing = self.changing.lock().await;
        self.member(a)?;
        self.member(b)?;
        if a == b {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "a link is between two nodes"));
        }
        if let Some(vlans) = settings.vlans
            && let Some((vlan, graph)) = vlan_in_use(&self.view(), vlans)
        {
            let text = format!("VLAN {vlan} is an access point of graph '{graph}'; give tunnels other ones");
            return Err(Problem::new(StatusCode::CONFLICT, text));
        }
        let (key, settings) = in_order(a, b, settings);
        let (ends, kept) = (key.clone(), settings.clone());
        self.blocking(move |s| s.keep_link((&ends.0, &ends.1), Some(&kept))).await?;
        self.edit(|v| v.declared.insert(key, settings));
        Ok(())
    }

    /// Forgets what the operator said of the link between two nodes.
    ///
    /// # Errors
    /// Nothing was said of it, or the store cannot be written.
    pub async fn remove_link(&self, a: &str, b: &str) -> Result<(), Problem> {
        let _changing = self.changing.lock().await;
        let (key, _) = in_order(a, b, LinkSettings::default());
        if !self.view().declared.contains_key(&key) {
            let text = format!("nothing was said of a link between nodes '{a}' and '{b}'");
            return Err(Problem::new(StatusCode::NOT_FOUND, text));
        }
        let ends = key.clone();
        self.blocking(move |s| s.keep_link((&ends.0, &ends.1), None)).await?;
        self.edit(|v| v.declared.remove(&key));
        Ok(())
    }

    /// Forgets a node. Its connection is not taken any more.
    ///
    /// # Errors
    /// There is none, or graphs are to run there.
    pub async fn remove_node(&self, name: &str) -> Result<(), Problem> {
        let _changing = self.changing.lock().await;
        let details = self.details(name)?;
        if !details.placed.is_empty() {
            let text = format!(
                "node '{name}' is to run {}; move them with 'weir drain {name}', or delete them first",
                details.placed.join(", ")
            );
            return Err(Problem::new(StatusCode::CONFLICT, text));
        }
        let node = name.to_owned();
        self.blocking(move |s| s.remove_node(&node)).await?;
        let of_node: Vec<(String, String)> =
            self.view().declared.keys().filter(|(a, b)| a == name || b == name).cloned().collect();
        for (a, b) in of_node {
            let ends = (a.clone(), b.clone());
            self.blocking(move |s| s.keep_link((&ends.0, &ends.1), None)).await?;
            self.edit(|v| v.declared.remove(&(a, b)));
        }
        if let Some(connected) = self.fleet.get(name) {
            self.fleet.remove(name, connected.number);
        }
        self.edit(|v| {
            v.members.remove(name);
            v.known.remove(name);
        });
        self.tell(Kind::NodeRemoved, Some(name), None, "").await;
        Ok(())
    }
}
