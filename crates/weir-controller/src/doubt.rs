//! A controller whose store is older than what its nodes run: it is found out, and what may have been changed since is left alone until the operator says.

use std::collections::BTreeMap;

use axum::http::Method;
use weir_api::events::Kind;
use weir_api::graphs::GraphSummary;
use weir_api::mark::Mark;
use weir_api::node::Health;
use weir_api::problem::Problem;

use crate::controller::Controller;
use crate::core::{has_been, is_as_known};
use crate::fleet::{Connected, Fleet, FleetError};
use crate::store::{Marking, Store, Stored};

impl Controller {
    /// Asks a node how far this controller had got when it was there last, and what it has, before anything else is asked of it.
    ///
    /// # Errors
    /// It does not answer, or what it says cannot be kept.
    pub(crate) async fn compare(&self, node: &str, connected: &Connected) -> Result<(), FleetError> {
        // Not yet by the fleet: changes would go there, and the mark be replaced.
        let alone = Fleet::new(Marking::default());
        alone.insert(node, connected.clone());
        let health: Health = alone.call(node, Method::GET, "/health", None).await?;
        // What it has is known before anything is trusted again because no node has any of it.
        let graphs: Vec<GraphSummary> = alone.call(node, Method::GET, "/graphs", None).await?;
        self.edit(|v| v.known.entry(node.to_owned()).or_default().graphs = graphs);
        let Some(mark) = health.controller.and_then(|c| c.mark) else { return Ok(()) };
        self.judge(node, &mark).await.map_err(|p| FleetError::Problem(Box::new(p)))
    }

    /// If a node has taken changes that this store does not have, all graphs are doubtful.
    async fn judge(&self, node: &str, mark: &Mark) -> Result<(), Problem> {
        let _changing = self.at_rest(None).await;
        let generation = self.store.marking().get().map_or(0, |m| m.generation);
        let runs = self.blocking(Store::runs).await?;
        if has_been(&runs, generation, mark) {
            return Ok(());
        }
        let seen = mark.generation;
        let graphs = self.blocking(move |s| s.doubt(seen).and_then(|()| s.graphs())).await?;
        self.edit(|v| {
            v.graphs = graphs;
            v.removed.clear();
        });
        let text = "it has taken changes of this controller that the controller's store does not have: the store is an older one. Graphs that are not as the store says are \
                    left alone until they are applied again or deleted; 'weir get nodes' names them";
        self.tell(Kind::Notice, Some(node), None, text).await;
        Ok(())
    }

    /// Doubtful graphs that all of their nodes have as the store says are trusted again, once all nodes have said what they have: a graph may have been
    /// placed anew on one of them while its own was away, and kept what it had.
    pub(crate) async fn trust_all(&self) {
        let (view, owner) = (self.view(), self.owner());
        let has_been = |name: &String| view.known.get(name).is_some_and(|k| k.changed.is_some());
        if !view.members.keys().all(has_been) {
            return;
        }
        for (id, stored) in view.graphs.iter().filter(|(_, g)| g.doubtful) {
            let parts = stored.graph.parts.iter().map(|(n, p)| (n.as_str(), p.tag.as_deref()));
            let held: BTreeMap<_, _> = view
                .known
                .iter()
                .filter_map(|(node, k)| {
                    let graph = k.graphs.iter().find(|g| g.id == *id)?;
                    Some((node.as_str(), (graph.tag.as_str(), graph.owner.as_deref())))
                })
                .collect();
            if !is_as_known(&owner, &parts.collect(), &held) {
                continue;
            }
            let _changing = self.changing.lock().await;
            if self.view().graphs.get(id) != Some(stored) {
                continue;
            }
            let name = id.clone();
            match self.blocking(move |s| s.trust(&name)).await {
                Ok(()) => self.edit(|v| {
                    v.graphs.insert(id.clone(), Stored { doubtful: false, ..stored.clone() });
                }),
                Err(e) => return tracing::warn!("graph {id} is doubtful still: {e}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_store::history::{Confirm, Note};

    use super::*;
    use crate::store::DomainGraph;

    #[test]
    fn what_may_have_been_confirmed_since_does_not_go_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("controller.db")).unwrap();
        let graph = serde_json::json!({ "document": { "id": "g" }, "text": "id: g", "parts": {} });
        let graph: DomainGraph = serde_json::from_value(graph).unwrap();
        let note = Note { confirm: Confirm::Within(60), ..Note::default() };
        store.propose("g", &graph, &note).unwrap();
        assert_eq!(store.database().unconfirmed().unwrap().len(), 1);
        store.doubt(0).unwrap();
        assert!(store.graphs().unwrap()["g"].doubtful);
        assert!(store.database().unconfirmed().unwrap().is_empty());
    }
}
