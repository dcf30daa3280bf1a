//! What is outside of a graph: time, chance, devices, links to other graphs, and who watches.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_net::FlowKey;

use crate::chatter::Chatters;
use crate::classes::Classes;
use crate::device::Devices;
use crate::exchange::{Exchange, Parcel};
use crate::links::Links;
use crate::plan::Plan;
use crate::problem::PlanError;
use crate::series::Series;
use crate::sockets::Sockets;
use crate::team::Team;
use crate::watch::SharedWatch;

/// Most notices that are kept until someone takes them.
const MAX_NOTICES: usize = 4096;

/// What the graphs of an engine share.
pub struct Env {
    /// The time in nanoseconds since the epoch; constant within a batch, never goes back.
    pub now: u64,
    /// Devices.
    pub devices: Devices,
    /// Control sockets.
    pub sockets: Sockets,
    /// Sockets that say what elements print.
    pub chatters: Chatters,
    /// Links between graphs.
    pub(crate) links: Links,
    /// Traces and captures.
    pub(crate) watch: SharedWatch,
    /// What happened, until someone takes it.
    pub(crate) notices: Vec<Notice>,
    /// Who is told what elements print, at once.
    pub(crate) printer: Option<Box<Printer>>,
    /// The name of the graph that runs now, for notices and for the message after a panic.
    pub(crate) running: String,
    /// An element asked for the end of the run.
    pub(crate) stop: bool,
    /// The classes that configurations may use.
    pub(crate) classes: Arc<Classes>,
    /// How the handler `hotconfig` reads a configuration; none: it is not there.
    pub(crate) reader: Option<Box<Reader>>,
    /// A configuration that takes a graph's place when the round is over.
    pub(crate) swap: Option<(String, Plan)>,
    pub(crate) hash_seed: u64,
    /// The way to the other workers, if there are any.
    pub(crate) exchange: Option<Exchange>,
    /// On the first of several workers: the others.
    pub(crate) team: Option<Box<Team>>,
    random: u64,
    /// Gives the random numbers instead, once there is a seed.
    series: Option<Box<Series>>,
    clock: Clock,
}

/// Makes a plan of a configuration that is put in a running one's place.
pub type Reader = dyn Fn(&Classes, &str) -> Result<Plan, PlanError> + Send;
/// Takes a line that an element prints.
pub type Printer = dyn FnMut(&str) + Send;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The graph, if one is concerned.
    pub graph: Option<String>,
    /// What, as in [`Event::Notice`](weir_protocol::Event::Notice).
    pub what: &'static str,
    /// More, for people.
    pub text: String,
}

/// Where the time comes from.
#[derive(Debug, Clone)]
enum Clock {
    /// The machine's steady clock, set by the time of day when the engine started.
    Real { start: Instant, epoch: u64, speed: f64 },
    /// Only [`Env::set_time`] moves it.
    Manual,
    /// It jumps to what is next when there is nothing to do.
    Simulated,
}

impl Env {
    pub(crate) fn new(classes: Arc<Classes>) -> io::Result<Env> {
        let seed = || RandomState::new().build_hasher().finish();
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
        Ok(Env {
            now: epoch,
            devices: Devices::new()?,
            sockets: Sockets::default(),
            chatters: Chatters::default(),
            links: Links::default(),
            watch: SharedWatch::default(),
            notices: Vec::new(),
            printer: None,
            running: String::new(),
            stop: false,
            classes,
            reader: None,
            swap: None,
            hash_seed: seed(),
            exchange: None,
            team: None,
            random: seed() | 1,
            series: None,
            clock: Clock::Real { start: Instant::now(), epoch, speed: 1.0 },
        })
    }

    /// Reads the clock.
    pub(crate) fn tick(&mut self) {
        match &self.clock {
            Clock::Real { start, epoch, speed } => {
                let passed = start.elapsed().as_nanos() as u64;
                let passed = if *speed == 1.0 { passed } else { (passed as f64 * speed) as u64 };
                // Never back, whatever the rounding.
                self.now = self.now.max(epoch + passed);
            }
            Clock::Manual => {}
            // No two looks give the same time, as on a real machine.
            Clock::Simulated => self.now += 1,
        }
    }

    /// Stops the clock at a time; from now on only this moves it.
    pub(crate) fn set_time(&mut self, now: u64) {
        self.clock = Clock::Manual;
        self.now = now;
    }

    /// Lets time jump from event to event, from this time on.
    pub(crate) fn simulate_time(&mut self, start: u64) {
        self.clock = Clock::Simulated;
        self.now = start;
    }

    /// If time is simulated, goes to a later time.
    pub(crate) fn jump(&mut self, to: u64) -> bool {
        let simulated = matches!(self.clock, Clock::Simulated);
        if simulated {
            self.now = self.now.max(to);
        }
        simulated
    }

    /// Whether time passes by itself.
    pub(crate) fn real_time(&self) -> bool {
        matches!(self.clock, Clock::Real { .. })
    }

    /// How long a span of the engine's time takes.
    pub(crate) fn real_span(&self, nanos: u64) -> Duration {
        match &self.clock {
            Clock::Real { speed, .. } if *speed != 1.0 => Duration::from_nanos((nanos as f64 / speed) as u64),
            _ => Duration::from_nanos(nanos),
        }
    }

    /// How fast time passes: `simulation`, or a factor.
    pub(crate) fn warp(&self) -> String {
        match &self.clock {
            Clock::Real { speed, .. } => speed.to_string(),
            Clock::Manual | Clock::Simulated => "simulation".to_owned(),
        }
    }

    /// Lets time pass faster or slower than on the machine's clock.
    pub(crate) fn set_warp(&mut self, text: &str) -> Result<(), String> {
        let factor: f64 = text.trim().parse().map_err(|_| format!("expected a factor, not '{text}'"))?;
        if !(factor > 0.0 && factor <= 1e6) {
            return Err("the factor must be above 0, and at most 1000000".to_owned());
        }
        if !self.real_time() {
            return Err("time is simulated".to_owned());
        }
        self.tick();
        self.clock = Clock::Real { start: Instant::now(), epoch: self.now, speed: factor };
        Ok(())
    }

    /// Makes chance repeatable: with the series of random numbers that Click has on Linux.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.hash_seed = seed;
        self.series = Some(Box::new(Series::new(seed as u32)));
    }

    /// Makes this what is outside of the graphs on another worker than the first, whose is `first`.
    pub(crate) fn join(&mut self, first: &Env) {
        self.watch = first.watch.clone();
        self.clock = first.clock.clone();
        self.hash_seed = first.hash_seed;
        self.now = first.now;
    }

    /// Number of this worker.
    pub(crate) fn worker(&self) -> usize {
        self.exchange.as_ref().map_or(0, Exchange::me)
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.exchange.as_ref().map_or(1, Exchange::workers)
    }

    /// The worker that a frame from a device belongs to: the same for both directions of a flow.
    pub(crate) fn worker_of(&self, frame: &[u8]) -> usize {
        let hash = FlowKey::of_frame(frame).map_or(0, |key| key.symmetric_hash(self.hash_seed as u32));
        hash as usize % self.workers()
    }

    /// Hands a packet to another worker; gives it back if it is for this one.
    pub(crate) fn hand_over(&mut self, to: usize, parcel: Parcel) -> Result<(), Parcel> {
        match &mut self.exchange {
            Some(exchange) => exchange.send(to, parcel),
            None => Err(parcel),
        }
    }

    /// Whether nothing is to be taken in, since another worker does not keep up.
    pub(crate) fn is_blocked(&self) -> bool {
        self.exchange.as_ref().is_some_and(Exchange::is_blocked)
    }

    /// A random number (xorshift64*, Vigna 2014: good enough to spread and sample, not for secrets).
    pub(crate) fn random(&mut self) -> u32 {
        match &mut self.series {
            Some(series) => series.next(),
            None => random(&mut self.random),
        }
    }

    pub(crate) fn notice(&mut self, graph: Option<&str>, what: &'static str, text: impl Into<String>) {
        let text = text.into();
        if what == "print" {
            self.chatters.tell(&text);
        }
        if what == "print"
            && let Some(printer) = &mut self.printer
        {
            return printer(&text);
        }
        if self.notices.len() < MAX_NOTICES {
            self.notices.push(Notice { graph: graph.map(str::to_owned), what, text });
        }
    }
}

fn random(state: &mut u64) -> u32 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
}
