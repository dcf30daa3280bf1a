//! An exploration in progress: what is still to be followed, and what was found.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use rustc_hash::FxHashSet;
use weir_ir::program::BlockId;

use crate::explore::Explorer;
use crate::explore::merge::Met;
use crate::explore::path::{How, Incomplete};
use crate::explore::session::InTransit;
use crate::explore::state::State;
use crate::explore::subsumption::SeenPaths;
use crate::network::effects::{Effects, leaves_by};
use crate::network::{NodeId, NodePort};

/// A path that ended unseen counts as one part of so many of a path.
const IGNORED: usize = 64;

/// How many walks there may be for each path that there may be: those that contradict themselves late, or are given up,
/// end as no path.
const WALKS: usize = 16;

/// The results that are of interest, beside packets that come to watched places.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// All ends of all paths.
    #[default]
    Ends,
    /// The ends of paths that made entries.
    Entries,
    /// Nothing: what becomes of a packet behind the last of those places does not matter.
    Arrivals,
}

/// A proof takes the place of many histories: it may have so many times as many paths.
const PROOF: usize = 8;

/// How many walks the explorations of a session may make together for each path that one may have.
const ALL_WALKS: usize = 64;

/// An exploration in progress.
#[derive(Debug, Default)]
pub(crate) struct Frontier {
    /// The last is followed first.
    #[expect(clippy::vec_box, reason = "they are large, and go from hand to hand")]
    pub(crate) work: Vec<Box<State>>,
    /// The paths that came to the head of a loop.
    pub(crate) met: HashMap<(NodeId, BlockId), Vec<Met>>,
    /// Places at which packets are looked at.
    pub(crate) watched: FxHashSet<NodePort>,
    /// By node whether what comes there can matter. `None`: everything does.
    pub(crate) useful: Option<Rc<[bool]>>,
    /// The paths that came to a watched place, as they were then.
    pub(crate) arrivals: VecDeque<(NodePort, Box<State>)>,
    /// What else is looked at.
    pub(crate) interest: Interest,
    /// What may become of packets in the one node that is explored, if not all of it is looked at.
    pub(crate) wanted: Option<Effects>,
    /// The watched place that the path which was cut had come to, with nothing behind it.
    pub(crate) landed: Option<NodePort>,
    /// The packets as they came to places, if they are to be kept.
    pub(crate) kept: Option<Vec<InTransit>>,
    /// The paths that came to inputs, if one may stand for others.
    pub(crate) paths: Option<SeenPaths>,
    /// How much of [`crate::Limits::paths`] is used up, in parts of a path.
    spent: usize,
    /// Walks so far.
    walks: usize,
}

impl Frontier {
    /// One that looks at packets at some places.
    pub(crate) fn new(interest: Interest, watched: impl IntoIterator<Item = NodePort>) -> Frontier {
        Frontier { interest, watched: watched.into_iter().collect(), ..Frontier::default() }
    }

    /// One that looks at nothing else, and follows what comes to `useful` nodes.
    pub(crate) fn of_arrivals(
        watched: impl IntoIterator<Item = NodePort>,
        useful: Option<Rc<[bool]>>,
    ) -> Frontier {
        Frontier { useful, ..Frontier::new(Interest::Arrivals, watched) }
    }

    /// One through a single node, that looks at nothing but packets that leave it by an output.
    pub(crate) fn through(port: u32) -> Frontier {
        Frontier { interest: Interest::Arrivals, wanted: Some(leaves_by(port)), ..Frontier::default() }
    }

    /// Starts afresh with a state, or with nothing.
    pub(crate) fn begin(&mut self, state: Option<Box<State>>) {
        self.work.clear();
        self.work.reserve(8);
        self.work.extend(state);
        self.met.clear();
        if let Some(paths) = &mut self.paths {
            paths.clear();
        }
        (self.spent, self.walks) = (0, 0);
    }

    /// Whether what comes to a node has no effect on what is looked at.
    pub(crate) fn is_ignored(&self, node: NodeId) -> bool {
        self.useful.as_ref().is_some_and(|u| !u[node as usize])
    }
}

/// The result of a step.
pub(crate) enum Step {
    /// A path is at its end.
    End(Box<State>),
    /// A path stopped, or went on as others.
    Cut,
}

impl Explorer<'_> {
    /// The ends of all paths from a state.
    #[expect(clippy::vec_box, reason = "they are large, and go from hand to hand")]
    pub(crate) fn run(&mut self, state: Option<Box<State>>) -> Vec<Box<State>> {
        self.branch.frontier.begin(state);
        let mut done = Vec::with_capacity(8);
        while let Some(step) = self.step() {
            if let Step::End(st) = step {
                done.push(st);
            }
        }
        done
    }

    /// Follows the next path. `None`: there is none.
    pub(crate) fn step(&mut self) -> Option<Step> {
        // What is assumed is for proofs, and there is none where something was left out.
        if self.tables.invariant.is_some() && self.branch.budget.incomplete.is_some() {
            self.branch.frontier.work.clear();
        }
        let mut st = self.branch.frontier.work.pop()?;
        self.branch.frontier.walks += 1;
        self.branch.budget.walks += 1;
        let paths = self.branch.budget.limits.paths.saturating_mul(if self.tables.invariant.is_some() {
            PROOF
        } else {
            1
        });
        let late = self.branch.budget.deadline.is_over();
        let many = self.branch.frontier.spent >= paths.saturating_mul(IGNORED)
            || self.branch.frontier.walks > paths.saturating_mul(WALKS)
            || self.branch.budget.walks > self.branch.budget.limits.paths.saturating_mul(ALL_WALKS);
        let complete = self.branch.budget.incomplete.is_none() && self.tables.invariant.is_none();
        if late || many {
            self.branch.give_up(if late { Incomplete::Time } else { Incomplete::Paths });
            self.branch.frontier.work.clear();
            if complete {
                self.branch.budget.stopped.push(st);
            }
            return None;
        }
        self.branch.budget.followed += 1;
        let walked = self.walk(&mut st);
        self.note_stopped(complete, &st);
        if walked.is_err() {
            if let Some(place) = self.branch.frontier.landed.take() {
                self.branch.frontier.spent += IGNORED;
                self.branch.frontier.arrivals.push_back((place, st));
            }
            return Some(Step::Cut);
        }
        // Where nobody looks, many paths end soon.
        self.branch.frontier.spent += if st.ignored && st.ends.is_empty() { 1 } else { IGNORED };
        Some(Step::End(st))
    }

    /// Keeps a path that was just followed, if it made the exploration incomplete, or ends where nothing is known.
    fn note_stopped(&mut self, was_complete: bool, st: &State) {
        let is_first = was_complete && self.branch.budget.incomplete.is_some();
        let ends_unknown = || st.ends.iter().any(|e| e.how == How::Opaque);
        if self.tables.invariant.is_none() && (is_first || ends_unknown()) {
            self.branch.budget.keep_stopped(st);
        }
    }
}
