use super::{Checker, Query, Verdict};

/// `never SRC DST FILTER`: no packet from SRC that matches FILTER at SRC arrives at DST.
pub fn never(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let watched = q.watched();
    let found = c.seek(q, Some(&q.filter), &watched, |c, _, outcome| {
        c.any(outcome.arrivals, |c, arrival| {
            c.search(&arrival.story, |r| r.arrived_last().any(|(p, _)| watched.contains(&p)))
        })
    });
    c.none(found)
}
