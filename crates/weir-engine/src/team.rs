//! The other workers of an engine, as the first one sees them.
//!
//! Each runs an [`Engine`] of its own in its own thread. For whatever concerns all of them (a swap, a handler, a
//! snapshot) the first worker borrows their engines: each finishes its round and hands its engine over, and waits until
//! it comes back. So whatever the control side does is done by one thread that has everything, as with one worker.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_io::Waker;

use crate::engine::Engine;
use crate::env::Notice;

/// What the other workers tell the first.
pub(crate) struct News {
    any: AtomicBool,
    list: Mutex<Vec<Told>>,
    waker: Waker,
}

/// Something that another worker tells.
pub(crate) enum Told {
    /// Something happened.
    Notice(Notice),
    /// An element asked for the end of the run.
    Stop,
    /// A graph is gone on that worker, after a panic with this message.
    Failed(String, String),
}

impl News {
    fn tell(&self, told: Told) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        self.any.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn take(&self) -> Vec<Told> {
        if !self.any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

enum Order {
    /// Hand the engine over, and wait for it.
    Pause,
    /// Go on with it.
    Resume(Box<Engine>),
}

/// Where another worker is.
enum Seat {
    /// It has no thread: the first worker runs its rounds too, so that tests can be repeated step by step.
    Here(Option<Box<Engine>>),
    /// In a thread.
    Thread {
        orders: Option<Sender<Order>>,
        engines: Receiver<Engine>,
        waker: Waker,
        thread: Option<JoinHandle<()>>,
    },
}

/// The other workers.
pub(crate) struct Team {
    seats: Vec<Seat>,
    news: Arc<News>,
    paused: bool,
}

/// How the other workers run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Threads {
    /// In the thread of the first, each in its turn: for tests that can be repeated.
    None,
    /// Each in its own.
    Free,
    /// Each in its own, bound to a core; worker 1 to the first of these.
    Cores(Vec<usize>),
}

impl Team {
    /// Seats for these engines. `waker` wakes the first worker.
    pub fn new(engines: Vec<Engine>, waker: Waker, threads: &Threads) -> io::Result<Team> {
        let news = Arc::new(News { any: AtomicBool::new(false), list: Mutex::default(), waker });
        let mut team = Team { seats: Vec::new(), news, paused: false };
        for (i, engine) in engines.into_iter().enumerate() {
            let seat = match threads {
                Threads::None => Seat::Here(Some(Box::new(engine))),
                Threads::Free => team.thread(i + 1, engine, None)?,
                Threads::Cores(cores) => team.thread(i + 1, engine, cores.get(i).copied())?,
            };
            team.seats.push(seat);
        }
        Ok(team)
    }

    fn thread(&self, number: usize, engine: Engine, core: Option<usize>) -> io::Result<Seat> {
        let (orders, inbox) = channel();
        let (back, engines) = channel();
        let (waker, news) = (engine.waker(), self.news.clone());
        let (ready, is_ready) = channel();
        let thread = thread::Builder::new().name(format!("weir-worker-{number}")).spawn(move || {
            let bound = core.map_or(Ok(()), crate::worker::bind);
            let go = bound.is_ok();
            if ready.send(bound).is_ok() && go {
                run(engine, &inbox, &back, &news);
            }
        })?;
        is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("a worker thread ended at once")))?;
        Ok(Seat::Thread { orders: Some(orders), engines, waker, thread: Some(thread) })
    }

    /// Borrows the engines of all; `None` if they are borrowed already. A worker whose thread has ended is missing.
    pub fn pause(&mut self) -> Option<Vec<Engine>> {
        if std::mem::replace(&mut self.paused, true) {
            return None;
        }
        for seat in &self.seats {
            if let Seat::Thread { orders: Some(orders), waker, .. } = seat {
                // If it has ended, no engine comes back either.
                let _ = orders.send(Order::Pause);
                waker.wake();
            }
        }
        let engine = |seat: &mut Seat| match seat {
            Seat::Here(engine) => engine.take().map(|e| *e),
            Seat::Thread { engines, .. } => engines.recv().ok(),
        };
        Some(self.seats.iter_mut().filter_map(engine).collect())
    }

    /// Gives the engines back that [`pause`](Team::pause) gave.
    pub fn resume(&mut self, engines: Vec<Engine>) {
        for engine in engines {
            let Some(seat) = engine.worker().checked_sub(1).and_then(|i| self.seats.get_mut(i)) else {
                continue;
            };
            match seat {
                Seat::Here(place) => *place = Some(Box::new(engine)),
                Seat::Thread { orders, .. } => {
                    // Its thread waits for it, or has ended.
                    let _ = orders.as_ref().map(|o| o.send(Order::Resume(Box::new(engine))));
                }
            }
        }
        self.paused = false;
    }

    /// What the others told since this was last asked.
    pub fn news(&self) -> Vec<Told> {
        self.news.take()
    }

    /// Runs a round of those that have no thread. Says whether any of them has more to do.
    pub fn round(&mut self) -> io::Result<bool> {
        let mut more = false;
        for seat in &mut self.seats {
            if let Seat::Here(Some(engine)) = seat {
                more |= engine.round()?;
                tell(engine, &self.news);
            }
        }
        Ok(more)
    }

    /// Whether packets wait for one that has no thread.
    pub fn has_inbound(&self) -> bool {
        self.seats.iter().any(|s| matches!(s, Seat::Here(Some(engine)) if engine.has_inbound()))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for seat in &mut self.seats {
            if let Seat::Thread { orders, waker, .. } = seat {
                *orders = None;
                waker.wake();
            }
        }
        for seat in &mut self.seats {
            if let Seat::Thread { thread, .. } = seat {
                // What it panicked with was printed by the panic hook.
                let _ = thread.take().map(JoinHandle::join);
            }
        }
    }
}

/// The life of a worker's thread; it ends when nobody can give orders any more.
fn run(mut engine: Engine, inbox: &Receiver<Order>, back: &Sender<Engine>, news: &News) {
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
                news.tell(Told::Failed(graph, panic_text(&*panic)));
                true
            }
        };
        tell(&mut engine, news);
        if !more && let Err(e) = engine.sleep(None) {
            troubled(&e);
        }
    }
}

fn tell(engine: &mut Engine, news: &News) {
    for notice in engine.take_notices() {
        news.tell(Told::Notice(notice));
    }
    if engine.take_stop() {
        news.tell(Told::Stop);
    }
}

/// The operating system refuses to tell what is ready. Goes on, but not in a hurry.
pub(crate) fn troubled(error: &io::Error) -> bool {
    eprintln!("weir: waiting for devices failed: {error}");
    thread::sleep(Duration::from_millis(100));
    true
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}
