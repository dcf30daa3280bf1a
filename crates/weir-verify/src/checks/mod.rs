//! Requirements: what packets from some places may do elsewhere, one file each.
//!
//! Every "yes, such a packet exists" is a packet that was replayed through the interpreter; every "no, none" is the end
//! of an exploration that left nothing out. What is neither is inconclusive, with the reason.

mod again;
mod all;
mod can;
mod compare;
mod coverage;
mod field;
mod headers;
mod histories;
mod invariant;
mod invariants;
mod near_miss;
mod never;
mod noloops;
mod only;
mod plain;
mod returns;
mod security;
mod seek;
mod sites;
mod standing;
mod stopped;

use std::collections::HashSet;
use std::fmt;

pub use again::Meta;
pub use again::Shows;
pub(crate) use again::{declared, meta_of, set_meta};
pub use all::{Assumptions, all};
pub use can::can;
pub use compare::{Compared, Comparison, Difference, Ended, Fate, Twin, compare};
pub use coverage::{Coverage, Dropped, Reach, RuleList, coverage};
pub use field::{Bits, Field};
pub use invariant::invariant;
pub use near_miss::near_miss;
pub use never::never;
pub use noloops::noloops;
pub use only::only;
pub use returns::{ReturnPath, returns};
pub use security::{Allowed, Module, Prefix, Rule, Rules, Security, Stage, secure};
pub use standing::Standing;
pub use stopped::{Explored, Stopped};

use weir_packet::Packet;

use crate::explore::input::SymbolicInput;
use crate::explore::path::{Incomplete, Limits};
use crate::explore::session::{Arrival, Entry, Guard, Session};
use crate::explore::trace::Trace;
use crate::network::{Network, NodeId, NodePort};
use crate::solve::replay::{Counted, Replay, matches, replay};
use crate::solve::{ConcreteInput, Effort, Solution};

/// The first header of packets at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// They start with the network header.
    Ip,
    /// They start with an Ethernet header.
    Ethernet,
}

/// A place that packets come from: the input that they enter the network by.
#[derive(Debug, Clone)]
pub struct Start {
    /// The input.
    pub place: NodePort,
    /// What packets look like there.
    pub framing: Framing,
    /// What is known of them.
    pub input: SymbolicInput,
    /// Only those are meant that this matches as they come in.
    pub only: Option<Guard>,
}

/// A place that packets may come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// The input.
    pub place: NodePort,
    /// What packets look like there.
    pub framing: Framing,
    /// Only those are meant that this matches there.
    pub only: Option<Guard>,
}

/// Which packets are meant: a guard for each framing. `None`: those that are framed so all match.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter {
    /// For packets that start with the network header.
    pub ip: Option<Guard>,
    /// For Ethernet frames.
    pub ethernet: Option<Guard>,
}

/// The packets and places that a requirement speaks of.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// SRC.
    pub from: Vec<Start>,
    /// DST.
    pub to: Vec<Target>,
    /// Nodes to pass, in order; any of each set.
    pub via: Vec<Vec<NodeId>>,
    /// FILTER, for the framings that there are at SRC and DST.
    pub filter: Filter,
    /// Packets of SRC that do not match this are not meant.
    pub sent: Filter,
    /// Where packets of others may come from, which may have left something in tables.
    pub others: Vec<Start>,
}

impl Start {
    /// All packets of a kind that enter by an input.
    pub fn new(place: NodePort, framing: Framing, input: SymbolicInput) -> Start {
        Start { place, framing, input, only: None }
    }
}

impl Target {
    /// All packets that come to an input.
    pub fn new(place: NodePort, framing: Framing) -> Target {
        Target { place, framing, only: None }
    }
}

/// The answer.
#[derive(Debug)]
pub enum Verdict {
    /// It holds; if it says that a packet exists, this is one.
    Holds(Option<Box<Evidence>>),
    /// It does not hold; if there is a packet that shows it, this is one.
    Violated(Option<Box<Evidence>>),
    /// Not known.
    Inconclusive(Doubt),
}

/// The reason for which an answer is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// Not everything was explored.
    Incomplete(Incomplete),
    /// There may be a packet, but none was found.
    Unsolved,
    /// There may be a packet, but none was found, and z3, which may decide it, is not installed.
    NoZ3,
}

impl Doubt {
    /// The node of which too little is known.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Doubt::Incomplete(why) => why.node(),
            Doubt::Unsolved | Doubt::NoZ3 => None,
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Incomplete(why) => write!(f, "not everything was explored: {why}"),
            Doubt::Unsolved => f.write_str("there may be such a packet, but the solver found none"),
            Doubt::NoZ3 => f.write_str(
                "there may be such a packet, but none was found; the program z3 is not installed, and may decide it",
            ),
        }
    }
}

/// A run that shows something.
#[derive(Debug)]
pub struct Evidence {
    /// What enters, in order; the last is what the requirement speaks of, unless it is about a reply.
    pub entered: Vec<Entry>,
    /// The packets that come in, as they are then.
    pub packets: Vec<Vec<u8>>,
    /// Metadata of each, in the order of [`weir_ir::program::MetaField::ALL`].
    pub meta: Vec<Meta>,
    /// The time in nanoseconds.
    pub now: u64,
    /// Random numbers in the order in which they are drawn.
    pub randoms: Vec<u32>,
    /// The seed of hashes.
    pub hash_seed: u64,
    /// What happens.
    pub replay: Replay,
}

impl Evidence {
    /// The same with other numbers of nodes.
    #[must_use]
    pub fn renumbered(mut self, to: impl Fn(NodeId) -> NodeId) -> Evidence {
        for entry in &mut self.entered {
            match entry {
                Entry::Packet(at, _) => at.node = to(at.node),
                Entry::Timer(node, _) => *node = to(*node),
            }
        }
        self.replay.hops.iter_mut().for_each(|h| h.place.node = to(h.place.node));
        self
    }
}

/// The result of a search for a run.
pub(crate) enum Search {
    Found(Box<Evidence>),
    /// There is none.
    Impossible,
    Unknown,
}

/// The state of checks on a network.
#[derive(Debug)]
pub struct Checker<'a> {
    pub(crate) net: &'a Network,
    pub(crate) session: Session<'a>,
    /// Something could not be solved, and z3 was not there to ask.
    no_z3: bool,
    /// Tables are assumed to hold anything: what is found then need not be.
    proving: bool,
    /// How many searches of the check in progress found nothing.
    unknown: usize,
    /// Only what is found at once is looked for.
    quick: bool,
    recorder: standing::Recorder,
    not_tried: bool,
    explored: Explored,
    /// The first of which it is not known whether a run goes so.
    unsolved: Option<Trace>,
    /// The first run that would show something if a node that guesses did as it does there.
    guessed: Option<Box<Evidence>>,
}

/// How many searches may find nothing before z3 is no longer asked.
const THOROUGH: usize = 8;
/// How many searches may find nothing before no more are made.
const TRIED: usize = 256;

impl<'a> Checker<'a> {
    /// A checker for a network.
    pub fn new(net: &'a Network, limits: Limits) -> Checker<'a> {
        let session = Session::new(net, limits);
        Checker {
            net,
            session,
            no_z3: false,
            proving: false,
            unknown: 0,
            quick: false,
            recorder: standing::Recorder::default(),
            not_tried: false,
            explored: Explored::default(),
            unsolved: None,
            guessed: None,
        }
    }

    /// Whether a check so far looked at no longer sequences of packets of others, although such may leave more in tables:
    /// one after another thanks to what the last one left, or in place of what is evicted.
    pub fn not_tried(&self) -> bool {
        self.not_tried
    }

    /// The nodes that packets came to in the checks so far.
    pub fn visited(&self) -> Vec<NodeId> {
        self.session.visited()
    }

    /// The packets of SRC after what happened before, and of those only which match the filter there, or do not.
    pub(crate) fn launch(
        &mut self,
        before: &Trace,
        start: &Start,
        filter: Option<(&Filter, bool)>,
    ) -> Vec<Trace> {
        let Some(trace) = self.session.packet(before, start.place, &start.input) else { return Vec::new() };
        let meant = match start.only {
            None => vec![trace],
            Some(guard) => self.session.guard(trace, guard, true),
        };
        let Some((filter, wanted)) = filter else { return meant };
        meant.into_iter().flat_map(|trace| self.filtered(trace, start.framing, filter, wanted)).collect()
    }

    /// The traces whose packet matches, or does not.
    pub(crate) fn filtered(
        &mut self,
        trace: Trace,
        framing: Framing,
        filter: &Filter,
        wanted: bool,
    ) -> Vec<Trace> {
        match filter.guard(framing) {
            None if wanted => vec![trace],
            None => Vec::new(),
            Some(guard) => self.session.guard(trace, guard, wanted),
        }
    }

    /// Looks for a run that goes as a trace says and, replayed, shows what is asked for.
    pub(crate) fn search(&mut self, trace: &Trace, shown: impl Fn(&Replay) -> bool) -> Search {
        let found = self.search_by(trace, replay, shown);
        if matches!(found, Search::Unknown) && !self.proving && self.unsolved.is_none() {
            self.unsolved = Some(trace.clone());
        }
        found
    }

    /// The same, where `run` says how what enters is replayed.
    fn search_by(
        &mut self,
        trace: &Trace,
        run: fn(&Network, &[Entry], ConcreteInput) -> Replay,
        shown: impl Fn(&Replay) -> bool,
    ) -> Search {
        let found = self.find_run(trace, run, shown);
        let Search::Found(e) = found else { return found };
        let Some(node) = guessed(self.net, &e.replay) else { return Search::Found(e) };
        self.session.give_up(Incomplete::Guess(node));
        self.guessed.get_or_insert(e);
        Search::Unknown
    }

    /// The same, also where nodes guess.
    fn find_run(
        &mut self,
        trace: &Trace,
        run: fn(&Network, &[Entry], ConcreteInput) -> Replay,
        shown: impl Fn(&Replay) -> bool,
    ) -> Search {
        if self.proving {
            return if self.session.is_impossible(trace) { Search::Impossible } else { Search::Unknown };
        }
        if self.session.is_late() {
            self.session.give_up(Incomplete::Time);
            return Search::Unknown;
        }
        // Many that are not decided do not become an answer by more of the same.
        if self.unknown >= TRIED {
            return Search::Unknown;
        }
        let effort = match self.unknown {
            _ if self.quick => Effort::Quick,
            0..THOROUGH => Effort::Thorough,
            _ => Effort::Usual,
        };
        self.unknown += 1;
        let strong = self.session.strengthened(trace).map(|trace| self.session.decide(&trace, effort));
        let solution = match strong {
            Some(Solution::Found(input)) => Solution::Found(input),
            _ => self.session.decide(trace, effort),
        };
        let input = match solution {
            Solution::Found(input) => *input,
            Solution::Impossible => {
                self.unknown -= 1;
                return Search::Impossible;
            }
            Solution::Unknown => {
                if self.session.is_late() {
                    self.session.give_up(Incomplete::Time);
                }
                return Search::Unknown;
            }
            Solution::Missing => {
                self.no_z3 = true;
                return Search::Unknown;
            }
        };
        let first = evidence_of(self.net, trace.entered(), input, run);
        if !shown(&first.replay) {
            return Search::Unknown;
        }
        let plainer = self.plainer(trace).into_iter().find_map(|trace| {
            let Solution::Found(input) = self.session.decide(&trace, Effort::Usual) else { return None };
            Some(evidence_of(self.net, trace.entered(), *input, run)).filter(|e| shown(&e.replay))
        });
        Search::Found(Box::new(plainer.unwrap_or(first)))
    }

    /// The doubt that remains when nothing was found: `unsolved` says whether something could not be solved.
    pub(crate) fn doubt(&mut self, unsolved: bool) -> Option<Doubt> {
        let incomplete = self.session.take_incomplete();
        let missing = std::mem::take(&mut self.no_z3);
        self.unknown = 0;
        let open = if missing { Doubt::NoZ3 } else { Doubt::Unsolved };
        incomplete.map(Doubt::Incomplete).or(unsolved.then_some(open))
    }
}

/// The first node that a packet comes to of which it is known only in part what it does.
fn guessed(net: &Network, r: &Replay) -> Option<NodeId> {
    r.hops.iter().map(|h| h.place.node).find(|n| net.node(*n).guesses)
}

/// What happens when something enters that was solved.
fn evidence_of(
    net: &Network,
    entered: &[Entry],
    input: ConcreteInput,
    run: fn(&Network, &[Entry], ConcreteInput) -> Replay,
) -> Evidence {
    let (now, randoms, hash_seed) = (input.now, input.randoms.clone(), input.hash_seed);
    let packets = input.packets.iter().map(|p| p.bytes().to_vec()).collect();
    let meta = input.packets.iter().map(meta_of).collect();
    let entered = entered.to_vec();
    let replay = run(net, &entered, input);
    Evidence { entered, packets, meta, now, randoms, hash_seed, replay }
}

impl Filter {
    pub(crate) fn guard(&self, framing: Framing) -> Option<Guard> {
        match framing {
            Framing::Ip => self.ip,
            Framing::Ethernet => self.ethernet,
        }
    }
}

impl Query {
    pub(crate) fn watched(&self) -> HashSet<NodePort> {
        self.to.iter().map(|t| t.place).collect()
    }

    pub(crate) fn target_at(&self, place: NodePort) -> Option<&Target> {
        self.to.iter().find(|t| t.place == place)
    }

    pub(crate) fn framing_at(&self, place: NodePort) -> Framing {
        self.target_at(place).map_or(Framing::Ip, |t| t.framing)
    }

    /// An arrival at DST, as far as its packet is one that is meant there.
    pub(crate) fn meant(&self, c: &mut Checker<'_>, arrival: Arrival) -> Vec<Arrival> {
        let Some(guard) = self.target_at(arrival.place).and_then(|t| t.only) else { return vec![arrival] };
        let Arrival { place, packet, trace } = arrival;
        let traces = c.session.guard(trace, guard, true);
        traces.into_iter().map(|trace| Arrival { place, packet: packet.clone(), trace }).collect()
    }

    /// The packets that came to DST because of what entered last, of those that count and are meant there.
    pub(crate) fn arrived<'r>(
        &self,
        net: &Network,
        replay: &'r Replay,
        counted: Counted,
    ) -> impl Iterator<Item = (&Target, &'r Packet)> {
        replay
            .arrived_last(counted)
            .filter_map(|(place, packet)| Some((self.meant_at(net, place, packet)?, packet)))
    }

    /// The place of DST that a packet came to, if it is meant there.
    pub(crate) fn meant_at(&self, net: &Network, place: NodePort, packet: &Packet) -> Option<&Target> {
        self.target_at(place).filter(|t| t.only.is_none_or(|guard| matches(net, guard, packet)))
    }

    /// Looks for a run by which a packet of a kind comes to DST.
    pub(crate) fn search(&self, c: &mut Checker<'_>, arrival: Arrival, shows: Shows) -> Search {
        let net = c.net;
        if shows == Shows::Any {
            return c.search(&arrival.trace, |r| self.shown(net, r, shows));
        }
        let framing = self.framing_at(arrival.place);
        let traces = c.filtered(arrival.trace, framing, &self.filter, shows == Shows::Matching);
        c.search_all(traces, |r| self.shown(net, r, shows))
    }

    /// Whether a packet came by all that it has to.
    pub(crate) fn came_by(&self, arrival: &Arrival) -> bool {
        self.via_all(&arrival.trace.route().places())
    }

    /// Whether all that is to be passed is among the places, in order.
    pub(crate) fn via_all(&self, places: &[NodePort]) -> bool {
        let mut left = places.iter();
        self.via.iter().all(|set| left.any(|p| set.contains(&p.node)))
    }

    /// Whether a packet that entered last came to DST and did, or did not, match there.
    pub(crate) fn arrives(&self, net: &Network, replay: &Replay, counted: Counted, wanted: bool) -> bool {
        self.arrived(net, replay, counted).any(|(target, packet)| match self.filter.guard(target.framing) {
            None => wanted,
            Some(guard) => matches(net, guard, packet) == wanted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_z3_is_told_that_it_may_decide() {
        let net = Network::default();
        let mut c = Checker::new(&net, Limits::default());
        c.no_z3 = true;
        let doubt = c.doubt(true);
        assert_eq!(doubt, Some(Doubt::NoZ3));
        assert!(doubt.is_some_and(|d| d.to_string().contains("z3 is not installed")));
        assert_eq!(c.doubt(true), Some(Doubt::Unsolved));
        assert_eq!(c.doubt(false), None);
    }
}
