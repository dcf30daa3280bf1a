//! A network function before it starts, and while it runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Poll, Waker};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::core::{Shared, WAKE};
use crate::notices::{self, Cores};
use crate::remote::Redis;
use crate::socket::Listener;
use crate::stack::{self, Stack, link};
use crate::{Core, Error, Function, Protocol, Store};

/// How long a callback may take until [`Function::blocked`] is called, unless [`Vnf::set_callback_limit`] says otherwise.
pub const CALLBACK_LIMIT: Duration = Duration::from_millis(500);

/// A server of a function: the n-th that was made by [`Vnf::server`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerId(pub(crate) usize);

/// A network function that has not started.
#[derive(Debug)]
pub struct Vnf {
    /// For each core, its listening socket of each server.
    cores: Vec<Vec<Listener>>,
    store: Arc<Store>,
    limit: Duration,
    orchestrators: Vec<SocketAddr>,
    redis: Option<Redis>,
    stuck: Option<Stuck>,
    /// `None`: what the environment says.
    stack: Option<Stack>,
    /// Of a stack in user space, the addresses of its servers.
    served: Vec<(SocketAddr, Protocol)>,
}

/// The handler of a core whose callback does not return, and the time that counts as such.
struct Stuck(Box<dyn Fn(usize, Duration) + Send>);

impl std::fmt::Debug for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stuck")
    }
}

impl Vnf {
    /// A function with `cores` event loops, at least one.
    pub fn new(cores: usize) -> Self {
        Self {
            cores: (0..cores.max(1)).map(|_| Vec::new()).collect(),
            store: Arc::new(Store::new()),
            limit: CALLBACK_LIMIT,
            orchestrators: Vec::new(),
            redis: None,
            stuck: None,
            stack: None,
            served: Vec::new(),
        }
    }

    /// Chooses the stack that connections are on, before there are servers. Otherwise it is the one that the variable
    /// [`STACK_VARIABLE`](crate::STACK_VARIABLE) of the environment says, or the kernel's.
    pub fn set_stack(&mut self, stack: Stack) {
        self.stack = Some(stack);
    }

    fn stack(&mut self) -> Result<&Stack, Error> {
        if self.stack.is_none() {
            self.stack = Some(stack::of_environment()?);
        }
        Ok(self.stack.get_or_insert_default())
    }

    /// How many event loops it will have.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Calls `report` with the number of a core and a time when a callback of that core has not returned within the limit, once for each
    /// such callback, from a thread of its own: the core can report nothing as long as it waits. If the callback returns after all,
    /// [`Function::blocked`] is called too.
    pub fn report_stuck(&mut self, report: impl Fn(usize, Duration) + Send + 'static) {
        self.stuck = Some(Stuck(Box::new(report)));
    }

    /// Says where the state is that replicas share. Each core has a connection with it, made when it is needed, and made anew when it fails.
    pub fn remote(&mut self, redis: Redis) {
        self.redis = Some(redis);
    }

    /// Asks an orchestrator to say which replicas of other functions come and go: [`Function::notify`] is called with each notice, within
    /// a second of when it was sent. The module `notices` of this crate says what the orchestrator has to speak.
    pub fn follow(&mut self, orchestrator: SocketAddr) {
        self.orchestrators.push(orchestrator);
    }

    /// Sets how long a callback may take until [`Function::blocked`] is called. Time that the system gives to other programs counts.
    pub fn set_callback_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Listens at an address, only for what comes by a network interface if one is named; returns the server and its address, with the
    /// port that was chosen if 0 was asked for. The kernel spreads connections, and peers of UDP, over the cores.
    pub fn server(
        &mut self,
        address: SocketAddr,
        protocol: Protocol,
        interface: Option<&str>,
    ) -> Result<(ServerId, SocketAddr), Error> {
        let mut bound = address;
        let mut listeners = Vec::new();
        if let Stack::User(user) = self.stack()?.clone() {
            bound = user.check(&self.served, address, protocol)?;
            self.served.push((bound, protocol));
            listeners = self.cores.iter().map(|_| Listener::User(protocol)).collect();
        }
        for _ in listeners.len()..self.cores.len() {
            let listener = Listener::new(bound, protocol, interface).map_err(io("listen"))?;
            bound = listener.address().map_err(io("listen"))?;
            listeners.push(listener);
        }
        let id = ServerId(self.cores[0].len());
        for (core, listener) in self.cores.iter_mut().zip(listeners) {
            core.push(listener);
        }
        Ok((id, bound))
    }

    /// Starts the loops, each on a thread of its own, pinned to a CPU that this process may use. `function` makes the function of each
    /// core, on that core's thread.
    pub fn start<F: Function>(
        mut self,
        function: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<Running, Error> {
        let function = Arc::new(function);
        let polls: Vec<Poll> = self
            .cores
            .iter()
            .map(|_| Poll::new())
            .collect::<Result<_, _>>()
            .map_err(io("make an epoll set"))?;
        let wakers: Vec<Arc<Waker>> = polls
            .iter()
            .map(|p| Waker::new(p.registry(), WAKE).map(Arc::new))
            .collect::<Result<_, _>>()
            .map_err(io("make a waker"))?;
        let links = match self.stack()?.clone() {
            Stack::User(user) => link::open(&user, &self.served, &wakers)?.into_iter().map(Some).collect(),
            Stack::Kernel => polls.iter().map(|_| None).collect::<Vec<_>>(),
        };
        let stop = Arc::new(Stop { asked: AtomicBool::new(false), wakers });
        let mut running = Running { stop: stop.clone(), threads: Vec::new() };
        let cpus = usable_cpus();
        let (queues, notices): (Vec<_>, Vec<_>) = polls.iter().map(|_| channel()).unzip();
        for orchestrator in self.orchestrators {
            let (stop, queues) = (stop.clone(), queues.clone());
            let thread = std::thread::Builder::new().name("vnf-notices".into()).spawn(move || {
                let stopped = || stop.asked.load(Ordering::Acquire);
                notices::follow(orchestrator, &Cores { queues, wake: &|| stop.wake(), stopped: &stopped });
                Ok(())
            });
            running.threads.push(thread.map_err(io("start a thread"))?);
        }
        let epoch = Instant::now();
        let busy: Vec<Arc<AtomicU64>> = polls.iter().map(|_| Arc::default()).collect();
        if let Some(Stuck(report)) = self.stuck {
            let (stop, busy, limit) = (stop.clone(), busy.clone(), self.limit);
            let thread = std::thread::Builder::new().name("vnf-watch".into()).spawn(move || {
                watch(&busy, epoch, limit, &stop.asked, &*report);
                Ok(())
            });
            running.threads.push(thread.map_err(io("start a thread"))?);
        }
        let cores = self.cores.into_iter().zip(polls).zip(notices).zip(links).enumerate();
        for (n, (((listeners, poll), notices), link)) in cores {
            let shared = Shared {
                store: self.store.clone(),
                notices,
                redis: self.redis.clone(),
                limit: self.limit,
                busy: busy[n].clone(),
                epoch,
                link,
            };
            let (function, stop) = (function.clone(), EndAll(stop.clone()));
            let cpu = cpus.get(n % cpus.len().max(1)).copied();
            let thread = std::thread::Builder::new().name(format!("vnf-{n}")).spawn(move || {
                // Pinning is for speed: a function that may not be pinned is still right.
                let mut set = CpuSet::new();
                if let Some(cpu) = cpu
                    && set.set(cpu).is_ok()
                {
                    let _ = sched_setaffinity(Pid::from_raw(0), &set);
                }
                Core::new(n as u32, poll, listeners, shared)?.run(&mut function(), &stop.0.asked)
            });
            running.threads.push(thread.map_err(io("start a thread"))?);
        }
        Ok(running)
    }
}

/// How the loops of a function are stopped.
#[derive(Debug)]
struct Stop {
    asked: AtomicBool,
    wakers: Vec<Arc<Waker>>,
}

impl Stop {
    fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        for waker in &self.wakers {
            // It fails only if a wake-up waits already.
            let _ = waker.wake();
        }
    }
}

/// Stops all loops when one ends, also by a panic: half a function would look alive.
struct EndAll(Arc<Stop>);

impl Drop for EndAll {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// Stops a function from elsewhere: from a callback, another thread, or a signal handler.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Stop>);

impl Stopper {
    /// Asks all loops to end, and does not wait for it. It allocates nothing and takes no lock.
    pub fn stop(&self) {
        self.0.ask();
    }
}

/// A function that runs. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<Result<(), Error>>>,
}

impl Running {
    /// What stops this function from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Stops all loops and closes their connections; the first error that a loop ended with.
    ///
    /// # Panics
    /// If a callback panicked.
    pub fn stop(self) -> Result<(), Error> {
        self.stop.ask();
        self.wait()
    }

    /// Waits until the loops have ended, which they do together, when one of them fails; its error.
    ///
    /// # Panics
    /// If a callback panicked.
    pub fn wait(mut self) -> Result<(), Error> {
        let threads = std::mem::take(&mut self.threads);
        threads
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.ask();
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

fn io(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Io { what, source }
}

/// Reports cores whose callback runs for longer than the limit, until it is stopped.
fn watch(
    busy: &[Arc<AtomicU64>],
    epoch: Instant,
    limit: Duration,
    stopped: &AtomicBool,
    report: &dyn Fn(usize, Duration),
) {
    let mut reported = vec![0; busy.len()];
    while !stopped.load(Ordering::Acquire) {
        std::thread::sleep(limit.min(Duration::from_millis(100)));
        for (n, (since, reported)) in busy.iter().zip(&mut reported).enumerate() {
            let since = since.load(Ordering::Relaxed);
            let took = epoch.elapsed().saturating_sub(Duration::from_millis(since));
            if since != 0 && since != *reported && took > limit {
                *reported = since;
                report(n, took);
            }
        }
    }
}

/// The CPUs that this process may use.
fn usable_cpus() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect()
}
