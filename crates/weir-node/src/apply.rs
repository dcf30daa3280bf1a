//! Applying documents: one or many in one go, each by itself or all together.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use weir_oci::Source;
use weir_switch::compile::CompileError;
use weir_switch::lsi0::{Attachment, Base, Part};

use crate::accounts::Accounts;
use crate::candidates::Candidates;
use crate::changes::{Change, Others};
use crate::connection::DataPlane;
use crate::desired::{AccessPoint, DesiredGraph};
use crate::instance::Instance;
use crate::mtu;
use crate::node::Node;
use crate::perform::Refusals;
use crate::resources::Resources;
use crate::secrets;
use crate::tenancy::refuse_over_quota;
use crate::view::{Applied, ApplyError, Entry, Outcome, View};
use weir_api::events::Kind;
use weir_auth::{Action, Principal};
use weir_rest::body::Document;
use weir_rest::precondition::Precondition;
use weir_store::events::NewEvent;
use weir_store::history::{Confirm, Note};

/// How documents are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct How {
    /// Who applies them.
    pub by: Arc<Principal>,
    /// Whether a graph that is there may be changed.
    pub change: bool,
    /// Whether all are applied or none; otherwise each by itself.
    pub together: bool,
    /// Whether a graph is applied again that is as asked for, so that handler writes beside the document go.
    pub again: bool,
    /// Who applies them, and why, as it is kept with the revisions.
    pub note: Note,
}

impl Default for How {
    fn default() -> How {
        let by = Arc::new(Principal::operator("local"));
        How { by, change: true, together: true, again: false, note: Note::default() }
    }
}

pub(crate) type Outcomes = Vec<Result<Applied, ApplyError>>;
/// The compiled documents, each by itself.
pub(crate) type Compiled = Vec<Result<Arc<DesiredGraph>, ApplyError>>;

/// Documents that are ready to be applied.
pub(crate) struct Prepared {
    /// The graphs' identifiers.
    pub(crate) ids: Vec<String>,
    pub(crate) compiled: Compiled,
}

/// Graphs that are being applied.
struct Proposal {
    /// Its place in the request.
    at: usize,
    graph: Arc<DesiredGraph>,
    before: Option<Entry>,
    revision: u64,
}

impl<D: DataPlane> Node<D> {
    /// Creates a graph, or changes it. To be run to its end: spawn it as a task of its own.
    ///
    /// # Errors
    /// [`ApplyError`]; what ran before goes on.
    pub async fn put(
        &self,
        document: impl Into<Document>,
        how: How,
        condition: &Precondition,
    ) -> Result<Applied, ApplyError> {
        let document = document.into();
        let id = document.graph.id.to_string();
        let _timer = self.times.change();
        self.check(&id, condition)?;
        let prepared = self.prepare(vec![document]).await?;
        let mut change = self.changes.begin([&*id].into_iter()).await;
        self.check(&id, condition)?;
        let mut outcomes = self.try_all(&mut change, prepared, how).await?;
        outcomes.pop().unwrap_or_else(|| Err(ApplyError::Internal("nothing was applied".into())))
    }

    /// Whether a graph may be changed; asked by a change of it, so that it stays as it is.
    pub(crate) fn check(&self, id: &str, condition: &Precondition) -> Result<(), ApplyError> {
        if condition.is_empty() {
            return Ok(());
        }
        let tag = self.graph(id).map(|e| e.tag());
        if condition.holds(tag.as_deref()) {
            return Ok(());
        }
        Err(ApplyError::Condition(match tag {
            Some(tag) => format!("graph '{id}' is there, with the entity tag \"{tag}\""),
            None => format!("there is no graph '{id}'"),
        }))
    }

    /// The same for several documents, without conditions, with what became of each. To be run to its end as well.
    pub async fn put_all(&self, documents: Vec<impl Into<Document>>, how: How) -> Outcomes {
        let documents: Vec<Document> = documents.into_iter().map(Into::into).collect();
        let number = documents.len();
        let _timer = self.times.change();
        let tried = async {
            let prepared = self.prepare(documents).await?;
            let ids = prepared.ids.clone();
            let mut change = self.changes.begin(ids.iter().map(String::as_str)).await;
            self.try_all(&mut change, prepared, how).await
        };
        match tried.await {
            Ok(outcomes) => outcomes,
            // What failed for one failed for all.
            Err(e) => {
                let mut outcomes: Outcomes = Vec::new();
                outcomes.resize_with(number.saturating_sub(1), || Err(ApplyError::Together));
                outcomes.insert(0, Err(e));
                outcomes
            }
        }
    }

    pub(crate) async fn try_all(
        &self,
        change: &mut Change<'_, D>,
        Prepared { ids, mut compiled }: Prepared,
        how: How,
    ) -> Result<Outcomes, ApplyError> {
        // What is amiss for other reasons must not count against these graphs.
        self.settle_if_new(change).await.map_err(ApplyError::Lost)?;
        let view = self.view();
        self.refuse(&view, &mut compiled);
        let mut outcomes: Vec<Option<Result<Applied, ApplyError>>> = Vec::new();
        let mut proposals = Vec::new();
        let mut seen = BTreeSet::new();
        for (at, (id, graph)) in ids.iter().zip(compiled).enumerate() {
            let before = view.graphs.get(id).cloned();
            if !seen.insert(id.clone()) {
                outcomes.push(Some(Err(ApplyError::Twice(id.clone()))));
                continue;
            }
            // Whose the graph is, is known here only: nothing else changes meanwhile.
            let owned = before.iter().map(|e| &e.graph).chain(graph.iter()).map(|g| g.owned());
            let denied = owned.filter_map(|g| how.by.may(&Action::ChangeGraph(g)).err()).next();
            if let Some(denied) = denied {
                outcomes.push(Some(Err(denied.into())));
                continue;
            }
            if before.is_some() && !how.change {
                outcomes.push(Some(Err(ApplyError::Exists(id.clone()))));
                continue;
            }
            let graph = match graph {
                Ok(graph) => graph,
                Err(e) => {
                    outcomes.push(Some(Err(e)));
                    continue;
                }
            };
            let of = before.as_ref().map(|e| e.graph.owner.as_deref());
            if let Some(of) = of
                && let Err(who) = self.membership.may_change(id, of, graph.owner.as_deref())
            {
                outcomes.push(Some(Err(ApplyError::Owned(who))));
                continue;
            }
            let same = before.as_ref().filter(|e| e.graph.is_same(&graph) && !view.failures.contains_key(id));
            if let Some(e) = same
                && !how.again
            {
                let applied = Applied { revision: e.revision, outcome: Outcome::Unchanged };
                if how.note.confirm == Confirm::Final {
                    self.confirm_revision(id).await?;
                }
                if e.graph.text != graph.text || e.graph.owner != graph.owner {
                    self.rewrite(&graph).await?;
                }
                outcomes.push(Some(Ok(applied)));
                continue;
            }
            outcomes.push(None);
            proposals.push(Proposal { at, graph, before, revision: 0 });
        }
        let is_wrong = |o: &Option<Result<_, _>>| matches!(o, Some(Err(_)));
        if !(how.together && outcomes.iter().any(is_wrong)) {
            let done = self.propose(change, &view, &mut proposals, &how, &mut outcomes).await;
            self.edit(|v| proposals.iter().for_each(|p| drop(v.proposed.remove(&p.graph.id))));
            done?;
        }
        let failed = how.together && outcomes.iter().any(is_wrong);
        let outcome = |o: Option<Result<Applied, ApplyError>>| match o {
            Some(Ok(_)) | None if failed => Err(ApplyError::Together),
            Some(outcome) => outcome,
            None => Err(ApplyError::Together),
        };
        Ok(outcomes.into_iter().map(outcome).collect())
    }

    /// Keeps another text of a document that says the same.
    async fn rewrite(&self, graph: &Arc<DesiredGraph>) -> Result<(), ApplyError> {
        let new = graph.clone();
        self.blocking(move |store| store.rewrite(&new)).await?;
        self.edit(|v| {
            if let Some(e) = v.graphs.get_mut(&graph.id) {
                e.graph = graph.clone();
            }
        });
        Ok(())
    }

    /// Stores what is proposed, tries it out, and keeps it or takes it back.
    async fn propose(
        &self,
        change: &mut Change<'_, D>,
        view: &View,
        proposals: &mut [Proposal],
        how: &How,
        outcomes: &mut [Option<Result<Applied, ApplyError>>],
    ) -> Result<(), ApplyError> {
        if proposals.is_empty() {
            return Ok(());
        }
        let graphs: Vec<Arc<DesiredGraph>> = proposals.iter().map(|p| p.graph.clone()).collect();
        let note = how.note.clone();
        let revisions = self.blocking(move |store| store.propose(&graphs, &note)).await?;
        proposals.iter_mut().zip(revisions).for_each(|(p, revision)| p.revision = revision);
        let entry = |p: &Proposal| Entry { graph: p.graph.clone(), revision: p.revision, pending: true };
        self.edit(|v| v.proposed.extend(proposals.iter().map(|p| (p.graph.id.clone(), entry(p)))));

        let refused = match self.try_out(change, view, proposals, how).await {
            Ok(refused) => refused,
            Err(e) => {
                let ids: Vec<String> = proposals.iter().map(|p| p.graph.id.clone()).collect();
                let taken_back = self.take_back(&ids).await;
                // If the data plane is lost, this is done when it is back.
                _ = self.settle(change, false).await;
                taken_back?;
                return Err(e);
            }
        };
        let all = how.together && !refused.is_empty();
        let (bad, good): (Vec<&Proposal>, Vec<&Proposal>) =
            proposals.iter().partition(|p| all || refused.contains_key(&p.graph.id));
        self.undo(change, &bad).await?;
        let ids: Vec<String> = good.iter().map(|p| p.graph.id.clone()).collect();
        self.edit(|v| {
            for p in &good {
                let entry = Entry { graph: p.graph.clone(), revision: p.revision, pending: false };
                v.graphs.insert(p.graph.id.clone(), entry);
                v.failures.remove(&p.graph.id);
                v.to_roll_back.remove(&p.graph.id);
                v.starting.remove(&p.graph.id);
                v.drift.remove(&p.graph.id);
            }
            change.show(v);
        });
        self.bind_functions();
        if !ids.is_empty() {
            self.confirm(ids).await;
        }
        let mut events = Vec::new();
        for p in good {
            if let (Some(before), None) = (&p.before, p.graph.on_demand) {
                self.forget_state(&before.graph).await;
            }
            let (kind, outcome) = match p.before {
                Some(_) => (Kind::Changed, Outcome::Changed),
                None => (Kind::Applied, Outcome::Created),
            };
            let why = how.note.message.as_ref().map_or(String::new(), |m| format!(": {m}"));
            let text = format!("revision {} runs{why}", p.revision);
            events.push(event(kind, &p.graph, text));
            outcomes[p.at] = Some(Ok(Applied { revision: p.revision, outcome }));
        }
        for p in bad {
            let Some(errors) = refused.get(&p.graph.id) else { continue };
            let error = ApplyError::Refused(errors.clone());
            let text = format!("a change was refused: {error}: {}", errors.join("; "));
            // Who tried may see why, and so may who has the graph.
            let graph = p.before.as_ref().map_or(&p.graph, |e| &e.graph);
            events.push(event(Kind::Failed, graph, text));
            outcomes[p.at] = Some(Err(error));
        }
        self.events.publish_all(events).await;
        if how.note.confirm != Confirm::Final {
            self.unconfirmed.notify_one();
        }
        Ok(())
    }

    /// Makes the data plane run what is proposed; gives what was refused.
    async fn try_out(
        &self,
        change: &mut Change<'_, D>,
        view: &View,
        proposals: &[Proposal],
        how: &How,
    ) -> Result<Refusals, ApplyError> {
        let wanted = |p: &'_ Proposal| (p.graph.id.clone(), p.graph.clone());
        let wanted: Vec<(String, Arc<DesiredGraph>)> = proposals.iter().map(wanted).collect();
        if how.again {
            change.load_again(proposals.iter().map(|p| p.graph.id.as_str()));
        }
        let wanted: BTreeMap<&str, Option<&DesiredGraph>> =
            wanted.iter().map(|(id, graph)| (id.as_str(), Some(&**graph))).collect();
        let lost = |e| ApplyError::Lost(self.lost(e));
        // An interface that does not open is a mistake of who asks for it now. Whoever had it before only waits.
        let new = |p: &Proposal| -> BTreeMap<String, Base> {
            let had = p.before.iter().filter(|_| !view.failures.contains_key(&p.graph.id));
            let had: BTreeSet<&str> =
                had.flat_map(|e| &e.graph.attachments).map(|a| a.interface.as_str()).collect();
            let places = p.graph.attachments().into_iter().map(|a| (a.base.to_string(), a.base));
            places.filter(|(interface, _)| !had.contains(interface.as_str())).collect()
        };
        let asked: BTreeMap<String, Base> = proposals.iter().flat_map(new).collect();
        change.probe(&asked).await.map_err(lost)?;
        let mut refused = Refusals::new();
        for p in proposals {
            let closed: Vec<String> = new(p).keys().filter_map(|i| change.closed(i).cloned()).collect();
            if !closed.is_empty() {
                refused.insert(p.graph.id.clone(), closed);
            }
        }
        let none = how.together && !refused.is_empty();
        let left = wanted.into_iter().filter(|(id, _)| !none && !refused.contains_key(*id)).collect();
        refused.extend(change.perform(&left, Others::GoOn).await.map_err(lost)?);
        change.forget_closed(&asked);
        Ok(refused)
    }

    /// Takes proposals back, in the store and in the data plane.
    async fn undo(&self, change: &mut Change<'_, D>, bad: &[&Proposal]) -> Result<(), ApplyError> {
        if bad.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = bad.iter().map(|p| p.graph.id.clone()).collect();
        let taken_back = self.take_back(&ids).await;
        let before = bad.iter().map(|p| (p.graph.id.as_str(), p.before.as_ref().map(|e| &*e.graph)));
        match change.perform(&before.collect(), Others::GoOn).await {
            // What ran before is refused now: it is found to have failed.
            Ok(refused) if !refused.is_empty() => _ = self.settle(change, false).await,
            Ok(_) => {}
            Err(e) => _ = self.lost(e),
        }
        Ok(taken_back?)
    }

    /// What documents would become, without conflicts with other graphs or with each other.
    pub(crate) async fn compile_all(&self, documents: Vec<Document>) -> Result<Compiled, ApplyError> {
        let mut graphs = self.compile_each(documents).await?;
        self.refuse(&self.view(), &mut graphs);
        Ok(graphs)
    }

    /// Refuses graphs that cannot be here together with the others, or with each other.
    fn refuse(&self, view: &View, graphs: &mut Compiled) {
        refuse_conflicts(view, graphs);
        refuse_over_quota(view, |tenant| self.login.quotas(tenant), graphs);
        if !self.overcommit {
            refuse_overcommitment(self.accounts(view), graphs);
        }
    }

    /// What each document would become by itself.
    async fn compile_each(&self, documents: Vec<Document>) -> Result<Compiled, ApplyError> {
        let mut images = self.images().await;
        documents.iter().for_each(|d| images.add_scripts(&d.graph));
        let (proofs, drivers) = (self.proofs.clone(), self.drivers.clone());
        let view = self.view();
        let (accounts, overcommit) = (self.accounts(&view), self.overcommit);
        let (containers, asking) = (self.containers.clone(), Handle::current());
        let compile = move || -> Compiled {
            // One answer for all of a request.
            let answers: RefCell<HashMap<String, Result<String, String>>> = RefCell::default();
            let resolve = |source: &Source| {
                let Some(containers) = &containers else {
                    return Err("this node runs no containers".to_owned());
                };
                let ask = || {
                    let digest = asking.block_on(containers.resolve(source));
                    digest.map(|d| d.to_string()).map_err(|e| e.to_string())
                };
                answers.borrow_mut().entry(source.to_string()).or_insert_with(ask).clone()
            };
            let candidates = Candidates::new(&images, Some(&drivers));
            let new = |d: Document| {
                let id = d.graph.id.to_string();
                let left = if overcommit { Resources::UNBOUNDED } else { accounts.left_for(&id) };
                let running = view.graphs.get(&id).map(|e| &*e.graph);
                let document = match running {
                    Some(r) => secrets::restored(d.graph, &r.document, &r.secrets),
                    None => d.graph,
                };
                let chosen = candidates.choose(&document, left, &|f| running?.image_of(f));
                // A source that cannot be asked now keeps nobody from changing what runs from it.
                let kept = |source: &Source| {
                    let same = |i: &&Instance| i.spec.source().as_ref() == Some(source);
                    running?.instances.iter().find(same).map(|i| i.spec.digest.clone())
                };
                let resolve = |source: &Source| {
                    resolve(source).or_else(|e| {
                        let digest = kept(source).ok_or_else(|| e.clone())?;
                        tracing::warn!("graph {id} stays at {digest} of {source}: {e}");
                        Ok(digest)
                    })
                };
                let graph = chosen.and_then(|c| DesiredGraph::of_chosen(&document, c, &proofs, &resolve));
                let graph = graph.and_then(|g| mtu::check(&g).map(|()| g));
                let whole = |g| Arc::new(DesiredGraph { text: d.text, owner: d.owner, ..g });
                graph.map(whole).map_err(ApplyError::Invalid)
            };
            documents.into_iter().map(new).collect()
        };
        spawn_blocking(compile).await.map_err(|e| ApplyError::Internal(e.to_string()))
    }

    /// Does what needs no change of the node, and may take long: other changes go on meanwhile.
    async fn prepare(&self, documents: Vec<Document>) -> Result<Prepared, ApplyError> {
        let ids = documents.iter().map(|d| d.graph.id.to_string()).collect();
        let mut compiled = self.compile_each(documents).await?;
        for graph in &mut compiled {
            if let Ok(g) = graph
                && let Err(e) = self.bring_images(g).await
            {
                *graph = Err(e);
            }
        }
        Ok(Prepared { ids, compiled })
    }

    /// Brings the container images of a graph to this machine.
    pub(crate) async fn bring_images(&self, graph: &DesiredGraph) -> Result<(), ApplyError> {
        let Some(containers) = &self.containers else { return Ok(()) };
        for i in &graph.instances {
            let (Some(source), Ok(digest)) = (i.spec.source(), i.spec.digest.parse()) else { continue };
            let brought = containers.bring(&source, &digest).await;
            brought.map_err(|e| ApplyError::Refused(vec![format!("function '{}': {e}", i.id.function)]))?;
        }
        Ok(())
    }
}

/// What is told of a graph.
fn event(kind: Kind, graph: &DesiredGraph, text: String) -> NewEvent {
    let tenant = graph.tenant().map(str::to_owned);
    NewEvent { tenant, text, ..NewEvent::of(kind, Some(&graph.id)) }
}

/// Refuses a graph that wants the host to get an interface of a name that another one has.
fn refuse_taken_names(view: &View, graph: &mut Result<Arc<DesiredGraph>, ApplyError>) {
    let Ok(g) = graph else { return };
    let before = view.graphs.get(&g.id).map(|e| &e.graph.attachments);
    let new = |p: &AccessPoint| before.is_none_or(|b| b.iter().all(|own| own.interface != p.interface));
    let hosts = g.attachments.iter().enumerate().filter(|(_, p)| new(p));
    let taken = hosts.filter_map(|(i, p)| {
        let host = p.host.as_ref()?;
        let name = &host.name;
        let at = |field: &str| format!("sffg.saps[{i}].host-stack.{field}");
        if weir_io::interface::mtu(name).is_some() {
            let what =
                format!("there is an interface {name} already, and it is not the graph's: give another name");
            return Some(CompileError { at: at("if-name"), what });
        }
        let (address, _) = host.ip?;
        weir_io::tunnel::check_address(address).ok()?;
        let what = format!("another interface of this node has the address {address}: give one of its own");
        Some(CompileError { at: at("ip"), what })
    });
    let taken: Vec<CompileError> = taken.collect();
    if !taken.is_empty() {
        *graph = Err(ApplyError::Invalid(taken));
    }
}

/// Refuses graphs that may come to take more than the others leave.
fn refuse_overcommitment(mut accounts: Accounts, graphs: &mut Compiled) {
    // Those that give something back first: others of the request may need it.
    let grows = |g: &Result<Arc<DesiredGraph>, _>| {
        g.as_ref().is_ok_and(|g| accounts.claim(&g.id).is_none_or(|before| !g.needs().is_within(before)))
    };
    let (growing, others): (Vec<usize>, Vec<usize>) = (0..graphs.len()).partition(|i| grows(&graphs[*i]));
    for i in others.into_iter().chain(growing) {
        let Ok(g) = &graphs[i] else { continue };
        match accounts.admits(&g.id, g.needs()) {
            Ok(()) => accounts.set(&g.id, g.needs()),
            Err(what) => {
                graphs[i] = Err(ApplyError::Invalid(vec![CompileError { at: "sffg".into(), what }]));
            }
        }
    }
}

/// Refuses graphs that want the access point of another.
fn refuse_conflicts(view: &View, graphs: &mut Compiled) {
    graphs.iter_mut().for_each(|g| refuse_taken_names(view, g));
    let mut taken = Taken::default();
    {
        let new: BTreeSet<&str> = graphs.iter().flatten().map(|g| g.id.as_str()).collect();
        let points = || graphs.iter().flatten().flat_map(|g| &g.attachments);
        let place = |p: &AccessPoint| (p.vlan, p.tunnel, p.share.map(|s| s.address()));
        let wanted: HashSet<_> = points().map(|p| (&p.interface, place(p))).collect();
        let interfaces: HashSet<&String> = points().map(|p| &p.interface).collect();
        let hosts: HashSet<&String> = points().flat_map(|p| &p.host).map(|h| &h.name).collect();
        let meets = |p: &AccessPoint| {
            wanted.contains(&(&p.interface, place(p)))
                || hosts.contains(&p.interface)
                || p.host.as_ref().is_some_and(|h| interfaces.contains(&h.name))
        };
        let others = view.all().filter(|g| !new.contains(g.id.as_str()));
        let others = others.filter(|g| g.attachments.iter().any(meets));
        others.for_each(|g| taken.add(g.attachments()));
    }
    for graph in graphs {
        let Ok(g) = graph else { continue };
        let own = g.attachments();
        let found = weir_switch::lsi0::conflicts(taken.near(&own).into_iter().chain(&own));
        if found.is_empty() {
            taken.add(own);
        } else {
            *graph = Err(ApplyError::Conflict(found));
        }
    }
}

/// The access points of graphs before.
#[derive(Default)]
struct Taken {
    places: BTreeMap<(String, Part), Attachment>,
    /// By interface, one that is on it; the host's own first, since that has all of it.
    interfaces: BTreeMap<String, Attachment>,
}

/// The interface of an access point, whoever makes it, or what it has for one.
fn device(a: &Attachment) -> String {
    match &a.base {
        Base::Host(host) => host.name.clone(),
        other => other.to_string(),
    }
}

impl Taken {
    fn add(&mut self, attachments: Vec<Attachment>) {
        for a in attachments {
            let device = device(&a);
            if matches!(a.base, Base::Host(_)) || !self.interfaces.contains_key(&device) {
                self.interfaces.insert(device.clone(), a.clone());
            }
            self.places.insert((device, a.part), a);
        }
    }

    /// Those that have some of the same ports of an address.
    fn sharing(&self, device: &str, part: Part) -> Vec<&Attachment> {
        let Part::Ports(share) = part else { return Vec::new() };
        let same = |((d, p), _): &(&(String, Part), &Attachment)| {
            d == device && matches!(p, Part::Ports(p) if p.overlaps(&share))
        };
        self.places.iter().filter(same).map(|(_, a)| a).collect()
    }

    /// Those that may be in the way of others.
    fn near(&self, own: &[Attachment]) -> Vec<&Attachment> {
        let near = |a: &Attachment| {
            let device = device(a);
            let on_it = self.interfaces.get(&device);
            let shared = self.sharing(&device, a.part);
            [self.places.get(&(device, a.part)), on_it]
                .into_iter()
                .flatten()
                .chain(shared)
                .collect::<Vec<_>>()
        };
        // Each once.
        let found = own.iter().flat_map(near).map(|a| ((device(a), a.part), a));
        found.collect::<BTreeMap<_, _>>().into_values().collect()
    }
}
