//! The controller: changes of the domain, each whole or not at all, and what is known of it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{Method, StatusCode};
use serde_json::Value;
use weir_api::domain::Domain;
use weir_api::events::Kind;
use weir_api::graphs::{Changed, GraphSummary};
use weir_api::members::{NodeDetails, NodeSummary, Presence};
use weir_api::problem::{Mistake, Problem};
use weir_model::graph::ServiceGraph;
use weir_model::nearest::nearest;
use weir_rest::body::Document;
use weir_rest::events::Events;
use weir_rest::precondition::Precondition;
use weir_store::StoreError;
use weir_store::events::NewEvent;
use weir_tls::authority::Authority;

use crate::choose::{Candidate, Choice, WhyNot, choose, named};
use crate::core::{Held, Step, Wanted, steps};
use crate::fleet::{Fleet, FleetError};
use crate::store::{DomainGraph, Member, Part, Store, Stored};

/// What is known of a node.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Since when it is connected, or not, in milliseconds since the epoch.
    pub since: u64,
    /// Its version.
    pub version: Option<String>,
    /// What it said last of itself.
    pub domain: Option<Domain>,
    /// Its graphs, as it said last.
    pub graphs: Vec<GraphSummary>,
    /// What is wrong with it.
    pub trouble: Vec<String>,
}

/// What is wanted, and what is known.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The nodes that have joined.
    pub members: BTreeMap<String, Member>,
    /// The graphs of the domain.
    pub graphs: BTreeMap<String, Stored>,
    /// What is known of each node.
    pub known: BTreeMap<String, Known>,
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
    /// Makes the certificates of nodes.
    pub authority: Arc<Authority>,
    /// How long those hold.
    pub certificates: Duration,
    /// Held while anything changes.
    changing: tokio::sync::Mutex<()>,
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

/// The entity tag of a graph of the domain.
pub(crate) fn tag(stored: &Stored) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(stored.graph.document.to_string());
    let text: String = hash.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("{}-{text}", stored.revision)
}

impl Controller {
    /// A controller with what the store remembers.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn new(
        store: Arc<Store>,
        authority: Arc<Authority>,
        certificates: Duration,
    ) -> Result<Controller, StoreError> {
        let view = View { members: store.nodes()?, graphs: store.graphs()?, known: BTreeMap::new() };
        Ok(Controller {
            events: Events::new(store.database().clone()),
            store,
            fleet: Fleet::default(),
            authority,
            certificates,
            changing: tokio::sync::Mutex::new(()),
            view: RwLock::new(Arc::new(view)),
        })
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
        let done = tokio::task::spawn_blocking(move || f(&store)).await;
        done.map_err(|_| Problem::internal())?.map_err(Into::into)
    }

    pub(crate) async fn tell(
        &self,
        kind: Kind,
        node: Option<&str>,
        graph: Option<&str>,
        text: impl Into<String>,
    ) {
        let (node, graph) = (node.map(str::to_owned), graph.map(str::to_owned));
        self.events.publish_all(vec![NewEvent { kind, node, graph, text: text.into() }]).await;
    }

    /// The graph of that identifier.
    ///
    /// # Errors
    /// There is none.
    pub fn graph(&self, id: &str) -> Result<Stored, Problem> {
        let view = self.view();
        view.graphs.get(id).cloned().ok_or_else(|| {
            let hint = nearest(id, view.graphs.keys().map(String::as_str));
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

    /// Where a graph would go.
    ///
    /// # Errors
    /// Nowhere, and why.
    pub fn choose(&self, graph: &ServiceGraph, asked: Option<&str>) -> Result<Choice, Problem> {
        self.choose_without(graph, asked, None)
    }

    fn choose_without(
        &self,
        graph: &ServiceGraph,
        asked: Option<&str>,
        without: Option<&str>,
    ) -> Result<Choice, Problem> {
        let view = self.view();
        let named: Vec<&str> = named(graph).into_iter().collect();
        let asked = match (asked, &named[..]) {
            (Some(asked), _) => Some(asked),
            (None, []) => None,
            (None, [one]) => Some(*one),
            (None, _) => {
                let text = "the graph is to be on several nodes, and this controller puts a graph on one: name one node";
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text));
            }
        };
        if let Some(asked) = asked {
            self.member(asked).map_err(|p| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, p.detail))?;
        }
        let now = view.graphs.get(graph.id.as_str());
        let nodes: Vec<Candidate<'_>> = view
            .members
            .iter()
            .filter(|(name, _)| Some(name.as_str()) != without)
            .map(|(name, member)| Candidate {
                name,
                online: self.fleet.get(name).is_some(),
                cordoned: member.cordoned,
                domain: view.known.get(name).and_then(|k| k.domain.as_ref()),
                graphs: view.graphs.values().filter(|g| g.graph.parts.contains_key(name)).count(),
                has_it: now.is_some_and(|g| g.graph.parts.contains_key(name)),
            })
            .collect();
        choose(graph, &nodes, asked).map_err(|why| {
            let text = match nodes.is_empty() {
                true => {
                    "the domain has no nodes: 'weir token' makes a token, and 'weir node --join' takes it"
                }
                false => "no node can take the graph",
            };
            let reason = |w: WhyNot| Mistake::from(format!("node {}: {}", w.node, w.reason));
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text).with(why.into_iter().map(reason))
        })
    }

    /// Creates a graph, or changes it. To be run to its end.
    ///
    /// # Errors
    /// It was refused; what was before goes on.
    pub async fn put(
        &self,
        document: Document,
        asked: Option<&str>,
        change: bool,
        condition: &Precondition,
    ) -> Result<(Changed, bool), Problem> {
        let _changing = self.changing.lock().await;
        let id = document.graph.id.to_string();
        let before = self.view().graphs.get(&id).cloned();
        self.check(&id, before.as_ref(), condition)?;
        if before.is_some() && !change {
            let text = format!("there is a graph '{id}' already; change it with PUT /v1/graphs/{id}");
            return Err(Problem::new(StatusCode::CONFLICT, text));
        }
        let choice = self.choose(&document.graph, asked)?;
        let new = domain_graph(&document, &choice.node)?;
        if let Some(stored) = before.as_ref().filter(|b| is_same(&b.graph, &new)) {
            let text = "it is so already".to_owned();
            tracing::debug!(graph = id, "{text}");
            let changed = Changed { id, revision: stored.revision, unchanged: true, warnings: Vec::new() };
            return Ok((changed, false));
        }
        let changed = self.change(&id, before.as_ref(), new).await?;
        let kind = if before.is_some() { Kind::Changed } else { Kind::Applied };
        let text = format!("revision {} runs at node '{}'", changed.revision, choice.node);
        self.tell(kind, Some(&choice.node), Some(&id), text).await;
        Ok((changed, before.is_none()))
    }

    /// Makes a graph again what it was, in a list that is applied all or not at all.
    ///
    /// # Errors
    /// A node refuses it now.
    pub(crate) async fn restore(&self, id: &str, stored: &Stored) -> Result<(), Problem> {
        let _changing = self.changing.lock().await;
        let now = self.view().graphs.get(id).cloned();
        self.change(id, now.as_ref(), stored.graph.clone()).await.map(drop)
    }

    /// Brings a graph's nodes from what was before to what is wanted now, or back.
    async fn change(
        &self,
        id: &str,
        before: Option<&Stored>,
        mut new: DomainGraph,
    ) -> Result<Changed, Problem> {
        if let Some(before) = before {
            for (node, part) in &mut new.parts {
                part.tag = before
                    .graph
                    .parts
                    .get(node)
                    .filter(|b| b.document == part.document)
                    .and_then(|b| b.tag.clone());
            }
        }
        let (name, proposal) = (id.to_owned(), new.clone());
        let revision = self.blocking(move |s| s.propose(&name, &proposal)).await?;
        let mut warnings = Vec::new();
        let mut done: Vec<String> = Vec::new();
        let mut refused = None;
        for (node, part) in &mut new.parts {
            match self.put_part(node, id, &part.document).await {
                Ok((tag, said)) => {
                    part.tag = Some(tag);
                    warnings.extend(said);
                    done.push(node.clone());
                }
                Err(e) => {
                    // What came of a request without an answer is not known: it is taken back as well.
                    done.push(node.clone());
                    refused = Some((node.clone(), e));
                    break;
                }
            }
        }
        if let Some((node, e)) = refused {
            self.take_back(id, before, &done).await;
            let problem = Problem::from(e);
            let detail = format!("node '{node}': {}", problem.detail);
            self.tell(Kind::Failed, Some(&node), Some(id), format!("a change was refused: {detail}")).await;
            return Err(Problem { detail, ..problem });
        }
        let (name, confirmed) = (id.to_owned(), new.clone());
        self.blocking(move |s| s.confirm(&name, &confirmed)).await?;
        let left: Vec<String> = before
            .map(|b| b.graph.parts.keys().filter(|n| !new.parts.contains_key(*n)).cloned().collect())
            .unwrap_or_default();
        self.edit(|v| v.graphs.insert(id.to_owned(), Stored { graph: new, revision, pending: false }));
        for node in left {
            // A node that is not there does it when it comes back.
            _ = self.delete_part(&node, id).await;
        }
        Ok(Changed { id: id.to_owned(), revision, unchanged: false, warnings })
    }

    /// Nodes that were asked for a change that failed get back what they had.
    async fn take_back(&self, id: &str, before: Option<&Stored>, nodes: &[String]) {
        let name = id.to_owned();
        if let Err(e) = self.blocking(move |s| s.roll_back(&name)).await {
            tracing::error!("graph {id}: what was before could not be kept: {e}");
        }
        for node in nodes {
            match before.and_then(|b| b.graph.parts.get(node)) {
                Some(part) => _ = self.put_part(node, id, &part.document).await,
                None => _ = self.delete_part(node, id).await,
            }
        }
    }

    /// A node takes its part of a graph; gives the tag, and what may go wrong.
    async fn put_part(
        &self,
        node: &str,
        id: &str,
        document: &str,
    ) -> Result<(String, Vec<String>), FleetError> {
        let path = format!("/graphs/{id}");
        let changed: Changed = self.fleet.call(node, Method::PUT, &path, Some(document)).await?;
        let list: Vec<GraphSummary> = self.fleet.call(node, Method::GET, "/graphs", None).await?;
        let tag = list.into_iter().find(|g| g.id == id).map(|g| g.tag);
        let gone = || FleetError::Silent { node: node.to_owned(), why: "the graph is gone again".into() };
        Ok((tag.ok_or_else(gone)?, changed.warnings))
    }

    async fn delete_part(&self, node: &str, id: &str) -> Result<(), FleetError> {
        let deleted = self.fleet.bytes(node, Method::DELETE, &format!("/graphs/{id}"), None).await;
        match deleted {
            Err(FleetError::Problem(p)) if p.status == 404 => Ok(()),
            other => other.map(drop),
        }
    }

    fn check(&self, id: &str, stored: Option<&Stored>, condition: &Precondition) -> Result<(), Problem> {
        let tag = stored.map(tag);
        if condition.is_empty() || condition.holds(tag.as_deref()) {
            return Ok(());
        }
        let what = match tag {
            Some(tag) => format!("graph '{id}' is there, with the entity tag \"{tag}\""),
            None => format!("there is no graph '{id}'"),
        };
        let text = format!("the condition of the request does not hold: {what}; nothing was changed");
        Err(Problem::new(StatusCode::PRECONDITION_FAILED, text))
    }

    /// Removes a graph. To be run to its end. Nodes that are offline lose it when they come back.
    ///
    /// # Errors
    /// There is none, or the store cannot be written.
    pub async fn remove(&self, id: &str, condition: &Precondition) -> Result<(), Problem> {
        let _changing = self.changing.lock().await;
        let stored = self.graph(id)?;
        self.check(id, Some(&stored), condition)?;
        let name = id.to_owned();
        self.blocking(move |s| s.remove(&name)).await?;
        self.edit(|v| v.graphs.remove(id));
        for node in stored.graph.parts.keys() {
            if let Err(e) = self.delete_part(node, id).await {
                tracing::warn!("graph {id} is removed from node {node} later: {e}");
            }
        }
        self.tell(Kind::Removed, None, Some(id), "").await;
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

    /// Moves a graph from a node to another one that can take it: there first, so that it is refused whole or done.
    ///
    /// # Errors
    /// None can take it.
    pub async fn move_away(&self, id: &str, from: &str) -> Result<String, Problem> {
        let _changing = self.changing.lock().await;
        let stored = self.graph(id)?;
        let graph = ServiceGraph::parse(&stored.graph.text)?;
        if named(&graph).contains(from) {
            let text = format!("its document asks for node '{from}'");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text));
        }
        let choice = self.choose_without(&graph, None, Some(from))?;
        let document = Document { text: Some(stored.graph.text.clone()), graph, owner: None };
        let new = domain_graph(&document, &choice.node)?;
        let changed = self.change(id, Some(&stored), new).await?;
        let text =
            format!("revision {} runs at node '{}', moved from '{from}'", changed.revision, choice.node);
        self.tell(Kind::Changed, Some(&choice.node), Some(id), text).await;
        Ok(choice.node)
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

    /// Makes a connected node run what it is to run, and keeps what it says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn settle(&self, node: &str) -> Result<(), FleetError> {
        let held: Vec<GraphSummary> = self.fleet.call(node, Method::GET, "/graphs", None).await?;
        let domain: Domain = self.fleet.call(node, Method::GET, "/domain", None).await?;
        self.edit(|v| {
            let known = v.known.entry(node.to_owned()).or_default();
            known.domain = Some(domain);
            known.graphs = held;
        });
        if self.steps(node).is_empty() {
            self.edit(|v| v.known.entry(node.to_owned()).or_default().trouble.clear());
            return Ok(());
        }
        let _changing = self.changing.lock().await;
        // Something else may have been done meanwhile.
        let held: Vec<GraphSummary> = self.fleet.call(node, Method::GET, "/graphs", None).await?;
        self.edit(|v| v.known.entry(node.to_owned()).or_default().graphs = held);
        let mut trouble = Vec::new();
        for step in self.steps(node) {
            match step {
                Step::Delete(id) => {
                    self.delete_part(node, &id).await?;
                    self.tell(Kind::Removed, Some(node), Some(&id), "it was still at the node").await;
                }
                Step::Taken(id) => {
                    trouble.push(format!("graph {id}: the node has a graph of its own of this name"));
                }
                Step::Put(id) => match self.repair(node, &id).await {
                    Ok(()) => {
                        self.tell(Kind::Changed, Some(node), Some(&id), "it is at the node again").await;
                    }
                    Err(FleetError::Problem(p)) => {
                        self.give_up(&id).await;
                        trouble.push(format!("graph {id}: {p}"));
                    }
                    Err(e) => return Err(e),
                },
            }
        }
        let before = self.edit(|v| {
            std::mem::replace(&mut v.known.entry(node.to_owned()).or_default().trouble, trouble.clone())
        });
        for new in trouble.iter().filter(|t| !before.contains(t)) {
            self.tell(Kind::Failed, Some(node), None, new.clone()).await;
        }
        Ok(())
    }

    /// A proposal that the controller did not see to its end was refused now: what was before is wanted again.
    async fn give_up(&self, id: &str) {
        if !self.view().graphs.get(id).is_some_and(|g| g.pending) {
            return;
        }
        let name = id.to_owned();
        match self.blocking(move |s| s.roll_back(&name).and_then(|_| s.graphs())).await {
            Ok(graphs) => self.edit(|v| match graphs.get(id) {
                Some(before) => _ = v.graphs.insert(id.to_owned(), before.clone()),
                None => _ = v.graphs.remove(id),
            }),
            Err(e) => tracing::error!("graph {id}: what was before could not be kept: {e}"),
        }
    }

    fn steps(&self, node: &str) -> Vec<Step> {
        let view = self.view();
        let wanted = |(id, g): (&String, &Stored)| {
            let part = g.graph.parts.get(node)?;
            Some((id.clone(), Wanted { tag: part.tag.clone() }))
        };
        let wanted = view.graphs.iter().filter_map(wanted).collect();
        let held = view.known.get(node).map(|k| &k.graphs[..]).unwrap_or_default();
        let held = held.iter().map(|g| (g.id.clone(), Held { tag: g.tag.clone(), owner: g.owner.clone() }));
        steps(&self.owner(), &wanted, &held.collect())
    }

    /// A node gets its part of a graph again.
    async fn repair(&self, node: &str, id: &str) -> Result<(), FleetError> {
        let Some(mut stored) = self.view().graphs.get(id).cloned() else { return Ok(()) };
        let Some(part) = stored.graph.parts.get_mut(node) else { return Ok(()) };
        let (tag, _) = self.put_part(node, id, &part.document).await?;
        part.tag = Some(tag);
        let (name, graph) = (id.to_owned(), stored.graph.clone());
        let all = stored.graph.parts.values().all(|p| p.tag.is_some());
        if all || !stored.pending {
            self.blocking(move |s| s.confirm(&name, &graph))
                .await
                .map_err(|p| FleetError::Problem(Box::new(p)))?;
            stored.pending = false;
        }
        self.edit(|v| v.graphs.insert(id.to_owned(), stored));
        Ok(())
    }
}

/// Whether two graphs are the same but for their text and the tags of their parts.
fn is_same(a: &DomainGraph, b: &DomainGraph) -> bool {
    let parts = |g: &DomainGraph| -> BTreeMap<String, String> {
        g.parts.iter().map(|(n, p)| (n.clone(), p.document.clone())).collect()
    };
    a.document == b.document && parts(a) == parts(b) && a.parts.values().all(|p| p.tag.is_some())
}

/// A graph that is on one node as a whole.
fn domain_graph(document: &Document, node: &str) -> Result<DomainGraph, Problem> {
    let whole = document.graph.to_json();
    let part = document.graph.clone().on_one_node()?;
    let part = Part { document: part.to_json().to_string(), tag: None };
    Ok(DomainGraph {
        text: document.text.clone().unwrap_or_else(|| whole.to_string()),
        document: whole.get("sffg").cloned().unwrap_or(Value::Null),
        tenant: document.graph.tenant.as_ref().map(ToString::to_string),
        parts: BTreeMap::from([(node.to_owned(), part)]),
    })
}
