//! What happened so far, when packets came in one after the other.

use std::rc::Rc;

use crate::explore::path::PacketEnd;
use crate::explore::route::Route;
use crate::explore::session::Entry;
use crate::explore::state::State;
use crate::model::expr::Expr;
use crate::model::packet::SymbolicPacket;

/// A path so far, which may go on with the next packet.
#[derive(Debug, Clone)]
pub struct Trace {
    pub(crate) state: Box<State>,
    /// What entered, in order. Shared by all that follows from it.
    pub(crate) entered: Rc<Vec<Entry>>,
}

/// A part of the description of entries.
pub(crate) enum Part {
    Number(u128),
    Value(Expr),
}

impl Trace {
    /// How its packets ended, in order.
    pub fn ends(&self) -> &[PacketEnd] {
        &self.state.ends
    }

    /// Whether nothing has happened in it.
    pub fn is_blank(&self) -> bool {
        self.entered.is_empty()
    }

    /// Random numbers drawn so far.
    pub(crate) fn randoms(&self) -> u32 {
        self.state.randoms
    }

    /// The trace with these ends before its own, and as many random numbers drawn at least.
    pub(crate) fn after(mut self, mut ends: Vec<PacketEnd>, randoms: u32) -> Trace {
        ends.append(&mut self.state.ends);
        self.state.ends = ends;
        self.state.randoms = self.state.randoms.max(randoms);
        self
    }

    /// How many packets came in.
    pub(crate) fn inputs(&self) -> u32 {
        self.state.inputs
    }

    /// Number of the packet that it is about: the first after those of others. More may have come since, such as answers.
    pub(crate) fn sent(&self) -> u32 {
        self.state.others.checked_ilog2().unwrap_or(0)
    }

    /// Where its current packet came by.
    pub fn route(&self) -> &Route {
        &self.state.route
    }

    /// What entered, in order.
    pub fn entered(&self) -> &[Entry] {
        &self.entered
    }

    /// What happened in it is what packets of others did, before what is looked at.
    pub(crate) fn of_others(mut self) -> Trace {
        self.state.leave_to_others();
        self
    }

    /// Whether it makes use of each packet of others that came before: if not, it happens after fewer of them too.
    pub(crate) fn uses_all_others(&self) -> bool {
        self.state.uses_all_others()
    }

    /// Whether it makes use of a packet that came before, by its number.
    pub(crate) fn uses_packet(&self, number: u32) -> bool {
        self.state.uses_packet(number)
    }

    /// Whether it makes use of a packet of others, if some came before.
    pub(crate) fn uses_others(&self) -> bool {
        self.state.others == 0 || self.state.used & self.state.others != 0
    }

    /// The tables of the entries that its packets made and that are there, beside those of an earlier trace.
    pub(crate) fn made_since(&self, before: &Trace) -> Vec<u32> {
        let new = self.state.entries.iter().skip(before.state.entries.len());
        new.filter(|e| e.base.is_none() && e.live).map(|e| e.table).collect()
    }

    /// The fields of the entries of an earlier trace that are something else now, by table and number.
    pub(crate) fn changed_since(&self, before: &Trace) -> Vec<(u32, u32)> {
        let pairs = before.state.entries.iter().zip(&self.state.entries);
        let changed = pairs.filter(|(_, now)| now.base.is_none() && now.live).flat_map(|(old, now)| {
            let fields = (0..).zip(old.fields.iter().zip(&now.fields));
            fields.filter(|(_, (old, now))| old != now).map(|(f, _)| (now.table, f))
        });
        changed.collect()
    }

    /// Whether all entries that were there in an earlier trace are still there.
    pub(crate) fn keeps_all_of(&self, before: &Trace) -> bool {
        before.state.entries.iter().zip(&self.state.entries).all(|(old, now)| now.live || !old.live)
    }

    /// What is assumed in it, in order.
    pub(crate) fn conditions(&self) -> Vec<Expr> {
        self.state.facts.conditions()
    }

    /// Says what stands in tables, after how many packets.
    pub(crate) fn describe_entries(&self, mut report: impl FnMut(Part)) {
        for n in [self.state.inputs, self.state.randoms] {
            report(Part::Number(n.into()));
        }
        for e in &self.state.entries {
            for n in [e.table, e.live.into(), e.key.len() as u32, e.fields.len() as u32] {
                report(Part::Number(n.into()));
            }
            e.key.iter().chain(&e.fields).for_each(|v| report(Part::Value(*v)));
        }
    }

    /// Its current packet.
    pub fn current(&self) -> Option<&SymbolicPacket> {
        self.state.packet.as_ref()
    }
}
