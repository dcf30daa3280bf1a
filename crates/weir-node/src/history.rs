//! The revisions of graphs: going back to one, by hand or by itself.

use std::sync::Arc;

use weir_api::events::Kind;
use weir_auth::Principal;
use weir_model::graph::ServiceGraph;
use weir_rest::body::Document;
use weir_rest::history::{not_confirmed, went_back};
use weir_rest::precondition::Precondition;
use weir_store::StoreError;

use crate::apply::{How, Prepared};
use crate::connection::DataPlane;
use crate::desired::DesiredGraph;
use crate::node::{ApplyError, Node};

impl DesiredGraph {
    /// The document to be applied again, as one of this owner.
    pub(crate) fn again(&self, owner: Option<String>) -> Result<Document, ApplyError> {
        let graph = ServiceGraph::from_json(&self.document.to_string())
            .map_err(|e| ApplyError::Internal(format!("a document that was applied cannot be read: {e}")))?;
        Ok(Document { graph, text: self.text.clone(), owner })
    }
}

impl<D: DataPlane> Node<D> {
    /// A graph stays as it is now; false if it would have stayed anyway.
    pub(crate) async fn confirm_revision(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        let confirmed = self.blocking(move |store| store.database().confirm_revision(&id)).await?;
        if confirmed {
            self.unconfirmed.notify_one();
        }
        Ok(confirmed)
    }

    /// The same for who changes nothing else: waits for the change that is under way. The revision, if it had to be confirmed.
    ///
    /// # Errors
    /// There is no such graph, or the store failed.
    pub async fn confirm_graph(&self, id: &str) -> Result<Option<u64>, ApplyError> {
        let _change = self.changes.begin([id].into_iter()).await;
        let entry = self.graph(id).ok_or_else(|| ApplyError::Missing(id.to_owned()))?;
        Ok(self.confirm_revision(id).await?.then_some(entry.revision))
    }

    /// A graph that nobody confirmed goes back to exactly what ran before. To be run to its end.
    ///
    /// # Errors
    /// It cannot go back now; it goes on as it is.
    pub async fn go_back(&self, id: &str, revision: u64) -> Result<(), ApplyError> {
        let name = id.to_owned();
        let wanted = self.blocking(move |store| {
            let all = store.database().unconfirmed()?;
            let Some(pending) = all.into_iter().find(|p| p.graph == name) else { return Ok(None) };
            let Some(revision) = pending.unconfirmed.back else { return Ok(Some((pending, None))) };
            let Some(back) = store.database().revision::<DesiredGraph>(&name, revision)? else {
                let what = format!("graph {name} has no revision {revision} to go back to");
                return Err(StoreError::Corrupt { path: store.path().to_owned(), what });
            };
            Ok(Some((pending, Some(Arc::new(back)))))
        });
        let Some((pending, back)) = wanted.await? else { return Ok(()) };
        if let Some(back) = &back {
            self.bring_images(back).await?;
        }
        let mut change = self.changes.begin([id].into_iter()).await;
        // Confirmed or changed meanwhile, it stays.
        let name = id.to_owned();
        let now = self.blocking(move |store| store.database().unconfirmed()).await?;
        let runs = self.graph(&name).is_some_and(|e| e.revision == revision);
        if !runs || pending.revision.revision != revision || !now.contains(&pending) {
            return Ok(());
        }
        let by = Arc::new(Principal::operator("local"));
        let Some(back) = back else {
            let text = format!("{}: the graph was not there before", not_confirmed(&pending));
            self.events.publish(Kind::Notice, Some(id), text).await;
            let owner = self.graph(id).and_then(|e| e.graph.owner.clone());
            return self
                .remove_with(&mut change, id, &Precondition::default(), &by, owner.as_deref())
                .await
                .map(drop);
        };
        let prepared = Prepared { ids: vec![name], compiled: vec![Ok(back)] };
        let how = How { by, again: true, note: went_back(&pending), ..How::default() };
        let mut outcomes = self.try_all(&mut change, prepared, how).await?;
        outcomes.pop().map_or(Ok(()), |outcome| outcome.map(drop))
    }
}
