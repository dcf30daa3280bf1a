//! Ways to do a workload's job, and the loop that feeds them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::time::{ClockId, clock_gettime};
use weir_ir::program::BlockId;
use weir_ir::{Host, Interpreter, Reason};
use weir_jit::{BatchHost, Compiled, Ended, Runner};
use weir_packet::Packet;
use weir_table::TableSet;

use crate::graph::{Built, Code};
use crate::handwritten::Router;
use crate::workload::{Expected, Frames, ROUTES, Workload};

/// Packets that are made, run and dropped together.
pub const BATCH: usize = 32;
/// Batches between two looks at the clock.
const BATCHES_PER_LOOK: usize = 256;
/// Time that the program sees to pass in a batch.
const BATCH_NANOS: u64 = 10_000;

/// How a workload is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
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

impl Variant {
    /// The variants of a workload; `all` asks for more than machine code of the optimised program.
    pub fn of(workload: &Workload, all: bool) -> Vec<Variant> {
        let mut variants = vec![Variant::SourceToSink];
        if workload.text.is_empty() {
            return variants;
        }
        if all {
            variants.extend([Variant::Interpreter, Variant::InterpreterOptimised, Variant::Jit]);
        }
        variants.push(Variant::JitOptimised);
        variants.extend((all && workload.by_hand).then_some(Variant::HandWritten));
        variants
    }

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Variant::SourceToSink => "source to sink",
            Variant::Interpreter => "interpreter, as linked",
            Variant::InterpreterOptimised => "interpreter, optimised",
            Variant::Jit => "JIT, as linked",
            Variant::JitOptimised => "JIT, optimised",
            Variant::HandWritten => "hand-written Rust",
        }
    }
}

/// A variant with its state, ready to run.
pub struct Subject<'a> {
    kind: Kind<'a>,
    /// The state of the graph.
    pub tables: TableSet,
    now: u64,
    /// The frame that is sent next.
    next: usize,
}

enum Kind<'a> {
    SourceToSink,
    Interpreter(Interpreter, &'a Code),
    Jit(Box<Runner>, &'a Compiled, &'a Code),
    HandWritten(Router),
}

impl<'a> Subject<'a> {
    /// Source to sink.
    pub fn bare() -> Subject<'a> {
        Subject { kind: Kind::SourceToSink, tables: TableSet::default(), now: 1, next: 0 }
    }

    /// A graph, run in this variant.
    pub fn new(variant: Variant, built: &'a Built) -> Result<Subject<'a>> {
        let (linked, optimised) = (&built.linked, &built.optimised);
        let (kind, tables) = match variant {
            Variant::SourceToSink => return Ok(Subject::bare()),
            Variant::Interpreter => (Kind::Interpreter(Interpreter::default(), linked), linked.tables()?),
            Variant::InterpreterOptimised => {
                (Kind::Interpreter(Interpreter::default(), optimised), optimised.tables()?)
            }
            Variant::Jit => {
                let code = built.linked_jit.as_ref().context("the program as linked was not compiled")?;
                (Kind::Jit(Box::default(), code, linked), linked.tables()?)
            }
            Variant::JitOptimised => {
                (Kind::Jit(Box::default(), &built.optimised_jit, optimised), optimised.tables()?)
            }
            Variant::HandWritten => (Kind::HandWritten(Router::new(&ROUTES)), TableSet::default()),
        };
        Ok(Subject { kind, tables, now: 1, next: 0 })
    }

    /// Runs packets from an output of `Input` to their end and leaves `packets` empty.
    pub fn run(&mut self, input: usize, packets: &mut Vec<Packet>, host: &mut impl End) {
        self.now += BATCH_NANOS;
        match &mut self.kind {
            Kind::SourceToSink => host.pass(packets),
            Kind::Interpreter(i, code) => {
                for p in packets.drain(..) {
                    i.run(&code.program, &mut self.tables, host, self.now, code.entries[input], &[], Some(p));
                }
            }
            Kind::Jit(runner, compiled, code) => {
                compiled.run_batch(runner, &mut self.tables, host, self.now, code.entries[input], packets);
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

    /// Sends what comes before all other packets, then each frame of the workload twice, and compares what leaves with
    /// what has to. Also fills the tables.
    pub fn validate(&mut self, workload: &Workload) -> Result<()> {
        if !workload.routes.is_empty() {
            let mut tables = 0..self.tables.len() as u32;
            let routes = tables.find(|&t| self.tables.table(t).decl().name == "routes");
            let routes = self.tables.table_mut(routes.context("the graph has no table `routes`")?);
            routes.insert_rows(&workload.routes, 0)?;
        }
        let mut packets = Vec::with_capacity(BATCH);
        for (input, frames) in &workload.before {
            for frame in frames.iter() {
                packets.push(Packet::from_bytes(frame)?);
                if packets.len() == BATCH {
                    self.run(*input as usize, &mut packets, &mut Sink::default());
                }
            }
            self.run(*input as usize, &mut packets, &mut Sink::default());
        }
        // The exit that each frame took at first.
        let mut taken = vec![None; workload.frames.len()];
        for _ in 0..2 {
            for (i, frame) in workload.frames.iter().enumerate() {
                let mut host = Keep::default();
                packets.push(Packet::from_bytes(frame)?);
                self.run(0, &mut packets, &mut host);
                let (exit, packet) = match &host.0[..] {
                    [Ok((exit, p))] => (*exit, p.bytes()),
                    [Err(reason)] => bail!("packet {i} was dropped: {reason}"),
                    list => bail!("packet {i} became {} packets", list.len()),
                };
                let wrong = |wanted: u32, bytes: &[u8]| {
                    ensure!(
                        (exit, packet) == (wanted, bytes),
                        "packet {i}: exit {exit} instead of {wanted}, or wrong bytes:\n{packet:02x?}\nnot\n{bytes:02x?}"
                    );
                    Ok(())
                };
                match &workload.expected {
                    Expected::Exact(exits, bytes) => wrong(exits[i], &bytes[i])?,
                    Expected::Balanced { frame: expected, .. } => {
                        wrong(*taken[i].get_or_insert(exit), &expected(frame, exit))?;
                    }
                }
            }
        }
        if let Expected::Balanced { exits, .. } = workload.expected {
            let unused = (0..exits).find(|exit| !taken.contains(&Some(*exit)));
            ensure!(unused.is_none(), "no packet took exit {unused:?} of {exits}");
        }
        Ok(())
    }

    /// Sends frames round and round for at least `time` of the processor, and measures.
    pub fn measure(&mut self, frames: &Frames, time: Duration) -> Result<Sample> {
        // It goes on where it ended: to start again would repeat packets out of turn, which state may forbid.
        let (mut next, mut sink) = (self.next, Sink::default());
        let mut packets = Vec::with_capacity(BATCH);
        let far = frames.are_far();
        let frames: Vec<&[u8]> = frames.iter().collect();
        // One round unmeasured: the caches and branch predictors were another variant's.
        for _ in 0..frames.len().div_ceil(BATCH) {
            self.batch(&frames, far, &mut next, &mut packets, &mut sink)?;
        }
        let before = sink.exits;
        let (wall, start) = (Instant::now(), cpu_time()?);
        let mut cpu = Duration::ZERO;
        while cpu < time {
            for _ in 0..BATCHES_PER_LOOK {
                self.batch(&frames, far, &mut next, &mut packets, &mut sink)?;
            }
            cpu = cpu_time()?.saturating_sub(start);
        }
        let wall = wall.elapsed();
        self.next = next;
        ensure!(sink.lost == 0, "{} packets did not leave while they were measured", sink.lost);
        Ok(Sample { packets: sink.exits - before, cpu, wall })
    }

    fn batch(
        &mut self,
        frames: &[&[u8]],
        far: bool,
        next: &mut usize,
        packets: &mut Vec<Packet>,
        sink: &mut Sink,
    ) -> Result<()> {
        let frames = black_box(frames);
        // A source that knows what comes next does not wait for it.
        if far {
            let from = (*next + BATCH) % frames.len();
            frames[from..].iter().take(BATCH).for_each(|f| weir_packet::fetch(f));
        }
        // Behind the last frame comes the first.
        while packets.len() < BATCH {
            let some = &frames[*next..frames.len().min(*next + BATCH - packets.len())];
            *next += some.len();
            if *next == frames.len() {
                *next = 0;
            }
            Packet::from_frames(some, packets)?;
        }
        let before = sink.exits;
        self.run(0, packets, sink);
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

/// The processor time that this thread has had.
pub(crate) fn cpu_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Where packets end.
pub trait End: BatchHost {
    /// Packets that went through no program.
    fn pass(&mut self, packets: &mut Vec<Packet>) {
        packets.drain(..).for_each(|p| self.exit(0, p));
    }
}

/// Counts packets and drops them.
#[derive(Default)]
pub struct Sink {
    /// Packets that left.
    pub exits: u64,
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

impl End for Sink {
    fn pass(&mut self, packets: &mut Vec<Packet>) {
        self.exits += black_box(&*packets).len() as u64;
        Packet::free(packets);
    }
}

impl BatchHost for Sink {
    fn ended(&mut self, ended: Ended<'_>) {
        let left = ended.left() as u64;
        self.exits += left;
        self.lost += ended.len() as u64 - left;
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

impl BatchHost for Keep {}

impl End for Keep {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph;
    use crate::workload::{Entry, catalog};

    /// Tables of the large workloads are cut to this: tests run everywhere.
    const MOST: usize = 200;

    fn entry(name: &str) -> Entry {
        catalog().into_iter().find(|e| e.name == name).unwrap()
    }

    #[test]
    fn every_way_does_every_job() {
        for entry in catalog().into_iter().filter(|e| e.missing().is_empty()) {
            let w = entry.make(MOST);
            if w.text.is_empty() {
                continue;
            }
            let built = graph::build(&w.text, true).unwrap_or_else(|e| panic!("{}: {e:#}", entry.name));
            for variant in
                Variant::of(&w, true).into_iter().filter(|variant| *variant != Variant::SourceToSink)
            {
                let mut s = Subject::new(variant, &built).unwrap();
                s.validate(&w).unwrap_or_else(|e| panic!("{}, {}: {e}", entry.name, variant.name()));
                let sample = s.measure(&w.frames, Duration::from_millis(1)).unwrap();
                assert!(sample.packets >= (BATCH * BATCHES_PER_LOOK) as u64);
            }
        }
    }

    #[test]
    fn wrong_bytes_and_lost_packets_are_found() {
        let mut w = entry("chain-null-1").make(MOST);
        let built = graph::build(&w.text, true).unwrap();
        let mut s = Subject::new(Variant::Jit, &built).unwrap();
        let Expected::Exact(_, bytes) = &mut w.expected else { panic!() };
        bytes.get_mut(5)[63] ^= 1;
        assert!(s.validate(&w).unwrap_err().to_string().starts_with("packet 5: exit 0"));
        let text = "Input -> CheckIPHeader(15) -> Output;";
        let built = graph::build(text, false).unwrap();
        let mut s = Subject::new(Variant::Interpreter, &built).unwrap();
        assert!(s.validate(&w).unwrap_err().to_string().starts_with("packet 0 was dropped"));
        assert!(s.measure(&w.frames, Duration::from_millis(1)).is_err());
    }

    #[test]
    fn a_balancer_that_forgets_a_back_end_is_found() {
        let expected = Expected::Balanced { exits: 3, frame: |f, _| f.to_vec() };
        let w = Workload { expected, ..entry("chain-null-1").make(MOST) };
        let error = |graph: &str| {
            let built = graph::build(&format!("out :: Output; Input -> {graph}"), false).unwrap();
            let mut s = Subject::new(Variant::Interpreter, &built).unwrap();
            s.validate(&w).map_err(|e| e.to_string())
        };
        let hash = "s :: HashSwitch(26, 12); s [0] -> [0] out; s [1] -> [1] out;";
        assert_eq!(error(&format!("{hash} s [2] -> [2] out;")), Ok(()));
        assert!(error(hash).unwrap_err().starts_with("no packet took exit Some(2)"));
        let turns = "s :: RoundRobinSwitch; s [0] -> [0] out; s [1] -> [1] out; s [2] -> [2] out;";
        assert!(error(turns).unwrap_err().contains("instead of"));
    }
}
