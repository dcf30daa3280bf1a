//! Explorations of a network, one after the other over the same expressions: packets come in at places, take their paths,
//! and are looked at where they arrive.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use weir_ir::program::{BlockId, EntryKind};

use crate::explore::Explorer;
use crate::explore::deadline::Deadline;
use crate::explore::frontier::{Frontier, Interest};
use crate::explore::input::SymbolicInput;
use crate::explore::path::{How, Incomplete, Limits, PacketEnd};
use crate::explore::route::Route;
use crate::explore::state::State;
use crate::explore::subsumption::SeenPaths;
use crate::explore::tables::Missed;
use crate::explore::trace::Trace;
use crate::model::expr::{Expr, Exprs, Source, Symbol};
use crate::model::packet::SymbolicPacket;
use crate::network::{Network, NodeId, NodePort};
use crate::solve::smt::Smt;
use crate::solve::{ConcreteInput, Effort, Entered, Goal, Solution, decide};

/// A predicate on packets: a node without wires whose output 0 means yes and output 1 no.
pub type Guard = NodeId;

/// Where something enters the network.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A packet, at an input.
    Packet(NodePort, SymbolicInput),
    /// A program of the clock.
    Timer(NodeId, BlockId),
}

/// A packet that came to a watched place.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The place.
    pub place: NodePort,
    /// What it was there.
    pub packet: SymbolicPacket,
    /// Everything up to there.
    pub trace: Trace,
}

/// A packet that came to a watched place, after what entered.
fn arrival(entered: &Rc<Vec<Entry>>, (place, state): (NodePort, Box<State>)) -> Option<Arrival> {
    let packet = state.packet.clone()?;
    Some(Arrival { place, packet, trace: Trace { state, entered: entered.clone() } })
}

/// A packet that is about to come to a place, or a state in which none is.
#[derive(Debug)]
struct Entering {
    at: Option<NodePort>,
    state: Box<State>,
    entered: Rc<Vec<Entry>>,
}

impl From<Trace> for Entering {
    fn from(trace: Trace) -> Entering {
        let at = match trace.entered.last() {
            Some(Entry::Packet(at, _)) if trace.state.packet.is_some() => Some(*at),
            _ => None,
        };
        Entering { at, state: trace.state, entered: trace.entered }
    }
}

/// A packet on its way: the place that it is about to come to.
pub(crate) type InTransit = (NodePort, Box<State>);

/// An exploration whose arrivals are asked for one by one.
#[derive(Debug)]
pub(crate) struct ArrivalSearch {
    entering: std::vec::IntoIter<Entering>,
    /// What entered in the trace that is explored.
    entered: Rc<Vec<Entry>>,
    frontier: Box<Frontier>,
}

impl ArrivalSearch {
    /// Keeps all packets as they come to places.
    pub(crate) fn keep(&mut self) {
        self.frontier.kept = Some(Vec::new());
    }

    /// Does not follow paths that others stand for: each packet that can come to a watched place comes to it by some
    /// arrival, not by all paths that there are.
    pub(crate) fn cover(&mut self) {
        self.frontier.paths = self.frontier.kept.is_none().then(SeenPaths::default);
    }

    /// What was kept.
    pub(crate) fn into_kept(self) -> Vec<InTransit> {
        self.frontier.kept.unwrap_or_default()
    }
}

/// Explorations of a network.
pub struct Session<'a> {
    pub(crate) e: Explorer<'a>,
    smt: Smt,
    /// What was not explored to its end.
    stopped: Vec<Trace>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// The outcome of something that entered.
#[derive(Debug)]
pub struct Outcome {
    /// Packets at watched places, in the order in which they were found.
    pub arrivals: Vec<Arrival>,
    /// Whole paths.
    pub ended: Vec<Trace>,
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

    /// A trace in which nothing has happened.
    pub fn blank(&self) -> Trace {
        Trace { state: State::fresh(), entered: Rc::default() }
    }

    /// The next packet of a trace, not yet in the network.
    pub fn packet(&mut self, trace: &Trace, at: NodePort, input: &SymbolicInput) -> Option<Trace> {
        let mut trace = trace.clone();
        let st = &mut trace.state;
        let packet = self.e.next_packet(st, input).ok()?;
        st.packet = Some(packet);
        (st.route, st.running) = (Route::default(), false);
        st.strands.clear();
        st.past = st.entries.len();
        Rc::make_mut(&mut trace.entered).push(Entry::Packet(at, input.clone()));
        Some(trace)
    }

    /// The last packet of a trace once more, as it was when it came in, at another place. It draws the random numbers
    /// that it drew before, and its ends so far are given back.
    pub(crate) fn again(
        &mut self,
        mut trace: Trace,
        at: NodePort,
        input: &SymbolicInput,
        randoms: u32,
    ) -> (Trace, Vec<PacketEnd>) {
        let st = &mut trace.state;
        st.packet = Some(self.e.incoming(st.inputs.saturating_sub(1), input));
        (st.route, st.running, st.steps, st.laps) = (Route::default(), false, 0, 0);
        (st.past, st.randoms) = (st.entries.len(), randoms);
        st.notices.clear();
        let ends = std::mem::take(&mut st.ends);
        Rc::make_mut(&mut trace.entered).push(Entry::Packet(at, input.clone()));
        (trace, ends)
    }

    /// Whether the time is over that there is for it ([`Limits::time`]).
    pub(crate) fn is_late(&self) -> bool {
        self.e.branch.budget.deadline.is_over()
    }

    /// Notes what entered before what was not explored to its end.
    fn keep_stopped(&mut self, entered: &Rc<Vec<Entry>>) {
        let traces =
            self.e.branch.budget.stopped.drain(..).map(|state| Trace { state, entered: entered.clone() });
        self.stopped.extend(traces);
    }

    /// Some of what was not explored to its end since it was last asked.
    pub(crate) fn take_stopped(&mut self) -> Vec<Trace> {
        std::mem::take(&mut self.stopped)
    }

    /// Goes on with so much time.
    pub(crate) fn allow(&mut self, time: Option<Duration>) {
        self.e.branch.budget.deadline = Deadline::start(time);
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

    /// The same trace if a condition on its packet can hold.
    pub fn assume(&mut self, mut trace: Trace, condition: Expr) -> Option<Trace> {
        self.e.branch.assume(&mut trace.state, condition, true).ok()?;
        Some(trace)
    }

    /// A trace by where all bytes of a packet stand, with the packet as it is then: one, unless the packet was looked at
    /// behind a header whose length is not known.
    pub(crate) fn settled(&mut self, trace: &Trace, packet: &SymbolicPacket) -> Vec<(Trace, SymbolicPacket)> {
        let start = match packet.anchors[..] {
            [] => return vec![(trace.clone(), packet.clone())],
            [start] => start,
            // Each of them has more places than a path splits by.
            _ => {
                self.e.branch.give_up(Incomplete::Values);
                return Vec::new();
            }
        };
        let Some(off) = self.e.branch.x.anchor_of(start).map(|(anchor, _)| anchor.off) else {
            return Vec::new();
        };
        let values = trace.state.facts.set(&self.e.branch.x, off);
        let mut all = Vec::new();
        for (i, v) in values.values().enumerate() {
            if i >= self.e.branch.budget.limits.values {
                self.e.branch.give_up(Incomplete::Values);
                break;
            }
            let is = self.e.branch.x.is(off, v);
            let same = self.e.branch.x.identified(start, packet.source(), v as u32);
            let mut conditions = same.into_iter().chain([is]);
            let trace = conditions.try_fold(trace.clone(), |trace, c| self.assume(trace, c));
            let mut packet = packet.clone();
            packet.settle(&self.e.branch.x, &[(start, v as u32)]);
            all.extend(trace.map(|trace| (trace, packet)));
        }
        all
    }

    /// A trace by where all bytes of the packets that ended stand, if some were written behind a header of unknown length
    /// and the packets cannot be compared otherwise.
    pub(crate) fn comparable(&mut self, trace: Trace) -> Vec<Trace> {
        let packets = || trace.ends().iter().map(|e| &e.packet);
        let alike = packets().all(|p| packets().all(|o| (&p.anchors, p.data) == (&o.anchors, o.data)));
        let anchor = packets().find(|p| !p.anchors.is_empty());
        let Some(packet) = anchor.filter(|_| !alike && packets().any(|p| p.mem.has_behind())).cloned() else {
            return vec![trace];
        };
        let mut all = Vec::new();
        for (mut trace, _) in self.settled(&trace, &packet) {
            let off = |start: &i64| {
                let off = self.e.branch.x.anchor_of(*start).map(|(anchor, _)| anchor.off);
                let off = off.and_then(|off| trace.state.facts.value(&self.e.branch.x, off)).unwrap_or(0);
                (*start, off as u32)
            };
            let offs: Vec<_> = packet.anchors.iter().map(off).collect();
            for end in trace.state.ends.iter_mut().filter(|e| e.packet.anchors == packet.anchors) {
                end.packet.settle(&self.e.branch.x, &offs);
            }
            all.extend(self.comparable(trace));
        }
        all
    }

    /// As [`Session::guard`], of a packet that ended.
    pub(crate) fn guard_of(
        &mut self,
        mut trace: Trace,
        packet: SymbolicPacket,
        guard: Guard,
        wanted: bool,
    ) -> Vec<Trace> {
        let current = trace.state.packet.replace(packet);
        let mut traces = self.guard(trace, guard, wanted);
        traces.iter_mut().for_each(|s| s.state.packet.clone_from(&current));
        traces
    }

    /// The traces in which the current packet does, or does not, what a guard asks for.
    pub fn guard(&mut self, trace: Trace, guard: Guard, wanted: bool) -> Vec<Trace> {
        let Trace { mut state, entered } = trace;
        let node = guard;
        self.e.visited.add(node);
        let (packet, route, at) = (state.packet.clone(), state.route.clone(), state.node);
        let ends = std::mem::take(&mut state.ends);
        let strands = std::mem::take(&mut state.strands);
        let Some(entry) = self.e.node(node).entry(0) else { return Vec::new() };
        let port = u32::from(!wanted);
        *self.e.branch.frontier = Frontier::through(port);
        self.e.place(&mut state, node, entry);
        state.running = true;
        let mut done = self.e.run(Some(state));
        self.keep_stopped(&entered);
        done.retain(|st| st.ends.last().is_some_and(|e| e.how == How::Exit(port)));
        let back = |mut state: Box<State>| {
            // Where its layers are was found out on the path, which stays true.
            state.packet.clone_from(&packet);
            state.route = route.clone();
            (state.ends, state.strands, state.node) = (ends.clone(), strands.clone(), at);
            Trace { state, entered: entered.clone() }
        };
        done.into_iter().map(back).collect()
    }

    /// Lets the current packet of each trace in, and explores all that follows.
    pub fn run(&mut self, traces: Vec<Trace>, watched: &HashSet<NodePort>) -> Outcome {
        self.run_for(Interest::Ends, traces, watched)
    }

    /// As [`Session::run`], where no more need be explored than is of interest.
    pub(crate) fn run_for(
        &mut self,
        interest: Interest,
        traces: Vec<Trace>,
        watched: &HashSet<NodePort>,
    ) -> Outcome {
        *self.e.branch.frontier = Frontier::new(interest, watched.iter().copied());
        let mut outcome = Outcome { arrivals: Vec::new(), ended: Vec::new() };
        for trace in traces {
            let (state, entered) = self.enter(trace.into());
            let ended = self.e.run(state);
            self.keep_stopped(&entered);
            outcome
                .arrivals
                .extend(self.e.branch.frontier.arrivals.drain(..).filter_map(|a| arrival(&entered, a)));
            outcome.ended.extend(ended.into_iter().map(|state| Trace { state, entered: entered.clone() }));
        }
        outcome
    }

    /// Lets the current packet of each trace in, and gives the ends of some paths: of so many at most.
    pub(crate) fn run_some(&mut self, traces: Vec<Trace>, most: usize) -> Vec<Trace> {
        let all = std::mem::replace(&mut self.e.branch.budget.limits.paths, most);
        let ended = self.run(traces, &HashSet::new()).ended;
        self.e.branch.budget.limits.paths = all;
        ended
    }

    /// Lets the current packet of each trace in, and shows what comes to watched places, one by one; keeps nothing else.
    pub fn arrivals(
        &mut self,
        traces: Vec<Trace>,
        watched: &HashSet<NodePort>,
        mut look: impl FnMut(Arrival),
    ) {
        let mut search = self.search_arrivals(traces, watched, None);
        search.cover();
        while let Some(arrival) = self.next_arrival(&mut search) {
            look(arrival);
        }
    }

    /// The state when the packet has come, and what entered. No state: it contradicts itself.
    fn enter(&mut self, entering: Entering) -> (Option<Box<State>>, Rc<Vec<Entry>>) {
        let Entering { at, mut state, entered } = entering;
        let ready = at.map_or(Ok(()), |at| {
            self.e.arrive(&mut state, at).map(|block| {
                state.running = block.is_some();
                state.block = block.unwrap_or(state.block);
            })
        });
        if let Some(place) = self.e.branch.frontier.landed.take() {
            self.e.branch.frontier.arrivals.push_back((place, state));
            return (None, entered);
        }
        (ready.is_ok().then_some(state), entered)
    }

    /// Lets the current packet of each trace in. What comes to a watched place is then given one by one, and explored no
    /// further than that takes. What comes to nodes that are not `useful` is not followed.
    pub(crate) fn search_arrivals(
        &self,
        traces: Vec<Trace>,
        watched: &HashSet<NodePort>,
        useful: Option<Rc<[bool]>>,
    ) -> ArrivalSearch {
        let entering: Vec<Entering> = traces.into_iter().map(Entering::from).collect();
        let frontier = Box::new(Frontier::of_arrivals(watched.iter().copied(), useful));
        ArrivalSearch { entering: entering.into_iter(), entered: Rc::default(), frontier }
    }

    /// As [`Session::search_arrivals`], of packets that were kept on their way after all this had entered.
    pub(crate) fn resume_arrivals(
        &self,
        kept: Vec<InTransit>,
        entered: &[Entry],
        watched: &HashSet<NodePort>,
        useful: Rc<[bool]>,
    ) -> ArrivalSearch {
        let entered = Rc::new(entered.to_vec());
        let entering = |(at, state)| Entering { at: Some(at), state, entered: entered.clone() };
        let entering: Vec<Entering> = kept.into_iter().map(entering).collect();
        let frontier = Box::new(Frontier::of_arrivals(watched.iter().copied(), Some(useful)));
        ArrivalSearch { entering: entering.into_iter(), entered: Rc::default(), frontier }
    }

    /// What comes to a watched place next. Between, the session may be used for anything else.
    pub(crate) fn next_arrival(&mut self, search: &mut ArrivalSearch) -> Option<Arrival> {
        std::mem::swap(&mut self.e.branch.frontier, &mut search.frontier);
        let found = self.advance(search);
        std::mem::swap(&mut self.e.branch.frontier, &mut search.frontier);
        found
    }

    fn advance(&mut self, search: &mut ArrivalSearch) -> Option<Arrival> {
        loop {
            if let Some(a) = self.e.branch.frontier.arrivals.pop_front() {
                let found = arrival(&search.entered, a);
                if found.is_some() {
                    return found;
                }
                continue;
            }
            let step = self.e.step();
            self.keep_stopped(&search.entered);
            if step.is_none() {
                let (state, entered) = self.enter(search.entering.next()?);
                self.e.branch.frontier.begin(state);
                search.entered = entered;
            }
        }
    }

    /// All that the programs of the clock do.
    pub fn timers(&mut self, watched: &HashSet<NodePort>) -> Outcome {
        self.by_clock(watched, |kind| matches!(kind, EntryKind::Timer { .. }))
    }

    /// All that may happen when an entry of a table expires, whatever the entry is: more than can happen.
    pub(crate) fn expiries(&mut self, watched: &HashSet<NodePort>) -> Outcome {
        self.by_clock(watched, |kind| matches!(kind, EntryKind::Expire { .. }))
    }

    fn by_clock(&mut self, watched: &HashSet<NodePort>, wanted: fn(&EntryKind) -> bool) -> Outcome {
        *self.e.branch.frontier = Frontier::new(Interest::Ends, watched.iter().copied());
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
                    .extend(self.e.branch.frontier.arrivals.drain(..).filter_map(|a| arrival(&entered, a)));
                outcome
                    .ended
                    .extend(ended.into_iter().map(|state| Trace { state, entered: entered.clone() }));
            }
        }
        outcome
    }

    /// Whether a packet is the one that a trace is about ([`Trace::sent`]), a copy of it, or an answer to it.
    pub(crate) fn is_sent(&self, trace: &Trace, packet: &SymbolicPacket) -> bool {
        self.is_input(trace.sent(), packet)
    }

    /// Whether a packet is the one that came in with a number, a copy of it, or an answer to it.
    pub(crate) fn is_input(&self, number: u32, packet: &SymbolicPacket) -> bool {
        self.e.branch.x.find_source(&Source::Input(number)) == Some(packet.source())
    }

    /// Whether what is known of a trace contradicts itself, so that no run goes so.
    pub fn is_impossible(&self, trace: &Trace) -> bool {
        !trace.state.facts.clone().sharpen(&self.e.branch.x)
    }

    /// Looks for a run that goes as a trace says. `None`: not found, which proves nothing.
    pub fn solve(&self, trace: &Trace) -> Option<ConcreteInput> {
        match self.decide(trace, Effort::Thorough) {
            Solution::Found(input) => Some(*input),
            Solution::Impossible | Solution::Unknown | Solution::Missing => None,
        }
    }

    /// Looks for a run that goes as a trace says, or a proof that none does.
    pub(crate) fn decide(&self, trace: &Trace, effort: Effort) -> Solution {
        let goal = Goal {
            exprs: &self.e.branch.x,
            facts: &trace.state.facts,
            inputs: trace.state.inputs,
            entry: Entered::Packets,
            whole: false,
        };
        decide(self.e.net, &goal, &self.smt, effort, &self.e.branch.budget.deadline)
    }

    /// Where, since it was last asked, a packet would have taken another path if others had come before it.
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
    pub(crate) fn least_length(&self, trace: &Trace) -> u128 {
        let source =
            trace.state.inputs.checked_sub(1).and_then(|i| self.e.branch.x.find_source(&Source::Input(i)));
        let len = source.and_then(|s| self.e.branch.x.find_symbol(&Symbol::Len(s)));
        len.and_then(|len| trace.state.facts.set(&self.e.branch.x, len).hull()).map_or(0, |(least, _)| least)
    }

    /// The value of an expression in a trace, if only one is left.
    pub(crate) fn value(&self, trace: &Trace, e: Expr) -> Option<u128> {
        trace.state.facts.value(&self.e.branch.x, e)
    }

    /// Whether a condition holds in a trace, if that is known.
    pub fn truth(&self, trace: &Trace, condition: Expr) -> Option<bool> {
        trace.state.facts.truth(&self.e.branch.x, condition)
    }
}
