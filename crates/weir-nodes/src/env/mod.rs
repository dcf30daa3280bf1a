//! What is outside of a graph, as its nodes see it: time, randomness, devices, sockets, links to other graphs.

mod chatter;
pub mod device;
pub mod links;
mod series;
pub mod sockets;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use chatter::{Chatter, Chatters};
use device::Devices;
use links::Links;
use series::Series;
use sockets::Sockets;

/// Most notices that are kept until someone takes them.
const MAX_NOTICES: usize = 4096;

/// The environment of the graphs of an engine.
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
    pub links: Links,
    /// What happened, until someone takes it.
    pub notices: Vec<Notice>,
    /// Who gets what elements print, at once.
    pub printer: Option<Box<Printer>>,
    /// The name of the graph that runs now, for notices and for the message after a panic.
    pub running: String,
    /// Whether an element asked for the end of the run.
    stop_asked: bool,
    /// For hashes of flows and tables.
    pub hash_seed: u64,
    random: u64,
    /// Gives the random numbers instead, once there is a seed.
    series: Option<Box<Series>>,
    clock: Clock,
}

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

/// The source of time.
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
    /// Without devices, in real time.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Env> {
        let seed = || RandomState::new().build_hasher().finish();
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
        Ok(Env {
            now: epoch,
            devices: Devices::new()?,
            sockets: Sockets::default(),
            chatters: Chatters::default(),
            links: Links::default(),
            notices: Vec::new(),
            printer: None,
            running: String::new(),
            stop_asked: false,
            hash_seed: seed(),
            random: seed() | 1,
            series: None,
            clock: Clock::Real { start: Instant::now(), epoch, speed: 1.0 },
        })
    }

    /// Asks for the end of the run. What becomes of that, the graph of the element that asks decides.
    pub fn ask_stop(&mut self) {
        self.stop_asked = true;
    }

    /// Whether the end of the run was asked for since this was last called.
    pub fn take_stop_asked(&mut self) -> bool {
        std::mem::take(&mut self.stop_asked)
    }

    /// Reads the clock.
    pub fn tick(&mut self) {
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
    pub fn set_time(&mut self, now: u64) {
        self.clock = Clock::Manual;
        self.now = now;
    }

    /// Lets time jump from event to event, from this time on.
    pub fn simulate_time(&mut self, start: u64) {
        self.clock = Clock::Simulated;
        self.now = start;
    }

    /// If time is simulated, goes to a later time.
    pub fn jump(&mut self, to: u64) -> bool {
        let simulated = matches!(self.clock, Clock::Simulated);
        if simulated {
            self.now = self.now.max(to);
        }
        simulated
    }

    /// Whether time passes by itself.
    pub fn real_time(&self) -> bool {
        matches!(self.clock, Clock::Real { .. })
    }

    /// How long a span of the engine's time takes.
    pub fn real_span(&self, nanos: u64) -> Duration {
        match &self.clock {
            Clock::Real { speed, .. } if *speed != 1.0 => Duration::from_nanos((nanos as f64 / speed) as u64),
            _ => Duration::from_nanos(nanos),
        }
    }

    /// How fast time passes: `simulation`, or a factor.
    pub fn warp(&self) -> String {
        match &self.clock {
            Clock::Real { speed, .. } => speed.to_string(),
            Clock::Manual | Clock::Simulated => "simulation".to_owned(),
        }
    }

    /// Lets time pass faster or slower than on the machine's clock.
    pub fn set_warp(&mut self, text: &str) -> Result<(), String> {
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

    /// Makes randomness repeatable: with the series of random numbers that Click has on Linux.
    pub fn set_seed(&mut self, seed: u64) {
        self.hash_seed = seed;
        self.series = Some(Box::new(Series::new(seed as u32)));
    }

    /// Follows the clock of the first worker, whose this is.
    pub fn join(&mut self, first: &Env) {
        self.clock = first.clock.clone();
        self.hash_seed = first.hash_seed;
        self.now = first.now;
    }

    /// A random number (xorshift64*, Vigna 2014: good enough to spread and sample, not for secrets).
    pub fn random(&mut self) -> u32 {
        match &mut self.series {
            Some(series) => series.next(),
            None => random(&mut self.random),
        }
    }

    /// Notifies that something happened; `what` as in [`Notice::what`].
    pub fn notice(&mut self, graph: Option<&str>, what: &'static str, text: impl Into<String>) {
        let text = text.into();
        if what == "print" {
            self.chatters.print(&text);
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
