//! Runs compiled programs: the queue of packets, expiry, batches.

use std::collections::VecDeque;
use std::fmt;

use weir_ir::program::{BlockId, End, EntryKind, Program, TableId};
use weir_ir::{Host, Reason};
use weir_packet::Packet;
use weir_table::TableSet;

use crate::JitError;
use crate::helpers::{Ctx, Strand};
use crate::module::Machine;
use crate::starts::Starts;

/// How a run of compiled code ended, in the upper half of the number that it returns; the lower half is the exit or
/// the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There is no packet any more: it is held, or there was none.
    Over = 0,
    /// The packet leaves.
    Exit = 1,
    /// The packet ends at the end of a block.
    Dropped = 2,
}

/// A program as machine code. May be shared by threads; each has a [`Runner`] of its own.
pub struct Compiled {
    machine: Machine,
    starts: Starts,
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
    args: Vec<u128>,
}

impl Compiled {
    /// Checks and compiles a program.
    pub fn new(program: &Program) -> Result<Compiled, JitError> {
        weir_ir::check(program).map_err(JitError::Unchecked)?;
        let starts = Starts::of(program);
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
            machine: Machine::new(program, &starts)?,
            reasons: reasons.collect(),
            expire: expire.collect(),
            starts,
        })
    }

    /// Runs the program from one of its entries to the end, including all packets that it starts: as
    /// [`weir_ir::Interpreter::run`]. `tables` has the program's tables.
    ///
    /// # Panics
    /// If `entry` is no entry of the program, or `args` and `packet` are not what it takes. A panic of the host's
    /// `notify` or `random` ends the process, as it cannot pass through compiled code; so do wrong tables.
    #[expect(
        clippy::too_many_arguments,
        reason = "a run is a program, its state, its host and what starts it"
    )]
    pub fn run(
        &self,
        runner: &mut Runner,
        tables: &mut TableSet,
        host: &mut impl Host,
        now: u64,
        entry: BlockId,
        args: &[u128],
        packet: Option<Packet>,
    ) {
        let start = self.start(entry, packet.is_some());
        self.whole(runner, tables, host, now, start, args, packet);
    }

    /// Runs packets, in order, as if one at a time, and leaves `packets` empty.
    ///
    /// # Panics
    /// If `entry` is no entry for packets.
    pub fn run_batch(
        &self,
        runner: &mut Runner,
        tables: &mut TableSet,
        host: &mut impl Host,
        now: u64,
        entry: BlockId,
        packets: &mut Vec<Packet>,
    ) {
        let start = self.start(entry, true);
        for packet in packets.drain(..) {
            self.whole(runner, tables, host, now, start, &[], Some(packet));
        }
    }

    /// Lets everything expire whose time has come: as [`weir_ir::Interpreter::expire`].
    pub fn expire(&self, runner: &mut Runner, tables: &mut TableSet, host: &mut impl Host, now: u64) {
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

    #[expect(clippy::too_many_arguments, reason = "what `run` was given")]
    fn whole(
        &self,
        runner: &mut Runner,
        tables: &mut TableSet,
        host: &mut impl Host,
        now: u64,
        start: u32,
        args: &[u128],
        packet: Option<Packet>,
    ) {
        let Runner { rounds, strands, args: memory } = runner;
        rounds.resize(self.starts.loops, 0);
        memory.clear();
        memory.extend_from_slice(args);
        let params = self.starts.params(start);
        assert!(memory.len() >= params, "the entry takes {params} arguments, not {}", memory.len());
        self.strand(rounds, strands, tables, host, now, start, memory, packet);
        while let Some(s) = strands.pop_front() {
            self.strand(rounds, strands, tables, host, now, s.start, &s.args, Some(s.packet));
        }
        for packet in tables.take_orphans() {
            host.orphaned(packet);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what `run` was given")]
    fn strand(
        &self,
        rounds: &mut [u32],
        strands: &mut VecDeque<Strand>,
        tables: &mut TableSet,
        host: &mut impl Host,
        now: u64,
        start: u32,
        args: &[u128],
        packet: Option<Packet>,
    ) {
        let raw = packet.map_or(std::ptr::null_mut(), Packet::into_raw);
        let hash_seed = host.hash_seed();
        let mut ctx = Ctx { now, hash_seed, rounds: rounds.as_mut_ptr(), tables, host: &mut *host, strands };
        // SAFETY: the code was compiled from a checked program. The context is whole, with a counter for each loop;
        // `start` is one of its starts, `args` has as many values as that takes (`whole` asserted it for entries;
        // those of strands come from compiled code and fill an array of the largest number), and there is a packet
        // exactly if that start has one (`start` asserted it for entries, the checker proved it for strands).
        let ended = unsafe { (self.machine.code)(&mut ctx, raw, start, args.as_ptr()) };
        let number = ended as u32;
        if ended >> 32 == Outcome::Over as u64 {
            return;
        }
        // SAFETY: the code gives the packet back with every other outcome.
        let packet = unsafe { Packet::from_raw(raw) };
        if ended >> 32 == Outcome::Exit as u64 {
            return host.exit(number, packet);
        }
        let reason = self.reasons.get(number as usize).and_then(Option::as_ref);
        host.dropped(BlockId(number), reason.unwrap_or(&Reason::DISCARDED), packet);
    }
}
