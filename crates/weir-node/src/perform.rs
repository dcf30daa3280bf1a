//! Carries out the steps of [`crate::reconcile`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use weir_protocol::{Answer, Command, GraphStatus};
use weir_switch::lsi0::{ACCESS_POINTS, Base, lsi0};

use crate::compute::{ComputeError, Drivers, Observed};
use crate::connection::{CallError, DataPlane};
use crate::desired::DesiredGraph;
use crate::instance::{Instance, InstanceId, Kind, SwitchSpec};
use crate::node::blocking;
use crate::reconcile::{
    Known, LSI0, Links, Point, Running, RunningFunction, Step, Wanted, lsi0_of, reconcile,
};
use crate::store::Store;
use crate::suspend::Saved;
use crate::view::View;
use weir_store::StoreError;

/// Switches that are loaded at a time.
const AT_A_TIME: usize = 64;

/// What is said of a state that a graph cannot go on with.
const NOT_RESUMED: &str = "the state on disk, with which it was suspended, cannot be used ('weir resume GRAPH --anew' starts it without)";

/// Why the steps did not come to their end.
#[derive(Debug)]
pub enum StepError {
    /// The data plane was lost.
    Lost(String),
    /// The store cannot be read.
    Store(StoreError),
    /// A driver does not know what it runs.
    Driver(String),
}

/// The mistakes, by graph.
pub type Refusals = BTreeMap<String, Vec<String>>;

/// Graphs, each as it is wanted, or not at all.
pub type WantedGraphs<'a> = BTreeMap<&'a str, Option<&'a DesiredGraph>>;

/// The data plane, and what is known of it.
#[derive(Debug)]
pub struct Runtime<D> {
    /// Carries out commands.
    pub plane: Arc<D>,
    /// Run the functions that are not inline.
    pub drivers: Drivers,
    /// Remembers which handler writes were made.
    pub store: Arc<Store>,
    /// Most bytes that a graph may take.
    pub memory: Option<u64>,
    /// The process, and what it runs; none: it has to be asked.
    pub known: Option<(String, Running)>,
    /// The states that graphs go on with that are started.
    pub(crate) saved: BTreeMap<String, Saved>,
    /// Graphs that their first packet starts just now, while others have the runtime.
    pub(crate) waking: BTreeSet<String>,
    /// What is wrong with interfaces.
    faults: BTreeMap<String, String>,
    /// Those of them whose ports are not open.
    closed: BTreeMap<String, String>,
}

impl From<CallError> for StepError {
    fn from(e: CallError) -> StepError {
        StepError::Lost(e.to_string())
    }
}

impl<D: DataPlane> Runtime<D> {
    /// Nothing is known yet.
    pub fn new(plane: Arc<D>, store: Arc<Store>) -> Runtime<D> {
        let drivers = Drivers::default();
        Runtime {
            plane,
            drivers,
            store,
            memory: None,
            known: None,
            saved: BTreeMap::new(),
            waking: BTreeSet::new(),
            faults: BTreeMap::new(),
            closed: BTreeMap::new(),
        }
    }

    /// Forgets what is known.
    pub fn forget(&mut self) {
        self.known = None;
    }

    /// Puts into a view what is known: interfaces that do not work, and which of the graphs run that their first packet starts.
    pub(crate) fn show(&self, view: &mut View) {
        view.faults.clone_from(&self.faults);
        view.awake = self.awake();
        view.waking.clone_from(&self.waking);
    }

    /// Why the port of an interface is not open, if it is not.
    pub fn closed(&self, interface: &str) -> Option<&String> {
        self.closed.get(interface)
    }

    /// The process that is known.
    pub fn process(&self) -> Option<String> {
        self.known.as_ref().map(|(engine, _)| engine.clone())
    }

    /// Takes graphs for such that do not run as they should, so that they are loaded again.
    pub fn load_again<'a>(&mut self, graphs: impl Iterator<Item = &'a str>) {
        let Some((_, running)) = &mut self.known else { return };
        for graph in graphs {
            // Of other functions, those that were written to.
            for (id, f) in &mut running.functions {
                let written = || self.drivers.get(f.kind).is_ok_and(|d| !d.written(id).is_empty());
                if id.graph == graph && written() {
                    f.tag.clear();
                }
            }
            if let Some(tag) = running.graphs.get_mut(graph) {
                tag.clear();
            }
        }
    }

    /// Of the graphs that their first packet starts, those that run.
    pub(crate) fn awake(&self) -> BTreeSet<String> {
        self.known.as_ref().map(|(_, running)| running.awake.clone()).unwrap_or_default()
    }

    /// Has a graph run from now on, or end and wait for a packet.
    pub(crate) fn set_awake(&mut self, graph: &str, awake: bool) {
        let Some((_, running)) = &mut self.known else { return };
        match awake {
            true => drop(running.awake.insert(graph.to_owned())),
            false => drop(running.awake.remove(graph)),
        }
    }

    /// Has packets for a graph wait, whether it runs or not.
    pub(crate) fn hold_back(&mut self, graph: &str, held: bool) {
        let Some((_, running)) = &mut self.known else { return };
        match held {
            true => drop(running.held_back.insert(graph.to_owned())),
            false => drop(running.held_back.remove(graph)),
        }
    }

    /// Whether the data plane is a process of which nothing is known.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn is_new(&mut self) -> Result<bool, StepError> {
        let engine = self.engine().await?;
        if self.known.as_ref().is_some_and(|(known, _)| *known != engine) {
            self.known = None;
        }
        Ok(self.known.is_none())
    }

    /// The process. A new one has made no writes, whatever the old one had.
    async fn engine(&self) -> Result<String, StepError> {
        match self.plane.call(Command::Hello).await? {
            Answer::Hello { pid, started, .. } => Ok(format!("{pid}@{started}")),
            other => Err(StepError::Lost(format!("it answered Hello with {other:?}"))),
        }
    }

    /// Asks what runs.
    ///
    /// # Errors
    /// The data plane cannot be reached, or the store cannot be read.
    pub async fn observe(&mut self) -> Result<(), StepError> {
        self.known = None;
        let engine = self.engine().await?;
        let graphs = match self.plane.call(Command::List).await? {
            Answer::Graphs { graphs } => graphs,
            other => return Err(StepError::Lost(format!("it answered List with {other:?}"))),
        };
        let mut running = Running::default();
        self.faults.clear();
        self.closed.clear();
        for g in graphs {
            let Some(interface) = g.name.strip_prefix(LSI0) else {
                running.graphs.insert(g.name, g.tag);
                continue;
            };
            running.add_lsi0(interface, &g.tag);
            if !g.trouble.is_empty() {
                self.faults.insert(interface.to_owned(), g.trouble);
            }
            let handler = format!("{ACCESS_POINTS}.points");
            let read = Command::Read { graph: g.name.clone(), handler };
            let Answer::Text { text } = self.plane.call(read).await? else { continue };
            for line in text.lines() {
                let mut words = line.split_whitespace();
                let (Some(part), Some(to), Some(from)) = (words.next(), words.next(), words.next()) else {
                    continue;
                };
                let Ok(part) = part.parse() else { continue };
                let held = words.next() == Some("hold");
                let links = Links { to: to.to_owned(), from: from.to_owned(), held };
                running.add_point((interface.to_owned(), part), links);
            }
        }
        // What runs goes on; all others wait for their first packet.
        running.awake = running.graphs.keys().cloned().collect();
        for driver in self.drivers.all() {
            let kind = driver.kind();
            let observed = driver.observe().await.map_err(|e| StepError::Driver(e.to_string()))?;
            let function = |o: Observed| (o.id, RunningFunction { kind, tag: o.tag, ports: o.ports });
            running.functions.extend(observed.into_iter().map(function));
        }
        let process = engine.clone();
        let written = blocking(&self.store, move |s| s.written(&process)).await;
        running.written = written.map_err(StepError::Store)?;
        self.known = Some((engine, running));
        Ok(())
    }

    /// All graphs that are known to run, or to have access points.
    pub fn names(&self) -> Vec<String> {
        self.known.iter().flat_map(|(_, running)| running.names()).map(str::to_owned).collect()
    }

    /// Those of these graphs of which functions are to be made, changed or removed.
    pub fn with_functions(&self, wanted: &WantedGraphs<'_>) -> BTreeSet<String> {
        let Some((_, running)) = &self.known else { return BTreeSet::new() };
        let graph = |step: Step| match step {
            Step::Create(Wanted::Function(i)) | Step::Update(Wanted::Function(i)) | Step::Shrink(i) => {
                Some(i.id.graph)
            }
            Step::Remove(Known::Function(id, _)) => Some(id.graph),
            _ => None,
        };
        reconcile(wanted, running).into_iter().filter_map(graph).collect()
    }

    /// The functions of these graphs that are to be brought to work before their switches, each with the kind that it has now.
    pub fn functions_of(&self, wanted: &WantedGraphs<'_>) -> Vec<(Instance, Option<Kind>)> {
        let Some((_, running)) = &self.known else { return Vec::new() };
        let kind = |i: Instance| {
            let now = running.functions.get(&i.id).map(|f| f.kind);
            (i, now)
        };
        let steps = reconcile(wanted, running).into_iter().filter_map(|step| match step {
            Step::Create(Wanted::Function(i)) | Step::Update(Wanted::Function(i)) => Some(*i),
            _ => None,
        });
        steps.map(kind).collect()
    }

    /// Remembers how functions are that were brought to work, and gives what was refused.
    pub fn note_functions(&mut self, done: Vec<(Instance, Result<(), ComputeError>)>) -> Refusals {
        let mut refused = Refusals::new();
        for (Instance { id, spec, tag }, result) in done {
            // What failed may be there in part.
            let tag = if result.is_ok() { tag } else { String::new() };
            let function = RunningFunction { kind: spec.kind(), tag, ports: spec.ports };
            if let Some((_, running)) = &mut self.known {
                running.functions.insert(id.clone(), function);
            }
            if let Err(e) = result {
                refused.entry(id.graph).or_default().push(e.to_string());
            }
        }
        refused
    }

    /// Makes the switches of these graphs, and access points, what is wanted; gives what was refused, and what is left to do.
    pub async fn switches(
        &mut self,
        wanted: &WantedGraphs<'_>,
        engine: &str,
        running: &mut Running,
    ) -> Result<(Refusals, Left), StepError> {
        let mut refused = self.load(reconcile(wanted, running), engine, running).await?;
        let mut remaining = wanted.clone();
        remaining.retain(|name, _| !refused.contains_key(*name));
        let mut left = Left::default();
        for step in reconcile(&remaining, running) {
            tracing::debug!("{step:?}");
            match step {
                Step::Create(Wanted::Lsi0 { interface, config, tag })
                | Step::Update(Wanted::Lsi0 { interface, config, tag }) => {
                    let name = lsi0_of(&interface);
                    self.call(self.load_command(name, config, tag.clone(), false)).await?.map_or_else(
                        |errors| drop(self.faults.insert(interface.clone(), errors.join("; "))),
                        |_| running.add_lsi0(&interface, &tag),
                    );
                    self.look_at(&interface).await?;
                }
                // These are done; what is left of them was refused by then.
                Step::Create(_) | Step::Update(_) | Step::Write { .. } => {}
                Step::Shrink(instance) => left.shrinking.push(*instance),
                Step::Attach { interface, points } => {
                    if self.faults.contains_key(&interface) {
                        self.look_at(&interface).await?;
                    }
                    let write = Command::Write {
                        graph: lsi0_of(&interface),
                        handler: format!("{ACCESS_POINTS}.change"),
                        value: lines(&points),
                    };
                    match self.call(write).await? {
                        Ok(_) => points.into_iter().for_each(|p| note(running, &interface, p)),
                        Err(errors) => {
                            let named = points.iter().flat_map(|p| &p.links).map(Links::graph);
                            named.for_each(|g| drop(refused.insert(g.to_owned(), errors.clone())));
                        }
                    }
                }
                Step::Remove(Known::Lsi0(interface)) => {
                    // If it is gone already, so much the better.
                    _ = self.call(Command::Unload { graph: lsi0_of(&interface) }).await?;
                    running.remove_lsi0(&interface);
                    self.faults.remove(&interface);
                    self.closed.remove(&interface);
                }
                Step::Remove(Known::Switch(graph)) => {
                    _ = self.call(Command::Unload { graph: graph.clone() }).await?;
                    running.graphs.remove(&graph);
                    running.written.remove(&graph);
                    running.awake.remove(&graph);
                }
                Step::Remove(Known::Function(id, kind)) => left.removals.push((id, kind)),
            }
        }
        left.shrinking.retain(|i| !refused.contains_key(&i.id.graph));
        Ok((refused, left))
    }

    /// Loads graphs and makes their handler writes, many graphs at a time.
    async fn load(
        &self,
        steps: Vec<Step>,
        engine: &str,
        running: &mut Running,
    ) -> Result<Refusals, StepError> {
        let mut chains: BTreeMap<String, (String, Vec<Command>)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Create(Wanted::Switch { graph, config, tag })
                | Step::Update(Wanted::Switch { graph, config, tag }) => {
                    let load = self.load_command(graph.clone(), config, tag.clone(), true);
                    chains.insert(graph, (tag, vec![load]));
                }
                Step::Write { graph, tag, writes } => {
                    let chain = chains.entry(graph.clone()).or_insert_with(|| (tag, Vec::new()));
                    let write = |(handler, value)| Command::Write { graph: graph.clone(), handler, value };
                    chain.1.extend(writes.into_iter().map(write));
                }
                _ => {}
            }
        }
        for (graph, (tag, commands)) in &mut chains {
            if let Some(saved) = self.saved.get(graph) {
                commands.extend(saved.commands(graph, tag));
            }
        }
        let free = Arc::new(Semaphore::new(AT_A_TIME));
        let mut tasks = JoinSet::new();
        for (graph, (tag, commands)) in chains {
            let (plane, free) = (self.plane.clone(), free.clone());
            tasks.spawn(async move {
                let _turn = free.acquire().await;
                let (mut loaded, mut written) = (false, false);
                for command in commands {
                    let what = match &command {
                        Command::Write { handler, .. } => Some(format!("writing {handler}")),
                        Command::Import { .. } => Some(NOT_RESUMED.to_owned()),
                        _ => None,
                    };
                    let writes = matches!(command, Command::Write { .. });
                    match (plane.call(command).await, what) {
                        (Ok(_), None) => loaded = true,
                        (Ok(_), Some(_)) => written |= writes,
                        (Err(CallError::Refused(errors)), Some(what)) => {
                            let texts = errors.iter().map(|e| format!("{what}: {e}")).collect();
                            return (graph, tag, loaded, false, Err(CallError::Refused(texts)));
                        }
                        (Err(e), _) => return (graph, tag, loaded, false, Err(e)),
                    }
                }
                (graph, tag, loaded, written, Ok(()))
            });
        }
        let (mut refused, mut lost, mut writes) = (Refusals::new(), None, Vec::new());
        while let Some(done) = tasks.join_next().await {
            let (graph, tag, loaded, written, result) =
                done.map_err(|e| StepError::Lost(format!("internal error: {e}")))?;
            if loaded {
                running.graphs.insert(graph.clone(), tag.clone());
                running.awake.insert(graph.clone());
                running.written.remove(&graph);
            }
            if written {
                running.written.insert(graph.clone(), tag.clone());
                writes.push((graph.clone(), tag));
            }
            match result {
                Ok(()) => {}
                Err(CallError::Refused(errors)) => drop(refused.insert(graph, errors)),
                Err(CallError::Lost(e)) => lost = Some(e),
            }
        }
        if let Some(e) = lost {
            return Err(StepError::Lost(e));
        }
        let engine = engine.to_owned();
        if !writes.is_empty()
            && let Err(e) = blocking(&self.store, move |s| s.set_written(&writes, &engine)).await
        {
            // They are made once more at the next opportunity.
            tracing::warn!("handler writes are not marked as made: {e}");
        }
        Ok(refused)
    }

    fn load_command(&self, graph: String, config: String, tag: String, of_tenant: bool) -> Command {
        let file = format!("{graph}.click");
        let scope = of_tenant.then(|| graph.clone());
        let memory = self.memory.filter(|_| of_tenant);
        Command::Load { graph, config, file, tag, scope, memory }
    }

    /// Finds out whether interfaces that graphs are about to use can be opened; [`closed`](Runtime::closed) tells then. Those that
    /// nothing uses in the end are closed by the next [`perform`](crate::changes::Change::perform).
    ///
    /// # Errors
    /// The data plane was lost.
    pub async fn probe(&mut self, bases: &BTreeMap<String, Base>) -> Result<(), StepError> {
        let Some((engine, mut running)) = self.known.take() else { return Ok(()) };
        for (interface, base) in bases {
            if running.has_lsi0(interface) {
                if self.faults.contains_key(interface) {
                    self.look_at(interface).await?;
                }
                continue;
            }
            let switch = SwitchSpec::new(lsi0(base));
            let tag = switch.tag();
            let load = self.load_command(lsi0_of(interface), switch.config, tag.clone(), false);
            match self.call(load).await? {
                Ok(_) => {
                    running.add_lsi0(interface, &tag);
                    self.look_at(interface).await?;
                }
                Err(errors) => drop(self.closed.insert(interface.clone(), errors.join("; "))),
            }
        }
        self.known = Some((engine, running));
        Ok(())
    }

    /// Forgets what was found of interfaces that nothing uses.
    pub fn forget_closed(&mut self, bases: &BTreeMap<String, Base>) {
        let Some((_, running)) = &self.known else { return };
        for interface in bases.keys().filter(|i| !running.has_lsi0(i)) {
            self.closed.remove(interface);
            self.faults.remove(interface);
        }
    }

    /// Finds out whether an interface works.
    ///
    /// # Errors
    /// The data plane was lost.
    async fn look_at(&mut self, interface: &str) -> Result<(), StepError> {
        self.faults.remove(interface);
        self.closed.remove(interface);
        let status = self.call(Command::Status { graph: lsi0_of(interface) }).await?;
        if let Ok(Answer::Status { status: GraphStatus { devices, .. } }) = status
            && let Some(device) = devices.into_iter().find(|d| d.state != "up")
        {
            if device.method.is_empty() {
                self.closed.insert(interface.to_owned(), device.state.clone());
            }
            self.faults.insert(interface.to_owned(), device.state);
        }
        Ok(())
    }

    /// The answer, or why it was refused.
    async fn call(&self, command: Command) -> Result<Result<Answer, Vec<String>>, StepError> {
        match self.plane.call(command).await {
            Ok(answer) => Ok(Ok(answer)),
            Err(CallError::Refused(errors)) => Ok(Err(errors)),
            Err(e) => Err(e.into()),
        }
    }
}

/// The steps on functions that wait until nothing sends to them any more.
#[derive(Debug, Default)]
pub struct Left {
    /// Those that are not wanted.
    pub removals: Vec<(InstanceId, Kind)>,
    /// Those that lose ports.
    pub shrinking: Vec<Instance>,
}

/// Changes of access points as LSI-0 takes them.
fn lines(points: &[Point]) -> String {
    let mut text = String::new();
    for p in points {
        let part = p.part;
        match &p.links {
            Some(Links { to, from, held }) => {
                let hold = if *held { " hold" } else { "" };
                text += &format!("+ {part} {to} {from}{hold}\n");
            }
            None => text += &format!("- {part}\n"),
        }
    }
    text
}

fn note(running: &mut Running, interface: &str, point: Point) {
    let place = (interface.to_owned(), point.part);
    match point.links {
        Some(links) => running.add_point(place, links),
        None => running.remove_point(&place),
    }
}
