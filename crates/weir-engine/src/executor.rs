//! What runs the programs of a graph.

use std::sync::Arc;

use weir_ir::program::BlockId;
use weir_ir::{Host, Interpreter, Program};
use weir_jit::{BatchHost, Compiled, FlowCache, Runner, Spent};
use weir_packet::Packet;
use weir_table::TableSet;

/// A method to run the programs of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutorKind {
    /// The interpreter.
    Interpreter,
    /// Machine code; the interpreter until that is ready, and where there is no compiler.
    #[default]
    Compiled,
}

/// An executor with its memory.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    interpreter: Interpreter,
    compiled: Option<(Arc<Compiled>, Runner)>,
}

/// The start of a run.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub entry: BlockId,
    pub args: &'a [u128],
    pub packet: Option<Packet>,
    pub now: u64,
}

impl Executor {
    /// Runs compiled code from now on, which must have been made of the program that is run.
    pub fn compiled(&mut self, code: Arc<Compiled>) {
        self.compiled = Some((code, Runner::default()));
    }

    /// Runs a program; compiled code stands for the fast one.
    pub fn run(
        &mut self,
        fast: bool,
        program: &Program,
        tables: &mut TableSet,
        host: &mut impl BatchHost,
        job: Job<'_>,
    ) {
        match self.compiled.as_mut().filter(|_| fast) {
            Some((code, runner)) => code.run(runner, tables, host, job.now, job.entry, job.args, job.packet),
            None => self.interpret(program, tables, host, job),
        }
    }

    /// Runs packets one after the other, and leaves `packets` empty.
    #[expect(
        clippy::too_many_arguments,
        reason = "a run is a program, its state, its host and what starts it"
    )]
    pub fn run_batch(
        &mut self,
        fast: bool,
        program: &Program,
        tables: &mut TableSet,
        host: &mut impl BatchHost,
        now: u64,
        entry: BlockId,
        packets: &mut Vec<Packet>,
    ) {
        if let Some((code, runner)) = self.compiled.as_mut().filter(|_| fast) {
            return code.run_batch(runner, tables, host, now, entry, packets);
        }
        for packet in packets.drain(..) {
            self.interpret(program, tables, host, Job { entry, args: &[], packet: Some(packet), now });
        }
    }

    /// Runs a program step by step.
    pub fn interpret(
        &mut self,
        program: &Program,
        tables: &mut TableSet,
        host: &mut impl Host,
        job: Job<'_>,
    ) {
        self.interpreter.run(program, tables, host, job.now, job.entry, job.args, job.packet);
    }

    /// Where the time went, by element of the program; empty while the interpreter runs it, or nothing was measured.
    pub fn profile(&self) -> Vec<Spent> {
        self.compiled.as_ref().map_or(Vec::new(), |(_, runner)| runner.profile())
    }

    /// How well results are kept for flows.
    pub fn flows(&self) -> Vec<FlowCache> {
        self.compiled.as_ref().map_or(Vec::new(), |(_, runner)| runner.flows())
    }

    /// The name for people.
    pub fn name(&self) -> &'static str {
        if self.compiled.is_some() { "compiled" } else { "interpreter" }
    }
}
