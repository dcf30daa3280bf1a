//! Changes of policies: what runs has to hold them as well, or is named.

use axum::http::StatusCode;
use weir_api::events::Kind;
use weir_api::policies::PolicySettings;
use weir_api::problem::{Mistake, Problem};
use weir_model::graph::ServiceGraph;
use weir_rest::body::Document;
use weir_store::history::{Confirm, Note};

use crate::admit::Admission;
use crate::changes::is_same;
use crate::controller::Controller;
use crate::policy::{Policies, is_for, mistakes};
use crate::store::Stored;
use crate::view::View;

impl Controller {
    /// How many graphs a policy is for.
    pub(crate) fn governed(&self, settings: &PolicySettings) -> usize {
        self.view().graphs.values().filter(|g| self.is_for(settings, g)).count()
    }

    fn is_for(&self, settings: &PolicySettings, stored: &Stored) -> bool {
        let tenant = stored.graph.tenant.as_deref();
        is_for(settings, tenant, tenant.and_then(|t| self.login.tenant_kind(t)))
    }

    /// Sets a policy. Graphs that it is for and that do not hold it stand against it, unless they may stay as they are: then they
    /// cannot be changed until they hold it. To be run to its end.
    ///
    /// # Errors
    /// What is wrong about it, or which graphs do not hold it and why.
    pub async fn put_policy(&self, name: &str, settings: PolicySettings, keep: bool) -> Result<(), Problem> {
        let wrong = mistakes(&settings);
        if !wrong.is_empty() {
            let text = format!("policy '{name}' cannot be: nothing was changed");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text).with(wrong));
        }
        let _changing = self.at_rest(None).await;
        let before = self.view().policies.get(name).cloned();
        let mut policies = self.view().policies.clone();
        policies.insert(name.to_owned(), settings.clone());
        let concerned = |g: &Stored| {
            self.is_for(&settings, g) || before.as_ref().is_some_and(|before| self.is_for(before, g))
        };
        let (hold, broken) = self.try_policies(&policies, concerned).await;
        if !broken.is_empty() && !keep {
            let text = format!(
                "policy '{name}' does not hold for {} of the graphs that run; change these first, or let them stay as they are (keep)",
                broken.len()
            );
            return Err(Problem::new(StatusCode::CONFLICT, text).with(broken));
        }
        let (key, kept) = (name.to_owned(), settings);
        self.blocking(move |s| s.keep_policy(&key, Some(&kept))).await?;
        self.edit(|v| v.policies = policies);
        self.require_of(hold).await;
        let text = match broken.len() {
            0 => format!("policy '{name}' is set, and holds for all graphs that it is for"),
            n => format!("policy '{name}' is set, and {n} graphs stay that do not hold it"),
        };
        self.tell(Kind::Policy, None, None, text).await;
        Ok(())
    }

    /// Removes a policy. To be run to its end.
    ///
    /// # Errors
    /// There is none, or the store cannot be written.
    pub async fn remove_policy(&self, name: &str) -> Result<(), Problem> {
        let _changing = self.at_rest(None).await;
        let mut policies = self.view().policies.clone();
        let Some(before) = policies.remove(name) else {
            return Err(Problem::new(StatusCode::NOT_FOUND, format!("there is no policy '{name}'")));
        };
        let (hold, _) = self.try_policies(&policies, |g| self.is_for(&before, g)).await;
        let key = name.to_owned();
        self.blocking(move |s| s.keep_policy(&key, None)).await?;
        self.edit(|v| v.policies = policies);
        self.require_of(hold).await;
        self.tell(Kind::Policy, None, None, format!("policy '{name}' is removed")).await;
        Ok(())
    }

    /// The graphs for which all would hold under policies, and what stands against it for the others.
    async fn try_policies(
        &self,
        policies: &Policies,
        concerned: impl Fn(&Stored) -> bool,
    ) -> (Vec<(String, Stored, Admission)>, Vec<Mistake>) {
        let view = View { policies: policies.clone(), ..(*self.view()).clone() };
        let (mut hold, mut broken) = (Vec::new(), Vec::new());
        for (id, stored) in view.graphs.iter().filter(|(_, g)| concerned(g)) {
            match self.holds(&view, stored).await {
                Ok(admission) => hold.push((id.clone(), stored.clone(), admission)),
                Err(problem) => {
                    let graph = |path: &str| match path {
                        "" => format!("graph '{id}'"),
                        path => format!("graph '{id}', {path}"),
                    };
                    if problem.errors.is_empty() {
                        broken.push(Mistake {
                            path: graph(""),
                            message: problem.detail,
                            ..Mistake::default()
                        });
                    }
                    let of_graph =
                        |m: Mistake| Mistake { path: graph(&m.path), line: None, column: None, ..m };
                    broken.extend(problem.errors.into_iter().map(of_graph));
                }
            }
        }
        (hold, broken)
    }

    /// A graph as it would be there, if all that is required of it holds. Nothing is done.
    async fn holds(&self, view: &View, stored: &Stored) -> Result<Admission, Problem> {
        // Not its text: that may leave out whose it is.
        let graph = ServiceGraph::from_json(&stored.graph.document.to_string())?;
        let document = Document { text: Some(stored.graph.text.clone()), graph, owner: None };
        let mut admission = self.admit_in(view, &document, None, None)?;
        let explain = admission.explain();
        self.prove(admission.proof.take()).await.map_err(&explain)?;
        for (node, part) in &admission.graph.parts {
            self.check_part(node, &part.document).await.map_err(|e| explain(e.into()))?;
        }
        Ok(admission)
    }

    /// Lets the nodes know what is required of graphs that hold it already.
    async fn require_of(&self, graphs: Vec<(String, Stored, Admission)>) {
        for (id, stored, admission) in graphs {
            if is_same(&stored.graph, &admission.graph) {
                continue;
            }
            let (message, same_as) = (Some("policies have changed".to_owned()), Some(stored.revision));
            let note = Note { message, same_as, confirm: Confirm::AsBefore, ..Note::default() };
            if let Err(e) = self.change(&id, Some(&stored), admission.graph, &note).await {
                tracing::warn!("graph {id} is not required to hold the policies yet: {e}", e = e.detail);
            }
        }
    }
}
