//! Bringing the data plane to the desired state, with what that says about graphs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_api::events::Kind;
use weir_store::events::NewEvent;

use super::Node;
use crate::changes::{Change, Others};
use crate::connection::DataPlane;
use crate::perform::{Runtime, WantedGraphs};
use crate::view::{Entry, Failure, View};

impl<D: DataPlane> Node<D> {
    /// Brings the data plane to the desired state if it is another process than before, or was lost; says whether.
    pub(crate) async fn settle_if_new(&self, change: &mut Change<'_, D>) -> Result<bool, String> {
        let settled = {
            let view = self.view();
            view.settled && view.to_roll_back.is_empty()
        };
        let new = change.is_new().await.map_err(|e| self.lost(e))?;
        if settled && !new {
            return Ok(false);
        }
        self.settle(change, false).await.map(|()| true)
    }

    /// As [`Node::converge`], as part of a change. Graphs of which functions are to be made, changed or removed are left to
    /// [`bring_up`](Node::bring_up): each takes its time, and no other waits for it.
    pub(crate) async fn settle(&self, change: &mut Change<'_, D>, retry: bool) -> Result<(), String> {
        let owed: Vec<String> = self.view().to_roll_back.iter().cloned().collect();
        if !owed.is_empty() && self.take_back(&owed).await.is_ok() {
            self.edit(|v| v.to_roll_back.clear());
        }
        let before = self.view();
        let mut next = View::clone(&before);
        change.observe().await.map_err(|e| self.lost(e))?;
        let mut unwanted = change.names();
        // Whoever changes these brings them to their state.
        unwanted.retain(|name| !change.is_under_way(name));
        let mut wanted: WantedGraphs<'_> = unwanted.iter().map(|name| (name.as_str(), None)).collect();
        let mut failed = before.failures.clone();
        failed.retain(|_, f| !retry || f.lasts);
        let runs =
            before.graphs.iter().filter(|(id, _)| !failed.contains_key(*id) && !change.is_under_way(id));
        wanted.extend(runs.map(|(id, e)| (id.as_str(), Some(&*e.graph))));
        let mut apart: BTreeSet<String> = change.with_functions(&wanted);
        apart.retain(|id| !failed.contains_key(id));
        wanted.retain(|id, _| !apart.contains(*id));
        if retry {
            // Of those, each says by itself how it ends.
            next.failures.retain(|id, f| f.lasts || apart.contains(id) || change.is_under_way(id));
        }
        next.starting.extend(apart);
        let mut events = Vec::new();
        loop {
            let refused = change.perform(&wanted, Others::Wait).await.map_err(|e| self.lost(e))?;
            if refused.is_empty() {
                break;
            }
            for (id, errors) in refused {
                // What of it is there goes.
                wanted.iter_mut().filter(|(name, _)| **name == id).for_each(|(_, graph)| *graph = None);
                next.failures.insert(id.clone(), Failure { reason: errors.join("; "), lasts: false });
                events.extend(self.give_up_proposal(&mut next, &id).await);
                // What ran before the change may have functions.
                if !next.failures.contains_key(&id) {
                    next.starting.insert(id);
                }
            }
        }
        next.settled = true;
        change.show(&mut next);
        next.engine = change.process().unwrap_or_default();
        next.drift = self.drift(change, &next).await;
        let pending = |(id, e): &(&String, &mut Entry)| {
            e.pending && !next.starting.contains(*id) && !next.failures.contains_key(*id)
        };
        let pending: Vec<String> = next
            .graphs
            .iter_mut()
            .filter(pending)
            .map(|(id, e)| {
                e.pending = false;
                id.clone()
            })
            .collect();
        events.extend(changes(&before, &next));
        let apart = !next.starting.is_empty();
        self.edit(|v| *v = next);
        self.bind_functions();
        if !pending.is_empty() {
            self.confirm(pending).await;
        }
        self.events.publish_all(events).await;
        if apart {
            self.unstarted.notify_one();
        }
        Ok(())
    }

    /// The graphs that [`bring_up`](Node::bring_up) is to bring to their state.
    pub fn starting(&self) -> BTreeSet<String> {
        self.view().starting.clone()
    }

    /// Brings a graph to its desired state that [`settle`](Node::settle) has left, while others change. To be run to its end.
    ///
    /// # Errors
    /// The data plane cannot be reached.
    pub async fn bring_up(&self, id: &str) -> Result<(), String> {
        let mut change = self.changes.begin([id].into_iter()).await;
        loop {
            let before = self.view();
            if !before.starting.contains(id) {
                return Ok(());
            }
            let graph = before.graphs.get(id).map(|e| e.graph.clone());
            let wanted = BTreeMap::from([(id, graph.as_deref())]);
            let mut refused = change.perform(&wanted, Others::GoOn).await.map_err(|e| self.lost(e))?;
            let before = self.view();
            let mut next = View::clone(&before);
            next.starting.remove(id);
            next.failures.remove(id);
            let mut events = Vec::new();
            if let Some(errors) = refused.remove(id) {
                next.failures.insert(id.to_owned(), Failure { reason: errors.join("; "), lasts: false });
                events.extend(self.give_up_proposal(&mut next, id).await);
                if next.failures.contains_key(id) {
                    // What of it is there goes.
                    change
                        .perform(&BTreeMap::from([(id, None)]), Others::GoOn)
                        .await
                        .map_err(|e| self.lost(e))?;
                } else {
                    next.starting.insert(id.to_owned());
                }
            }
            let runs = !next.failures.contains_key(id) && !next.starting.contains(id);
            let entry = next.graphs.get_mut(id).filter(|e| runs && e.pending);
            let confirmed = entry.map(|e| e.pending = false).is_some();
            events.extend(changes(&before, &next));
            let (graph, failure) = (next.graphs.remove(id), next.failures.remove(id));
            self.edit(|v| {
                match graph {
                    Some(graph) => drop(v.graphs.insert(id.to_owned(), graph)),
                    None => drop(v.graphs.remove(id)),
                }
                match failure {
                    Some(failure) => drop(v.failures.insert(id.to_owned(), failure)),
                    None => drop(v.failures.remove(id)),
                }
                if !next.starting.contains(id) {
                    v.starting.remove(id);
                }
                change.show(v);
            });
            self.bind_functions();
            if confirmed {
                self.confirm(vec![id.to_owned()]).await;
            }
            self.events.publish_all(events).await;
        }
    }

    /// What handlers of graphs that run were written, beside their documents.
    async fn drift(
        &self,
        runtime: &Runtime<D>,
        view: &View,
    ) -> BTreeMap<String, BTreeMap<(String, String), String>> {
        let Some(engine) = runtime.process() else { return BTreeMap::new() };
        let kept = self.blocking(move |store| store.drift(&engine)).await;
        let mut drift: BTreeMap<String, BTreeMap<(String, String), String>> = BTreeMap::new();
        match kept {
            Ok(rows) => {
                for [graph, function, handler, value] in rows {
                    if view.graphs.contains_key(&graph) && !view.failures.contains_key(&graph) {
                        drift.entry(graph).or_default().insert((function, handler), value);
                    }
                }
            }
            Err(e) => tracing::warn!("handler writes cannot be read: {e}"),
        }
        drift
    }

    /// A graph that failed, and whose last change a crash cut short, goes back to what it was; says so.
    async fn give_up_proposal(&self, next: &mut View, id: &str) -> Option<NewEvent> {
        let entry = next.graphs.get(id).filter(|e| e.pending)?;
        let (revision, tenant) = (entry.revision.saturating_sub(1), entry.graph.tenant().map(str::to_owned));
        let names = [id.to_owned()];
        match self.blocking(move |store| store.roll_back(&names)).await {
            Ok(previous) => {
                let reason = next.failures.remove(id).map(|f| f.reason).unwrap_or_default();
                let back = match previous.into_iter().next().flatten() {
                    Some(graph) => {
                        let entry = Entry { graph: Arc::new(graph), revision, pending: false };
                        next.graphs.insert(id.to_owned(), entry);
                        format!("revision {revision} is back")
                    }
                    None => {
                        next.graphs.remove(id);
                        "the graph, which was new, is removed".to_owned()
                    }
                };
                let text =
                    format!("a change that the end of the daemon cut short failed, and {back}: {reason}");
                Some(NewEvent { tenant, text, ..NewEvent::of(Kind::Failed, Some(id)) })
            }
            Err(e) => {
                tracing::error!("graph {id} stays failed, its change cannot be taken back: {e}");
                None
            }
        }
    }
}

/// What is told of graphs that fail, or run again.
fn changes(before: &View, next: &View) -> Vec<NewEvent> {
    let failed = next.failures.iter().filter(|(id, f)| before.failures.get(*id) != Some(f));
    let failed = failed.map(|(id, f)| (Kind::Failed, id, f.reason.clone()));
    let again =
        before.failures.keys().filter(|id| !next.failures.contains_key(*id) && next.graphs.contains_key(*id));
    let again = again.map(|id| (Kind::Recovered, id, "it runs again".to_owned()));
    failed.chain(again).map(|(kind, id, text)| NewEvent { text, ..NewEvent::of(kind, Some(id)) }).collect()
}
