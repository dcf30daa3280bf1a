//! The engine's thread, and how others talk to it.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_io::allow_huge_pages;
use weir_io::inbox::{self, inbox};
use weir_plan::{Classes, Fast, PlanError};
use weir_protocol::{Answer, Command, Event, HandedPort};
use weir_table::Frozen;

use crate::engine::Engine;
use crate::engine::hand_over::HandOver;
use crate::executor::ExecutorKind;
use crate::hand_over::{self, Other, ServedSocket};
use crate::instance::Instance;
use crate::library::{Code, Gate, Library, Made, Progress};
use crate::options::WorkerOptions;
use crate::router::rounds::{Look, Round};
use crate::threads::{Threads, bind, panic_text, troubled};
use crate::watch::{Listener, TraceRequest};

type Outcome = Result<Answer, Vec<String>>;

enum Message {
    Command(Command, Sender<Outcome>),
    Install {
        graph: String,
        instance: Box<Instance>,
        tag: String,
        made: Option<Made>,
        reply: Sender<Result<u64, Vec<String>>>,
    },
    Generation {
        graph: String,
        reply: Sender<u64>,
    },
    Optimized {
        graph: String,
        generation: u64,
        fast: Arc<Fast>,
    },
    Compiled {
        graph: String,
        generation: u64,
        code: Code,
    },
    Stream {
        key: u64,
        command: Command,
        listener: Listener,
        reply: Sender<Outcome>,
    },
    Cancel(u64),
    Graphs(Sender<Vec<String>>),
    Bound(Sender<Vec<String>>),
    /// Has another data plane go on.
    Give(Box<Other>, HashMap<String, Frozen>, Sender<Result<HandOver, String>>),
    /// Moves packets from now on.
    Go,
    /// Gets ready to go on in place of another one.
    Begin(u32, Vec<HandedPort>, Sender<Result<(), String>>),
    Look {
        graph: String,
        function: String,
        last: bool,
        reply: Sender<Result<Look, String>>,
    },
    Absorb {
        graph: String,
        function: String,
        round: Box<Round>,
        leave: Option<Vec<String>>,
        reply: Sender<Result<(), String>>,
    },
}

/// Functions' tables as they were at the last round of their state, by graph and function.
type Looks = Arc<Mutex<HashMap<(String, String), Frozen>>>;

/// The engine in a thread of its own.
#[derive(Debug)]
pub struct Worker {
    handle: Handle,
    thread: JoinHandle<()>,
}

/// Talks to the engine's thread, from any thread.
#[derive(Clone)]
pub struct Handle {
    messages: inbox::Sender<Message>,
    classes: Arc<Classes>,
    workers: usize,
    library: Library,
    executor: ExecutorKind,
    huge_pages: Option<Arc<Once>>,
    looks: Looks,
    started: u64,
    /// What it does with its socket, if it may give its place, or takes that of another.
    place: Option<Arc<ServedSocket>>,
    /// Whether another data plane has taken its place.
    given: Arc<AtomicBool>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("started", &self.started).finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts the thread. `setup` may prepare the engine, for example replace its devices.
    ///
    /// # Errors
    /// If the process has no descriptors or threads left, or the core does not exist.
    pub fn start(
        classes: Arc<Classes>,
        options: WorkerOptions,
        setup: impl FnOnce(&mut Engine),
    ) -> io::Result<Worker> {
        let mut engine = Engine::new(classes.clone())?;
        // Compiling takes long; it is done beside the thread that moves the packets.
        engine.set_executor(ExecutorKind::Interpreter);
        engine.set_method(options.method);
        if let Some(bound) = options.busy_poll {
            engine.set_busy_poll(bound);
        }
        let gate = options.lazy.then(Arc::<Gate>::default);
        engine.set_gate(gate.clone());
        setup(&mut engine);
        let threads = match options.core {
            Some(first) => Threads::Cores((1..options.workers).map(|i| first + i).collect()),
            None => Threads::Free,
        };
        engine.set_workers(options.workers, &threads)?;
        engine.set_parked(options.parked);
        let (messages, inbox) = inbox(engine.waker());
        let handle = Handle {
            messages,
            classes,
            workers: options.workers,
            library: Library::new(options.executor == ExecutorKind::Compiled, options.profile, gate)?,
            executor: options.executor,
            huge_pages: options.huge_pages.then(|| Arc::new(Once::new())),
            looks: Looks::default(),
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()),
            place: None,
            given: Arc::default(),
        };
        let given = handle.given.clone();
        let (pinned, is_pinned) = channel();
        let thread = thread::Builder::new().name("weir-worker".to_owned()).spawn(move || {
            let bound = options.core.map_or(Ok(()), bind);
            let go = bound.is_ok();
            if pinned.send(bound).is_ok() && go {
                Loop { engine, inbox, subscribers: Vec::new(), given }.run();
            }
        })?;
        is_pinned.recv().unwrap_or_else(|_| Err(io::Error::other("the worker thread ended at once")))?;
        Ok(Worker { handle, thread })
    }

    /// For talking to it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The same at a place that another data plane can take, or that it takes.
    pub(crate) fn at(self, place: Arc<ServedSocket>) -> Worker {
        Worker { handle: self.handle.at(place), ..self }
    }

    /// Waits until it has ended: by [`Command::Shutdown`], or since nobody has a handle any more.
    pub fn join(self) {
        drop(self.handle);
        // Panics are caught inside; what else could end the thread early was printed by the panic hook.
        let _ = self.thread.join();
    }
}

impl Handle {
    /// Carries a command out and waits for the answer.
    ///
    /// # Errors
    /// What was wrong; then nothing was changed.
    pub fn call(&self, command: Command) -> Outcome {
        match command {
            Command::Hello => Ok(Answer::Hello {
                version: weir_protocol::VERSION,
                pid: std::process::id(),
                started: self.started,
            }),
            Command::HandOver { socket } => match &self.place {
                Some(place) if !place.waits() => hand_over::hand_over(self, &place.socket(), &socket),
                _ => Err(vec!["this data plane has no place that another could take".to_owned()]),
            },
            Command::Begin { pid, ports } => self.begin(pid, ports),
            Command::Load { graph, config, file, tag, scope, memory } => {
                self.load(Load { graph, config, file, tag, scope, memory })
            }
            Command::ExportRound { graph, function, first, last } => {
                self.export_round(graph, function, first, last)
            }
            Command::ImportRound { graph, function, round, leave } => {
                self.import_round(&graph, &function, &round, leave.as_deref())
            }
            command => {
                if let Command::Unload { graph } = &command {
                    self.looks().retain(|(of, _), _| of != graph);
                }
                self.ask(|reply| Message::Command(command, reply))?
            }
        }
    }

    /// The same with a place that another data plane can take, or that it takes.
    pub(crate) fn at(self, place: Arc<ServedSocket>) -> Handle {
        Handle { place: Some(place), ..self }
    }

    /// Whether it waits for the place of another.
    pub(crate) fn is_parked(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.waits())
    }

    /// Whether another data plane has taken its place.
    pub(crate) fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    /// Why another data plane cannot take its place.
    pub(crate) fn bound(&self) -> Result<Vec<String>, Vec<String>> {
        self.ask(Message::Bound)
    }

    pub(crate) fn graphs(&self) -> Result<Vec<String>, Vec<String>> {
        self.ask(Message::Graphs)
    }

    /// What a round of the state of a function is made of, while packets move.
    pub(crate) fn look(&self, graph: &str, function: &str) -> Result<Look, Vec<String>> {
        let (graph, function) = (graph.to_owned(), function.to_owned());
        self.ask(|reply| Message::Look { graph, function, last: false, reply })?.map_err(|e| vec![e])
    }

    /// Has another data plane go on. If it does, this one's thread has ended.
    pub(crate) fn give_place(
        &self,
        other: Other,
        before: HashMap<String, Frozen>,
    ) -> Result<HandOver, Vec<String>> {
        self.ask(|reply| Message::Give(Box::new(other), before, reply))?.map_err(|e| vec![e])
    }

    fn begin(&self, pid: u32, ports: Vec<HandedPort>) -> Outcome {
        let Some(place) = self.place.as_ref().filter(|place| place.waits()) else {
            return Err(vec!["this data plane takes no other one's place".to_owned()]);
        };
        self.ask(|reply| Message::Begin(pid, ports, reply))?.map_err(|e| vec![e])?;
        place.take().map_err(|e| vec![e])?;
        self.send(Message::Go);
        Ok(Answer::Nothing)
    }

    fn looks(&self) -> MutexGuard<'_, HashMap<(String, String), Frozen>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables are copied by the thread that moves packets; what changed is found out and written down by this one.
    fn export_round(&self, graph: String, function: String, first: bool, last: bool) -> Outcome {
        let key = (graph.clone(), function.clone());
        let before = self.looks().remove(&key).filter(|_| !first);
        if !first && before.is_none() {
            return Err(vec![format!("there was no round of function '{function}' before")]);
        }
        let look = self.ask(|reply| Message::Look { graph, function, last, reply })?.map_err(|e| vec![e])?;
        let text = look.written(before.as_ref()).map_err(|e| vec![e])?;
        if !last {
            self.looks().insert(key, look.frozen);
        }
        Ok(Answer::Text { text })
    }

    fn import_round(&self, graph: &str, function: &str, round: &str, leave: Option<&[String]>) -> Outcome {
        for piece in Round::read(round).map_err(|e| vec![e])?.pieces() {
            let (graph, function, round) = (graph.to_owned(), function.to_owned(), Box::new(piece));
            let leave = leave.map(<[String]>::to_vec);
            self.ask(|reply| Message::Absorb { graph, function, round, leave, reply })?
                .map_err(|e| vec![e])?;
        }
        Ok(Answer::Nothing)
    }

    /// Starts a trace, a capture or a subscription; `key` is for [`cancel`](Handle::cancel).
    ///
    /// # Errors
    /// What was wrong.
    pub fn stream(&self, key: u64, command: Command, listener: Listener) -> Outcome {
        self.ask(|reply| Message::Stream { key, command, listener, reply })?
    }

    /// Ends what [`stream`](Handle::stream) started.
    pub fn cancel(&self, key: u64) {
        self.send(Message::Cancel(key));
    }

    fn load(&self, load: Load) -> Outcome {
        let Load { graph, config, file, tag, scope, memory } = load;
        if let Some(first) = &self.huge_pages {
            first.call_once(|| allow_huge_pages(true));
        }
        let plan = self.library.plan(&self.classes, &config, &file, self.workers);
        let plan = plan.map_err(PlanError::texts)?;
        let spare = memory.map(|limit| plan.spare_memory(limit)).transpose().map_err(|e| vec![e])?;
        let spare = spare.map(|bytes| Arc::new(AtomicU64::new(bytes)));
        let mut made = self.library.find(&plan);
        // A new graph is interpreted at once, until its code is ready. One that runs goes on until its successor's is,
        // so that traffic at full speed finds no slow graph.
        if made.is_none() && self.executor == ExecutorKind::Compiled {
            let runs = self.ask(|reply| Message::Generation { graph: graph.clone(), reply })? != 0;
            made = runs.then(|| self.library.wait(&plan)).flatten();
        }
        let program = made.is_none().then(|| (plan.linked.clone(), plan.used.clone()));
        let (name, instance) = (graph.clone(), Box::new(Instance { plan, scope, spare }));
        let generation = self.ask(|reply| Message::Install { graph: name, instance, tag, made, reply })??;
        if let Some(program) = program {
            let handle = self.clone();
            self.library.make(
                program,
                Box::new(move |progress| {
                    let graph = graph.clone();
                    handle.send(match progress {
                        Progress::Optimized(fast) => Message::Optimized { graph, generation, fast },
                        Progress::Compiled(code) => Message::Compiled { graph, generation, code },
                    });
                }),
            );
        }
        Ok(Answer::Nothing)
    }

    fn send(&self, message: Message) {
        // If the worker has ended, there is nobody to send to.
        let _ = self.messages.send(message);
    }

    fn ask<T>(&self, message: impl FnOnce(Sender<T>) -> Message) -> Result<T, Vec<String>> {
        let (reply, answer) = channel();
        self.send(message(reply));
        answer.recv().map_err(|_| {
            vec!["the data plane did not answer: it has ended, or failed at this command".into()]
        })
    }
}

/// The arguments of [`Command::Load`].
struct Load {
    graph: String,
    config: String,
    file: String,
    tag: String,
    scope: Option<String>,
    memory: Option<u64>,
}

/// The loop of the worker's thread.
struct Loop {
    engine: Engine,
    inbox: Receiver<Message>,
    subscribers: Vec<(u64, Listener)>,
    given: Arc<AtomicBool>,
}

impl Loop {
    fn run(mut self) {
        loop {
            // One at a time: who asks again at each answer does not hold packets up.
            let asked = match self.inbox.try_recv() {
                Ok(Message::Command(Command::Shutdown, reply)) => {
                    self.end();
                    // Who asked may be gone.
                    let _ = reply.send(Ok(Answer::Nothing));
                    return;
                }
                Ok(Message::Give(mut other, before, reply)) => {
                    let given =
                        catch_unwind(AssertUnwindSafe(|| self.engine.hand_over(&mut *other, &before)));
                    let given = given.unwrap_or_else(|panic| Err(panic_text(&*panic)));
                    let over = given.is_ok();
                    self.given.store(over, Ordering::Release);
                    let _ = reply.send(given);
                    if over {
                        // All of it is another's: nothing is sent, unloaded or removed.
                        self.engine.set_parked(true);
                        std::mem::forget(self.engine);
                        return;
                    }
                    true
                }
                Ok(message) => {
                    // The channel's end notifies the asker if this panics.
                    let _ = catch_unwind(AssertUnwindSafe(|| self.handle(message)));
                    true
                }
                Err(TryRecvError::Empty) => false,
                Err(TryRecvError::Disconnected) => return,
            };
            let more = match catch_unwind(AssertUnwindSafe(|| self.engine.round())) {
                Ok(Ok(more)) => more,
                Ok(Err(e)) => troubled(&e),
                Err(panic) => {
                    self.engine.abandon(&panic_text(&*panic));
                    true
                }
            };
            self.tell_subscribers();
            if !more
                && !asked
                && let Err(e) = self.engine.sleep(None)
            {
                troubled(&e);
            }
        }
    }

    fn end(&mut self) {
        // What is in flight is delivered, if it is not too much.
        for _ in 0..64 {
            if !matches!(catch_unwind(AssertUnwindSafe(|| self.engine.round())), Ok(Ok(true))) {
                break;
            }
        }
        let graphs: Vec<String> = self.engine.graphs().map(str::to_owned).collect();
        for graph in graphs {
            let _ = self.engine.unload(&graph);
        }
        self.tell_subscribers();
        for (_, listener) in &mut self.subscribers {
            listener(Event::End);
        }
    }

    fn handle(&mut self, message: Message) {
        // An asker that is gone does not want the answer any more, here and below.
        match message {
            Message::Command(command, reply) => drop(reply.send(self.command(command))),
            Message::Install { graph, instance, tag, made, reply } => {
                let done = self.engine.install_instance(&graph, *instance, &tag).map_err(PlanError::texts);
                if let (Ok(()), Some(Made { fast, code })) = (&done, made) {
                    self.engine.use_fast(&graph, fast);
                    code.into_iter().for_each(|code| self.engine.use_code(&graph, code));
                }
                let _ = reply.send(done.map(|()| self.engine.generation(&graph)));
            }
            Message::Generation { graph, reply } => {
                let _ = reply.send(self.engine.generation(&graph));
            }
            Message::Optimized { graph, generation, fast } => {
                if self.engine.generation(&graph) == generation {
                    self.engine.use_fast(&graph, fast);
                }
            }
            Message::Compiled { graph, generation, code } => {
                if self.engine.generation(&graph) == generation {
                    self.engine.use_code(&graph, code);
                }
            }
            Message::Graphs(reply) => {
                let _ = reply.send(self.engine.graphs().map(str::to_owned).collect());
            }
            Message::Bound(reply) => drop(reply.send(self.engine.bound())),
            Message::Begin(pid, ports, reply) => drop(reply.send(self.engine.begin(pid, ports))),
            Message::Go => self.engine.set_parked(false),
            // The loop does it.
            Message::Give(..) => {}
            Message::Look { graph, function, last, reply } => {
                let _ = reply.send(self.engine.look(&graph, &function, last));
            }
            Message::Absorb { graph, function, round, leave, reply } => {
                let _ = reply.send(self.engine.absorb(&graph, &function, *round, leave.as_deref()));
            }
            Message::Stream { key, command, listener, reply } => {
                let _ = reply.send(self.stream(key, command, listener));
            }
            Message::Cancel(key) => {
                self.engine.cancel(key);
                self.subscribers.retain_mut(|(k, listener)| {
                    if *k == key {
                        listener(Event::End);
                    }
                    *k != key
                });
            }
        }
    }

    fn command(&mut self, command: Command) -> Outcome {
        let engine = &mut self.engine;
        let one = |e: String| vec![e];
        match command {
            Command::List => Ok(Answer::Graphs { graphs: engine.list() }),
            Command::Unload { graph } => engine.unload(&graph).map(|()| Answer::Nothing).map_err(one),
            Command::Status { graph } => {
                engine.status(&graph).map(|status| Answer::Status { status }).map_err(one)
            }
            Command::Figures => Ok(Answer::Figures { graphs: engine.figures() }),
            Command::Read { graph, handler } => {
                engine.read(&graph, &handler).map(|text| Answer::Text { text }).map_err(one)
            }
            Command::Write { graph, handler, value } => {
                engine.write(&graph, &handler, &value).map(|()| Answer::Nothing).map_err(one)
            }
            Command::Snapshot { graph } => {
                engine.snapshot(&graph).map(|snapshot| Answer::Snapshot { snapshot }).map_err(one)
            }
            Command::Export { graph, function } => {
                engine.export(&graph, &function).map(|text| Answer::Text { text }).map_err(one)
            }
            Command::Import { graph, function, state } => {
                engine.import(&graph, &function, &state).map(|()| Answer::Nothing).map_err(one)
            }
            Command::Exchange { graph, writes, holds, reads } => engine
                .exchange(&graph, &writes, &holds, &reads)
                .map(|texts| Answer::Texts { texts })
                .map_err(one),
            Command::Restore { graph, snapshot } => {
                engine.restore(&graph, snapshot).map(|()| Answer::Nothing).map_err(one)
            }
            Command::Hello
            | Command::Load { .. }
            | Command::Trace { .. }
            | Command::Capture { .. }
            | Command::ExportRound { .. }
            | Command::ImportRound { .. }
            | Command::HandOver { .. }
            | Command::Begin { .. }
            | Command::Subscribe
            | Command::Cancel { .. }
            | Command::Shutdown => Err(vec!["this command is not for the worker".to_owned()]),
        }
    }

    fn stream(&mut self, key: u64, command: Command, listener: Listener) -> Outcome {
        let done = match command {
            Command::Trace { graph, filter, count, functions } => {
                self.engine.trace(key, &graph, TraceRequest { filter, count, functions }, listener)
            }
            Command::Capture { graph, points, filter, snaplen, count } => {
                self.engine.capture(key, &graph, &points, &filter, snaplen, count, listener)
            }
            Command::Subscribe => {
                self.subscribers.push((key, listener));
                Ok(())
            }
            _ => Err("this command has no events".to_owned()),
        };
        done.map(|()| Answer::Nothing).map_err(|e| vec![e])
    }

    fn tell_subscribers(&mut self) {
        for notice in self.engine.take_notices() {
            let event =
                Event::Notice { graph: notice.graph, what: notice.what.to_owned(), text: notice.text };
            self.subscribers.retain_mut(|(_, listener)| listener(event.clone()));
        }
    }
}
