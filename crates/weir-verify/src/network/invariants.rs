//! What packets of anybody leave in a network in which something is assumed to stand in tables. It takes long to find out, is
//! the same for all requirements, and so is found once.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use crate::explore::frontier::Interest;
use crate::explore::input::SymbolicInput;
use crate::explore::invariant::TableInvariant;
use crate::explore::path::{Incomplete, Limits};
use crate::explore::session::Session;
use crate::network::{NodeId, NodePort};

/// Most answers that are kept.
const MOST: usize = 64;

/// Between two looks whether somebody else is still at it.
const PAUSE: Duration = Duration::from_millis(1);

/// The answers so far. A copy of a network finds it for itself.
#[derive(Debug, Default)]
pub(crate) struct FoundInvariants(Mutex<Vec<Answered>>);

/// A question, and its answer.
#[derive(Debug)]
struct Answered {
    /// The age that the network had.
    age: u64,
    question: Question,
    /// `None`: not everything could be explored.
    after: Option<After>,
    /// The nodes that packets came to.
    visited: Vec<NodeId>,
    /// The walks that it took.
    walks: usize,
}

/// A question about a network.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    /// Where packets come in.
    starts: Vec<(NodePort, SymbolicInput)>,
    invariant: TableInvariant,
    limits: Limits,
}

/// The content of tables after packets of anybody.
#[derive(Debug, Clone)]
pub(crate) struct After {
    /// What was assumed, and what packets left.
    pub(crate) invariant: TableInvariant,
    /// Whether that is more.
    pub(crate) more: bool,
}

impl Clone for FoundInvariants {
    fn clone(&self) -> FoundInvariants {
        FoundInvariants::default()
    }
}

impl Session<'_> {
    /// What may stand in tables after packets that come in at these places, if this is assumed to stand there before.
    /// `None`: not everything could be explored.
    pub(crate) fn after_others(
        &mut self,
        starts: Vec<(NodePort, SymbolicInput)>,
        invariant: TableInvariant,
    ) -> Option<After> {
        let (net, limits) = (self.e.net, self.e.branch.budget.limits);
        let question = Question { starts, invariant, limits: Limits { time: None, ..limits } };
        // Who asks the same meanwhile waits for the answer.
        let mut known = self.wait_for(&net.found_invariants)?;
        known.retain(|f| f.age == net.age());
        let at = known.iter().position(|f| f.question == question);
        if at.is_none() {
            // With limits of its own: the answer is not to depend on who asks first.
            let mut session = Session::new(net, limits);
            session.e.branch.budget.deadline = self.e.branch.budget.deadline;
            let (after, why) = session.explore_others(&question);
            self.e.branch.budget.followed += session.e.branch.budget.followed;
            if why == Some(Incomplete::Time) {
                self.give_up(Incomplete::Time);
                return None;
            }
            known.truncate(MOST - 1);
            let (visited, walks) = (session.visited(), session.e.branch.budget.walks);
            known.insert(0, Answered { age: net.age(), question, after, visited, walks });
        }
        let found = &known[at.unwrap_or(0)];
        found.visited.iter().for_each(|n| self.e.visited.add(*n));
        // As if it had gone them itself.
        self.e.branch.budget.walks += found.walks;
        found.after.clone()
    }

    /// What was found so far, when nobody else looks for more. `None`: the time is over.
    fn wait_for<'n>(
        &mut self,
        found_invariants: &'n FoundInvariants,
    ) -> Option<MutexGuard<'n, Vec<Answered>>> {
        loop {
            match found_invariants.0.try_lock() {
                Ok(found) => return Some(found),
                Err(TryLockError::Poisoned(found)) => return Some(found.into_inner()),
                Err(TryLockError::WouldBlock) if self.is_late() => {
                    self.give_up(Incomplete::Time);
                    return None;
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn explore_others(&mut self, q: &Question) -> (Option<After>, Option<Incomplete>) {
        self.assume_in_tables(Some(q.invariant.clone()));
        let (blank, mut ended, nowhere) = (self.blank(), Vec::new(), HashSet::new());
        for (place, input) in &q.starts {
            let traces = self.packet(&blank, *place, input).into_iter().collect();
            ended.extend(self.run_for(Interest::Entries, traces, &nowhere).ended);
        }
        let mut invariant = q.invariant.clone();
        let more = self.add_to(&mut invariant, &ended);
        let why = self.take_incomplete();
        (why.is_none().then_some(After { invariant, more }), why)
    }
}
