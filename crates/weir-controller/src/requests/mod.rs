//! Requests for processing (CHANGE paper, section 2.2): proved before anything runs, placed on a platform where all holds, and run as a
//! graph of who asks until they end them or their time is over.

pub mod accounting;
mod accounts;
mod candidates;
mod dns;
pub mod lifetime;
pub mod module;
pub mod names;
pub mod offer;
pub mod prove;
pub mod rates;
pub mod sandbox;
pub mod shares;
pub mod stock;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_api::problem::Problem;
use weir_api::requests::{EnforcerRules, ModuleAddress, RequestAnswer};
use weir_auth::{Owner, Principal, TenantKind};
use weir_check::Party;
use weir_model::graph::ServiceGraph;
use weir_model::request::Request;
use weir_rest::body::Document;
use weir_rest::precondition::Precondition;
use weir_store::history::Note;
use weir_topology::Requester;

use crate::controller::{Controller, now};
use offer::{Access, Offer};
use prove::{Proved, on, prove};

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
    /// When it began, in seconds since the epoch.
    #[serde(default)]
    pub since: u64,
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

/// How often a request is proved that others overtake.
const TRIES: usize = 3;

/// A requester, and how often it asked.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    rates: std::sync::Mutex<rates::Rates>,
    /// Held while a request or a query of a tenant is proved: the others wait behind it, and harm nobody else.
    proving: std::sync::Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    since: std::sync::OnceLock<std::time::Instant>,
    /// What is wrong with the offer as it is written now.
    mistaken: std::sync::Mutex<Option<String>>,
    /// What is known of the names of modules at the DNS server; held while they are changed.
    published: tokio::sync::Mutex<dns::Published>,
    /// Held while accounts are changed.
    accounting: tokio::sync::Mutex<()>,
}

impl Asking {
    /// Takes one of what an owner may ask for in a second, and waits for their turn.
    async fn turn(&self, who: &str, rate: u32) -> Result<tokio::sync::OwnedMutexGuard<()>, Problem> {
        let now = self.since.get_or_init(std::time::Instant::now).elapsed().as_secs_f64();
        let taken = self.rates.lock().unwrap_or_else(PoisonError::into_inner).take(who, rate, now);
        taken.map_err(|wait| {
            let text =
                format!("more than {rate} requests and queries in a second: ask again in {wait:.1} seconds");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, text)
        })?;
        let turn = {
            let mut proving = self.proving.lock().unwrap_or_else(PoisonError::into_inner);
            proving.retain(|_, turn| Arc::strong_count(turn) > 1);
            proving.entry(who.to_owned()).or_default().clone()
        };
        Ok(turn.lock_owned().await)
    }
}

impl Controller {
    fn offer(&self) -> Result<Arc<Offer>, Problem> {
        let offer = self.offer.read().unwrap_or_else(PoisonError::into_inner).clone();
        offer.ok_or_else(|| {
            let text = "this controller takes no requests: its operator starts it with --requests FILE";
            Problem::new(StatusCode::NOT_IMPLEMENTED, text)
        })
    }

    /// Reads the offer again if its files changed. One that has mistakes changes nothing.
    pub(crate) async fn renew_offer(&self) {
        let Ok(offer) = self.offer() else { return };
        let read = tokio::task::spawn_blocking(move || offer.newer()).await;
        let wrong = match &read {
            Ok(Err(e)) => Some(e.to_string()),
            _ => None,
        };
        let before = std::mem::replace(
            &mut *self.asking.mistaken.lock().unwrap_or_else(PoisonError::into_inner),
            wrong.clone(),
        );
        match read {
            Ok(Ok(None)) => {}
            Ok(Err(_)) if wrong == before => {}
            Ok(Ok(Some(offer))) => {
                tracing::info!("what is offered to those who ask for processing changed");
                *self.offer.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(offer));
            }
            Ok(Err(e)) => tracing::warn!("what is offered stays as it was: {e}"),
            Err(e) => tracing::error!("what is offered could not be read: {e}"),
        }
    }

    /// Proves a request for a tenant, or for the operator.
    async fn proved(
        &self,
        offer: &Arc<Offer>,
        (text, request): (&str, &Arc<Request>),
        owner: Option<&Owner>,
    ) -> Result<Proved, Problem> {
        let view = self.view();
        let mine = |kept: &&Kept| kept.answer.tenant.as_deref() == owner.map(|o| o.name.as_str());
        let modules = view.requests.values().filter(mine).flat_map(candidates::addresses);
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
        let (mut candidates, against) = self.candidates(offer, &view, request.share);
        for candidate in &mut candidates {
            if let Some(share) = candidate.access.share {
                candidate.request = Some(with_scripts(&shares::filled(text, share), offer)?);
            }
        }
        let against = against.into_iter().map(|(name, why)| on(&name, "", why)).collect();
        let (offer, request) = (offer.clone(), request.clone());
        let proving =
            tokio::task::spawn_blocking(move || prove(&offer, &request, &party, &candidates, against));
        proving.await.map_err(|_| Problem::internal())?
    }

    /// What would be answered to a request. Nothing is done.
    ///
    /// # Errors
    /// What would be refused, and why.
    pub async fn query(&self, text: &str, owner: Option<&Owner>) -> Result<RequestAnswer, Problem> {
        let offer = self.offer()?;
        let _turn = self.asking.turn(who(owner), offer.rate).await?;
        let request = read(text, &offer)?;
        Ok(answer(&self.proved(&offer, (text, &request), owner).await?, owner, None))
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
        let owner = by.tenant();
        let offer = self.offer()?;
        let _turn = self.asking.turn(who(owner), offer.rate).await?;
        // Addresses and access points are given one request at a time.
        let _requesting = self.requesting.lock().await;
        for _ in 0..TRIES {
            let offer = self.offer()?;
            let request = read(text, &offer)?;
            let lifetime = lifetime.or(request.lifetime);
            if let Some(lifetime) = lifetime.filter(|l| !(1..=offer.longest).contains(l)) {
                let text = format!("a lifetime of {lifetime} seconds: it is 1 to {}", offer.longest);
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text));
            }
            let proved = self.proved(&offer, (text, &request), owner).await?;
            // What was proved has to be what is there.
            if Arc::ptr_eq(&offer, &self.offer()?) && self.is_as_proved(&offer, &proved) {
                return self.start(text, &proved, by, lifetime).await;
            }
        }
        let text = format!("the network changed while the request was proved, {TRIES} times: ask again");
        Err(Problem::new(StatusCode::CONFLICT, text))
    }

    /// Runs what is proved.
    async fn start(
        &self,
        text: &str,
        proved: &Proved,
        by: &Principal,
        lifetime: Option<u64>,
    ) -> Result<RequestAnswer, Problem> {
        let Some(runs) = &proved.runs else {
            let text = "the request has no module, so there is nothing to run; 'weir query' asks without";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text));
        };
        let owner = by.tenant();
        let until = lifetime.map(|l| now().saturating_add(l));
        let answer = answer(proved, owner, until);
        let (request, access) = (text.to_owned(), proved.access.clone());
        let kept = Kept { answer: answer.clone(), request, access, since: now() };
        let stored = kept.clone();
        let number = self.blocking(move |s| s.new_request(&stored)).await?;
        let id = id(number);
        let tenant = owner.map(|o| o.name.as_str());
        let graph = module::graph(&id, tenant, &proved.name, &proved.access, runs);
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
            self.blocking(move |s| s.remove_request(number, now())).await?;
            return Err(problem);
        }
        self.edit(|v| v.requests.insert(number, kept));
        Ok(self.named(number, answer))
    }

    /// The answer to a request that is kept, with its identifier, and the names of its modules if there is a zone for them.
    pub(crate) fn named(&self, number: u64, answer: RequestAnswer) -> RequestAnswer {
        let id = id(number);
        let mut answer = RequestAnswer { id: Some(id.clone()), ..answer };
        if let Some(dns) = self.offer().ok().and_then(|offer| offer.dns.clone()) {
            let names = names::names(&id, answer.modules.iter().map(|m| m.name.as_str()), &dns.zone);
            answer.modules.iter_mut().zip(names).for_each(|(m, name)| m.name_in_dns = Some(name));
        }
        answer
    }

    /// Ends a request. To be run to its end.
    ///
    /// # Errors
    /// There is none, who asks may not, or the store cannot be written.
    pub async fn end_request(&self, number: u64, by: &Principal) -> Result<(), Problem> {
        self.account(Some(number)).await;
        self.end(number, by).await
    }

    /// Ends a request whose accounts are up to date.
    async fn end(&self, number: u64, by: &Principal) -> Result<(), Problem> {
        let id = id(number);
        if self.view().graphs.contains_key(&id) {
            self.remove(&id, &Precondition::default(), by).await?;
        }
        self.blocking(move |s| s.remove_request(number, now())).await?;
        self.edit(|v| v.requests.remove(&number));
        Ok(())
    }

    /// Ends the requests whose time is over, and forgets those whose graph is gone.
    pub(crate) async fn end_requests(&self) {
        let _requesting = self.requesting.lock().await;
        let view = self.view();
        let graphs: BTreeSet<String> = view.graphs.keys().cloned().collect();
        let over = lifetime::over(&view.requests, &graphs, now());
        if !over.is_empty() {
            // Once for all: many may be over at the same time.
            self.account(None).await;
        }
        for number in over {
            if let Err(e) = self.end(number, &Principal::operator("lifetime")).await {
                tracing::warn!("{} is over and not ended yet: {e}", id(number));
            }
        }
    }
}

/// A request with the scripts of its images.
fn read(text: &str, offer: &Offer) -> Result<Arc<Request>, Problem> {
    // One that shares an address has words for what it does not know yet.
    if let Some(example) = shares::example(weir_net::Protocols::All) {
        let filled = shares::filled(text, example);
        if filled != text && Request::parse(&filled).is_ok_and(|r| r.share.is_some()) {
            return with_scripts(&filled, offer);
        }
    }
    with_scripts(text, offer)
}

fn with_scripts(text: &str, offer: &Offer) -> Result<Arc<Request>, Problem> {
    let request = stock::with_scripts(Request::parse(text)?, &offer.images);
    let refused =
        |list| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the request cannot be run").with(list);
    request.map(Arc::new).map_err(refused)
}

/// What who asks is counted by; no tenant has an empty name.
fn who(owner: Option<&Owner>) -> &str {
    owner.map_or("", |o| o.name.as_str())
}

fn answer(proved: &Proved, owner: Option<&Owner>, until: Option<u64>) -> RequestAnswer {
    let share = proved.access.share;
    let module = |(name, a): &(String, std::net::IpAddr)| ModuleAddress {
        name_in_dns: None,
        ports: share.map(|s| format!("{}-{}", s.ports().0, s.ports().1)),
        protocols: share.map(|s| s.protocols().to_string()),
        name: name.clone(),
        address: a.to_string(),
        sandbox: proved.sandboxes.get(name).map(|s| s.kind.to_owned()),
        enforcer: proved.sandboxes.get(name).map(|s| EnforcerRules {
            destinations: s.enforcer.to.iter().map(ToString::to_string).collect(),
            answers: weir_check::ANSWERS.as_secs(),
        }),
    };
    RequestAnswer {
        id: None,
        tenant: owner.map(|o| o.name.clone()),
        node: proved.name.clone(),
        until,
        modules: proved.addresses.iter().map(module).collect(),
        findings: proved.findings.clone(),
    }
}
