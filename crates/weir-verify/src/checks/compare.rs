//! What two networks do differently with the same packets.
//!
//! Both are explored from the same symbolic packet: the second on each path of the first, under what is assumed there.
//! So a path through both is a pair of paths that one packet can take, and pairs that no packet takes are never looked at.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

use weir_packet::{Packet, Provenance};

use super::histories::{Looked, Others};
use super::{Checker, Doubt, Evidence, Filter, Search, Start, THOROUGH};
use crate::explore::path::{How, Incomplete, PacketEnd};
use crate::explore::trace::Trace;
use crate::model::expr::Expr;
use crate::model::packet::SymbolicPacket;
use crate::network::{Network, NodeId};
use crate::solve::replay::{Replay, matches, replay_twice};

/// Most differing bytes of a packet that are each looked at.
const BYTES: usize = 64;
/// Most histories that it is repeated after.
const HISTORIES: usize = 16;
/// How many bytes at the front are compared where one side took away or added some.
const FRONT: i64 = 128;

/// The same entry, in both networks.
#[derive(Debug, Clone)]
pub struct Twin {
    /// In the first.
    pub before: Start,
    /// In the second: framing and input are the same.
    pub after: Start,
}

/// The end of a packet, for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fate {
    /// Equal texts are equal fates.
    pub text: String,
    /// Whether it also counts what the packet was then.
    pub whole: bool,
}

/// A comparison of two networks in one ([`Network::append`]).
pub struct Comparison<'a> {
    /// Where packets come in.
    pub twins: &'a [Twin],
    /// Packets that match this are looked at first.
    pub first: Filter,
    /// What to call the end of a packet: of one that came in, or an answer, or (`true`) of one that an element made.
    pub fate: &'a dyn Fn(NodeId, &How, bool) -> Fate,
    /// Whether a node of the first network does as its counterpart in the second, and leads to counterparts; true for nodes
    /// of the second.
    pub same: &'a dyn Fn(NodeId) -> bool,
    /// Most differences that are shown.
    pub limit: usize,
}

impl std::fmt::Debug for Comparison<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comparison").field("twins", &self.twins).finish_non_exhaustive()
    }
}

/// A packet that is treated differently.
#[derive(Debug)]
pub struct Difference {
    /// Number of the twin by which it comes in.
    pub twin: usize,
    /// The run: everything enters twice, in the first network and then in the second. The last two are the packet.
    pub evidence: Box<Evidence>,
    /// What becomes of it in the first.
    pub before: Vec<Ended>,
    /// What becomes of it in the second.
    pub after: Vec<Ended>,
    /// It matches [`Comparison::first`].
    pub is_first: bool,
}

/// A packet, or a copy of it, that ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ended {
    /// How.
    pub fate: Fate,
    /// Its bytes then, if they count.
    pub bytes: Vec<u8>,
    /// Whether it is none that came in, but one that an element made.
    pub made: bool,
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Compared {
    /// One packet for each class: where it comes in, what becomes of it in both.
    pub differences: Vec<Difference>,
    /// Why there may be more.
    pub doubt: Option<Doubt>,
    /// Numbers of the twins for which there was no time.
    pub open: BTreeSet<usize>,
    /// Whether the limit was reached.
    pub more: bool,
}

impl Compared {
    /// Adds the packet of a class.
    fn add(&mut self, net: &Network, twin: usize, mut d: Difference, q: &Comparison<'_>) {
        d.twin = twin;
        d.is_first = q.is_first(net, &q.twins[twin], &d.evidence);
        self.differences.push(d);
        self.more = self.differences.len() >= q.limit;
    }
}

/// A path through both networks.
struct Both {
    trace: Trace,
    /// Ends from here are those of the first network, and from there those of the second.
    ends: (usize, usize),
}

/// The difference that a path through both can show.
struct Showing {
    /// What is the same for all packets of a class.
    class: (usize, Vec<Fate>, Vec<Fate>, Vec<i64>),
    /// Packets on which one of these holds show it; `None`: all do, or it is to be tried.
    conditions: Option<Vec<Expr>>,
    /// Other conditions may show it too.
    more: bool,
}

/// Looks for packets that are treated differently by two networks.
pub fn compare<'a>(c: &mut Checker<'a>, q: &Comparison<'_>) -> Compared {
    let mut out = Compared::default();
    let mut known = HashSet::new();
    // Classes of which no packet was found, though there may be some.
    let mut unsolved = HashSet::new();
    let mut follow = |c: &mut Checker<'a>, before: &Trace| {
        let mut all = Vec::new();
        for twin in q.twins {
            _ = c.each_pair(before, twin, None, &|_| false, &mut |_, both| {
                all.push(both.trace);
                ControlFlow::Continue(())
            });
        }
        all
    };
    let look = |c: &mut Checker<'_>, before: &Trace| {
        let passes = [Some(&q.first), None]
            .into_iter()
            .flat_map(|only| q.twins.iter().enumerate().map(move |t| (only, t)));
        for (only, (i, twin)) in passes {
            if out.more || c.session.is_late() {
                out.open.extend(before.is_blank().then_some(i));
                continue;
            }
            // Where others had already come to what differs, equal nodes may have different tables.
            let mut places = before.ends().iter().flat_map(|e| e.route.places());
            let alike = places.all(|p| (q.same)(p.node));
            let same: &dyn Fn(NodeId) -> bool = if alike { q.same } else { &|_| false };
            // One entry is not to spend what others need; and z3 is asked where nothing came before.
            c.unknown = if before.is_blank() { 0 } else { c.unknown.max(THOROUGH) };
            // What is found at once first: of a class, one packet is enough.
            let mut later = Vec::new();
            c.quick = true;
            _ = c.each_pair(before, twin, only, same, &mut |c, both| {
                if both.trace.uses_all_others()
                    && let Some(showing) = c.showing(i, &both, q)
                    && !known.contains(&showing.class)
                {
                    match c.search_both(&both, &showing, q) {
                        Ok(Some(d)) => {
                            known.insert(showing.class);
                            out.add(c.net, i, d, q);
                        }
                        Ok(None) => {}
                        Err(()) => later.push((both, showing)),
                    }
                }
                if out.more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            c.quick = false;
            for (both, showing) in later {
                if out.more || c.session.is_late() {
                    break;
                }
                if known.contains(&showing.class) {
                    continue;
                }
                if unsolved.contains(&showing.class) {
                    // z3 was asked about such packets before.
                    c.unknown = c.unknown.max(THOROUGH);
                }
                match c.search_both(&both, &showing, q) {
                    Ok(Some(d)) => {
                        known.insert(showing.class);
                        out.add(c.net, i, d, q);
                    }
                    Ok(None) => {}
                    Err(()) => _ = unsolved.insert(showing.class),
                }
            }
            if c.session.is_late() && before.is_blank() {
                out.open.insert(i);
            }
        }
        // All histories count, not only those for all of a kind.
        Looked { found: Search::Unknown, ended: None }
    };
    c.histories(HISTORIES, Others::By(&mut follow), look);
    if c.session.is_late() {
        c.session.give_up(Incomplete::Time);
    }
    let open = unsolved.iter().any(|class| !known.contains(class));
    out.doubt = c.doubt(open);
    out
}

impl Checker<'_> {
    /// Shows the paths of the next packet (of those that match, if `only` these) through both networks, but for those on which
    /// it comes only to nodes that are the same; each as soon as it is found, as long as there is time.
    fn each_pair(
        &mut self,
        before: &Trace,
        twin: &Twin,
        only: Option<&Filter>,
        same: &dyn Fn(NodeId) -> bool,
        look: &mut dyn FnMut(&mut Self, Both) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (nowhere, from, drawn) = (HashSet::new(), before.ends().len(), before.randoms());
        let traces = self.launch(before, &twin.before, only.map(|filter| (filter, true)));
        for trace in self.session.run(traces, &nowhere).ended {
            if self.session.is_late() {
                return ControlFlow::Break(());
            }
            let ends = trace.ends().iter().skip(from);
            let alike = ends.flat_map(|e| e.route.places()).all(|p| same(p.node));
            if alike || self.session.is_impossible(&trace) {
                continue;
            }
            let randoms = trace.randoms();
            let (second, ends) = self.session.again(trace, twin.after.place, &twin.after.input, drawn);
            let split = ends.len();
            for trace in self.session.run(vec![second], &nowhere).ended {
                let trace = trace.after(ends.clone(), randoms);
                for trace in self.session.comparable(trace) {
                    look(self, Both { trace, ends: (from, split) })?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// How a path can show a difference; `None` if it surely shows none.
    fn showing(&mut self, twin: usize, both: &Both, q: &Comparison<'_>) -> Option<Showing> {
        let (from, split) = both.ends;
        let mut sides = [Vec::new(), Vec::new()];
        for (i, e) in both.trace.ends().iter().enumerate().skip(from) {
            let made = e.packet.is(self.session.known_exprs(), Provenance::Made) == Some(true);
            sides[usize::from(i >= split)].push(((q.fate)(e.node, &e.how, made), e));
        }
        sides.iter_mut().for_each(|s| s.sort_by(|a, b| a.0.cmp(&b.0)));
        let [before, after] = sides;
        let fates = |s: &[(Fate, &PacketEnd)]| s.iter().map(|(f, _)| f.clone()).collect::<Vec<_>>();
        let mut class = (twin, fates(&before), fates(&after), Vec::new());
        if class.1 != class.2 {
            return Some(Showing { class, conditions: None, more: false });
        }
        let (mut conditions, mut more) = (Vec::new(), false);
        for ((fate, a), (_, b)) in before.iter().zip(&after) {
            if !fate.whole || a.packet == b.packet {
                continue;
            }
            if a.packet.source() != b.packet.source() {
                return Some(Showing { class, conditions: None, more: true });
            }
            more |= self.differing(&a.packet, &b.packet, &mut conditions, &mut class.3);
        }
        if conditions.is_empty() && !more {
            return None;
        }
        Some(Showing { class, conditions: Some(conditions), more })
    }

    /// Adds the conditions on which two packets differ, with the positions that they are about. Whether others may, too.
    fn differing(
        &mut self,
        a: &SymbolicPacket,
        b: &SymbolicPacket,
        conditions: &mut Vec<Expr>,
        positions: &mut Vec<i64>,
    ) -> bool {
        let x = self.session.exprs();
        let mut add = |x: &mut crate::Exprs, differ: Expr, at: i64| {
            if x.constant_value(differ) != Some(0) && !conditions.contains(&differ) {
                conditions.push(differ);
                positions.push(at);
            }
        };
        let (len, other) = (a.len(x), b.len(x));
        let equal = x.equal(len, other);
        let differ = x.not(equal);
        add(x, differ, -1);
        let shifted = a.data != b.data;
        // Relative to the first byte, of those that may differ. What is written behind an anchor is so in packets whose
        // first bytes are at one position, so it is the same distance in both.
        let mut at: BTreeSet<i64> = [a, b]
            .into_iter()
            .flat_map(|p| p.mem.writes.keys().map(|at| at - p.data).collect::<Vec<_>>())
            .filter(|at| *at >= 0)
            .collect();
        if shifted {
            at.extend(0..FRONT);
        }
        let many = at.len();
        let mut taken = 0;
        for i in at {
            let (one, two) = (a.byte(x, a.data + i), b.byte(x, b.data + i));
            if one == two {
                continue;
            }
            taken += 1;
            if taken > BYTES {
                return true;
            }
            let equal = x.equal(one, two);
            let differ = x.not(equal);
            // A byte behind the end is none.
            let inside = a.reaches(x, a.data + i + 1);
            let seen = x.both(differ, inside);
            add(x, seen, i);
        }
        shifted && many > 0
    }

    /// A packet that takes a path and is treated differently there. `Err`: there may be one.
    fn search_both(
        &mut self,
        both: &Both,
        showing: &Showing,
        q: &Comparison<'_>,
    ) -> Result<Option<Difference>, ()> {
        let mut open = showing.more;
        let traces: Vec<Trace> = match &showing.conditions {
            None => vec![both.trace.clone()],
            Some(list) => {
                let trace = |&e: &Expr| self.session.assume(both.trace.clone(), e);
                list.iter().filter_map(trace).collect()
            }
        };
        let net = self.net;
        let ends = |r: &Replay| {
            let starts = r.starts.len();
            let part = |i: usize, to: usize| ended(net, r, r.starts[i], to, q.fate);
            let (one, two) = (starts.checked_sub(2)?, starts - 1);
            Some((part(one, r.starts[two]), part(two, r.hops.len())))
        };
        let differ = |r: &Replay| ends(r).is_some_and(|(a, b)| a != b);
        // All conditions are tried before z3 is asked about one of them.
        let budget = self.unknown;
        self.unknown = budget.max(THOROUGH);
        let mut left = Vec::new();
        let mut found = None;
        for trace in traces {
            match self.search_by(&trace, replay_twice, differ) {
                Search::Found(e) => {
                    found = Some(e);
                    break;
                }
                Search::Impossible => {}
                Search::Unknown => left.push(trace),
            }
        }
        self.unknown = budget;
        if self.quick {
            open |= !left.is_empty();
        } else if found.is_none() {
            for trace in left {
                match self.search_by(&trace, replay_twice, differ) {
                    Search::Found(e) => {
                        // What is found is no sign that more cannot be.
                        self.unknown = budget;
                        found = Some(e);
                        break;
                    }
                    Search::Impossible => {}
                    Search::Unknown => open = true,
                }
            }
        }
        if let Some(evidence) = found {
            let (before, after) = ends(&evidence.replay).unwrap_or_default();
            return Ok(Some(Difference { twin: 0, evidence, before, after, is_first: false }));
        }
        if open { Err(()) } else { Ok(None) }
    }
}

impl Comparison<'_> {
    /// Whether the packet that a run shows is one of those that are looked at first.
    fn is_first(&self, net: &Network, twin: &Twin, e: &Evidence) -> bool {
        let bytes = e.packets.last().and_then(|bytes| Packet::from_bytes(bytes).ok());
        let guard = self.first.guard(twin.before.framing);
        bytes.zip(guard).is_none_or(|(packet, guard)| matches(net, guard, &packet))
    }
}

/// How the packets of some hops of a run ended, in the order of their fates.
fn ended(
    net: &Network,
    r: &Replay,
    from: usize,
    to: usize,
    fate: &dyn Fn(NodeId, &How, bool) -> Fate,
) -> Vec<Ended> {
    let mut out = Vec::new();
    for hop in r.hops.get(from..to).unwrap_or_default() {
        let node = hop.place.node;
        for left in &hop.after {
            let on = match left.how {
                How::Exit(port) => net.node(node).outputs.get(port as usize).copied().flatten().is_some(),
                _ => false,
            };
            if !on {
                let made = left.provenance == Provenance::Made;
                let fate = fate(node, &left.how, made);
                let bytes = if fate.whole { left.bytes.clone() } else { Vec::new() };
                out.push(Ended { fate, bytes, made });
            }
        }
    }
    out.sort();
    out
}
