//! The other workers of an engine, as the first one sees them.
//!
//! Each runs an [`Engine`] of its own in its own thread. For whatever concerns all of them (a swap, a handler, a
//! snapshot) the first worker borrows their engines: each finishes its round and hands its engine over, and waits until
//! it comes back. So whatever the control side does is done by one thread that has everything, as with one worker.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use weir_io::Waker;
use weir_io::inbox::{self, inbox};
use weir_nodes::env::Notice;

use super::Engine;
use crate::router::{Lender, Others, Router, Runtime};
use crate::threads::{self, Threads, panic_text, troubled};

/// An event on another worker.
pub(super) enum WorkerEvent {
    /// Something happened.
    Notice(Notice),
    /// An element asked for the end of the run.
    Stop,
    /// A graph is gone on that worker, after a panic with this message.
    Failed(String, String),
}

enum Order {
    /// Hand the engine over, and wait for it.
    Pause,
    /// Go on with it.
    Resume(Box<Engine>),
}

/// The place of another worker.
enum Slot {
    /// It has no thread: the first worker runs its rounds too, so that tests can be repeated step by step.
    Here(Option<Box<Engine>>),
    /// In a thread.
    Thread { orders: Option<inbox::Sender<Order>>, engines: Receiver<Engine>, thread: Option<JoinHandle<()>> },
}

/// The other workers, as they stand with the engine and with its graphs, whose handlers may reach elements there.
pub(super) struct Pool(Mutex<WorkerPool>);

impl Pool {
    pub fn new(pool: WorkerPool) -> Pool {
        Pool(Mutex::new(pool))
    }

    /// Only the first worker's thread asks, and for a moment.
    pub fn lock(&self) -> MutexGuard<'_, WorkerPool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Borrows the engines of all until the answer is dropped; `None` if they are borrowed already.
    pub fn borrow(self: &Arc<Pool>) -> Option<Borrowed> {
        let engines = self.lock().pause()?;
        Some(Borrowed { pool: self.clone(), engines })
    }
}

impl Lender for Pool {
    fn lend(self: Arc<Pool>) -> Option<Box<dyn Others>> {
        Some(Box::new(self.borrow()?))
    }
}

/// The engines of the other workers, which wait until they are given back: when this is dropped.
pub(super) struct Borrowed {
    pool: Arc<Pool>,
    pub engines: Vec<Engine>,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.pool.lock().resume(std::mem::take(&mut self.engines));
    }
}

impl Others for Borrowed {
    fn last_worker(&self) -> usize {
        self.engines[..].last_worker()
    }

    fn parts(&mut self, worker: usize, slot: usize) -> Option<(&mut Router, &mut Runtime)> {
        self.engines[..].parts(worker, slot)
    }
}

impl Others for [Engine] {
    fn last_worker(&self) -> usize {
        self.iter().map(Engine::worker).max().unwrap_or(0)
    }

    fn parts(&mut self, worker: usize, slot: usize) -> Option<(&mut Router, &mut Runtime)> {
        self.iter_mut().find(|e| e.worker() == worker)?.parts(slot)
    }
}

/// Their engines or threads.
pub(super) struct WorkerPool {
    slots: Vec<Slot>,
    events: Receiver<WorkerEvent>,
    /// The end of `events` for those that have no thread.
    report: inbox::Sender<WorkerEvent>,
    paused: bool,
}

impl WorkerPool {
    /// Slots for these engines. `waker` wakes the first worker.
    pub fn new(engines: Vec<Engine>, waker: Waker, threads: &Threads) -> io::Result<WorkerPool> {
        let (report, events) = inbox(waker);
        let mut pool = WorkerPool { slots: Vec::new(), events, report, paused: false };
        for (i, engine) in engines.into_iter().enumerate() {
            let slot = match threads {
                Threads::None => Slot::Here(Some(Box::new(engine))),
                Threads::Free => pool.thread(i + 1, engine, None)?,
                Threads::Cores(cores) => pool.thread(i + 1, engine, cores.get(i).copied())?,
            };
            pool.slots.push(slot);
        }
        Ok(pool)
    }

    fn thread(&self, number: usize, engine: Engine, core: Option<usize>) -> io::Result<Slot> {
        let (orders, inbox) = inbox(engine.waker());
        let (back, engines) = channel();
        let events = self.report.clone();
        let (ready, is_ready) = channel();
        let thread = thread::Builder::new().name(format!("weir-worker-{number}")).spawn(move || {
            let bound = core.map_or(Ok(()), threads::bind);
            let go = bound.is_ok();
            if ready.send(bound).is_ok() && go {
                run(engine, &inbox, &back, &events);
            }
        })?;
        is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("a worker thread ended at once")))?;
        Ok(Slot::Thread { orders: Some(orders), engines, thread: Some(thread) })
    }

    /// Takes the engines of all; `None` if they are taken already. A worker whose thread has ended is missing.
    fn pause(&mut self) -> Option<Vec<Engine>> {
        if std::mem::replace(&mut self.paused, true) {
            return None;
        }
        for slot in &self.slots {
            if let Slot::Thread { orders: Some(orders), .. } = slot {
                // If it has ended, no engine comes back either.
                let _ = orders.send(Order::Pause);
            }
        }
        let engine = |slot: &mut Slot| match slot {
            Slot::Here(engine) => engine.take().map(|e| *e),
            Slot::Thread { engines, .. } => engines.recv().ok(),
        };
        Some(self.slots.iter_mut().filter_map(engine).collect())
    }

    /// Gives the engines back that [`pause`](WorkerPool::pause) gave.
    fn resume(&mut self, engines: Vec<Engine>) {
        for engine in engines {
            let Some(slot) = engine.worker().checked_sub(1).and_then(|i| self.slots.get_mut(i)) else {
                continue;
            };
            match slot {
                Slot::Here(place) => *place = Some(Box::new(engine)),
                Slot::Thread { orders, .. } => {
                    // Its thread waits for it, or has ended.
                    let _ = orders.as_ref().map(|o| o.send(Order::Resume(Box::new(engine))));
                }
            }
        }
        self.paused = false;
    }

    /// The events of the others since this was last asked.
    pub fn events(&self) -> Vec<WorkerEvent> {
        self.events.try_iter().collect()
    }

    /// Runs a round of those that have no thread. Says whether any of them has more to do.
    pub fn round(&mut self) -> io::Result<bool> {
        let mut more = false;
        for slot in &mut self.slots {
            if let Slot::Here(Some(engine)) = slot {
                more |= engine.round()?;
                report(engine, &self.report);
            }
        }
        Ok(more)
    }

    /// Whether packets wait for one that has no thread.
    pub fn has_inbound(&self) -> bool {
        self.slots.iter().any(|s| matches!(s, Slot::Here(Some(engine)) if engine.has_inbound()))
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Thread { orders, .. } = slot {
                *orders = None;
            }
        }
        for slot in &mut self.slots {
            if let Slot::Thread { thread, .. } = slot {
                // What it panicked with was printed by the panic hook.
                let _ = thread.take().map(JoinHandle::join);
            }
        }
    }
}

/// The life of a worker's thread; it ends when nobody can give orders any more.
fn run(
    mut engine: Engine,
    inbox: &Receiver<Order>,
    back: &Sender<Engine>,
    events: &inbox::Sender<WorkerEvent>,
) {
    loop {
        match inbox.try_recv() {
            Ok(Order::Pause) => {
                if back.send(engine).is_err() {
                    return;
                }
                match inbox.recv() {
                    Ok(Order::Resume(own)) => engine = *own,
                    Ok(Order::Pause) | Err(_) => return,
                }
                continue;
            }
            Ok(Order::Resume(_)) | Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {}
        }
        let more = match catch_unwind(AssertUnwindSafe(|| engine.round())) {
            Ok(Ok(more)) => more,
            Ok(Err(e)) => troubled(&e),
            Err(panic) => {
                let graph = engine.lose();
                // Without the first worker there is nobody to report, here and below.
                let _ = events.send(WorkerEvent::Failed(graph, panic_text(&*panic)));
                true
            }
        };
        report(&mut engine, events);
        if !more && let Err(e) = engine.sleep(None) {
            troubled(&e);
        }
    }
}

fn report(engine: &mut Engine, events: &inbox::Sender<WorkerEvent>) {
    for notice in engine.take_notices() {
        let _ = events.send(WorkerEvent::Notice(notice));
    }
    if engine.take_stop() {
        let _ = events.send(WorkerEvent::Stop);
    }
}
