//! A node that is connected is made to run what it is to run.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::http::Method;
use weir_api::domain::Domain;
use weir_api::events::Kind;
use weir_api::graphs::GraphSummary;

use crate::controller::Controller;
use crate::core::{Held, Step, Wanted, steps};
use crate::fleet::FleetError;
use crate::store::Stored;

impl Controller {
    /// Makes a connected node run what it is to run, and keeps what it says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn settle(&self, node: &str) -> Result<(), FleetError> {
        let begun = Instant::now();
        let done = match self.settle_now(node).await {
            Ok(()) => self.settle_queries(node).await,
            failed => failed,
        };
        self.reconcile.observe(begun.elapsed());
        done
    }

    /// Asks a node what it is to others.
    pub(crate) async fn ask_domain(&self, node: &str) -> Result<(), FleetError> {
        let asked = self.domains_asked.fetch_add(1, Ordering::Relaxed) + 1;
        let domain: Domain = self.fleet.call(node, Method::GET, "/domain", None).await?;
        self.edit(|v| {
            let known = v.known.entry(node.to_owned()).or_default();
            // An answer that comes late is not as new as one that was asked for later.
            if known.domain_asked < asked {
                (known.domain, known.domain_asked) = (Some(domain), asked);
            }
        });
        Ok(())
    }

    async fn settle_now(&self, node: &str) -> Result<(), FleetError> {
        let held: Vec<GraphSummary> = self.fleet.call(node, Method::GET, "/graphs", None).await?;
        self.ask_domain(node).await?;
        self.edit(|v| v.known.entry(node.to_owned()).or_default().graphs = held);
        self.trust_all().await;
        self.confirm_all().await;
        self.end_moves().await;
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
                Step::Unknown(id) => trouble.push(format!(
                    "graph {id}: the node has it from this controller, which does not know that: apply it again, or delete it"
                )),
                Step::Doubtful(id) => trouble.push(format!(
                    "graph {id}: the node has another version of it, or none, than the controller, whose store is an older one: apply it again, or delete it"
                )),
                Step::Taken(id) => {
                    trouble.push(format!("graph {id}: the node has a graph of its own of this name"));
                }
                Step::Put(id) => match self.repair(node, &id).await {
                    Ok(()) => {
                        self.tell(Kind::Changed, Some(node), Some(&id), "it is at the node again").await;
                    }
                    Err(FleetError::Problem(p)) => {
                        // What is wrong with the node passes; what is wrong with the document does not.
                        if (400..500).contains(&p.status) && !matches!(p.status, 408 | 412 | 429) {
                            self.give_up(&id).await;
                        }
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

    /// Proposals that all of their nodes have taken are confirmed.
    async fn confirm_all(&self) {
        let view = self.view();
        let taken = |g: &&Stored| g.pending && !g.doubtful && g.graph.parts.values().all(|p| p.tag.is_some());
        for (id, _) in view.graphs.iter().filter(|(_, g)| taken(g)) {
            let _changing = self.changing.lock().await;
            let Some(stored) = self.view().graphs.get(id).filter(|g| taken(g)).cloned() else { continue };
            let (name, graph) = (id.clone(), stored.graph.clone());
            match self.blocking(move |s| s.confirm(&name, &graph)).await {
                Ok(()) => _ = self.edit(|v| v.graphs.insert(id.clone(), Stored { pending: false, ..stored })),
                Err(e) => tracing::warn!("graph {id} is not confirmed yet: {e}"),
            }
        }
    }

    /// A proposal that the controller did not see to its end was refused now: what was before is wanted again.
    async fn give_up(&self, id: &str) {
        if !self.view().graphs.get(id).is_some_and(|g| g.pending) {
            return;
        }
        let name = id.to_owned();
        match self.blocking(move |s| s.roll_back(&name, true).and_then(|_| s.graphs())).await {
            Ok(graphs) => self.edit(|v| match graphs.get(id) {
                Some(before) => _ = v.graphs.insert(id.to_owned(), before.clone()),
                None => _ = v.graphs.remove(id),
            }),
            Err(e) => tracing::error!("graph {id}: what was before could not be kept: {e}"),
        }
    }

    fn steps(&self, node: &str) -> Vec<Step> {
        // Who moves a function of a graph brings nodes to their parts. What ends meanwhile is in the view.
        let moves: BTreeSet<String> = self.moves().keys().cloned().collect();
        let view = self.view();
        let wanted = |(id, g): (&String, &Stored)| {
            let part = g.graph.parts.get(node)?;
            Some((id.clone(), Wanted { tag: part.tag.clone(), doubtful: g.doubtful }))
        };
        let wanted = view.graphs.iter().filter_map(wanted).collect();
        let held = view.known.get(node).map(|k| &k.graphs[..]).unwrap_or_default();
        let held = held.iter().map(|g| (g.id.clone(), Held { tag: g.tag.clone(), owner: g.owner.clone() }));
        let known = |id: &str| view.graphs.get(id).map_or(view.removed.contains(id), |g| !g.doubtful);
        let mut steps = steps(&self.owner(), &wanted, &held.collect(), known);
        steps.retain(|s| !moves.contains(s.graph()));
        steps
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
