//! Explorations of a network, one after the other over the same expressions: packets come in at places, go their ways,
//! and are looked at where they arrive.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use weir_ir::program::{BlockId, EntryKind};

use crate::explore::Explorer;
use crate::explore::clock::Clock;
use crate::explore::course::{Course, Interest};
use crate::explore::cover::Ways;
use crate::explore::input::SymbolicInput;
use crate::explore::path::{How, Incomplete, Limits, PacketEnd};
use crate::explore::state::State;
use crate::explore::story::Story;
use crate::explore::tables::Missed;
use crate::explore::trail::Trail;
use crate::model::expr::{Expr, Exprs, Source, Symbol};
use crate::model::packet::SymbolicPacket;
use crate::network::{Network, NodeId, Place};
use crate::solve::smt::Smt;
use crate::solve::{ConcreteInput, Effort, Entered, Goal, Solution, decide};

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

/// A packet that came to a watched place, after what entered.
fn arrival(entered: &Rc<Vec<Entry>>, (place, state): (Place, Box<State>)) -> Option<Arrival> {
    let packet = state.packet.clone()?;
    Some(Arrival { place, packet, story: Story { state, entered: entered.clone() } })
}

/// A packet that is about to come to a place, or a state in which none is.
#[derive(Debug)]
struct Coming {
    at: Option<Place>,
    state: Box<State>,
    entered: Rc<Vec<Entry>>,
}

impl From<Story> for Coming {
    fn from(story: Story) -> Coming {
        let at = match story.entered.last() {
            Some(Entry::Packet(at, _)) if story.state.packet.is_some() => Some(*at),
            _ => None,
        };
        Coming { at, state: story.state, entered: story.entered }
    }
}

/// A packet on its way: the place that it is about to come to.
pub(crate) type OnItsWay = (Place, Box<State>);

/// An exploration whose arrivals are asked for one by one.
#[derive(Debug)]
pub(crate) struct Hunt {
    coming: std::vec::IntoIter<Coming>,
    /// What entered in the story that is explored.
    entered: Rc<Vec<Entry>>,
    course: Box<Course>,
}

impl Hunt {
    /// Keeps all packets as they come to places.
    pub(crate) fn keep(&mut self) {
        self.course.kept = Some(Vec::new());
    }

    /// Does not follow ways that others stand for: each packet that can come to a watched place comes to it by some
    /// arrival, not by all ways that there are.
    pub(crate) fn cover(&mut self) {
        self.course.ways = self.course.kept.is_none().then(Ways::default);
    }

    /// What was kept.
    pub(crate) fn into_kept(self) -> Vec<OnItsWay> {
        self.course.kept.unwrap_or_default()
    }
}

/// Explorations of a network.
pub struct Session<'a> {
    pub(crate) e: Explorer<'a>,
    smt: Smt,
    /// What was not explored to its end.
    stopped: Vec<Story>,
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
        Session { e: Explorer::new(net, limits, None), smt: Smt::default(), stopped: Vec::new() }
    }

    /// The network.
    pub fn network(&self) -> &'a Network {
        self.e.net
    }

    /// All expressions.
    pub fn exprs(&mut self) -> &mut Exprs {
        &mut self.e.branch.x
    }

    /// All expressions, to read.
    pub(crate) fn known_exprs(&self) -> &Exprs {
        &self.e.branch.x
    }

    /// All expressions, to explore on from states that another session kept.
    pub(crate) fn into_exprs(self) -> Exprs {
        self.e.branch.x
    }

    /// Explores on from states that were kept with these expressions.
    pub(crate) fn resume(&mut self, x: Exprs) {
        self.e.branch.x = x;
        self.e.tables.fixed.clear();
    }

    /// Why not everything was explored, since it was last asked.
    pub fn take_incomplete(&mut self) -> Option<Incomplete> {
        self.e.branch.budget.incomplete.take()
    }

    /// A story in which nothing has happened.
    pub fn blank(&self) -> Story {
        Story { state: State::fresh(), entered: Rc::default() }
    }

    /// The next packet of a story, not yet in the network.
    pub fn packet(&mut self, story: &Story, at: Place, input: &SymbolicInput) -> Option<Story> {
        let mut story = story.clone();
        let st = &mut story.state;
        let packet = self.e.next_packet(st, input).ok()?;
        st.packet = Some(packet);
        (st.trail, st.running) = (Trail::default(), false);
        st.strands.clear();
        st.past = st.entries.len();
        Rc::make_mut(&mut story.entered).push(Entry::Packet(at, input.clone()));
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
        st.packet = Some(self.e.incoming(st.inputs.saturating_sub(1), input));
        (st.trail, st.running, st.steps, st.laps) = (Trail::default(), false, 0, 0);
        (st.past, st.randoms) = (st.entries.len(), randoms);
        st.notices.clear();
        let ends = std::mem::take(&mut st.ends);
        Rc::make_mut(&mut story.entered).push(Entry::Packet(at, input.clone()));
        (story, ends)
    }

    /// Whether the time is over that there is for it ([`Limits::time`]).
    pub(crate) fn is_late(&self) -> bool {
        self.e.branch.budget.clock.is_over()
    }

    /// Notes what entered before what was not explored to its end.
    fn keep_stopped(&mut self, entered: &Rc<Vec<Entry>>) {
        let stories =
            self.e.branch.budget.stopped.drain(..).map(|state| Story { state, entered: entered.clone() });
        self.stopped.extend(stories);
    }

    /// Some of what was not explored to its end since it was last asked.
    pub(crate) fn take_stopped(&mut self) -> Vec<Story> {
        std::mem::take(&mut self.stopped)
    }

    /// Goes on with so much time.
    pub(crate) fn allow(&mut self, time: Option<Duration>) {
        self.e.branch.budget.clock = Clock::start(time);
    }

    /// How many paths were followed so far, whole or in part.
    pub(crate) fn followed(&self) -> usize {
        self.e.branch.budget.followed
    }

    /// Notes that not all was looked at.
    pub(crate) fn give_up(&mut self, why: Incomplete) {
        self.e.branch.give_up(why);
    }

    /// The walks so far, which count against what a check may take: puts another number in their place.
    pub(crate) fn swap_walks(&mut self, walks: usize) -> usize {
        std::mem::replace(&mut self.e.branch.budget.walks, walks)
    }

    /// The nodes that packets came to, in any exploration so far.
    pub fn visited(&self) -> Vec<NodeId> {
        self.e.visited.list()
    }

    /// The same story if a condition on its packet can hold.
    pub fn assume(&mut self, mut story: Story, condition: Expr) -> Option<Story> {
        self.e.branch.assume(&mut story.state, condition, true).ok()?;
        Some(story)
    }

    /// A story by where all bytes of a packet stand, with the packet as it is then: one, unless the packet was looked at
    /// behind a header whose length is not known.
    pub(crate) fn settled(&mut self, story: &Story, packet: &SymbolicPacket) -> Vec<(Story, SymbolicPacket)> {
        let start = match packet.joints[..] {
            [] => return vec![(story.clone(), packet.clone())],
            [start] => start,
            // Each of them has more places than a path splits by.
            _ => {
                self.e.branch.give_up(Incomplete::Values);
                return Vec::new();
            }
        };
        let Some(off) = self.e.branch.x.joint_of(start).map(|(joint, _)| joint.off) else {
            return Vec::new();
        };
        let values = story.state.facts.set(&self.e.branch.x, off);
        let mut all = Vec::new();
        for (i, v) in values.values().enumerate() {
            if i >= self.e.branch.budget.limits.values {
                self.e.branch.give_up(Incomplete::Values);
                break;
            }
            let is = self.e.branch.x.is(off, v);
            let same = self.e.branch.x.identified(start, packet.source(), v as u32);
            let mut conditions = same.into_iter().chain([is]);
            let story = conditions.try_fold(story.clone(), |story, c| self.assume(story, c));
            let mut packet = packet.clone();
            packet.settle(&self.e.branch.x, &[(start, v as u32)]);
            all.extend(story.map(|story| (story, packet)));
        }
        all
    }

    /// A story by where all bytes of the packets that ended stand, if some were written behind a header of unknown length
    /// and the packets cannot be compared otherwise.
    pub(crate) fn comparable(&mut self, story: Story) -> Vec<Story> {
        let packets = || story.ends().iter().map(|e| &e.packet);
        let alike = packets().all(|p| packets().all(|o| (&p.joints, p.data) == (&o.joints, o.data)));
        let joint = packets().find(|p| !p.joints.is_empty());
        let Some(packet) = joint.filter(|_| !alike && packets().any(|p| p.mem.has_behind())).cloned() else {
            return vec![story];
        };
        let mut all = Vec::new();
        for (mut story, _) in self.settled(&story, &packet) {
            let off = |start: &i64| {
                let off = self.e.branch.x.joint_of(*start).map(|(joint, _)| joint.off);
                let off = off.and_then(|off| story.state.facts.value(&self.e.branch.x, off)).unwrap_or(0);
                (*start, off as u32)
            };
            let offs: Vec<_> = packet.joints.iter().map(off).collect();
            for end in story.state.ends.iter_mut().filter(|e| e.packet.joints == packet.joints) {
                end.packet.settle(&self.e.branch.x, &offs);
            }
            all.extend(self.comparable(story));
        }
        all
    }

    /// As [`Session::guard`], of a packet that ended.
    pub(crate) fn guard_of(
        &mut self,
        mut story: Story,
        packet: SymbolicPacket,
        guard: Guard,
        wanted: bool,
    ) -> Vec<Story> {
        let current = story.state.packet.replace(packet);
        let mut stories = self.guard(story, guard, wanted);
        stories.iter_mut().for_each(|s| s.state.packet.clone_from(&current));
        stories
    }

    /// The stories in which the current packet does, or does not, what a guard asks for.
    pub fn guard(&mut self, story: Story, guard: Guard, wanted: bool) -> Vec<Story> {
        let Story { mut state, entered } = story;
        let node = guard;
        self.e.visited.add(node);
        let (packet, trail, at) = (state.packet.clone(), state.trail.clone(), state.node);
        let ends = std::mem::take(&mut state.ends);
        let strands = std::mem::take(&mut state.strands);
        let Some(entry) = self.e.node(node).entry(0) else { return Vec::new() };
        let port = u32::from(!wanted);
        *self.e.branch.course = Course::through(port);
        self.e.place(&mut state, node, entry);
        state.running = true;
        let mut done = self.e.run(Some(state));
        self.keep_stopped(&entered);
        done.retain(|st| st.ends.last().is_some_and(|e| e.how == How::Exit(port)));
        let back = |mut state: Box<State>| {
            // Where its layers are was found out on the way, which stays true.
            state.packet.clone_from(&packet);
            state.trail = trail.clone();
            (state.ends, state.strands, state.node) = (ends.clone(), strands.clone(), at);
            Story { state, entered: entered.clone() }
        };
        done.into_iter().map(back).collect()
    }

    /// Lets the current packet of each story in, and explores all that follows.
    pub fn run(&mut self, stories: Vec<Story>, watched: &HashSet<Place>) -> Outcome {
        self.run_for(Interest::Ends, stories, watched)
    }

    /// As [`Session::run`], where no more need be explored than is of interest.
    pub(crate) fn run_for(
        &mut self,
        interest: Interest,
        stories: Vec<Story>,
        watched: &HashSet<Place>,
    ) -> Outcome {
        *self.e.branch.course = Course::new(interest, watched.iter().copied());
        let mut outcome = Outcome { arrivals: Vec::new(), ended: Vec::new() };
        for story in stories {
            let (state, entered) = self.enter(story.into());
            let ended = self.e.run(state);
            self.keep_stopped(&entered);
            outcome
                .arrivals
                .extend(self.e.branch.course.arrivals.drain(..).filter_map(|a| arrival(&entered, a)));
            outcome.ended.extend(ended.into_iter().map(|state| Story { state, entered: entered.clone() }));
        }
        outcome
    }

    /// Lets the current packet of each story in, and gives the ends of some paths: of so many at most.
    pub(crate) fn run_some(&mut self, stories: Vec<Story>, most: usize) -> Vec<Story> {
        let all = std::mem::replace(&mut self.e.branch.budget.limits.paths, most);
        let ended = self.run(stories, &HashSet::new()).ended;
        self.e.branch.budget.limits.paths = all;
        ended
    }

    /// Lets the current packet of each story in, and shows what comes to watched places, one by one; keeps nothing else.
    pub fn arrivals(&mut self, stories: Vec<Story>, watched: &HashSet<Place>, mut look: impl FnMut(Arrival)) {
        let mut hunt = self.hunt(stories, watched, None);
        hunt.cover();
        while let Some(arrival) = self.next_arrival(&mut hunt) {
            look(arrival);
        }
    }

    /// The state when the packet has come, and what entered. No state: it contradicts itself.
    fn enter(&mut self, coming: Coming) -> (Option<Box<State>>, Rc<Vec<Entry>>) {
        let Coming { at, mut state, entered } = coming;
        let ready = at.map_or(Ok(()), |at| {
            self.e.arrive(&mut state, at).map(|block| {
                state.running = block.is_some();
                state.block = block.unwrap_or(state.block);
            })
        });
        if let Some(place) = self.e.branch.course.landed.take() {
            self.e.branch.course.arrivals.push_back((place, state));
            return (None, entered);
        }
        (ready.is_ok().then_some(state), entered)
    }

    /// Lets the current packet of each story in. What comes to a watched place is then given one by one, and explored no
    /// further than that takes. What comes to nodes that are not `useful` is not followed.
    pub(crate) fn hunt(
        &self,
        stories: Vec<Story>,
        watched: &HashSet<Place>,
        useful: Option<Rc<[bool]>>,
    ) -> Hunt {
        let coming: Vec<Coming> = stories.into_iter().map(Coming::from).collect();
        let course = Box::new(Course::of_arrivals(watched.iter().copied(), useful));
        Hunt { coming: coming.into_iter(), entered: Rc::default(), course }
    }

    /// As [`Session::hunt`], of packets that were kept on their way after all this had entered.
    pub(crate) fn hunt_on(
        &self,
        kept: Vec<OnItsWay>,
        entered: &[Entry],
        watched: &HashSet<Place>,
        useful: Rc<[bool]>,
    ) -> Hunt {
        let entered = Rc::new(entered.to_vec());
        let coming = |(at, state)| Coming { at: Some(at), state, entered: entered.clone() };
        let coming: Vec<Coming> = kept.into_iter().map(coming).collect();
        let course = Box::new(Course::of_arrivals(watched.iter().copied(), Some(useful)));
        Hunt { coming: coming.into_iter(), entered: Rc::default(), course }
    }

    /// What comes to a watched place next. Between, the session may be used for anything else.
    pub(crate) fn next_arrival(&mut self, hunt: &mut Hunt) -> Option<Arrival> {
        std::mem::swap(&mut self.e.branch.course, &mut hunt.course);
        let found = self.advance(hunt);
        std::mem::swap(&mut self.e.branch.course, &mut hunt.course);
        found
    }

    fn advance(&mut self, hunt: &mut Hunt) -> Option<Arrival> {
        loop {
            if let Some(a) = self.e.branch.course.arrivals.pop_front() {
                let found = arrival(&hunt.entered, a);
                if found.is_some() {
                    return found;
                }
                continue;
            }
            let step = self.e.step();
            self.keep_stopped(&hunt.entered);
            if step.is_none() {
                let (state, entered) = self.enter(hunt.coming.next()?);
                self.e.branch.course.begin(state);
                hunt.entered = entered;
            }
        }
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
        *self.e.branch.course = Course::new(Interest::Ends, watched.iter().copied());
        let mut outcome = Outcome { arrivals: Vec::new(), ended: Vec::new() };
        for (node, n) in self.e.net.nodes().iter().enumerate() {
            let entries = n.program().map(|p| &p.entries[..]).unwrap_or_default();
            for entry in entries.iter().filter(|e| wanted(&e.kind)) {
                let node = node as NodeId;
                self.e.visited.add(node);
                let Ok(state) = self.e.start(node, entry.block, &SymbolicInput::default()) else { continue };
                let ended = self.e.run(Some(state));
                let entered = Rc::new(vec![Entry::Timer(node, entry.block)]);
                self.keep_stopped(&entered);
                outcome
                    .arrivals
                    .extend(self.e.branch.course.arrivals.drain(..).filter_map(|a| arrival(&entered, a)));
                outcome
                    .ended
                    .extend(ended.into_iter().map(|state| Story { state, entered: entered.clone() }));
            }
        }
        outcome
    }

    /// Whether a packet is the one that a story is about ([`Story::sent`]), a copy of it, or an answer to it.
    pub(crate) fn is_sent(&self, story: &Story, packet: &SymbolicPacket) -> bool {
        self.e.branch.x.find_source(&Source::Input(story.sent())) == Some(packet.source())
    }

    /// Whether what is known of a story contradicts itself, so that no run goes so.
    pub fn is_impossible(&self, story: &Story) -> bool {
        !story.state.facts.clone().sharpen(&self.e.branch.x)
    }

    /// Looks for a run that goes as a story says. `None`: not found, which proves nothing.
    pub fn solve(&self, story: &Story) -> Option<ConcreteInput> {
        match self.decide(story, Effort::Thorough) {
            Solution::Found(input) => Some(*input),
            Solution::Impossible | Solution::Unknown | Solution::Missing => None,
        }
    }

    /// Looks for a run that goes as a story says, or a proof that none does.
    pub(crate) fn decide(&self, story: &Story, effort: Effort) -> Solution {
        let goal = Goal {
            exprs: &self.e.branch.x,
            facts: &story.state.facts,
            inputs: story.state.inputs,
            entry: Entered::Packets,
            whole: false,
        };
        decide(self.e.net, &goal, &self.smt, effort, &self.e.branch.budget.clock)
    }

    /// Where, since it was last asked, a packet would have gone another way if others had come before it.
    pub(crate) fn take_missed(&mut self) -> Missed {
        let mut missed = std::mem::take(&mut self.e.tables.missed);
        missed.settle(&self.e.branch.x);
        missed
    }

    /// What was so before is not asked for.
    pub(crate) fn forget_missed(&mut self) {
        self.e.tables.missed = Missed::default();
    }

    /// How long the packet that came in last is at least, as far as is known.
    pub(crate) fn least_length(&self, story: &Story) -> u128 {
        let source =
            story.state.inputs.checked_sub(1).and_then(|i| self.e.branch.x.find_source(&Source::Input(i)));
        let len = source.and_then(|s| self.e.branch.x.find_symbol(&Symbol::Len(s)));
        len.and_then(|len| story.state.facts.set(&self.e.branch.x, len).hull()).map_or(0, |(least, _)| least)
    }

    /// The value of an expression in a story, if only one is left.
    pub(crate) fn value(&self, story: &Story, e: Expr) -> Option<u128> {
        story.state.facts.value(&self.e.branch.x, e)
    }

    /// Whether a condition holds in a story, if that is known.
    pub fn truth(&self, story: &Story, condition: Expr) -> Option<bool> {
        story.state.facts.truth(&self.e.branch.x, condition)
    }
}
