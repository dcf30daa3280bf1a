//! The engine: graphs, devices and links, and the loop that drives them. It belongs to one thread.

mod devices;
mod direct;
mod figures;
mod graphs;
pub(crate) mod hand_over;
mod pool;
mod run;
mod state;
mod workers;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use weir_io::with_causes;
use weir_io::{PortSpec, Waker};
use weir_jit::Compiled;
use weir_nodes::env::device::Openers;
use weir_nodes::env::links::Entrance;
use weir_nodes::env::{Notice, Printer};
use weir_packet::Packet;
use weir_plan::{Classes, Fast, Plan, PlanError};
use weir_protocol::{GraphInfo, GraphStatus};

use crate::executor::ExecutorKind;
use crate::instance::Instance;
use crate::library::{Gate, complete};
use crate::router::{Reader, Router, Runtime};
use crate::watch::{CaptureRequest, Listener, Point, TraceRequest};
use graphs::Graphs;
use pool::Pool;

pub use run::{Stopped, Until};

/// All graphs of a process, and what they share.
pub struct Engine {
    rt: Runtime,
    /// On the first of several workers: the others.
    pool: Option<Arc<Pool>>,
    classes: Arc<Classes>,
    graphs: Graphs,
    names: BTreeMap<String, usize>,
    rx: Vec<Packet>,
    rounds: u32,
    executor: ExecutorKind,
    profile: bool,
    /// How further workers open devices; `None`: they open none.
    openers: Option<Arc<Openers>>,
    /// How long workers wait awake, if somebody said so.
    busy_poll: Option<Duration>,
    /// Number of the last graph that was installed.
    generation: u64,
    /// Opened with the first packets.
    gate: Option<Arc<Gate>>,
    /// Whether it waits for what another engine has, and moves no packets.
    parked: bool,
}

impl Engine {
    /// An engine without graphs.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new(classes: Arc<Classes>) -> io::Result<Engine> {
        Ok(Engine {
            rt: Runtime::new(classes.clone())?,
            pool: None,
            classes,
            graphs: Graphs::default(),
            names: BTreeMap::new(),
            rx: Vec::new(),
            rounds: 0,
            executor: ExecutorKind::default(),
            profile: false,
            openers: Some(Arc::new(|| Box::new(PortSpec::open))),
            busy_poll: None,
            generation: 0,
            gate: None,
            parked: false,
        })
    }

    /// Stops the clock at a time (nanoseconds); from now on only this moves it.
    pub fn set_time(&mut self, now: u64) {
        self.with_rest(|_, rest| rest.iter_mut().for_each(|e| e.rt.env.set_time(now)));
        self.rt.env.set_time(now);
    }

    /// Lets time jump from event to event, from this time (nanoseconds) on.
    pub fn simulate_time(&mut self, start: u64) {
        self.rt.env.simulate_time(start);
    }

    /// Gives what elements print to `printer` at once, instead of keeping it for
    /// [`take_notices`](Engine::take_notices).
    pub fn set_printer(&mut self, printer: Box<Printer>) {
        self.rt.env.printer = Some(printer);
    }

    /// Provides the handler `hotconfig`: a configuration that is written to it takes the graph's place. `reader` makes its
    /// plan.
    pub fn allow_reconfigure(&mut self, reader: Box<Reader>) {
        self.rt.reader = Some(reader);
    }

    /// Signals that elements of a graph are waiting for now.
    pub fn signals(&self) -> Vec<i32> {
        self.graphs.iter().flat_map(|(_, r)| r.signals()).collect()
    }

    /// A signal has come. Returns whether an element was waiting for it.
    pub fn signal(&mut self, signal: i32) -> bool {
        self.rt.env.tick();
        let Engine { graphs, rt, .. } = self;
        graphs.iter_mut().fold(false, |taken, router| router.signal(rt, signal) | taken)
    }

    /// Counts what has ended in devices, for the elements that use them.
    fn count_losses(&mut self) {
        for loss in std::mem::take(&mut self.rt.env.devices.losses) {
            let graph = match loss.sender {
                Some(sender) => Some(sender.graph),
                None => self.rt.env.devices.readers(loss.device).first().map(|reader| reader.graph),
            };
            if let Some(router) = graph.and_then(|graph| self.graphs.get_mut(graph)) {
                router.lost(&loss);
            }
        }
    }

    /// The run ends before it is over: scripts that wait for its end do the rest now.
    pub fn end(&mut self) {
        self.rt.env.tick();
        let Engine { graphs, rt, .. } = self;
        graphs.iter_mut().for_each(|router| router.end(rt));
    }

    /// The time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.rt.env.now
    }

    /// Makes hashes and random numbers repeatable.
    pub fn set_seed(&mut self, seed: u64) {
        self.rt.env.set_seed(seed);
    }

    /// Wakes the engine from its sleep, from any thread.
    pub fn waker(&self) -> Waker {
        self.rt.env.devices.waker()
    }

    /// The classes that configurations may use.
    pub fn classes(&self) -> &Arc<Classes> {
        &self.classes
    }

    /// Says what runs the programs of graphs that are loaded from now on.
    pub fn set_executor(&mut self, kind: ExecutorKind) {
        self.executor = kind;
    }

    /// Says whether the elements of graphs that are loaded and compiled from now on are measured.
    pub fn set_profile(&mut self, on: bool) {
        self.profile = on;
    }

    /// Loads a graph, or swaps a running one for this. `file` is for messages.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration; then nothing has changed.
    pub fn load(&mut self, name: &str, text: &str, file: &str) -> Result<(), PlanError> {
        let plan = Plan::new(&self.classes, text, file)?;
        self.install(name, plan, "")
    }

    /// Starts a graph that is planned, or swaps a running one for it.
    ///
    /// # Errors
    /// If a device or file cannot be opened; then nothing has changed.
    pub fn install(&mut self, name: &str, plan: Plan, tag: &str) -> Result<(), PlanError> {
        self.install_instance(name, Instance::unlimited(plan), tag)
    }

    pub(crate) fn install_instance(
        &mut self,
        name: &str,
        mut instance: Instance,
        tag: &str,
    ) -> Result<(), PlanError> {
        instance.plan.divide(self.rt.workers())?;
        self.with_rest(|first, rest| -> Result<(), PlanError> {
            let done = first.install_all(rest, name, &instance, tag);
            first.assign_all(rest);
            done?;
            if first.executor == ExecutorKind::Compiled {
                first.compile(rest, name);
            }
            Ok(())
        })?;
        // Scripts call handlers, for which the other workers have to be asked.
        if let Some(router) = self.names.get(name).and_then(|&id| self.graphs.get_mut(id)) {
            router.start(&mut self.rt);
        }
        Ok(())
    }

    fn install_all(
        &mut self,
        rest: &mut [Engine],
        name: &str,
        instance: &Instance,
        tag: &str,
    ) -> Result<(), PlanError> {
        self.rt.env.tick();
        self.quiesce(rest);
        let mut router = Router::new(name, instance.clone(), &mut self.rt).map_err(PlanError)?;
        let others = self.replicas(rest, &mut router, instance)?;
        if let Some(error) = self.link_conflict(&router) {
            return Err(PlanError(vec![error.into()]));
        }
        tag.clone_into(&mut router.tag);
        self.generation += 1;
        router.generation = self.generation;
        let (slot, what) = match self.names.get(name) {
            Some(&slot) => (slot, "swapped"),
            None => (self.graphs.free_slot(), "loaded"),
        };
        router.slot = slot;
        self.leave_links(slot);
        rest.iter_mut().for_each(|e| e.leave_links(slot));
        let mut old = self.graphs.take(slot);
        if let Some(old) = &mut old {
            self.rt.env.devices.stale |= old.uses_devices();
            old.gather(rest);
            router.adopt(old, &mut self.rt);
        }
        self.graphs.put(slot, router);
        self.names.insert(name.to_owned(), slot);
        self.place_others(rest, slot, old, others);
        self.join_links(slot);
        rest.iter_mut().for_each(|e| e.join_links(slot));
        self.rt.env.notice(Some(name), what, format!("graph {name} {what}"));
        Ok(())
    }

    /// Compiles a graph and waits for it.
    fn compile(&mut self, rest: &mut [Engine], name: &str) {
        let Some(router) = self.names.get(name).and_then(|&id| self.graphs.get(id)) else { return };
        let fast = Arc::new(router.plan.optimized());
        let code = Compiled::new(&fast.program).map(Arc::new).map_err(|e| with_causes(&e));
        if let Ok(code) = &code {
            complete(code, &fast, self.profile);
        }
        for engine in rest {
            engine.use_fast(name, fast.clone());
            engine.use_code(name, code.clone());
        }
        self.use_fast(name, fast);
        self.use_code(name, code);
    }

    /// Runs a graph by its program after all passes.
    pub(crate) fn use_fast(&mut self, graph: &str, fast: Arc<Fast>) {
        self.with_rest(|_, rest| rest.iter_mut().for_each(|e| e.use_fast(graph, fast.clone())));
        if let Some(router) = self.names.get(graph).and_then(|&id| self.graphs.get_mut(id)) {
            router.use_fast(fast);
        }
    }

    /// Runs a graph by code that was compiled from its fast program, or leaves it to the interpreter.
    pub(crate) fn use_code(&mut self, graph: &str, code: Result<Arc<Compiled>, String>) {
        self.with_rest(|_, rest| rest.iter_mut().for_each(|e| e.use_code(graph, code.clone())));
        let Some(router) = self.names.get(graph).and_then(|&id| self.graphs.get_mut(id)) else { return };
        match code {
            Ok(code) => router.use_code(code),
            Err(e) if self.rt.worker() > 0 => drop(e),
            Err(e) => {
                self.rt.env.notice(
                    Some(graph),
                    "interpreted",
                    format!("graph {graph} stays interpreted: {e}"),
                );
            }
        }
    }

    /// Takes away the graph that ran when the engine panicked: its state cannot be trusted any more.
    pub(crate) fn abandon(&mut self, panic: &str) {
        let name = self.rt.env.running.clone();
        self.rx.clear();
        self.abandon_graph(&name, panic);
    }

    fn abandon_graph(&mut self, name: &str, panic: &str) {
        // If another part panicked, there may be no such graph.
        let _ = self.unload(name);
        self.rt.env.notice(
            Some(name),
            "failed",
            format!("graph {name} was stopped after an internal error: {panic}"),
        );
    }

    /// A link that another graph, or another element, takes packets from already.
    fn link_conflict(&self, new: &Router) -> Option<String> {
        let mut wanted = Vec::new();
        for (element, node) in new.nodes() {
            let Some(link) = node.reads_link() else { continue };
            let name = new.plan.graph.elements[element].args.first().map_or("", String::as_str);
            if wanted.contains(&link) {
                return Some(format!("two FromLink elements have the name '{name}'; one is possible"));
            }
            wanted.push(link);
            let holder = self.rt.env.links.entrance(link).and_then(|e| self.graphs.get(e.graph));
            if let Some(other) = holder.filter(|other| other.name != new.name) {
                return Some(format!("graph '{}' has the FromLink of '{name}' already", other.name));
            }
        }
        None
    }

    /// Stops and forgets a graph.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn unload(&mut self, name: &str) -> Result<(), String> {
        let id = self.names.remove(name).ok_or_else(|| self.no_graph(name))?;
        self.with_rest(|first, rest| {
            for engine in &mut *rest {
                engine.names.remove(name);
                engine.forget(id);
            }
            first.forget(id);
            first.assign_all(rest);
        });
        self.rt.watch.lock().forget_graph(name);
        self.rt.env.notice(Some(name), "unloaded", format!("graph {name} unloaded"));
        Ok(())
    }

    /// Names of the graphs.
    pub fn graphs(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// All graphs, by name.
    pub fn list(&self) -> Vec<GraphInfo> {
        let info = |router: &Router| GraphInfo { trouble: self.trouble(router), ..router.info() };
        self.names.values().filter_map(|&id| self.graphs.get(id).map(info)).collect()
    }

    /// What is wrong with the devices of a graph.
    fn trouble(&self, router: &Router) -> String {
        if !router.uses_devices() {
            return String::new();
        }
        let mut states: Vec<String> =
            router.devices().into_iter().filter_map(|d| self.rt.env.devices.trouble(d)).collect();
        states.sort();
        states.dedup();
        states.join("; ")
    }

    /// Figures of a graph.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn status(&mut self, graph: &str) -> Result<GraphStatus, String> {
        let (router, rt) = self.graph(graph)?;
        Ok(router.status_of_all(rt))
    }

    /// Reads a handler: `element.handler`, or one of the graph.
    ///
    /// # Errors
    /// If there is no such graph, element or handler, or the handler refuses.
    pub fn read(&mut self, graph: &str, handler: &str) -> Result<String, String> {
        self.rt.env.tick();
        self.rt.env.devices.look();
        let (router, rt) = self.graph(graph)?;
        router.read(rt, handler)
    }

    /// Writes a handler.
    ///
    /// # Errors
    /// As [`read`](Engine::read).
    pub fn write(&mut self, graph: &str, handler: &str, value: &str) -> Result<(), String> {
        self.rt.env.tick();
        let (router, rt) = self.graph(graph)?;
        router.write(rt, handler, value)
    }

    /// The state of a graph as plain data.
    ///
    /// # Errors
    /// If there is no such graph.
    pub fn snapshot(&mut self, graph: &str) -> Result<serde_json::Value, String> {
        self.rt.env.tick();
        self.with_rest(|first, rest| {
            first.quiesce(rest);
            let (router, rt) = first.graph(graph)?;
            router.snapshot_of_all(rt, rest)
        })
    }

    /// Replaces state by that of a snapshot, for elements of the same name and class.
    ///
    /// # Errors
    /// If the snapshot does not fit; then nothing has changed.
    pub fn restore(&mut self, graph: &str, snapshot: serde_json::Value) -> Result<(), String> {
        self.rt.env.tick();
        self.with_rest(|first, rest| {
            first.quiesce(rest);
            let (router, rt) = first.graph(graph)?;
            router.restore_to_all(rt, rest, snapshot)
        })
    }

    /// Follows packets of a graph. `key` is for [`cancel`](Engine::cancel).
    ///
    /// # Errors
    /// If there is no such graph, or the filter is wrong.
    pub fn trace(
        &mut self,
        key: u64,
        graph: &str,
        request: TraceRequest,
        listener: Listener,
    ) -> Result<(), String> {
        self.graph(graph)?;
        let TraceRequest { filter, count, functions } = request;
        let filter = parse_filter(&filter)?;
        self.rt.watch.lock().trace(key, graph, (filter, count), functions, listener);
        Ok(())
    }

    /// Copies packets that pass some places (as [`Command::Capture`](weir_protocol::Command::Capture) says).
    ///
    /// # Errors
    /// If there is no such graph or element, or the filter is wrong.
    #[expect(clippy::too_many_arguments, reason = "what the protocol's command says")]
    pub fn capture(
        &mut self,
        key: u64,
        graph: &str,
        points: &[String],
        filter: &str,
        snaplen: u32,
        count: u64,
        listener: Listener,
    ) -> Result<(), String> {
        let filter = parse_filter(filter)?;
        let (router, rt) = self.graph(graph)?;
        let mut places = Vec::new();
        for written in points {
            let point = Point::parse(written)?;
            if let Some(element) = point.element()
                && router.plan.graph.find(element).is_none()
            {
                return Err(format!("no element '{element}' in graph '{graph}'"));
            }
            places.push((written.clone(), point));
        }
        if places.is_empty() {
            places.push((String::new(), Point::Devices));
        }
        let request = CaptureRequest { graph: graph.to_owned(), points: places, filter, snaplen, count };
        rt.watch.lock().capture(key, request, listener);
        Ok(())
    }

    /// Ends a trace or capture.
    pub fn cancel(&mut self, key: u64) {
        self.rt.watch.lock().cancel(key);
    }

    /// What happened since this was last asked.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.rt.env.notices)
    }

    fn no_graph(&self, name: &str) -> String {
        match self.names.keys().cloned().collect::<Vec<_>>() {
            names if names.is_empty() => format!("there is no graph '{name}'; none is loaded"),
            names => format!("there is no graph '{name}'; there is {}", names.join(", ")),
        }
    }

    fn graph(&mut self, name: &str) -> Result<(&mut Router, &mut Runtime), String> {
        let id = self.names.get(name).copied();
        if id.is_none_or(|id| self.graphs.get(id).is_none()) {
            return Err(self.no_graph(name));
        }
        match id.and_then(|id| self.graphs.get_mut(id)) {
            Some(router) => Ok((router, &mut self.rt)),
            None => Err(format!("there is no graph '{name}'")),
        }
    }

    /// Takes a graph away.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.leave_links(slot);
        if let Some(router) = self.graphs.remove(slot) {
            self.rt.env.devices.stale |= router.uses_devices();
        }
    }

    /// Lets packets of links enter a graph.
    fn join_links(&mut self, slot: usize) {
        let Engine { graphs, rt, .. } = self;
        let Some(router) = graphs.get_mut(slot) else { return };
        for element in 0..router.elements() {
            let Some(link) = router.output_link(element, 0) else { continue };
            if let Some(node) = router.node_mut(element) {
                node.join_links(Entrance { graph: slot, link }, &mut rt.env.links);
            }
        }
    }

    /// Lets none enter any more.
    fn leave_links(&mut self, slot: usize) {
        let Engine { graphs, rt, .. } = self;
        let Some(router) = graphs.get_mut(slot) else { return };
        for element in 0..router.elements() {
            if let Some(node) = router.node_mut(element) {
                node.leave_links(&mut rt.env.links);
            }
        }
    }

    /// Joins devices to the graphs as they are now, if that has changed.
    fn assign_all(&mut self, rest: &mut [Engine]) {
        if !self.rt.env.devices.stale && !rest.iter().any(|e| e.rt.env.devices.stale) {
            return;
        }
        self.assign();
        rest.iter_mut().for_each(Engine::assign);
        self.rt
            .env
            .devices
            .are_everywhere(|name| rest.iter().all(|e| e.rt.env.devices.names().any(|n| n == name)));
    }

    /// Joins devices to the graphs as they are now.
    fn assign(&mut self) {
        let (mut used, mut readers, mut joins) = (Vec::new(), Vec::new(), Vec::new());
        for (id, router) in self.graphs.iter().filter(|(_, r)| r.uses_devices()) {
            used.extend(router.devices());
            for (element, node) in router.nodes() {
                let Some(link) = router.output_link(element, 0) else { continue };
                let entrance = Entrance { graph: id, link };
                readers.extend(node.reads_device().map(|device| (device, entrance)));
            }
            joins.extend(router.joins());
        }
        self.rt.env.devices.assign(&used, &readers, &joins);
        self.rt.env.devices.stale = false;
    }
}

fn parse_filter(text: &str) -> Result<weir_filter::Expr, String> {
    if text.trim().is_empty() {
        return Ok(weir_filter::Expr::True);
    }
    weir_filter::Expr::parse(text).map_err(|e| format!("filter: {e}"))
}
