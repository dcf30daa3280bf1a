//! Walks all ways through a program.
//!
//! What a run does not know forks the path: the question is asked again on each side, where it is decided by what
//! was assumed. So an operation first asks all its questions and then changes the state.

use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_ir::interp::MAX_STRANDS;
use weir_ir::program::{Amount, BinOp, BlockId, EntryKind, Layer, Program, Reason, TableId, Target, Value, Width};
use weir_packet::{LARGE_CAPACITY, Packet};

use crate::eval::{ConcreteRun, Evaluator};
use crate::expr::{At, EntryAt, Expr, Exprs, Source, Symbol};
use crate::facts::Facts;
use crate::packet::{Mark, SymbolicPacket, mark_number};
use crate::path::{Exploration, How, Incomplete, Limits, Notice, PacketEnd, Path};
use crate::tables::{Entry, TableInfo, table_infos};

/// What is known about the start of a run. The bytes, annotations, metadata and tables may be anything.
#[derive(Debug, Clone)]
pub struct SymbolicInput {
    /// Length of the packet in bytes.
    pub len: RangeInclusive<u32>,
    /// Bytes in front of it that were pulled and can come back.
    pub pulled: RangeInclusive<u32>,
    /// Marks of `mac`, `net`, `transport` and `cursor`, relative to its first byte.
    pub marks: [Option<i32>; 4],
    /// Its hop count.
    pub hops: u8,
    /// Tables whose content the control side may have changed.
    pub edited: Vec<TableId>,
}

impl Default for SymbolicInput {
    /// A packet of any length without marks; tables that only the program changes.
    fn default() -> SymbolicInput {
        SymbolicInput { len: 0..=LARGE_CAPACITY, pulled: 0..=0, marks: [None; 4], hops: 0, edited: Vec::new() }
    }
}

impl SymbolicInput {
    /// A packet of any length with the marks and hops of this one.
    pub fn like(p: &Packet) -> SymbolicInput {
        let mark = |i: usize| p.layer(Layer::ALL[i]).map(|at| at.wrapping_sub(p.data()) as i32);
        SymbolicInput {
            pulled: 0..=LARGE_CAPACITY,
            marks: [1, 2, 3, 4].map(mark),
            hops: p.hops,
            ..SymbolicInput::default()
        }
    }
}

/// All ways through a checked program from one of its entries.
pub fn explore(program: &Program, entry: BlockId, input: &SymbolicInput, limits: Limits) -> Exploration {
    Explorer::new(program, input, limits, None).run(entry, input)
}

/// The way that a concrete run takes (just one, unless something is wrong): limits on paths do not matter.
pub fn follow(program: &Program, entry: BlockId, input: &SymbolicInput, run: &ConcreteRun<'_>) -> Exploration {
    let limits = Limits { paths: 16, steps: usize::MAX, hops: u32::MAX, strands: MAX_STRANDS, ..Limits::default() };
    Explorer::new(program, input, limits, Some(run)).run(entry, input)
}

/// The state stops here: it contradicts itself, its successors are in the work list, or a limit was reached.
pub(crate) struct Cut;

/// A packet that waits for its turn.
#[derive(Debug, Clone)]
struct Strand {
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
    values: Vec<u32>,
    pub(crate) packet: Option<SymbolicPacket>,
    strands: VecDeque<Strand>,
    pub(crate) entries: Vec<Entry>,
    /// For each table, how many entries the path made.
    pub(crate) insertions: Vec<u32>,
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
    fn new(p: &'a Program, input: &SymbolicInput, limits: Limits, guide: Option<&'a ConcreteRun<'a>>) -> Explorer<'a> {
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

    fn start(&mut self, entry: BlockId, input: &SymbolicInput) -> Result<State, Cut> {
        let zero = self.x.constant(Width::W8, 0);
        let mut st = State {
            block: entry,
            op: 0,
            values: vec![zero.0; self.p.types.len()],
            packet: None,
            strands: VecDeque::new(),
            entries: Vec::new(),
            insertions: vec![0; self.p.tables.len()],
            facts: Facts::default(),
            rounds: HashMap::new(),
            randoms: 0,
            ends: Vec::new(),
            notices: Vec::new(),
            orphans: Vec::new(),
            blocks: Vec::new(),
            laps: 0,
        };
        let kind = self.p.entries.iter().find(|e| e.block == entry).map(|e| &e.kind);
        match kind {
            None | Some(EntryKind::Packet { .. }) => {
                let p = SymbolicPacket::unknown(&mut self.x, Source::Input);
                self.learn_packet(&mut st, &p)?;
                self.learn_input(&mut st, &p, input)?;
                st.packet = Some(p);
            }
            Some(EntryKind::Timer { .. }) => {}
            Some(EntryKind::Expire { table }) => {
                let decl = &self.p.tables[table.0 as usize].decl;
                if decl.kind != weir_table::Kind::Exact {
                    return Err(self.give_up(Incomplete::TableKind));
                }
                let key: Vec<Expr> = (0..)
                    .zip(&decl.key)
                    .map(|(i, f)| self.x.symbol(f.width, Symbol::ArgKey(table.0, i)))
                    .collect();
                let at = EntryAt { table: table.0, at: At::Key(key.clone().into()) };
                let has = self.x.symbol(Width::W1, Symbol::Has(at.clone()));
                self.learn(&mut st, has)?;
                let e = self.old_entry(&mut st, at, key, None)?;
                self.set_raw(&mut st, self.p.block(entry).params[0], e as u32);
            }
            Some(EntryKind::Message { .. }) => {
                for (i, &param) in self.p.block(entry).params.iter().enumerate() {
                    let arg = self.x.symbol(self.p.width(param), Symbol::Arg(i as u32));
                    self.set(&mut st, param, arg);
                }
            }
        }
        self.enter_from_outside(&mut st, entry);
        Ok(st)
    }

    /// What holds of every packet.
    pub(crate) fn learn_packet(&mut self, st: &mut State, p: &SymbolicPacket) -> Result<(), Cut> {
        let (pulled, source) = (self.pulled(p), p.source());
        let len = self.x.bounded(Width::W32, Symbol::Len(source), 0, LARGE_CAPACITY.into());
        let end = self.x.binary(BinOp::Add, p.head, len);
        for (a, b) in [(end, p.capacity), (pulled, p.head)] {
            let fits = self.x.at_most(a, b);
            self.learn(st, fits)?;
        }
        Ok(())
    }

    fn learn_input(&mut self, st: &mut State, p: &SymbolicPacket, input: &SymbolicInput) -> Result<(), Cut> {
        let s = p.source();
        let pulled = self.pulled(p);
        for (e, range) in [(p.end.0, &input.len), (pulled, &input.pulled)] {
            let (lo, hi) = (*range.start(), (*range.end()).min(LARGE_CAPACITY));
            let lo = self.x.constant(Width::W32, lo.into());
            let hi = self.x.constant(Width::W32, hi.into());
            let (above, below) = (self.x.at_most(lo, e), self.x.at_most(e, hi));
            self.learn(st, above)?;
            self.learn(st, below)?;
        }
        for (layer, mark) in Layer::ALL[1..].iter().zip(input.marks) {
            let set = self.x.symbol(Width::W1, Symbol::MarkSet(s, *layer));
            let as_given = self.x.is(set, mark.is_some().into());
            self.learn(st, as_given)?;
            if let Some(at) = mark {
                let place = self.x.symbol(Width::W32, Symbol::MarkAt(s, *layer));
                let there = self.x.is(place, u128::from(at as u32));
                self.learn(st, there)?;
            }
        }
        let hops = self.x.is(p.hops, input.hops.into());
        self.learn(st, hops)
    }

    pub(crate) fn pulled(&mut self, p: &SymbolicPacket) -> Expr {
        match self.x.source(p.source()) {
            Source::Empty => self.x.constant(Width::W32, 0),
            _ => self.x.bounded(Width::W32, Symbol::Pulled(p.source()), 0, LARGE_CAPACITY.into()),
        }
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
    pub(crate) fn spawn(&mut self, st: &mut State, target: &Target, packet: SymbolicPacket) -> Result<(), Cut> {
        if st.strands.len() >= MAX_STRANDS {
            st.ends.push(PacketEnd { how: How::Drop(st.block, Reason::LOOP_LIMIT), packet });
            return Ok(());
        }
        if st.strands.len() >= self.limits.strands {
            return Err(self.give_up(Incomplete::Strands));
        }
        let args = self.args(st, target);
        st.strands.push_back(Strand { block: target.block, args, packet, laps: st.laps });
        Ok(())
    }
}
