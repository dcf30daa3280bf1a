//! Paths that meet again.
//!
//! A loop over options splits at every option: without more, the number of paths is exponential. Where a path comes to
//! the head of a loop as another one did before (the same packet, values that count, and entries; only what was assumed on
//! the path differs), what they have in common is explored once, and stands for both and for all that come later. That
//! may show runs that are none, never hide one: what a check shows was replayed.

use std::collections::HashMap;
use std::rc::Rc;

use rustc_hash::FxHashSet;
use weir_ir::program::{BlockId, Program, Type, Value};

use crate::explore::route::Route;
use crate::explore::session::Session;
use crate::explore::state::{Packets, State};
use crate::explore::trace::Trace;
use crate::explore::{Cut, Explorer};
use crate::model::expr::{Expr, Node};
use crate::model::facts::Facts;
use crate::model::packet::SymbolicPacket;
use crate::network::NodeId;
use crate::network::slicing::Sliced;

/// The common state of paths that go on alike.
#[derive(Debug, PartialEq)]
pub(crate) struct Meeting {
    node: NodeId,
    block: BlockId,
    rounds: u32,
    inputs: u32,
    randoms: u32,
    values: Vec<u32>,
    packet: Option<SymbolicPacket>,
    entries: Vec<(u32, bool, Vec<Expr>, Vec<Expr>)>,
    used: Packets,
    missed: Vec<(u32, Rc<[Expr]>)>,
    read: Vec<(u32, u32)>,
}

/// The conditions of the paths from a meeting on.
#[derive(Debug)]
pub(crate) struct Met {
    meeting: Meeting,
    route: Route,
    conditions: Vec<Expr>,
}

/// The values that a loop's head, or what follows it, uses.
pub(crate) fn live_at_heads(p: &Program, sliced: &[Sliced]) -> HashMap<BlockId, Vec<Value>> {
    let mut live: Vec<Vec<bool>> = vec![vec![false; p.types.len()]; p.blocks.len()];
    // Of a block's own parameters.
    let mut used = live.clone();
    let mut changed = true;
    while changed {
        changed = false;
        for (i, block) in p.blocks.iter().enumerate().rev() {
            let mut now = vec![false; p.types.len()];
            let mut goes_on_at = |next: BlockId| {
                now.iter_mut().zip(&live[next.0 as usize]).for_each(|(a, b)| *a |= b);
            };
            match sliced[i].next {
                Some(next) => goes_on_at(next),
                None => {
                    block.end.visit_targets(|_, t| goes_on_at(t.block));
                    block.end.visit_values(|v| now[v.0 as usize] = true);
                }
            }
            for (_, op) in block.ops.iter().enumerate().rev().filter(|(n, _)| !sliced[i].has(*n)) {
                if let Some(v) = op.dst() {
                    now[v.0 as usize] = false;
                }
                op.visit_values(|v, defined| now[v.0 as usize] |= !defined);
            }
            for v in &block.params {
                used[i][v.0 as usize] = std::mem::take(&mut now[v.0 as usize]);
            }
            if now != live[i] {
                (live[i], changed) = (now, true);
            }
        }
    }
    let heads = p.blocks.iter().zip(&live).enumerate().filter(|(_, (b, _))| b.loop_limit.is_some());
    heads
        .map(|(i, (block, live))| {
            let mut values: Vec<Value> =
                (0..).zip(live).filter(|(_, l)| **l).map(|(v, _)| Value(v)).collect();
            // What is passed in and asked for.
            values.extend(block.params.iter().filter(|v| used[i][v.0 as usize]));
            (BlockId(i as u32), values)
        })
        .collect()
}

impl Explorer<'_> {
    /// A path is about to enter the head of a loop again. It goes on with what it has in common with those before it, or
    /// not at all, if they stand for it.
    pub(crate) fn meet(&mut self, st: &mut State, head: BlockId) -> Result<(), Cut> {
        let alone =
            st.strands.is_empty() && st.notices.is_empty() && st.orphans.is_empty() && st.ends.is_empty();
        let held = st.entries.iter().any(|e| !e.held.is_empty() || e.old_held);
        if self.branch.guide.is_some() || !self.net.closed() || !alone || held || st.seen.has_released() {
            return Ok(());
        }
        let node = st.node;
        let (program, sliced) = (self.position.program(st), self.position.sliced());
        let live = self.liveness.heads.entry(node).or_insert_with(|| live_at_heads(program, sliced));
        let Some(values) = live.get(&head) else { return Ok(()) };
        // What is known of them is to outlive what was assumed.
        let values = values.clone();
        for &v in &values {
            let e = self.position.as_set(st, v);
            let int = matches!(program.ty(v), Type::Int(_));
            if let Some(known) = st.facts.value(&self.branch.x, e).filter(|_| int) {
                let known = self.branch.x.constant(self.branch.x.width(e), known);
                self.position.set(st, v, known);
            }
        }
        let values: Vec<u32> = values.into_iter().map(|v| self.position.raw(st, v)).collect();
        let meeting = Meeting {
            node,
            block: head,
            rounds: *st.rounds_of(head),
            inputs: st.inputs,
            randoms: st.randoms,
            values,
            packet: st.packet.clone(),
            entries: st.entries.iter().map(|e| (e.table, e.live, e.key.clone(), e.fields.clone())).collect(),
            used: st.used,
            missed: st.missed.clone(),
            read: st.read.clone(),
        };
        let conditions = st.facts.conditions();
        let met = self.branch.frontier.met.entry((node, head)).or_default();
        let Some(before) = met.iter_mut().find(|m| m.meeting == meeting && st.route.same(&m.route)) else {
            met.push(Met { meeting, conditions, route: st.route.clone() });
            return Ok(());
        };
        let common = before.conditions.iter().zip(&conditions).take_while(|(a, b)| a == b).count();
        if common == before.conditions.len() {
            return Err(Cut);
        }
        before.conditions.truncate(common);
        self.weaken(st, &conditions[..common]);
        Ok(())
    }

    /// Forgets what is assumed beside some of it.
    pub(crate) fn weaken(&mut self, st: &mut State, conditions: &[Expr]) {
        st.facts = Facts::default();
        for &c in conditions {
            // They held together before.
            st.facts.assume(&mut self.branch.x, c, true);
        }
        st.forget_found();
        let known = |sum: &Expr| {
            conditions.iter().any(|&c| matches!(*self.branch.x.node(c), Node::Equal(a, _) if a == *sum))
        };
        st.sums.retain(known);
    }
}

impl Session<'_> {
    /// The trace with less assumed. Runs that go as it said still do.
    pub(crate) fn weakened(&mut self, mut trace: Trace, conditions: &[Expr]) -> Trace {
        let kept: FxHashSet<Expr> = conditions.iter().copied().collect();
        let forgotten = trace.conditions().into_iter().filter(|c| !kept.contains(c));
        trace.state.forgotten.extend(forgotten);
        self.e.weaken(&mut trace.state, conditions);
        trace
    }

    /// The trace with what it left out assumed again. `None`: that is nothing, or contradicts what is known by now.
    pub(crate) fn strengthened(&mut self, trace: &Trace) -> Option<Trace> {
        let forgotten = &trace.state.forgotten;
        let trace = (!forgotten.is_empty()).then(|| trace.clone())?;
        forgotten.iter().try_fold(trace, |trace, c| self.assume(trace, *c))
    }
}

#[cfg(test)]
mod tests {
    use crate::explore::Explorer;
    use crate::explore::path::Limits;
    use crate::explore::state::State;
    use crate::model::packet::{Bounds, SymbolicPacket};
    use crate::network::Network;

    #[test]
    fn where_less_is_assumed_what_followed_from_it_is_forgotten() {
        let net = Network::new();
        let mut e = Explorer::new(&net, Limits::default(), None);
        let mut st = State::fresh();
        let mut packet = SymbolicPacket::empty(&mut e.branch.x);
        packet.bounds = Bounds { reached: 40, short_of: 60, anchor_from: 20, spare: 0 };
        (st.packet, st.orphans) = (Some(packet.clone()), vec![packet]);
        e.weaken(&mut st, &[]);
        for p in st.packet.iter().chain(&st.orphans) {
            let Bounds { reached, short_of, anchor_from, .. } = p.bounds;
            assert_eq!((reached, short_of, anchor_from), (i64::MIN, i64::MAX, i64::MIN));
        }
    }
}
