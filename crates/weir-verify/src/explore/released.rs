//! Packets that others left with entries, where it is only assumed what stands in tables.
//!
//! How many there are is not known, and each may change tables between the turns of the others. So none is followed on the
//! path that lets them go: any one of them is a path of its own, on which any of the assumed entries may stand in tables.
//! What the path left there by its turn is noted, and what the path knew of tables before is not used after.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use weir_ir::program::{BlockId, End, EntryKind, Op, Program, Target, Type};

use crate::explore::branch::Branch;
use crate::explore::frontier::{Frontier, Interest};
use crate::explore::invariant::TableInvariant;
use crate::explore::path::{How, Incomplete, PacketEnd};
use crate::explore::session::Session;
use crate::explore::state::{State, Strand};
use crate::explore::tables::{Entry, TableModel};
use crate::explore::trace::Trace;
use crate::explore::{Cut, Explorer};
use crate::model::expr::{Expr, Source, Symbol};
use crate::model::packet::SymbolicPacket;
use crate::model::set::Set;
use crate::network::{Body, Network, NodeId, NodePort};

/// The tables that a path looked into while others' packets may change them.
#[derive(Debug, Clone, Default)]
pub(crate) struct TablesSeen {
    /// Tables that it looked into since its packet had its turn.
    now: Vec<u32>,
    /// Those that may have changed since it did.
    stale: Vec<u32>,
    /// Whether it let packets of others go.
    released: bool,
    /// How often its packet waited and was let go, whatever happened meanwhile.
    waits: u32,
}

/// Most numbers that are passed along with a packet that is let go.
const PASSED: u32 = 64;

impl TablesSeen {
    /// What it saw may have changed. Copies that leave an entry one after the other have others' packets between them.
    fn after_others(&self) -> TablesSeen {
        let stale = self.now.iter().chain(&self.stale).copied().collect();
        TablesSeen { now: Vec::new(), stale, released: true, waits: self.waits + 1 }
    }

    /// Whether its packet waited, so that time went by.
    pub(crate) fn has_waited(&self) -> bool {
        self.waits > 0
    }

    /// Whether it let packets of others go.
    pub(crate) fn has_released(&self) -> bool {
        self.released
    }
}

impl Network {
    /// Where packets that a table holds may be let go: node, block, and where they go on then.
    fn releases(&self, table: u32) -> Vec<(NodeId, BlockId, Target)> {
        let mut all = Vec::new();
        for (n, node) in (0..).zip(self.nodes()) {
            let Body::Program(i) = &node.body else { continue };
            if !i.tables.contains(&table) {
                continue;
            }
            for (b, block) in (0..).map(BlockId).zip(&i.program.blocks) {
                for op in &block.ops {
                    if let Op::Release { entry, target } = op
                        && let Type::Entry(t) = i.program.ty(*entry)
                        && i.tables.get(t.0 as usize) == Some(&table)
                    {
                        all.push((n, b, target.clone()));
                    }
                }
            }
        }
        all
    }

    /// Whether a program may come to a block when packets begin at some places, or by its clock; and the nodes that this
    /// depends on.
    fn comes_to(&self, from: &[NodePort], node: NodeId, block: BlockId) -> (bool, Vec<NodeId>) {
        let Some(program) = self.node(node).program() else { return (false, vec![node]) };
        let mut inputs = HashSet::new();
        let (mut seen, mut work) = (HashSet::new(), from.to_vec());
        // Programs of the clock send packets, too.
        let is_clock = |kind: &EntryKind| matches!(kind, EntryKind::Timer { .. } | EntryKind::Expire { .. });
        let has_clock = |p: &Arc<Program>| p.entries.iter().any(|e| is_clock(&e.kind));
        let clocks = self.nodes().iter().filter(|n| n.program().is_some_and(has_clock));
        work.extend(clocks.flat_map(|n| n.outputs.iter().flatten()));
        while let Some(place) = work.pop() {
            inputs.extend((place.node == node).then_some(place.port));
            if seen.insert(place) {
                work.extend(self.node(place.node).outputs.iter().flatten());
            }
        }
        let comes = program.entries.iter().any(|e| {
            let may_begin = match e.kind {
                EntryKind::Packet { port } => inputs.contains(&port),
                EntryKind::Timer { .. } | EntryKind::Expire { .. } | EntryKind::Message { .. } => true,
            };
            may_begin && leads(program, e.block, block)
        });
        let nodes = seen.into_iter().map(|place| place.node).chain([node]);
        (comes, nodes.collect())
    }
}

/// Whether a program may go on from one block to another.
fn leads(p: &Program, from: BlockId, to: BlockId) -> bool {
    let (mut seen, mut work) = (HashSet::new(), vec![from]);
    while let Some(b) = work.pop() {
        if b == to {
            return true;
        }
        if seen.insert(b) {
            let block = p.block(b);
            block.end.visit_targets(|_, t| work.push(t.block));
            if let End::Enter { block, .. } = block.end {
                work.push(block);
            }
            work.extend(block.ops.iter().filter_map(|op| match op {
                Op::Fork { target, .. } | Op::Release { target, .. } => Some(target.block),
                _ => None,
            }));
        }
    }
    false
}

impl Session<'_> {
    /// Whether a packet of a trace waits still, if it ended so.
    pub(crate) fn is_held(&self, trace: &Trace, end: &PacketEnd) -> bool {
        holder(self.network(), &trace.state, end).is_some()
    }

    /// Whether a packet that waits may be let go when packets begin at some places.
    pub(crate) fn may_let_go(&mut self, trace: &Trace, end: &PacketEnd, from: &[NodePort]) -> bool {
        let net = self.network();
        let sites = holder(net, &trace.state, end).map(|table| net.releases(table)).unwrap_or_default();
        let mut may = false;
        for (node, block, _) in sites {
            let (comes, nodes) = net.comes_to(from, node, block);
            may |= comes;
            // A change of one of them may make another answer of this.
            nodes.into_iter().for_each(|n| self.e.visited.add(n));
        }
        may
    }

    /// What becomes of a packet that waits when it is let go, after whatever else, so that anything may stand in tables then.
    /// Traces without it are about packets of others. `None`: not all was explored.
    pub(crate) fn let_go(
        &mut self,
        trace: &Trace,
        end: &PacketEnd,
        watched: &HashSet<NodePort>,
    ) -> Option<Vec<Trace>> {
        let table = holder(self.network(), &trace.state, end)?;
        let incomplete = self.take_incomplete();
        let invariant = self.e.tables.invariant.replace(Rc::new(TableInvariant::Anything));
        *self.e.branch.frontier = Frontier::new(Interest::Ends, watched.iter().copied());
        let mut ended = Vec::new();
        for (node, block, target) in self.e.net.releases(table) {
            self.e.visited.add(node);
            if let Ok(state) = self.e.go_on(&trace.state, end, (node, block, &target)) {
                ended.extend(self.e.run(Some(state)));
            }
        }
        self.e.tables.invariant = invariant;
        let is_complete = self.take_incomplete().is_none();
        if let Some(why) = incomplete {
            self.give_up(why);
        }
        let trace = |state| Trace { state, entered: trace.entered.clone() };
        is_complete.then(|| ended.into_iter().map(trace).collect())
    }
}

/// The table that holds a packet that ended so.
fn holder(net: &Network, st: &State, end: &PacketEnd) -> Option<u32> {
    // Copies may wait in others' tables, too.
    let has = |table: u32| match &net.node(end.node).body {
        Body::Program(i) => i.tables.contains(&table),
        _ => false,
    };
    let holds = |e: &&Rc<Entry>| e.live && has(e.table) && e.held.contains(&end.packet);
    st.entries.iter().find(holds).filter(|_| end.how == How::Held).map(|e| e.table)
}

impl TableModel<'_> {
    /// The path looks into a table. What it knows of one that may have changed is not used.
    pub(crate) fn look_into(&mut self, b: &mut Branch<'_>, st: &mut State, table: u32) -> Result<(), Cut> {
        if self.net.info(table).is_fixed() {
            return Ok(());
        }
        if self.invariant.is_some() && st.seen.stale.contains(&table) {
            return Err(b.give_up(Incomplete::Waiting));
        }
        if !st.seen.now.contains(&table) {
            st.seen.now.push(table);
        }
        Ok(())
    }

    /// Notes what stands in tables now: others' packets may find it, even if it is something else at the end.
    fn note_left(&mut self, b: &mut Branch<'_>, st: &State) {
        let left = self.left_by(b, st);
        self.between.extend(left);
    }
}

impl Explorer<'_> {
    /// A packet that waited goes on, any numbers being passed along, after others may have changed all tables.
    fn go_on(
        &mut self,
        before: &State,
        end: &PacketEnd,
        (node, block, to): (NodeId, BlockId, &Target),
    ) -> Result<Box<State>, Cut> {
        let mut st = State::fresh();
        (st.node, st.inputs, st.randoms, st.laps) = (node, before.inputs, before.randoms, before.laps);
        (st.facts, st.sums) = (before.facts.clone(), before.sums.clone());
        (st.seen, st.others) = (before.seen.after_others(), before.others);
        self.stand_at(node);
        let (program, mut args) = (self.position.program(&st), Vec::new());
        for (n, &arg) in (0..).zip(&to.args) {
            let Type::Int(width) = program.ty(arg) else { return Err(self.branch.give_up(Incomplete::Held)) };
            if n >= PASSED {
                return Err(self.branch.give_up(Incomplete::Waiting));
            }
            // Where it waited before, others were passed.
            let number = PASSED * st.seen.waits + n;
            args.push(self.branch.x.symbol(width, Symbol::Arg(number)).0);
        }
        let (starter, route) = (program.block(block).owner, end.route.clone());
        let (packet, laps) = (end.packet.clone(), before.laps);
        st.strands.push_back(Strand { starter, node, block: to.block, args, packet, laps, route });
        Ok(st)
    }

    /// Lets the packets go that an entry held before the run.
    pub(crate) fn release_of_others(&mut self, st: &mut State, i: usize, to: &Target) -> Result<(), Cut> {
        let Some(at) = st.entries[i].base.clone().filter(|_| st.entries[i].old_held) else { return Ok(()) };
        if self.tables.count_held(&mut self.branch, st, i)? == 0 {
            return Ok(());
        }
        st.entry_mut(i).old_held = false;
        st.seen.released = true;
        self.tables.note_left(&mut self.branch, st);
        let mut other = State::fresh();
        (other.node, other.inputs, other.laps) = (st.node, st.inputs, st.laps);
        let program = self.position.program(st);
        let (mut args, mut may_be) = (Vec::new(), Vec::new());
        for (n, &arg) in to.args.iter().enumerate() {
            let Type::Int(width) = program.ty(arg) else { return Err(self.branch.give_up(Incomplete::Held)) };
            let known = self.get(st, arg);
            let passed = if self.branch.x.constant_value(known).is_some() {
                known
            } else {
                let passed = self.branch.x.symbol(width, Symbol::Arg(n as u32));
                may_be.push((passed, Arc::new(st.facts.set(&self.branch.x, known))));
                passed
            };
            args.push(passed.0);
        }
        let packet = SymbolicPacket::unknown(&mut self.branch.x, Source::Held(at, 0));
        let starter = program.block(st.block).owner;
        let (node, block, laps, route) = (st.node, to.block, st.laps, st.route.clone());
        let learnt =
            self.branch.learn_packet(&mut other, &packet).and_then(|()| self.learn_sets(&mut other, may_be));
        if learnt.is_ok() {
            other.strands.push_back(Strand { starter, node, block, args, packet, laps, route });
            self.branch.frontier.work.push(other);
        }
        Ok(())
    }

    /// A path looks at the time. Where its packet waited it is another, of which nothing is known.
    pub(crate) fn look_at_time(&mut self, st: &State) -> Result<(), Cut> {
        if st.seen.has_waited() { Err(self.branch.give_up(Incomplete::Waiting)) } else { Ok(()) }
    }

    fn learn_sets(&mut self, st: &mut State, may_be: Vec<(Expr, Arc<Set>)>) -> Result<(), Cut> {
        for (e, known) in may_be {
            let within = self.branch.x.within(e, &known);
            self.branch.learn(st, within)?;
        }
        Ok(())
    }

    /// A packet of the path has its turn, after those of others had theirs.
    pub(crate) fn turn_after_others(&mut self, st: &mut State, turn: &Strand) -> Result<(), Cut> {
        if !st.seen.released {
            return Ok(());
        }
        self.tables.note_left(&mut self.branch, st);
        let now = std::mem::take(&mut st.seen.now);
        st.seen.stale.extend(now);
        // Entries that it remembers may be others by now.
        let program = self.node(turn.node).program();
        let params = program.map(|p| (p, &p.block(turn.block).params));
        let remembers = params.is_some_and(|(p, all)| all.iter().any(|v| matches!(p.ty(*v), Type::Entry(_))));
        if remembers { Err(self.branch.give_up(Incomplete::Held)) } else { Ok(()) }
    }
}
