//! The other workers' parts of graphs, as the router of the first sees them.

use std::sync::Arc;

use super::Router;
use super::runtime::Runtime;

/// Other workers, who stand still as long as this is held.
pub(crate) trait Others {
    /// The highest number of any; 0: there are none. One between may be missing, if its thread has ended.
    fn last_worker(&self) -> usize;
    /// The router of a graph on a worker, and what its graphs share there.
    fn parts(&mut self, worker: usize, slot: usize) -> Option<(&mut Router, &mut Runtime)>;
}

/// Nobody.
impl Others for () {
    fn last_worker(&self) -> usize {
        0
    }

    fn parts(&mut self, _worker: usize, _slot: usize) -> Option<(&mut Router, &mut Runtime)> {
        None
    }
}

/// Whoever has the other workers.
pub(crate) trait Lender: Send + Sync {
    /// Lends them until the answer is dropped; `None` if they are lent already.
    fn lend(self: Arc<Self>) -> Option<Box<dyn Others>>;
}
