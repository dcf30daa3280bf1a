//! What was found of all packets of a source, kept with how far they came: after a change of a node only what comes there
//! is explored again.

use std::rc::Rc;

use super::{Checker, Query, Search, Shows, Start};
use crate::explore::path::Limits;
use crate::explore::session::{ArrivalSearch, Entry, InTransit};
use crate::model::expr::Exprs;
use crate::network::{Network, NodeId};

/// A proof of `only` or `never` that can be renewed: the packets on their way.
pub struct Standing {
    x: Exprs,
    kept: Kept,
}

/// The packets of one source.
#[derive(Debug)]
struct Kept {
    in_transit: Vec<InTransit>,
    entered: Vec<Entry>,
    /// The nodes from which they may come to DST.
    useful: Rc<[bool]>,
}

impl std::fmt::Debug for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standing").field("kept", &self.kept.in_transit.len()).finish_non_exhaustive()
    }
}

/// Gathers what a check keeps.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    wanted: bool,
    found: Option<Kept>,
    /// It takes more than the packets of one source, on a network that nothing came to before.
    invalid: bool,
}

impl Recorder {
    /// Notes that what others may have left in tables counts.
    pub(super) fn invalidate(&mut self) {
        self.invalid = true;
    }

    pub(super) fn begin(&mut self, search: &mut ArrivalSearch) {
        self.invalid |= self.found.is_some();
        if self.wanted && !self.invalid {
            search.keep();
        }
    }

    pub(super) fn add(&mut self, search: ArrivalSearch, start: &Start, useful: &Rc<[bool]>) {
        if self.wanted && !self.invalid {
            let entered = vec![Entry::Packet(start.place, start.input.clone())];
            self.found = Some(Kept { in_transit: search.into_kept(), entered, useful: useful.clone() });
        }
    }
}

impl Checker<'_> {
    /// Keeps, in the check that follows, packets on their way, for [`Checker::standing`].
    pub fn keep(&mut self) {
        self.recorder.wanted = true;
    }

    /// What was kept of a check of `only` or `never` that holds. `None`: it takes more than the packets of one source, on a
    /// network that nothing came to before.
    pub fn standing(self) -> Option<Standing> {
        let kept = self.recorder.found.filter(|_| !self.recorder.invalid)?;
        Some(Standing { x: self.session.into_exprs(), kept })
    }
}

impl Standing {
    /// Whether what held, of a query by packets of a kind that there were none of, still does after some nodes changed:
    /// their programs or tables, or where their outputs lead; and the nodes that packets came to in finding that out. `None`:
    /// perhaps not, or it takes another exploration to know.
    pub fn renew(
        self,
        net: &Network,
        limits: Limits,
        (q, shows): (&Query, Shows),
        changed: &[NodeId],
    ) -> Option<(Standing, Vec<NodeId>)> {
        let Kept { in_transit, entered, useful } = self.kept;
        let is_same = net.leading_to(q.to.iter().map(|t| t.place.node)) == useful;
        if !is_same || changed.iter().any(|n| net.sharing(*n).next().is_some()) {
            return None;
        }
        let stays = |(_, state): &InTransit| !changed.iter().any(|n| state.meets(*n));
        let (again, mut in_transit): (Vec<_>, Vec<_>) =
            in_transit.into_iter().filter(stays).partition(|(at, _)| changed.contains(&at.node));
        let mut c = Checker::new(net, limits);
        c.session.resume(self.x);
        let mut search = c.session.resume_arrivals(again, &entered, &q.watched(), useful.clone());
        search.keep();
        let found = c.each_arrival(&mut search, |c, arrival| {
            let number = arrival.trace.sent();
            let Some(arrival) = c.counted(arrival, shows.counted(), number) else {
                return Search::Impossible;
            };
            let meant = q.meant(c, arrival);
            c.any(meant, |c, arrival| q.search(c, arrival, shows))
        });
        if !matches!(found, Search::Impossible)
            || c.doubt(false).is_some()
            || c.session.take_missed().somewhere
        {
            return None;
        }
        in_transit.extend(search.into_kept());
        let visited = c.visited();
        let kept = Kept { in_transit, entered, useful };
        Some((Standing { x: c.session.into_exprs(), kept }, visited))
    }
}
