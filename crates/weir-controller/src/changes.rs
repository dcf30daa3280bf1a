//! Changes of graphs, each whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use weir_api::events::Kind;
use weir_api::graphs::{Changed, GraphSummary};
use weir_api::images::ImageDetails;
use weir_api::plan::Plan;
use weir_api::problem::Problem;
use weir_auth::{Action, Graph, Principal};
use weir_rest::body::Document;
use weir_rest::precondition::Precondition;
use weir_store::events::NewEvent;
use weir_store::history::{Confirm, Note};

use crate::admit::{Admission, Proof, admit};
use crate::controller::Controller;
use crate::fleet::{FleetError, segment};
use crate::store::{DomainGraph, Stored};
use crate::view::{View, plus};

/// The entity tag of a graph of the domain.
pub(crate) fn tag(stored: &Stored) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(stored.graph.document.to_string());
    let text: String = hash.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("{}-{text}", stored.revision)
}

/// A change was not made.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The node that refused it.
    pub node: Option<String>,
    /// Why.
    pub problem: Problem,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Refused {
        Refused { node: None, problem }
    }
}

/// How long until the store is tried again, and how often.
const RETRY: Duration = Duration::from_millis(200);
const TRIES: u32 = 10;

/// The nodes, for people.
pub(crate) fn at(nodes: &[String]) -> String {
    match nodes {
        [one] => format!("node '{one}'"),
        _ => format!("nodes '{}'", nodes.join("', '")),
    }
}

/// The node, if it is one.
pub(crate) fn one(nodes: &[String]) -> Option<&str> {
    match nodes {
        [one] => Some(one),
        _ => None,
    }
}

/// Whether two graphs are the same but for their text and the tags of their parts.
pub(crate) fn is_same(a: &DomainGraph, b: &DomainGraph) -> bool {
    let parts = |g: &DomainGraph| -> BTreeMap<String, String> {
        g.parts.iter().map(|(n, p)| (n.clone(), p.document.clone())).collect()
    };
    a.document == b.document && parts(a) == parts(b) && a.parts.values().all(|p| p.tag.is_some())
}

impl Controller {
    /// What would become of a document.
    ///
    /// # Errors
    /// It cannot be anywhere, and why.
    pub fn admit(
        &self,
        document: &Document,
        asked: Option<&str>,
        without: Option<&str>,
    ) -> Result<Admission, Problem> {
        self.admit_in(&self.view(), document, asked, without)
    }

    /// The same with what is wanted and known as it is given.
    pub(crate) fn admit_in(
        &self,
        view: &View,
        document: &Document,
        asked: Option<&str>,
        without: Option<&str>,
    ) -> Result<Admission, Problem> {
        let online = self.fleet.names().into_iter().collect();
        let kind = document.graph.tenant.as_ref().and_then(|t| self.login.tenant_kind(t.as_str()));
        admit(document, kind, asked, view, &online, without)
    }

    /// Proves what is required of a graph over several nodes, at a node that has all of its images, the same as the nodes that will
    /// run them.
    ///
    /// # Errors
    /// A requirement does not hold, or that cannot be known.
    pub async fn prove(&self, proof: Option<Proof>) -> Result<(), Problem> {
        let Some(Proof { document, images, nodes }) = proof else { return Ok(()) };
        let mut why = BTreeSet::new();
        for node in &nodes {
            match self.same_images(node, &images).await {
                Ok(()) => {
                    let plan = self.check_part(node, &document).await?;
                    tracing::debug!(graph = plan.graph, node, "its requirements hold over its nodes");
                    return Ok(());
                }
                Err(reason) => _ = why.insert(reason),
            }
        }
        let text = "what the graph requires cannot be proved over its nodes: no node has all of its images as the others have them";
        let mistakes = why.into_iter().map(Into::into);
        Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text).with(mistakes))
    }

    /// Whether a node has the same images as the nodes that run functions of them.
    async fn same_images(&self, at: &str, images: &BTreeSet<(String, String)>) -> Result<(), String> {
        let mut known: BTreeMap<(&str, &str), Option<String>> = BTreeMap::new();
        for (image, node) in images {
            for node in [at, node.as_str()] {
                if known.contains_key(&(image.as_str(), node)) {
                    continue;
                }
                let path = format!("/images/{}", segment(image));
                let details: Result<ImageDetails, _> = self.fleet.call(node, Method::GET, &path, None).await;
                let digest = details.map_err(|e| format!("node '{node}': {e}"))?.digest;
                known.insert((image, node), digest);
            }
            let (here, there) =
                (known.get(&(image.as_str(), at)), known.get(&(image.as_str(), node.as_str())));
            let same = at == node || matches!((here, there), (Some(Some(a)), Some(Some(b))) if a == b);
            if !same {
                return Err(format!(
                    "the image '{image}' of node '{at}' is another one than that of node '{node}'"
                ));
            }
        }
        Ok(())
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
        by: &Principal,
        note: &Note,
    ) -> Result<(Changed, bool), Problem> {
        let begun = Instant::now();
        let _changing = self.at_rest(Some(document.graph.id.as_str())).await;
        let done = self.put_alone(document, asked, change, condition, by, note).await;
        self.change.observe(begun.elapsed());
        done
    }

    /// The same for who sees to it that nothing else changes meanwhile.
    pub(crate) async fn put_alone(
        &self,
        document: Document,
        asked: Option<&str>,
        change: bool,
        condition: &Precondition,
        by: &Principal,
        note: &Note,
    ) -> Result<(Changed, bool), Problem> {
        let id = document.graph.id.to_string();
        let before = self.view().graphs.get(&id).cloned();
        // Whose the graph is, is known here only: nothing else changes meanwhile.
        if let Some(before) = &before {
            by.may(&Action::ChangeGraph(before.graph.owned(&id)))?;
        }
        self.check(&id, before.as_ref(), condition)?;
        if before.is_some() && !change {
            let text = format!("there is a graph '{id}' already; change it with PUT /v1/graphs/{id}");
            return Err(Problem::new(StatusCode::CONFLICT, text));
        }
        let admission = self.admit(&document, asked, None)?;
        let explain = admission.explain();
        let new = admission.graph;
        if let Some(stored) = before.as_ref().filter(|b| !b.doubtful && is_same(&b.graph, &new)) {
            if note.confirm == Confirm::Final {
                self.confirm_revision(&id).await?;
            }
            let changed = Changed { id, revision: stored.revision, unchanged: true, warnings: Vec::new() };
            return Ok((changed, false));
        }
        self.within_quotas(&id, &new)?;
        self.prove(admission.proof).await.map_err(&explain)?;
        let nodes = admission.placement.nodes;
        let mut changed = self.change(&id, before.as_ref(), new, note).await.map_err(&explain)?;
        changed.warnings.extend(admission.warnings);
        let kind = if before.is_some() { Kind::Changed } else { Kind::Applied };
        let why = note.message.as_ref().map_or(String::new(), |m| format!(": {m}"));
        let text = format!("revision {} runs at {}{why}", changed.revision, at(&nodes));
        self.tell(kind, one(&nodes), Some(&id), text).await;
        Ok((changed, before.is_none()))
    }

    /// Whether a tenant may have a graph beside its others.
    fn within_quotas(&self, id: &str, new: &DomainGraph) -> Result<(), Problem> {
        let Some(tenant) = &new.tenant else { return Ok(()) };
        let view = self.view();
        let (now, others) = (view.usage(tenant, None), view.usage(tenant, Some(id)));
        self.login.quotas(tenant).admit(tenant, now, plus(others, new.usage()))?;
        Ok(())
    }

    /// Makes a graph again what it was, in a list that is applied all or not at all.
    ///
    /// # Errors
    /// A node refuses it now.
    pub(crate) async fn restore(&self, id: &str, stored: &Stored, note: &Note) -> Result<(), Problem> {
        let now = self.view().graphs.get(id).cloned();
        self.change(id, now.as_ref(), stored.graph.clone(), note).await.map(drop)
    }

    /// Brings a graph's nodes from what was before to what is wanted now, or back. What a node refuses is an event.
    pub(crate) async fn change(
        &self,
        id: &str,
        before: Option<&Stored>,
        new: DomainGraph,
        note: &Note,
    ) -> Result<Changed, Problem> {
        let Refused { node, problem } = match self.try_change(id, before, new, note).await {
            Ok(changed) => return Ok(changed),
            Err(refused) => refused,
        };
        if self.store.database().is_retired() {
            let text =
                "another controller leads by now, or may; what was asked for may be done or not: ask again";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, text));
        }
        if node.is_some() {
            let text = format!("a change was refused: {}", problem.detail);
            self.tell(Kind::Failed, node.as_deref(), Some(id), text).await;
        }
        Err(problem)
    }

    /// The same without the event.
    pub(crate) async fn try_change(
        &self,
        id: &str,
        before: Option<&Stored>,
        mut new: DomainGraph,
        note: &Note,
    ) -> Result<Changed, Refused> {
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
        let doubtful = before.is_some_and(|b| b.doubtful);
        // What nodes have of it is then not what this store says was before.
        let unknown = doubtful || before.is_none() && self.is_left(id);
        let (name, proposal, noted) = (id.to_owned(), new.clone(), note.clone());
        let revision = self.blocking(move |s| s.propose(&name, &proposal, &noted)).await?;
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
            self.take_back(id, &done, unknown).await;
            let named = !matches!(e, FleetError::Problem(_));
            let problem = Problem::from(e);
            let detail = match named {
                true => format!("{}; nothing was changed", problem.detail),
                false => format!("node '{node}': {}", problem.detail),
            };
            return Err(Refused { node: Some(node), problem: Problem { detail, ..problem } });
        }
        let (name, confirmed) = (id.to_owned(), new.clone());
        // The proposal is durable: what is not confirmed now is when the nodes are looked at next.
        let confirmed =
            self.blocking(move |s| s.confirm(&name, &confirmed).and_then(|()| s.trust(&name))).await;
        // Another controller leads, and may take it back: what came of it is not known.
        if let Err(problem) = &confirmed
            && self.store.database().is_retired()
        {
            return Err(problem.clone().into());
        }
        let pending = confirmed.map_err(|e| tracing::error!("graph {id} is not confirmed yet: {e}")).is_err();
        let left: Vec<String> = before
            .map(|b| b.graph.parts.keys().filter(|n| !new.parts.contains_key(*n)).cloned().collect())
            .unwrap_or_default();
        self.edit(|v| {
            v.graphs.insert(
                id.to_owned(),
                Stored { graph: new, revision, pending, doubtful: pending && doubtful },
            )
        });
        for node in &left {
            // A node that is not there does it when it comes back.
            _ = self.delete_part(node, id).await;
        }
        for node in done.iter().chain(&left) {
            self.learn(node).await;
        }
        if note.confirm != Confirm::Final {
            self.unconfirmed.notify_one();
        }
        Ok(Changed { id: id.to_owned(), revision, unchanged: false, warnings })
    }

    /// Nodes that were asked for a change that failed get back what they had, as the store says that it was. If that is not known, they keep what they have.
    async fn take_back(&self, id: &str, nodes: &[String], unknown: bool) {
        let mut tries = 0;
        let mut before = loop {
            let name = id.to_owned();
            match self.blocking(move |s| s.roll_back(&name, !unknown).and_then(|_| s.graphs())).await {
                Ok(mut graphs) => break graphs.remove(id),
                // Another controller does it.
                Err(_) if self.store.database().is_retired() => return,
                // Others wait. What is known here holds until the controller starts again.
                Err(e) if tries == TRIES => {
                    tracing::error!(
                        "graph {id}: what was before is not kept: {e}; apply it again when the store works"
                    );
                    break self.view().graphs.get(id).cloned();
                }
                Err(_) => tries += 1,
            }
            tokio::time::sleep(RETRY).await;
        };
        for node in nodes.iter().filter(|_| !unknown) {
            match before.as_mut().and_then(|b| b.graph.parts.get_mut(node)) {
                Some(part) => {
                    part.tag = self.put_part(node, id, &part.document).await.ok().map(|(tag, _)| tag);
                }
                None => _ = self.delete_part(node, id).await,
            }
        }
        if let Some(before) = &before {
            let (name, graph) = (id.to_owned(), before.graph.clone());
            if let Err(e) = self.blocking(move |s| s.confirm(&name, &graph)).await {
                tracing::warn!("graph {id}: {e}; its nodes are asked again");
            }
        }
        self.edit(|v| match before {
            Some(before) => _ = v.graphs.insert(id.to_owned(), before),
            None => {
                v.graphs.remove(id);
                if !unknown {
                    v.removed.insert(id.to_owned());
                }
            }
        });
    }

    /// What a node has now, so that the next graph is placed by it.
    async fn learn(&self, node: &str) {
        if let Ok(domain) = self.fleet.call(node, Method::GET, "/domain", None).await {
            self.edit(|v| v.known.entry(node.to_owned()).or_default().domain = Some(domain));
        }
    }

    /// What a node says to a part of a graph; nothing is done.
    pub(crate) async fn plan_part(&self, node: &str, document: &str) -> Result<Plan, FleetError> {
        self.fleet.call(node, Method::POST, "/plan", Some(document)).await
    }

    /// What a node says to a graph that it is not going to run as it stands, or runs already: whether it can be made, and holds
    /// what is required of it.
    pub(crate) async fn check_part(&self, node: &str, document: &str) -> Result<Plan, FleetError> {
        self.fleet.call(node, Method::POST, "/plan?machine=false", Some(document)).await
    }

    /// A node takes its part of a graph; gives the tag, and what may go wrong.
    pub(crate) async fn put_part(
        &self,
        node: &str,
        id: &str,
        document: &str,
    ) -> Result<(String, Vec<String>), FleetError> {
        let path = format!("/graphs/{}", segment(id));
        let changed: Changed = self.fleet.call(node, Method::PUT, &path, Some(document)).await?;
        let list: Vec<GraphSummary> = self.fleet.call(node, Method::GET, "/graphs", None).await?;
        let tag = list.into_iter().find(|g| g.id == id).map(|g| g.tag);
        let gone = || FleetError::Silent { node: node.to_owned(), why: "the graph is gone again".into() };
        Ok((tag.ok_or_else(gone)?, changed.warnings))
    }

    pub(crate) async fn delete_part(&self, node: &str, id: &str) -> Result<(), FleetError> {
        let deleted = self.fleet.bytes(node, Method::DELETE, &format!("/graphs/{}", segment(id)), None).await;
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

    /// Removes a graph; if nodes lose it only later, says why. To be run to its end.
    ///
    /// # Errors
    /// There is none, who asks may not, or the store cannot be written.
    pub async fn remove(
        &self,
        id: &str,
        condition: &Precondition,
        by: &Principal,
    ) -> Result<Option<String>, Problem> {
        let _changing = self.at_rest(Some(id)).await;
        self.remove_alone(id, condition, by).await
    }

    /// The same for who sees to it that nothing else changes meanwhile.
    pub(crate) async fn remove_alone(
        &self,
        id: &str,
        condition: &Precondition,
        by: &Principal,
    ) -> Result<Option<String>, Problem> {
        if !self.view().graphs.contains_key(id) && self.is_left(id) {
            return self.remove_left(id, by).await.map(|()| None);
        }
        let stored = self.graph(id)?;
        by.may(&Action::DeleteGraph(stored.graph.owned(id)))?;
        self.check(id, Some(&stored), condition)?;
        let name = id.to_owned();
        self.blocking(move |s| s.remove(&name)).await?;
        self.edit(|v| {
            v.graphs.remove(id);
            v.removed.insert(id.to_owned());
        });
        let mut later = Vec::new();
        for node in stored.graph.parts.keys() {
            match self.delete_part(node, id).await {
                Ok(()) => self.learn(node).await,
                Err(e) => later.push(e.to_string()),
            }
        }
        let removed =
            NewEvent { tenant: stored.graph.tenant.clone(), ..NewEvent::of(Kind::Removed, Some(id)) };
        self.events.publish_all(vec![removed]).await;
        Ok((!later.is_empty()).then(|| later.join("; ")))
    }

    /// Whether nodes have a graph of this controller's that it does not know, as after an older store was put back.
    fn is_left(&self, id: &str) -> bool {
        let (view, owner) = (self.view(), self.owner());
        view.known.values().flat_map(|k| &k.graphs).any(|g| g.id == id && g.owner.as_ref() == Some(&owner))
    }

    /// Removes such a graph from all nodes.
    async fn remove_left(&self, id: &str, by: &Principal) -> Result<(), Problem> {
        by.may(&Action::DeleteGraph(Graph { id, tenant: None }))?;
        let name = id.to_owned();
        self.blocking(move |s| s.remove(&name)).await?;
        self.edit(|v| v.removed.insert(id.to_owned()));
        for node in self.fleet.names() {
            _ = self.delete_part(&node, id).await;
        }
        self.tell(Kind::Removed, None, Some(id), "it was left at nodes").await;
        Ok(())
    }
}
