//! Packets that others left with entries, where it is only supposed what stands in tables.
//!
//! How many there are is not known, and each may change tables between the turns of the others. So none is followed on the
//! path that lets them go: any one of them is a path of its own, on which any of the supposed entries may stand in tables.
//! What the path left there by its turn is noted, and what the path knew of tables before is not used after.

use std::sync::Arc;

use weir_ir::program::{Target, Type};

use crate::explore::{Cut, Explorer};
use crate::expr::{Expr, Source, Symbol};
use crate::packet::SymbolicPacket;
use crate::path::Incomplete;
use crate::set::Set;
use crate::state::{State, Strand};

/// What a path saw of tables while others' packets may change them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Tables that it looked into since its packet had its turn.
    now: Vec<u32>,
    /// Those that may have changed since it did.
    stale: Vec<u32>,
    /// Whether it let packets of others go.
    released: bool,
}

impl Seen {
    /// Whether it let packets of others go.
    pub(crate) fn has_released(&self) -> bool {
        self.released
    }
}

impl Explorer<'_> {
    /// Lets the packets go that an entry held before the run.
    pub(crate) fn release_supposed(&mut self, st: &mut State, i: usize, to: &Target) -> Result<(), Cut> {
        let Some(at) = st.entries[i].base.clone().filter(|_| st.entries[i].old_held) else { return Ok(()) };
        if self.count_held(st, i)? == 0 {
            return Ok(());
        }
        st.entry_mut(i).old_held = false;
        st.seen.released = true;
        self.note_left(st);
        let mut other = self.fresh();
        (other.node, other.inputs, other.laps) = (st.node, st.inputs, st.laps);
        let program = self.program(st);
        let (mut args, mut may_be) = (Vec::new(), Vec::new());
        for (n, &arg) in to.args.iter().enumerate() {
            let Type::Int(width) = program.ty(arg) else { return Err(self.give_up(Incomplete::Held)) };
            let known = self.get(st, arg);
            let passed = if self.x.constant_value(known).is_some() {
                known
            } else {
                let passed = self.x.symbol(width, Symbol::Arg(n as u32));
                may_be.push((passed, Arc::new(st.facts.set(&self.x, known))));
                passed
            };
            args.push(passed.0);
        }
        let packet = SymbolicPacket::unknown(&mut self.x, Source::Held(at, 0));
        let starter = program.block(st.block).owner;
        let (node, block, laps, trail) = (st.node, to.block, st.laps, st.trail.clone());
        let learnt =
            self.learn_packet(&mut other, &packet).and_then(|()| self.learn_sets(&mut other, may_be));
        if learnt.is_ok() {
            other.strands.push_back(Strand { starter, node, block, args, packet, laps, trail });
            self.course.work.push(other);
        }
        Ok(())
    }

    fn learn_sets(&mut self, st: &mut State, may_be: Vec<(Expr, Arc<Set>)>) -> Result<(), Cut> {
        for (e, known) in may_be {
            let within = self.x.within(e, &known);
            self.learn(st, within)?;
        }
        Ok(())
    }

    /// A packet of the path has its turn, after those of others had theirs.
    pub(crate) fn turn_after_others(&mut self, st: &mut State, turn: &Strand) -> Result<(), Cut> {
        if !st.seen.released {
            return Ok(());
        }
        self.note_left(st);
        let now = std::mem::take(&mut st.seen.now);
        st.seen.stale.extend(now);
        // Entries that it remembers may be others by now.
        let program = self.node(turn.node).program();
        let params = program.map(|p| (p, &p.block(turn.block).params));
        let remembers = params.is_some_and(|(p, all)| all.iter().any(|v| matches!(p.ty(*v), Type::Entry(_))));
        if remembers { Err(self.give_up(Incomplete::Held)) } else { Ok(()) }
    }

    /// The path looks into a table. What it knows of one that may have changed is not used.
    pub(crate) fn look_into(&mut self, st: &mut State, table: u32) -> Result<(), Cut> {
        if self.supposed.is_none() || self.net.info(table).is_fixed() {
            return Ok(());
        }
        if st.seen.stale.contains(&table) {
            return Err(self.give_up(Incomplete::Held));
        }
        if !st.seen.now.contains(&table) {
            st.seen.now.push(table);
        }
        Ok(())
    }

    /// Notes what stands in tables now: others' packets may find it, even if it is something else at the end.
    fn note_left(&mut self, st: &State) {
        let left = self.left_by(st);
        self.between.extend(left);
    }
}
