//! Requests for processing (CHANGE paper, section 2.2): proved before anything runs, placed on a platform where all holds, and run as a
//! graph of who asks until they end them or their time is over.

pub mod lifetime;
pub mod module;
pub mod offer;
pub mod prove;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_api::problem::Problem;
use weir_api::requests::{ModuleAddress, RequestAnswer};
use weir_auth::{Owner, Principal, TenantKind};
use weir_check::Party;
use weir_model::graph::ServiceGraph;
use weir_model::request::Request;
use weir_rest::body::Document;
use weir_rest::precondition::Precondition;
use weir_store::history::Note;
use weir_topology::Requester;

use crate::controller::{Controller, now};
use crate::facts::no_place;
use offer::{Access, Offer};
use prove::{Candidate, Proved, on, prove};

/// How the graphs of requests are called, with a number behind.
const PREFIX: &str = "request-";

/// A request that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// What was answered, without the identifier.
    pub answer: RequestAnswer,
    /// As it was written.
    pub request: String,
    /// The access point of its graph.
    pub access: Access,
}

/// The identifier of a request, and of its graph.
pub fn id(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// The number of a request.
pub fn number(id: &str) -> Option<u64> {
    id.strip_prefix(PREFIX)?.parse().ok()
}

/// Whether a graph is one of a request.
pub fn is_request(id: &str) -> bool {
    id.starts_with(PREFIX)
}

impl Controller {
    fn offer(&self) -> Result<Arc<Offer>, Problem> {
        self.offer.clone().ok_or_else(|| {
            let text = "this controller takes no requests: its operator starts it with --requests FILE";
            Problem::new(StatusCode::NOT_IMPLEMENTED, text)
        })
    }

    /// Proves a request for a tenant, or for the operator.
    async fn proved(&self, text: &str, owner: Option<&Owner>) -> Result<Proved, Problem> {
        let offer = self.offer()?;
        let request = Request::parse(text)?;
        let view = self.view();
        let mine = |kept: &&Kept| kept.answer.tenant.as_deref() == owner.map(|o| o.name.as_str());
        let addresses = |kept: &Kept| -> Vec<_> {
            kept.answer.modules.iter().filter_map(|m| m.address.parse().ok()).collect()
        };
        let modules = view.requests.values().filter(mine).flat_map(addresses);
        let known = owner.and_then(|o| offer.topology.owners.iter().find(|t| t.name.as_str() == o.name));
        let party = Party {
            role: match owner.map(|o| o.kind) {
                None => Requester::Operator,
                Some(TenantKind::Client) => Requester::Client,
                Some(TenantKind::ThirdParty) => Requester::ThirdParty,
            },
            registered: known.map(|o| o.registered.clone()).unwrap_or_default(),
            modules: modules.map(weir_model::value::IpPrefix::host).collect(),
        };
        let (mut candidates, mut against) = (Vec::new(), Vec::new());
        for (name, platform) in &offer.platforms {
            let member = view.members.get(name);
            let domain = view.known.get(name).and_then(|k| k.domain.as_ref());
            let why = match (member, domain) {
                (None, _) => "no node of this name has joined",
                (Some(m), _) if m.cordoned => "the node is cordoned",
                _ if self.fleet.get(name).is_none() => "the node is offline",
                (_, None) => "the node has not said yet what it has",
                (Some(_), Some(_)) => "",
            };
            let (Some(domain), "") = (domain, why) else {
                against.push(on(name, "", why.to_owned()));
                continue;
            };
            let there: Vec<&Kept> = view.requests.values().filter(|k| k.answer.node == *name).collect();
            let is_free = |a: &Access| {
                let id = id(0);
                let graph = ServiceGraph::from_json(&module::graph(&id, None, name, a, "Idle;").to_string());
                !there.iter().any(|k| k.access == *a)
                    && graph.is_ok_and(|g| g.saps.iter().all(|s| no_place(domain, &id, s).is_none()))
            };
            let Some(access) = platform.access().find(is_free) else {
                let text = "all access points for requests are taken, or not there";
                against.push(on(name, "", text.to_owned()));
                continue;
            };
            let mut taken: BTreeSet<_> = there.iter().flat_map(|k| addresses(k)).collect();
            taken.insert(platform.gateway.into());
            candidates.push((there.len(), Candidate { name: name.clone(), access, taken }));
        }
        candidates.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
        let candidates: Vec<Candidate> = candidates.into_iter().map(|(_, c)| c).collect();
        let proving =
            tokio::task::spawn_blocking(move || prove(&offer, &request, &party, &candidates, against));
        proving.await.map_err(|_| Problem::internal())?
    }

    /// What would be answered to a request. Nothing is done.
    ///
    /// # Errors
    /// What would be refused, and why.
    pub async fn query(&self, text: &str, owner: Option<&Owner>) -> Result<RequestAnswer, Problem> {
        Ok(answer(&self.proved(text, owner).await?, owner, None))
    }

    /// Proves a request and runs it. To be run to its end.
    ///
    /// # Errors
    /// It was refused, and why; nothing runs then.
    pub async fn request(
        &self,
        text: &str,
        by: &Principal,
        lifetime: Option<u64>,
    ) -> Result<RequestAnswer, Problem> {
        let longest = self.offer()?.longest;
        if let Some(lifetime) = lifetime.filter(|l| !(1..=longest).contains(l)) {
            let text = format!("a lifetime of {lifetime} seconds: it is 1 to {longest}");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text));
        }
        // Addresses and access points are given one request at a time.
        let _requesting = self.requesting.lock().await;
        let owner = by.tenant();
        let proved = self.proved(text, owner).await?;
        let Some(script) = &proved.script else {
            let text = "the request has no module, so there is nothing to run; 'weir query' asks without";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text));
        };
        let until = lifetime.map(|l| now().saturating_add(l));
        let mut answer = answer(&proved, owner, until);
        let kept = Kept { answer: answer.clone(), request: text.to_owned(), access: proved.access.clone() };
        let stored = kept.clone();
        let number = self.blocking(move |s| s.new_request(&stored)).await?;
        let id = id(number);
        let tenant = owner.map(|o| o.name.as_str());
        let graph = module::graph(&id, tenant, &proved.name, &proved.access, script);
        let graph = ServiceGraph::from_json(&graph.to_string()).map_err(|e| {
            tracing::error!("the graph of a request: {e}");
            Problem::internal()
        });
        let put = async {
            let note = Note { message: Some("a request".into()), ..Note::default() };
            let (always, node) = (Precondition::default(), Some(proved.name.as_str()));
            self.put(Document::from(graph?), node, false, &always, by, &note).await
        };
        if let Err(problem) = put.await {
            self.blocking(move |s| s.remove_request(number)).await?;
            return Err(problem);
        }
        self.edit(|v| v.requests.insert(number, kept));
        answer.id = Some(id);
        Ok(answer)
    }

    /// Ends a request. To be run to its end.
    ///
    /// # Errors
    /// There is none, who asks may not, or the store cannot be written.
    pub async fn end_request(&self, number: u64, by: &Principal) -> Result<(), Problem> {
        let id = id(number);
        if self.view().graphs.contains_key(&id) {
            self.remove(&id, &Precondition::default(), by).await?;
        }
        self.blocking(move |s| s.remove_request(number)).await?;
        self.edit(|v| v.requests.remove(&number));
        Ok(())
    }

    /// Ends the requests whose time is over, and forgets those whose graph is gone.
    pub(crate) async fn end_requests(&self) {
        let _requesting = self.requesting.lock().await;
        let view = self.view();
        let graphs: BTreeSet<String> = view.graphs.keys().cloned().collect();
        for number in lifetime::over(&view.requests, &graphs, now()) {
            if let Err(e) = self.end_request(number, &Principal::operator("lifetime")).await {
                tracing::warn!("{} is over and not ended yet: {e}", id(number));
            }
        }
    }
}

fn answer(proved: &Proved, owner: Option<&Owner>, until: Option<u64>) -> RequestAnswer {
    let module =
        |(name, a): &(String, std::net::IpAddr)| ModuleAddress { name: name.clone(), address: a.to_string() };
    RequestAnswer {
        id: None,
        tenant: owner.map(|o| o.name.clone()),
        node: proved.name.clone(),
        until,
        modules: proved.addresses.iter().map(module).collect(),
        findings: proved.findings.clone(),
    }
}
