//! Networks: all paths of a packet through one, held against runs of it.

use std::collections::HashSet;

use weir_ir::MetaField;
use weir_packet::Provenance;

use super::SEED;
use crate::checks::{Meta, declared};
use crate::explore::frontier::Interest;
use crate::explore::input::SymbolicInput;
use crate::explore::path::{How, Incomplete, Limits};
use crate::explore::session::{Arrival, Entry, Outcome, Session};
use crate::explore::trace::Trace;
use crate::model::expr::Expr;
use crate::model::packet::meta_number;
use crate::network::{Network, NodeId, NodePort};
use crate::solve::eval::Evaluator;
use crate::solve::replay::{Counted, Replay, replay};
use crate::solve::{ConcreteInput, Effort, Solution};

/// How packets end, sorted: at which node, how, and their bytes then.
type Ends = Vec<(NodeId, String, Vec<u8>, bool)>;

/// All paths of packets through a network whose tables begin as declared.
pub struct Paths<'a> {
    net: &'a Network,
    session: Session<'a>,
    /// What comes in.
    entered: Vec<Entry>,
    traces: Vec<Trace>,
    /// Why there may be more.
    pub incomplete: Option<Incomplete>,
}

impl std::fmt::Debug for Paths<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Paths").field("traces", &self.traces.len()).finish_non_exhaustive()
    }
}

impl<'a> Paths<'a> {
    /// The paths of packets that come in at these places, one after the other.
    pub fn new(net: &'a Network, places: &[NodePort], input: &SymbolicInput, limits: Limits) -> Paths<'a> {
        let mut session = Session::new(net, limits);
        let (mut traces, mut incomplete) = (vec![session.blank()], None);
        for &at in places {
            let mut next = Vec::new();
            for trace in &traces {
                if next.len() > limits.paths {
                    incomplete = Some(Incomplete::Paths);
                    break;
                }
                let entering = session.packet(trace, at, input).into_iter().collect();
                next.extend(session.run(entering, &HashSet::new()).ended);
            }
            traces = next;
        }
        let entered = places.iter().map(|&at| Entry::Packet(at, input.clone())).collect();
        let incomplete = incomplete.or(session.take_incomplete());
        Paths { net, session, entered, traces, incomplete }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.traces.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// Runs the packets, and checks that the run takes one of the paths and ends as it says.
    ///
    /// # Panics
    /// If it does not.
    pub fn assert_taken(&self, packets: &[Vec<u8>], randoms: &[u32]) {
        self.assert_taken_with(packets, &[], randoms);
    }

    /// The same for packets with metadata.
    ///
    /// # Panics
    /// If it does not.
    pub fn assert_taken_with(&self, packets: &[Vec<u8>], meta: &[Meta], randoms: &[u32]) {
        let input = start(self.net, &self.entered, packets, meta, randoms);
        let run = input.run(self.net);
        let mut eval = Evaluator::of_run(self.session.known_exprs(), &run);
        let mut said: Vec<Ends> = Vec::new();
        for s in &self.traces {
            if s.conditions().iter().all(|&c| eval.eval(c) != 0) {
                said.push(predicted(&mut eval, s));
            }
        }
        let again = start(self.net, &self.entered, packets, meta, randoms);
        let seen = seen(self.net, &replay(self.net, &self.entered, again));
        assert!(
            said.contains(&seen),
            "{packets:02x?} with {meta:?} went {seen:02x?}; {} paths say {said:02x?}",
            said.len()
        );
    }

    /// Solves each path, runs the solution, and checks that it ends as the path says. The packets of those that were
    /// solved, and how many were not.
    ///
    /// # Panics
    /// If a solution takes another path.
    pub fn assert_replayed(&self) -> (Vec<Vec<Vec<u8>>>, usize) {
        let (mut solved, mut open) = (Vec::new(), 0);
        for s in &self.traces {
            let mut input = match self.session.decide(s, Effort::Usual) {
                Solution::Found(input) => *input,
                Solution::Impossible => continue,
                Solution::Unknown | Solution::Missing => {
                    open += 1;
                    continue;
                }
            };
            let packets: Vec<Vec<u8>> = input.packets.iter().map(|p| p.bytes().to_vec()).collect();
            make_tables(self.net, &mut input);
            let said = predicted(&mut Evaluator::of_run(self.session.known_exprs(), &input.run(self.net)), s);
            let seen = seen(self.net, &replay(self.net, &self.entered, input));
            assert_eq!(seen, said, "{packets:02x?}");
            solved.push(packets);
        }
        (solved, open)
    }
}

/// Lets packets in at these places, one after the other, with and without the paths on which a packet is only lost, and
/// checks that all others are the same. How many paths there are, and how many were not followed. `None` if not all was
/// explored.
///
/// # Panics
/// If they are not.
pub fn assert_losses_are_only_losses(
    net: &Network,
    places: &[NodePort],
    watched: &HashSet<NodePort>,
    limits: Limits,
) -> Option<(usize, usize)> {
    let mut session = Session::new(net, limits);
    let (mut traces, mut paths, mut left_out) = (vec![session.blank()], 0, 0);
    for &at in places {
        let mut next = Vec::new();
        for trace in &traces {
            let entering: Vec<Trace> = session.packet(trace, at, &SymbolicInput::ip()).into_iter().collect();
            // Which bytes are one is said of those that were looked at before: here of all.
            session.run(entering.clone(), watched);
            let all = session.run(entering.clone(), watched);
            let with_entries = session.run_for(Interest::Entries, entering.clone(), watched);
            let arriving = session.run_for(Interest::Arrivals, entering, watched);
            session.take_incomplete().is_none().then_some(())?;
            let arrived = |o: &Outcome| -> Vec<(NodePort, Vec<Expr>)> {
                o.arrivals.iter().map(|a| (a.place, a.trace.conditions())).collect()
            };
            assert_eq!(arrived(&all), arrived(&with_entries));
            assert_eq!(arrived(&all), arrived(&arriving));
            let made = |o: &Outcome| -> Vec<Vec<Expr>> {
                let made = o.ended.iter().filter(|s| !s.made_since(trace).is_empty());
                made.map(Trace::conditions).collect()
            };
            assert_eq!(made(&all), made(&with_entries));
            paths += all.ended.len();
            left_out += all.ended.len() - with_entries.ended.len();
            next.extend(all.ended);
        }
        traces = next;
    }
    Some((paths, left_out))
}

/// Arrivals at places, where paths that others stand for are not followed.
pub struct Arrivals<'a> {
    net: &'a Network,
    session: Session<'a>,
    entered: Vec<Entry>,
    watched: HashSet<NodePort>,
    found: Vec<Arrival>,
}

impl std::fmt::Debug for Arrivals<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrivals").field("found", &self.found.len()).finish_non_exhaustive()
    }
}

impl<'a> Arrivals<'a> {
    /// What comes to watched places of packets that come in at one. `None` if not all was explored.
    pub fn new(
        net: &'a Network,
        at: NodePort,
        input: &SymbolicInput,
        limits: Limits,
        watched: HashSet<NodePort>,
    ) -> Option<Arrivals<'a>> {
        let mut session = Session::new(net, limits);
        let traces = session.packet(&session.blank(), at, input).into_iter().collect();
        let mut found = Vec::new();
        session.arrivals(traces, &watched, |a| found.push(a));
        let entered = vec![Entry::Packet(at, input.clone())];
        session.take_incomplete().is_none().then_some(Arrivals { net, session, entered, watched, found })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Runs a packet, and checks that wherever it arrives, an arrival says that it can, with some of these lists of random
    /// numbers. How often it arrived.
    ///
    /// # Panics
    /// If none does.
    pub fn assert_found(&self, packet: &[u8], randoms: &[Vec<u32>]) -> usize {
        let packets = [packet.to_vec()];
        let mut arrived = HashSet::new();
        for list in randoms {
            let run = replay(self.net, &self.entered, start(self.net, &self.entered, &packets, &[], list));
            let there = run.arrived_last(Counted::All).filter(|(p, _)| self.watched.contains(p));
            arrived.extend(there.map(|(place, p)| (place, p.bytes().to_vec())));
        }
        let mut said = HashSet::new();
        for list in randoms.iter().filter(|_| !arrived.is_empty()) {
            let input = start(self.net, &self.entered, &packets, &[], list);
            let run = input.run(self.net);
            let mut eval = Evaluator::of_run(self.session.known_exprs(), &run);
            for a in &self.found {
                if a.trace.conditions().iter().all(|&c| eval.eval(c) != 0) {
                    said.insert((a.place, eval.packet(&a.packet).bytes));
                }
            }
        }
        assert_eq!(arrived, said, "{packet:02x?}");
        arrived.len()
    }
}

/// Packets about to come into a network whose tables, all of which are there, have their declared contents.
fn start(
    net: &Network,
    entered: &[Entry],
    packets: &[Vec<u8>],
    meta: &[Meta],
    randoms: &[u32],
) -> ConcreteInput {
    let mut input = declared(entered, packets, meta, randoms).expect("packets are not too long");
    make_tables(net, &mut input);
    ConcreteInput { hash_seed: SEED, ..input }
}

/// Makes the tables that are not there.
fn make_tables(net: &Network, input: &mut ConcreteInput) {
    for t in 0..net.table_count() {
        input.tables.number(net, t, |_, _| true).expect("declarations and rows are right");
    }
}

/// What a trace says about its packets' ends.
fn predicted(eval: &mut Evaluator<'_>, s: &Trace) -> Ends {
    let ends = s.ends().iter().filter(|e| e.how != How::Held);
    let mut all: Ends = ends
        .map(|e| {
            let packet = eval.packet(&e.packet);
            let made = packet.meta[meta_number(MetaField::Provenance)] == Provenance::Made as u128;
            end(e.node, &e.how, packet.bytes, made)
        })
        .collect();
    all.sort();
    all
}

/// How the packets of a run ended.
fn seen(net: &Network, r: &Replay) -> Ends {
    let goes_on = |node: NodeId, how: &How| match how {
        How::Exit(port) => net.node(node).outputs.get(*port as usize).copied().flatten().is_some(),
        _ => false,
    };
    let lefts = r.hops.iter().flat_map(|h| h.after.iter().map(|l| (h.place.node, l)));
    let ends = lefts.filter(|(node, l)| l.how != How::Held && !goes_on(*node, &l.how));
    let mut all: Ends =
        ends.map(|(node, l)| end(node, &l.how, l.bytes.clone(), l.provenance == Provenance::Made)).collect();
    all.sort();
    all
}

fn end(node: NodeId, how: &How, bytes: Vec<u8>, made: bool) -> (NodeId, String, Vec<u8>, bool) {
    // A packet that waited ends when the last of a run is done, wherever that is.
    let node = if *how == How::Orphaned { 0 } else { node };
    (node, format!("{how:?}"), bytes, made)
}
