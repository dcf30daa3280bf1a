//! Explorations of a network, one after the other over the same expressions: packets come in at places, go their ways,
//! and are looked at where they arrive.

use std::collections::HashSet;

use weir_ir::program::{BlockId, EntryKind};

use crate::explore::{Explorer, State};
use crate::expr::{Expr, Exprs, Source};
use crate::input::SymbolicInput;
use crate::network::{Network, NodeId, Place};
use crate::packet::SymbolicPacket;
use crate::path::{How, Incomplete, Limits, PacketEnd};
use crate::smt::Smt;
use crate::solve::{ConcreteInput, Entered, Goal, Solution, decide};
use crate::trail::Trail;

/// Whether a packet matches something: a node without wires whose output 0 means yes and output 1 no.
pub type Guard = NodeId;

/// Where something enters the network.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A packet, at an input.
    Packet(Place, SymbolicInput),
    /// A program of the clock.
    Timer(NodeId, BlockId),
}

/// A path so far, which may go on with the next packet.
#[derive(Debug, Clone)]
pub struct Story {
    pub(crate) state: State,
    /// What entered, in order.
    pub(crate) entered: Vec<Entry>,
    /// The guards that packets were asked by.
    guards: Vec<Guard>,
}

/// A part of the description of entries.
pub(crate) enum Part {
    Number(u128),
    Value(Expr),
}

/// A packet that came to a watched place.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The place.
    pub place: Place,
    /// What it was there.
    pub packet: SymbolicPacket,
    /// Everything up to there.
    pub story: Story,
}

/// Explorations of a network.
pub struct Session<'a> {
    e: Explorer<'a>,
    smt: Smt,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// What came of something that entered.
#[derive(Debug)]
pub struct Outcome {
    /// Packets at watched places, in the order in which they were found.
    pub arrivals: Vec<Arrival>,
    /// Whole paths.
    pub ended: Vec<Story>,
}

impl<'a> Session<'a> {
    /// A session.
    pub fn new(net: &'a Network, limits: Limits) -> Session<'a> {
        Session { e: Explorer::new(net, limits, None), smt: Smt::default() }
    }

    /// The network.
    pub fn network(&self) -> &'a Network {
        self.e.net
    }

    /// All expressions.
    pub fn exprs(&mut self) -> &mut Exprs {
        &mut self.e.x
    }

    /// All expressions, to read.
    pub(crate) fn known_exprs(&self) -> &Exprs {
        &self.e.x
    }

    /// Why not everything was explored, since it was last asked.
    pub fn take_incomplete(&mut self) -> Option<Incomplete> {
        self.e.incomplete.take()
    }

    /// A story in which nothing has happened.
    pub fn blank(&self) -> Story {
        Story { state: self.e.fresh(), entered: Vec::new(), guards: Vec::new() }
    }

    /// The next packet of a story, not yet in the network.
    pub fn packet(&mut self, story: &Story, at: Place, input: &SymbolicInput) -> Option<Story> {
        let mut story = story.clone();
        let st = &mut story.state;
        let packet = self.e.next_packet(st, input).ok()?;
        st.packet = Some(packet);
        (st.trail, st.running) = (Trail::default(), false);
        st.strands.clear();
        (st.past, st.used_past) = (st.entries.len(), false);
        story.entered.push(Entry::Packet(at, input.clone()));
        Some(story)
    }

    /// The last packet of a story once more, as it was when it came in, at another place. It draws the random numbers
    /// that it drew before, and its ends so far are given back.
    pub(crate) fn again(
        &mut self,
        mut story: Story,
        at: Place,
        input: &SymbolicInput,
        randoms: u32,
    ) -> (Story, Vec<PacketEnd>) {
        let st = &mut story.state;
        let mut packet = SymbolicPacket::unknown(&mut self.e.x, Source::Input(st.inputs.saturating_sub(1)));
        if input.fresh {
            packet.make_fresh(&mut self.e.x);
        }
        st.packet = Some(packet);
        (st.trail, st.running, st.steps, st.laps) = (Trail::default(), false, 0, 0);
        (st.past, st.used_past, st.randoms) = (st.entries.len(), false, randoms);
        st.notices.clear();
        let ends = std::mem::take(&mut st.ends);
        story.entered.push(Entry::Packet(at, input.clone()));
        (story, ends)
    }

    /// Gives up what is not explored when `stop` says so.
    pub fn stop_when(&mut self, stop: &'a dyn Fn() -> bool) {
        self.e.stop = Some(stop);
    }

    /// Whether it says so.
    pub(crate) fn is_late(&self) -> bool {
        self.e.stop.is_some_and(|stop| stop())
    }

    /// Notes that not all was looked at, as there was no time left.
    pub(crate) fn give_up_for_time(&mut self) {
        self.e.give_up(Incomplete::Time);
    }

    /// The nodes that packets came to, in any exploration so far.
    pub fn visited(&self) -> Vec<NodeId> {
        (0..).zip(&self.e.visited).filter(|(_, v)| **v).map(|(n, _)| n).collect()
    }

    /// The same story if a condition on its packet can hold.
    pub fn assume(&mut self, mut story: Story, condition: Expr) -> Option<Story> {
        self.e.assume(&mut story.state, condition, true).ok()?;
        Some(story)
    }

    /// The stories in which the current packet does, or does not, what a guard asks for.
    pub fn guard(&mut self, story: Story, guard: Guard, wanted: bool) -> Vec<Story> {
        let Story { mut state, entered, mut guards } = story;
        guards.push(guard);
        let node = guard;
        self.e.visited[node as usize] = true;
        let (packet, trail, at) = (state.packet.clone(), state.trail.clone(), state.node);
        let ends = std::mem::take(&mut state.ends);
        let strands = std::mem::take(&mut state.strands);
        let Some(entry) = self.e.node(node).entry(0) else { return Vec::new() };
        self.e.place(&mut state, node, entry);
        state.running = true;
        self.e.work.push(state);
        let mut done = self.e.run();
        done.retain(|st| {
            st.ends.last().is_some_and(|e| matches!(e.how, How::Exit(port) if (port == 0) == wanted))
        });
        let back = |mut state: State| {
            // Where its layers are was found out on the way, which stays true.
            state.packet.clone_from(&packet);
            state.trail = trail.clone();
            (state.ends, state.strands, state.node) = (ends.clone(), strands.clone(), at);
            Story { state, entered: entered.clone(), guards: guards.clone() }
        };
        done.into_iter().map(back).collect()
    }

    /// Lets the current packet of each story in, and explores all that follows.
    pub fn run(&mut self, stories: Vec<Story>, watched: &HashSet<Place>) -> Outcome {
        self.e.watched.clone_from(watched);
        let mut outcome = Outcome { arrivals: Vec::new(), ended: Vec::new() };
        // The last is explored first.
        for story in stories {
            let Story { mut state, entered, guards } = story;
            let ready = match entered.last() {
                Some(Entry::Packet(at, _)) if state.packet.is_some() => {
                    self.e.arrive(&mut state, *at).map(|block| {
                        state.running = block.is_some();
                        state.block = block.unwrap_or(state.block);
                    })
                }
                _ => Ok(()),
            };
            if ready.is_ok() {
                self.e.work.push(state);
            }
            let ended = self.e.run();
            let story = |state| Story { state, entered: entered.clone(), guards: guards.clone() };
            outcome.arrivals.extend(self.e.arrivals.drain(..).filter_map(|(place, state)| {
                Some(Arrival { place, packet: state.packet.clone()?, story: story(state) })
            }));
            outcome.ended.extend(ended.into_iter().map(story));
        }
        outcome
    }

    /// All that the programs of the clock do.
    pub fn timers(&mut self, watched: &HashSet<Place>) -> Outcome {
        self.by_clock(watched, |kind| matches!(kind, EntryKind::Timer { .. }))
    }

    /// All that may happen when an entry of a table expires, whatever the entry is: more than can happen.
    pub(crate) fn expiries(&mut self, watched: &HashSet<Place>) -> Outcome {
        self.by_clock(watched, |kind| matches!(kind, EntryKind::Expire { .. }))
    }

    fn by_clock(&mut self, watched: &HashSet<Place>, wanted: fn(&EntryKind) -> bool) -> Outcome {
        self.e.watched.clone_from(watched);
        let mut outcome = Outcome { arrivals: Vec::new(), ended: Vec::new() };
        for (node, n) in self.e.net.nodes().iter().enumerate() {
            let entries = n.program().map(|p| &p.entries[..]).unwrap_or_default();
            for entry in entries.iter().filter(|e| wanted(&e.kind)) {
                let node = node as NodeId;
                self.e.visited[node as usize] = true;
                let Ok(state) = self.e.start(node, entry.block, &SymbolicInput::default()) else { continue };
                self.e.work.push(state);
                let ended = self.e.run();
                let entered = vec![Entry::Timer(node, entry.block)];
                let story = |state| Story { state, entered: entered.clone(), guards: Vec::new() };
                outcome.arrivals.extend(self.e.arrivals.drain(..).filter_map(|(place, state)| {
                    Some(Arrival { place, packet: state.packet.clone()?, story: story(state) })
                }));
                outcome.ended.extend(ended.into_iter().map(story));
            }
        }
        outcome
    }

    /// Whether what is known of a story contradicts itself, so that no run goes so.
    pub fn is_impossible(&self, story: &Story) -> bool {
        !story.state.facts.clone().sharpen(&self.e.x)
    }

    /// Looks for a run that goes as a story says. `None`: not found, which proves nothing.
    pub fn solve(&self, story: &Story) -> Option<ConcreteInput> {
        match self.decide(story, true) {
            Solution::Found(input) => Some(*input),
            Solution::Impossible | Solution::Unknown | Solution::Missing => None,
        }
    }

    /// Looks for a run that goes as a story says, or a proof that none does.
    pub(crate) fn decide(&self, story: &Story, thorough: bool) -> Solution {
        let mut visits: HashSet<NodeId> =
            story.state.ends.iter().flat_map(|e| e.trail.places()).map(|p| p.node).collect();
        visits.extend(story.state.trail.places().iter().map(|p| p.node));
        visits.extend(story.entered.iter().map(|e| match e {
            Entry::Packet(at, _) => at.node,
            Entry::Timer(node, _) => *node,
        }));
        visits.extend(&story.guards);
        self.add_ahead(story, &mut visits);
        let goal = Goal {
            exprs: &self.e.x,
            facts: &story.state.facts,
            inputs: story.state.inputs,
            entry: Entered::Packets,
            visits: Some(&visits),
        };
        decide(self.e.net, &goal, thorough.then_some(&self.smt))
    }

    /// Adds the nodes that packets still under way may come to.
    fn add_ahead(&self, story: &Story, visits: &mut HashSet<NodeId>) {
        let st = &story.state;
        let last = st.packet.is_some().then(|| st.trail.places().last().map(|p| p.node)).flatten();
        let mut work: Vec<NodeId> = st.strands.iter().map(|s| s.node).chain(last).collect();
        let mut seen = HashSet::new();
        while let Some(n) = work.pop() {
            if seen.insert(n) {
                work.extend(self.e.node(n).outputs.iter().flatten().map(|to| to.node));
            }
        }
        visits.extend(seen);
    }

    /// Whether, since it was last asked, a packet would have gone another way if others had come before it.
    pub(crate) fn take_missed(&mut self) -> bool {
        std::mem::take(&mut self.e.missed)
    }

    /// Notes that not all that may have happened before was tried.
    pub(crate) fn give_up_histories(&mut self) {
        self.e.give_up(Incomplete::Histories);
    }

    /// The story with less assumed. Runs that go as it said still do.
    pub(crate) fn weakened(&mut self, mut story: Story, conditions: &[Expr]) -> Story {
        self.e.weaken(&mut story.state, conditions);
        story
    }

    /// The value of an expression in a story, if only one is left.
    pub(crate) fn value(&self, story: &Story, e: Expr) -> Option<u128> {
        story.state.facts.value(&self.e.x, e)
    }

    /// Whether a condition holds in a story, if that is known.
    pub fn truth(&self, story: &Story, condition: Expr) -> Option<bool> {
        story.state.facts.truth(&self.e.x, condition)
    }
}

impl Story {
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

    /// The story with these ends before its own, as many random numbers drawn at least, and whether an entry from before
    /// was found, if it was.
    pub(crate) fn after(mut self, mut ends: Vec<PacketEnd>, randoms: u32, used_past: bool) -> Story {
        ends.append(&mut self.state.ends);
        self.state.ends = ends;
        self.state.randoms = self.state.randoms.max(randoms);
        self.state.used_past |= used_past;
        self
    }

    /// How many packets came in.
    pub(crate) fn inputs(&self) -> u32 {
        self.state.inputs
    }

    /// Where its current packet came by.
    pub fn trail(&self) -> &Trail {
        &self.state.trail
    }

    /// What entered, in order.
    pub fn entered(&self) -> &[Entry] {
        &self.entered
    }

    /// Whether its current packet found a table entry that an earlier one had made.
    pub fn used_past(&self) -> bool {
        self.state.used_past
    }

    /// The tables of the entries that its packets made and that are there, beside those of an earlier story.
    pub(crate) fn made_since(&self, before: &Story) -> Vec<u32> {
        let new = self.state.entries.iter().skip(before.state.entries.len());
        new.filter(|e| e.base.is_none() && e.live).map(|e| e.table).collect()
    }

    /// What is assumed in it, in order.
    pub(crate) fn conditions(&self) -> Vec<Expr> {
        self.state.facts.conditions()
    }

    /// Tells what stands in tables, after how many packets.
    pub(crate) fn describe_entries(&self, mut tell: impl FnMut(Part)) {
        for n in [self.state.inputs, self.state.randoms] {
            tell(Part::Number(n.into()));
        }
        for e in &self.state.entries {
            for n in [e.table, e.live.into(), e.key.len() as u32, e.fields.len() as u32] {
                tell(Part::Number(n.into()));
            }
            e.key.iter().chain(&e.fields).for_each(|v| tell(Part::Value(*v)));
        }
    }

    /// Its current packet.
    pub fn current(&self) -> Option<&SymbolicPacket> {
        self.state.packet.as_ref()
    }
}
