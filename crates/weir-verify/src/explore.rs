//! Walks all paths through a network of programs.
//!
//! What a run does not know forks the path: the question is asked again on each side, where it is decided by what
//! was assumed. So an operation first asks all its questions and then changes the state.
//!
//! The explorer is made of parts that know nothing of each other: [`Branch`] decides where a path goes on (with the frontier of
//! paths that are still to be followed, and the budget), [`TableModel`] says what tables hold, [`Position`] is the program that a
//! path is in, [`VisitedNodes`] remembers where packets came. What a path was found to be so far is a [`State`].

pub(crate) mod anchoring;
pub(crate) mod branch;
pub(crate) mod budget;
pub(crate) mod deadline;
pub(crate) mod ends;
pub(crate) mod entries;
pub(crate) mod frontier;
pub(crate) mod input;
pub(crate) mod invariant;
pub(crate) mod merge;
pub(crate) mod ops;
pub(crate) mod path;
pub(crate) mod position;
pub(crate) mod released;
pub(crate) mod route;
pub(crate) mod session;
pub(crate) mod single;
pub(crate) mod state;
pub(crate) mod subsumption;
pub(crate) mod tables;
pub(crate) mod trace;
pub(crate) mod visited;

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_ir::interp::{self, MAX_STRANDS};
use weir_ir::program::{Amount, BlockId, Reason, Target, Value, Width};

use crate::explore::branch::Branch;
use crate::explore::frontier::Interest;
use crate::explore::path::{How, Incomplete, Limits, PacketEnd};
use crate::explore::position::Position;
use crate::explore::route::Again;
use crate::explore::state::{State, Strand};
use crate::explore::tables::TableModel;
use crate::explore::visited::VisitedNodes;
use crate::model::expr::Expr;
use crate::model::packet::SymbolicPacket;
use crate::network::effects::{Effects, seen_outside};
use crate::network::{Body, Network, NodeId, NodePort};
use crate::solve::eval::ConcreteRun;

/// The state stops here: it contradicts itself, its successors are in the work list, or a limit was reached.
#[derive(Debug)]
pub(crate) struct Cut;

/// Blocks of a path between two looks at the clock.
const BLOCKS: usize = 64;

/// The exploration in progress.
pub(crate) struct Explorer<'a> {
    pub(crate) net: &'a Network,
    pub(crate) branch: Branch<'a>,
    pub(crate) tables: TableModel<'a>,
    pub(crate) visited: VisitedNodes,
    /// Where the path that is followed is.
    position: Position<'a>,
    liveness: Liveness,
    /// Arguments for parameters.
    args: Vec<u32>,
}

/// Liveness of programs, as found out on the path: which values and annotations are still asked for.
#[derive(Debug, Default)]
struct Liveness {
    /// For each node the values that count at the heads of its loops.
    heads: HashMap<NodeId, HashMap<BlockId, Vec<Value>>>,
    /// By input the bytes of annotations, a bit each, that are not read there.
    overwritten: FxHashMap<NodePort, u64>,
}

impl<'a> Explorer<'a> {
    pub(crate) fn new(net: &'a Network, limits: Limits, guide: Option<&'a ConcreteRun<'a>>) -> Explorer<'a> {
        Explorer {
            net,
            branch: Branch::new(limits, guide),
            tables: TableModel::new(net),
            visited: VisitedNodes::new(net),
            position: Position::nowhere(NodeId::MAX),
            liveness: Liveness::default(),
            args: Vec::new(),
        }
    }

    /// Goes on until all packets of the path have ended.
    pub(crate) fn walk(&mut self, st: &mut State) -> Result<(), Cut> {
        self.stand_at(st.node);
        loop {
            if st.running {
                let block = self.position.program(st).block(st.block);
                if st.op == 0 {
                    if self.is_lost(st, st.block) {
                        return Err(Cut);
                    }
                    st.steps += 1;
                    if st.steps.is_multiple_of(BLOCKS) && self.branch.budget.deadline.is_over() {
                        return Err(self.branch.give_up(Incomplete::Time));
                    }
                    if st.steps > self.branch.budget.limits.steps {
                        return Err(self.branch.give_up(Incomplete::Steps));
                    }
                }
                let sliced = self.position.sliced()[st.block.0 as usize];
                while let Some(op) = block.ops.get(st.op) {
                    if !sliced.has(st.op) {
                        self.op(st, op)?;
                    }
                    st.op += 1;
                }
                let next = match sliced.next {
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
                for (&param, arg) in self.position.program(st).block(s.block).params.iter().zip(s.args) {
                    self.position.set_raw(st, param, arg);
                }
                (st.packet, st.laps, st.route) = (Some(s.packet), s.laps, s.route);
                st.running = true;
            } else {
                let orphans = std::mem::take(&mut st.orphans);
                let node = st.node;
                let route = &st.route;
                let end = |packet| PacketEnd { node, how: How::Orphaned, packet, route: route.clone() };
                st.ends.extend(orphans.into_iter().map(end));
                return Ok(());
            }
        }
    }

    pub(crate) fn node(&self, node: NodeId) -> &'a crate::network::Node {
        self.net.node(node)
    }

    /// Goes on in a node.
    pub(crate) fn stand_at(&mut self, node: NodeId) {
        let n = self.node(node);
        let wanted = self.branch.frontier.wanted.unwrap_or_else(|| match self.branch.frontier.interest {
            Interest::Ends => Effects::MAX,
            Interest::Entries | Interest::Arrivals => seen_outside(&n.outputs),
        });
        self.position = match &n.body {
            Body::Program(i) => Position::of(node, i, wanted),
            _ => Position::nowhere(node),
        };
    }

    /// Whether paths on which a packet is only lost need not be followed.
    fn may_lose(&self, st: &State) -> bool {
        st.strands.is_empty()
            && match self.branch.frontier.interest {
                Interest::Ends => false,
                Interest::Entries => !st.leaves_something(self.tables.invariant.is_some()),
                Interest::Arrivals => true,
            }
    }

    /// Whether nothing that is looked at can come of a packet that goes on at a block.
    pub(crate) fn is_lost(&self, st: &State, block: BlockId) -> bool {
        self.position.shows_nothing(st, block) && self.may_lose(st)
    }

    /// Sets the path to the start of a block, entered from outside.
    pub(crate) fn place(&mut self, st: &mut State, node: NodeId, block: BlockId) {
        (st.node, st.block, st.op) = (node, block, 0);
        self.stand_at(node);
        st.values.clear();
        st.values.resize(self.position.frame_of(st).len(), 0);
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
    pub(crate) fn arrive(&mut self, st: &mut State, to: NodePort) -> Result<Option<BlockId>, Cut> {
        let mut to = to;
        // They mean nothing in another program, and copies need not have them.
        st.values.clear();
        loop {
            if self.branch.frontier.is_ignored(to.node) {
                self.visited.add_behind(self.net, to.node);
                (st.packet, st.node, st.ignored) = (None, to.node, true);
                return Ok(None);
            }
            if let Some(kept) = &mut self.branch.frontier.kept {
                kept.push((to, Box::new(st.clone())));
            }
            let node = self.node(to.node);
            self.visited.add(to.node);
            if node.is_head {
                let p = st.packet.as_ref().ok_or(Cut)?;
                match st.route.again(to, p) {
                    Again::Same => {
                        st.node = to.node;
                        return Self::finish_packet(st, How::Loop);
                    }
                    Again::Often => return Err(self.branch.give_up(Incomplete::Hops)),
                    Again::No => {}
                }
            }
            let p = st.packet.as_ref().ok_or(Cut)?;
            let is_watched = self.branch.frontier.watched.contains(&to);
            // Where all ends are looked at, so is what packets were where they had come to.
            let keep = node.is_head || is_watched && self.branch.frontier.interest == Interest::Ends;
            st.route.push(to, keep, p);
            if is_watched {
                if self.branch.frontier.interest == Interest::Arrivals
                    && node.is_last()
                    && st.strands.is_empty()
                {
                    self.branch.frontier.landed = Some(to);
                    return Err(Cut);
                }
                let seen = Box::new(st.clone());
                self.branch.frontier.arrivals.push_back((to, seen));
            }
            if node.joins(to.port) && self.is_subsumed(st, to) {
                return Err(Cut);
            }
            match &node.body {
                Body::Program(_) => {
                    let Some(entry) = node.entry(to.port) else {
                        st.node = to.node;
                        return Self::finish_packet(st, How::Drop(BlockId(0), Reason::UNCONNECTED));
                    };
                    self.tables.forget_rows(st);
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
                    if !st.facts.sharpen(&self.branch.x) {
                        return Err(Cut);
                    }
                    self.branch.give_up(Incomplete::Opaque(to.node));
                    return Self::finish_packet(st, How::Opaque);
                }
            }
        }
    }

    /// Lets a path go on at a block, later.
    pub(crate) fn resume_at(&mut self, mut st: Box<State>, block: Option<BlockId>) {
        let Some(block) = block.filter(|b| !self.is_lost(&st, *b)) else { return };
        (st.block, st.op) = (block, 0);
        self.branch.frontier.work.push(st);
    }

    pub(crate) fn get(&mut self, st: &State, v: Value) -> Expr {
        let e = self.position.as_set(st, v);
        if self.branch.x.constant_value(e).is_some() {
            return e;
        }
        match st.facts.value(&self.branch.x, e) {
            Some(known) => self.branch.x.constant(self.branch.x.width(e), known),
            None => e,
        }
    }

    pub(crate) fn gets(&mut self, st: &State, list: &[Value]) -> SmallVec<[Expr; 4]> {
        list.iter().map(|&v| self.get(st, v)).collect()
    }

    pub(crate) fn amount(&mut self, st: &State, n: Amount) -> Expr {
        match n {
            Amount::Const(n) => self.branch.x.constant(Width::W32, n.into()),
            Amount::Value(v) => self.get(st, v),
        }
    }

    pub(crate) fn enter_from_outside(&self, st: &mut State, block: BlockId) {
        if self.position.program(st).block(block).loop_limit.is_some() {
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
        let params = &self.position.program(st).block(target.block).params;
        if params.is_empty() {
            return;
        }
        // All are read before one is written.
        let mut args = std::mem::take(&mut self.args);
        args.clear();
        args.extend_from_slice(supplied);
        args.extend(target.args.iter().map(|&v| self.position.raw(st, v)));
        for (&param, &arg) in params.iter().zip(&args) {
            self.position.set_raw(st, param, arg);
        }
        self.args = args;
    }

    pub(crate) fn finish_packet(st: &mut State, how: How) -> Result<Option<BlockId>, Cut> {
        let packet = st.packet.take().ok_or(Cut)?;
        st.ends.push(PacketEnd { node: st.node, how, packet, route: st.route.clone() });
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
            let (node, route) = (st.node, st.route.clone());
            st.ends.push(PacketEnd { node, how: How::Drop(st.block, Reason::LOOP_LIMIT), packet, route });
            return Ok(());
        }
        if st.strands.len() >= self.branch.budget.limits.strands {
            return Err(self.branch.give_up(Incomplete::Strands));
        }
        let args = target.args.iter().map(|&v| self.position.raw(st, v)).collect();
        let (node, route) = (st.node, st.route.clone());
        let starter = self.position.program(st).block(st.block).owner;
        let turn = interp::turn(st.strands.iter().map(|s| (s.node, s.starter)), (node, starter));
        let strand = Strand { starter, node, block: target.block, args, packet, laps: st.laps, route };
        st.strands.insert(turn, strand);
        Ok(())
    }
}
