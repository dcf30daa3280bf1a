//! What graphs have in common is made once: equal configurations are read once, and equal programs compiled once.
//!
//! A program is compiled by its shape: what it does, and what tables it has, not what stands in them or how elements are
//! called. So graphs whose parameters stand in tables share code, whatever their parameters are. It is compiled in
//! threads of its own, and whoever needs it is notified when it is ready.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use weir_io::with_causes;
use weir_ir::Program;
use weir_jit::Compiled;
use weir_plan::{Classes, Fast, Plan, PlanError};
use weir_table::TableDecl;

/// Configurations that are remembered.
const PLANS: usize = 256;
/// Programs that are remembered beyond those that run.
const IDLE_CODES: usize = 64;
/// Most threads that compile.
const THREADS: usize = 4;

/// A program as machine code, or why it stays interpreted.
pub(crate) type Code = Result<Arc<Compiled>, String>;

/// A program that runs at speed.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    /// After all passes.
    pub fast: Arc<Fast>,
    /// None: it is to be interpreted.
    pub code: Option<Code>,
}

/// A step in the making of a program, for those who wait for it.
#[derive(Debug, Clone)]
pub(crate) enum Progress {
    /// It went through all passes.
    Optimized(Arc<Fast>),
    /// Its code is ready.
    Compiled(Code),
}

/// Gets the steps; the last is [`Progress::Compiled`], if programs are compiled.
pub(crate) type Waiter = Box<dyn FnMut(Progress) + Send>;

/// The identity of a program, apart from names and rows.
#[derive(Debug, Clone)]
struct Shape {
    hash: u64,
    linked: Arc<Program>,
    used: Arc<[bool]>,
}

impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        self.hash == other.hash
            && self.used == other.used
            && (Arc::ptr_eq(&self.linked, &other.linked) || same_shape(&self.linked, &other.linked))
    }
}

struct Entry {
    shape: Shape,
    fast: Option<Arc<Fast>>,
    code: Option<Code>,
    waiters: Vec<Waiter>,
    /// When it was last asked for.
    asked: u64,
}

#[derive(Default)]
struct Known {
    /// By text; with when it was last asked for.
    plans: HashMap<Arc<str>, (Plan, u64)>,
    codes: HashMap<u64, Vec<Entry>>,
    /// Counts what was asked for.
    clock: u64,
}

/// Opened when there are packets: code that nobody runs costs time and memory.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Opens it for good.
    pub fn open(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    fn is_open(&self) -> bool {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(open, |open| !*open));
    }
}

struct Shared {
    known: Mutex<Known>,
    compiles: bool,
    profile: bool,
    /// Before it is open, nothing is made.
    gate: Option<Arc<Gate>>,
}

/// Plans and code of all graphs of a process.
#[derive(Clone)]
pub(crate) struct Library {
    shared: Arc<Shared>,
    jobs: Sender<Shape>,
    hashes: RandomState,
}

impl Library {
    /// Starts the threads. Without `compiles`, programs only go through the passes; with `profile`, code is also measured; with a
    /// `gate`, nothing is made before that is open.
    pub fn new(compiles: bool, profile: bool, gate: Option<Arc<Gate>>) -> std::io::Result<Library> {
        let shared = Arc::new(Shared { known: Mutex::default(), compiles, profile, gate });
        let (jobs, inbox) = channel();
        let inbox = Arc::new(Mutex::new(inbox));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..(cores / 2).clamp(1, THREADS) {
            let (shared, inbox) = (shared.clone(), inbox.clone());
            thread::Builder::new().name("weir-compile".to_owned()).spawn(move || work(&shared, &inbox))?;
        }
        Ok(Library { shared, jobs, hashes: RandomState::new() })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.shared.known()
    }

    /// The plan of a configuration for so many workers.
    pub fn plan(&self, classes: &Classes, text: &str, file: &str, workers: usize) -> Result<Plan, PlanError> {
        {
            let mut known = self.known();
            let now = known.tick();
            if let Some((plan, asked)) = known.plans.get_mut(text) {
                *asked = now;
                return Ok(plan.clone());
            }
        }
        let mut plan = Plan::new(classes, text, file)?;
        plan.divide(workers)?;
        if plan.repeatable {
            let mut known = self.known();
            let now = known.tick();
            if known.plans.len() >= PLANS {
                let oldest =
                    known.plans.iter().min_by_key(|(_, (_, asked))| *asked).map(|(text, _)| text.clone());
                oldest.map(|text| known.plans.remove(&text));
            }
            known.plans.insert(plan.config.clone(), (plan.clone(), now));
        }
        Ok(plan)
    }

    /// What was made of a program of this shape before.
    pub fn find(&self, plan: &Plan) -> Option<Made> {
        let shape = self.shape(plan);
        let mut known = self.known();
        let now = known.tick();
        let entry = known.codes.get_mut(&shape.hash)?.iter_mut().find(|e| e.shape == shape)?;
        entry.asked = now;
        let made = Made { fast: entry.fast.clone()?, code: entry.code.clone() };
        (made.code.is_some() || !self.shared.compiles).then_some(made)
    }

    /// Makes a plan's program, if that is not done or in progress, and notifies `waiter`.
    pub fn make(&self, plan: (Arc<Program>, Arc<[bool]>), mut waiter: Waiter) {
        let shape = self.shape_of(plan.0, plan.1);
        let mut known = self.known();
        let now = known.tick();
        known.forget_idle();
        let entries = known.codes.entry(shape.hash).or_default();
        if let Some(entry) = entries.iter_mut().find(|e| e.shape == shape) {
            entry.asked = now;
            entry.fast.iter().for_each(|fast| waiter(Progress::Optimized(fast.clone())));
            entry.code.iter().for_each(|code| waiter(Progress::Compiled(code.clone())));
            if entry.fast.is_none() || (entry.code.is_none() && self.shared.compiles) {
                entry.waiters.push(waiter);
            }
            return;
        }
        let waiters = vec![waiter];
        entries.push(Entry { shape: shape.clone(), fast: None, code: None, waiters, asked: now });
        // If the threads are gone the program stays interpreted.
        drop(self.jobs.send(shape));
    }

    /// Makes a plan's program and waits for it; nothing if that may take for ever, since packets have to come first.
    pub fn wait(&self, plan: &Plan) -> Option<Made> {
        if let Some(made) = self.find(plan) {
            return Some(made);
        }
        if self.shared.gate.as_ref().is_some_and(|gate| !gate.is_open()) {
            return None;
        }
        let (sender, events) = channel();
        let waiter = Box::new(move |progress| drop(sender.send(progress)));
        self.make((plan.linked.clone(), plan.used.clone()), waiter);
        let mut fast = None;
        while let Ok(progress) = events.recv() {
            match progress {
                Progress::Optimized(made) if self.shared.compiles => fast = Some(made),
                Progress::Optimized(fast) => return Some(Made { fast, code: None }),
                Progress::Compiled(code) => return Some(Made { fast: fast?, code: Some(code) }),
            }
        }
        None
    }

    fn shape(&self, plan: &Plan) -> Shape {
        self.shape_of(plan.linked.clone(), plan.used.clone())
    }

    fn shape_of(&self, linked: Arc<Program>, used: Arc<[bool]>) -> Shape {
        let mut hasher = self.hashes.build_hasher();
        hash_shape(&linked, &mut hasher);
        used.hash(&mut hasher);
        Shape { hash: hasher.finish(), linked, used }
    }
}

impl Known {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Forgets programs that do not run, but for those that were asked for last.
    fn forget_idle(&mut self) {
        let idle = |e: &Entry| {
            e.waiters.is_empty() && e.fast.as_ref().is_some_and(|fast| Arc::strong_count(fast) == 1)
        };
        let mut asked: Vec<u64> =
            self.codes.values().flatten().filter(|e| idle(e)).map(|e| e.asked).collect();
        if asked.len() <= 2 * IDLE_CODES {
            return;
        }
        asked.sort_unstable();
        let oldest = asked[asked.len() - IDLE_CODES];
        for entries in self.codes.values_mut() {
            entries.retain(|e| !idle(e) || e.asked >= oldest);
        }
        self.codes.retain(|_, entries| !entries.is_empty());
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was made, and notifies those who wait.
    fn notify(&self, shape: &Shape, progress: &Progress, last: bool) {
        let mut known = self.known();
        let entries = known.codes.get_mut(&shape.hash);
        let Some(entry) = entries.and_then(|list| list.iter_mut().find(|e| e.shape == *shape)) else {
            return;
        };
        match progress {
            Progress::Optimized(fast) => entry.fast = Some(fast.clone()),
            Progress::Compiled(code) => entry.code = Some(code.clone()),
        }
        entry.waiters.iter_mut().for_each(|waiter| waiter(progress.clone()));
        if last {
            entry.waiters.clear();
        }
    }
}

/// The life of a thread that compiles.
fn work(shared: &Shared, inbox: &Mutex<Receiver<Shape>>) {
    loop {
        let job = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(shape) = job else { return };
        if let Some(gate) = &shared.gate {
            gate.wait();
        }
        let fast = Arc::new(Fast::of(&shape.linked, &shape.used));
        shared.notify(&shape, &Progress::Optimized(fast.clone()), !shared.compiles);
        if !shared.compiles {
            continue;
        }
        let code: Code = Compiled::new(&fast.program).map(Arc::new).map_err(|e| with_causes(&e));
        shared.notify(&shape, &Progress::Compiled(code.clone()), true);
        // Packets run compiled meanwhile.
        if let Ok(code) = code {
            complete(&code, &fast, shared.profile);
        }
    }
}

/// Compiles what the code of a graph can run without. If there is no memory for it, packets wait longer for large tables,
/// and nothing is measured.
pub(crate) fn complete(code: &Compiled, fast: &Fast, measured: bool) {
    drop(code.look_ahead(&fast.program));
    if measured {
        drop(code.instrument(&fast.program));
    }
}

/// Whether code of one program is right for the other.
fn same_shape(a: &Program, b: &Program) -> bool {
    let tables =
        || a.tables.iter().zip(&b.tables).all(|(a, b)| same_table(&a.decl, &b.decl) && a.owner == b.owner);
    a.elements.len() == b.elements.len()
        && (a.inputs, a.outputs) == (b.inputs, b.outputs)
        && a.plain_exits == b.plain_exits
        && a.types == b.types
        && a.tables.len() == b.tables.len()
        && tables()
        && a.events == b.events
        && a.entries == b.entries
        && a.blocks == b.blocks
}

/// Whether code reads both tables alike. Where elements share a table, the linked programs have it once, whatever its name.
fn same_table(a: &TableDecl, b: &TableDecl) -> bool {
    let shape = |d: &TableDecl| (d.kind, d.capacity, d.held, d.group, d.sharing, d.configured);
    a.name == b.name && a.key == b.key && a.value == b.value && shape(a) == shape(b)
}

fn hash_shape(program: &Program, hasher: &mut impl Hasher) {
    // Blocks say most of what a program is; the rest is compared.
    (program.elements.len(), program.inputs, program.outputs, program.tables.len()).hash(hasher);
    program.types.hash(hasher);
    program.blocks.hash(hasher);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(library: &Library, text: &str) -> Plan {
        library.plan(&Classes::default(), text, "f", 1).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn behind_a_gate_nothing_is_made_before_it_opens() {
        let gate = Arc::new(Gate::default());
        let library = Library::new(true, false, Some(gate.clone())).unwrap();
        let plan = plan(&library, "Idle -> Strip(14) -> Discard;");
        let (sender, events) = channel();
        let waiter = Box::new(move |progress| drop(sender.send(progress)));
        library.make((plan.linked.clone(), plan.used.clone()), waiter);
        assert!(library.find(&plan).is_none() && events.try_recv().is_err());
        assert!(
            library.wait(&plan).is_none(),
            "a change of what has had no packet yet does not wait for one"
        );
        gate.open();
        assert!(matches!(events.recv(), Ok(Progress::Optimized(_))));
        assert!(matches!(events.recv(), Ok(Progress::Compiled(_))));
    }

    #[test]
    fn programs_with_other_rows_and_names_have_the_same_code() {
        let library = Library::new(true, false, None).unwrap();
        let nat = |name: &str, address: &str| {
            let text =
                format!("Idle -> {name} :: IPRewriter(pattern {address} 1024-65535 - - 0 0) -> Discard;");
            plan(&library, &text)
        };
        let (a, b) = (nat("x", "10.0.0.1"), nat("other", "10.9.9.9"));
        assert!(library.find(&a).is_none());
        let made = library.wait(&a).unwrap();
        let same = library.find(&b).unwrap();
        assert!(Arc::ptr_eq(&made.fast, &same.fast));
        assert!(library.find(&plan(&library, "Idle -> Strip(14) -> Discard;")).is_none());
    }

    #[test]
    fn equal_configurations_are_read_once_and_each_graph_has_its_own_nodes() {
        let library = Library::new(false, false, None).unwrap();
        let text = "Idle -> Queue(7) -> Unqueue -> Strip(14) -> Discard;";
        let (a, b) = (plan(&library, text), plan(&library, text));
        assert!(Arc::ptr_eq(&a.linked, &b.linked) && Arc::ptr_eq(&a.graph, &b.graph));
        let nodes = |p: &Plan| p.models().count();
        assert!(nodes(&a) > 0 && nodes(&a) == nodes(&b));
        // What depends on addresses of the machine is read each time.
        let text = "AddressInfo(foo lo); Idle -> r :: StaticIPLookup(foo:ip 0) -> Discard;";
        let (a, b) = (plan(&library, text), plan(&library, text));
        assert!(!Arc::ptr_eq(&a.linked, &b.linked));
    }
}
