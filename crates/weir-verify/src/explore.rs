//! Walks all ways through a program.
//!
//! What a run does not know forks the path: the question is asked again on each side, where it is decided by what
//! was assumed. So an operation first asks all its questions and then changes the state.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use weir_ir::interp::{self, MAX_STRANDS};
use weir_ir::program::{Amount, BlockId, Layer, Program, Reason, Target, Value, Width};

use crate::eval::{ConcreteRun, Evaluator};
use crate::expr::{Expr, Exprs, Symbol};
use crate::facts::Facts;
use crate::input::SymbolicInput;
use crate::packet::{Mark, SymbolicPacket, mark_number};
use crate::path::{Exploration, How, Incomplete, Limits, Notice, PacketEnd, Path};
use crate::tables::{Entry, TableInfo, table_infos};

/// All ways through a checked program from one of its entries.
pub fn explore(program: &Program, entry: BlockId, input: &SymbolicInput, limits: Limits) -> Exploration {
    Explorer::new(program, input, limits, None).run(entry, input)
}

/// The way that a concrete run takes (just one, unless something is wrong): limits on paths do not matter.
pub fn follow(
    program: &Program,
    entry: BlockId,
    input: &SymbolicInput,
    run: &ConcreteRun<'_>,
) -> Exploration {
    let limits =
        Limits { paths: 16, steps: usize::MAX, hops: u32::MAX, strands: MAX_STRANDS, ..Limits::default() };
    Explorer::new(program, input, limits, Some(run)).run(entry, input)
}

/// The state stops here: it contradicts itself, its successors are in the work list, or a limit was reached.
pub(crate) struct Cut;

/// A packet that waits for its turn.
#[derive(Debug, Clone)]
pub(crate) struct Strand {
    /// Number of the element that started it.
    starter: u32,
    block: BlockId,
    args: Vec<u32>,
    packet: SymbolicPacket,
    laps: u32,
}

/// A path so far.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) block: BlockId,
    pub(crate) op: usize,
    /// Number of an expression or of an entry, by the value's type.
    pub(crate) values: Vec<u32>,
    pub(crate) packet: Option<SymbolicPacket>,
    pub(crate) strands: VecDeque<Strand>,
    pub(crate) entries: Vec<Entry>,
    /// For each table, how many entries the path made.
    pub(crate) insertions: Vec<u32>,
    /// Whether the path changed when entries expire.
    pub(crate) stirred: bool,
    pub(crate) facts: Facts,
    pub(crate) rounds: HashMap<BlockId, u32>,
    pub(crate) randoms: u32,
    pub(crate) ends: Vec<PacketEnd>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) orphans: Vec<SymbolicPacket>,
    pub(crate) blocks: Vec<BlockId>,
    /// Rounds of the current packet through cycles of the graph.
    pub(crate) laps: u32,
}

/// The exploration under way.
pub(crate) struct Explorer<'a> {
    pub(crate) p: &'a Program,
    pub(crate) x: Exprs,
    pub(crate) infos: Vec<TableInfo>,
    pub(crate) limits: Limits,
    pub(crate) guide: Option<&'a ConcreteRun<'a>>,
    memo: HashMap<Expr, u128>,
    work: Vec<State>,
    incomplete: Option<Incomplete>,
}

impl<'a> Explorer<'a> {
    fn new(
        p: &'a Program,
        input: &SymbolicInput,
        limits: Limits,
        guide: Option<&'a ConcreteRun<'a>>,
    ) -> Explorer<'a> {
        Explorer {
            p,
            x: Exprs::default(),
            infos: table_infos(p, &input.edited),
            limits,
            guide,
            memo: HashMap::new(),
            work: Vec::new(),
            incomplete: None,
        }
    }

    fn run(mut self, entry: BlockId, input: &SymbolicInput) -> Exploration {
        let mut done = Vec::new();
        if let Ok(start) = self.start(entry, input) {
            self.work.push(start);
        }
        while let Some(mut st) = self.work.pop() {
            if done.len() >= self.limits.paths {
                self.incomplete = self.incomplete.or(Some(Incomplete::Paths));
                break;
            }
            if self.walk(&mut st).is_ok() {
                let entries = self.entry_ends(&st);
                done.push((st, entries));
            }
        }
        let exprs = Arc::new(self.x);
        let path = |(st, entries): (State, _)| Path {
            entry,
            exprs: Arc::clone(&exprs),
            facts: st.facts,
            ends: st.ends,
            notices: st.notices,
            entries,
            blocks: st.blocks,
        };
        Exploration { paths: done.into_iter().map(path).collect(), incomplete: self.incomplete }
    }

    /// Goes on until all packets of the path have ended.
    fn walk(&mut self, st: &mut State) -> Result<(), Cut> {
        let p = self.p;
        loop {
            let block = p.block(st.block);
            if st.op == 0 {
                st.blocks.push(st.block);
                if st.blocks.len() > self.limits.steps {
                    return Err(self.give_up(Incomplete::Steps));
                }
            }
            while let Some(op) = block.ops.get(st.op) {
                self.op(st, op)?;
                st.op += 1;
            }
            let next = self.end(st, &block.end)?;
            st.op = 0;
            if let Some(next) = next {
                st.block = next;
            } else if let Some(s) = st.strands.pop_front() {
                for (&param, arg) in p.block(s.block).params.iter().zip(s.args) {
                    self.set_raw(st, param, arg);
                }
                st.packet = Some(s.packet);
                st.block = s.block;
                st.laps = s.laps;
                self.enter_from_outside(st, s.block);
            } else {
                let orphans = std::mem::take(&mut st.orphans);
                st.ends.extend(orphans.into_iter().map(|packet| PacketEnd { how: How::Orphaned, packet }));
                return Ok(());
            }
        }
    }

    // --- questions --------------------------------------------------------------------------------------------

    /// Whether a condition holds; forks if both may be.
    pub(crate) fn decide(&mut self, st: &mut State, cond: Expr) -> Result<bool, Cut> {
        if let Some(known) = st.facts.truth(&self.x, cond) {
            return Ok(known);
        }
        if let Some(v) = self.guided(cond) {
            return self.assume(st, cond, v != 0).map(|()| v != 0);
        }
        let mut other = st.clone();
        if self.assume(&mut other, cond, false).is_ok() {
            self.resume(other);
        }
        self.assume(st, cond, true).map(|()| true)
    }

    /// The value of an expression; forks into a path for each.
    pub(crate) fn pick(&mut self, st: &mut State, e: Expr) -> Result<u128, Cut> {
        if let Some(v) = st.facts.value(&self.x, e) {
            return Ok(v);
        }
        if let Some(v) = self.guided(e) {
            let is = self.x.is(e, v);
            return self.assume(st, is, true).map(|()| v);
        }
        let set = st.facts.set(&self.x, e);
        let mut feasible = 0;
        for (tried, v) in set.values().enumerate() {
            if tried > 64 * self.limits.values {
                return Err(self.give_up(Incomplete::Values));
            }
            let mut other = st.clone();
            let is = self.x.is(e, v);
            if self.assume(&mut other, is, true).is_ok() && other.facts.sharpen(&self.x) {
                feasible += 1;
                if feasible > self.limits.values {
                    return Err(self.give_up(Incomplete::Values));
                }
                self.resume(other);
            }
        }
        Err(Cut)
    }

    /// Adds what always holds here.
    pub(crate) fn learn(&mut self, st: &mut State, cond: Expr) -> Result<(), Cut> {
        self.assume(st, cond, true)
    }

    pub(crate) fn assume(&mut self, st: &mut State, cond: Expr, truth: bool) -> Result<(), Cut> {
        if st.facts.assume(&mut self.x, cond, truth) { Ok(()) } else { Err(Cut) }
    }

    /// Notes that something was not explored.
    pub(crate) fn give_up(&mut self, why: Incomplete) -> Cut {
        self.incomplete = self.incomplete.or(Some(why));
        Cut
    }

    /// A state that will do its current operation again.
    fn resume(&mut self, mut st: State) {
        if st.op == 0 {
            st.blocks.pop();
        }
        self.work.push(st);
    }

    fn guided(&mut self, e: Expr) -> Option<u128> {
        let run = self.guide?;
        let mut eval = Evaluator::of_run(&self.x, run).with_memo(std::mem::take(&mut self.memo));
        let v = eval.eval(e);
        self.memo = eval.into_memo();
        Some(v)
    }

    // --- values and control -----------------------------------------------------------------------------------

    pub(crate) fn get(&mut self, st: &State, v: Value) -> Expr {
        let e = Expr(st.values[v.0 as usize]);
        match st.facts.value(&self.x, e) {
            Some(known) => self.x.constant(self.x.width(e), known),
            None => e,
        }
    }

    pub(crate) fn gets(&mut self, st: &State, list: &[Value]) -> Vec<Expr> {
        list.iter().map(|&v| self.get(st, v)).collect()
    }

    pub(crate) fn entry(st: &State, v: Value) -> usize {
        st.values[v.0 as usize] as usize
    }

    pub(crate) fn set(&self, st: &mut State, v: Value, to: Expr) {
        st.values[v.0 as usize] = to.0;
    }

    pub(crate) fn set_raw(&self, st: &mut State, v: Value, to: u32) {
        st.values[v.0 as usize] = to;
    }

    pub(crate) fn amount(&mut self, st: &State, n: Amount) -> Expr {
        match n {
            Amount::Const(n) => self.x.constant(Width::W32, n.into()),
            Amount::Value(v) => self.get(st, v),
        }
    }

    /// The current packet.
    pub(crate) fn packet(st: &mut State) -> Result<&mut SymbolicPacket, Cut> {
        st.packet.as_mut().ok_or(Cut)
    }

    /// Position of a layer, if it is set.
    pub(crate) fn layer(&mut self, st: &mut State, layer: Layer) -> Result<Option<i64>, Cut> {
        let p = Self::packet(st)?;
        let Some(i) = mark_number(layer) else { return Ok(Some(p.data)) };
        match p.marks[i] {
            Mark::Unset => Ok(None),
            Mark::At(at) => Ok(Some(at)),
            Mark::Original => {
                let s = p.source();
                let set = self.x.symbol(Width::W1, Symbol::MarkSet(s, layer));
                let at = self.x.symbol(Width::W32, Symbol::MarkAt(s, layer));
                let at = if self.decide(st, set)? { Some(self.pick(st, at)? as u32 as i32) } else { None };
                Self::packet(st)?.marks[i] = at.map_or(Mark::Unset, |at| Mark::At(at.into()));
                Ok(at.map(i64::from))
            }
        }
    }

    /// Position of `layer + off`; the checker proved that the layer is set.
    pub(crate) fn at(&mut self, st: &mut State, layer: Layer, off: u32) -> Result<i64, Cut> {
        Ok(self.layer(st, layer)?.ok_or(Cut)? + i64::from(off))
    }

    pub(crate) fn enter_from_outside(&self, st: &mut State, block: BlockId) {
        if self.p.block(block).loop_limit.is_some() {
            st.rounds.insert(block, 1);
        }
    }

    pub(crate) fn go(&mut self, st: &mut State, target: &Target, supplied: &[u32]) -> Option<BlockId> {
        self.pass(st, target, supplied);
        self.enter_from_outside(st, target.block);
        Some(target.block)
    }

    /// Passes a jump's arguments.
    pub(crate) fn pass(&mut self, st: &mut State, target: &Target, supplied: &[u32]) {
        let args: Vec<u32> = supplied.iter().copied().chain(self.args(st, target)).collect();
        for (&param, arg) in self.p.block(target.block).params.iter().zip(args) {
            self.set_raw(st, param, arg);
        }
    }

    fn args(&self, st: &State, target: &Target) -> Vec<u32> {
        target.args.iter().map(|&v| st.values[v.0 as usize]).collect()
    }

    pub(crate) fn finish_packet(st: &mut State, how: How) -> Result<Option<BlockId>, Cut> {
        let packet = st.packet.take().ok_or(Cut)?;
        st.ends.push(PacketEnd { how, packet });
        Ok(None)
    }

    /// Lets another packet wait for its turn.
    pub(crate) fn spawn(
        &mut self,
        st: &mut State,
        target: &Target,
        packet: SymbolicPacket,
    ) -> Result<(), Cut> {
        if st.strands.len() >= MAX_STRANDS {
            st.ends.push(PacketEnd { how: How::Drop(st.block, Reason::LOOP_LIMIT), packet });
            return Ok(());
        }
        if st.strands.len() >= self.limits.strands {
            return Err(self.give_up(Incomplete::Strands));
        }
        let args = self.args(st, target);
        let starter = self.p.block(st.block).owner;
        let turn = interp::turn(st.strands.iter().map(|s| s.starter), starter);
        st.strands.insert(turn, Strand { starter, block: target.block, args, packet, laps: st.laps });
        Ok(())
    }
}
