//! One run: a controller and its nodes, clients that ask for changes, and faults; then no more faults, an operator who says what was doubtful, and a look at whether all is as it was asked.

mod check;
mod faults;
mod moves;
mod several;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use weir_api::access::TenantSettings;
use weir_auth::Principal;
use weir_auth::quota::Quotas;
use weir_controller::controller::{Controller, Settings};
use weir_controller::fleet::Connected;
use weir_controller::store::Member;
use weir_model::graph::ServiceGraph;
use weir_rest::body::Document;
use weir_rest::login::Login;
use weir_rest::precondition::Precondition;
use weir_store::history::Note;
use weir_tls::authority::Authority;
use weir_tls::files;

use crate::asked::Graph;
use crate::etcd::Etcd;
use crate::network::Network;
use crate::node::{Node, version};
use crate::tasks::{About, Tasks};

/// Steps with faults.
const STEPS: usize = 900;
const NODES: usize = 3;
/// Longer than it takes until a node is lost, and not as long as nodes have when the controller starts.
const LONG: Duration = Duration::from_secs(10);
const GRAPHS: usize = 4;
/// Whose the first graphs are, and how many it may have.
const TENANT: &str = "t";
const OF_TENANT: usize = 3;
const QUOTA: u32 = 2;

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What happened, line by line.
    pub history: Vec<String>,
    /// What should not have: none.
    pub violations: Vec<String>,
    /// Changes that were accepted.
    pub accepted: usize,
}

/// A node and its connection.
#[derive(Debug, Default)]
struct Machine {
    node: Node,
    up: bool,
    connection: Option<u64>,
}

struct Sim {
    rng: fastrand::Rng,
    /// Whether graphs have functions, which move from node to node; then no disk and no store becomes older.
    moves: bool,
    /// Whether the store is put back by copying its file; otherwise by `weir controller restore`. Then disks of nodes do not become older as well: with
    /// all traces gone nobody could know.
    by_hand: bool,
    folder: tempfile::TempDir,
    authority: Arc<Authority>,
    controller: Option<Arc<Controller>>,
    /// The store of several controllers, if there are several.
    etcd: Option<Etcd>,
    /// The controller of each connection.
    owners: BTreeMap<u64, Arc<Controller>>,
    network: Network,
    machines: BTreeMap<String, Machine>,
    tasks: Tasks,
    asked: BTreeMap<String, Graph>,
    /// What each client asks for, for the history.
    texts: BTreeMap<String, String>,
    /// Whether nodes refuse graphs now and then.
    refusals: bool,
    backed_up: bool,
    versions: u32,
    connections: u64,
    effects: usize,
    report: Report,
}

/// Runs a seed.
pub fn simulate(seed: u64) -> Report {
    run(seed, false, false)
}

/// Runs a seed in which functions move.
pub fn simulate_moves(seed: u64) -> Report {
    run(seed, true, false)
}

/// Runs a seed with several controllers.
pub fn simulate_several(seed: u64) -> Report {
    run(seed, false, true)
}

fn run(seed: u64, moves: bool, several: bool) -> Report {
    // Its timers are never driven: nothing that takes time happens here.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else { return failed("there is no runtime") };
    let _inside = runtime.enter();
    match Sim::new(seed, moves, several) {
        Ok(sim) => sim.run(),
        Err(e) => failed(&e),
    }
}

fn failed(why: &str) -> Report {
    Report { history: Vec::new(), violations: vec![why.to_owned()], accepted: 0 }
}

/// The same authority for all: making its key takes longer than a run.
fn authority() -> Option<&'static String> {
    static TEXT: OnceLock<Option<String>> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().ok()?;
        files::authority(folder.path(), "simulation").ok()?;
        Some(files::export(folder.path()).ok()??.1)
    };
    TEXT.get_or_init(make).as_ref()
}

/// Polls what never waits.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(done) => Some(done),
        std::task::Poll::Pending => None,
    }
}

impl Sim {
    fn new(seed: u64, moves: bool, several: bool) -> Result<Sim, String> {
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.map_err(|e| e.to_string())?;
        let of_authority = folder.path().join("controller.authority");
        files::import(&of_authority, authority().ok_or("there is no authority")?)
            .map_err(|e| e.to_string())?;
        let authority = files::authority(&of_authority, "simulation").map_err(|e| e.to_string())?;
        let mut rng = fastrand::Rng::with_seed(seed);
        let machine = |number| {
            let node = Node { number, ..Node::default() };
            (format!("n{number}"), Machine { node, up: true, connection: None })
        };
        let mut sim = Sim {
            by_hand: rng.bool(),
            rng,
            moves,
            folder,
            authority: Arc::new(authority),
            controller: None,
            etcd: several.then(Etcd::default),
            owners: BTreeMap::new(),
            network: Network::default(),
            machines: (1..=NODES).map(machine).collect(),
            tasks: Tasks::default(),
            asked: (0..GRAPHS).map(|g| (format!("g{g}"), Graph::default())).collect(),
            texts: BTreeMap::new(),
            refusals: true,
            backed_up: false,
            versions: 0,
            connections: 0,
            effects: 0,
            report: Report { history: Vec::new(), violations: Vec::new(), accepted: 0 },
        };
        sim.first_start()?;
        Ok(sim)
    }

    /// A store with all nodes, and a tenant.
    fn first_start(&mut self) -> Result<(), String> {
        let store = self.open()?;
        let quotas = Quotas { graphs: Some(QUOTA), ..Quotas::default() };
        let settings = TenantSettings { quotas, ..TenantSettings::default() };
        store.database().put_tenant(TENANT, &settings).map_err(|e| e.to_string())?;
        let token =
            weir_auth::secret::Secret::generate(weir_auth::secret::Use::Join).map_err(|e| e.to_string())?;
        let terms =
            weir_auth::secret::JoinTerms { hash: token.hash(), expires: u64::MAX >> 1, uses: NODES as u32 };
        store.keep_token(&terms, 0).map_err(|e| e.to_string())?;
        for (name, machine) in &self.machines {
            let number = machine.node.number.to_string();
            let member = Member { number, joined: 0, certificate: 0, cordoned: false };
            store.join(&token, 0, name, &member).map_err(|e| e.to_string())?;
        }
        drop(store);
        self.start()
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("controller.db")
    }

    fn backup(&self) -> PathBuf {
        self.folder.path().join("backup")
    }

    /// The controller starts.
    fn start(&mut self) -> Result<(), String> {
        let store = self.open()?;
        store.database().work_at_once();
        let login = Login::off(store.database().clone()).map_err(|e| e.to_string())?;
        let settings = Settings { certificates: Duration::from_secs(3600), ..Settings::default() };
        let controller = Controller::new(store, login, self.authority.clone(), settings);
        self.controller = Some(controller.map_err(|e| e.to_string())?);
        self.note("the controller starts");
        Ok(())
    }

    fn note(&mut self, text: impl Into<String>) {
        self.report.history.push(text.into());
    }

    fn violated(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.note(format!("VIOLATION: {text}"));
        self.report.violations.push(text);
    }

    fn run(mut self) -> Report {
        for _ in 0..STEPS {
            if !self.report.violations.is_empty() {
                return self.report;
            }
            match self.rng.u32(0..100) {
                0..35 => _ = self.poll(),
                35..63 => _ = self.deliver(),
                63..91 => _ = self.answer(),
                91..99 => self.begin(),
                _ => self.fault(),
            }
            self.check_quotas();
        }
        self.finish();
        self.report
    }

    /// Something goes on. Whether there was anything.
    fn poll(&mut self) -> bool {
        let ready = self.tasks.ready();
        if ready == 0 {
            return false;
        }
        let n = self.rng.usize(0..ready);
        if let Some((about, said)) = self.tasks.poll(n) {
            self.ended(about, &said);
        }
        true
    }

    fn ended(&mut self, about: About, said: &str) {
        let accepted = said.is_empty();
        match about {
            About::Client(id) => {
                let text = self.texts.remove(&id).unwrap_or_default();
                let outcome = if accepted { "accepted" } else { said.lines().next().unwrap_or_default() };
                self.note(format!("{text}: {outcome}"));
                self.report.accepted += usize::from(accepted);
                let Some(graph) = self.asked.get_mut(&id) else { return };
                if said.contains("may be done or not") {
                    return graph.unanswered();
                }
                let lost = said.contains("there is no graph") && !graph.possible.contains(&None);
                if let Err(what) = graph.answered(accepted) {
                    self.violated(format!("{id} {what}"));
                }
                if lost {
                    self.violated(format!("{id} was accepted, and is not there"));
                }
            }
            // Whoever arrives is looked at.
            About::Arrive(node) if accepted => self.settle(&node),
            About::Settle(_) if accepted => {}
            About::Replace | About::Old => {}
            About::Settle(node) => self.note(format!("{node} is not settled: {said}")),
            About::Arrive(node) => self.note(format!("{node} is not taken: {said}")),
        }
    }

    /// A request arrives at its node. Whether there was one.
    fn deliver(&mut self) -> bool {
        let asked = {
            let mut all = self.network.in_flight();
            if all.requests.is_empty() {
                return false;
            }
            let n = self.rng.usize(0..all.requests.len());
            all.requests.remove(n)
        };
        let owner = self.authority.pin().to_string();
        let refuses = self.refusals && self.rng.u32(0..12) == 0;
        let Some(machine) = self.machines.get_mut(&asked.node) else { return true };
        let what = (&asked.method, asked.path.as_str());
        let (said, effect) = machine.node.answer(what, asked.mark.as_ref(), &asked.body, &owner, refuses);
        if !asked.method.is_safe() {
            let late = if asked.answer.is_none() { ", late" } else { "" };
            let mark = asked.mark.as_ref().map_or(0, |m| m.generation);
            let text = format!(
                "{} takes {} {} (generation {mark}{late}): {}",
                asked.node,
                asked.method,
                asked.path,
                said.0.as_u16()
            );
            self.note(text);
        }
        self.check_effect(&asked, effect.as_ref());
        self.check_functions();
        self.effects += usize::from(effect.is_some());
        if let Some(answer) = asked.answer {
            self.network.in_flight().answers.push((asked.connection, answer, said));
        }
        true
    }

    /// An answer arrives at the controller. Whether there was one.
    fn answer(&mut self) -> bool {
        let (_, answer, said) = {
            let mut all = self.network.in_flight();
            if all.answers.is_empty() {
                return false;
            }
            let n = self.rng.usize(0..all.answers.len());
            all.answers.remove(n)
        };
        // Nobody may wait for it any more.
        _ = answer.send(said);
        true
    }

    /// Somebody begins something: a node dials, the controller looks at one, a client asks for a change.
    fn begin(&mut self) {
        if self.controller.is_none() {
            return;
        }
        let n = self.rng.usize(0..NODES) + 1;
        match self.rng.u32(0..6) {
            5 => self.replace(),
            0..2 => self.names().iter().for_each(|n| self.dial(n)),
            2 => self.settle(&format!("n{n}")),
            _ => {
                let g = self.rng.usize(0..GRAPHS);
                self.ask(&format!("g{g}"));
            }
        }
    }

    fn dial(&mut self, node: &str) {
        let Some(controller) = self.controller.clone() else { return };
        let Some(machine) = self.machines.get_mut(node).filter(|m| m.up && m.connection.is_none()) else {
            return;
        };
        self.connections += 1;
        machine.connection = Some(self.connections);
        let connection = self.network.connection(node, self.connections);
        self.owners.insert(self.connections, controller.clone());
        let connected = Connected::new(self.connections, node.to_owned(), connection);
        self.note(format!("{node} dials"));
        let name = node.to_owned();
        self.tasks.spawn(About::Arrive(node.to_owned()), async move {
            controller.arrived(&name, connected).await.err().map_or_else(String::new, |e| e.to_string())
        });
    }

    fn settle(&mut self, node: &str) {
        let Some(controller) = self.controller.clone() else { return };
        let about = About::Settle(node.to_owned());
        if controller.fleet.get(node).is_none() || self.tasks.has(&about) {
            return;
        }
        let name = node.to_owned();
        self.tasks.spawn(about, async move {
            controller.settle(&name).await.err().map_or_else(String::new, |e| e.to_string())
        });
    }

    /// Nodes that are away have been so for long, and graphs of theirs that may be are placed anew. That all nodes have time to come back after the controller
    /// started, or else are not known to be lost, stays so: by nodes that have not been there since it is not known whether the store is an old one.
    fn replace(&mut self) {
        let Some(controller) = self.controller.clone() else { return };
        if self.tasks.has(&About::Replace) {
            return;
        }
        self.tasks.spawn(About::Replace, async move {
            controller.replace_lost(Instant::now() + LONG).await;
            String::new()
        });
    }

    /// A client asks for a change of a graph, if it has its answer to the last one.
    fn ask(&mut self, id: &str) {
        if self.moves && self.rng.u32(0..4) > 0 {
            return self.ask_migrate(id);
        }
        match self.rng.u32(0..10) {
            0..2 => self.ask_delete(id),
            // That begins a function anew.
            2 if !self.moves => self.ask_move(id),
            _ => self.ask_put(id),
        }
    }

    fn is_busy(&self, id: &str) -> bool {
        self.tasks.has(&About::Client(id.to_owned()))
    }

    fn ask_put(&mut self, id: &str) {
        let Some(controller) = self.controller.clone().filter(|_| !self.is_busy(id)) else { return };
        self.versions += 1;
        let version = self.versions;
        let node = |rng: &mut fastrand::Rng| format!("n{}", rng.usize(0..NODES) + 1);
        let (a, b) = (node(&mut self.rng), node(&mut self.rng));
        // On one node or two that it names, on one that is asked for, or on any.
        let (named, asked) = match self.rng.u32(0..4) {
            0..2 => (format!("over {a} and {b}"), None),
            2 => (format!("on {a}"), Some(a.clone())),
            _ => ("anywhere".to_owned(), None),
        };
        let place = |node: &str| match named.starts_with("over") {
            true => format!("node: {node}, "),
            false => String::new(),
        };
        let number = id.trim_start_matches('g').parse::<usize>().unwrap_or_default();
        // What is placed anew begins anew, while a node that is only away runs it still.
        let when_lost = if !self.moves && self.rng.bool() { "move" } else { "keep" };
        let tenant = if number < OF_TENANT { format!("tenant: {TENANT}\n") } else { String::new() };
        let (function, first, second) = match self.moves {
            true => (moves::FUNCTION, "sf:f:a", "sf:f:b"),
            false => ("", "sap:r", "sap:l"),
        };
        let more = if self.moves { moves::RULES } else { "" };
        let text = format!(
            "id: {id}\nname: v{version}\n{tenant}placement: {{when-lost: {when_lost}}}\n{function}saps:
  - {{id: l, {}type: vlan, vlan: {{vlan-id: {}, if-name: lan}}}}
  - {{id: r, {}type: vlan, vlan: {{vlan-id: {}, if-name: lan}}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:l'}}, actions: {{output_to_port: '{first}'}}}}
  - {{id: b, priority: 1, match: {{port_in: 'sap:r'}}, actions: {{output_to_port: '{second}'}}}}\n{more}",
            place(&a),
            100 + number,
            place(&b),
            200 + number
        );
        let graph = match ServiceGraph::parse(&text) {
            Ok(graph) => graph,
            Err(e) => return self.violated(format!("a document of the simulation is wrong: {e}")),
        };
        let document = Document { graph, text: Some(text), owner: None };
        self.begins(id, Some(version), format!("put {id} v{version} {named}"));
        self.tasks.spawn(About::Client(id.to_owned()), async move {
            let by = Principal::operator("client");
            let put = controller.put(document, asked.as_deref(), true, &ALWAYS, &by, &Note::default()).await;
            put.err().map_or_else(String::new, |p| p.to_string())
        });
    }

    fn ask_delete(&mut self, id: &str) {
        let Some(controller) = self.controller.clone().filter(|_| !self.is_busy(id)) else { return };
        self.begins(id, None, format!("delete {id}"));
        let name = id.to_owned();
        self.tasks.spawn(About::Client(id.to_owned()), async move {
            let removed = controller.remove(&name, &ALWAYS, &Principal::operator("client")).await;
            removed.err().map_or_else(String::new, |p| p.to_string())
        });
    }

    /// Moves a graph away from a node, which changes nothing of what it is.
    fn ask_move(&mut self, id: &str) {
        let Some(controller) = self.controller.clone().filter(|_| !self.is_busy(id)) else { return };
        let from = format!("n{}", self.rng.usize(0..NODES) + 1);
        let view = controller.view();
        let known = view.graphs.get(id).filter(|g| g.graph.parts.contains_key(&from) && !g.doubtful);
        let Some(version) = known.map(|g| version(&g.graph.document)) else { return };
        self.begins(id, Some(version), format!("move {id} v{version} away from {from}"));
        let name = id.to_owned();
        self.tasks.spawn(About::Client(id.to_owned()), async move {
            controller.move_away(&name, &from).await.err().map_or_else(String::new, |p| p.to_string())
        });
    }

    fn begins(&mut self, id: &str, version: Option<u32>, text: String) {
        self.note(format!("{text}: asked for"));
        self.texts.insert(id.to_owned(), text);
        if let Some(graph) = self.asked.get_mut(id) {
            graph.asks(version);
        }
    }

    /// The names of the nodes.
    fn names(&self) -> BTreeSet<String> {
        self.machines.keys().cloned().collect()
    }
}

/// No condition.
static ALWAYS: Precondition = Precondition { fits: None, differs: None };
