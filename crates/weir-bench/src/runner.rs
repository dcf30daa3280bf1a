//! Ways to do a workload's job, and the loop that feeds them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use nix::time::{ClockId, clock_gettime};
use weir_ir::program::BlockId;
use weir_ir::{Host, Interpreter, Reason};
use weir_jit::{Compiled, Runner};
use weir_packet::Packet;
use weir_table::TableSet;

use crate::graph::{Built, Code};
use crate::handwritten::Router;
use crate::workload::{Frame, ROUTES, Workload};

/// Packets that are made, run and dropped together.
pub const BATCH: usize = 32;
/// Batches between two looks at the clock.
const BATCHES_PER_LOOK: usize = 64;
/// Time that the program sees to pass in a batch.
const BATCH_NANOS: u64 = 10_000;

/// A way to do a workload's job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Nothing: packets are made and dropped.
    SourceToSink,
    /// The interpreter with the program as linked.
    Interpreter,
    /// The interpreter with the program after all passes.
    InterpreterOptimised,
    /// Machine code of the program as linked.
    Jit,
    /// Machine code of the program after all passes.
    JitOptimised,
    /// Rust written for this job.
    HandWritten,
}

impl Way {
    /// The ways that a workload can go.
    pub fn of(workload: &Workload) -> Vec<Way> {
        let mut all =
            vec![Way::SourceToSink, Way::Interpreter, Way::InterpreterOptimised, Way::Jit, Way::JitOptimised];
        all.extend(workload.router.then_some(Way::HandWritten));
        all
    }

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Way::SourceToSink => "source to sink",
            Way::Interpreter => "interpreter, as linked",
            Way::InterpreterOptimised => "interpreter, optimised",
            Way::Jit => "JIT, as linked",
            Way::JitOptimised => "JIT, optimised",
            Way::HandWritten => "hand-written Rust",
        }
    }
}

/// A way with its state, ready to run.
pub struct Subject<'a> {
    kind: Kind<'a>,
    /// The state of the graph.
    pub tables: TableSet,
    now: u64,
}

enum Kind<'a> {
    SourceToSink,
    Interpreter(Interpreter, &'a Code),
    Jit(Runner, &'a Compiled, BlockId),
    HandWritten(Router),
}

impl<'a> Subject<'a> {
    /// A way through a graph.
    pub fn new(way: Way, built: &'a Built) -> Result<Subject<'a>> {
        let (linked, optimised) = (&built.linked, &built.optimised);
        let (kind, tables) = match way {
            Way::SourceToSink => (Kind::SourceToSink, TableSet::default()),
            Way::Interpreter => (Kind::Interpreter(Interpreter::default(), linked), linked.tables()?),
            Way::InterpreterOptimised => {
                (Kind::Interpreter(Interpreter::default(), optimised), optimised.tables()?)
            }
            Way::Jit => (Kind::Jit(Runner::default(), &built.linked_jit, linked.entry), linked.tables()?),
            Way::JitOptimised => {
                (Kind::Jit(Runner::default(), &built.optimised_jit, optimised.entry), optimised.tables()?)
            }
            Way::HandWritten => (Kind::HandWritten(Router::new(&ROUTES)), TableSet::default()),
        };
        Ok(Subject { kind, tables, now: 1 })
    }

    /// Runs packets to their end and leaves `packets` empty.
    pub fn run(&mut self, packets: &mut Vec<Packet>, host: &mut impl Host) {
        self.now += BATCH_NANOS;
        match &mut self.kind {
            Kind::SourceToSink => packets.drain(..).for_each(|p| host.exit(0, p)),
            Kind::Interpreter(i, code) => {
                for p in packets.drain(..) {
                    i.run(&code.program, &mut self.tables, host, self.now, code.entry, &[], Some(p));
                }
            }
            Kind::Jit(runner, compiled, entry) => {
                compiled.run_batch(runner, &mut self.tables, host, self.now, *entry, packets);
            }
            Kind::HandWritten(router) => {
                for mut p in packets.drain(..) {
                    match router.forward(&mut p) {
                        Some(output) => host.exit(output, p),
                        None => host.dropped(BlockId(0), &Reason::DISCARDED, p),
                    }
                }
            }
        }
    }

    /// Sends each frame of the workload twice and compares what leaves with what has to. Also fills the tables.
    pub fn validate(&mut self, workload: &Workload) -> Result<()> {
        for _ in 0..2 {
            for (i, (frame, (port, bytes))) in workload.frames.iter().zip(&workload.expected).enumerate() {
                let mut host = Keep::default();
                self.run(&mut vec![Packet::from_bytes(frame)?], &mut host);
                match &host.0[..] {
                    [Ok((exit, p))] => ensure!(
                        (exit, p.bytes()) == (port, &bytes[..]),
                        "packet {i}: exit {exit} instead of {port}, or wrong bytes:\n{:02x?}\nnot\n{bytes:02x?}",
                        p.bytes()
                    ),
                    [Err(reason)] => bail!("packet {i} was dropped: {reason}"),
                    list => bail!("packet {i} became {} packets", list.len()),
                }
            }
        }
        Ok(())
    }

    /// Sends frames round and round for at least `time` of the processor, and measures.
    pub fn measure(&mut self, frames: &[Frame], time: Duration) -> Result<Sample> {
        let (mut next, mut sink) = (0, Sink::default());
        let mut packets = Vec::with_capacity(BATCH);
        // One round unmeasured: the caches and branch predictors were another way's.
        for _ in 0..frames.len().div_ceil(BATCH) {
            self.batch(frames, &mut next, &mut packets, &mut sink)?;
        }
        let before = sink.exits;
        let (wall, start) = (Instant::now(), cpu_time()?);
        let mut cpu = Duration::ZERO;
        while cpu < time {
            for _ in 0..BATCHES_PER_LOOK {
                self.batch(frames, &mut next, &mut packets, &mut sink)?;
            }
            cpu = cpu_time()?.saturating_sub(start);
        }
        let wall = wall.elapsed();
        ensure!(sink.lost == 0, "{} packets did not leave while they were measured", sink.lost);
        Ok(Sample { packets: sink.exits - before, cpu, wall })
    }

    fn batch(
        &mut self,
        frames: &[Frame],
        next: &mut usize,
        packets: &mut Vec<Packet>,
        sink: &mut Sink,
    ) -> Result<()> {
        for _ in 0..BATCH {
            packets.push(Packet::from_bytes(black_box(&frames[*next]))?);
            *next = if *next + 1 == frames.len() { 0 } else { *next + 1 };
        }
        let before = sink.exits;
        self.run(packets, sink);
        ensure!(
            sink.exits - before == BATCH as u64,
            "a batch of {BATCH} gave {} packets",
            sink.exits - before
        );
        Ok(())
    }
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    packets: u64,
    cpu: Duration,
    wall: Duration,
}

impl Sample {
    /// Nanoseconds of processor time for a packet.
    pub fn nanos(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.packets as f64
    }

    /// The share of the time in which the thread had its processor, as the operating system knows it.
    pub fn share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64()
    }
}

fn cpu_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Counts packets and drops them.
#[derive(Default)]
pub struct Sink {
    exits: u64,
    lost: u64,
}

impl Host for Sink {
    fn exit(&mut self, port: u32, packet: Packet) {
        black_box((port, &packet));
        self.exits += 1;
    }
    fn dropped(&mut self, _: BlockId, _: &Reason, _: Packet) {
        self.lost += 1;
    }
    fn orphaned(&mut self, _: Packet) {
        self.lost += 1;
    }
    fn random(&mut self) -> u32 {
        4
    }
}

/// Keeps packets, or why they were dropped.
#[derive(Default)]
struct Keep(Vec<std::result::Result<(u32, Packet), String>>);

impl Host for Keep {
    fn exit(&mut self, port: u32, packet: Packet) {
        self.0.push(Ok((port, packet)));
    }
    fn dropped(&mut self, _: BlockId, reason: &Reason, _: Packet) {
        self.0.push(Err(reason.to_string()));
    }
    fn orphaned(&mut self, _: Packet) {
        self.0.push(Err("held, and forgotten".into()));
    }
    fn random(&mut self) -> u32 {
        4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{graph, workload};

    #[test]
    fn every_way_does_every_job() {
        for w in workload::all() {
            let built = graph::build(&w.text).unwrap();
            for way in Way::of(&w).into_iter().filter(|way| *way != Way::SourceToSink) {
                let mut s = Subject::new(way, &built).unwrap();
                s.validate(&w).unwrap_or_else(|e| panic!("{}, {}: {e}", w.name, way.name()));
                let sample = s.measure(&w.frames, Duration::from_millis(1)).unwrap();
                assert!(sample.packets >= (BATCH * BATCHES_PER_LOOK) as u64);
            }
        }
    }

    #[test]
    fn wrong_bytes_and_lost_packets_are_found() {
        let mut w = workload::all().swap_remove(0);
        let built = graph::build(&w.text).unwrap();
        let mut s = Subject::new(Way::Jit, &built).unwrap();
        w.expected[5].1[63] ^= 1;
        assert!(s.validate(&w).unwrap_err().to_string().starts_with("packet 5: exit 0"));
        let text = "Input -> CheckIPHeader(15) -> Output;";
        let built = graph::build(text).unwrap();
        let mut s = Subject::new(Way::Interpreter, &built).unwrap();
        assert!(s.validate(&w).unwrap_err().to_string().starts_with("packet 0 was dropped"));
        assert!(s.measure(&w.frames, Duration::from_millis(1)).is_err());
    }
}
