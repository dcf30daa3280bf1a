//! What packets can reach: places, rules, reasons of drops.
//!
//! That something is reached is shown by a packet that was replayed. That it is not is said only at the end of an
//! exploration that left nothing out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::histories::{Looked, Others};
use super::{Checker, Doubt, Evidence, Search, Start, THOROUGH};
use crate::explore::path::How;
use crate::explore::session::{Arrival, Guard};
use crate::explore::trace::Trace;
use crate::network::{NodeId, NodePort};
use crate::solve::replay::{Counted, Replay, matches};

/// How many paths are tried before it is left open whether a place is reached.
const TRIES: u32 = 8;
/// Most paths to an element on which its rules are asked about.
const ARRIVALS: usize = 512;
/// Most histories that it is repeated after.
const HISTORIES: usize = 16;
/// How many searches may find nothing before z3 is no longer asked.
const ASKED: usize = 4;
/// Most paths on which a packet may fail to match all rules so far.
const PATHS: usize = 64;

/// RuleList of an element, in the order in which they count: of those that match a packet the first decides.
#[derive(Debug, Clone)]
pub struct RuleList {
    /// The input that they are for.
    pub place: NodePort,
    /// The rules.
    pub guards: Vec<Guard>,
}

/// The answer to whether a packet can come there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It was seen there.
    Yes,
    /// No packet can.
    No,
    /// Not known.
    Unknown,
}

/// A reason for which packets are dropped somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Where.
    pub node: NodeId,
    /// Name of the reason.
    pub reason: String,
    /// Number in [`Coverage::runs`] of a run that shows it; `None`: there may be one.
    pub run: Option<usize>,
}

/// The places that packets can reach.
#[derive(Debug, Default)]
pub struct Coverage {
    reached: HashSet<NodePort>,
    maybe: HashSet<NodePort>,
    /// For each of the [`RuleList`], whether a packet can come to its rules.
    pub rules: Vec<Vec<Reach>>,
    /// Where packets are dropped.
    pub drops: Vec<Dropped>,
    /// Runs that show drops.
    pub runs: Vec<Evidence>,
    /// Why not everything is known.
    pub doubt: Option<Doubt>,
}

impl Coverage {
    /// Whether a packet can come to a place.
    pub fn place(&self, place: NodePort) -> Reach {
        if self.reached.contains(&place) {
            Reach::Yes
        } else if self.doubt.is_some() || self.maybe.contains(&place) {
            Reach::Unknown
        } else {
            Reach::No
        }
    }
}

type Key = (NodeId, String);

/// The answers so far.
#[derive(Default)]
struct Answers {
    reached: HashSet<NodePort>,
    /// Of places and drops that were not seen yet, how often it was tried.
    tried: HashMap<NodePort, u32>,
    tried_drops: BTreeMap<Key, u32>,
    drops: BTreeMap<Key, usize>,
    runs: Vec<Evidence>,
    rules: Vec<Vec<Reach>>,
    arrivals: Vec<usize>,
}

/// Finds out what packets from some places can reach.
pub fn coverage(c: &mut Checker<'_>, starts: &[Start], rules: &[RuleList]) -> Coverage {
    let watched: HashSet<NodePort> = rules.iter().map(|r| r.place).collect();
    let mut known = Answers {
        rules: rules.iter().map(|r| vec![Reach::No; r.guards.len()]).collect(),
        arrivals: vec![0; rules.len()],
        ..Answers::default()
    };
    // What it looks at is all that packets of anybody may do.
    let look = |c: &mut Checker<'_>, before: &Trace| {
        if before.is_blank() {
            known.tick(c, rules, &watched);
            c.unknown = THOROUGH - ASKED;
        }
        let mut all = Vec::new();
        for start in starts {
            let traces = c.launch(before, start, None);
            let outcome = c.session.run(traces, &watched);
            for trace in outcome.ended.iter().filter(|s| s.uses_all_others()) {
                known.look(c, trace, before.ends().len());
            }
            for arrival in outcome.arrivals.iter().filter(|a| a.trace.uses_all_others()) {
                for (i, r) in rules.iter().enumerate().filter(|(_, r)| r.place == arrival.place) {
                    known.ask(c, i, r, arrival);
                }
            }
            all.extend(outcome.ended);
        }
        // All histories count, not only those for all of a kind.
        Looked { found: Search::Unknown, ended: Some(all) }
    };
    c.histories(HISTORIES, Others::Looked, look);
    let maybe = known.tried.into_keys().filter(|p| !known.reached.contains(p)).collect();
    let seen = known.drops.into_iter().map(|(key, run)| (key, Some(run)));
    let mut drops: BTreeMap<Key, Option<usize>> = known.tried_drops.into_keys().map(|k| (k, None)).collect();
    drops.extend(seen);
    let drops = drops.into_iter().map(|((node, reason), run)| Dropped { node, reason, run });
    let doubt = c.doubt(false);
    let open = |r: Reach| if r == Reach::No && doubt.is_some() { Reach::Unknown } else { r };
    Coverage {
        reached: known.reached,
        maybe,
        rules: known.rules.into_iter().map(|list| list.into_iter().map(open).collect()).collect(),
        drops: drops.collect(),
        runs: known.runs,
        doubt,
    }
}

impl Answers {
    /// What the clock makes happen is taken to be possible: it is not tried.
    fn tick(&mut self, c: &mut Checker<'_>, rules: &[RuleList], watched: &HashSet<NodePort>) {
        for outcome in [c.session.timers(watched), c.session.expiries(watched)] {
            for e in outcome.ended.iter().flat_map(Trace::ends) {
                for p in e.route.places() {
                    *self.tried.entry(p).or_default() += 1;
                }
                if let How::Drop(_, r) = &e.how {
                    *self.tried_drops.entry((e.node, r.name().to_owned())).or_default() += 1;
                }
            }
            for arrival in outcome.arrivals {
                for (i, _) in rules.iter().enumerate().filter(|(_, r)| r.place == arrival.place) {
                    self.rules[i].fill(Reach::Unknown);
                }
            }
        }
    }

    /// Looks at where a path leads, if some of it was not seen yet.
    fn look(&mut self, c: &mut Checker<'_>, trace: &Trace, from: usize) {
        let ends = &trace.ends()[from..];
        let places: BTreeSet<NodePort> = ends.iter().flat_map(|e| e.route.places()).collect();
        let drops: BTreeSet<Key> = ends
            .iter()
            .filter_map(|e| match &e.how {
                How::Drop(_, r) => Some((e.node, r.name().to_owned())),
                _ => None,
            })
            .collect();
        let open = |tried: Option<&u32>| tried.is_none_or(|n| *n < TRIES);
        let unseen = places.iter().any(|p| !self.reached.contains(p) && open(self.tried.get(p)))
            || drops.iter().any(|d| !self.drops.contains_key(d) && open(self.tried_drops.get(d)));
        if !unseen {
            return;
        }
        match c.search(trace, |_| true) {
            Search::Found(e) => {
                c.unknown = c.unknown.saturating_sub(1);
                self.see(*e);
            }
            Search::Impossible => return,
            Search::Unknown => {}
        }
        for p in places.into_iter().filter(|p| !self.reached.contains(p)) {
            *self.tried.entry(p).or_default() += 1;
        }
        for d in drops.into_iter().filter(|d| !self.drops.contains_key(d)) {
            *self.tried_drops.entry(d).or_default() += 1;
        }
    }

    /// Takes note of all that a run came by.
    fn see(&mut self, e: Evidence) {
        let mut shows = false;
        for hop in &e.replay.hops {
            self.reached.insert(hop.place);
            for left in &hop.after {
                if let How::Drop(_, reason) = &left.how {
                    let key = (hop.place.node, reason.name().to_owned());
                    let run = self.runs.len();
                    shows |= *self.drops.entry(key).or_insert(run) == run;
                }
            }
        }
        if shows {
            self.runs.push(e);
        }
    }

    /// Asks the rules of an element about what comes to it on a path.
    fn ask(&mut self, c: &mut Checker<'_>, i: usize, rules: &RuleList, arrival: &Arrival) {
        let state = &mut self.rules[i];
        let Some(last) = state.iter().rposition(|r| *r != Reach::Yes) else { return };
        self.arrivals[i] += 1;
        let unknown = |list: &mut [Reach]| {
            list.iter_mut().filter(|r| **r == Reach::No).for_each(|r| *r = Reach::Unknown);
        };
        if self.arrivals[i] > ARRIVALS {
            unknown(state);
            return;
        }
        let net = c.net;
        let mut traces = vec![arrival.trace.clone()];
        for (n, &guard) in rules.guards.iter().enumerate().take(last + 1) {
            if state[n] != Reach::Yes {
                let decides = |r: &Replay| {
                    let first = |p| rules.guards[..=n].iter().position(|&g| matches(net, g, p)) == Some(n);
                    r.arrived_last(Counted::All).any(|(place, p)| place == rules.place && first(p))
                };
                for trace in &traces {
                    let matching = c.session.guard(trace.clone(), guard, true);
                    match c.search_all(matching, decides) {
                        Search::Found(_) => {
                            c.unknown = c.unknown.saturating_sub(1);
                            state[n] = Reach::Yes;
                            break;
                        }
                        Search::Unknown => state[n] = Reach::Unknown,
                        Search::Impossible => {}
                    }
                }
            }
            traces = traces.into_iter().flat_map(|s| c.session.guard(s, guard, false)).collect();
            traces.retain(|s| !c.session.is_impossible(s));
            if traces.len() > PATHS {
                unknown(&mut state[n + 1..]);
                return;
            }
        }
    }
}
