//! What a check came to that did not come to an answer.

use std::fmt;
use std::time::Duration;

use super::{Checker, Doubt, Evidence, Search};
use crate::explore::path::{How, Incomplete};
use crate::explore::trace::Trace;
use crate::network::{NodeId, NodePort};
use crate::solve::replay::Replay;

/// Time to look for an example when the time of the check is over.
const EXAMPLE: Duration = Duration::from_millis(300);

/// The extent of a search, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Explored {
    /// Paths, or parts of some, that were followed.
    pub paths: usize,
    /// Packets at DST that were looked at.
    pub arrivals: usize,
    /// Sequences of packets of others after which it was asked again.
    pub histories: usize,
}

/// The place where a check could not go on.
#[derive(Debug)]
pub struct Stopped {
    /// The node.
    pub node: NodeId,
    /// The places that the packet came by, in order.
    pub path: Vec<NodePort>,
    /// A run that goes there, if one was found.
    pub example: Option<Box<Evidence>>,
}

impl Explored {
    /// Adds what another check did.
    pub fn add(&mut self, other: Explored) {
        self.paths += other.paths;
        self.arrivals += other.arrivals;
        self.histories += other.histories;
    }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        write!(f, "{}, {} at the destination", some(self.paths, "path"), some(self.arrivals, "packet"))?;
        if self.histories > 0 {
            write!(f, "; after {} of packets that came before", some(self.histories, "sequence"))?;
        }
        Ok(())
    }
}

impl Checker<'_> {
    /// How far the checks so far went.
    pub fn explored(&self) -> Explored {
        Explored { paths: self.session.followed(), ..self.explored }
    }

    /// Where the last check could not go on, and a packet that comes there, for a doubt that it left.
    pub fn stopped(&mut self, doubt: &Doubt) -> Option<Stopped> {
        let traces = self.session.take_stopped();
        let (unsolved, guessed) = (self.unsolved.take(), self.guessed.take());
        let Doubt::Incomplete(why) = doubt else {
            let trace = unsolved?;
            let path = path(&trace);
            return Some(Stopped { node: path.last()?.node, path, example: None });
        };
        if let Incomplete::Guess(node) = *why {
            let hops = guessed.iter().flat_map(|e| &e.replay.hops).map(|h| h.place);
            let path = hops.take_while(|p| p.node != node).collect();
            return Some(Stopped { node, path, example: guessed });
        }
        // That is no part of the answer.
        self.unknown = super::THOROUGH;
        if self.session.is_late() {
            self.session.allow(Some(EXAMPLE));
        }
        let mut traces = traces.iter().filter(|trace| match why {
            Incomplete::Opaque(node) => ends_at(trace, *node),
            _ => true,
        });
        let first = traces.clone().next()?;
        let shown = |r: &Replay| match why {
            Incomplete::Opaque(node) => r.hops.iter().any(|h| h.place.node == *node),
            _ => true,
        };
        let example =
            traces.find_map(|trace| match self.find_run(trace, crate::solve::replay::replay, shown) {
                Search::Found(e) => Some(e),
                Search::Impossible | Search::Unknown => None,
            });
        self.doubt(false);
        let path = path(first);
        let node = match why {
            Incomplete::Opaque(node) => *node,
            _ => path.last().map_or(first.state.node, |p| p.node),
        };
        Some(Stopped { node, path, example })
    }
}

fn ends_at(trace: &Trace, node: NodeId) -> bool {
    trace.ends().iter().any(|e| e.how == How::Opaque && e.node == node)
}

/// Where the packet that came last is, or ended.
fn path(trace: &Trace) -> Vec<NodePort> {
    let own = trace.route().places();
    match trace.ends().last() {
        Some(end) if own.is_empty() => end.route.places(),
        _ => own,
    }
}
