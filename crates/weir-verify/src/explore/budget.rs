//! How far explorations go, and where they gave up.

use crate::explore::deadline::Deadline;
use crate::explore::path::{Incomplete, Limits};
use crate::explore::state::State;

/// Most paths that are kept that were not followed to their end.
const STOPPED: usize = 8;

/// The limits of a session's explorations, and what they took.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) limits: Limits,
    /// Says when the time is over.
    pub(crate) deadline: Deadline,
    /// Why something was not explored: the first reason.
    pub(crate) incomplete: Option<Incomplete>,
    /// Walks of all explorations so far, as far as they count against what a check may take.
    pub(crate) walks: usize,
    /// Paths, or parts of some, that were followed so far.
    pub(crate) followed: usize,
    /// What was not explored to its end first: paths as far as they were followed.
    #[expect(clippy::vec_box, reason = "they are large, and go from hand to hand")]
    pub(crate) stopped: Vec<Box<State>>,
}

impl Budget {
    /// Nothing is used up; the time begins now.
    pub(crate) fn new(limits: Limits) -> Budget {
        let deadline = Deadline::start(limits.time);
        Budget { limits, deadline, incomplete: None, walks: 0, followed: 0, stopped: Vec::new() }
    }

    /// Notes that something was not explored.
    pub(crate) fn give_up(&mut self, why: Incomplete) {
        self.incomplete = self.incomplete.or(Some(why));
    }

    /// Keeps a path that could not be followed to its end, if there are not enough.
    pub(crate) fn keep_stopped(&mut self, st: &State) {
        if self.stopped.len() < STOPPED {
            self.stopped.push(Box::new(st.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_to_give_up_is_told() {
        let mut budget = Budget::new(Limits::default());
        assert_eq!(budget.incomplete, None);
        budget.give_up(Incomplete::Paths);
        budget.give_up(Incomplete::Time);
        assert_eq!(budget.incomplete, Some(Incomplete::Paths));
    }
}
