//! The revisions of graphs: going back to one, by hand or by itself.

use weir_api::events::Kind;
use weir_api::problem::Problem;
use weir_auth::Principal;
use weir_model::graph::ServiceGraph;
use weir_rest::body::Document;
use weir_rest::history::{not_confirmed, went_back};
use weir_rest::precondition::Precondition;

use crate::controller::Controller;
use crate::store::DomainGraph;

impl DomainGraph {
    /// The document to be applied again.
    pub(crate) fn again(&self) -> Result<Document, Problem> {
        // Not its text: that may leave out whose it is.
        let graph = ServiceGraph::from_json(&self.document.to_string())?;
        Ok(Document { graph, text: Some(self.text.clone()), owner: None })
    }
}

impl Controller {
    /// A graph stays as it is now; false if it would have stayed anyway.
    pub(crate) async fn confirm_revision(&self, id: &str) -> Result<bool, Problem> {
        let id = id.to_owned();
        let confirmed = self.blocking(move |s| s.database().confirm_revision(&id)).await?;
        if confirmed {
            self.unconfirmed.notify_one();
        }
        Ok(confirmed)
    }

    /// The same for who changes nothing else: waits for the change that is under way. The revision, if it had to be confirmed.
    ///
    /// # Errors
    /// There is no such graph, or the store failed.
    pub async fn confirm_graph(&self, id: &str) -> Result<Option<u64>, Problem> {
        let _changing = self.at_rest(Some(id)).await;
        let revision = self.graph(id)?.revision;
        Ok(self.confirm_revision(id).await?.then_some(revision))
    }

    /// A graph that nobody confirmed becomes again what it was before: where it was, or elsewhere if it cannot be there any more. To be
    /// run to its end.
    ///
    /// # Errors
    /// It cannot go back now; it goes on as it is.
    pub async fn go_back(&self, id: &str, revision: u64) -> Result<(), Problem> {
        let _changing = self.at_rest(Some(id)).await;
        let pending = self.blocking(|s| s.database().unconfirmed()).await?;
        let pending = pending.into_iter().find(|p| p.graph == id && p.revision.revision == revision);
        // Confirmed or changed meanwhile, it stays.
        let runs = self.view().graphs.get(id).is_some_and(|g| g.revision == revision);
        let Some(pending) = pending.filter(|_| runs) else { return Ok(()) };
        let (by, always) = (Principal::operator("local"), Precondition::default());
        let Some(back) = pending.unconfirmed.back else {
            let text = format!("{}: the graph was not there before", not_confirmed(&pending));
            self.tell(Kind::Notice, None, Some(id), text).await;
            return self.remove_alone(id, &always, &by).await.map(drop);
        };
        let name = id.to_owned();
        let before = self.blocking(move |s| s.database().revision::<DomainGraph>(&name, back)).await?;
        let before = before.ok_or_else(Problem::internal)?;
        let (document, note) = (before.again()?, went_back(&pending));
        let mut nodes = before.parts.keys();
        let (node, more) = (nodes.next(), nodes.next());
        if let (Some(node), None) = (node, more)
            && self.put_alone(document.clone(), Some(node), true, &always, &by, &note).await.is_ok()
        {
            return Ok(());
        }
        self.put_alone(document, None, true, &always, &by, &note).await.map(drop)
    }
}
