//! Runs compiled programs: the queue of packets, expiry, batches.

pub(crate) mod ended;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};

use weir_ir::Reason;
use weir_ir::program::{BlockId, End, EntryKind, Program, TableId};
use weir_packet::{Meta, Packet};
use weir_table::TableSet;

use crate::JitError;
use crate::abi::helpers::{Ctx, Strand};
use crate::abi::profile::{Profile, Spent};
use crate::analysis::starts::Starts;
use crate::analysis::uses::Uses;
use crate::flows::cache::Caches;
use crate::flows::{CachePlan, FlowCache, Flows};
use crate::machine::{Ahead, Machine};
use crate::run::ended::{BatchHost, Ended};
use crate::translate::Input;

/// A program as machine code. May be shared by threads; each has a [`Runner`] of its own.
pub struct Compiled {
    machine: Machine,
    /// The same with probes.
    probed: OnceLock<Machine>,
    /// What works keys out before a batch runs.
    ahead: OnceLock<Ahead>,
    starts: Starts,
    /// The lookups whose results are kept for each flow.
    flows: Arc<CachePlan>,
    /// Number of the program's elements.
    elements: usize,
    /// For each block that drops packets, why.
    reasons: Vec<Option<Reason>>,
    /// For each table the program that runs when an entry's time has come.
    expire: Vec<Option<BlockId>>,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("starts", &self.starts).finish_non_exhaustive()
    }
}

/// The memory of runs, reused from packet to packet.
#[derive(Debug, Default)]
pub struct Runner {
    rounds: Vec<u32>,
    strands: VecDeque<Strand>,
    outcomes: Vec<u64>,
    /// Keys that were worked out before a batch, those of one lookup behind those of another.
    keys: Vec<u64>,
    /// The tables that they are looked up in, and which in each.
    lookups: Vec<(u32, Range<usize>)>,
    profile: Profile,
    caches: Caches,
}

impl Runner {
    /// A runner that keeps the results of lookups for each flow, or not. [`Runner::default`] does where it pays.
    pub fn new(flows: Flows) -> Runner {
        Runner { caches: Caches::new(flows), ..Runner::default() }
    }

    /// How the per-flow fast path works: one for each lookup that it may spare, in the order in which packets come to
    /// them. Empty before the first run, and for programs without such lookups.
    pub fn flows(&self) -> Vec<FlowCache> {
        self.caches.report()
    }

    /// Where the time went, for each of the program's elements; empty if nothing was measured. Only some batches are,
    /// of code that was [instrumented](Compiled::instrument).
    pub fn profile(&self) -> Vec<Spent> {
        self.profile.spent()
    }
}

impl Compiled {
    /// Checks and compiles a program.
    pub fn new(program: &Program) -> Result<Compiled, JitError> {
        let known = weir_ir::known_if_checked(program).map_err(JitError::Unchecked)?;
        let (starts, flows) = (Starts::of(program), CachePlan::of(program));
        let input =
            Input { program, known: &known, starts: &starts, flows: &flows, uses: &Uses::of(program) };
        let reasons = program.blocks.iter().map(|b| match &b.end {
            End::Drop { reason } => Some(reason.clone()),
            End::Enter { back: true, .. } => Some(Reason::LOOP_LIMIT),
            _ => None,
        });
        let expire = (0..program.tables.len() as u32).map(|t| {
            let kind = EntryKind::Expire { table: TableId(t) };
            program.entries.iter().find(|e| e.kind == kind).map(|e| e.block)
        });
        Ok(Compiled {
            machine: Machine::new(input, false)?,
            probed: OnceLock::new(),
            ahead: OnceLock::new(),
            flows: Arc::new(flows),
            elements: program.elements.len(),
            reasons: reasons.collect(),
            expire: expire.collect(),
            starts,
        })
    }

    /// Compiles what works keys out before a batch runs, of `program`, which must be the one that this was made of: from
    /// then on packets wait less for large tables, in all threads. Nothing else changes.
    ///
    /// # Errors
    /// As [`Compiled::new`]; then each packet waits for what it looks up.
    pub fn look_ahead(&self, program: &Program) -> Result<(), JitError> {
        if self.ahead.get().is_some() {
            return Ok(());
        }
        let known = weir_ir::known_if_checked(program).map_err(JitError::Unchecked)?;
        let uses = &Uses::of(program);
        let input = Input { program, known: &known, starts: &self.starts, flows: &self.flows, uses };
        if let Some(ahead) = Ahead::new(input)? {
            // Who comes second has compiled in vain.
            self.ahead.get_or_init(|| ahead);
        }
        Ok(())
    }

    /// Compiles `program`, which must be the one that this was made of, once more with probes: from then on some
    /// batches are measured, in all threads. It takes as long and as much memory as [`Compiled::new`], and changes
    /// nothing else.
    ///
    /// # Errors
    /// As [`Compiled::new`]; then nothing is measured.
    pub fn instrument(&self, program: &Program) -> Result<(), JitError> {
        let known = weir_ir::known_if_checked(program).map_err(JitError::Unchecked)?;
        let uses = &Uses::of(program);
        let input = Input { program, known: &known, starts: &self.starts, flows: &self.flows, uses };
        let machine = Machine::new(input, true)?;
        // Who comes second has compiled in vain.
        self.probed.get_or_init(|| machine);
        Ok(())
    }

    /// Runs the program from one of its entries to the end, including all packets that it starts: as
    /// [`weir_ir::Interpreter::run`]. `tables` has the program's tables.
    ///
    /// # Panics
    /// If `entry` is no entry of the program, or `args` and `packet` are not what it takes. A panic of the host goes on
    /// when all packets have ended, as it cannot pass through compiled code. Wrong tables end the process.
    #[expect(
        clippy::too_many_arguments,
        reason = "a run is a program, its state, its host and what starts it"
    )]
    pub fn run(
        &self,
        runner: &mut Runner,
        tables: &mut TableSet,
        host: &mut impl BatchHost,
        now: u64,
        entry: BlockId,
        args: &[u128],
        packet: Option<Packet>,
    ) {
        let start = self.start(entry, packet.is_some());
        let params = self.starts.params(start);
        assert!(args.len() >= params, "the entry takes {params} arguments, not {}", args.len());
        let mut run = Run { code: self, runner, tables, host, now, probed: None, panic: None };
        run.batch(start, args, &[packet.map_or(std::ptr::null_mut(), Packet::into_raw)]);
    }

    /// Runs packets, in order, as if one at a time, and leaves `packets` empty.
    ///
    /// # Panics
    /// If `entry` is no entry for packets.
    pub fn run_batch(
        &self,
        runner: &mut Runner,
        tables: &mut TableSet,
        host: &mut impl BatchHost,
        now: u64,
        entry: BlockId,
        packets: &mut Vec<Packet>,
    ) {
        let start = self.start(entry, true);
        assert_eq!(self.starts.params(start), 0, "the entry takes arguments");
        let raw = Packet::into_raw_batch(packets);
        let mut run = Run { code: self, runner, tables, host, now, probed: None, panic: None };
        run.look_ahead(entry, &raw);
        run.batch(start, &[], &raw);
    }

    /// Lets everything expire whose time has come: as [`weir_ir::Interpreter::expire`].
    pub fn expire(&self, runner: &mut Runner, tables: &mut TableSet, host: &mut impl BatchHost, now: u64) {
        while let Some(due) = tables.next_due(now) {
            if let Some(entry) = self.expire.get(due.table as usize).copied().flatten() {
                self.run(runner, tables, host, now, entry, &[due.slot.into()], None);
            }
            tables.finish_expiry(due, now);
        }
        for packet in tables.take_orphans() {
            host.orphaned(packet);
        }
    }

    fn start(&self, entry: BlockId, packet: bool) -> u32 {
        match self.starts.entry(entry) {
            Some((start, with)) if with == packet => start,
            Some((_, true)) => panic!("b{} is an entry for packets, and starts with one", entry.0),
            Some((_, false)) => panic!("b{} is an entry without a packet", entry.0),
            None => panic!("b{} is no entry of the program", entry.0),
        }
    }
}

/// A run of a batch, and of what it starts.
struct Run<'a, H> {
    code: &'a Compiled,
    runner: &'a mut Runner,
    tables: &'a mut TableSet,
    host: &'a mut H,
    now: u64,
    /// The code with probes, while it runs in place of the other.
    probed: Option<&'a Machine>,
    /// The first panic of the host.
    panic: Option<Box<dyn Any + Send>>,
}

impl<H: BatchHost> Run<'_, H> {
    /// Runs packets (or nothing, as null) from a start to their ends.
    fn batch(&mut self, start: u32, args: &[u128], packets: &[*mut Meta]) {
        self.runner.rounds.resize(self.code.starts.loops, 0);
        self.runner.caches.prepare(&self.code.flows, self.tables, packets.len());
        let elements = self.code.elements;
        self.probed = self.code.probed.get().filter(|_| self.runner.profile.is_next(elements));
        let mut done = 0;
        while done < packets.len() {
            // Code that seldom runs is in no cache: if there are others, the first packet fetches it.
            let fetches = done == 0 && packets.len() > 1 && self.probed.is_some();
            self.runner.profile.mute(fetches);
            done += self.some(start, args, &packets[done..if fetches { 1 } else { packets.len() }]);
            while let Some(s) = self.runner.strands.pop_front() {
                self.some(s.start, &s.args, &[s.packet.into_raw()]);
            }
        }
        for packet in self.tables.take_orphans() {
            self.host.orphaned(packet);
        }
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }

    /// Fetches what the packets will look up: what all lookups read first, and then, when that has had time to come,
    /// the rows that they find.
    fn look_ahead(&mut self, entry: BlockId, packets: &[*mut Meta]) {
        let Some(ahead) = self.code.ahead.get().filter(|_| !packets.is_empty()) else { return };
        let mut keys = std::mem::take(&mut self.runner.keys);
        keys.clear();
        let mut lookups = std::mem::take(&mut self.runner.lookups);
        for (slice, code) in ahead.slices.iter().filter(|(s, _)| s.entry == entry) {
            let is_far = match slice.group {
                Some(group) => self.runner.caches.is_large(group),
                None => self.tables.table(slice.table.0).is_large(),
            };
            if !is_far {
                continue;
            }
            let from = keys.len();
            keys.resize(from + packets.len(), 0);
            let mut ctx = self.ctx();
            let space = keys[from..].as_mut_ptr().cast();
            // SAFETY: as in `some`; where a program has its arguments, a slice has space for a word for each packet.
            unsafe { code(&mut ctx, packets.as_ptr(), packets.len() as u64, 0, space) };
            // Packets of one flow or sender often come together.
            if keys[from..].iter().all(|&key| key == keys[from]) {
                keys.truncate(from + 1);
            }
            match slice.group {
                Some(group) => self.runner.caches.fetch(group, &keys[from..]),
                None => {
                    self.tables.table(slice.table.0).fetch(&keys[from..]);
                    lookups.push((slice.table.0, from..keys.len()));
                }
            }
        }
        for (table, range) in lookups.drain(..) {
            self.tables.table(table).fetch_rows(&keys[range]);
        }
        self.runner.keys = keys;
        self.runner.lookups = lookups;
    }

    fn ctx(&mut self) -> Ctx<'_> {
        let Runner { rounds, strands, outcomes, profile, caches, .. } = &mut *self.runner;
        let (flows, flow_entries, flow_hits) = caches.shown();
        Ctx {
            now: self.now,
            hash_seed: self.host.hash_seed(),
            rounds: rounds.as_mut_ptr(),
            outcomes: outcomes.as_mut_ptr(),
            first_table: self.tables.first(),
            flows,
            flow_entries,
            flow_hits,
            tables: self.tables,
            host: &mut *self.host,
            strands,
            profile,
            caches,
            panic: None,
        }
    }

    /// Runs packets to their ends, until one starts others; gives how many have ended.
    fn some(&mut self, start: u32, args: &[u128], packets: &[*mut Meta]) -> usize {
        let space = packets.len().max(self.runner.outcomes.len());
        self.runner.outcomes.resize(space, 0);
        let (code, n) = (self.probed.unwrap_or(&self.code.machine).code, packets.len() as u64);
        let measured = self.probed.is_some();
        let mut ctx = self.ctx();
        // `args` has as many values as the start takes (`run` asserted it for entries; those of strands come from compiled code
        // and fill an array of the largest number), and there are packets exactly if that start has them (`start` asserted it
        // for entries, the checker proved it for strands).
        // SAFETY: the code was compiled from a checked program, `start` is one of its starts with these arguments and packets, and
        // the context is whole, with a counter for each loop and space for the outcome of each packet.
        let next = unsafe { code(&mut ctx, packets.as_ptr(), n, start, args.as_ptr()) };
        let ended = (next as usize - packets.as_ptr().addr()) / size_of::<*mut Meta>();
        if measured {
            ctx.profile.end();
        }
        let panic = ctx.panic;
        self.panic = self.panic.take().or(panic);
        let outcomes = &mut self.runner.outcomes;
        // SAFETY: the code gives those packets back whose outcome is not that they are gone.
        self.host.ended(unsafe { Ended::new(outcomes, &packets[..ended], &self.code.reasons) });
        ended
    }
}
