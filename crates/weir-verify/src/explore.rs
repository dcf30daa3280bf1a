//! Walks all ways through a network of programs.
//!
//! What a run does not know forks the path: the question is asked again on each side, where it is decided by what
//! was assumed. So an operation first asks all its questions and then changes the state.

use std::collections::HashMap;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_ir::Frame;
use weir_ir::interp::{self, MAX_STRANDS};
use weir_ir::program::{Amount, BlockId, Layer, Program, Reason, TableId, Target, Value, Width};

use crate::clock::Clock;
use crate::course::{Course, Interest};
use crate::eval::{ConcreteRun, Evaluator};
use crate::expr::{Expr, Exprs, Node, Symbol};
use crate::fates::{Fates, seen_outside};
use crate::here::Here;
use crate::idle::Idle;
use crate::network::{Body, Network, NodeId, Place};
use crate::packet::{Mark, SymbolicPacket, mark_number};
use crate::path::{How, Incomplete, Limits, PacketEnd};
use crate::state::{State, Strand};
use crate::sums::is_right;
use crate::supposed::{Left, Supposed};
use crate::tables::{Entry, Missed};
use crate::trail::Again;

/// The state stops here: it contradicts itself, its successors are in the work list, or a limit was reached.
#[derive(Debug)]
pub(crate) struct Cut;

/// Blocks of a path between two looks at the clock.
const BLOCKS: usize = 64;

/// The exploration under way.
pub(crate) struct Explorer<'a> {
    pub(crate) net: &'a Network,
    here: Here<'a>,
    pub(crate) x: Exprs,
    pub(crate) limits: Limits,
    pub(crate) guide: Option<&'a ConcreteRun<'a>>,
    pub(crate) course: Box<Course>,
    pub(crate) missed: Missed,
    /// What stands in tables where nothing is known to stand. `None`: nothing, but for open networks.
    pub(crate) supposed: Option<Rc<Supposed>>,
    /// What stood in tables while others' packets had their turn.
    pub(crate) between: Vec<Left>,
    /// The nodes that packets came to.
    pub(crate) visited: Vec<bool>,
    /// Those behind which all were noted as visited.
    behind: Vec<bool>,
    /// Says when to give up.
    pub(crate) clock: Clock,
    /// For each node the values that count at the heads of its loops.
    pub(crate) heads: HashMap<NodeId, HashMap<BlockId, Vec<Value>>>,
    memo: FxHashMap<Expr, u128>,
    /// Rows that no program can change, as entries.
    pub(crate) fixed: FxHashMap<(u32, usize), Rc<Entry>>,
    /// By input the bytes of annotations, a bit each, that are not read there.
    pub(crate) overwritten: FxHashMap<Place, u64>,
    /// Arguments on their way to parameters.
    args: Vec<u32>,
    pub(crate) incomplete: Option<Incomplete>,
    /// Walks of all explorations so far, as far as they count against what a check may take.
    pub(crate) walks: usize,
    /// Paths, or parts of some, that were followed so far.
    pub(crate) followed: usize,
    /// What was not explored to its end first: paths as far as they were followed.
    #[expect(clippy::vec_box, reason = "they are large, and go from hand to hand")]
    pub(crate) stopped: Vec<Box<State>>,
}

impl<'a> Explorer<'a> {
    pub(crate) fn new(net: &'a Network, limits: Limits, guide: Option<&'a ConcreteRun<'a>>) -> Explorer<'a> {
        Explorer {
            net,
            here: Here::nowhere(NodeId::MAX),
            x: Exprs::default(),
            limits,
            guide,
            course: Box::default(),
            missed: Missed::default(),
            supposed: None,
            between: Vec::new(),
            visited: vec![false; net.nodes().len()],
            behind: vec![false; net.nodes().len()],
            clock: Clock::start(limits.time),
            heads: HashMap::new(),
            memo: FxHashMap::default(),
            fixed: FxHashMap::default(),
            overwritten: FxHashMap::default(),
            args: Vec::new(),
            incomplete: None,
            walks: 0,
            followed: 0,
            stopped: Vec::new(),
        }
    }

    /// Goes on until all packets of the path have ended.
    pub(crate) fn walk(&mut self, st: &mut State) -> Result<(), Cut> {
        self.stand_at(st.node);
        loop {
            if st.running {
                let block = self.program(st).block(st.block);
                if st.op == 0 {
                    if self.is_lost(st, st.block) {
                        return Err(Cut);
                    }
                    st.steps += 1;
                    if st.steps.is_multiple_of(BLOCKS) && self.clock.is_over() {
                        return Err(self.give_up(Incomplete::Time));
                    }
                    if st.steps > self.limits.steps {
                        return Err(self.give_up(Incomplete::Steps));
                    }
                }
                let idle = self.here.idle[st.block.0 as usize];
                while let Some(op) = block.ops.get(st.op) {
                    if !idle.has(st.op) {
                        self.op(st, op)?;
                    }
                    st.op += 1;
                }
                let next = match idle.next {
                    Some(next) => {
                        self.enter_from_outside(st, next);
                        Some(next)
                    }
                    None => self.end(st, &block.end)?,
                };
                st.op = 0;
                st.running = next.is_some();
                if let Some(next) = next {
                    st.block = next;
                    continue;
                }
            }
            if let Some(s) = st.strands.pop_front() {
                self.turn_after_others(st, &s)?;
                self.place(st, s.node, s.block);
                for (&param, arg) in self.program(st).block(s.block).params.iter().zip(s.args) {
                    self.set_raw(st, param, arg);
                }
                (st.packet, st.laps, st.trail) = (Some(s.packet), s.laps, s.trail);
                st.running = true;
            } else {
                let orphans = std::mem::take(&mut st.orphans);
                let node = st.node;
                let trail = &st.trail;
                let end = |packet| PacketEnd { node, how: How::Orphaned, packet, trail: trail.clone() };
                st.ends.extend(orphans.into_iter().map(end));
                return Ok(());
            }
        }
    }

    // --- places -----------------------------------------------------------------------------------------------

    pub(crate) fn node(&self, node: NodeId) -> &'a crate::network::Node {
        self.net.node(node)
    }

    /// Goes on in a node.
    pub(crate) fn stand_at(&mut self, node: NodeId) {
        let n = self.node(node);
        let wanted = self.course.wanted.unwrap_or_else(|| match self.course.interest {
            Interest::Ends => Fates::MAX,
            Interest::Entries | Interest::Arrivals => seen_outside(&n.outputs),
        });
        self.here = match &n.body {
            Body::Program(i) => Here {
                node,
                program: &i.program,
                frame: &i.frame,
                tables: &i.tables,
                fates: &i.fates,
                idle: &i.idle,
                wanted,
            },
            _ => Here::nowhere(node),
        };
    }

    /// Whether ways on which a packet is only lost need not be followed.
    fn may_lose(&self, st: &State) -> bool {
        st.strands.is_empty()
            && match self.course.interest {
                Interest::Ends => false,
                Interest::Entries => !st.leaves_something(self.supposed.is_some()),
                Interest::Arrivals => true,
            }
    }

    /// Whether nothing that is looked at can come of a packet that goes on at a block.
    pub(crate) fn is_lost(&self, st: &State, block: BlockId) -> bool {
        debug_assert_eq!(st.node, self.here.node, "no other path is looked at in between");
        self.here.fates[block.0 as usize] & self.here.wanted == 0 && self.may_lose(st)
    }

    /// The program that the path is in.
    pub(crate) fn program(&self, st: &State) -> &'a Program {
        debug_assert_eq!(st.node, self.here.node, "no other path is looked at in between");
        self.here.program
    }

    /// Its operations that do not count.
    pub(crate) fn idle(&self) -> &'a [Idle] {
        self.here.idle
    }

    /// Where the values of that program stand.
    fn frame(&self, st: &State) -> &'a Frame {
        debug_assert_eq!(st.node, self.here.node, "no other path is looked at in between");
        self.here.frame
    }

    /// Number in the network of a table of the program that the path is in.
    pub(crate) fn table(&self, st: &State, t: TableId) -> u32 {
        debug_assert_eq!(st.node, self.here.node, "no other path is looked at in between");
        self.here.tables[t.0 as usize]
    }

    /// Sets the path to the start of a block, entered from outside.
    pub(crate) fn place(&mut self, st: &mut State, node: NodeId, block: BlockId) {
        (st.node, st.block, st.op) = (node, block, 0);
        self.stand_at(node);
        st.values.clear();
        st.values.resize(self.frame(st).len(), 0);
        st.rounds.clear();
        self.enter_from_outside(st, block);
    }

    /// The packet leaves its program by an output.
    pub(crate) fn leave(&mut self, st: &mut State, port: u32) -> Result<Option<BlockId>, Cut> {
        match self.node(st.node).outputs.get(port as usize) {
            Some(Some(to)) => self.arrive(st, *to),
            _ => Self::finish_packet(st, How::Exit(port)),
        }
    }

    /// The packet comes to an input.
    pub(crate) fn arrive(&mut self, st: &mut State, to: Place) -> Result<Option<BlockId>, Cut> {
        let mut to = to;
        // They mean nothing in another program, and copies need not have them.
        st.values.clear();
        loop {
            if self.course.is_aside(to.node) {
                self.visit_behind(to.node);
                (st.packet, st.node, st.aside) = (None, to.node, true);
                return Ok(None);
            }
            if let Some(kept) = &mut self.course.kept {
                kept.push((to, Box::new(st.clone())));
            }
            let node = self.node(to.node);
            self.visited[to.node as usize] = true;
            if node.is_head {
                let p = st.packet.as_ref().ok_or(Cut)?;
                match st.trail.again(to, p) {
                    Again::Same => {
                        st.node = to.node;
                        return Self::finish_packet(st, How::Loop);
                    }
                    Again::Often => return Err(self.give_up(Incomplete::Hops)),
                    Again::No => {}
                }
            }
            let p = st.packet.as_ref().ok_or(Cut)?;
            let is_watched = self.course.watched.contains(&to);
            // Where all ends are looked at, so is what packets were where they had come to.
            let keep = node.is_head || is_watched && self.course.interest == Interest::Ends;
            st.trail.push(to, keep, p);
            if is_watched {
                if self.course.interest == Interest::Arrivals && node.is_last() && st.strands.is_empty() {
                    self.course.landed = Some(to);
                    return Err(Cut);
                }
                let seen = Box::new(st.clone());
                self.course.arrivals.push_back((to, seen));
            }
            if node.joins(to.port) && self.is_covered(st, to) {
                return Err(Cut);
            }
            match &node.body {
                Body::Program(_) => {
                    let Some(entry) = node.entry(to.port) else {
                        st.node = to.node;
                        return Self::finish_packet(st, How::Drop(BlockId(0), Reason::UNCONNECTED));
                    };
                    self.forget_rows(st);
                    self.place(st, to.node, entry);
                    return Ok(Some(entry));
                }
                Body::Pass { .. } => match node.outputs.first() {
                    Some(Some(next)) => to = *next,
                    _ => {
                        st.node = to.node;
                        return Self::finish_packet(st, How::Sunk);
                    }
                },
                Body::Sink => {
                    st.node = to.node;
                    return Self::finish_packet(st, How::Sunk);
                }
                Body::Opaque => {
                    st.node = to.node;
                    // Where no packet comes, it does not matter that nothing is known.
                    if !st.facts.sharpen(&self.x) {
                        return Err(Cut);
                    }
                    self.give_up(Incomplete::Opaque(to.node));
                    return Self::finish_packet(st, How::Opaque);
                }
            }
        }
    }

    /// Notes a node that is not looked at, and those behind it: only a change of them makes it one that counts.
    fn visit_behind(&mut self, node: NodeId) {
        let mut work = vec![node];
        while let Some(n) = work.pop() {
            if !std::mem::replace(&mut self.behind[n as usize], true) {
                self.visited[n as usize] = true;
                work.extend(self.node(n).outputs.iter().flatten().map(|to| to.node));
            }
        }
    }

    // --- questions --------------------------------------------------------------------------------------------

    /// Whether a condition holds; forks if both may be.
    pub(crate) fn decide(&mut self, st: &mut State, cond: Expr) -> Result<bool, Cut> {
        self.decide_for(st, cond, None)
    }

    /// As [`Explorer::decide`]; if only one answer is looked at, the other is not followed.
    pub(crate) fn decide_for(&mut self, st: &mut State, cond: Expr, only: Option<bool>) -> Result<bool, Cut> {
        if let Node::Not(positive) = *self.x.node(cond) {
            return self.decide_for(st, positive, only.map(|v| !v)).map(|v| !v);
        }
        if let Some(known) = st.facts.truth(&self.x, cond) {
            return Ok(known);
        }
        if let Some(v) = self.guided(cond) {
            return self.assume(st, cond, v != 0).map(|()| v != 0);
        }
        // Only now: a sum is long, and most questions are about other things.
        let sum = match *self.x.node(cond) {
            Node::Equal(a, ones) if self.x.constant_value(ones) == Some(0xffff) => Some(a),
            _ => None,
        };
        let sum = sum.filter(|&s| matches!(self.x.node(s), Node::Checksum { .. }));
        if let Some(sum) = sum
            && is_right(&mut self.x, &st.facts, sum, &st.sums)
        {
            return Ok(true);
        }
        if only == Some(false) {
            return if st.facts.assume_open(&mut self.x, cond, false) { Ok(false) } else { Err(Cut) };
        }
        // What is followed first shows packets first: those that nothing is left to do for by a device are plainer.
        let first = only.is_some() || !self.is_unusual(cond);
        if only.is_none() {
            let mut facts = st.facts.clone();
            if facts.assume_open(&mut self.x, cond, !first) {
                std::mem::swap(&mut facts, &mut st.facts);
                self.resume(Box::new(st.clone()));
                st.facts = facts;
            }
        }
        if first {
            st.sums.extend(sum);
        }
        if st.facts.assume_open(&mut self.x, cond, first) { Ok(first) } else { Err(Cut) }
    }

    /// Whether a condition says of a packet's metadata that it is not as that of most packets.
    fn is_unusual(&self, cond: Expr) -> bool {
        let Node::Equal(a, b) = *self.x.node(cond) else { return false };
        let is_meta = |e| matches!(self.x.node(e), Node::Symbol(Symbol::Meta(..)));
        is_meta(a) && self.x.constant_value(b) != Some(0) || is_meta(b) && self.x.constant_value(a) != Some(0)
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
        let mut feasible = Vec::new();
        for (tried, v) in set.values().enumerate() {
            if tried > 64 * self.limits.values {
                return Err(self.give_up(Incomplete::Values));
            }
            let mut other = Box::new(st.clone());
            let is = self.x.is(e, v);
            if self.assume(&mut other, is, true).is_ok() && other.facts.sharpen(&self.x) {
                if feasible.len() == self.limits.values {
                    return Err(self.give_up(Incomplete::Values));
                }
                feasible.push(other);
            }
        }
        // The lowest is followed first: headers without options are what most packets have.
        feasible.into_iter().rev().for_each(|other| self.resume(other));
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

    /// Lets a path do its current operation again, later.
    pub(crate) fn resume(&mut self, mut st: Box<State>) {
        if st.op == 0 {
            st.steps -= 1;
        }
        self.course.work.push(st);
    }

    /// Lets a path go on at a block, later.
    pub(crate) fn resume_at(&mut self, mut st: Box<State>, block: Option<BlockId>) {
        let Some(block) = block.filter(|b| !self.is_lost(&st, *b)) else { return };
        (st.block, st.op) = (block, 0);
        self.course.work.push(st);
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
        let e = self.as_set(st, v);
        if self.x.constant_value(e).is_some() {
            return e;
        }
        match st.facts.value(&self.x, e) {
            Some(known) => self.x.constant(self.x.width(e), known),
            None => e,
        }
    }

    /// A value as it was set; more may be known of it by now.
    pub(crate) fn as_set(&self, st: &State, v: Value) -> Expr {
        Expr(self.raw(st, v))
    }

    pub(crate) fn gets(&mut self, st: &State, list: &[Value]) -> SmallVec<[Expr; 4]> {
        list.iter().map(|&v| self.get(st, v)).collect()
    }

    /// Number of an expression or of an entry.
    pub(crate) fn raw(&self, st: &State, v: Value) -> u32 {
        st.values[self.frame(st).place(v)]
    }

    pub(crate) fn set(&self, st: &mut State, v: Value, to: Expr) {
        self.set_raw(st, v, to.0);
    }

    pub(crate) fn set_raw(&self, st: &mut State, v: Value, to: u32) {
        let place = self.frame(st).place(v);
        st.values[place] = to;
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
            Mark::Later(base, off) => {
                let at = self.behind(st, base, off)?;
                Self::packet(st)?.marks[i] = Mark::At(at);
                Ok(Some(at))
            }
        }
    }

    /// Position of `layer + off`; the checker proved that the layer is set.
    pub(crate) fn at(&mut self, st: &mut State, layer: Layer, off: u32) -> Result<i64, Cut> {
        Ok(self.layer(st, layer)?.ok_or(Cut)? + i64::from(off))
    }

    pub(crate) fn enter_from_outside(&self, st: &mut State, block: BlockId) {
        if self.program(st).block(block).loop_limit.is_some() {
            *st.rounds_of(block) = 1;
        }
    }

    pub(crate) fn go(&mut self, st: &mut State, target: &Target, supplied: &[u32]) -> Option<BlockId> {
        self.pass(st, target, supplied);
        self.enter_from_outside(st, target.block);
        Some(target.block)
    }

    /// Passes a jump's arguments.
    pub(crate) fn pass(&mut self, st: &mut State, target: &Target, supplied: &[u32]) {
        let params = &self.program(st).block(target.block).params;
        if params.is_empty() {
            return;
        }
        // All are read before one is written.
        let mut args = std::mem::take(&mut self.args);
        args.clear();
        args.extend_from_slice(supplied);
        args.extend(target.args.iter().map(|&v| self.raw(st, v)));
        for (&param, &arg) in params.iter().zip(&args) {
            self.set_raw(st, param, arg);
        }
        self.args = args;
    }

    pub(crate) fn finish_packet(st: &mut State, how: How) -> Result<Option<BlockId>, Cut> {
        let packet = st.packet.take().ok_or(Cut)?;
        st.ends.push(PacketEnd { node: st.node, how, packet, trail: st.trail.clone() });
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
            let (node, trail) = (st.node, st.trail.clone());
            st.ends.push(PacketEnd { node, how: How::Drop(st.block, Reason::LOOP_LIMIT), packet, trail });
            return Ok(());
        }
        if st.strands.len() >= self.limits.strands {
            return Err(self.give_up(Incomplete::Strands));
        }
        let args = target.args.iter().map(|&v| self.raw(st, v)).collect();
        let (node, trail) = (st.node, st.trail.clone());
        let starter = self.program(st).block(st.block).owner;
        let turn = interp::turn(st.strands.iter().map(|s| (s.node, s.starter)), (node, starter));
        let strand = Strand { starter, node, block: target.block, args, packet, laps: st.laps, trail };
        st.strands.insert(turn, strand);
        Ok(())
    }
}
